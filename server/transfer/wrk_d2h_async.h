/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to the host that nobody waits for (WIRE_F_LAND).
 *
 * The reader starts the copy in the client's own stream, into a slot, and goes on; the
 * slot's bytes are sent once its event is done.  Whoever sends a word to the client
 * that may say how far a stream got (an answer, a host function that is due) sends
 * first what has landed: wrk_d2h_async_before_reply().  So the client, which takes
 * frames in order, has the bytes before it learns that they are there.  When nobody
 * says anything, waiter threads see to it that they leave, one per stream.
 *
 * What is under way is bounded by the slots, which the client counts as well
 * (wire_format.h); the reader never waits for one.  All under the sender's lock.
 */
#ifndef WRK_D2H_ASYNC_H
#define WRK_D2H_ASYNC_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_copy;
struct wrk_d2h_async;
struct wrk_reply;

int wrk_d2h_async_new(struct wrk_d2h_async **ret);

/* Start @copy for the frame of @rep.  The reader. */
CUresult wrk_d2h_async_start(struct wrk *w, struct wrk_reply *rep,
                             const struct wrk_copy *copy);

/* The frame, which had WIRE_F_LAND, has been executed: if no copy was started for it,
 * the client hears that now.  The reader. */
void wrk_d2h_async_end(struct wrk *w, const struct wire_req *req);

/* Send what has landed; the sender's lock is held.  Not on a driver's thread. */
void wrk_d2h_async_before_reply(struct wrk *w);

/* Is it the reader's to look between frames?  wrk_d2h_async_poll() does, and hands over
 * to waiter threads what takes long. */
bool wrk_d2h_async_pending(const struct wrk *w);
void wrk_d2h_async_poll(struct wrk *w);

/* The context is gone: what was under way in it will not come. */
void wrk_d2h_async_forget(struct wrk *w, uint32_t ctx_index);

#endif
