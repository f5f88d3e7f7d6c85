/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose arguments belong to two servers of the session: copies, waiting for an
 * event, access between devices.
 *
 * Each stub_multi_cuX() returns false when its arguments belong to one server after
 * all; then the call is made there as usual (stub_link_switch.h).
 */
#include "stub_multi.h"
#include "attach.pb-c.h"
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_internal_stream.h"
#include "stub_link_switch.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_move.h"
#include "stub_relay.h"
#include "stub_result.h"
#include "stub_stream.h"
#include "wire_api.h"

/* ---- whose is it ------------------------------------------------------------ */

/* The context that device memory at @addr belongs to; NULL: it is no such memory. */
struct stub_ctx *
stub_multi_owner(CUdeviceptr addr)
{
    uint32_t link, index;

    return stub_memory_where(addr, &link, &index) ? stub_ctx_on(link, index) : NULL;
}

static uint32_t
multi_link(const struct stub_ctx *ctx)
{
    return wire_handle_link(ctx->handle);
}

static uint32_t
multi_stream_link(CUstream stream)
{
    uint64_t id = (uintptr_t)stream;

    return id > 2 ? wire_handle_link(id) : stub_link_here()->number;
}

/* Device memory on both sides, and of two servers? */
static bool
multi_pair(struct stub_move *move, CUdeviceptr dst, CUdeviceptr src, uint64_t n)
{
    struct stub_ctx *to = stub_multi_owner(dst), *from = stub_multi_owner(src);

    *move = (struct stub_move){.dst_ctx = to,
                               .src_ctx = from,
                               .dst = dst,
                               .src = src,
                               .width = n,
                               .rows = 1,
                               .slices = 1};
    return to && from && multi_link(to) != multi_link(from);
}

/* ---- order ------------------------------------------------------------------ */

/* A wait in a captured stream would happen once, not at every launch of the graph. */
static CUresult
multi_not_captured(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r = per_thread ? cuStreamIsCapturing_ptsz(stream, &status)
                            : cuStreamIsCapturing(stream, &status);

    if (r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return r;
}

bool
stub_multi_wait_elsewhere(CUresult *ret, int link, CUstream stream, bool per_thread)
{
    if (link < 0 || (uint32_t)link == multi_stream_link(stream))
        return false;
    *ret = multi_not_captured(stream, per_thread);
    if (*ret == CUDA_SUCCESS)
        *ret = per_thread ? cuStreamSynchronize_ptsz(stream)
                          : stub_capture_wait_stream(stream);
    return true;
}

/* Make the context of @stream current, also at the server where the thread is: the
 * driver refuses fences of other contexts. */
static void
multi_enter_stream(struct stub_link_switch *link_switch, CUstream stream)
{
    struct stub_route route = STUB_ROUTE_HERE;
    bool alive;

    stub_route_handle(&route, WIRE_KIND_STREAM, (uintptr_t)stream);
    link_switch->away = route.link >= 0 && !stub_tls.stay &&
                        ((uint32_t)route.link != stub_link_here()->number ||
                         route.ctx != stub_tls.ctx_index) &&
                        stub_ctx_push_on((uint32_t)route.link, route.ctx, &alive) == 0;
}

/* True if another session uses the device as well, or ours may use only a part of
 * its time.  Work that waits on the device for another server then blocks the work
 * of others, who may block that server's, and is charged as if the device were busy;
 * so the host waits instead. */
static bool
multi_shares(const struct stub_ctx *ctx)
{
    return stub_devices[ctx->dev].info->core_percent < 100;
}

/* At the server of @stream: its next work comes after @move. */
static CUresult
multi_copy_here(const struct stub_move *move, CUstream stream)
{
    struct stub_semaphore semaphore;
    struct stub_fence fence;
    CUresult r = multi_not_captured(stream, false);

    if (r == CUDA_SUCCESS)
        r = stub_fence_set(stream, NULL, &fence);
    if (r == CUDA_SUCCESS && multi_shares(stub_tls.ctx)) {
        r = stub_fence_wait(&fence);
        return r == CUDA_SUCCESS ? stub_move_now(move) : r;
    }
    if (r == CUDA_SUCCESS)
        r = stub_semaphore_wait(stream, &semaphore);
    return r == CUDA_SUCCESS ? stub_relay(&fence, move, &semaphore) : r;
}

CUresult
stub_multi_copy_async(const struct stub_move *move, CUstream stream, bool per_thread)
{
    uint64_t id = stub_stream_id(stream, per_thread);
    struct stub_link_switch link_switch;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_tls.ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (id == UINT64_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    multi_enter_stream(&link_switch, (CUstream)(uintptr_t)id);
    r = multi_copy_here(move, (CUstream)(uintptr_t)id);
    stub_link_switch_end(&link_switch);
    return r;
}

/* After all work of both sides, as copies between devices are.  Beside a capture that
 * cannot be waited for: then after the default streams. */
static CUresult
multi_resolve(struct stub_ctx *ctx)
{
    bool captured = false;
    CUresult r;

    if (!stub_internal_ctx_push(ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = stub_ctx_synchronize_uncaptured(&captured);
    if (captured)
        r = stub_capture_wait_stream(CU_STREAM_LEGACY);
    stub_internal_ctx_pop();
    return r;
}

static CUresult
multi_resolve_both(const struct stub_move *move)
{
    CUresult r = multi_resolve(move->src_ctx);

    return r == CUDA_SUCCESS ? multi_resolve(move->dst_ctx) : r;
}

CUresult
stub_multi_copy_now(const struct stub_move *move)
{
    CUresult r = multi_resolve_both(move);

    if (r == CUDA_SUCCESS && stub_tls.ctx)
        r = stub_capture_wait_stream(CU_STREAM_LEGACY);
    return r == CUDA_SUCCESS ? stub_move_now(move) : r;
}

/* ---- on the host ------------------------------------------------------------------
 */

/* A copy at one server in the order of another server's stream: the host waits for
 * the stream's work, then for the copy. */
static bool
multi_on_host(CUresult *ret, const struct stub_move *move, CUstream stream,
              bool per_thread)
{
    struct stub_ctx *at = move->dst_ctx ? move->dst_ctx : move->src_ctx;

    if (!at || !stub_multi_wait_elsewhere(ret, (int)multi_link(at), stream, per_thread))
        return false;
    if (*ret == CUDA_SUCCESS && move->named)
        *ret = cuMemcpyPeer(move->dst, stub_ctx_handle(move->dst_ctx), move->src,
                            stub_ctx_handle(move->src_ctx), move->width);
    else if (*ret == CUDA_SUCCESS)
        *ret = cuMemcpyDtoD_v2(move->dst, move->src, move->width);
    if (*ret == CUDA_SUCCESS)
        *ret = multi_resolve(at);
    return true;
}

/* ---- linear copies ---------------------------------------------------------- */

/* One side is memory that every server has, and the other one's server is not the
 * current one: a copy there, behind the default stream here, whose later work finds
 * what it wrote. */
static bool
multi_elsewhere(CUresult *ret, const struct stub_move *move)
{
    struct stub_ctx *at = move->dst_ctx ? move->dst_ctx : move->src_ctx;

    if (!at || !stub_tls.ctx || multi_link(at) == multi_link(stub_tls.ctx))
        return false;
    *ret = stub_capture_wait_stream(CU_STREAM_LEGACY);
    if (*ret != CUDA_SUCCESS)
        return true;
    if (!stub_internal_ctx_push(at)) {
        *ret = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return true;
    }
    *ret = stub_impl_cuMemcpyDtoD_v2(move->dst, move->src, move->width);
    if (*ret == CUDA_SUCCESS)
        *ret = stub_capture_wait_stream(CU_STREAM_LEGACY);
    stub_internal_ctx_pop();
    return true;
}

bool
stub_multi_cuMemcpyDtoD_v2(CUresult *ret, CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                           size_t ByteCount)
{
    struct stub_move move;

    if (!multi_pair(&move, dstDevice, srcDevice, ByteCount))
        return multi_elsewhere(ret, &move);
    *ret = stub_multi_copy_now(&move);
    return true;
}

bool
stub_multi_cuMemcpyDtoDAsync_v2(CUresult *ret, CUdeviceptr dstDevice,
                                CUdeviceptr srcDevice, size_t ByteCount,
                                CUstream hStream, bool per_thread)
{
    struct stub_move move;

    if (!multi_pair(&move, dstDevice, srcDevice, ByteCount))
        return multi_on_host(ret, &move, hStream, per_thread);
    *ret = stub_multi_copy_async(&move, hStream, per_thread);
    return true;
}

/* A copy between the host and a device, in the order of another server's stream: the
 * host waits for the stream's work, which a copy of pageable memory is allowed to
 * do. */
static bool
multi_host(CUresult *ret, CUdeviceptr device, CUstream stream, bool per_thread)
{
    const struct stub_ctx *owner = stub_multi_owner(device);

    return owner &&
           stub_multi_wait_elsewhere(ret, (int)multi_link(owner), stream, per_thread);
}

bool
stub_multi_cuMemcpyHtoDAsync_v2(CUresult *ret, CUdeviceptr dstDevice,
                                const void *srcHost, size_t ByteCount, CUstream hStream,
                                bool per_thread)
{
    if (!multi_host(ret, dstDevice, hStream, per_thread))
        return false;
    if (*ret == CUDA_SUCCESS)
        *ret = cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
    return true;
}

bool
stub_multi_cuMemcpyDtoHAsync_v2(CUresult *ret, void *dstHost, CUdeviceptr srcDevice,
                                size_t ByteCount, CUstream hStream, bool per_thread)
{
    if (!multi_host(ret, srcDevice, hStream, per_thread))
        return false;
    if (*ret == CUDA_SUCCESS)
        *ret = cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
    return true;
}

bool
stub_multi_cuMemcpy(CUresult *ret, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                    bool per_thread)
{
    (void)per_thread;
    return stub_multi_cuMemcpyDtoD_v2(ret, dst, src, ByteCount);
}

bool
stub_multi_cuMemcpyAsync(CUresult *ret, CUdeviceptr dst, CUdeviceptr src,
                         size_t ByteCount, CUstream hStream, bool per_thread)
{
    if (stub_memory_is_device(dst) && stub_memory_is_device(src))
        return stub_multi_cuMemcpyDtoDAsync_v2(ret, dst, src, ByteCount, hStream,
                                               per_thread);
    if (!multi_host(ret, dst, hStream, per_thread) &&
        !multi_host(ret, src, hStream, per_thread))
        return false;
    if (*ret == CUDA_SUCCESS)
        *ret = cuMemcpy(dst, src, ByteCount);
    return true;
}

/* ---- between named contexts ------------------------------------------------- */

/* Contexts that are none are the usual way's to judge. */
static bool
multi_peers(struct stub_move *move, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
            CUcontext src_ctx, uint64_t n)
{
    struct stub_ctx *to = stub_ctx_get(dst_ctx), *from = stub_ctx_get(src_ctx);

    *move = (struct stub_move){.dst_ctx = to,
                               .src_ctx = from,
                               .named = true,
                               .dst = dst,
                               .src = src,
                               .width = n,
                               .rows = 1,
                               .slices = 1};
    return to && from && multi_link(to) != multi_link(from);
}

/* Memory that every server has belongs to no server; the other side of the copy
 * decides. */
static bool
multi_peers_share(const struct stub_move *move)
{
    return stub_memory_is_everywhere(move->dst) || stub_memory_is_everywhere(move->src);
}

bool
stub_multi_peers_apart(const struct stub_peer_copy *copy)
{
    return copy->dst_ctx && copy->src_ctx &&
           multi_link(copy->dst_ctx) != multi_link(copy->src_ctx);
}

CUresult
stub_multi_peers_wait(const struct stub_peer_copy *copy)
{
    CUresult r = stub_tls.ctx ? multi_resolve(stub_tls.ctx) : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS)
        r = multi_resolve(copy->src_ctx);
    return r == CUDA_SUCCESS ? multi_resolve(copy->dst_ctx) : r;
}

/* Both contexts are at one server, whose copy would come behind all of their work and
 * in front of all that follows.  A job between servers that has not ended has a stream
 * there wait for its semaphore, and releases it by work of the same context, which the
 * copy would hold back: they would wait for each other.  So the host waits, and the
 * copy goes in a stream of ours. */
static CUresult
multi_peers_beside_relays(const struct stub_peer_copy *copy)
{
    CUresult r = stub_multi_peers_wait(copy);
    CUstream stream;

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_internal_ctx_push(copy->dst_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    stream = stub_internal_stream();
    r = stream ? copy->in_stream(copy->what, stream) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(stream);
    if (stream)
        stub_internal_stream_put(stream);
    stub_internal_ctx_pop();
    return r;
}

/* This thread makes a copy whose contexts are at one server as that server does it. */
static _Thread_local bool peers_plain;

/* With a context of that server current.  No stream begins to wait for a semaphore
 * while the copy is posted: the wait could come in front of the copy, and what ends it
 * comes behind.  A copy that waits for the card must not hold off others, for whom the
 * card may wait; a stream that begins to wait just before it is not seen. */
static CUresult
multi_peers_together(const struct stub_peer_copy *copy)
{
    CUresult r;

    if (!stub_semaphores_hold_off())
        return multi_peers_beside_relays(copy);
    if (copy->waits)
        stub_semaphores_go_on();
    peers_plain = true;
    r = copy->now(copy->what);
    peers_plain = false;
    if (!copy->waits)
        stub_semaphores_go_on();
    return r;
}

/* Both contexts are at one server, and the current one, behind whose work the copy
 * comes and whose later work finds what it wrote, at another. */
static CUresult
multi_peers_elsewhere(const struct stub_peer_copy *copy)
{
    CUresult r = multi_resolve(stub_tls.ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_internal_ctx_push(copy->dst_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = multi_peers_together(copy);
    stub_internal_ctx_pop();
    if (r == CUDA_SUCCESS)
        r = multi_resolve(copy->src_ctx);
    return r == CUDA_SUCCESS ? multi_resolve(copy->dst_ctx) : r;
}

bool
stub_multi_peers_here(CUresult *ret, const struct stub_peer_copy *copy)
{
    if (peers_plain || !copy->dst_ctx || !copy->src_ctx || !stub_tls.ctx)
        return false;
    *ret = multi_link(copy->dst_ctx) != multi_link(stub_tls.ctx)
               ? multi_peers_elsewhere(copy)
               : multi_peers_together(copy);
    return true;
}

static CUresult
peer_now(const void *what)
{
    const struct stub_move *move = what;

    return cuMemcpyPeer(move->dst, stub_ctx_handle(move->dst_ctx), move->src,
                        stub_ctx_handle(move->src_ctx), move->width);
}

static CUresult
peer_in_stream(const void *what, CUstream stream)
{
    const struct stub_move *move = what;

    return cuMemcpyPeerAsync(move->dst, stub_ctx_handle(move->dst_ctx), move->src,
                             stub_ctx_handle(move->src_ctx), move->width, stream);
}

bool
stub_multi_cuMemcpyPeer(CUresult *ret, CUdeviceptr dstDevice, CUcontext dstContext,
                        CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
    struct stub_move move;

    if (!multi_peers(&move, dstDevice, dstContext, srcDevice, srcContext, ByteCount))
        return stub_multi_peers_here(ret, &(struct stub_peer_copy){
                                              .dst_ctx = move.dst_ctx,
                                              .src_ctx = move.src_ctx,
                                              .what = &move,
                                              .now = peer_now,
                                              .in_stream = peer_in_stream,
                                          });
    if (multi_peers_share(&move)) {
        *ret = multi_resolve_both(&move);
        if (*ret == CUDA_SUCCESS)
            *ret = cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
        if (*ret == CUDA_SUCCESS)
            *ret = multi_resolve_both(&move);
        return true;
    }
    *ret = stub_multi_copy_now(&move);
    return true;
}

bool
stub_multi_cuMemcpyPeerAsync(CUresult *ret, CUdeviceptr dstDevice, CUcontext dstContext,
                             CUdeviceptr srcDevice, CUcontext srcContext,
                             size_t ByteCount, CUstream hStream, bool per_thread)
{
    struct stub_move move;

    if (!multi_peers(&move, dstDevice, dstContext, srcDevice, srcContext, ByteCount))
        return move.dst_ctx && move.src_ctx &&
               multi_on_host(ret, &move, hStream, per_thread);
    if (multi_peers_share(&move)) {
        *ret = per_thread
                   ? cuMemcpyDtoDAsync_v2_ptsz(dstDevice, srcDevice, ByteCount, hStream)
                   : cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
        return true;
    }
    *ret = stub_multi_copy_async(&move, hStream, per_thread);
    return true;
}

/* ---- events ----------------------------------------------------------------- */

/* At the server of the event: a fence behind the work that it marks now. */
static CUresult
multi_event_fence(CUevent event, struct stub_fence *ret)
{
    struct stub_route route = STUB_ROUTE_HERE;
    struct stub_link_switch link_switch;
    CUresult r;

    stub_route_handle(&route, WIRE_KIND_EVENT, (uintptr_t)event);
    stub_link_switch_begin(&link_switch, &route);
    r = stub_fence_set(NULL, event, ret);
    stub_link_switch_end(&link_switch);
    return r;
}

static CUresult
multi_wait_event(CUstream stream, CUevent event)
{
    struct stub_semaphore semaphore;
    struct stub_fence fence;
    CUresult r = multi_not_captured(stream, false);

    if (r == CUDA_SUCCESS)
        r = multi_event_fence(event, &fence);
    if (r == CUDA_SUCCESS && multi_shares(stub_tls.ctx))
        return stub_fence_wait(&fence);
    if (r == CUDA_SUCCESS)
        r = stub_semaphore_wait(stream, &semaphore);
    return r == CUDA_SUCCESS ? stub_relay(&fence, NULL, &semaphore) : r;
}

/* An event is recorded in streams of its own context only.  Without this, a default
 * stream would be that of a context at the event's server. */
static bool
multi_record_refused(CUresult *ret, CUevent event, CUstream stream)
{
    uint64_t id = (uintptr_t)stream;

    if (!stub_handle_ok(WIRE_KIND_EVENT, (uintptr_t)event) ||
        (id > 2 && !stub_handle_ok(WIRE_KIND_STREAM, id)) ||
        wire_handle_link((uintptr_t)event) == multi_stream_link(stream))
        return false;
    *ret = stub_enter();
    if (*ret == CUDA_SUCCESS)
        *ret = id > 2 || stub_tls.ctx ? CUDA_ERROR_INVALID_HANDLE
                                      : CUDA_ERROR_INVALID_CONTEXT;
    return true;
}

bool
stub_multi_cuEventRecord(CUresult *ret, CUevent hEvent, CUstream hStream,
                         bool per_thread)
{
    (void)per_thread;
    return multi_record_refused(ret, hEvent, hStream);
}

bool
stub_multi_cuEventRecordWithFlags(CUresult *ret, CUevent hEvent, CUstream hStream,
                                  unsigned int flags, bool per_thread)
{
    (void)per_thread;
    return !(flags & ~1u) && multi_record_refused(ret, hEvent, hStream);
}

bool
stub_multi_cuStreamWaitEvent(CUresult *ret, CUstream hStream, CUevent hEvent,
                             unsigned int Flags, bool per_thread)
{
    struct stub_link_switch link_switch;
    uint64_t id;

    if (!stub_handle_ok(WIRE_KIND_EVENT, (uintptr_t)hEvent) ||
        wire_handle_link((uintptr_t)hEvent) == multi_stream_link(hStream))
        return false;
    id = stub_stream_id(hStream, per_thread);
    *ret = id > 2 && !stub_handle_ok(WIRE_KIND_STREAM, id) ? CUDA_ERROR_INVALID_HANDLE
           : Flags                                         ? CUDA_ERROR_INVALID_VALUE
                                                           : stub_enter();
    if (*ret != CUDA_SUCCESS)
        return true;
    multi_enter_stream(&link_switch, (CUstream)(uintptr_t)id);
    *ret = stub_tls.ctx ? multi_wait_event((CUstream)(uintptr_t)id, hEvent)
                        : CUDA_ERROR_INVALID_CONTEXT;
    stub_link_switch_end(&link_switch);
    return true;
}
