/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a follower has copied of the memory of the scheduler that leads, and when.
 *
 * Plain values, filled in by sched_copy.c; part of struct sched.  Event loop thread
 * only.
 */
#ifndef SCHED_COPIED_H
#define SCHED_COPIED_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "gp_time.h"

#include <stdint.h>

/* Numbers of a status that are older are not shown. */
#define SCHED_COPY_LIVE_NS (5 * GP_NS_PER_S)

struct sched_copy {
    bool out;        /* the leader is being asked */
    bool wants_hour; /* of the two histories */
    uint64_t begun_ns;
    /* Of the leader whose events these are, and of the one that is asked now; numbers
     * of sched->replica.term. */
    uint64_t term, asked;
    /* When each was asked for that is here; 0: it is not. */
    uint64_t live_ns, events_ns, hour_ns, week_ns, pools_ns;
    Gpupool__Ctl__CtlPoolStatus live; /* numbers only */
    Gpupool__Ctl__CtlReply *pools;
};

/* When @want was copied; 0: never, or it is no list that is. */
static inline uint64_t
sched_copy_time(const struct sched_copy *copy, const Gpupool__Ctl__CtlList *want)
{
    switch (want->kind) {
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL:
        return copy->live_ns;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS:
        return copy->events_ns;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_HISTORY:
        return want->week ? copy->week_ns : copy->hour_ns;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS:
        return copy->pools_ns;
    default:
        return 0;
    }
}

#endif
