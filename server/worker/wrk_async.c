/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_async.h"

#include "drv.h"
#include "gp_base.h"
#include "wrk_seal.h"

/* The driver as it was found; set once. */
WRK_SEALED static struct wrk_sealed_drv own;

static CUresult
copy_dtod(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return own.drv.cuMemcpyDtoDAsync_v2(dst, src, n, NULL);
}

static CUresult
copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
          size_t n)
{
    return own.drv.cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, n, NULL);
}

static CUresult
set_d8(CUdeviceptr dst, unsigned char value, size_t n)
{
    return own.drv.cuMemsetD8Async(dst, value, n, NULL);
}

static CUresult
set_d16(CUdeviceptr dst, unsigned short value, size_t n)
{
    return own.drv.cuMemsetD16Async(dst, value, n, NULL);
}

static CUresult
set_d32(CUdeviceptr dst, unsigned int value, size_t n)
{
    return own.drv.cuMemsetD32Async(dst, value, n, NULL);
}

static CUresult
set_2d8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return own.drv.cuMemsetD2D8Async(dst, pitch, value, width, height, NULL);
}

static CUresult
set_2d16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
         size_t height)
{
    return own.drv.cuMemsetD2D16Async(dst, pitch, value, width, height, NULL);
}

static CUresult
set_2d32(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return own.drv.cuMemsetD2D32Async(dst, pitch, value, width, height, NULL);
}

void
wrk_async_prefer(struct drv *drv)
{
    own.drv = *drv;
    if (own.drv.cuMemcpyDtoDAsync_v2)
        drv->cuMemcpyDtoD_v2 = copy_dtod;
    if (own.drv.cuMemcpyPeerAsync)
        drv->cuMemcpyPeer = copy_peer;
    if (own.drv.cuMemsetD8Async)
        drv->cuMemsetD8_v2 = set_d8;
    if (own.drv.cuMemsetD16Async)
        drv->cuMemsetD16_v2 = set_d16;
    if (own.drv.cuMemsetD32Async)
        drv->cuMemsetD32_v2 = set_d32;
    if (own.drv.cuMemsetD2D8Async)
        drv->cuMemsetD2D8_v2 = set_2d8;
    if (own.drv.cuMemsetD2D16Async)
        drv->cuMemsetD2D16_v2 = set_2d16;
    if (own.drv.cuMemsetD2D32Async)
        drv->cuMemsetD2D32_v2 = set_2d32;
}
