/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stub itself needs in a context to order work with that of another server:
 * streams and events of its own, and gates.
 *
 * A gate is a word on the card that a stream waits for, until somebody opens it: unlike
 * a host function it holds up nothing but that stream.  Everything is made when first
 * needed and used again; what a context holds ends with it.  All functions but
 * stub_side_push() need the context to be current.  Any thread.
 */
#ifndef STUB_INTERNAL_STREAM_H
#define STUB_INTERNAL_STREAM_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* Gates of one context that may be closed at a time; each is four bytes of the card. */
#define STUB_GATES 1024u

struct stub_gate {
    struct stub_ctx *ctx;
    CUdeviceptr word;
    uint32_t value; /* the word's, when it is open */
};

/* A place in the order of work: an event of ours. */
struct stub_mark {
    struct stub_ctx *ctx;
    CUevent event;
    CUstream side; /* where it was recorded, if that is ours; NULL: the program's */
};

/* Behind what is in @stream now; with @event, behind what that stands for now. */
CUresult stub_mark_set(CUstream stream, CUevent event, struct stub_mark *ret);
/* From any context: wait until it is reached.  It is used up then. */
CUresult stub_mark_wait(const struct stub_mark *mark);

/* A non-blocking stream, an event without timing; NULL when there is none to be had. */
CUstream stub_side_stream(void);
CUevent stub_side_event(void);
/* Given back when nothing waits for them any more. */
void stub_side_stream_put(CUstream stream);
void stub_side_event_put(CUevent event);

/* Have @stream (as on the wire, 0: the legacy one) wait until @ret is opened. */
CUresult stub_gate_close(CUstream stream, struct stub_gate *ret);
/* From any context, by a thread that may wait for the server. */
void stub_gate_open(const struct stub_gate *gate);

/* Make @ctx current for a while; false: it is gone. */
bool stub_side_push(struct stub_ctx *ctx);
void stub_side_pop(void);

#endif
