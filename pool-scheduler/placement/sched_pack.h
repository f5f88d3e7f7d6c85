/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several requests at once, all of them or none: cards for each, so that all fit beside
 * each other.
 *
 * A search with backtracking over pieces, each of which is one card of one request, in
 * the order of the requests.  One step is a look at one card; their number is bounded
 * by the caller.  What is refused below that bound cannot be placed in any way,
 * whatever the order; at the bound nothing is known.  To get far with few steps, of
 * cards that are alike for all that is still to be placed one is tried, and requests
 * that are alike do not change places with each other.
 *
 * Cards come from the index of a pool, the tightest fit first (to spread: last), and
 * from the caller: cards that are kept, which no index has.  What the pieces take is
 * counted in the search alone; no card is changed.  Pure, but for the memory that it
 * allocates while it runs.
 *
 * How close the cards of one request are to each other is kept to where it is demanded
 * (`near`, `span`), and otherwise not looked for beyond an island before others of its
 * server: sched_place(), asked first, does that better.
 */
#ifndef SCHED_PACK_H
#define SCHED_PACK_H

#include "sched_place.h"

/* A third of a millisecond on a small pool, several where cards are not in the cache.
 */
#define SCHED_PACK_STEPS 32768

struct sched_pack_request {
    struct sched_request req;      /* avoid: what its owner has already, or NULL */
    bool apart_card, apart_server; /* from the requests before it as well */
    uint64_t rights; /* requests for which it is equal may have the same kept cards */
};

/* What a card has for the requests together. */
struct sched_pack_room {
    uint32_t core, slices; /* free; of others, that stay */
    uint64_t memory;
    bool in_space; /* how those share it; of no meaning without them */
};

struct sched_pack {
    const struct sched_pool *pool; /* NULL: only the cards that @also names */
    const struct sched_pack_request *requests;
    unsigned n;
    /* The next card that is in no index and that requests[@request] may have, from *@at
     * (at first 0) on; NULL: there are no more.  May be NULL. */
    struct sched_card *(*also)(void *arg, unsigned request, unsigned *at);
    /* What @card has; NULL: what is free. */
    void (*room)(void *arg, const struct sched_card *card, struct sched_pack_room *ret);
    void *arg;
    unsigned steps; /* at most; afterwards: those that it took */
};

/* A decision for each request.  -ENOSPC: there is no way.  -EAGAIN: none was found in
 * so many steps.  -ENOMEM.  *ret is written on success only. */
int sched_pack(struct sched_pack *pack, struct sched_decision *ret);

#endif
