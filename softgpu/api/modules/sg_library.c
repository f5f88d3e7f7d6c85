/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries: code bound to no context, and the exported calls on them.
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
#include "gp_list.h"

#include <stdlib.h>

static struct sg_library *libraries; /* lock held */

static CUresult
library_new(struct sg_code *code, struct sg_library **ret_lib)
{
    struct sg_library *lib = calloc(1, sizeof(*lib));

    if (!lib)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lib->kernels = calloc(sg_prog_n_kernels(code->prog) + 1, sizeof(*lib->kernels));
    lib->managed = calloc(sg_prog_n_globals(code->prog) + 1, sizeof(struct sg_alloc *));
    lib->handle = sg_handle_new(SG_KIND_LIBRARY, lib);
    if (!lib->kernels || !lib->managed || !lib->handle) {
        sg_handle_drop(lib->handle);
        free(lib->managed);
        free(lib->kernels);
        free(lib);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    lib->code = code;
    code->refs++;
    GP_LIST_ADD(&libraries, lib);
    *ret_lib = lib;
    return CUDA_SUCCESS;
}

static CUresult
library_load(CUlibrary *library, const void *image, size_t len, struct sg_jit_log *log)
{
    struct gp_err err = {0};
    struct sg_library *lib;
    struct sg_code *code;
    struct sg_dev *dev;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    dev = sg_dev_get(0); /* all cards of a process have one capability */
    sg_unlock();
    if (!library || !image)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_code_load(dev, image, len, &code, &err);
    sg_jit_log_end(log, rc, err.msg);
    if (rc != CUDA_SUCCESS)
        return rc;
    sg_lock();
    rc = library_new(code, &lib);
    sg_code_unref(code);
    if (rc == CUDA_SUCCESS)
        *library = (CUlibrary)(uintptr_t)lib->handle;
    return sg_leave(rc);
}

SG_CALL(cuLibraryLoadData, CUlibrary *library, const void *code,
        CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
        CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions)
{
    struct sg_jit_log log;
    CUresult rc = sg_jit_log_begin(&log, numJitOptions, jitOptions, jitOptionsValues);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (numLibraryOptions && (!libraryOptions || !libraryOptionValues))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numLibraryOptions; i++)
        if ((unsigned)libraryOptions[i] >= CU_LIBRARY_NUM_OPTIONS)
            return CUDA_ERROR_INVALID_VALUE;
    return library_load(library, code, GP_IMAGE_UNBOUNDED, &log);
}

SG_CALL(cuLibraryLoadFromFile, CUlibrary *library, const char *fileName,
        CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
        CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions)
{
    CLEANUP_FREE void *image = NULL;
    struct sg_jit_log log;
    size_t len;
    CUresult rc = sg_jit_log_begin(&log, numJitOptions, jitOptions, jitOptionsValues);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!library || !fileName || (numLibraryOptions && !libraryOptions))
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_image_from_file(fileName, &image, &len);
    if (rc != CUDA_SUCCESS)
        return rc;
    return library_load(library, image, len, &log);
}

static CUresult
enter_library(CUlibrary handle, struct sg_library **ret_lib)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_lib = SG_OBJ(sg_library, SG_KIND_LIBRARY, handle);
    return *ret_lib ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

static struct sg_module *
module_of_library(const struct sg_library *lib)
{
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next)
        for (struct sg_module *m = c->modules; m; m = m->next)
            if (m->library == lib)
                return m;
    return NULL;
}

SG_CALL(cuLibraryUnload, CUlibrary library)
{
    struct sg_library *lib;
    struct sg_module *mod;
    CUresult rc = enter_library(library, &lib);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_handle_drop(lib->handle);
    for (uint32_t i = 0; i < sg_prog_n_kernels(lib->code->prog); i++)
        if (lib->kernels[i])
            sg_handle_drop(lib->kernels[i]->handle);
    while ((mod = module_of_library(lib))) {
        if (mod->ctx->n_work) {
            sg_streams_synchronize(mod->ctx);
            continue; /* look again: the lock was dropped */
        }
        sg_module_unload(mod);
    }
    GP_LIST_DROP(lib);
    for (uint32_t i = 0; i < sg_prog_n_globals(lib->code->prog); i++)
        sg_mem_free(lib->managed[i]);
    for (uint32_t i = 0; i < sg_prog_n_kernels(lib->code->prog); i++)
        free(lib->kernels[i]);
    sg_code_unref(lib->code);
    free(lib->managed);
    free(lib->kernels);
    free(lib);
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
library_kernel(struct sg_library *lib, const struct sg_kernel *kernel,
               struct sg_lib_kernel **ret_kernel)
{
    struct sg_lib_kernel *k = lib->kernels[kernel->index];

    if (!k) {
        k = calloc(1, sizeof(*k));
        if (!k)
            return CUDA_ERROR_OUT_OF_MEMORY;
        k->handle = sg_handle_new(SG_KIND_KERNEL, k);
        if (!k->handle) {
            free(k);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        k->library = lib;
        k->kernel = kernel;
        for (int i = 0; i < SG_MAX_CARDS; i++)
            k->attrs[i] =
                (struct sg_func_attrs){.max_dynamic_shared = -1, .carveout = -1};
        lib->kernels[kernel->index] = k;
    }
    *ret_kernel = k;
    return CUDA_SUCCESS;
}

SG_CALL(cuLibraryGetKernel, CUkernel *pKernel, CUlibrary library, const char *name)
{
    const struct sg_kernel *kernel;
    struct sg_lib_kernel *k;
    struct sg_library *lib;
    CUresult rc = enter_library(library, &lib);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pKernel || !name)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    kernel = sg_prog_find_kernel(lib->code->prog, name);
    if (!kernel)
        return sg_leave(CUDA_ERROR_NOT_FOUND);
    rc = library_kernel(lib, kernel, &k);
    if (rc == CUDA_SUCCESS)
        *pKernel = (CUkernel)(uintptr_t)k->handle;
    return sg_leave(rc);
}

SG_CALL(cuLibraryGetKernelCount, unsigned int *count, CUlibrary lib)
{
    struct sg_library *l;
    CUresult rc = enter_library(lib, &l);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!count)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *count = sg_prog_n_kernels(l->code->prog);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLibraryEnumerateKernels, CUkernel *kernels, unsigned int numKernels,
        CUlibrary lib)
{
    struct sg_library *l;
    struct sg_lib_kernel *k;
    CUresult rc = enter_library(lib, &l);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!kernels)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    numKernels = gp_min(numKernels, sg_prog_n_kernels(l->code->prog));
    for (unsigned i = 0; i < numKernels && rc == CUDA_SUCCESS; i++) {
        rc = library_kernel(l, sg_prog_kernel(l->code->prog, i), &k);
        if (rc == CUDA_SUCCESS)
            kernels[i] = (CUkernel)(uintptr_t)k->handle;
    }
    return sg_leave(rc);
}

/* The library's module in the current context. */
static CUresult
enter_library_module(CUlibrary library, struct sg_module **ret_mod)
{
    struct sg_library *lib;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    lib = SG_OBJ(sg_library, SG_KIND_LIBRARY, library);
    if (!lib)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    rc = sg_library_module(lib, ctx, ret_mod);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

SG_CALL(cuLibraryGetModule, CUmodule *pMod, CUlibrary library)
{
    struct sg_module *mod;
    CUresult rc = enter_library_module(library, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pMod)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pMod = (CUmodule)(uintptr_t)mod->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLibraryGetGlobal, CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
        const char *name)
{
    struct sg_module *mod;
    CUresult rc = enter_library_module(library, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name || (!dptr && !bytes))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_module_global(mod, name, dptr, bytes, false));
}

/* No context needs to be current, as runtimes ask before there is one.  The first
 * device's primary context is retained then, and stays: the variable is in it. */
static CUresult
enter_managed(CUlibrary library, struct sg_module **ret_mod)
{
    CUresult rc = enter_library_module(library, ret_mod);
    struct sg_library *lib;
    struct sg_ctx *ctx;

    if (rc != CUDA_ERROR_INVALID_CONTEXT)
        return rc;
    rc = enter_library(library, &lib);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_primary_retain(sg_dev_get(0), &ctx);
    if (rc == CUDA_SUCCESS)
        rc = sg_library_module(lib, ctx, ret_mod);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

SG_CALL(cuLibraryGetManaged, CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
        const char *name)
{
    struct sg_module *mod;
    CUresult rc = enter_managed(library, &mod);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name || (!dptr && !bytes))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_module_global(mod, name, dptr, bytes, true));
}

SG_CALL(cuLibraryGetUnifiedFunction, void **fptr, CUlibrary library, const char *symbol)
{
    struct sg_library *lib;
    CUresult rc = enter_library(library, &lib);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!fptr || !symbol)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(CUDA_ERROR_NOT_FOUND); /* the device has no unified pointers */
}
