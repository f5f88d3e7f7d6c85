/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path payload: the bytes follow the frame, or the reply, over the connection.
 *
 * Host to device: they go from the caller's buffer to the connection without a copy, so
 * the buffer may be reused when the call returns.  Device to host: the calling thread
 * waits, and they come straight into the caller's buffer.  How the worker moves them
 * from there, or to there, is its choice: staging, ring or registered_window.
 */
#include "stub_call.h"
#include "stub_copy_facts.h"
#include "stub_d2h_async.h"
#include "stub_managed.h"
#include "stub_path_h2d.h"
#include "stub_stream.h"
#include "wire_api.h"

#include <string.h>

static_assert(sizeof(struct wire_cuMemcpyDtoH_v2_req) ==
                  sizeof(struct wire_cuMemcpyDtoHAsync_v2_req),
              "one writer for both");

/* ---- host to device --------------------------------------------------------- */

/* An address outside of all memory that we know is the driver's to judge, and its
 * result is waited for: programs expect it from this very call. */
static CUresult
payload_h2d(struct stub_copy *copy)
{
    const void *from = stub_copy_host_side(copy);
    struct stub_call c;
    CUresult r = stub_path_begin_h2d(copy, &c, 0);

    if (r != CUDA_SUCCESS)
        return r;
    if (copy->facts & STUB_COPY_KNOWN &&
        !(copy->blocking && stub_copy_wants_reply(copy->n)))
        return stub_path_end_h2d(copy, stub_call_post_bulk(&c, from, copy->n));
    r = stub_call_wait_bulk(&c, from, copy->n);
    stub_call_end(&c);
    return stub_path_end_h2d(copy, r);
}

/* ---- device to host --------------------------------------------------------- */

static void
d2h_request(const struct stub_copy *copy, void *body)
{
    if (copy->blocking)
        *(struct wire_cuMemcpyDtoH_v2_req *)body = (struct wire_cuMemcpyDtoH_v2_req){
            .srcDevice = copy->src, .hStream = copy->stream_id, .ByteCount = copy->n};
    else
        *(struct wire_cuMemcpyDtoHAsync_v2_req *)body =
            (struct wire_cuMemcpyDtoHAsync_v2_req){.srcDevice = copy->src,
                                                   .hStream = copy->stream_id,
                                                   .ByteCount = copy->n};
}

/* The bytes are part of the reply. */
static CUresult
d2h_from_reply(const struct stub_copy *copy, const struct stub_call *c)
{
    struct wire_cuMemcpyDtoH_v2_rep_view rep = {0};

    if (!wire_cuMemcpyDtoH_v2_rep_open(&rep, c->reply, c->reply_size, 0) ||
        rep.f->dstHost_n != copy->n)
        return stub_call_bad(c->call);
    memcpy(stub_copy_host_side(copy), rep.dstHost, copy->n);
    return CUDA_SUCCESS;
}

static CUresult
payload_d2h(struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r;

    if (stub_managed_touches(copy->src, copy->n))
        stub_managed_work(copy->stream_id);
    r = stub_call_begin(
        &c, copy->blocking ? WIRE_CALL_cuMemcpyDtoH_v2 : WIRE_CALL_cuMemcpyDtoHAsync_v2,
        sizeof(struct wire_cuMemcpyDtoH_v2_req));
    if (r != CUDA_SUCCESS)
        return r;
    d2h_request(copy, c.body);
    r = stub_call_wait_into(&c, stub_copy_host_side(copy), copy->n,
                            sizeof(struct wire_cuMemcpyDtoH_v2_rep));
    if (r == CUDA_SUCCESS && !(c.reply_flags & WIRE_F_BULK))
        r = d2h_from_reply(copy, &c);
    if (r == CUDA_SUCCESS)
        stub_stream_idle(&c, copy->stream_id);
    stub_call_end(&c);
    /* A blocking copy is a wait. */
    return r == CUDA_SUCCESS && copy->blocking && stub_managed_is_on()
               ? stub_managed_waited(copy->stream_id)
               : r;
}

CUresult
stub_path_payload(struct stub_copy *copy)
{
    return copy->direction == STUB_H2D ? payload_h2d(copy) : payload_d2h(copy);
}
