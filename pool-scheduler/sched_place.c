/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_place.h"

#include <errno.h>
#include <string.h>

static struct sched_card *
card_of(struct gp_tree_node *node)
{
    return node ? container_of(node, struct sched_card, by_fit) : NULL;
}

static void
decide(struct sched_decision *d, const struct sched_request *req,
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
           (!req->where || (sched_where_card(req->where, &card->facts) &&
                            sched_where_labels(req->where, card->server->labels))) &&
           (!req->avoid || !avoided(card, req->avoid));
}

/* bucket != 0: the card may be given (sched_pool.c).  A whole card needs 100 free,
 * and a card with 100 free carries nobody, because every slice holds core. */
static bool
card_fits(const struct sched_card *card, const struct sched_request *req)
{
    return card->bucket && card->bucket >= sched_place_core(card, req) &&
           sched_card_shares(card, req->in_space) &&
           sched_card_free_memory(card) >= req->memory &&
           sched_place_accepts(card, req);
}

/* ------------------------------------------------------ one card, anywhere -- */

/* In one tree: by_fit of the pool or of a group. */
static struct gp_tree_node *
least_in(const struct gp_tree *tree, size_t at, const struct sched_request *req)
{
    struct gp_tree_node *node = gp_tree_at_least(tree, req->memory, 0);

    while (node && !card_fits((const void *)((const char *)node - at), req))
        node = gp_tree_next(tree, node); /* what the owner avoids, mostly */
    return node;
}

static struct gp_tree_node *
most_in(const struct gp_tree *tree, size_t at, const struct sched_request *req)
{
    struct gp_tree_node *node = gp_tree_last(tree);

    while (node && node->key[0] >= req->memory &&
           !card_fits((const void *)((const char *)node - at), req))
        node = gp_tree_prev(tree, node);
    return node && node->key[0] >= req->memory ? node : NULL;
}

/* The best card of one index, and the free core that it was found under. */
static struct gp_tree_node *
find_in(const struct gp_tree *by_fit, size_t at, const struct sched_request *req,
        unsigned *ret_core)
{
    bool spread = req->placement == SCHED_SPREAD;

    for (unsigned i = 0; i <= 100 - req->core; i++) {
        unsigned core = spread ? 100 - i : req->core + i;
        const struct gp_tree *tree = &by_fit[SCHED_FIT(req->in_space, core)];
        struct gp_tree_node *node;

        if (!tree->root)
            continue;
        node = spread ? most_in(tree, at, req) : least_in(tree, at, req);
        *ret_core = core;
        if (node)
            return node;
    }
    return NULL;
}

static bool
group_accepts(const struct sched_group *group, const struct sched_request *req)
{
    return sched_where_card(req->where, &group->facts) &&
           sched_where_labels(req->where, group->labels);
}

/* The best card of all groups that the request accepts. */
static struct sched_card *
find_grouped(const struct sched_pool *pool, const struct sched_request *req)
{
    const size_t at = offsetof(struct sched_card, by_group);
    bool spread = req->placement == SCHED_SPREAD;
    struct gp_tree_node *best = NULL;
    unsigned best_core = 0, core;

    for (unsigned i = 0; i < pool->n_groups; i++) {
        struct gp_tree_node *node;
        bool before;

        if (!group_accepts(pool->groups[i], req))
            continue;
        node = find_in(pool->groups[i]->by_fit, at, req, &core);
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
    node = find_in(pool->by_fit, offsetof(struct sched_card, by_fit), req, &core);
    return card_of(node);
}

/* ------------------------------------------------- cards of a given server -- */

/* Is @a the better choice?  The order of the index, within one server. */
static bool
card_before(const struct sched_card *a, const struct sched_card *b,
            const struct sched_request *req)
{
    uint64_t mem_a = sched_card_free_memory(a), mem_b = sched_card_free_memory(b);

    if (a->bucket != b->bucket)
        return (a->bucket < b->bucket) == (req->placement == SCHED_BINPACK);
    if (mem_a != mem_b)
        return (mem_a < mem_b) == (req->placement == SCHED_BINPACK);
    return a->facts.index < b->facts.index;
}

/* The best req->cards cards of @server, best first. */
static int
place_on_server(const struct sched_server *server, const struct sched_request *req,
                struct sched_decision *ret)
{
    struct sched_card *best[TICKET_SLICES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *card = server->cards[i];
        unsigned at;

        if (!card_fits(card, req))
            continue;
        if (n == req->cards && !card_before(card, best[n - 1], req))
            continue;
        for (at = n == req->cards ? n - 1 : n;
             at && card_before(card, best[at - 1], req); at--)
            best[at] = best[at - 1];
        best[at] = card;
        if (n < req->cards)
            n++;
    }
    if (n < req->cards)
        return -ENOSPC;
    ret->n_slices = 0;
    for (unsigned i = 0; i < n; i++)
        decide(ret, req, best[i]);
    return 0;
}

/* The servers of one list, whose links are @at in them: recently changed ones are at
 * its head. */
static int
place_in_list(const struct sched_link *head, size_t at, const struct sched_request *req,
              struct sched_decision *ret)
{
    bool spread = req->placement == SCHED_SPREAD;

    for (const struct sched_link *link = spread ? head->prev : head->next; link != head;
         link = spread ? link->prev : link->next) {
        const struct sched_server *server;

        server = (const void *)((const char *)link - at);
        if (!place_on_server(server, req, ret))
            return 0;
    }
    return -ENOSPC;
}

/* The servers of all groups that the request accepts, with so much free core. */
static int
place_in_groups(const struct sched_pool *pool, unsigned core,
                const struct sched_request *req, struct sched_decision *ret)
{
    unsigned n = req->cards - 1;
    size_t at = offsetof(struct sched_server, nth) + n * sizeof(struct sched_nth) +
                offsetof(struct sched_nth, group_link);

    for (unsigned i = 0; i < pool->n_groups; i++) {
        const struct sched_link *head = &pool->groups[i]->by_nth[n][core];

        if (head->next != head && group_accepts(pool->groups[i], req) &&
            !place_in_list(head, at, req, ret))
            return 0;
    }
    return place_in_list(&pool->mixed_by_nth[n][core], at, req, ret);
}

static int
place_several(const struct sched_pool *pool, const struct sched_request *req,
              struct sched_decision *ret)
{
    unsigned n = req->cards - 1;
    size_t at = offsetof(struct sched_server, nth) + n * sizeof(struct sched_nth) +
                offsetof(struct sched_nth, link);

    for (unsigned i = 0; i <= 100 - req->core; i++) {
        unsigned core = req->placement == SCHED_SPREAD ? 100 - i : req->core + i;
        bool grouped = req->where && pool->n_groups > 1;
        int r = grouped ? place_in_groups(pool, core, req, ret)
                        : place_in_list(&pool->by_nth[n][core], at, req, ret);

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

/* @part->cards cards of one more server. */
static int
place_part(const struct sched_pool *pool, const struct sched_request *part,
           struct sched_decision *ret)
{
    size_t at = offsetof(struct sched_server, nth[part->cards - 1].link);
    struct sched_decision some;

    for (unsigned core = 100; core >= part->core; core--) {
        const struct sched_link *head = &pool->by_nth[part->cards - 1][core];

        for (const struct sched_link *link = head->next; link != head;
             link = link->next) {
            const struct sched_server *server = (const void *)((const char *)link - at);

            if (decided_on(ret, server) || place_on_server(server, part, &some) < 0)
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
place_across(const struct sched_pool *pool, const struct sched_request *req,
             struct sched_decision *ret)
{
    struct sched_request part = *req;

    ret->n_slices = 0;
    part.cards = req->cards - 1; /* no server has all */
    while (part.cards && ret->n_slices < req->cards) {
        part.cards = gp_min(part.cards, req->cards - ret->n_slices);
        if (place_part(pool, &part, ret) < 0)
            part.cards--;
    }
    return ret->n_slices == req->cards ? 0 : -ENOSPC;
}

int
sched_place_on(const struct sched_server *server, const struct sched_request *req,
               struct sched_decision *ret)
{
    return place_on_server(server, req, ret);
}

int
sched_place_held(struct sched_card *const *cards, unsigned n,
                 const struct sched_request *req, struct sched_decision *ret)
{
    for (unsigned i = 0; i < n; i++) {
        const struct sched_card *card = cards[i];

        if (!card->present || !sched_server_open(card->server) ||
            sched_card_free_core(card) < sched_place_core(card, req) ||
            sched_card_free_memory(card) < req->memory ||
            card->slices >= CTL_SLICES_PER_CARD_MAX ||
            !sched_card_shares(card, req->in_space) || !sched_place_accepts(card, req))
            return -ENOSPC;
    }
    ret->n_slices = 0;
    for (unsigned i = 0; i < n; i++)
        decide(ret, req, cards[i]);
    return 0;
}

int
sched_place(const struct sched_pool *pool, const struct sched_request *req,
            struct sched_decision *ret)
{
    struct sched_card *card;

    if (req->has_uuid) {
        card = sched_pool_card_find(pool, req->uuid);
        return card ? place_on_server(card->server, req, ret) : -ENOSPC;
    }
    if (req->server) {
        const struct sched_server *server = sched_pool_server_find(pool, req->server);

        return server ? place_on_server(server, req, ret) : -ENOSPC;
    }
    if (req->cards > 1) {
        int r = place_several(pool, req, ret);

        return r < 0 && req->span ? place_across(pool, req, ret) : r;
    }
    card = find_one(pool, req);
    if (!card)
        return -ENOSPC;
    ret->n_slices = 0;
    decide(ret, req, card);
    return 0;
}
