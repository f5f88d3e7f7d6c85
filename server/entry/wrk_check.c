/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_check.h"

#include "drv.h"
#include "gp_base.h"

#include <stdio.h>

#define WORDS 65536u
#define PATTERN 0x5aa51234u

static int
wrong(const struct drv *drv, const char *what, CUresult result)
{
    const char *name = NULL;

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return 0;
    if (!drv->cuGetErrorName || drv->cuGetErrorName(result, &name) != CUDA_SUCCESS)
        name = NULL;
    printf("%s fails with error %d%s%s\n", what, (int)result, name ? ", " : "",
           name ? name : "");
    return 1;
}

static int
check_memory(const struct drv *drv, CUdeviceptr memory)
{
    static uint32_t back[WORDS];
    CUresult r = drv->cuMemsetD32_v2(memory, PATTERN, WORDS);

    if (r != CUDA_SUCCESS)
        return wrong(drv, "filling memory", r);
    r = drv->cuMemcpyDtoH_v2(back, memory, sizeof(back));
    if (r != CUDA_SUCCESS)
        return wrong(drv, "copying from it", r);
    for (uint32_t i = 0; i < WORDS; i++)
        if (back[i] != PATTERN) {
            printf("its memory does not keep what was written\n");
            return 1;
        }
    return 0;
}

int
wrk_check(const struct drv *drv, int card)
{
    CUdeviceptr memory;
    CUdevice device;
    CUcontext ctx;
    CUresult r = drv->cuDeviceGet(&device, card);
    int status;

    if (r == CUDA_SUCCESS)
        r = drv->cuDevicePrimaryCtxRetain(&ctx, device);
    if (r == CUDA_SUCCESS)
        r = drv->cuCtxSetCurrent(ctx);
    if (r != CUDA_SUCCESS)
        return wrong(drv, "making a context", r);
    r = drv->cuMemAlloc_v2(&memory, WORDS * sizeof(uint32_t));
    if (r != CUDA_SUCCESS)
        return wrong(drv, "allocating memory", r);
    status = check_memory(drv, memory);
    drv->cuMemFree_v2(memory);
    return status;
}
