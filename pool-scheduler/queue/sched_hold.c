/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_hold.h"

#include <errno.h>
#include <string.h>

struct choice {
    const struct sched_request *req;
    sched_hold_room *room;
    void *arg;
    struct sched_target best;
    bool found;
};

#define IMPOSSIBLE UINT64_MAX

/* Percent of the card that must come free before the request fits there. */
static uint64_t
card_cost(const struct choice *choice, const struct sched_card *card)
{
    const struct sched_request *req = choice->req;
    uint32_t core = card->core_given, wanted = sched_place_core(card, req);
    uint64_t memory = card->memory_given;
    uint32_t free_core = sched_card_free_core(card);
    uint64_t free_memory = sched_card_free_memory(card), cost;

    if (!card->present || card->hold || !sched_server_open(card->server) ||
        !sched_place_accepts(card, req))
        return IMPOSSIBLE;
    if (choice->room)
        choice->room(choice->arg, card, &core, &memory);
    if (free_core + core < wanted || free_memory + memory < req->memory)
        return IMPOSSIBLE;
    if (!sched_card_shares(card, req->in_space)) /* all of them must go */
        return core == card->core_given ? core : IMPOSSIBLE;
    cost = wanted > free_core ? wanted - free_core : 0;
    if (req->memory > free_memory && card->facts.memory)
        cost = gp_max(cost, 1 + (uint64_t)(100.0 * (double)(req->memory - free_memory) /
                                           (double)card->facts.memory));
    return cost;
}

/* The cheapest req->cards cards, kept in order of their cost. */
struct cheapest {
    struct sched_card *cards[TICKET_SLICES_MAX];
    uint64_t costs[TICKET_SLICES_MAX];
    unsigned n;
};

static void
cheapest_add(struct cheapest *list, unsigned cards, struct sched_card *card,
             uint64_t cost)
{
    unsigned at;

    if (cost == IMPOSSIBLE || (list->n == cards && cost >= list->costs[cards - 1]))
        return;
    for (at = list->n == cards ? cards - 1 : list->n; at && list->costs[at - 1] > cost;
         at--) {
        list->cards[at] = list->cards[at - 1];
        list->costs[at] = list->costs[at - 1];
    }
    list->cards[at] = card;
    list->costs[at] = cost;
    if (list->n < cards)
        list->n++;
}

static void
consider(struct choice *choice, const struct cheapest *list)
{
    struct sched_target target = {.n = list->n};

    if (list->n < choice->req->cards)
        return;
    for (unsigned i = 0; i < list->n; i++) {
        target.cards[i] = list->cards[i];
        target.cost += list->costs[i];
    }
    if (choice->found && choice->best.cost <= target.cost)
        return;
    choice->best = target;
    choice->found = true;
}

static const struct sched_server *
server_at(const struct sched_pool *pool, uint64_t seed)
{
    const struct sched_server *server = pool->servers;

    for (uint64_t skip = pool->n_servers ? seed % pool->n_servers : 0; skip; skip--)
        server = server->next;
    return server;
}

int
sched_hold_choose(const struct sched_pool *pool, const struct sched_request *req,
                  uint64_t seed, sched_hold_room *room, void *arg,
                  struct sched_target *ret)
{
    struct choice choice = {.req = req, .room = room, .arg = arg};
    /* A small pool is looked at from its beginning, always in the same way. */
    const struct sched_server *server =
        pool->n_cards > SCHED_HOLD_SAMPLE ? server_at(pool, seed) : pool->servers;
    struct cheapest across = {.n = 0};
    unsigned looked = 0;

    for (unsigned s = 0; s < pool->n_servers && looked < SCHED_HOLD_SAMPLE; s++) {
        struct cheapest own = {.n = 0};

        for (unsigned i = 0; i < server->n_cards; i++) {
            uint64_t cost = card_cost(&choice, server->cards[i]);

            cheapest_add(&own, req->cards, server->cards[i], cost);
            cheapest_add(&across, req->cards, server->cards[i], cost);
        }
        looked += server->n_cards;
        consider(&choice, &own);
        server = server->next ? server->next : pool->servers;
    }
    if (req->span)
        consider(&choice, &across);
    if (!choice.found)
        return -ENOSPC;
    *ret = choice.best;
    return 0;
}
