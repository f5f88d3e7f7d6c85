/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning and end of copies whose bytes go to the device over the connection: of the
 * paths inline and payload, and the end of shared_pinned.
 *
 * No state.  Inlined, because small copies are little more than this.
 */
#ifndef STUB_PATH_H2D_H
#define STUB_PATH_H2D_H

#include "stub_call.h"
#include "stub_d2h_async.h"
#include "stub_managed.h"
#include "stub_path.h"
#include "wire_api.h"

#include <assert.h>

static_assert(sizeof(struct wire_cuMemcpyHtoD_v2_req) ==
                  sizeof(struct wire_cuMemcpyHtoDAsync_v2_req),
              "one writer for both");
static_assert(sizeof(struct wire_cuMemcpyHtoA_v2_req) ==
                  sizeof(struct wire_cuMemcpyHtoAAsync_v2_req),
              "one writer for both");

/* Begin the frame, with @inlined bytes behind its fixed part, which the caller writes
 * (stub_call_inline()).  @complete: a reply that is asked for comes behind the copy. */
static inline CUresult
stub_path_begin_h2d(struct stub_copy *copy, bool complete, struct stub_call *c,
                    uint32_t inlined)
{
    CUresult r;

    stub_d2h_async_wait(stub_copy_host_side(copy), copy->n);
    if (stub_managed_touches(copy->dst, copy->n))
        stub_managed_work(copy->stream_id);
    r = stub_call_begin_inline(
        c, complete ? WIRE_CALL_cuMemcpyHtoD_v2 : WIRE_CALL_cuMemcpyHtoDAsync_v2,
        (uint32_t)sizeof(struct wire_cuMemcpyHtoD_v2_req), inlined);
    if (likely(r == CUDA_SUCCESS))
        *(struct wire_cuMemcpyHtoD_v2_req *)c->body = (struct wire_cuMemcpyHtoD_v2_req){
            .dstDevice = copy->dst, .hStream = copy->stream_id, .ByteCount = copy->n};
    return r;
}

/* The same for a copy to an array. */
static inline CUresult
stub_path_begin_h2a(struct stub_copy *copy, struct stub_call *c, uint32_t inlined)
{
    CUresult r;

    stub_d2h_async_wait(stub_copy_host_side(copy), copy->n);
    r = stub_call_begin_inline(
        c, copy->blocking ? WIRE_CALL_cuMemcpyHtoA_v2 : WIRE_CALL_cuMemcpyHtoAAsync_v2,
        (uint32_t)sizeof(struct wire_cuMemcpyHtoA_v2_req), inlined);
    if (r == CUDA_SUCCESS)
        *(struct wire_cuMemcpyHtoA_v2_req *)c->body =
            (struct wire_cuMemcpyHtoA_v2_req){.dstArray = copy->dst,
                                              .dstOffset = copy->array_offset,
                                              .hStream = copy->stream_id,
                                              .ByteCount = copy->n};
    return r;
}

/* A blocking copy into memory that the host has too is visible there at once. */
static inline CUresult
stub_path_end_h2d(const struct stub_copy *copy, CUresult r)
{
    return r == CUDA_SUCCESS && copy->blocking &&
                   stub_managed_touches(copy->dst, copy->n)
               ? stub_managed_sync()
               : r;
}

#endif
