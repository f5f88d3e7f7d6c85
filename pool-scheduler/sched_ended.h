/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the last sessions ended, for holders that were not connected then: they come back
 * and want to renew what is there no more.
 *
 * A reason is told to who shows the session's lease key.  It is in memory only: after a
 * restart, or when another scheduler leads, nobody knows it.  Owned by struct sched.
 * Event loop thread only.
 */
#ifndef SCHED_ENDED_H
#define SCHED_ENDED_H

#include "ctl_limits.h"
#include "gp_base.h"

#include <stdint.h>

struct sched_session;

/* A session's place is decided by its number, so of those that are opened one after the
 * other so many are remembered: at 30 a second, those of two minutes. */
#define SCHED_ENDED_MAX 4096
#define SCHED_ENDED_WORDS 96 /* with the NUL */

struct sched_ended {
    struct {
        uint64_t id; /* 0: free */
        uint8_t lease_key[CTL_LEASE_KEY_SIZE];
        char words[SCHED_ENDED_WORDS];
    } of[SCHED_ENDED_MAX];
};

/* @session ends for @words. */
void sched_ended_note(struct sched_ended *ended, const struct sched_session *session,
                      const char *words);
/* Why session @id with that lease key ended; NULL: that is not known (any more). */
const char *sched_ended_find(const struct sched_ended *ended, uint64_t id,
                             const void *lease_key, size_t size);

#endif
