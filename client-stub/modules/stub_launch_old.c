/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first launch interface: parameters are stored with the function, one call for
 * each, until it is launched.  By its definition it cannot be used by several threads
 * on one function.
 */
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_func.h"
#include "stub_manual.h"

#include <string.h>

static CUresult
old_get(CUfunction f, struct stub_func **ret)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_func_get(f, ret);
    if (r != CUDA_SUCCESS)
        return r;
    if (!(*ret)->old)
        (*ret)->old = calloc(1, sizeof(*(*ret)->old));
    return (*ret)->old ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
stub_impl_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    struct stub_func *func;
    CUresult r = old_get(hfunc, &func);

    if (r != CUDA_SUCCESS)
        return r;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    func->old->block[0] = (uint32_t)x;
    func->old->block[1] = (uint32_t)y;
    func->old->block[2] = (uint32_t)z;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    struct stub_func *func;
    CUresult r = old_get(hfunc, &func);

    if (r == CUDA_SUCCESS)
        func->old->shared = bytes;
    return r;
}

CUresult
stub_impl_cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    struct stub_func *func;
    CUresult r = old_get(hfunc, &func);

    if (r != CUDA_SUCCESS)
        return r;
    if (numbytes > sizeof(func->old->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    func->old->size = numbytes;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    struct stub_func *func;
    CUresult r = old_get(hfunc, &func);

    if (r != CUDA_SUCCESS)
        return r;
    if (!ptr || offset < 0 || numbytes > sizeof(func->old->bytes) ||
        (unsigned)offset > sizeof(func->old->bytes) - numbytes)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(func->old->bytes + offset, ptr, numbytes);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    return stub_impl_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult
stub_impl_cuParamSetf(CUfunction hfunc, int offset, float value)
{
    return stub_impl_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult
stub_impl_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
                            CUstream hStream)
{
    struct stub_func *func;
    size_t size;
    void *extra[5];
    CUresult r = old_get(f, &func);

    if (r != CUDA_SUCCESS)
        return r;
    if (grid_width <= 0 || grid_height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    size = func->old->size;
    extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    extra[1] = func->old->bytes;
    extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    extra[3] = &size;
    extra[4] = CU_LAUNCH_PARAM_END;
    return stub_impl_cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1,
                                    func->old->block[0], func->old->block[1],
                                    func->old->block[2], func->old->shared, hStream,
                                    NULL, extra, false);
}

CUresult
stub_impl_cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return stub_impl_cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult
stub_impl_cuLaunch(CUfunction f)
{
    return stub_impl_cuLaunchGrid(f, 1, 1);
}
