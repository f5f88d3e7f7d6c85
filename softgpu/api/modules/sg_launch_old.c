/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first launch interface: shape and parameters are kept with the function, one
 * call at a time, until it is launched.  Not for several threads at once on one
 * function, as the interface says.
 */
#include "sg_launch.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_module.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_PARAMS = 4096, /* bytes; what cards of that interface had */
};

struct sg_old_launch {
    unsigned block[3], shared, size;
    char params[MAX_PARAMS];
};

/* The function of a CUfunction in the current context, with its kept state. */
static CUresult
enter_func(CUfunction handle, struct sg_old_launch **ret)
{
    struct sg_func *func;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_func_get(ctx, handle, &func);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (!func->old)
        func->old = calloc(1, sizeof(*func->old));
    *ret = func->old;
    return func->old ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
}

SG_CALL(cuFuncSetBlockShape, CUfunction hfunc, int x, int y, int z)
{
    struct sg_old_launch *old;
    CUresult rc = enter_func(hfunc, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (x <= 0 || y <= 0 || z <= 0)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old->block[0] = (unsigned)x;
    old->block[1] = (unsigned)y;
    old->block[2] = (unsigned)z;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuFuncSetSharedSize, CUfunction hfunc, unsigned int bytes)
{
    struct sg_old_launch *old;
    CUresult rc = enter_func(hfunc, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    old->shared = bytes;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuParamSetSize, CUfunction hfunc, unsigned int numbytes)
{
    struct sg_old_launch *old;
    CUresult rc = enter_func(hfunc, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (numbytes > MAX_PARAMS)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old->size = numbytes;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuParamSetv, CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    struct sg_old_launch *old;
    CUresult rc = enter_func(hfunc, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ptr || offset < 0 || numbytes > MAX_PARAMS ||
        (unsigned)offset > MAX_PARAMS - numbytes)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(old->params + offset, ptr, numbytes);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuParamSeti, CUfunction hfunc, int offset, unsigned int value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

SG_CALL(cuParamSetf, CUfunction hfunc, int offset, float value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

/* Bindings belong to the reference: there is nothing to set in the function. */
SG_CALL(cuParamSetTexRef, CUfunction hfunc, int texunit, CUtexref hTexRef)
{
    struct sg_old_launch *old;
    CUresult rc = enter_func(hfunc, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(texunit == CU_PARAM_TR_DEFAULT && hTexRef
                        ? CUDA_SUCCESS
                        : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX,
                        unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra);

SG_CALL(cuLaunchGridAsync, CUfunction f, int grid_width, int grid_height,
        CUstream hStream)
{
    struct sg_old_launch *old, now;
    size_t size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, now.params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUresult rc = enter_func(f, &old);

    if (rc != CUDA_SUCCESS)
        return rc;
    now = *old;
    sg_unlock();
    if (grid_width <= 0 || grid_height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    size = now.size;
    return cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1,
                          now.block[0], now.block[1], now.block[2], now.shared, hStream,
                          NULL, extra);
}

SG_CALL(cuLaunchGrid, CUfunction f, int grid_width, int grid_height)
{
    return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

SG_CALL(cuLaunch, CUfunction f)
{
    return cuLaunchGridAsync(f, 1, 1, NULL);
}
