/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_place.h"

#include "sched_fgd.h"
#include "sched_several.h"

#include <errno.h>
#include <string.h>

static struct sched_card *
card_of(struct gp_tree_node *node)
{
    return node ? container_of(node, struct sched_card, by_fit) : NULL;
}

void
sched_decide(struct sched_decision *d, const struct sched_request *req,
             struct sched_card *card)
{
    struct sched_slice *slice = &d->slices[d->n_slices++];

    slice->card = card;
    slice->core = sched_place_core(card, req);
    slice->in_space = req->in_space;
    slice->memory = req->whole ? card->facts.memory : req->memory;
}

uint32_t
sched_place_core(const struct sched_card *card, const struct sched_request *req)
{
    uint32_t tflops = req->where ? req->where->tflops : 0, rated = card->facts.tflops;

    if (!tflops)
        return req->core;
    return rated ? (100 * tflops + rated - 1) / rated : 101;
}

static bool
avoided(const struct sched_card *card, const struct sched_avoid *avoid)
{
    for (unsigned i = 0; i < avoid->n; i++)
        if (avoid->cards[i] == card ||
            (avoid->servers && avoid->cards[i]->server == card->server))
            return true;
    return false;
}

bool
sched_place_accepts(const struct sched_card *card, const struct sched_request *req)
{
    return (!req->has_uuid || !memcmp(card->facts.uuid, req->uuid, TICKET_UUID_SIZE)) &&
           (!req->server || !strcmp(card->server->name, req->server)) &&
           (!req->where ||
            (sched_where_card(req->where, &card->facts) &&
             sched_where_labels(req->where, card->server->labels) &&
             sched_where_reaches(req->where, &card->server->reach, true))) &&
           (!req->avoid || !avoided(card, req->avoid));
}

/* bucket != 0: the card may be given (sched_pool.c).  A whole card needs 100 free,
 * and a card with 100 free carries nobody, because every slice holds core. */
bool
sched_card_fits(const struct sched_card *card, const struct sched_request *req)
{
    return card->bucket && card->bucket >= sched_place_core(card, req) &&
           sched_card_shares(card, req->in_space) &&
           sched_card_free_memory(card) >= req->memory &&
           sched_place_accepts(card, req);
}

/* ------------------------------------------------------ one card, anywhere -- */

/* In one tree: by_fit of the pool or of a group. */
struct gp_tree_node *
sched_card_least_in(const struct gp_tree *tree, size_t at,
                    const struct sched_request *req)
{
    struct gp_tree_node *node = gp_tree_at_least(tree, req->memory, 0);

    while (node && !sched_card_fits((const void *)((const char *)node - at), req))
        node = gp_tree_next(tree, node); /* what the owner avoids, mostly */
    return node;
}

struct gp_tree_node *
sched_card_most_in(const struct gp_tree *tree, size_t at,
                   const struct sched_request *req)
{
    struct gp_tree_node *node = gp_tree_last(tree);

    while (node && node->key[0] >= req->memory &&
           !sched_card_fits((const void *)((const char *)node - at), req))
        node = gp_tree_prev(tree, node);
    return node && node->key[0] >= req->memory ? node : NULL;
}

/* The best card of one index with at least @lo and at most @hi free core, and its core.
 */
static struct gp_tree_node *
find_in(const struct gp_tree *by_fit, size_t at, const struct sched_request *req,
        unsigned lo, unsigned hi, unsigned *ret_core)
{
    bool spread = req->placement == SCHED_SPREAD;

    for (unsigned i = 0; i <= hi - lo; i++) {
        unsigned core = spread ? hi - i : lo + i;
        const struct gp_tree *tree = &by_fit[SCHED_FIT(req->in_space, core)];
        struct gp_tree_node *node;

        if (!tree->root)
            continue;
        node = spread ? sched_card_most_in(tree, at, req)
                      : sched_card_least_in(tree, at, req);
        *ret_core = core;
        if (node)
            return node;
    }
    return NULL;
}

bool
sched_group_accepts(const struct sched_group *group, const struct sched_request *req)
{
    return sched_where_card(req->where, &group->facts) &&
           sched_where_labels(req->where, group->labels) &&
           sched_where_reaches(req->where, &group->reach, false);
}

/* The best card of all groups that the request accepts. */
static struct sched_card *
find_grouped(const struct sched_pool *pool, const struct sched_request *req)
{
    const size_t at = offsetof(struct sched_card, by_group);
    bool spread = req->placement == SCHED_SPREAD;
    struct gp_tree_node *best = NULL;
    unsigned best_core = spread ? req->core : 100, core;

    for (unsigned i = 0; i < pool->n_groups; i++) {
        struct gp_tree_node *node;
        bool before;

        if (!sched_group_accepts(pool->groups[i], req))
            continue;
        node = find_in(pool->groups[i]->by_fit, at, req, spread ? best_core : req->core,
                       spread ? 100 : best_core, &core);
        if (!node)
            continue;
        before = !best || core < best_core ||
                 (core == best_core &&
                  (node->key[0] < best->key[0] ||
                   (node->key[0] == best->key[0] && node->key[1] < best->key[1])));
        if (best && before == spread)
            continue;
        best = node;
        best_core = core;
    }
    return best ? container_of(best, struct sched_card, by_group) : NULL;
}

static struct sched_card *
find_one(const struct sched_pool *pool, const struct sched_request *req)
{
    struct gp_tree_node *node;
    unsigned core;

    if (req->where && pool->n_groups > 1)
        return find_grouped(pool, req);
    node = find_in(pool->by_fit, offsetof(struct sched_card, by_fit), req, req->core,
                   100, &core);
    return card_of(node);
}

bool
sched_card_before(const struct sched_card *a, const struct sched_card *b,
                  const struct sched_request *req)
{
    uint64_t mem_a = sched_card_free_memory(a), mem_b = sched_card_free_memory(b);

    if (a->bucket != b->bucket)
        return (a->bucket < b->bucket) == (req->placement != SCHED_SPREAD);
    if (mem_a != mem_b)
        return (mem_a < mem_b) == (req->placement != SCHED_SPREAD);
    return a->facts.index < b->facts.index;
}

static unsigned
unused_in_island(const struct sched_card *card)
{
    const struct sched_server *server = card->server;
    unsigned n = 0;

    for (unsigned i = 0; card->island && i < server->n_cards; i++)
        n +=
            server->cards[i]->island == card->island && server->cards[i]->bucket == 100;
    return n;
}

/* Of the server's unused cards that are alike, of which the index has one: that of the
 * island with the fewest unused cards, so that islands stay whole for those who want
 * several cards (spread: with the most). */
struct sched_card *
sched_card_best_twin(struct sched_card *card, const struct sched_request *req)
{
    const struct sched_server *server = card->server;
    unsigned best = unused_in_island(card);

    for (unsigned i = 0; !card->slices && server->islands && i < server->n_cards; i++) {
        struct sched_card *other = server->cards[i];
        unsigned n;

        if (other->slices || other->group != card->group ||
            other->facts.memory != card->facts.memory || !sched_card_fits(other, req))
            continue;
        n = unused_in_island(other);
        if (req->placement == SCHED_SPREAD ? n > best : n < best) {
            best = n;
            card = other;
        }
    }
    return card;
}

int
sched_place_held(struct sched_card *const *cards, unsigned n,
                 const struct sched_request *req, struct sched_decision *ret)
{
    for (unsigned i = 0; i < n; i++) {
        const struct sched_card *card = cards[i];

        if (!sched_card_open(card) ||
            sched_card_free_core(card) < sched_place_core(card, req) ||
            sched_card_free_memory(card) < req->memory ||
            card->slices >= CTL_SLICES_PER_CARD_MAX ||
            !sched_card_shares(card, req->in_space) || !sched_place_accepts(card, req))
            return -ENOSPC;
    }
    ret->n_slices = 0;
    for (unsigned i = 0; i < n; i++)
        sched_decide(ret, req, cards[i]);
    return 0;
}

/* Servers are few on one host, and not in the index by it. */
static int
place_on_host(const struct sched_pool *pool, const struct sched_request *req,
              struct sched_decision *ret)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next)
        if (sched_where_reaches(req->where, &s->reach, true) &&
            !sched_several_on(s, req, ret))
            return 0;
    return -ENOSPC;
}

static int
place(const struct sched_pool *pool, const struct sched_request *req,
      struct sched_decision *ret)
{
    struct sched_card *card;

    if (req->has_uuid) {
        card = sched_pool_card_find(pool, req->uuid);
        return card ? sched_several_on(card->server, req, ret) : -ENOSPC;
    }
    if (req->server) {
        const struct sched_server *server = sched_pool_server_find(pool, req->server);

        return server ? sched_several_on(server, req, ret) : -ENOSPC;
    }
    if (req->where && req->where->over == SCHED_OVER_SHM)
        return place_on_host(pool, req, ret);
    if (req->placement == SCHED_FGD)
        return sched_fgd(pool, req, ret);
    if (req->cards > 1)
        return sched_several(pool, req, ret);
    card = find_one(pool, req);
    if (!card)
        return -ENOSPC;
    ret->n_slices = 0;
    sched_decide(ret, req, sched_card_best_twin(card, req));
    return 0;
}

/* What is preferred is wanted first, all of it, then without the last label, and so on:
 * each is a question to the index. */
static int
place_preferred(const struct sched_pool *pool, const struct sched_request *req,
                struct sched_decision *ret)
{
    size_t len = strlen(req->where->prefer);
    struct sched_request strict = *req;
    struct sched_where where;

    strict.where = &where;
    while (len) {
        len = sched_where_preferred(req->where, len, &where);
        if (place(pool, &strict, ret) == 0)
            return 0;
    }
    return -ENOSPC;
}

int
sched_place(const struct sched_pool *pool, const struct sched_request *req,
            struct sched_decision *ret)
{
    if (req->where && *req->where->prefer && place_preferred(pool, req, ret) == 0)
        return 0;
    return place(pool, req, ret);
}

/* -------------------------------------------------------------- to and fro -- */

static void
untake(struct sched_pool *pool, const struct sched_decision *decision, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sched_pool_untake(pool, decision->slices[i].card, decision->slices[i].core,
                          decision->slices[i].memory);
}

int
sched_decision_take(struct sched_pool *pool, const struct sched_decision *decision)
{
    for (uint32_t i = 0; i < decision->n_slices; i++) {
        const struct sched_slice *slice = &decision->slices[i];

        if (!sched_pool_take(pool, slice->card, slice->core, slice->memory,
                             slice->in_space))
            continue;
        untake(pool, decision, i);
        return -ENOSPC;
    }
    return 0;
}

void
sched_decision_untake(struct sched_pool *pool, const struct sched_decision *decision)
{
    untake(pool, decision, decision->n_slices);
}
