/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous device-to-host copies: the client does not wait for them
 * (WIRE_F_D2H_ASYNC).
 *
 * The receive thread starts the copy in the client's own stream, into a staging buffer,
 * and goes on; the buffer's bytes are sent once its fence is complete.  Every message
 * from which the client could learn how far a stream got (a reply, a host function that
 * is due) is preceded by the bytes of all completed copies:
 * wrk_d2h_async_before_reply().  The client takes frames in order, so it has the bytes
 * before it learns that the work is complete.  If no message is due, waiter threads
 * send the bytes, one thread per stream.
 *
 * The number of copies in flight is bounded by the staging buffers, which the client
 * counts as well (wire_format.h); the receive thread never waits for one.  All under
 * the send lock.
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

/* It lives as long as the process.  -ENOMEM. */
int wrk_d2h_async_new(struct wrk_d2h_async **ret);

/* Start @copy for the frame of @rep.  The reader. */
CUresult wrk_d2h_async_start(struct wrk *w, struct wrk_reply *rep,
                             const struct wrk_copy *copy);

/* A frame with WIRE_F_D2H_ASYNC has been executed: if no copy was started for it, the
 * client is told now.  Receive thread. */
void wrk_d2h_async_end(struct wrk *w, const struct wire_req *req);

/* Send what has completed; the sender's lock is held.  Not on a driver's thread. */
void wrk_d2h_async_before_reply(struct wrk *w);

/* Is there a copy that the receive thread polls between frames?  wrk_d2h_async_poll()
 * does so, and hands copies that take long to waiter threads. */
bool wrk_d2h_async_pending(const struct wrk *w);
void wrk_d2h_async_poll(struct wrk *w);

/* The context is gone: what was under way in it will not come. */
void wrk_d2h_async_forget(struct wrk *w, uint32_t ctx_index);

#endif
