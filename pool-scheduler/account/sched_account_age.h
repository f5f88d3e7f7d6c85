/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time by which days of the accounts become too old to be kept.
 *
 * It is the wall clock's, unless that has just gone far ahead of what is accounted for:
 * a wrong clock would have all accounts forgotten at once, and what is forgotten does
 * not come back when the clock is set right.  A clock that stays so for
 * SCHED_ACCOUNT_STEADY_S is believed.  Plain values, owned by struct sched; event loop
 * thread only.
 */
#ifndef SCHED_ACCOUNT_AGE_H
#define SCHED_ACCOUNT_AGE_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sched_accounts;

/* Longer than it takes to notice a wrong clock, which has all tickets refused. */
#define SCHED_ACCOUNT_STEADY_S (12 * 3600)
/* A pool may be idle, or switched off, for so long, and its clock is believed at once.
 */
#define SCHED_ACCOUNT_IDLE_S (7 * 86400)
/* The wall clock was set: it has gone by so much against the monotonic one. */
#define SCHED_ACCOUNT_JUMP_S 3600

struct sched_account_age {
    bool begun;
    uint64_t time_s;   /* of the wall, as far as it is believed */
    uint64_t steady_s; /* monotonic: the clock has not been set since then */
    int64_t ahead_s;   /* of the wall clock against the monotonic one */
};

/* @wall_s and @now_s: what the wall clock and the monotonic clock say. */
uint64_t sched_account_age_time(struct sched_account_age *age,
                                const struct sched_accounts *set, uint64_t wall_s,
                                uint64_t now_s);

#endif
