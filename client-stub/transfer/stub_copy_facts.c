/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of linear copies; see stub_copy_facts.h. */
#include "stub_copy_facts.h"

#include "stub_capture.h"
#include "stub_d2h_async.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_path.h"
#include "stub_stream.h"

/* What CUDA allows to be in flight when a blocking copy from pageable memory returns.
 */
#define MAY_BE_IN_FLIGHT (64u * 1024u)

static bool
is_within(const struct stub_memory *m, uint64_t addr, uint64_t n)
{
    return n <= m->range.size && addr - m->range.start <= m->range.size - n;
}

bool
stub_copy_inside(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED) &&
           is_within(&m, addr, n);
}

bool
stub_copy_is_host(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED) &&
           is_within(&m, addr, n);
}

bool
stub_copy_wants_reply(uint64_t n)
{
    return n > MAY_BE_IN_FLIGHT && stub_handle_any(WIRE_KIND_STREAM);
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

/* Page-locked memory that a kernel may have changed, or may read, in stream order, and
 * that the device has at the same address. */
static bool
has_same_address(const void *host, uint64_t n)
{
    struct stub_memory m;

    if (stub_pinned_any() && stub_memory_find((uintptr_t)host, &m) &&
        m.reach == STUB_REACH_SHARED)
        return is_within(&m, (uintptr_t)host, n);
    return stub_managed_is_on() && stub_managed_is_pages((uintptr_t)host, n);
}

/* Memory that the device may have changed meanwhile is right only on the server. */
static CUdeviceptr
find_alias(const void *host)
{
    CUdeviceptr alias =
        stub_managed_pending() ? stub_managed_device((uintptr_t)host) : 0;

    return alias && stub_copy_is_host(alias, 1) ? 0 : alias;
}

static uint32_t
find_h2d(struct stub_copy *copy, const void *host)
{
    uint32_t facts = copy->n <= STUB_COPY_INLINE ? STUB_COPY_SMALL : 0;

    if (stub_copy_inside(copy->dst, copy->n))
        facts |= STUB_COPY_KNOWN;
    if (facts & STUB_COPY_KNOWN && stub_pinned_find(host, copy->n, &copy->pinned))
        facts |= STUB_COPY_SHARED_PINNED;
    copy->alias = find_alias(host);
    return copy->alias ? facts | STUB_COPY_ALIAS : facts;
}

/* What the driver would judge by itself, it judges while the caller waits. */
static bool
may_be_unawaited(const struct stub_copy *copy, const void *host)
{
    return (copy->stream_id == 0 ||
            stub_handle_ok(WIRE_KIND_STREAM, copy->stream_id)) &&
           stub_d2h_async_possible(stub_link_here(), host, copy->n);
}

static uint32_t
find_d2h(struct stub_copy *copy, const void *host)
{
    if (copy->blocking ? !stub_pinned_any() : copy->facts & STUB_COPY_SAME_ADDRESS)
        return 0;
    if (!stub_copy_inside(copy->src, copy->n))
        return 0;
    if (!copy->blocking)
        return STUB_COPY_KNOWN |
               (may_be_unawaited(copy, host) ? STUB_COPY_UNAWAITED : 0);
    return STUB_COPY_KNOWN |
           (stub_pinned_find(host, copy->n, &copy->pinned) ? STUB_COPY_SHARED_PINNED
                                                           : 0);
}

CUresult
stub_copy_find_facts(struct stub_copy *copy)
{
    CUdeviceptr device = stub_copy_device_side(copy);
    const void *host = stub_copy_host_side(copy);
    CUresult r = CUDA_SUCCESS;

    copy->facts = copy->blocking ? STUB_COPY_BLOCKING : 0;
    if (stub_capture_any() && !copy->blocking)
        r = find_captured(copy);
    if (r != CUDA_SUCCESS || copy->facts & STUB_COPY_CAPTURED)
        return r;
    if (unlikely(stub_memory_may_be_host(device)) &&
        stub_copy_is_host(device, copy->n)) {
        copy->facts |= STUB_COPY_OF_HOST;
        return CUDA_SUCCESS;
    }
    if (has_same_address(host, copy->n))
        copy->facts |= STUB_COPY_SAME_ADDRESS;
    if (copy->blocking && copy->facts & STUB_COPY_SAME_ADDRESS &&
        stub_stream_is_idle(copy->stream_id))
        copy->facts |= STUB_COPY_IDLE;
    copy->facts |=
        copy->direction == STUB_H2D ? find_h2d(copy, host) : find_d2h(copy, host);
    return CUDA_SUCCESS;
}
