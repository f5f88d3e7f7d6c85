/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thread's own default stream per context.
 *
 * CU_STREAM_PER_THREAD means the calling thread of the client, which does not exist in
 * the worker.  So such a stream is an ordinary, blocking stream at the worker, created
 * at first use.  Callers use stub_stream_id() of stub_call.h.
 */
#ifndef STUB_STREAM_H
#define STUB_STREAM_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_call;
struct stub_ctx;

struct stub_own_stream {
    struct stub_own_stream *next;
    uint64_t ctx_unique;
    uint64_t stream;
};

/* Notes that the reply to @c came after all work of @stream (its id on the wire) was
 * done: until this thread's link sends another frame, waiting for that stream needs
 * no call. */
void stub_stream_idle(const struct stub_call *c, uint64_t stream);

/* True if this thread has waited for @stream and no frame was sent since. */
bool stub_stream_is_idle(uint64_t stream);

/* Behind the frame @seq, a wait or a blocking copy to the device, @stream has at most
 * such copies to do that this thread has made since it was idle.  A copy that is posted
 * is asked for its number before (stub_call_seq()). */
void stub_stream_note_only_uploads(uint32_t seq, uint64_t stream);

/* Is that so still?  Nobody sees when such copies are done. */
bool stub_stream_has_only_uploads(uint64_t stream);

/* The frame @seq was a copy to a device whose bytes followed it. */
void stub_stream_note_upload(uint32_t seq);

/* Has this thread waited for a stream or a context right behind the last one?  Then it
 * probably does so again. */
bool stub_stream_waits_behind_uploads(void);

/* cuCtxSynchronize() for a wait of the stub's own.  While a stream is captured it is
 * not made, because it would be refused and make the capture invalid: *@ret_captured.
 */
CUresult stub_ctx_synchronize_uncaptured(bool *ret_captured);

#endif
