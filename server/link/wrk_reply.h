/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that the worker sends: replies to calls and unsolicited messages.
 *
 * The sending half of the connection is shared by the receive thread, the waiter
 * threads and threads of the driver; struct wrk_priv's send_lock orders them.  A reply
 * that an earlier payload must precede runs the before_reply hooks first (wrk_hooks.h).
 * Payloads that follow a reply on the connection are not sent here: see
 * wrk_d2h_reply.c.
 */
#ifndef WRK_REPLY_H
#define WRK_REPLY_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wrk;

/* ---- the result of a call; receive thread ---- */

/* End a call that has no outputs, or whose result is an error: sends the bare result
 * if the frame wants a reply, else keeps the first error. */
void wrk_call_leave(struct wrk *w, const struct wire_req *req, CUresult result);

/* Keep the first error of calls without reply; any thread. */
void wrk_defer(struct wrk *w, const struct wire_req *req, CUresult result);

/* @result, or in place of success that error, once: for a call answered late, behind
 * such calls, that has nothing to return besides; any thread. */
CUresult wrk_deferred(struct wrk *w, CUresult result);

/* A field of the frame is invalid: end the attachment and say why.  @why is a static
 * string ("count past its cap").  Returns false, for `return wrk_frame_bad()`. */
bool wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why);

/* @size bytes of reply body after the header, 8-aligned and zeroed; must be followed by
 * wrk_reply_send() with nothing in between (the send lock is held).  NULL: the
 * connection is gone; wrk_reply_send() need not be called. */
void *wrk_reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t size);
void wrk_reply_send(struct wrk *w, const struct wire_req *req, CUresult result);

/*
 * Where a hand-written call puts its reply.  The dispatch prepares one on its stack:
 * @body is the call's zeroed fixed-size reply struct, @size its size.  Then
 *
 *     r = wrk_call_enter(w, req, flags);
 *     if (r == CUDA_SUCCESS)
 *         r = h_<call>(w, &args, &rep);
 *     wrk_reply_finish(w, &rep, r);
 *
 * The function fills @body and returns a result; or it sends a longer reply itself, or
 * leaves the reply to a waiter thread (wrk_wait.h), and sets @taken.
 */
struct wrk_reply {
    const struct wire_req *req;
    void *body;
    uint32_t size;
    bool taken;
    bool on_error; /* the body is sent with a failing result as well (build logs) */
    uint64_t bulk; /* bytes of payload that follow the frame on the connection and that
                      the function must receive (wrk_transfer.h); 0 without WIRE_F_BULK.
                      wrk_reply_finish() reads and drops what is left of them. */
};

/* The handler of @rep's call has ended with @result: sends the reply, or, for a call
 * that nobody waits for, keeps the error for a later one.  What is left of the
 * request's payload is read and dropped.  Receive thread only. */
void wrk_reply_finish(struct wrk *w, struct wrk_reply *rep, CUresult result);

/* ---- from any thread ---- */

/* Reply, header and body at once; flushed. */
void wrk_reply_whole(struct wrk *w, const struct wire_req *req, CUresult result,
                     const void *body, uint32_t size);

/* Run the before_reply hooks; what they send leaves with the next flush.  Any thread
 * that may call the driver and holds the sender's lock. */
void wrk_before_reply_locked(struct wrk *w);

/* Send an unsolicited message; flushed. */
void wrk_unsolicited(struct wrk *w, enum wire_event what, const void *body,
                     uint32_t size, const void *more, uint32_t more_size);
/* The same by a thread that holds the sender's lock. */
void wrk_unsolicited_locked(struct wrk *w, enum wire_event what, const void *body,
                            uint32_t size, const void *more, uint32_t more_size);

/* The same if the lock can be had within about @ns; else nothing is sent. */
bool wrk_unsolicited_within(struct wrk *w, uint64_t ns, enum wire_event what,
                            const void *body, uint32_t size);

/* Send what the receive thread has committed.  Receive thread. */
void wrk_flush(struct wrk *w);

/* End the attachment: the connection is aborted and the loop ends. */
void wrk_stop(struct wrk *w);

#endif
