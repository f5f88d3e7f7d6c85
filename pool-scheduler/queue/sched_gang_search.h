/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards for all members of a gang at once, where placing one after the other found
 * none: what sched_pack() is asked, and which kept cards it may use.
 *
 * Changes nothing.  Event loop thread only.
 */
#ifndef SCHED_GANG_SEARCH_H
#define SCHED_GANG_SEARCH_H

#include "sched_place.h"

struct sched;
struct sched_class;
struct sched_gang;
struct sched_wait_claim;

/* On what is free now: also on cards that are kept for the gang, reserved for its
 * owner, or kept for others who can use them only after it (backfill).  As
 * sched_pack(). */
int sched_gang_search(struct sched *sched, const struct sched_gang *gang,
                      struct sched_decision *ret);
/* On cards to keep: if all that is on them ended, or, with @class, what of it is below
 * that.  Of a bounded sample of the pool, as sched_hold_choose(). */
int sched_gang_search_later(struct sched *sched, const struct sched_gang *gang,
                            const struct sched_class *class,
                            const struct sched_wait_claim *claim,
                            struct sched_decision *ret);

#endif
