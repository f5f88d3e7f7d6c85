/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_pinned_copy.h"

#include "stub_call.h"
#include "stub_capture.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_stream.h"
#include "wire_api.h"

/* Copies below this ride in frames, which is as fast and is not waited for. */
#define WORTH (64u * 1024)

/* Memory that host and card share moves at waits of its own making, and a capture wants
 * nodes: both keep to the ways that send. */
bool
stub_pinned_look(const void *host, uint64_t n, struct stub_pinned_place *ret)
{
    struct stub_memory m;

    if (n < WORTH || stub_managed_is_on() || stub_capture_any() ||
        !stub_memory_find((uintptr_t)host, &m) || !m.pinned ||
        m.pinned_link != stub_link_here()->number || n > m.range.size ||
        (uintptr_t)host - m.range.start > m.range.size - n)
        return false;
    *ret = (struct stub_pinned_place){m.pinned - 1, (uintptr_t)host - m.range.start, n};
    return true;
}

CUresult
stub_pinned_up(const struct stub_pinned_place *place, CUdeviceptr dst, uint64_t stream)
{
    struct stub_call c;
    CUresult r =
        stub_call_begin(&c, WIRE_CALL_gp_pin_up, sizeof(struct wire_gp_pin_up_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_gp_pin_up_req *)c.body =
        (struct wire_gp_pin_up_req){.dst = dst,
                                    .offset = place->offset,
                                    .n = place->n,
                                    .id = place->id,
                                    .hStream = stream};
    return stub_call_post(&c);
}

CUresult
stub_pinned_copy(const struct stub_pinned_place *place, CUdeviceptr device, bool down,
                 uint64_t stream)
{
    struct stub_call c;
    CUresult r =
        stub_call_begin(&c, WIRE_CALL_gp_pin_copy, sizeof(struct wire_gp_pin_copy_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_gp_pin_copy_req *)c.body =
        (struct wire_gp_pin_copy_req){.device = device,
                                      .offset = place->offset,
                                      .n = place->n,
                                      .id = place->id,
                                      .down = down,
                                      .hStream = stream};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        stub_stream_idle(&c, stream);
    stub_call_end(&c);
    return r;
}
