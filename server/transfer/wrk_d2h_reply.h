/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device-to-host copies whose bytes the client waits for: the payload follows the
 * reply.
 *
 * The copy runs on the receive thread if its stream is idle and it is small, else on a
 * waiter thread once the work before it is complete.  The reply's header is sent with
 * the first chunk, after the last bytes of the source have been read as well, so that
 * nearly every error can still be the call's result.  How the bytes move is the path's
 * (wrk_paths.h).  Copies that nobody waits for are in wrk_d2h_async.h.
 */
#ifndef WRK_D2H_REPLY_H
#define WRK_D2H_REPLY_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct wrk;
struct wrk_copy;
struct wrk_d2h_replies;
struct wrk_reply;

/* It lives as long as the process. */
int wrk_d2h_replies_new(struct wrk_d2h_replies **ret);

/* See wrk_transfer_d2h(). */
CUresult wrk_d2h_reply(struct wrk *w, struct wrk_reply *rep,
                       const struct wrk_copy *copy, size_t arg_size);

/* The context is gone. */
void wrk_d2h_replies_forget(struct wrk_d2h_replies *replies, uint32_t ctx_index);

#endif
