/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of the memory that it shares with the supervisor: its desk (which
 * it writes), its notice (which it reads) and its wake-up descriptor (wrk_segment.h,
 * gov_desk.h).
 *
 * One per process, set up before any byte of the client is read.  The descriptors of
 * the files are then closed, so that later code has the mappings only; the wake-up
 * descriptor stays open.  Any thread.
 */
#ifndef WRK_DESK_H
#define WRK_DESK_H

#include "wrk_segment.h"

#include <pthread.h>
#include <stdbool.h>

struct gp_err;

struct wrk_desks {
    const struct wrk_segment *segment; /* the session's */
    struct wrk_desk *desk;
    struct wrk_notice *notice; /* cannot be written */
    uint32_t slot;
    int wake_fd;
    pthread_mutex_t lock;        /* of calls: one at a time */
    uint32_t window_s;           /* how long there may be no supervisor */
    _Atomic uint32_t successors; /* that have taken over so far */
};

/* Map what the supervisor has sent, the descriptors from WRK_FD_SEGMENT on. */
int wrk_desks_open(struct wrk_desks *d, uint32_t slot, struct gp_err *err);

/* Another supervisor has taken over: its segment or its notice takes the place of the
 * one before, for all threads at once.  Whoever sleeps on that wakes up.  Closes @fd.
 */
int wrk_desks_new_segment(struct wrk_desks *d, int fd);
int wrk_desks_new_notice(struct wrk_desks *d, int fd);

/* Something on the desk has changed that the arbiter has to see now. */
void wrk_desks_ring(struct wrk_desks *d);

/* Take a place at the cards.  -ENOSPC: there is none. */
int wrk_desks_join(struct wrk_desks *d);

/* Have the supervisor do something, and wait until it has; what it answered: of
 * WRK_CALL_TAKE an enum wrk_take, else 1. */
uint32_t wrk_desks_call(struct wrk_desks *d, enum wrk_call_kind kind, uint32_t slice,
                        uint64_t bytes);

/* Sleep until *@word is not @value any more, for @ns at most. */
void wrk_desks_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);

#endif
