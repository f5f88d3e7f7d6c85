/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visibility of blocking host-to-device copies to other streams.
 *
 * When such a copy has returned, a program expects its bytes in any stream.  The copy
 * from the staging buffer runs on the default stream, which orders itself and blocking
 * streams only.  So the reply to such a copy comes when its stream is done, and if the
 * client has created streams, the stub requests one for a copy of more than 64 KiB and
 * for one behind other work than such copies; for the others, which the client does not
 * wait for, the receive thread polls their fence for a short time before it executes
 * the next frame. CUDA promises no more: a copy of up to 64 KiB from pageable memory
 * may still be in flight when the call returns.
 *
 * Receive thread only.
 */
#ifndef WRK_H2D_FENCE_H
#define WRK_H2D_FENCE_H

#include "cuda_abi.h"

#include <stdbool.h>

struct wrk;
struct wrk_reply;
struct wrk_staging;

/* Called before the copy of @rep is started: whether the next frame has to wait for it.
 * Not if other work precedes it in @stream: then the stub has waited for the stream, or
 * requested a reply, or nobody can see it. */
bool wrk_h2d_fence_needed(struct wrk *w, const struct wrk_reply *rep, CUstream stream);

/* The copy has been started, its last chunk from the staging buffer @slot.  Returns the
 * call's result; if rep->taken, the reply is sent later. */
CUresult wrk_h2d_fence_end(struct wrk *w, struct wrk_reply *rep, CUstream stream,
                           struct wrk_staging *slot, bool soon);

/* A frame behind such a copy, which struct wrk has a flag for. */
void wrk_h2d_fence_wait(struct wrk *w);

#endif
