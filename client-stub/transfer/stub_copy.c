/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear copies.
 *
 * Host to device: up to COPY_INLINE bytes ride in the frame itself; more go from the
 * caller's buffer to the connection without a copy, so the buffer may be reused when
 * the call returns.  The blocking form promises a little more (stub_copy_answered()).
 * Device to host: the calling thread waits and the bytes land in place; asynchronous
 * ones to pinned memory land while it goes on (stub_d2h_async.h). Between devices: a
 * frame.
 */
#include "stub_copy.h"

#include "cuda_api.h"
#include "stub_call.h"
#include "stub_d2h_async.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_pinned_copy.h"
#include "stub_stream.h"
#include "wire_api.h"
#include "wire_result.h"

#include <string.h>

/* Small enough that copying costs less than a write of its own. */
#define COPY_INLINE (16u * 1024u)

#define COPY_UNSETTLED (64u * 1024u)

/* The copies to a device have one frame, those to the host another. */
static_assert(sizeof(struct wire_cuMemcpyHtoD_v2_req) ==
                  sizeof(struct wire_cuMemcpyHtoDAsync_v2_req),
              "one writer for both");

/* @stream as on the wire.  An address outside of all memory we know is the driver's to
 * judge, and its verdict is awaited: programs expect it from this very call. */
static CUresult
copy_to_device(uint16_t number, uint64_t dst, const void *src, uint64_t n,
               uint64_t stream)
{
    struct wire_cuMemcpyHtoD_v2_req *req;
    bool blocking = number == WIRE_CALL_cuMemcpyHtoD_v2;
    bool small = n <= COPY_INLINE, sure = stub_copy_inside(dst, n);
    struct stub_pinned_place place;
    struct stub_call c;
    CUresult r;

    stub_land_wait(src, n);
    if (sure && stub_pinned_find(src, n, &place)) {
        r = blocking ? stub_pinned_copy(&place, dst, false, stream)
                     : stub_pinned_up(&place, dst, stream);
        if (r != WIRE_RESULT_SEND_BYTES)
            return r;
    }
    if (stub_managed_is_on() && stub_managed_touches(dst, n))
        stub_managed_work(stream);
    r = stub_call_begin(&c, number,
                        (uint32_t)sizeof(*req) + (small ? wire_align((uint32_t)n) : 0));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemcpyHtoD_v2_req){
        .dstDevice = dst,
        .hStream = stream,
        .ByteCount = n,
    };
    if (small)
        memcpy(req + 1, src, n);
    if (sure && !(blocking && stub_copy_answered(n)))
        return small ? stub_call_post(&c) : stub_call_post_bulk(&c, src, n);
    r = small ? stub_call_wait(&c) : stub_call_wait_bulk(&c, src, n);
    stub_call_end(&c);
    return r;
}

static CUresult
copy_to_host(uint16_t number, void *dst, uint64_t src, uint64_t n, uint64_t stream)
{
    struct wire_cuMemcpyDtoH_v2_rep_view rep = {0};
    struct stub_call c;
    CUresult r;

    static_assert(sizeof(struct wire_cuMemcpyDtoH_v2_req) ==
                      sizeof(struct wire_cuMemcpyDtoHAsync_v2_req),
                  "one writer for both");
    if (stub_managed_is_on() && stub_managed_touches(src, n))
        stub_managed_work(stream);
    r = stub_call_begin(&c, number, sizeof(struct wire_cuMemcpyDtoH_v2_req));
    if (r != CUDA_SUCCESS)
        return r;
    if (number == WIRE_CALL_cuMemcpyDtoH_v2)
        *(struct wire_cuMemcpyDtoH_v2_req *)c.body = (struct wire_cuMemcpyDtoH_v2_req){
            .srcDevice = src, .hStream = stream, .ByteCount = n};
    else
        *(struct wire_cuMemcpyDtoHAsync_v2_req *)c.body =
            (struct wire_cuMemcpyDtoHAsync_v2_req){
                .srcDevice = src, .hStream = stream, .ByteCount = n};
    r = stub_call_wait_into(&c, dst, n, sizeof(struct wire_cuMemcpyDtoH_v2_rep));
    if (r == CUDA_SUCCESS && !(c.reply_flags & WIRE_F_BULK)) {
        if (!wire_cuMemcpyDtoH_v2_rep_open(&rep, c.reply, c.reply_size, 0) ||
            rep.f->dstHost_n != n)
            r = stub_call_bad(number);
        else
            memcpy(dst, rep.dstHost, n);
    }
    if (r == CUDA_SUCCESS)
        stub_stream_idle(&c, stream);
    stub_call_end(&c);
    if (r == CUDA_SUCCESS && number == WIRE_CALL_cuMemcpyDtoH_v2 &&
        stub_managed_is_on())
        r = stub_managed_waited(stream); /* a blocking copy is a wait */
    return r;
}

/* To pinned memory: the call returns, the bytes come when the stream gets there. */
static CUresult
copy_land(void *dst, uint64_t src, uint64_t n, uint64_t stream)
{
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < n && r == CUDA_SUCCESS; at += WIRE_LAND_LARGE) {
        uint64_t len = gp_min(n - at, (uint64_t)WIRE_LAND_LARGE);
        struct stub_land_place place = {(uint8_t *)dst + at, len, len, 1};
        struct stub_land *land = stub_land_claim(stub_link_here(), &place);
        struct stub_call c;

        if (!land)
            return stub_link_refusal(stub_link_here());
        r = stub_call_begin(&c, WIRE_CALL_cuMemcpyDtoHAsync_v2,
                            sizeof(struct wire_cuMemcpyDtoHAsync_v2_req));
        if (r != CUDA_SUCCESS) {
            stub_land_drop(land);
            return r;
        }
        *(struct wire_cuMemcpyDtoHAsync_v2_req *)c.body =
            (struct wire_cuMemcpyDtoHAsync_v2_req){
                .srcDevice = src + at, .hStream = stream, .ByteCount = len};
        r = stub_land_post(&c, land);
    }
    return r;
}

/* What the driver would judge by itself, it judges while the caller waits. */
static bool
copy_may_land(const void *dst, uint64_t src, uint64_t n, uint64_t stream)
{
    return stub_copy_inside(src, n) &&
           (stream == 0 || stub_handle_ok(WIRE_KIND_STREAM, stream)) &&
           stub_land_possible(stub_link_here(), dst, n);
}

/* Is all of [addr, addr + n) inside one allocation of ours? */
bool
stub_copy_inside(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED) &&
           n <= m.range.size && addr - m.range.start <= m.range.size - n;
}

bool
stub_copy_answered(uint64_t n)
{
    return n > COPY_UNSETTLED && stub_handle_any(WIRE_KIND_STREAM);
}

bool
stub_copy_is_host(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED) &&
           n <= m.range.size && addr - m.range.start <= m.range.size - n;
}

/* The address of pinned memory in place of a device's (stub_fill.c). */
static inline bool
copy_is_host(CUdeviceptr device, uint64_t n)
{
    return unlikely(stub_memory_may_be_host(device)) && stub_copy_is_host(device, n);
}

/* ---- the calls
 * -------------------------------------------------------------------------- */

/* What every copy checks first; an empty one is done. */
#define COPY_ENTER(host, n, stream, per_thread, ret_stream)                            \
    do {                                                                               \
        CUresult enter_ = stub_enter();                                                \
                                                                                       \
        if (enter_ == CUDA_SUCCESS)                                                    \
            enter_ = stub_stream_get(stream, per_thread, ret_stream);                  \
        if (enter_ != CUDA_SUCCESS || (n) == 0)                                        \
            return enter_;                                                             \
        if (!(host))                                                                   \
            return CUDA_ERROR_INVALID_VALUE;                                           \
    } while (0)

/* A copy into a capture becomes a node, and that is all. */
#define COPY_CAPTURED(dst, dst_host, src, src_host, n)                                 \
    do {                                                                               \
        if (unlikely(atomic_load_explicit(&stub_captures, memory_order_relaxed))) {    \
            CUDA_MEMCPY3D copy_ = stub_stage_linear(dst, dst_host, src, src_host, n);  \
            CUresult asked_;                                                           \
                                                                                       \
            if (stub_stage_captures(hStream, per_thread, &copy_, &asked_))             \
                return asked_ ? asked_                                                 \
                              : stub_stage_capture(hStream, per_thread, &copy_);       \
        }                                                                              \
    } while (0)

/* After everything before it, as if the program did it. */
static CUresult
copy_on_host(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream,
             bool per_thread)
{
    void *to = (void *)(uintptr_t)dst, *from = (void *)(uintptr_t)src;
    CUresult r = stub_m_cuStreamSynchronize(stream, per_thread);

    if (r != CUDA_SUCCESS)
        return r;
    stub_land_wait(from, n);
    stub_land_wait(to, n);
    memmove(to, from, n);
    return CUDA_SUCCESS;
}

/* Memory that the card may have changed meanwhile is right only on the server. */
static CUdeviceptr
copy_alias(const void *host)
{
    CUdeviceptr alias =
        stub_managed_pending() ? stub_managed_device((uintptr_t)host) : 0;

    return stub_copy_is_host(alias, 1) ? 0 : alias;
}

/* Page-locked memory that a kernel may have changed, or that one may read, in stream
 * order: the server copies, which has it at the same address. */
static bool
copy_is_there(const void *host, uint64_t n)
{
    struct stub_memory m;

    if (stub_pinned_any() && stub_memory_find((uintptr_t)host, &m) &&
        m.reach == STUB_REACH_SHARED)
        return n <= m.range.size && (uintptr_t)host - m.range.start <= m.range.size - n;
    return stub_managed_is_on() && stub_managed_is_pages((uintptr_t)host, n);
}

static CUresult
copy_there(CUdeviceptr dst, CUdeviceptr src, uint64_t n, CUstream stream,
           bool per_thread)
{
    stub_land_wait((void *)(uintptr_t)src, n); /* bytes that are on their way to it */
    stub_land_wait((void *)(uintptr_t)dst, n);
    return stub_g_cuMemcpyDtoDAsync_v2(dst, src, n, stream, per_thread);
}

static CUresult
copy_there_up(CUdeviceptr dst, const void *src, uint64_t n, CUstream stream,
              bool per_thread)
{
    struct stub_pinned_place place;
    uint64_t id = stub_stream_id(stream, per_thread);

    if (!stub_copy_inside(dst, n) || !stub_pinned_find(src, n, &place))
        return copy_there(dst, (uintptr_t)src, n, stream, per_thread);
    stub_land_wait(src, n);
    return stub_pinned_up(&place, dst, id);
}

CUresult
stub_m_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                       bool per_thread)
{
    uint64_t stream;
    CUdeviceptr alias;
    CUresult r;

    COPY_ENTER(srcHost, ByteCount, NULL, per_thread, &stream);
    if (copy_is_host(dstDevice, ByteCount))
        return copy_on_host(dstDevice, (uintptr_t)srcHost, ByteCount, NULL, per_thread);
    if (copy_is_there(srcHost, ByteCount) && !stub_stream_is_idle(stream)) {
        r = copy_there_up(dstDevice, srcHost, ByteCount, NULL, per_thread);
        return r == CUDA_SUCCESS ? stub_m_cuStreamSynchronize(NULL, per_thread) : r;
    }
    alias = copy_alias(srcHost);
    if (alias)
        return per_thread ? cuMemcpyDtoD_v2_ptds(dstDevice, alias, ByteCount)
                          : cuMemcpyDtoD_v2(dstDevice, alias, ByteCount);
    r = copy_to_device(WIRE_CALL_cuMemcpyHtoD_v2, dstDevice, srcHost, ByteCount,
                       stream);
    if (r == CUDA_SUCCESS && stub_managed_touches(dstDevice, ByteCount))
        r = stub_managed_settle();
    return r;
}

CUresult
stub_m_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
                            size_t ByteCount, CUstream hStream, bool per_thread)
{
    uint64_t stream;
    CUdeviceptr alias;

    COPY_ENTER(srcHost, ByteCount, hStream, per_thread, &stream);
    COPY_CAPTURED(dstDevice, false, (uintptr_t)srcHost, true, ByteCount);
    if (copy_is_host(dstDevice, ByteCount))
        return copy_on_host(dstDevice, (uintptr_t)srcHost, ByteCount, hStream,
                            per_thread);
    if (copy_is_there(srcHost, ByteCount))
        return copy_there_up(dstDevice, srcHost, ByteCount, hStream, per_thread);
    alias = copy_alias(srcHost);
    if (alias)
        return per_thread
                   ? cuMemcpyDtoDAsync_v2_ptsz(dstDevice, alias, ByteCount, hStream)
                   : cuMemcpyDtoDAsync_v2(dstDevice, alias, ByteCount, hStream);
    return copy_to_device(WIRE_CALL_cuMemcpyHtoDAsync_v2, dstDevice, srcHost, ByteCount,
                          stream);
}

CUresult
stub_m_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                       bool per_thread)
{
    struct stub_pinned_place place;
    uint64_t stream;

    COPY_ENTER(dstHost, ByteCount, NULL, per_thread, &stream);
    if (copy_is_host(srcDevice, ByteCount))
        return copy_on_host((uintptr_t)dstHost, srcDevice, ByteCount, NULL, per_thread);
    if (stub_copy_inside(srcDevice, ByteCount) &&
        stub_pinned_find(dstHost, ByteCount, &place)) {
        stub_land_wait(dstHost, ByteCount); /* older bytes must not come later */
        return stub_pinned_copy(&place, srcDevice, true, stream);
    }
    return copy_to_host(WIRE_CALL_cuMemcpyDtoH_v2, dstHost, srcDevice, ByteCount,
                        stream);
}

CUresult
stub_m_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                            CUstream hStream, bool per_thread)
{
    uint64_t stream;

    COPY_ENTER(dstHost, ByteCount, hStream, per_thread, &stream);
    COPY_CAPTURED((uintptr_t)dstHost, true, srcDevice, false, ByteCount);
    if (copy_is_host(srcDevice, ByteCount))
        return copy_on_host((uintptr_t)dstHost, srcDevice, ByteCount, hStream,
                            per_thread);
    if (copy_is_there(dstHost, ByteCount))
        return copy_there((uintptr_t)dstHost, srcDevice, ByteCount, hStream,
                          per_thread);
    if (copy_may_land(dstHost, srcDevice, ByteCount, stream))
        return copy_land(dstHost, srcDevice, ByteCount, stream);
    return copy_to_host(WIRE_CALL_cuMemcpyDtoHAsync_v2, dstHost, srcDevice, ByteCount,
                        stream);
}

/* Bare addresses: which copy it is, they say themselves.  Host to host is done here,
 * after everything before it. */
static CUresult
copy_any(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream, bool per_thread,
         bool async)
{
    bool to = stub_memory_is_device(dst), from = stub_memory_is_device(src);
    void *host_dst = (void *)(uintptr_t)dst, *host_src = (void *)(uintptr_t)src;

    if (to && from)
        return per_thread ? cuMemcpyDtoDAsync_v2_ptsz(dst, src, n, stream)
               : async    ? cuMemcpyDtoDAsync_v2(dst, src, n, stream)
                          : cuMemcpyDtoD_v2(dst, src, n);
    if (to)
        return async ? stub_m_cuMemcpyHtoDAsync_v2(dst, host_src, n, stream, per_thread)
                     : stub_m_cuMemcpyHtoD_v2(dst, host_src, n, per_thread);
    if (from)
        return async ? stub_m_cuMemcpyDtoHAsync_v2(host_dst, src, n, stream, per_thread)
                     : stub_m_cuMemcpyDtoH_v2(host_dst, src, n, per_thread);
    return copy_on_host(dst, src, n, stream, per_thread);
}

/* No pointer of any kind lies past the user's half of the address space. */
static bool
copy_is_any(CUdeviceptr dst, CUdeviceptr src)
{
    return dst && src && dst >> 47 == 0 && src >> 47 == 0;
}

CUresult
stub_m_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, bool per_thread)
{
    uint64_t stream;
    CUresult r;

    COPY_ENTER(copy_is_any(dst, src), ByteCount, NULL, per_thread, &stream);
    r = copy_any(dst, src, ByteCount, NULL, per_thread, false);
    if (r == CUDA_SUCCESS && stub_managed_touches(dst, ByteCount))
        r = stub_managed_settle();
    return r;
}

CUresult
stub_m_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                     CUstream hStream, bool per_thread)
{
    uint64_t stream;

    COPY_ENTER(copy_is_any(dst, src), ByteCount, hStream, per_thread, &stream);
    return copy_any(dst, src, ByteCount, hStream, per_thread, true);
}

/* ---- batches: each element is a copy of its own
 * ------------------------------------------ */

/* A count past this is a number that was never set. */
#define BATCH_MAX (1u << 20)

static CUresult
copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
           size_t count, size_t *fail, CUstream stream, bool per_thread)
{
    CUresult r = stub_enter();

    /* A batch has no order inside, so a default stream will not do. */
    if (r == CUDA_SUCCESS && (!dsts || !srcs || !sizes || !count || count > BATCH_MAX ||
                              stream <= CU_STREAM_PER_THREAD))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !stub_handle_ok(WIRE_KIND_STREAM, (uintptr_t)stream))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r != CUDA_SUCCESS && fail)
        *fail = SIZE_MAX;
    for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
        r = sizes[i]
                ? stub_m_cuMemcpyAsync(dsts[i], srcs[i], sizes[i], stream, per_thread)
                : CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS && fail)
            *fail = i;
    }
    return r;
}

CUresult
stub_m_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                          size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                          size_t numAttrs, size_t *failIdx, CUstream hStream,
                          bool per_thread)
{
    return copy_batch(dsts, srcs, sizes, count, failIdx, hStream, per_thread);
}

CUresult
stub_m_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                             size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                             size_t numAttrs, CUstream hStream, bool per_thread)
{
    return copy_batch(dsts, srcs, sizes, count, NULL, hStream, per_thread);
}
