/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stub itself needs in a context to order work with that of another server:
 * streams and events of its own, and gates.
 *
 * A gate is a word on the card that a stream waits for, until somebody opens it: unlike
 * a host function it holds up nothing but that stream.  Everything is made when first
 * needed and used again; what a context holds ends with it.  All functions but
 * stub_internal_ctx_push() need the context to be current.  Any thread.
 */
#ifndef STUB_INTERNAL_STREAM_H
#define STUB_INTERNAL_STREAM_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* Gates of one context that may be closed at a time; each is four bytes of the card. */
#define STUB_SEMAPHORES 1024u

struct stub_semaphore {
    struct stub_ctx *ctx;
    CUdeviceptr word;
    uint32_t value; /* the word's, when it is open */
};

/* A place in the order of work: an event of ours. */
struct stub_fence {
    struct stub_ctx *ctx;
    CUevent event;
    CUstream side; /* where it was recorded, if that is ours; NULL: the program's */
};

/* Behind what is in @stream now; with @event, behind what that stands for now. */
CUresult stub_fence_set(CUstream stream, CUevent event, struct stub_fence *ret);
/* From any context: wait until it is reached.  It is used up then. */
CUresult stub_fence_wait(const struct stub_fence *mark);

/* A non-blocking stream, an event without timing; NULL when there is none to be had. */
CUstream stub_internal_stream(void);
CUevent stub_internal_event(void);
/* Given back when nothing waits for them any more. */
void stub_internal_stream_put(CUstream stream);
void stub_internal_event_put(CUevent event);

/* Have @stream (as on the wire, 0: the legacy one) wait until @ret is opened. */
CUresult stub_semaphore_wait(CUstream stream, struct stub_semaphore *ret);
/* From any context, by a thread that may wait for the server. */
void stub_semaphore_release(const struct stub_semaphore *gate);

/* Make @ctx current for a while; false: it is gone. */
bool stub_internal_ctx_push(struct stub_ctx *ctx);
void stub_internal_ctx_pop(void);

#endif
