/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are being captured, where work of the worker's own has no place, and the
 * captures that are under way.
 *
 * A capture is over when it is ended, its stream destroyed or its context gone.
 */
#ifndef WRK_CAPTURE_H
#define WRK_CAPTURE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* The work that the stream had before: an event at its end; neither: there was none. */
struct wrk_capture {
    CUstream stream;
    uint32_t ctx_index;
    CUevent event;
    bool unknown; /* there was no event to be had */
};

/* A copy in a stream that is being captured would become a node that reads a staging
 * buffer at every launch of the graph: the error for that, or CUDA_SUCCESS. */
CUresult wrk_capturing(struct wrk *w, CUstream stream);

/* The same for a copy that the worker makes otherwise than the client asked: a copy
 * without a stream during the capture of a blocking one is an error, and invalidates
 * it.  The driver does both. */
CUresult wrk_capture_refuses(struct wrk *w, CUstream stream);

/* Receive thread, with the call that begins a capture between the two.  begun: returns
 * @r, the driver's result. */
void wrk_capture_begin(struct wrk *w, CUstream stream, struct wrk_capture *capture);
CUresult wrk_capture_begun(struct wrk *w, const struct wrk_capture *capture,
                           CUresult r);
/* The capture that began in @stream was ended. */
void wrk_capture_ended(struct wrk *w, CUstream stream);
/* The call that ended a capture answers that it was invalid.  What a posted call was
 * refused with in it, or what made it invalid, is the same news: a driver told it at
 * those calls, so no later one returns it. */
void wrk_capture_told_invalid(struct wrk *w);
/* @stream is about to be destroyed, and the capture with it, whose event is the
 * caller's then.  False: none began there, or it found no room in the list. */
bool wrk_capture_take(struct wrk *w, CUstream stream, struct wrk_capture *ret);
/* The context died with its streams and events. */
void wrk_capture_forget(struct wrk *w, uint32_t ctx_index);

/* Whether a call of now may be made later by another thread, whatever is captured then:
 * no capture was under way, or the client found that none keeps its thread from the
 * call (WIRE_F_RELAXED).  Receive thread. */
bool wrk_capture_allows(const struct wrk *w);
/* The mode of cuThreadExchangeStreamCaptureMode of the thread that calls this, which
 * needs a current context.  False: it could not be set, and the next call tries again.
 */
bool wrk_capture_relax_thread(struct wrk *w, bool relaxed);
/* Around driver calls that the receive thread makes for the worker itself in the middle
 * of a call of the client: a capture of the client must not forbid them, nor be
 * invalidated by them. */
void wrk_capture_relax_own(struct wrk *w);
void wrk_capture_relax_client(struct wrk *w);

#endif
