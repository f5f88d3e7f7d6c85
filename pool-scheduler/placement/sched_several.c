/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_several.h"

#include <errno.h>
#include <stdio.h>

/* ------------------------------------------------- cards of a given server -- */

/* The cards of one server that fit, in the sets that are linked to each other: an
 * island, or a card that is in none. */
struct set {
    const struct sched_island *island; /* NULL: the card alone */
    const struct sched_card *card;
    unsigned n; /* cards that fit */
};

struct sets {
    struct set list[CTL_SERVER_CARDS_MAX];
    unsigned n;
};

static void
sets_of(const struct sched_server *server, const struct sched_request *req,
        struct sets *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < server->n_cards; i++) {
        const struct sched_card *card = server->cards[i];
        unsigned at = 0;

        if (!sched_card_fits(card, req))
            continue;
        while (at < ret->n && (!card->island || ret->list[at].island != card->island))
            at++;
        if (at == ret->n)
            ret->list[ret->n++] = (struct set){card->island, card, 0};
        ret->list[at].n++;
    }
}

/* The set for @cards more: the smallest that has them all, which leaves the larger ones
 * whole (spread: the largest); else the largest.  Earlier ones win. */
static struct set *
best_set(struct sets *sets, unsigned cards, const struct sched_request *req)
{
    bool spread = req->placement == SCHED_SPREAD;
    struct set *best = NULL;

    for (unsigned i = 0; i < sets->n; i++) {
        struct set *set = &sets->list[i];
        bool enough = set->n >= cards, less;

        if (!best || enough != (best->n >= cards)) {
            if (!best || enough)
                best = set;
            continue;
        }
        less = enough && !spread;
        if (less ? set->n < best->n : set->n > best->n)
            best = set;
    }
    return best && best->n ? best : NULL;
}

/* The best @n cards of @server that are in @island, or in any if @any; best first. */
static unsigned
take_best(const struct sched_server *server, const struct set *set, unsigned n,
          const struct sched_request *req, struct sched_decision *ret)
{
    struct sched_card *best[TICKET_SLICES_MAX];
    unsigned found = 0;

    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *card = server->cards[i];
        unsigned at;

        if ((set && (set->island ? card->island != set->island : card != set->card)) ||
            !sched_card_fits(card, req))
            continue;
        if (found == n && !sched_card_before(card, best[n - 1], req))
            continue;
        for (at = found == n ? n - 1 : found;
             at && sched_card_before(card, best[at - 1], req); at--)
            best[at] = best[at - 1];
        best[at] = card;
        if (found < n)
            found++;
    }
    for (unsigned i = 0; i < found; i++)
        sched_decide(ret, req, best[i]);
    return found;
}

/* On as few islands as it takes. */
static int
several_by_sets(const struct sched_server *server, const struct sched_request *req,
                struct sched_decision *ret)
{
    struct sched_decision d = {.n_slices = 0};
    struct sets sets;

    sets_of(server, req, &sets);
    while (d.n_slices < req->cards) {
        unsigned missing = req->cards - d.n_slices;
        struct set *set = best_set(&sets, missing, req);

        if (!set || (req->near == SCHED_NEAR_ISLAND && set->n < req->cards))
            return -ENOSPC;
        take_best(server, set, gp_min(set->n, missing), req, &d);
        set->n = 0;
    }
    *ret = d;
    return 0;
}

int
sched_several_on(const struct sched_server *server, const struct sched_request *req,
                 struct sched_decision *ret)
{
    struct sched_decision d = {.n_slices = 0};

    if (req->cards > 1 && (server->islands || req->near == SCHED_NEAR_ISLAND))
        return several_by_sets(server, req, ret);
    if (take_best(server, NULL, req->cards, req, &d) < req->cards)
        return -ENOSPC;
    *ret = d;
    return 0;
}

static int
several_in_island(const struct sched_island *island, const struct sched_request *req,
                  struct sched_decision *ret)
{
    struct set set = {.island = island};
    struct sched_decision d = {.n_slices = 0};

    if (take_best(island->server, &set, req->cards, req, &d) < req->cards)
        return -ENOSPC;
    *ret = d;
    return 0;
}

/* ------------------------------------------------------ through the lists -- */

static int
try_unit(const struct sched_unit *unit, enum sched_level level,
         const struct sched_request *req, struct sched_decision *ret)
{
    return level == SCHED_ISLANDS
               ? several_in_island(container_of(unit, struct sched_island, unit), req,
                                   ret)
               : sched_several_on(container_of(unit, struct sched_server, unit), req,
                                  ret);
}

/* The units of one list, whose links are @at in them: recently changed ones are at its
 * head. */
int
sched_several_in_list(const struct sched_link *head, size_t at, enum sched_level level,
                      const struct sched_request *req, struct sched_decision *ret)
{
    bool spread = req->placement == SCHED_SPREAD;

    for (const struct sched_link *link = spread ? head->prev : head->next; link != head;
         link = spread ? link->prev : link->next) {
        const struct sched_unit *unit = (const void *)((const char *)link - at);

        if (!try_unit(unit, level, req, ret))
            return 0;
    }
    return -ENOSPC;
}

/* The units of all groups that the request accepts, with so much free core. */
static int
place_in_groups(const struct sched_pool *pool, enum sched_level level, unsigned core,
                const struct sched_request *req, struct sched_decision *ret)
{
    unsigned n = req->cards - 1;
    size_t at = offsetof(struct sched_unit, nth) + n * sizeof(struct sched_nth) +
                offsetof(struct sched_nth, group_link);

    for (unsigned i = 0; i < pool->n_groups; i++) {
        const struct sched_link *head = &pool->groups[i]->lists[level].of[n][core];

        if (head->next != head && sched_group_accepts(pool->groups[i], req) &&
            !sched_several_in_list(head, at, level, req, ret))
            return 0;
    }
    return sched_several_in_list(&pool->mixed[level].of[n][core], at, level, req, ret);
}

static int
place_at_level(const struct sched_pool *pool, enum sched_level level,
               const struct sched_request *req, struct sched_decision *ret)
{
    unsigned n = req->cards - 1;
    size_t at = offsetof(struct sched_unit, nth) + n * sizeof(struct sched_nth) +
                offsetof(struct sched_nth, link);
    bool grouped = req->where && pool->n_groups > 1;

    for (unsigned i = 0; i <= 100 - req->core; i++) {
        unsigned core = req->placement == SCHED_SPREAD ? 100 - i : req->core + i;
        int r = grouped ? place_in_groups(pool, level, core, req, ret)
                        : sched_several_in_list(&pool->lists[level].of[n][core], at,
                                                level, req, ret);

        if (!r)
            return 0;
    }
    return -ENOSPC;
}

/* ------------------------------------------------- cards of several servers -- */

static bool
decided_on(const struct sched_decision *d, const struct sched_server *server)
{
    for (uint32_t i = 0; i < d->n_slices; i++)
        if (d->slices[i].card->server == server)
            return true;
    return false;
}

/* @part->cards cards of one more server of @lists. */
static int
place_part(const struct sched_lists *lists, size_t link_at,
           const struct sched_request *part, struct sched_decision *ret)
{
    size_t at = offsetof(struct sched_server, unit.nth[part->cards - 1]) + link_at;
    struct sched_decision some;

    for (unsigned core = 100; core >= part->core; core--) {
        const struct sched_link *head = &lists->of[part->cards - 1][core];

        for (const struct sched_link *link = head->next; link != head;
             link = link->next) {
            const struct sched_server *server = (const void *)((const char *)link - at);

            if (decided_on(ret, server) || sched_several_on(server, part, &some) < 0)
                continue;
            for (uint32_t i = 0; i < some.n_slices; i++)
                ret->slices[ret->n_slices++] = some.slices[i];
            return 0;
        }
    }
    return -ENOSPC;
}

/* As few servers as it takes, because between them copies go over the network: the
 * one with most cards that fit, and so on. */
static int
place_across(const struct sched_lists *lists, size_t link_at,
             const struct sched_request *req, struct sched_decision *ret)
{
    struct sched_request part = *req;
    struct sched_decision d = {.n_slices = 0};

    part.cards = req->cards - 1; /* no server has all */
    while (part.cards && d.n_slices < req->cards) {
        part.cards = gp_min(part.cards, req->cards - d.n_slices);
        if (place_part(lists, link_at, &part, &d) < 0)
            part.cards--;
    }
    if (d.n_slices < req->cards)
        return -ENOSPC;
    *ret = d;
    return 0;
}

/* Servers of one fabric: of the one with least free that has as many cards. */
static int
place_in_fabrics(const struct sched_pool *pool, const struct sched_request *req,
                 struct sched_decision *ret)
{
    size_t at = offsetof(struct sched_fabric, unit.nth[req->cards - 1].link);

    for (unsigned i = 0; i <= 100 - req->core; i++) {
        unsigned core = req->placement == SCHED_SPREAD ? 100 - i : req->core + i;
        const struct sched_link *head =
            &pool->lists[SCHED_FABRICS].of[req->cards - 1][core];

        for (const struct sched_link *link = head->next; link != head;
             link = link->next) {
            const struct sched_fabric *fabric = (const void *)((const char *)link - at);

            if (!place_across(&fabric->servers, offsetof(struct sched_nth, fabric_link),
                              req, ret))
                return 0;
        }
    }
    return -ENOSPC;
}

int
sched_several_across(const struct sched_pool *pool, const struct sched_request *req,
                     struct sched_decision *ret)
{
    int r = -ENOSPC;

    if (req->span && pool->n_fabrics)
        r = place_in_fabrics(pool, req, ret);
    if (r && req->span && req->near != SCHED_NEAR_FABRIC)
        r = place_across(&pool->lists[SCHED_SERVERS], offsetof(struct sched_nth, link),
                         req, ret);
    return r;
}

int
sched_several(const struct sched_pool *pool, const struct sched_request *req,
              struct sched_decision *ret)
{
    int r = -ENOSPC;

    if (pool->n_islands)
        r = place_at_level(pool, SCHED_ISLANDS, req, ret);
    if (r && req->near != SCHED_NEAR_ISLAND)
        r = place_at_level(pool, SCHED_SERVERS, req, ret);
    return r ? sched_several_across(pool, req, ret) : 0;
}

/* ------------------------------------------------------------------- words -- */

/* Cards are in the order of their servers, not of their islands. */
static unsigned
islands_of(const struct sched_decision *d)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < d->n_slices; i++) {
        const struct sched_island *island = d->slices[i].card->island;
        bool seen = false;

        for (uint32_t k = 0; island && k < i; k++)
            seen |= d->slices[k].card->island == island;
        n += !seen;
    }
    return n;
}

void
sched_several_words(const struct sched_decision *d, char *words, size_t size)
{
    const struct sched_card *first = d->slices[0].card;
    const struct sched_fabric *fabric = first->server->fabric;
    unsigned servers = 0;

    for (uint32_t i = 0; i < d->n_slices; i++) {
        const struct sched_server *server = d->slices[i].card->server;

        servers += !i || server != d->slices[i - 1].card->server;
        if (server->fabric != fabric)
            fabric = NULL;
    }
    words[0] = 0;
    if (d->n_slices < 2)
        return;
    if (servers > 1 && fabric)
        snprintf(words, size, ", on %u servers of fabric %s", servers, fabric->name);
    else if (servers > 1)
        snprintf(words, size, ", on %u servers", servers);
    else if (islands_of(d) == 1)
        snprintf(words, size, ", linked to each other (island %u of server %s)",
                 first->island->number, first->server->name);
    else if (first->server->islands)
        snprintf(words, size, ", on %u islands of server %s", islands_of(d),
                 first->server->name);
    else
        snprintf(words, size, ", on server %s", first->server->name);
}
