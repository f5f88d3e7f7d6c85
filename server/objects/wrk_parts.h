/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait for all work of a context that no later capture forbids, and that ends none.
 *
 * The driver refuses to wait for a context with a stream that is captured, and makes
 * the capture invalid.  A wait that came before the capture must do neither, and the
 * thread that makes it may be late.  So it waits for events, one at the end of each
 * stream that is busy when the wait comes.  In programs that capture nothing the
 * driver's call comes behind them, when it has nothing left to wait for.
 */
#ifndef WRK_PARTS_H
#define WRK_PARTS_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

struct wrk_parts {
    CUevent *events; /* @n of context @ctx_index; NULL: nothing was taken */
    unsigned n, room;
    uint32_t ctx_index;
    unsigned epoch;         /* when they were taken: wrk_ctx_epoch() */
    bool with_default;      /* the default stream's work is among it, or in @last */
    CUevent last;           /* that, since the first capture began; may be NULL */
    struct wrk_parts *next; /* of those without it */
};

/* What context @ctx_index has to do now, in @ret, which stays where it is until it is
 * waited for or dropped.  False, with nothing taken: a stream of it is captured
 * already, or there are too many.  Receive thread. */
bool wrk_parts_take(struct wrk *w, uint32_t ctx_index, struct wrk_parts *ret);

/* Waits for that and gives the events back, once; the context's error.  Any thread, in
 * that context. */
CUresult wrk_parts_wait(struct wrk *w, struct wrk_parts *parts);

/* Gives the events back without a wait. */
void wrk_parts_drop(struct wrk *w, struct wrk_parts *parts);

/* A capture is about to begin: with the first one, what waits without the default
 * stream's part gets it.  Receive thread. */
void wrk_parts_captures(struct wrk *w);

#endif
