/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path inline: a few bytes to a device are part of the frame.
 *
 * The frame is not sent at once, and nobody waits for it, unless the address is one
 * that the driver has to judge.
 */
#include "stub_path_h2d.h"

#include <string.h>

CUresult
stub_path_inline(struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r = stub_path_begin_h2d(copy, &c, wire_align((uint32_t)copy->n));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy((struct wire_cuMemcpyHtoD_v2_req *)c.body + 1, stub_copy_host_side(copy),
           copy->n);
    if (copy->facts & STUB_COPY_KNOWN)
        return stub_path_end_h2d(copy, stub_call_post(&c));
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return stub_path_end_h2d(copy, r);
}

CUresult
stub_path_inline_array(struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r = stub_path_begin_h2a(copy, &c, wire_align((uint32_t)copy->n));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy((struct wire_cuMemcpyHtoA_v2_req *)c.body + 1, stub_copy_host_side(copy),
           copy->n);
    return stub_call_post(&c);
}
