/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time between two events, taken at the end of a wait and sent with its reply
 * (gp_wait_elapsed).
 *
 * A wait may end on a waiter thread, while the receive thread destroys one of the two
 * events: CUDA allows that for an event that nobody waits for.  Such an event is
 * destroyed when the last wait that would read it has ended.
 *
 * A struct wrk_elapsed belongs to its wait.  begin() and destroy() run on the receive
 * thread, end() on any.
 */
#ifndef WRK_ELAPSED_H
#define WRK_ELAPSED_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* What a client asks for: the events' ids, which may name nothing. */
struct wrk_elapsed_ask {
    uint64_t start, end;
};

struct wrk_elapsed {
    struct wrk_elapsed *next;  /* of those that have begun */
    CUevent start, end;        /* NULL: nobody asked, or the events are unknown */
    bool start_gone, end_gone; /* to be destroyed when nobody reads it any more */
};

/* @ask may be NULL. */
void wrk_elapsed_begin(struct wrk *w, const struct wrk_elapsed_ask *ask,
                       struct wrk_elapsed *elapsed);

/* Follows every begin().  CUDA_SUCCESS: *ret_ms; the wait itself returned @waited. */
CUresult wrk_elapsed_end(struct wrk *w, struct wrk_elapsed *elapsed, CUresult waited,
                         float *ret_ms);

/* Destroy an event, at once or when the last wait that reads it has ended. */
CUresult wrk_elapsed_destroy(struct wrk *w, CUevent event);

#endif
