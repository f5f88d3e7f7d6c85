/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two ways to do a thing is the faster one here and now, found by taking both
 * in turns while the thing is done anyway.
 *
 * After some uses a trial begins: turns of two uses with either way, of which the
 * second counts, because the first finds what the other way has left in caches and
 * queues.  The medians of both ways decide, and the way in use is left only for one
 * that is faster by more than noise.  A trial compares uses of one size; others that
 * come meanwhile go the way that has its turn and do not count, and a trial that finds
 * too few of its size is given up.  Then the winner is used for a long time, because
 * what is measured is the other way's price too.
 *
 * Storage is the owner's, zero-initialised; way 0 is used at first.  One thread at a
 * time.
 */
#ifndef GP_TRIAL_H
#define GP_TRIAL_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

/* Turns of each way in a trial, an odd number: a median. */
#define GP_TRIAL_TURNS 7u
/* Uses before the first trial, and between two. */
#define GP_TRIAL_FIRST 8u
#define GP_TRIAL_AGAIN 1000u

struct gp_trial {
    uint32_t used;  /* since the last trial; in one, uses that did not count */
    uint32_t turn;  /* of the trial under way, from 1 on; 0: there is none */
    uint32_t group; /* of sizes that are compared */
    bool tried;     /* there was a trial */
    bool warm;      /* the turn has had its first use */
    uint8_t best;   /* 0 or 1 */
    float cost[2][GP_TRIAL_TURNS];
};

/* Would the next use begin a trial?  Who knows that one would tell nothing now calls
 * gp_trial_put_off(). */
bool gp_trial_is_due(const struct gp_trial *trial);
void gp_trial_put_off(struct gp_trial *trial);

/* The way for a use of @size bytes that begins, 0 or 1. */
unsigned gp_trial_way(struct gp_trial *trial, uint64_t size);

/* That use took @ns.  True: it ended a trial that found the other way to be faster than
 * the one in use before; @ret_cost then has what a byte takes, in ns: before, now. */
bool gp_trial_took(struct gp_trial *trial, uint64_t size, uint64_t ns,
                   float ret_cost[2]);

#endif
