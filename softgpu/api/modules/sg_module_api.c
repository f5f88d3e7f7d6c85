/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on modules.
 */
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_jit.h"
#include "sg_mem.h"
#include "sg_module.h"
#include "sg_stream.h"

#include "gp_err.h"
#include "gp_image.h"

#include <stdlib.h>
#include <string.h>

static CUresult
load(CUmodule *module, const void *image, size_t len, struct sg_jit_log *log)
{
    struct gp_err err = {0};
    struct sg_module *mod;
    struct sg_code *code;
    struct sg_ctx *ctx;
    struct sg_dev *dev;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    dev = ctx->dev;
    sg_unlock();
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_code_load(dev, image, len, &code, &err);
    sg_jit_log_end(log, rc, err.msg);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_enter(&ctx); /* again: it may be gone meanwhile */
    if (rc != CUDA_SUCCESS) {
        sg_lock();
        sg_code_unref(code);
        return sg_leave(rc);
    }
    rc = sg_module_new(ctx, code, NULL, &mod);
    sg_code_unref(code);
    if (rc == CUDA_SUCCESS)
        *module = (CUmodule)(uintptr_t)mod->handle;
    return sg_leave(rc);
}

SG_CALL(cuModuleLoadData, CUmodule *module, const void *image)
{
    return load(module, image, GP_IMAGE_UNBOUNDED, NULL);
}

SG_CALL(cuModuleLoadDataEx, CUmodule *module, const void *image,
        unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    struct sg_jit_log log;
    CUresult rc = sg_jit_log_begin(&log, numOptions, options, optionValues);

    if (rc != CUDA_SUCCESS)
        return rc;
    return load(module, image, GP_IMAGE_UNBOUNDED, &log);
}

SG_CALL(cuModuleLoadFatBinary, CUmodule *module, const void *fatCubin)
{
    return load(module, fatCubin, GP_IMAGE_UNBOUNDED, NULL);
}

SG_CALL(cuModuleLoad, CUmodule *module, const char *fname)
{
    CLEANUP_FREE void *image = NULL;
    size_t len;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    sg_unlock();
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_image_from_file(fname, &image, &len);
    if (rc != CUDA_SUCCESS)
        return rc;
    return load(module, image, len, NULL);
}

static CUresult
enter_module(CUmodule handle, struct sg_module **ret_mod)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_mod = SG_OBJ(sg_module, SG_KIND_MODULE, handle);
    return *ret_mod ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

SG_CALL(cuModuleUnload, CUmodule hmod)
{
    struct sg_module *mod;
    CUresult rc = enter_module(hmod, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (mod->library)
        return sg_leave(CUDA_ERROR_NOT_PERMITTED);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = sg_streams_synchronize(mod->ctx);
    mod = SG_OBJ(sg_module, SG_KIND_MODULE, hmod); /* gone while waiting? */
    if (!mod)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    sg_module_unload(mod);
    return sg_leave(rc);
}

/* Since 11.7: nothing is loaded before it is used, but instructions are only
 * looked at when a kernel is; that is lazy loading. */
SG_CALL(cuModuleGetLoadingMode, CUmoduleLoadingMode *mode)
{
    const char *s = getenv("CUDA_MODULE_LOADING");
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    sg_unlock();
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = s && !strcmp(s, "EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

SG_CALL(cuModuleGetFunction, CUfunction *hfunc, CUmodule hmod, const char *name)
{
    const struct sg_kernel *kernel;
    struct sg_module *mod;
    struct sg_func *func;
    CUresult rc = enter_module(hmod, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!hfunc || !name || !*name)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    kernel = sg_prog_find_kernel(mod->code->prog, name);
    if (!kernel)
        return sg_leave(CUDA_ERROR_NOT_FOUND);
    rc = sg_module_func(mod, kernel, &func);
    if (rc == CUDA_SUCCESS)
        *hfunc = (CUfunction)(uintptr_t)func->handle;
    return sg_leave(rc);
}

SG_CALL(cuModuleGetFunctionCount, unsigned int *count, CUmodule mod)
{
    struct sg_module *m;
    CUresult rc = enter_module(mod, &m);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!count)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *count = sg_prog_n_kernels(m->code->prog);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuModuleEnumerateFunctions, CUfunction *functions, unsigned int numFunctions,
        CUmodule mod)
{
    struct sg_module *m;
    struct sg_func *func;
    CUresult rc = enter_module(mod, &m);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!functions)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    numFunctions = gp_min(numFunctions, sg_prog_n_kernels(m->code->prog));
    for (unsigned i = 0; i < numFunctions && rc == CUDA_SUCCESS; i++) {
        rc = sg_module_func(m, sg_prog_kernel(m->code->prog, i), &func);
        if (rc == CUDA_SUCCESS)
            functions[i] = (CUfunction)(uintptr_t)func->handle;
    }
    return sg_leave(rc);
}

/* The address and exact size of a visible variable. */
CUresult
sg_module_global(struct sg_module *mod, const char *name, CUdeviceptr *dptr,
                 size_t *bytes, bool managed_only)
{
    int i = sg_prog_find_global(mod->code->prog, name);
    const struct sg_global *g;

    if (i < 0)
        return CUDA_ERROR_NOT_FOUND;
    g = sg_prog_global(mod->code->prog, (uint32_t)i);
    if (!g->visible || (managed_only && !g->managed))
        return CUDA_ERROR_NOT_FOUND;
    if (dptr)
        *dptr = mod->globals[i]->base;
    if (bytes)
        *bytes = g->size;
    return CUDA_SUCCESS;
}

SG_CALL(cuModuleGetGlobal_v2, CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
        const char *name)
{
    struct sg_module *mod;
    CUresult rc = enter_module(hmod, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name || (!dptr && !bytes))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_module_global(mod, name, dptr, bytes, false));
}
