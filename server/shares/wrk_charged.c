/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_charged.h"

#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_governor.h"
#include "wrk_seal.h"

/* The driver as it was found, and whose it is; set once. */
WRK_SEALED static struct wrk_sealed_drv own;
static struct wrk *me;

/* What one takes tells how long the next of about the same size will. */
void
wrk_charged_begin(struct wrk *w, struct wrk_charge *c, CUstream stream, uint64_t bytes)
{
    uint64_t log = 64 - (uint64_t)__builtin_clzll(bytes | 1);

    wrk_governor_acquire(w, stream, log << 8 | 1, c);
}

static CUresult
copy_dtod(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, n);
    r = own.drv.cuMemcpyDtoDAsync_v2(dst, src, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
          size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, n);
    r = own.drv.cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d8(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, n);
    r = own.drv.cuMemsetD8Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d16(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, n * 2);
    r = own.drv.cuMemsetD16Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d32(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, n * 4);
    r = own.drv.cuMemsetD32Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
        CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, width * height);
    r = own.drv.cuMemsetD2D8Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
         size_t height, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, width * height * 2);
    r = own.drv.cuMemsetD2D16Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d32(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height,
         CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_charged_begin(me, &c, stream, width * height * 4);
    r = own.drv.cuMemsetD2D32Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    me->priv->captures = true;
    return own.drv.cuStreamBeginCapture_v2(stream, mode);
}

static CUresult
begin_capture_to(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                 const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode)
{
    me->priv->captures = true;
    return own.drv.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, n,
                                               mode);
}

#define PREFER(drv, name, fn) ((drv)->name = own.drv.name ? (fn) : NULL)

void
wrk_charged_prefer(struct wrk *w, struct drv *drv)
{
    own.drv = *drv;
    me = w;
    PREFER(drv, cuMemcpyDtoDAsync_v2, copy_dtod);
    PREFER(drv, cuMemcpyPeerAsync, copy_peer);
    PREFER(drv, cuMemsetD8Async, set_d8);
    PREFER(drv, cuMemsetD16Async, set_d16);
    PREFER(drv, cuMemsetD32Async, set_d32);
    PREFER(drv, cuMemsetD2D8Async, set_2d8);
    PREFER(drv, cuMemsetD2D16Async, set_2d16);
    PREFER(drv, cuMemsetD2D32Async, set_2d32);
    PREFER(drv, cuStreamBeginCapture_v2, begin_capture);
    PREFER(drv, cuStreamBeginCaptureToGraph, begin_capture_to);
}
