/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cards to keep for a request that does not fit yet: those on which least has to
 * end before it does.
 *
 * Without it small requests would take every piece of room before a large one could
 * have it.  What is chosen is kept with sched_pool_hold(); the caller gives it up when
 * the request is placed or gone.  The choice looks at a bounded sample of the pool, so
 * it is good and not perfect.  Pure but for the random place where the sample begins.
 */
#ifndef SCHED_HOLD_H
#define SCHED_HOLD_H

#include "sched_place.h"

/* Cards that one choice looks at. */
#define SCHED_HOLD_SAMPLE 4096

struct sched_target {
    struct sched_card *cards[TICKET_SLICES_MAX];
    unsigned n;
    uint64_t cost; /* core percent that must come free first */
};

/* What could come free on a card, if what holds it ended: *@core, *@memory besides what
 * is free. */
typedef void sched_hold_room(void *arg, const struct sched_card *card, uint32_t *core,
                             uint64_t *memory);

/* What is different for one request; NULL: nothing. */
struct sched_hold_view {
    sched_hold_room *room; /* NULL: everything may end */
    /* May @card not be chosen, because it is kept or chosen already?  NULL: those that
     * are kept, whoever they are kept for. */
    bool (*barred)(void *arg, const struct sched_card *card);
    void *arg;
};

/* -ENOSPC: not even then is there room, in what was looked at. */
int sched_hold_choose(const struct sched_pool *pool, const struct sched_request *req,
                      uint64_t seed, const struct sched_hold_view *view,
                      struct sched_target *ret);
/* Where a look at a part of the pool begins: a small pool is looked at from its
 * beginning, always in the same way.  NULL: there are no servers. */
const struct sched_server *sched_hold_first(const struct sched_pool *pool,
                                            uint64_t seed);

#endif
