/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported copies.  Every call becomes one description (sg_copy.h); the _ptds
 * variants differ in what the default stream is.
 */
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_handle.h"
#include "sg_stream.h"
#include "sg_work.h"

#include <assert.h>
#include <string.h>

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

static CUresult
copy(const CUDA_MEMCPY3D *desc, CUstream hstream, bool sync)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_copy_enqueue(stream, desc, sync);
    return sg_leave(rc);
}

static CUresult
linear(CUmemorytype dst_type, CUdeviceptr dst, CUmemorytype src_type, CUdeviceptr src,
       size_t len, CUstream hstream, bool sync)
{
    CUDA_MEMCPY3D desc = sg_copy_linear(dst_type, (void *)(uintptr_t)dst, src_type,
                                        (const void *)(uintptr_t)src, len);

    return copy(&desc, hstream, sync);
}

/* NAME, _ptds NAME, its two pointers and their memory types */
#define LINEAR(name, thread_name, dst_arg, dst, dst_type, src_arg, src, src_type)      \
    SG_CALL(name, dst_arg, src_arg, size_t ByteCount)                                  \
    {                                                                                  \
        return linear(dst_type, (CUdeviceptr)(uintptr_t)dst, src_type,                 \
                      (CUdeviceptr)(uintptr_t)src, ByteCount, CU_STREAM_LEGACY, true); \
    }                                                                                  \
    SG_CALL(thread_name, dst_arg, src_arg, size_t ByteCount)                           \
    {                                                                                  \
        return linear(dst_type, (CUdeviceptr)(uintptr_t)dst, src_type,                 \
                      (CUdeviceptr)(uintptr_t)src, ByteCount, CU_STREAM_PER_THREAD,    \
                      true);                                                           \
    }

#define LINEAR_ASYNC(name, dst_arg, dst, dst_type, src_arg, src, src_type)             \
    SG_CALL(name, dst_arg, src_arg, size_t ByteCount, CUstream hStream)                \
    {                                                                                  \
        return linear(dst_type, (CUdeviceptr)(uintptr_t)dst, src_type,                 \
                      (CUdeviceptr)(uintptr_t)src, ByteCount, hStream, false);         \
    }

LINEAR(cuMemcpy, cuMemcpy_ptds, CUdeviceptr dst, dst, UNIFIED, CUdeviceptr src, src,
       UNIFIED)
LINEAR(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, CUdeviceptr dstDevice, dstDevice, DEVICE,
       const void *srcHost, srcHost, HOST)
LINEAR(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, void *dstHost, dstHost, HOST,
       CUdeviceptr srcDevice, srcDevice, DEVICE)
LINEAR(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, CUdeviceptr dstDevice, dstDevice, DEVICE,
       CUdeviceptr srcDevice, srcDevice, DEVICE)
LINEAR_ASYNC(cuMemcpyAsync, CUdeviceptr dst, dst, UNIFIED, CUdeviceptr src, src,
             UNIFIED)
LINEAR_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr dstDevice, dstDevice, DEVICE,
             const void *srcHost, srcHost, HOST)
LINEAR_ASYNC(cuMemcpyDtoHAsync_v2, void *dstHost, dstHost, HOST, CUdeviceptr srcDevice,
             srcDevice, DEVICE)
LINEAR_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr dstDevice, dstDevice, DEVICE,
             CUdeviceptr srcDevice, srcDevice, DEVICE)

/* ------------------------------------------------------------- 2D, 3D and peers */

static CUDA_MEMCPY3D
from_2d(const CUDA_MEMCPY2D *d)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = d->srcXInBytes,
        .srcY = d->srcY,
        .srcMemoryType = d->srcMemoryType,
        .srcHost = d->srcHost,
        .srcDevice = d->srcDevice,
        .srcArray = d->srcArray,
        .srcPitch = d->srcPitch,
        .dstXInBytes = d->dstXInBytes,
        .dstY = d->dstY,
        .dstMemoryType = d->dstMemoryType,
        .dstHost = d->dstHost,
        .dstDevice = d->dstDevice,
        .dstArray = d->dstArray,
        .dstPitch = d->dstPitch,
        .WidthInBytes = d->WidthInBytes,
        .Height = d->Height,
        .Depth = 1,
    };
}

static CUresult
copy_2d(const CUDA_MEMCPY2D *d, CUstream hstream, bool sync)
{
    CUDA_MEMCPY3D desc;

    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    desc = from_2d(d);
    return copy(&desc, hstream, sync);
}

static CUresult
copy_3d(const CUDA_MEMCPY3D *d, CUstream hstream, bool sync)
{
    return d ? copy(d, hstream, sync) : CUDA_ERROR_INVALID_VALUE;
}

/* All cards share one address space, so the contexts of a peer copy only have to
 * exist. */
static CUresult
check_peers(CUcontext dst, CUcontext src)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (sg_handle_kind((uintptr_t)dst) != SG_KIND_CTX ||
        sg_handle_kind((uintptr_t)src) != SG_KIND_CTX)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    return sg_leave(CUDA_SUCCESS);
}

/* In a stream it is an ordinary copy. */
static CUresult
copy_between(const CUDA_MEMCPY3D *desc, CUcontext hdst, CUcontext hsrc,
             CUstream hstream, bool sync)
{
    struct sg_ctx *ctx, *dst, *src;
    struct sg_stream *stream;
    CUresult rc = check_peers(hdst, hsrc);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sync)
        return copy(desc, hstream, false);
    rc = sg_enter_work(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    dst = SG_OBJ(sg_ctx, SG_KIND_CTX, hdst);
    src = SG_OBJ(sg_ctx, SG_KIND_CTX, hsrc);
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS) /* a primary context that nobody has has no work */
        rc = sg_copy_enqueue_between(stream, desc, dst ? dst : ctx, src ? src : ctx);
    return sg_leave(rc);
}

static CUresult
copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream hstream, bool sync)
{
    CUDA_MEMCPY3D d;

    /* The same layout, with the contexts where the other has reserved words. */
    static_assert(sizeof(d) == sizeof(*p), "peer copies are plain copies");
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&d, p, sizeof(d));
    d.reserved0 = d.reserved1 = NULL;
    return copy_between(&d, p->dstContext, p->srcContext, hstream, sync);
}

SG_CALL(cuMemcpy2D_v2, const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, CU_STREAM_LEGACY, true);
}

SG_CALL(cuMemcpy2D_v2_ptds, const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, CU_STREAM_PER_THREAD, true);
}

SG_CALL(cuMemcpy2DUnaligned_v2, const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, CU_STREAM_LEGACY, true);
}

SG_CALL(cuMemcpy2DUnaligned_v2_ptds, const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, CU_STREAM_PER_THREAD, true);
}

SG_CALL(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return copy_2d(pCopy, hStream, false);
}

SG_CALL(cuMemcpy3D_v2, const CUDA_MEMCPY3D *pCopy)
{
    return copy_3d(pCopy, CU_STREAM_LEGACY, true);
}

SG_CALL(cuMemcpy3D_v2_ptds, const CUDA_MEMCPY3D *pCopy)
{
    return copy_3d(pCopy, CU_STREAM_PER_THREAD, true);
}

SG_CALL(cuMemcpy3DAsync_v2, const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return copy_3d(pCopy, hStream, false);
}

SG_CALL(cuMemcpy3DPeer, const CUDA_MEMCPY3D_PEER *pCopy)
{
    return copy_3d_peer(pCopy, CU_STREAM_LEGACY, true);
}

SG_CALL(cuMemcpy3DPeer_ptds, const CUDA_MEMCPY3D_PEER *pCopy)
{
    return copy_3d_peer(pCopy, CU_STREAM_PER_THREAD, true);
}

SG_CALL(cuMemcpy3DPeerAsync, const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    return copy_3d_peer(pCopy, hStream, false);
}

static CUresult
copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
          size_t len, CUstream hstream, bool sync)
{
    CUDA_MEMCPY3D desc = sg_copy_linear(DEVICE, (void *)(uintptr_t)dst, DEVICE,
                                        (const void *)(uintptr_t)src, len);

    return copy_between(&desc, dst_ctx, src_ctx, hstream, sync);
}

SG_CALL(cuMemcpyPeer, CUdeviceptr dstDevice, CUcontext dstContext,
        CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
                     CU_STREAM_LEGACY, true);
}

SG_CALL(cuMemcpyPeer_ptds, CUdeviceptr dstDevice, CUcontext dstContext,
        CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
                     CU_STREAM_PER_THREAD, true);
}

SG_CALL(cuMemcpyPeerAsync, CUdeviceptr dstDevice, CUcontext dstContext,
        CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream,
                     false);
}

/* --------------------------------------------------------------- one-row arrays */

struct end {
    CUmemorytype type;
    CUdeviceptr p;
    CUarray array;
    size_t x;
};

static bool
end_ok(const struct end *end)
{
    return end->type != CU_MEMORYTYPE_ARRAY ||
           sg_handle_kind((uintptr_t)end->array) == SG_KIND_ARRAY;
}

static CUresult
copy_row(struct end dst, struct end src, size_t len, CUstream hstream, bool sync)
{
    CUDA_MEMCPY3D d = sg_copy_linear(dst.type, (void *)(uintptr_t)dst.p, src.type,
                                     (const void *)(uintptr_t)src.p, len);

    d.dstArray = dst.array;
    d.dstXInBytes = dst.x;
    d.srcArray = src.array;
    d.srcXInBytes = src.x;
    if (!end_ok(&dst) || !end_ok(&src)) {
        CUresult rc = sg_enter_init();

        return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_HANDLE) : rc;
    }
    return copy(&d, hstream, sync);
}

#define AT_HOST(p) ((struct end){HOST, (CUdeviceptr)(uintptr_t)(p), NULL, 0})
#define AT_DEVICE(p) ((struct end){DEVICE, (p), NULL, 0})
#define AT_ARRAY(a, off) ((struct end){CU_MEMORYTYPE_ARRAY, 0, (a), (off)})

#define ROW(name, thread_name, args, dst, src)                                         \
    SG_CALL(name, args, size_t ByteCount)                                              \
    {                                                                                  \
        return copy_row(dst, src, ByteCount, CU_STREAM_LEGACY, true);                  \
    }                                                                                  \
    SG_CALL(thread_name, args, size_t ByteCount)                                       \
    {                                                                                  \
        return copy_row(dst, src, ByteCount, CU_STREAM_PER_THREAD, true);              \
    }

#define ROW_ASYNC(name, args, dst, src)                                                \
    SG_CALL(name, args, size_t ByteCount, CUstream hStream)                            \
    {                                                                                  \
        return copy_row(dst, src, ByteCount, hStream, false);                          \
    }

#define ARGS(...) __VA_ARGS__

ROW(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
    ARGS(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice),
    AT_ARRAY(dstArray, dstOffset), AT_DEVICE(srcDevice))
ROW(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds,
    ARGS(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset),
    AT_DEVICE(dstDevice), AT_ARRAY(srcArray, srcOffset))
ROW(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds,
    ARGS(CUarray dstArray, size_t dstOffset, const void *srcHost),
    AT_ARRAY(dstArray, dstOffset), AT_HOST(srcHost))
ROW(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds,
    ARGS(void *dstHost, CUarray srcArray, size_t srcOffset), AT_HOST(dstHost),
    AT_ARRAY(srcArray, srcOffset))
ROW(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
    ARGS(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset),
    AT_ARRAY(dstArray, dstOffset), AT_ARRAY(srcArray, srcOffset))
ROW_ASYNC(cuMemcpyHtoAAsync_v2,
          ARGS(CUarray dstArray, size_t dstOffset, const void *srcHost),
          AT_ARRAY(dstArray, dstOffset), AT_HOST(srcHost))
ROW_ASYNC(cuMemcpyAtoHAsync_v2, ARGS(void *dstHost, CUarray srcArray, size_t srcOffset),
          AT_HOST(dstHost), AT_ARRAY(srcArray, srcOffset))
