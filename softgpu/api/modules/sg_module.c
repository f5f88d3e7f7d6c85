/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: code bound to the addresses of its variables in one context.
 */
#include "sg_module.h"

#include "ptx_ast.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_mem.h"

#include "gp_err.h"
#include "gp_list.h"
#include "gp_log.h"

#include <stdlib.h>
#include <string.h>

static CUresult
global_alloc(struct sg_ctx *ctx, const struct sg_global *g, struct sg_alloc **ret)
{
    uint64_t size = gp_max(g->size, (uint64_t)1); /* an empty array has an address */
    CUresult rc;

    if (g->managed)
        rc = sg_mem_new_managed(ctx, size, CU_MEM_ATTACH_GLOBAL, ret);
    else
        rc = sg_mem_new(ctx, size, ret);
    if (rc == CUDA_SUCCESS)
        (*ret)->internal = true;
    return rc;
}

/* A managed variable of a library is one, whatever card its kernels run on, and lives
 * as long as the library. */
static struct sg_alloc **
global_shared(const struct sg_module *mod, uint32_t i)
{
    const struct sg_global *g = sg_prog_global(mod->code->prog, i);

    return mod->library && g->managed ? &mod->library->managed[i] : NULL;
}

static CUresult
global_place(struct sg_module *mod, uint32_t i)
{
    const struct sg_global *g = sg_prog_global(mod->code->prog, i);
    struct sg_alloc **shared = global_shared(mod, i);
    CUresult rc = CUDA_SUCCESS;

    if (!shared)
        return global_alloc(mod->ctx, g, &mod->globals[i]);
    if (!*shared) {
        rc = global_alloc(mod->ctx, g, shared);
        if (rc == CUDA_SUCCESS)
            (*shared)->ctx = NULL;
    }
    mod->globals[i] = *shared;
    return rc;
}

static CUresult
globals_alloc(struct sg_module *mod, uint64_t *addrs)
{
    uint32_t n = sg_prog_n_globals(mod->code->prog);
    CUresult rc = CUDA_SUCCESS;

    for (uint32_t i = 0; i < n && rc == CUDA_SUCCESS; i++) {
        rc = global_place(mod, i);
        if (rc == CUDA_SUCCESS)
            addrs[i] = mod->globals[i]->base;
    }
    return rc;
}

static CUresult
globals_init(struct sg_module *mod)
{
    uint32_t n = sg_prog_n_globals(mod->code->prog);
    struct gp_err err = {0};
    int r;

    for (uint32_t i = 0; i < n; i++) {
        if (!sg_prog_global(mod->code->prog, i)->has_init)
            continue; /* fresh pages are zero */
        if (global_shared(mod, i) && mod->library->managed_ready)
            continue;
        r = sg_inst_init_global(mod->inst, i, (void *)(uintptr_t)mod->globals[i]->base,
                                &err);
        if (r < 0) {
            gp_log_error("softgpu", "loading a module: %s", gp_err_msg(&err, r));
            return sg_result(r);
        }
    }
    if (mod->library)
        mod->library->managed_ready = true;
    return CUDA_SUCCESS;
}

static CUresult
module_bind(struct sg_module *mod)
{
    const struct sg_prog *prog = mod->code->prog;
    uint32_t n = sg_prog_n_globals(prog);
    CLEANUP_FREE uint64_t *addrs = calloc(n + 1, sizeof(*addrs));
    struct gp_err err = {0};
    CUresult rc;
    int r;

    mod->globals = calloc(n + 1, sizeof(*mod->globals));
    mod->funcs = calloc(sg_prog_n_kernels(prog) + 1, sizeof(*mod->funcs));
    if (!addrs || !mod->globals || !mod->funcs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = globals_alloc(mod, addrs);
    if (rc != CUDA_SUCCESS)
        return rc;
    r = sg_inst_new(prog, addrs, n, &mod->inst, &err);
    if (r < 0) {
        gp_log_error("softgpu", "loading a module: %s", gp_err_msg(&err, r));
        return sg_result(r);
    }
    return globals_init(mod);
}

CUresult
sg_module_new(struct sg_ctx *ctx, struct sg_code *code, struct sg_library *library,
              struct sg_module **ret_module)
{
    struct sg_module *mod = calloc(1, sizeof(*mod));
    CUresult rc;

    if (!mod)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mod->ctx = ctx;
    mod->code = code;
    code->refs++;
    mod->library = library;
    GP_LIST_ADD(&ctx->modules, mod);
    mod->handle = sg_handle_new(SG_KIND_MODULE, mod);
    rc = mod->handle ? module_bind(mod) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS) {
        sg_module_unload(mod);
        return rc;
    }
    *ret_module = mod;
    return CUDA_SUCCESS;
}

static void (*unload_hook)(const struct sg_module *mod);

void
sg_module_on_unload(void (*fn)(const struct sg_module *mod))
{
    unload_hook = fn;
}

void
sg_module_unload(struct sg_module *mod)
{
    const struct sg_prog *prog = mod->code->prog;

    GP_LIST_DROP(mod);
    sg_handle_drop(mod->handle);
    if (unload_hook)
        unload_hook(mod);
    /* Freeing drops the lock: a context that is destroyed meanwhile must not
     * free the same allocations. */
    for (uint32_t i = 0; mod->globals && i < sg_prog_n_globals(prog); i++) {
        if (global_shared(mod, i))
            mod->globals[i] = NULL;
        if (mod->globals[i])
            mod->globals[i]->ctx = NULL;
    }
    for (uint32_t i = 0; mod->funcs && i < sg_prog_n_kernels(prog); i++) {
        if (mod->funcs[i]) {
            sg_handle_drop(mod->funcs[i]->handle);
            free(mod->funcs[i]->old);
        }
        free(mod->funcs[i]);
    }
    for (uint32_t i = 0; mod->globals && i < sg_prog_n_globals(prog); i++)
        sg_mem_free(mod->globals[i]);
    sg_inst_free(mod->inst);
    sg_code_unref(mod->code);
    free(mod->globals);
    free(mod->funcs);
    free(mod);
}

static struct sg_func_attrs
default_attrs(const struct sg_module *mod, const struct sg_kernel *kernel)
{
    if (mod->library && mod->library->kernels[kernel->index])
        return mod->library->kernels[kernel->index]->attrs[mod->ctx->dev->ordinal];
    return (struct sg_func_attrs){.max_dynamic_shared = -1, .carveout = -1};
}

CUresult
sg_module_func(struct sg_module *mod, const struct sg_kernel *kernel,
               struct sg_func **ret_func)
{
    struct sg_func *func = mod->funcs[kernel->index];

    if (!func) {
        func = calloc(1, sizeof(*func));
        if (!func)
            return CUDA_ERROR_OUT_OF_MEMORY;
        func->handle = sg_handle_new(SG_KIND_FUNC, func);
        if (!func->handle) {
            free(func);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        func->module = mod;
        func->kernel = kernel;
        func->attrs = default_attrs(mod, kernel);
        mod->funcs[kernel->index] = func;
    }
    *ret_func = func;
    return CUDA_SUCCESS;
}

CUresult
sg_library_module(struct sg_library *library, struct sg_ctx *ctx,
                  struct sg_module **ret_module)
{
    for (struct sg_module *m = ctx->modules; m; m = m->next) {
        if (m->library == library) {
            *ret_module = m;
            return CUDA_SUCCESS;
        }
    }
    return sg_module_new(ctx, library->code, library, ret_module);
}

CUresult
sg_func_get(struct sg_ctx *ctx, CUfunction handle, struct sg_func **ret_func)
{
    struct sg_func *func = SG_OBJ(sg_func, SG_KIND_FUNC, handle);
    struct sg_lib_kernel *kernel;
    struct sg_module *mod;
    CUresult rc;

    if (func) {
        *ret_func = func;
        return CUDA_SUCCESS;
    }
    kernel = SG_OBJ(sg_lib_kernel, SG_KIND_KERNEL, handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = sg_library_module(kernel->library, ctx, &mod);
    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_module_func(mod, kernel->kernel, ret_func);
}

const char *
sg_func_name(CUfunction handle)
{
    const struct sg_func *func = SG_OBJ(sg_func, SG_KIND_FUNC, handle);
    const struct sg_lib_kernel *kernel = SG_OBJ(sg_lib_kernel, SG_KIND_KERNEL, handle);

    return func ? func->kernel->name : kernel ? kernel->kernel->name : NULL;
}

/* ------------------------------------------------------------------ attributes */

static int
max_threads(const struct sg_kernel *k)
{
    uint64_t n = k->reqntid[0] ? (uint64_t)k->reqntid[0] * gp_max(k->reqntid[1], 1u) *
                                     gp_max(k->reqntid[2], 1u)
                               : (uint64_t)k->maxntid[0] * gp_max(k->maxntid[1], 1u) *
                                     gp_max(k->maxntid[2], 1u);

    return n == 0 || n > 1024 ? 1024 : (int)n;
}

static int
const_bytes(const struct sg_code *code)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sg_prog_n_globals(code->prog); i++) {
        const struct sg_global *g = sg_prog_global(code->prog, i);

        if (g->space == SG_SPACE_CONST)
            sum += g->size;
    }
    return (int)gp_min(sum, (uint64_t)INT32_MAX);
}

static int
default_dynamic_shared(const struct sg_kernel *kernel)
{
    return kernel->static_shared < 49152 ? 49152 - (int)kernel->static_shared : 0;
}

CUresult
sg_func_attribute(const struct sg_dev *dev, const struct sg_kernel *kernel,
                  const struct sg_code *code, const struct sg_func_attrs *attrs,
                  int attr, int *ret)
{
    switch (attr) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *ret = max_threads(kernel);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *ret = (int)kernel->static_shared;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *ret = const_bytes(code);
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *ret = (int)kernel->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *ret = (int)gp_max(
            1u, gp_min(kernel->regs, kernel->max_regs ? kernel->max_regs : 255u));
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: /* of the image: CUB picks its code by it */
        *ret = (int)code->ast->sm;
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *ret = dev->profile->major * 10 + dev->profile->minor;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *ret = attrs->max_dynamic_shared >= 0 ? attrs->max_dynamic_shared
                                              : default_dynamic_shared(kernel);
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *ret = attrs->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *ret = attrs->non_portable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *ret = attrs->cluster_policy;
        break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *ret = 0;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *ret = kernel->explicit_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        attr -= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
        *ret = kernel->reqcluster[0] ? (int)gp_max(kernel->reqcluster[attr], 1u)
                                     : (int)attrs->cluster[attr];
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult
sg_func_set_attribute(const struct sg_dev *dev, const struct sg_kernel *kernel,
                      struct sg_func_attrs *attrs, int attr, int value)
{
    switch (attr) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (uint64_t)value + kernel->static_shared >
                             (uint64_t)dev->profile->shared_optin)
            return CUDA_ERROR_INVALID_VALUE;
        attrs->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        attrs->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (kernel->reqcluster[0])
            return CUDA_ERROR_NOT_PERMITTED;
        if (value < 0 || value > SG_MAX_CLUSTER)
            return CUDA_ERROR_INVALID_VALUE;
        attrs->cluster[attr - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] =
            (unsigned)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        attrs->non_portable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
            value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
            return CUDA_ERROR_INVALID_VALUE;
        attrs->cluster_policy = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
