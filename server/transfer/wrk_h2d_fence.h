/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may take for granted when a blocking copy to the card has returned:
 * that whatever it calls next finds the bytes there, in any stream.
 *
 * The default stream keeps that order by itself for itself and for blocking streams;
 * all others do not know of each other.  So where the client has made streams, a large
 * copy is answered when the card has it (the stub asks for an answer then), and behind
 * a small one, which nobody waits for, the reader lets the next frame wait a little.
 * CUDA promises no more: of pageable memory up to 64 KiB may still be on its way.
 *
 * Reader thread only.
 */
#ifndef WRK_H2D_FENCE_H
#define WRK_H2D_FENCE_H

#include "cuda_abi.h"

#include <stdbool.h>

struct wrk;
struct wrk_reply;
struct wrk_staging;

/* Before the copy of @rep is started: whether the next frame shall wait for it.  Not
 * behind other work of @stream, for which CUDA would not wait either. */
bool wrk_h2d_fence_needed(struct wrk *w, const struct wrk_reply *rep, CUstream stream);

/* It has been started, its last piece from @slot: what the call came to.  If
 * rep->taken, the answer comes later. */
CUresult wrk_h2d_fence_end(struct wrk *w, struct wrk_reply *rep, CUstream stream,
                           struct wrk_staging *slot, bool soon);

/* A frame behind such a copy: struct wrk says that there is one. */
void wrk_h2d_fence_wait(struct wrk *w);

#endif
