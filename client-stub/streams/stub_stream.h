/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that the stub itself makes: each thread's own default stream per context.
 *
 * CU_STREAM_PER_THREAD means the calling thread of the client, which the worker does
 * not have; so such a stream is an ordinary, blocking stream on the worker, created at
 * first use.  stub_stream_id() in stub_call.h is what callers use.
 */
#ifndef STUB_STREAM_H
#define STUB_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct stub_call;
struct stub_ctx;

struct stub_own_stream {
    struct stub_own_stream *next;
    uint64_t ctx_unique;
    uint64_t stream;
};

/* @c was answered after all work of @stream (its id on the wire) was done: as long as
 * no frame follows it, waiting for that stream again needs no answer. */
void stub_stream_idle(const struct stub_call *c, uint64_t stream);

/* Has this thread waited for @stream, and nothing been sent since? */
bool stub_stream_is_idle(uint64_t stream);

#endif
