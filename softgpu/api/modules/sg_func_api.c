/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on functions and kernels.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_module.h"

#include "gp_base.h"

/* No kernel of a library: launches and the occupancy calls alone take one as a
 * function.
 */
static CUresult
enter_func(CUfunction handle, struct sg_func **ret_func)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_func = SG_OBJ(sg_func, SG_KIND_FUNC, handle);
    return *ret_func ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

static CUresult
enter_kernel(CUkernel handle, struct sg_lib_kernel **ret_kernel)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_kernel = SG_OBJ(sg_lib_kernel, SG_KIND_KERNEL, handle);
    return *ret_kernel ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

static CUresult
param_info(const struct sg_kernel *kernel, size_t index, size_t *offset, size_t *size)
{
    if (!offset || index >= kernel->n_params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->params[index].offset;
    if (size)
        *size = kernel->params[index].size;
    return CUDA_SUCCESS;
}

SG_CALL(cuFuncGetParamInfo, CUfunction func, size_t paramIndex, size_t *paramOffset,
        size_t *paramSize)
{
    struct sg_func *f;
    CUresult rc = enter_func(func, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(param_info(f->kernel, paramIndex, paramOffset, paramSize));
}

SG_CALL(cuKernelGetParamInfo, CUkernel kernel, size_t paramIndex, size_t *paramOffset,
        size_t *paramSize)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(kernel, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(param_info(k->kernel, paramIndex, paramOffset, paramSize));
}

SG_CALL(cuFuncGetName, const char **name, CUfunction hfunc)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *name = f->kernel->name;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuKernelGetName, const char **name, CUkernel hfunc)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(hfunc, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *name = k->kernel->name;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuFuncGetModule, CUmodule *hmod, CUfunction hfunc)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!hmod)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *hmod = (CUmodule)(uintptr_t)f->module->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuKernelGetFunction, CUfunction *pFunc, CUkernel kernel)
{
    struct sg_func *f;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_func_get(ctx, (CUfunction)kernel, &f);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (!pFunc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pFunc = (CUfunction)(uintptr_t)f->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuKernelGetLibrary, CUlibrary *pLib, CUkernel kernel)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(kernel, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pLib)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pLib = (CUlibrary)(uintptr_t)k->library->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuFuncLoad, CUfunction function)
{
    struct sg_func *f;
    CUresult rc = enter_func(function, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(sg_kernel_ready(f->kernel));
}

SG_CALL(cuFuncIsLoaded, CUfunctionLoadingState *state, CUfunction function)
{
    struct sg_func *f;
    CUresult rc = enter_func(function, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!state)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_kernel_ready(f->kernel);
    *state = rc == CUDA_SUCCESS ? CU_FUNCTION_LOADING_STATE_LOADED
                                : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuFuncGetAttribute, int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pi)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_kernel_ready(f->kernel);
    if (rc == CUDA_SUCCESS)
        rc = sg_func_attribute(f->module->ctx->dev, f->kernel, f->module->code,
                               &f->attrs, (int)attrib, pi);
    return sg_leave(rc);
}

SG_CALL(cuFuncSetAttribute, CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_kernel_ready(f->kernel);
    if (rc == CUDA_SUCCESS)
        rc = sg_func_set_attribute(f->module->ctx->dev, f->kernel, &f->attrs,
                                   (int)attrib, value);
    return sg_leave(rc);
}

SG_CALL(cuKernelGetAttribute, int *pi, CUfunction_attribute attrib, CUkernel kernel,
        CUdevice dev)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(kernel, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pi)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    rc = sg_kernel_ready(k->kernel);
    if (rc == CUDA_SUCCESS)
        rc = sg_func_attribute(sg_dev_get(dev), k->kernel, k->library->code,
                               &k->attrs[dev], (int)attrib, pi);
    return sg_leave(rc);
}

/* Also for the functions that contexts of @dev already have. */
static void
pass_on(const struct sg_lib_kernel *k, const struct sg_dev *dev)
{
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next) {
        if (c->dev != dev)
            continue;
        for (struct sg_module *m = c->modules; m; m = m->next)
            if (m->library == k->library && m->funcs[k->kernel->index])
                m->funcs[k->kernel->index]->attrs = k->attrs[dev->ordinal];
    }
}

SG_CALL(cuKernelSetAttribute, CUfunction_attribute attrib, int val, CUkernel kernel,
        CUdevice dev)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(kernel, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    rc = sg_kernel_ready(k->kernel);
    if (rc == CUDA_SUCCESS)
        rc = sg_func_set_attribute(sg_dev_get(dev), k->kernel, &k->attrs[dev],
                                   (int)attrib, val);
    if (rc == CUDA_SUCCESS)
        pass_on(k, sg_dev_get(dev));
    return sg_leave(rc);
}

SG_CALL(cuFuncSetCacheConfig, CUfunction hfunc, CUfunc_cache config)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    f->attrs.cache = config;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuKernelSetCacheConfig, CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    struct sg_lib_kernel *k;
    CUresult rc = enter_kernel(kernel, &k);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    k->attrs[dev].cache = config;
    pass_on(k, sg_dev_get(dev));
    return sg_leave(CUDA_SUCCESS);
}

/* As cuCtxSetSharedMemConfig: accepted, and without meaning on these cards. */
SG_CALL(cuFuncSetSharedMemConfig, CUfunction hfunc, CUsharedconfig config)
{
    struct sg_func *f;
    CUresult rc = enter_func(hfunc, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(CUDA_SUCCESS);
}
