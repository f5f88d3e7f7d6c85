/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call's code in the worker may use: the seam between the generated
 * dispatch, the hand-written h_<call>() functions, and the worker's runtime.
 *
 * One struct wrk per process.  Everything here runs on the reader thread, in
 * the order of the frames, unless a comment says otherwise.  It is not the
 * place for sockets, processes or quotas: see wrk_main.c, wrk_quota.h.
 *
 * The life of a generated call, in this order:
 *
 *     r = wrk_call_enter(w, req, flags);        context, deferred error
 *     r = wrk_handle_get(w, kind, id, &obj);    ids -> driver handles
 *     r = WRK_CALL(w, cuX, ...);                CUDA_ERROR_NOT_SUPPORTED if absent
 *     wrk_handle_put(w, kind, new_id, obj);     only after CUDA_SUCCESS
 *     wrk_call_leave(w, req, r);                no outputs, or r is an error
 *     p = wrk_reply_reserve(w, req, size); fill; wrk_reply_send(w, req, 0);
 *
 * The frame itself has been checked for its size header and sequence number by
 * the loop; the dispatch checks body size, counts, offsets, and that
 * WIRE_F_BULK is set only on calls that carry a payload; on a bad frame it
 * calls wrk_frame_bad() and returns false.
 */
#ifndef WRK_CALL_H
#define WRK_CALL_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wire_format.h"
#include "wrk_object.h"
#include "wrk_state.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- generated, called by the loop --------------------------------------- */

/* Decode, check and run one frame.  False: the frame is bad, and the reason
 * has been given to wrk_frame_bad(); the attachment ends. */
bool wrk_dispatch(struct wrk *w, const struct wire_req *req, size_t size);

/* ---- around a call -------------------------------------------------------- */

#define WRK_CALL_ALWAYS 0x1u /* runs and answers even when an error is deferred */
#define WRK_CALL_NO_CTX 0x2u /* does not care which context is current */

/* Make the frame's context current and hand out the deferred error.  Anything
 * but CUDA_SUCCESS: do not call the driver, pass the result to
 * wrk_call_leave().  A deferred error is handed out (and cleared) only when
 * the frame wants a reply and @flags does not say ALWAYS. */
CUresult wrk_call_enter(struct wrk *w, const struct wire_req *req, unsigned flags);

/* End a call that has no outputs, or whose result is an error: answers with
 * the bare result if the frame wants a reply, else keeps the first error. */
void wrk_call_leave(struct wrk *w, const struct wire_req *req, CUresult result);

/* Keep the first error of calls without reply; any thread. */
void wrk_defer(struct wrk *w, const struct wire_req *req, CUresult result);

/* Fields of a call, checked: end the attachment and say why.  @why is a static
 * string ("count past its cap").  Returns false, for `return wrk_frame_bad()`. */
bool wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why);

/* ---- answers ---------------------------------------------------------------- */

/* @size bytes of reply body after the header, 8-aligned and zeroed; must be
 * followed by wrk_reply_send() with nothing in between (the sender's lock is
 * held).  NULL: the connection is gone; send need not be called. */
void *wrk_reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t size);
void wrk_reply_send(struct wrk *w, const struct wire_req *req, CUresult result);

/* Answer from any thread, header and body at once; flushed. */
void wrk_answer(struct wrk *w, const struct wire_req *req, CUresult result,
                const void *body, uint32_t size);

/* Send now what a reply must not overtake; it leaves with the next flush.  Any thread
 * that may call the driver. */
void wrk_before_reply(struct wrk *w);

/* A frame that nobody asked for, from any thread; flushed. */
void wrk_event(struct wrk *w, enum wire_event what, const void *body, uint32_t size,
               const void *more, uint32_t more_size);

/* Send what the reader has committed. */
void wrk_flush(struct wrk *w);

/* The link is of no use any more: the loop ends.  Any thread. */
void wrk_stop(struct wrk *w);

/* ---- hand-written calls ------------------------------------------------------ */

/*
 * Where a hand-written call puts its answer.  The dispatch prepares one on its
 * stack: @body is the call's zeroed fixed-size reply struct, @size its size.
 * Then
 *
 *     r = wrk_call_enter(w, req, flags);
 *     if (r == CUDA_SUCCESS)
 *         r = h_<call>(w, &args, &rep);
 *     wrk_reply_finish(w, &rep, r);
 *
 * The function fills @body and returns a result; or it sends a longer answer
 * itself or leaves it to a waiter thread (wrk_wait.h) and sets @taken.
 */
struct wrk_reply {
    const struct wire_req *req;
    void *body;
    uint32_t size;
    bool taken;
    bool on_error; /* the body goes out with a failing result as well (build logs) */
    uint64_t bulk; /* raw bytes that follow the frame on the connection and that
                      the function must take (wrk_bulk.h); 0 without WIRE_F_BULK.
                      What it leaves, wrk_reply_finish() reads and drops. */
};

void wrk_reply_finish(struct wrk *w, struct wrk_reply *rep, CUresult result);

#endif
