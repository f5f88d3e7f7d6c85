/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal streams, events and semaphores: what the stub needs in a context to order
 * its work with that of another server.
 *
 * A semaphore is a word in device memory whose value a stream waits for, until a thread
 * releases it.  Unlike a host function it blocks nothing but that stream.  All of them
 * are made when first needed and reused; they end with their context.  All functions
 * but stub_internal_ctx_push() need the context to be current.  Any thread.
 */
#ifndef STUB_INTERNAL_STREAM_H
#define STUB_INTERNAL_STREAM_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* Semaphores of one context that may be waited for at a time; each is four bytes of
 * device memory. */
#define STUB_SEMAPHORES 1024u

struct stub_semaphore {
    struct stub_ctx *ctx;
    CUdeviceptr word;
    uint32_t value; /* the word's, when it is open */
};

/* A fence: an event of ours, recorded in a stream. */
struct stub_fence {
    struct stub_ctx *ctx;
    CUevent event;
    CUstream stream; /* where it was recorded, if that is ours; NULL: the program's */
};

/* Record a fence in @stream; with @event, behind the work that @event marks now. */
CUresult stub_fence_set(CUstream stream, CUevent event, struct stub_fence *ret);
/* Wait for the fence, from any context.  It is freed then. */
CUresult stub_fence_wait(const struct stub_fence *fence);

/* A non-blocking stream, an event without timing; NULL when none can be made. */
CUstream stub_internal_stream(void);
CUevent stub_internal_event(void);
/* To be given back when nothing waits for them any more. */
void stub_internal_stream_put(CUstream stream);
void stub_internal_event_put(CUevent event);

/* Make @stream (as on the wire, 0: the legacy one) wait until @ret is released. */
CUresult stub_semaphore_wait(CUstream stream, struct stub_semaphore *ret);
/* From any context, by a thread that may wait for the server. */
void stub_semaphore_release(const struct stub_semaphore *semaphore);
/* No stream waits for a semaphore, and none will before stub_semaphores_go_on(), by
 * the same thread, which must not wait for one meanwhile.  False: one does. */
bool stub_semaphores_hold_off(void);
void stub_semaphores_go_on(void);

/* Make @ctx current for a while, in which calls are ours: the errors of relays wait for
 * the program (stub_relay.h).  False: it is destroyed. */
bool stub_internal_ctx_push(struct stub_ctx *ctx);
void stub_internal_ctx_pop(void);

#endif
