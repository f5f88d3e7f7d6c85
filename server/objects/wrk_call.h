/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code of a call in the worker may use: the interface between the generated
 * dispatch, the hand-written h_<call>() functions, and the worker's runtime.
 *
 * One struct wrk per process.  Everything here runs on the receive thread, in the order
 * of the frames.  Connections, processes and quotas are elsewhere: see wrk_main.c and
 * wrk_quota.h.
 *
 * A generated call runs in this order:
 *
 *     r = wrk_call_enter(w, req, flags);        context, deferred error
 *     r = wrk_handle_get(w, kind, id, &obj);    ids -> driver handles
 *     r = WRK_CALL(w, cuX, ...);                CUDA_ERROR_NOT_SUPPORTED if absent
 *     wrk_handle_put(w, kind, new_id, obj);     only after CUDA_SUCCESS
 *     wrk_call_leave(w, req, r);                no outputs, or r is an error
 *     p = wrk_reply_reserve(w, req, size); fill; wrk_reply_send(w, req, 0);
 *
 * The loop has checked the frame's size field and its sequence number; the dispatch
 * checks body size, counts, offsets, and that WIRE_F_BULK is set only on calls that
 * carry a payload.  On a bad frame it calls wrk_frame_bad() and returns false.
 */
#ifndef WRK_CALL_H
#define WRK_CALL_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wire_format.h"
#include "wrk_object.h"
#include "wrk_reply.h"
#include "wrk_state.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Generated; called by the loop.  Decode, check and run one frame.  False: the frame is
 * bad, and wrk_frame_bad() has been called with the reason; the attachment ends. */
bool wrk_dispatch(struct wrk *w, const struct wire_req *req, size_t size);

#define WRK_CALL_ALWAYS 0x1u /* runs and replies even when an error is deferred */
#define WRK_CALL_NO_CTX 0x2u /* does not depend on the current context */

/* Make the frame's context current and return the deferred error.  Anything but
 * CUDA_SUCCESS: do not call the driver, pass the result to wrk_call_leave().  A
 * deferred error is returned (and cleared) only when the frame wants a reply and @flags
 * does not contain ALWAYS. */
CUresult wrk_call_enter(struct wrk *w, const struct wire_req *req, unsigned flags);

#endif
