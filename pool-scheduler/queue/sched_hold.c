/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_hold.h"

#include <errno.h>
#include <string.h>

struct choice {
    const struct sched_request *req;
    const struct sched_hold_view *view;
    struct sched_target best;
    bool found;
};

#define IMPOSSIBLE UINT64_MAX

static bool
is_barred(const struct sched_hold_view *view, const struct sched_card *card)
{
    return view && view->barred ? view->barred(view->arg, card) : card->hold != NULL;
}

/* Percent of the card that must come free before the request fits there. */
static uint64_t
card_cost(const struct choice *choice, const struct sched_card *card)
{
    const struct sched_request *req = choice->req;
    uint32_t core = card->core_given, wanted = sched_place_core(card, req);
    uint64_t memory = card->memory_given;
    uint32_t free_core = sched_card_free_core(card);
    uint64_t free_memory = sched_card_free_memory(card), cost;

    if (!sched_card_open(card) || is_barred(choice->view, card) ||
        !sched_place_accepts(card, req))
        return IMPOSSIBLE;
    if (choice->view && choice->view->room)
        choice->view->room(choice->view->arg, card, &core, &memory);
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

const struct sched_server *
sched_hold_first(const struct sched_pool *pool, uint64_t seed)
{
    const struct sched_server *server = pool->servers;
    bool small = pool->n_cards <= SCHED_HOLD_SAMPLE;

    for (uint64_t skip = small ? 0 : seed % pool->n_servers; skip; skip--)
        server = server->next;
    return server;
}

/* Servers of one fabric that were looked at, with the cheapest cards of it. */
#define FABRICS_MAX 64
struct fabrics {
    const struct sched_fabric *of[FABRICS_MAX];
    struct cheapest cheapest[FABRICS_MAX];
    unsigned n;
};

static void
fabrics_add(struct fabrics *list, unsigned cards, struct sched_card *card,
            uint64_t cost)
{
    const struct sched_fabric *fabric = card->server->fabric;
    unsigned at = 0;

    if (!fabric)
        return;
    while (at < list->n && list->of[at] != fabric)
        at++;
    if (at == FABRICS_MAX)
        return;
    if (at == list->n) {
        list->of[list->n++] = fabric;
        list->cheapest[at].n = 0;
    }
    cheapest_add(&list->cheapest[at], cards, card, cost);
}

/* The cheapest cards of @server; that are linked to each other, where it is wanted or
 * costs nothing more. */
static void
consider_server(struct choice *choice, const struct sched_server *server,
                struct cheapest *across, struct fabrics *fabrics)
{
    const struct sched_request *req = choice->req;
    struct cheapest own = {.n = 0}, linked;

    for (const struct sched_island *at = server->islands; at; at = at->next) {
        linked.n = 0;
        for (unsigned i = 0; req->cards > 1 && i < server->n_cards; i++)
            if (server->cards[i]->island == at)
                cheapest_add(&linked, req->cards, server->cards[i],
                             card_cost(choice, server->cards[i]));
        consider(choice, &linked);
    }
    if (req->near == SCHED_NEAR_ISLAND && req->cards > 1)
        return;
    for (unsigned i = 0; i < server->n_cards; i++) {
        uint64_t cost = card_cost(choice, server->cards[i]);

        cheapest_add(&own, req->cards, server->cards[i], cost);
        if (req->span)
            cheapest_add(across, req->cards, server->cards[i], cost);
        if (req->near == SCHED_NEAR_FABRIC)
            fabrics_add(fabrics, req->cards, server->cards[i], cost);
    }
    consider(choice, &own);
}

int
sched_hold_choose(const struct sched_pool *pool, const struct sched_request *req,
                  uint64_t seed, const struct sched_hold_view *view,
                  struct sched_target *ret)
{
    struct choice choice = {.req = req, .view = view};
    const struct sched_server *server = sched_hold_first(pool, seed);
    struct cheapest across = {.n = 0};
    struct fabrics fabrics;
    unsigned looked = 0;

    fabrics.n = 0;
    for (unsigned s = 0; s < pool->n_servers && looked < SCHED_HOLD_SAMPLE; s++) {
        consider_server(&choice, server, &across, &fabrics);
        looked += server->n_cards;
        server = server->next ? server->next : pool->servers;
    }
    for (unsigned i = 0; i < fabrics.n; i++)
        consider(&choice, &fabrics.cheapest[i]);
    if (req->span && req->near != SCHED_NEAR_FABRIC)
        consider(&choice, &across);
    if (!choice.found)
        return -ENOSPC;
    *ret = choice.best;
    return 0;
}
