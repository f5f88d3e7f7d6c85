/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A follower's copy of what is in the memory of the scheduler that leads and not in the
 * store: events, history, what other pools answered, and sums of live use.
 *
 * Once a second it asks the leader for what is new (sched_relay.h).  Events and history
 * go where its own would be, so that they are still there when it leads.  While no
 * scheduler leads, or the leader does not answer, they are shown as they were, with
 * their age.  Not the queue, whose positions change too fast to be copied.
 *
 * Owned by struct sched.  Event loop thread only.
 */
#ifndef SCHED_COPY_H
#define SCHED_COPY_H

#include <stdint.h>

struct sched;
struct sched_copy;

/* Called often while the scheduler follows. */
void sched_copy_tick(struct sched *sched, uint64_t now);
void sched_copy_fini(struct sched_copy *copy);

#endif
