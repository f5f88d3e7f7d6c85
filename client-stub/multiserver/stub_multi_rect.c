/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rectangles and boxes between servers, and rectangles between the host and a card that
 * is not the current context's.  Arrays stay with their server.
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "stub_box.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_link_switch.h"
#include "stub_manual.h"
#include "stub_move.h"
#include "stub_multi.h"
#include "wire_api.h"

/* One side of a description. */
struct multi_box {
    CUmemorytype type;
    CUdeviceptr base;
    size_t x, y, z, pitch, height;
    CUarray array;
};

static struct multi_box
box_of(CUmemorytype type, CUdeviceptr base, const size_t at[3], size_t pitch,
       size_t height, CUarray array)
{
    return (struct multi_box){.type = type,
                              .base = base,
                              .x = at[0],
                              .y = at[1],
                              .z = at[2],
                              .pitch = pitch,
                              .height = height,
                              .array = array};
}

static struct multi_box
box_src(const CUDA_MEMCPY3D *c)
{
    const size_t at[3] = {c->srcXInBytes, c->srcY, c->srcZ};

    return box_of(c->srcMemoryType, c->srcDevice, at, c->srcPitch, c->srcHeight,
                  c->srcArray);
}

static struct multi_box
box_dst(const CUDA_MEMCPY3D *c)
{
    const size_t at[3] = {c->dstXInBytes, c->dstY, c->dstZ};

    return box_of(c->dstMemoryType, c->dstDevice, at, c->dstPitch, c->dstHeight,
                  c->dstArray);
}

/* The link of device memory or of an array, -1: the host's. */
static int
box_link(const struct multi_box *box)
{
    const struct stub_ctx *owner = NULL;

    if (box->type == CU_MEMORYTYPE_ARRAY)
        return (int)wire_handle_link((uintptr_t)box->array);
    if (box->type != CU_MEMORYTYPE_HOST)
        owner = stub_multi_owner(box->base);
    return owner ? (int)wire_handle_link(owner->handle) : -1;
}

/* The address of its first byte, and the distance between slices.  A pitch or height
 * that is not given has room for the offset and the copy. */
static bool
box_place(const struct multi_box *box, const CUDA_MEMCPY3D *c, CUdeviceptr *ret_at,
          uint64_t *ret_pitch, uint64_t *ret_slice)
{
    uint64_t pitch = box->pitch, rows = box->height, offset, part;

    if ((!pitch && !gp_add_ok(box->x, c->WidthInBytes, &pitch)) ||
        (!rows && !gp_add_ok(box->y, c->Height, &rows)) ||
        !gp_mul_ok(pitch, rows, ret_slice) || !gp_mul_ok(*ret_slice, box->z, &offset) ||
        !gp_mul_ok(pitch, box->y, &part) || !gp_add_ok(offset, part, &offset) ||
        !gp_add_ok(offset, box->x, &offset) ||
        (c->Height > 1 && pitch < c->WidthInBytes))
        return false;
    *ret_pitch = pitch;
    *ret_at = box->base + offset;
    return true;
}

static CUresult
rect_between(const struct multi_box *dst, const struct multi_box *src,
             const CUDA_MEMCPY3D *c, uint16_t number, struct stub_move *ret)
{
    if (dst->type == CU_MEMORYTYPE_ARRAY || src->type == CU_MEMORYTYPE_ARRAY)
        return stub_unsupported(number);
    *ret = (struct stub_move){.dst_ctx = stub_multi_owner(dst->base),
                              .src_ctx = stub_multi_owner(src->base),
                              .width = c->WidthInBytes,
                              .rows = c->Height,
                              .slices = c->Depth};
    return box_place(dst, c, &ret->dst, &ret->dst_pitch, &ret->dst_slice) &&
                   box_place(src, c, &ret->src, &ret->src_pitch, &ret->src_slice)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* The stream of the copy is another server's, and its work is done. */
static CUresult
rect_in_default_stream(const struct stub_route *route, const void *copy,
                       CUresult (*body)(const void *, CUstream, bool))
{
    struct stub_link_switch link_switch;
    CUresult r;

    stub_link_switch_begin(&link_switch, route);
    r = body(copy, CU_STREAM_LEGACY, false);
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(CU_STREAM_LEGACY);
    stub_link_switch_end(&link_switch);
    return r;
}

/* @wide is @copy as a box.  @async: in the order of @stream. */
static bool
rect_multi(CUresult *ret, uint16_t number, const CUDA_MEMCPY3D *wide, const void *copy,
           CUresult (*body)(const void *, CUstream, bool), bool async, CUstream stream,
           bool per_thread)
{
    struct multi_box dst = box_dst(wide), src = box_src(wide);
    int to = box_link(&dst), from = box_link(&src);
    struct stub_route route = {.link = to >= 0 ? to : from};
    struct stub_link_switch link_switch;
    struct stub_move move;

    if (to >= 0 && from >= 0 && to != from) {
        *ret = rect_between(&dst, &src, wide, number, &move);
        if (*ret == CUDA_SUCCESS)
            *ret = async ? stub_multi_copy_async(&move, stream, per_thread)
                         : stub_multi_copy_now(&move);
        return true;
    }
    if (async && stub_multi_wait_elsewhere(ret, route.link, stream, per_thread)) {
        if (*ret == CUDA_SUCCESS)
            *ret = rect_in_default_stream(&route, copy, body);
        return true;
    }
    stub_link_switch_begin(&link_switch, &route);
    *ret = body(copy, stream, per_thread);
    stub_link_switch_end(&link_switch);
    return true;
}

static bool
rect_cross_2d(CUresult *ret, uint16_t number, const CUDA_MEMCPY2D *c,
              CUresult (*body)(const void *, CUstream, bool), bool async,
              CUstream stream, bool per_thread)
{
    CUDA_MEMCPY3D wide;

    if (!c)
        return false;
    stub_box_widen(&wide, c);
    return rect_multi(ret, number, &wide, c, body, async, stream, per_thread);
}

static bool
rect_cross_3d(CUresult *ret, uint16_t number, const CUDA_MEMCPY3D *c,
              CUresult (*body)(const void *, CUstream, bool), bool async,
              CUstream stream, bool per_thread)
{
    return c && rect_multi(ret, number, c, c, body, async, stream, per_thread);
}

/* ---- the calls -------------------------------------------------------------- */

static CUresult
body_2d(const void *copy, CUstream stream, bool per_thread)
{
    (void)stream;
    return stub_impl_cuMemcpy2D_v2(copy, per_thread);
}

bool
stub_multi_cuMemcpy2D_v2(CUresult *ret, const CUDA_MEMCPY2D *pCopy, bool per_thread)
{
    return rect_cross_2d(ret, WIRE_CALL_cuMemcpy2D_v2, pCopy, body_2d, false, NULL,
                         per_thread);
}

static CUresult
body_2d_unaligned(const void *copy, CUstream stream, bool per_thread)
{
    (void)stream;
    return stub_impl_cuMemcpy2DUnaligned_v2(copy, per_thread);
}

bool
stub_multi_cuMemcpy2DUnaligned_v2(CUresult *ret, const CUDA_MEMCPY2D *pCopy,
                                  bool per_thread)
{
    return rect_cross_2d(ret, WIRE_CALL_cuMemcpy2DUnaligned_v2, pCopy,
                         body_2d_unaligned, false, NULL, per_thread);
}

static CUresult
body_2d_async(const void *copy, CUstream stream, bool per_thread)
{
    return stub_impl_cuMemcpy2DAsync_v2(copy, stream, per_thread);
}

bool
stub_multi_cuMemcpy2DAsync_v2(CUresult *ret, const CUDA_MEMCPY2D *pCopy,
                              CUstream hStream, bool per_thread)
{
    return rect_cross_2d(ret, WIRE_CALL_cuMemcpy2DAsync_v2, pCopy, body_2d_async, true,
                         hStream, per_thread);
}

static CUresult
body_3d(const void *copy, CUstream stream, bool per_thread)
{
    (void)stream;
    return stub_impl_cuMemcpy3D_v2(copy, per_thread);
}

bool
stub_multi_cuMemcpy3D_v2(CUresult *ret, const CUDA_MEMCPY3D *pCopy, bool per_thread)
{
    return rect_cross_3d(ret, WIRE_CALL_cuMemcpy3D_v2, pCopy, body_3d, false, NULL,
                         per_thread);
}

static CUresult
body_3d_async(const void *copy, CUstream stream, bool per_thread)
{
    return stub_impl_cuMemcpy3DAsync_v2(copy, stream, per_thread);
}

bool
stub_multi_cuMemcpy3DAsync_v2(CUresult *ret, const CUDA_MEMCPY3D *pCopy,
                              CUstream hStream, bool per_thread)
{
    return rect_cross_3d(ret, WIRE_CALL_cuMemcpy3DAsync_v2, pCopy, body_3d_async, true,
                         hStream, per_thread);
}

/* ---- between named contexts -------------------------------------------------------
 */

static CUresult
body_3d_peer(const void *copy, CUstream stream, bool per_thread)
{
    (void)stream;
    return stub_impl_cuMemcpy3DPeer(copy, per_thread);
}

static CUresult
body_3d_peer_async(const void *copy, CUstream stream, bool per_thread)
{
    return stub_impl_cuMemcpy3DPeerAsync(copy, stream, per_thread);
}

static CUresult
box_now(const void *what)
{
    return cuMemcpy3DPeer(what);
}

static CUresult
box_in_stream(const void *what, CUstream stream)
{
    return cuMemcpy3DPeerAsync(what, stream);
}

static struct stub_peer_copy
box_peers(const CUDA_MEMCPY3D_PEER *c)
{
    struct multi_box dst = box_dst((const CUDA_MEMCPY3D *)c),
                     src = box_src((const CUDA_MEMCPY3D *)c);

    return (struct stub_peer_copy){.dst_ctx = stub_ctx_get(c->dstContext),
                                   .src_ctx = stub_ctx_get(c->srcContext),
                                   .what = c,
                                   .now = box_now,
                                   .in_stream = box_in_stream,
                                   .waits = box_link(&dst) < 0 || box_link(&src) < 0};
}

/* Of the memory of two servers: where the bytes are decides, not the contexts. */
static bool
box_is_cross(const CUDA_MEMCPY3D_PEER *c)
{
    struct multi_box dst = box_dst((const CUDA_MEMCPY3D *)c),
                     src = box_src((const CUDA_MEMCPY3D *)c);
    int to = box_link(&dst), from = box_link(&src);

    return to >= 0 && from >= 0 && to != from;
}

/* The contexts are of two servers, and one side is memory that every server has. */
static CUDA_MEMCPY3D
box_without_contexts(const CUDA_MEMCPY3D_PEER *c)
{
    CUDA_MEMCPY3D plain = *(const CUDA_MEMCPY3D *)c;

    plain.reserved0 = plain.reserved1 = NULL;
    return plain;
}

static CUresult
box_shared(const struct stub_peer_copy *peers, const CUDA_MEMCPY3D_PEER *c)
{
    const CUDA_MEMCPY3D plain = box_without_contexts(c);
    CUresult r = stub_multi_peers_wait(peers);

    if (r == CUDA_SUCCESS)
        r = cuMemcpy3D_v2(&plain);
    return r == CUDA_SUCCESS ? stub_multi_peers_wait(peers) : r;
}

bool
stub_multi_cuMemcpy3DPeer(CUresult *ret, const CUDA_MEMCPY3D_PEER *pCopy,
                          bool per_thread)
{
    struct stub_peer_copy peers;

    if (!pCopy)
        return false;
    peers = box_peers(pCopy);
    if (!box_is_cross(pCopy)) {
        if (stub_multi_peers_apart(&peers)) {
            *ret = box_shared(&peers, pCopy);
            return true;
        }
        if (stub_multi_peers_here(ret, &peers))
            return true;
    }
    return rect_cross_3d(ret, WIRE_CALL_cuMemcpy3DPeer, (const CUDA_MEMCPY3D *)pCopy,
                         body_3d_peer, false, NULL, per_thread);
}

bool
stub_multi_cuMemcpy3DPeerAsync(CUresult *ret, const CUDA_MEMCPY3D_PEER *pCopy,
                               CUstream hStream, bool per_thread)
{
    struct stub_peer_copy peers;
    CUDA_MEMCPY3D plain;

    if (!pCopy)
        return false;
    peers = box_peers(pCopy);
    if (!box_is_cross(pCopy) && stub_multi_peers_apart(&peers)) {
        plain = box_without_contexts(pCopy);
        *ret = per_thread ? cuMemcpy3DAsync_v2_ptsz(&plain, hStream)
                          : cuMemcpy3DAsync_v2(&plain, hStream);
        return true;
    }
    if (peers.dst_ctx && peers.src_ctx && !box_is_cross(pCopy) &&
        stub_multi_wait_elsewhere(ret, (int)wire_handle_link(peers.dst_ctx->handle),
                                  hStream, per_thread)) {
        if (*ret == CUDA_SUCCESS)
            *ret = cuMemcpy3DPeer(pCopy);
        if (*ret == CUDA_SUCCESS)
            *ret = stub_multi_peers_wait(&peers);
        return true;
    }
    return rect_cross_3d(ret, WIRE_CALL_cuMemcpy3DPeerAsync,
                         (const CUDA_MEMCPY3D *)pCopy, body_3d_peer_async, true,
                         hStream, per_thread);
}
