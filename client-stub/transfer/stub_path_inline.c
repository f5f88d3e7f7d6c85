/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path inline: a few bytes to a device are part of the frame.
 *
 * The frame is not sent at once, and nobody waits for it, unless the address is one
 * that the driver has to judge, or the copy blocks and has work before it.
 */
#include "stub_copy_facts.h"
#include "stub_link.h"
#include "stub_path_h2d.h"
#include "stub_stream.h"

CUresult
stub_path_inline(struct stub_copy *copy)
{
    bool wait = stub_copy_wants_reply(copy, copy->n);
    struct stub_call c;
    CUresult r =
        stub_path_begin_h2d(copy, copy->blocking, &c, wire_align((uint32_t)copy->n));

    if (r != CUDA_SUCCESS)
        return r;
    stub_call_inline(&c, sizeof(struct wire_cuMemcpyHtoD_v2_req),
                     stub_copy_host_side(copy), copy->n);
    if (copy->facts & STUB_COPY_KNOWN && !wait) {
        uint32_t seq = stub_call_seq(&c);

        r = stub_call_post(&c);
        if (copy->blocking)
            stub_stream_note_only_uploads(seq, copy->stream_id);
        return stub_path_end_h2d(copy, r);
    }
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS && copy->blocking && c.link->uploads_complete)
        stub_stream_idle(&c, copy->stream_id);
    stub_call_end(&c);
    return stub_path_end_h2d(copy, r);
}

CUresult
stub_path_inline_array(struct stub_copy *copy)
{
    bool wait = stub_copy_wants_reply(copy, copy->n);
    struct stub_call c;
    CUresult r = stub_path_begin_h2a(copy, &c, wire_align((uint32_t)copy->n));

    if (r != CUDA_SUCCESS)
        return r;
    stub_call_inline(&c, sizeof(struct wire_cuMemcpyHtoA_v2_req),
                     stub_copy_host_side(copy), copy->n);
    if (!wait)
        return stub_call_post(&c);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}
