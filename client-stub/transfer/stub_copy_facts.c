/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of linear copies; see stub_copy_facts.h. */
#include "stub_copy_facts.h"

#include "stub_capture.h"
#include "stub_d2h_async.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_path.h"
#include "stub_post.h"
#include "stub_stream.h"
#include "stub_turn.h"

/* What CUDA allows to be in flight when a blocking copy from pageable memory returns.
 */
#define MAY_BE_IN_FLIGHT (64u * 1024u)

static bool
is_of_device(enum stub_memory_kind kind)
{
    return kind == STUB_MEMORY_DEVICE || kind == STUB_MEMORY_MANAGED;
}

bool
stub_copy_inside(uint64_t addr, uint64_t n)
{
    enum stub_memory_kind kind;

    return stub_memory_find_kind(addr, n, &kind) ? is_of_device(kind)
                                                 : stub_vmm_is_usable(addr, n);
}

bool
stub_copy_is_host(uint64_t addr, uint64_t n)
{
    enum stub_memory_kind kind;

    return stub_memory_find_kind(addr, n, &kind) && !is_of_device(kind);
}

/* A wait that a capture forbids would make the capture invalid. */
CUresult
stub_copy_await_turn(const struct stub_copy *copy)
{
    if (!copy->blocking || copy->direction != STUB_H2D ||
        likely(!stub_turn_matters() && !stub_managed_pending() &&
               atomic_load_explicit(&stub_d2h_async_in_flight, memory_order_acquire) ==
                   0) ||
        stub_capture_any())
        return CUDA_SUCCESS;
    return stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread);
}

bool
stub_copy_wants_reply(const struct stub_copy *copy, uint64_t n)
{
    return copy->blocking && stub_handle_any(WIRE_KIND_STREAM) &&
           (n > MAY_BE_IN_FLIGHT || !stub_stream_has_only_uploads(copy->stream_id));
}

bool
stub_copy_has_turn(const struct stub_copy *copy, const void *host, uint64_t n)
{
    return !copy->blocking && stub_turn_matters() &&
           !(copy->facts & STUB_COPY_UNAWAITED && stub_d2h_async_has_room(copy->n)) &&
           !stub_stream_is_idle(copy->stream_id) &&
           stub_copy_is_host((uintptr_t)host, n);
}

/* Only the server knows which streams are being captured. */
static CUresult
find_captured(struct stub_copy *copy)
{
    CUDA_MEMCPY3D box =
        stub_graph_hostmem_linear(copy->dst, copy->direction == STUB_D2H, copy->src,
                                  copy->direction == STUB_H2D, copy->n);
    CUresult r;

    if (stub_graph_hostmem_captures(copy->stream, copy->per_thread, &box, &r))
        copy->facts |= STUB_COPY_CAPTURED;
    return r;
}

bool
stub_copy_has_same_address(uint64_t host, uint64_t n)
{
    struct stub_memory m;

    if (stub_pinned_any() && stub_memory_find(host, &m) && m.reach == STUB_REACH_SHARED)
        return n <= m.range.size && host - m.range.start <= m.range.size - n;
    return stub_managed_is_on() && stub_managed_is_pages(host, n);
}

/* Memory that the device may have changed meanwhile is up to date only on the server,
 * and what is copied into memory that the device has comes in stream order. */
CUdeviceptr
stub_copy_find_alias(enum stub_direction direction, uint64_t host)
{
    CUdeviceptr alias = direction == STUB_D2H    ? stub_managed_alias(host)
                        : stub_managed_pending() ? stub_managed_device(host)
                                                 : 0;

    return alias && stub_copy_is_host(alias, 1) ? 0 : alias;
}

/* The device side: one allocation of a device, or page-locked memory.  The search is
 * left out where no row needs it: a blocking copy to pageable memory gets its bytes in
 * the reply, whatever the address. */
static uint32_t
find_device_side(const struct stub_copy *copy)
{
    CUdeviceptr addr = stub_copy_device_side(copy);
    enum stub_memory_kind kind;

    if (copy->direction == STUB_D2H && copy->blocking && !stub_pinned_any() &&
        !stub_memory_may_be_host(addr))
        return 0;
    if (!stub_memory_find_kind(addr, copy->n, &kind))
        return stub_vmm_is_usable(addr, copy->n) ? STUB_COPY_KNOWN : 0;
    return is_of_device(kind) ? STUB_COPY_KNOWN : STUB_COPY_OF_HOST;
}

/* The host side, where the program has memory that the device can reach, too. */
static GP_COLD uint32_t
find_host_side(struct stub_copy *copy)
{
    const void *host = stub_copy_host_side(copy);
    uint32_t facts = 0;

    if (stub_copy_has_same_address((uintptr_t)host, copy->n))
        facts |= STUB_COPY_SAME_ADDRESS;
    if (copy->blocking && facts && stub_stream_is_idle(copy->stream_id))
        facts |= STUB_COPY_IDLE;
    if (copy->facts & STUB_COPY_KNOWN &&
        (copy->direction == STUB_H2D || copy->blocking) &&
        stub_pinned_find(host, copy->n, &copy->pinned))
        facts |= STUB_COPY_SHARED_PINNED;
    copy->alias = facts & STUB_COPY_SAME_ADDRESS
                      ? 0
                      : stub_copy_find_alias(copy->direction, (uintptr_t)host);
    return copy->alias ? facts | STUB_COPY_ALIAS : facts;
}

/* What the driver would judge by itself, it judges while the caller waits. */
static bool
may_be_unawaited(const struct stub_copy *copy)
{
    return copy->facts & STUB_COPY_KNOWN &&
           (copy->stream_id == 0 ||
            stub_handle_ok(WIRE_KIND_STREAM, copy->stream_id)) &&
           stub_d2h_async_possible(stub_link_here(), stub_copy_host_side(copy),
                                   copy->n);
}

/* Not if much is queued: frames and the overflow buffer have room for one such copy. */
static bool
is_small_nearby(uint64_t n)
{
    const struct stub_link *link = stub_link_here();

    return n <= STUB_COPY_INLINE_NEAR && link->conn && xport_is_near(link->conn) &&
           atomic_load_explicit(&link->queued, memory_order_relaxed) <=
               STUB_SEND_HIGH / 4;
}

GP_HOT CUresult
stub_copy_find_facts(struct stub_copy *copy)
{
    CUresult r;

    copy->facts = copy->blocking ? STUB_COPY_BLOCKING : 0;
    if (stub_capture_any() && !copy->blocking) {
        r = find_captured(copy);
        if (r != CUDA_SUCCESS || copy->facts & STUB_COPY_CAPTURED)
            return r;
    }
    if (stub_memory_overruns(stub_copy_device_side(copy), copy->n))
        return CUDA_ERROR_INVALID_VALUE;
    copy->facts |= find_device_side(copy);
    if (unlikely(copy->facts & STUB_COPY_OF_HOST))
        return CUDA_SUCCESS;
    if (stub_pinned_any() || stub_managed_is_on())
        copy->facts |= find_host_side(copy);
    if (copy->direction == STUB_H2D)
        copy->facts |= copy->n <= STUB_COPY_INLINE || is_small_nearby(copy->n)
                           ? STUB_COPY_SMALL
                           : 0;
    else if (!(copy->facts &
               (STUB_COPY_BLOCKING | STUB_COPY_SAME_ADDRESS | STUB_COPY_ALIAS)))
        copy->facts |= may_be_unawaited(copy) ? STUB_COPY_UNAWAITED : 0;
    if (stub_copy_has_turn(copy, stub_copy_host_side(copy), copy->n))
        copy->facts |= STUB_COPY_AT_ITS_TURN;
    return CUDA_SUCCESS;
}
