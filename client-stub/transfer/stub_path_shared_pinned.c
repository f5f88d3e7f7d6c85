/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path shared_pinned: the worker has mapped the same page-locked memory, so a copy is a
 * frame, and the device's own copy from or to that memory.
 */
#include "stub_call.h"
#include "stub_d2h_async.h"
#include "stub_manual.h"
#include "stub_path_h2d.h"
#include "stub_stream.h"
#include "wire_api.h"

/* Nobody waits for it: the program leaves page-locked memory alone until the stream is
 * done with it. */
static CUresult
post_h2d(const struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r =
        stub_call_begin(&c, WIRE_CALL_gp_pin_up, sizeof(struct wire_gp_pin_up_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_gp_pin_up_req *)c.body =
        (struct wire_gp_pin_up_req){.dst = copy->dst,
                                    .offset = copy->pinned.offset,
                                    .n = copy->pinned.n,
                                    .id = copy->pinned.id,
                                    .hStream = copy->stream_id};
    return stub_call_post(&c);
}

/* The copy is complete when this returns.  WIRE_RESULT_SEND_BYTES: it would have to
 * wait for earlier work, and the worker has not begun it. */
static CUresult
copy_and_wait(const struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r =
        stub_call_begin(&c, WIRE_CALL_gp_pin_copy, sizeof(struct wire_gp_pin_copy_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_gp_pin_copy_req *)c.body =
        (struct wire_gp_pin_copy_req){.device = stub_copy_device_side(copy),
                                      .offset = copy->pinned.offset,
                                      .n = copy->pinned.n,
                                      .id = copy->pinned.id,
                                      .down = copy->direction == STUB_D2H,
                                      .hStream = copy->stream_id};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        stub_stream_idle(&c, copy->stream_id);
    stub_call_end(&c);
    return r;
}

/* A blocking copy to the device from memory that a kernel may have changed comes behind
 * that kernel. */
static bool
is_behind_kernels(const struct stub_copy *copy)
{
    return copy->direction == STUB_H2D && copy->facts & STUB_COPY_SAME_ADDRESS &&
           !(copy->facts & STUB_COPY_IDLE);
}

CUresult
stub_path_shared_pinned(struct stub_copy *copy)
{
    CUresult r;

    stub_d2h_async_wait(stub_copy_host_side(copy), copy->n);
    if (!copy->blocking)
        return post_h2d(copy);
    if (!is_behind_kernels(copy))
        return stub_path_end_h2d(copy, copy_and_wait(copy));
    r = post_h2d(copy);
    return r == CUDA_SUCCESS
               ? stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread)
               : r;
}
