/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of rectangles and boxes: the calls for 2D, 3D and peer copies.
 *
 * Each describes its copy (stub_box.h), finds its facts and runs the path that the
 * table names (stub_path_table.h).  Such copies have fewer facts than linear ones: they
 * never travel in a frame, and page-locked memory that the worker has mapped is not
 * used for them.
 */
#include "stub_box.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_copy_facts.h"
#include "stub_d2h_async.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_path.h"
#include "stub_pinned.h"
#include "wire_api.h"

static bool
rect_blocks(uint16_t number)
{
    return number == WIRE_CALL_cuMemcpy2D_v2 ||
           number == WIRE_CALL_cuMemcpy2DUnaligned_v2 ||
           number == WIRE_CALL_cuMemcpy3D_v2 || number == WIRE_CALL_cuMemcpy3DPeer;
}

/* A peer copy names contexts, for which the description of a node has no place. */
static bool
rect_is_capturable(const struct stub_copy *copy)
{
    return stub_capture_any() && !copy->blocking &&
           copy->box->call != WIRE_CALL_cuMemcpy3DPeerAsync;
}

static enum stub_direction
rect_direction(const struct stub_box *box)
{
    return box->src.base   ? box->dst.base ? STUB_H2H : STUB_H2D
           : box->dst.base ? STUB_D2H
                           : STUB_D2D;
}

static bool
rect_may_be_unawaited(const struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;

    return stub_box_source_inside(box) &&
           (copy->stream_id == 0 ||
            stub_handle_ok(WIRE_KIND_STREAM, copy->stream_id)) &&
           stub_d2h_async_possible(stub_link_here(), box->dst.base,
                                   stub_box_extent(box, &box->dst));
}

/* A peer copy is no node. */
static bool
rect_has_turn(const struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;

    return box->call != WIRE_CALL_cuMemcpy3DPeerAsync &&
           (copy->direction == STUB_H2D
                ? stub_copy_has_turn(copy, box->src.base,
                                     stub_box_extent(box, &box->src))
                : copy->direction == STUB_D2H &&
                      stub_copy_has_turn(copy, box->dst.base,
                                         stub_box_extent(box, &box->dst)));
}

/* True if the stream is being captured: the copy becomes a node then. */
static bool
rect_is_captured(struct stub_copy *copy, CUresult *ret)
{
    *ret = CUDA_SUCCESS;
    copy->facts = copy->blocking ? STUB_COPY_BLOCKING : 0;
    if (!rect_is_capturable(copy) ||
        !stub_graph_hostmem_captures(copy->stream, copy->per_thread, copy->box->given,
                                     ret))
        return false;
    copy->facts |= STUB_COPY_CAPTURED;
    return true;
}

/* Is the source memory that the program has from the interface?  Devices do not change
 * any other. */
static bool
rect_source_is_known(const struct stub_box *box)
{
    uint64_t first = (uintptr_t)box->src.base, extent;
    enum stub_memory_kind kind;

    if (!box->src.base || !box->rows)
        return false;
    extent = stub_box_extent(box, &box->src);
    return stub_memory_find_kind(first, 1, &kind) ||
           stub_memory_find_kind(first + extent - 1, 1, &kind);
}

/* With memory that host and device share, the host's side must be up to date before
 * the copy, and after a blocking copy the host sees its result.  A copy by the device
 * keeps the order with kernels that write the same pages, also while another stream is
 * captured. */
static CUresult
rect_run(struct stub_box *box, struct stub_copy *copy)
{
    bool by_device;
    CUresult r;

    copy->direction = rect_direction(box);
    copy->blocking = rect_blocks(box->call);
    copy->box = box;
    copy->n = box->rows * box->width;
    if (rect_is_captured(copy, &r))
        return r == CUDA_SUCCESS ? stub_path_run(STUB_BOX, copy) : r;
    if (r != CUDA_SUCCESS)
        return r;
    by_device = (stub_pinned_any() || stub_managed_is_on()) && stub_box_use_device(box);
    copy->direction = rect_direction(box);
    if (copy->direction == STUB_D2H && !copy->blocking && copy->n &&
        rect_may_be_unawaited(copy))
        copy->facts |= STUB_COPY_KNOWN | STUB_COPY_UNAWAITED;
    if (stub_box_overruns(box))
        return CUDA_ERROR_INVALID_VALUE;
    if (copy->n && rect_has_turn(copy))
        copy->facts |= STUB_COPY_AT_ITS_TURN;
    r = stub_copy_await_turn(copy);
    if (r != CUDA_SUCCESS)
        return r;
    if (stub_managed_pending() && rect_source_is_known(box))
        r = stub_managed_sync();
    else if (box->src.base && copy->n &&
             stub_graph_hostmem_writes((uintptr_t)box->src.base,
                                       stub_box_extent(box, &box->src)))
        r = stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread);
    if (r == CUDA_SUCCESS && copy->n)
        r = stub_path_run(STUB_BOX, copy);
    if (r != CUDA_SUCCESS || !copy->blocking)
        return r;
    return by_device ? stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread)
                     : stub_managed_sync();
}

/* ---- the shapes ------------------------------------------------------------- */

static CUresult
rect_3d(uint16_t number, const CUDA_MEMCPY3D *given, CUstream stream, bool per_thread)
{
    struct stub_copy copy = {.per_thread = per_thread, .stream = stream};
    struct stub_box box;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &copy.stream_id);
    if (r == CUDA_SUCCESS)
        r = given ? stub_box_open(&box, number, given) : CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? rect_run(&box, &copy) : r;
}

static CUresult
rect_2d(uint16_t number, const CUDA_MEMCPY2D *given, CUstream stream, bool per_thread)
{
    CUDA_MEMCPY3D wide;

    if (given)
        stub_box_widen(&wide, given);
    return rect_3d(number, given ? &wide : NULL, stream, per_thread);
}

/* ---- the calls -------------------------------------------------------------- */

CUresult
stub_impl_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy, bool per_thread)
{
    return rect_2d(WIRE_CALL_cuMemcpy2D_v2, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy, bool per_thread)
{
    return rect_2d(WIRE_CALL_cuMemcpy2DUnaligned_v2, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream,
                             bool per_thread)
{
    return rect_2d(WIRE_CALL_cuMemcpy2DAsync_v2, pCopy, hStream, per_thread);
}

CUresult
stub_impl_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy, bool per_thread)
{
    return rect_3d(WIRE_CALL_cuMemcpy3D_v2, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream,
                             bool per_thread)
{
    return rect_3d(WIRE_CALL_cuMemcpy3DAsync_v2, pCopy, hStream, per_thread);
}

/* Both memories say in which context they are. */
static CUresult
rect_peer(uint16_t number, const CUDA_MEMCPY3D_PEER *copy, CUstream stream,
          bool per_thread)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stub_handle_ok(WIRE_KIND_CTX, (uintptr_t)copy->srcContext) ||
        !stub_handle_ok(WIRE_KIND_CTX, (uintptr_t)copy->dstContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    return rect_3d(number, (const CUDA_MEMCPY3D *)copy, stream, per_thread);
}

CUresult
stub_impl_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy, bool per_thread)
{
    return rect_peer(WIRE_CALL_cuMemcpy3DPeer, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream,
                              bool per_thread)
{
    return rect_peer(WIRE_CALL_cuMemcpy3DPeerAsync, pCopy, hStream, per_thread);
}
