/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision: a request and a pool in, cards or reasons out.
 *
 * Pure: changes nothing, asks no clock, keeps no state, and gives the same answer
 * to the same question; so a simulator or a bench can run it on a pool of its own.
 * The caller takes what was decided (sched_pool_take()).
 *
 * One card: O(100 log cards) through the pool's index.  Several cards
 * (placement/sched_several.h), which all come from one server unless the request allows
 * more (`span`): islands, then servers, that have as many cards with enough core, of
 * which the first with enough memory ends the search; only where core is plenty and
 * memory is not does that look at many servers.
 *
 *   binpack  the card with the least free core that fits, then the least free
 *            memory, then the fullest server
 *   spread   the card with the most free core, then the most free memory, then the
 *            emptiest server
 *   fgd      where least of what is free becomes useless for the requests that come
 *            (placement/sched_fgd.h)
 * Servers are compared for unused cards only.
 */
#ifndef SCHED_PLACE_H
#define SCHED_PLACE_H

#include "sched_pool.h"
#include "sched_request.h"

struct sched_slice {
    struct sched_card *card;
    uint32_t core;
    uint64_t memory;
    bool in_space;
};

struct sched_decision {
    struct sched_slice slices[TICKET_SLICES_MAX];
    uint32_t n_slices;
};

/* -ENOSPC: nothing fits; *ret is untouched; the words are sched_place_explain()'s. */
int sched_place(const struct sched_pool *pool, const struct sched_request *req,
                struct sched_decision *ret);

/* Take what @decision names, to see what else would fit beside it.  -ENOSPC: it is not
 * all there, and nothing was taken. */
int sched_decision_take(struct sched_pool *pool, const struct sched_decision *decision);
/* In the same turn of the event loop: nobody has seen it. */
void sched_decision_untake(struct sched_pool *pool,
                           const struct sched_decision *decision);

/* What a request must not be placed on: cards, or whole servers, that its owner uses.
 */
#define SCHED_AVOID_MAX 4096 /* an owner's slices, as many as his sessions may hold */
struct sched_avoid {
    bool servers; /* the servers of the cards */
    unsigned n;
    const struct sched_card *cards[SCHED_AVOID_MAX];
};

/* On exactly these cards, which are held for the request. */
int sched_place_held(struct sched_card *const *cards, unsigned n,
                     const struct sched_request *req, struct sched_decision *ret);
/* Whether @card is one that @req accepts, apart from what is free on it. */
bool sched_place_accepts(const struct sched_card *card,
                         const struct sched_request *req);
/* Percent of @card that @req needs; over 100: more than there is. */
uint32_t sched_place_core(const struct sched_card *card,
                          const struct sched_request *req);
/* What is missing, in one sentence from the index: no card is looked at. */
void sched_place_shortage(const struct sched_pool *pool,
                          const struct sched_request *req, char *words, size_t size);

/* That there is no server @name, and which there are. */
void sched_place_no_server(const struct sched_pool *pool, const char *name, char *words,
                           size_t size);

/* Why one card was not (or would not be) chosen. */
struct sched_reason {
    const struct sched_server *server;
    const struct sched_card *card; /* NULL: the server as a whole */
    char words[160];
};

struct sched_reasons {
    struct sched_reason list[CTL_REASONS_MAX];
    unsigned n, left_off;
    char summary[400]; /* one sentence over all cards */
    bool unknown;      /* the server or the card asked for is not the pool's */
};

/* Look at every card and say what is in the way.  @chosen may be NULL. */
void sched_place_explain(const struct sched_pool *pool, const struct sched_request *req,
                         const struct sched_decision *chosen,
                         struct sched_reasons *ret);

/* The same for a request that nothing fits, at the price of a grant: on a large pool
 * only the first cards are looked at (`gpupool explain` looks at all). */
#define SCHED_REFUSAL_REASONS 8
void sched_place_refusal(const struct sched_pool *pool, const struct sched_request *req,
                         struct sched_reasons *ret);

#endif
