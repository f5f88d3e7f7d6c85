/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for the GPU.  They are replied to later, so that the receive thread
 * never blocks.
 *
 * A wait has three stages.  The receive thread queries the driver once; usually the
 * work is complete and the reply is sent at once.  Then it queries again between
 * frames, for a few tens of microseconds.  Then a waiter thread (wrk_waiters.h) blocks
 * in the driver and sends the reply.
 *
 * The work that a wait covers is fixed when its frame is executed: an event is recorded
 * then, so that work which other threads queue later is not waited for.  The legacy
 * default stream is the exception, because an event in it would order other streams;
 * the driver's own call is used there.
 *
 * All functions run on the receive thread.
 */
#ifndef WRK_WAIT_H
#define WRK_WAIT_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wire_format.h"
#include "wrk.h"
#include "wrk_hostfn.h"

#include <stdbool.h>

struct wrk;
struct wrk_elapsed_ask;
struct wrk_reply;
struct wrk_waits;

int wrk_waits_new(struct wrk *w, struct wrk_waits **ret);

/* Spinning would only keep those from running whom we wait for. */
bool wrk_wait_one_core(const struct wrk *w);

/* Answer @rep when the work that is now in @stream, or in the current context, or
 * before @event, is done.  What is returned is for the dispatch: if rep->taken,
 * the answer comes later. */
CUresult wrk_wait_stream(struct wrk *w, struct wrk_reply *rep, CUstream stream);
CUresult wrk_wait_ctx(struct wrk *w, struct wrk_reply *rep);
CUresult wrk_wait_event(struct wrk *w, struct wrk_reply *rep, CUevent event);

/* One of these three waits, whose reply is that of gp_wait_elapsed: with the time
 * between the two events of @ask, taken when the wait has ended. */
enum wrk_wait_what {
    WRK_WAIT_STREAM = WIRE_WAIT_STREAM,
    WRK_WAIT_EVENT = WIRE_WAIT_EVENT, /* for the second event of @ask */
    WRK_WAIT_CTX = WIRE_WAIT_CTX,
};
CUresult wrk_wait_elapsed(struct wrk *w, struct wrk_reply *rep, enum wrk_wait_what what,
                          CUstream stream, const struct wrk_elapsed_ask *ask);

/* Would a copy in @stream begin at once?  CUDA_SUCCESS, CUDA_ERROR_NOT_READY, or the
 * context's error.  Work in the default stream and in blocking streams waits for each
 * other, so asking the stream alone is not enough. */
CUresult wrk_wait_idle(struct wrk *w, CUstream stream);

/* Would a driver that waits for all work of the current context return without a
 * message of the client, which the caller reads?  That no stream of the context has
 * work is not enough: a graph that was launched in another context's stream has work of
 * those in which its nodes were captured, and that may be behind a function of the
 * host.  Nor is any other answer than "idle": without a current context nobody has been
 * asked, and the object's own may have work. */
static inline bool
wrk_wait_ends_alone(struct wrk *w)
{
    return wrk_wait_idle(w, NULL) == CUDA_SUCCESS && wrk_hostfns_none(w->priv->hosts);
}

/* The same of a driver that waits for the work of every context. */
bool wrk_wait_all_end_alone(struct wrk *w);

/* Waits that the reader looks after itself at present? */
bool wrk_wait_pending(const struct wrk *w);

/* Query the driver about all waits; replies to those that are complete, and hands to
 * waiter threads those that have been polled for long enough. */
void wrk_wait_poll(struct wrk *w);

/* A capture is about to begin: waits for a context that came before it are made so that
 * neither meets the other. */
void wrk_wait_captures(struct wrk *w);

/* The reader will be busy: hand all of them over. */
void wrk_wait_hand_over(struct wrk *w);

#endif
