/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_index.h"

#include "gp_str.h"

#include <errno.h>
#include <string.h>

void
sched_index_lists(struct sched_lists *lists)
{
    for (unsigned n = 0; n < TICKET_SLICES_MAX; n++)
        for (unsigned core = 0; core <= 100; core++) {
            struct sched_link *head = &lists->of[n][core];

            head->prev = head->next = head;
        }
}

/* ------------------------------------------------------------------ index -- */

bool
sched_server_open(const struct sched_server *server)
{
    return server->alive && !server->drain_asked && !server->drain_self &&
           !server->unclean;
}

static bool
card_givable(const struct sched_card *card)
{
    return sched_card_open(card) && !card->hold && card->core_given < 100 &&
           card->slices < CTL_SLICES_PER_CARD_MAX;
}

static struct gp_tree *
card_tree(struct sched_pool *pool, const struct sched_card *card)
{
    return &pool->by_fit[SCHED_FIT(card->in_space, card->bucket)];
}

/* A card that is not among its freest changes nothing in the lists. */
static void
fabric_count(struct sched_fabric *fabric, unsigned core, int by)
{
    fabric->cards[core] += (uint32_t)by;
    fabric->changed |= core >= fabric->unit.nth[TICKET_SLICES_MAX - 1].core;
}

void
sched_index_drop(struct sched_pool *pool, struct sched_card *card)
{
    if (card->in_tree)
        gp_tree_remove(card_tree(pool, card), &card->by_fit);
    if (card->in_group)
        gp_tree_remove(&card->group->by_fit[SCHED_FIT(card->in_space, card->bucket)],
                       &card->by_group);
    if (card->bucket && card->server->fabric)
        fabric_count(card->server->fabric, card->bucket, -1);
    card->bucket = 0;
    card->in_tree = card->in_group = false;
}

/* Is an unused card like @card, which is unused, in the trees already? */
static bool
has_twin(const struct sched_card *card)
{
    const struct sched_server *server = card->server;

    for (unsigned i = 0; i < server->n_cards && server->cards[i] != card; i++) {
        const struct sched_card *other = server->cards[i];

        if (other->in_tree && !other->slices && other->group == card->group &&
            other->facts.memory == card->facts.memory)
            return true;
    }
    return false;
}

/* Only unused cards, which are alike in large numbers, are told apart by their server:
 * so a change of a card moves few others. */
void
sched_index_card(struct sched_pool *pool, struct sched_card *card)
{
    uint64_t low = card->slices ? 0 : (uint64_t)card->server->free_core << 32;

    if (!card_givable(card))
        return;
    card->bucket = sched_card_free_core(card);
    if (card->server->fabric)
        fabric_count(card->server->fabric, card->bucket, 1);
    if (!card->slices && has_twin(card))
        return;
    card->in_tree = true;
    gp_tree_insert(card_tree(pool, card), &card->by_fit, sched_card_free_memory(card),
                   low | card->serial);
    if (pool->n_groups < 2)
        return; /* the pool's own index is that of the group */
    card->in_group = true;
    gp_tree_insert(&card->group->by_fit[SCHED_FIT(card->in_space, card->bucket)],
                   &card->by_group, sched_card_free_memory(card), low | card->serial);
}

static void
link_out(struct sched_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

static void
link_in(struct sched_link *head, struct sched_link *link)
{
    link->next = head->next;
    link->prev = head;
    head->next->prev = link;
    head->next = link;
}

static void
nth_out(struct sched_nth *nth)
{
    if (nth->core)
        link_out(&nth->link);
    if (nth->grouped)
        link_out(&nth->group_link);
    if (nth->in_fabric)
        link_out(&nth->fabric_link);
    nth->core = 0;
    nth->grouped = nth->in_fabric = false;
}

/* @fabric: of a server that is in one. */
static void
nth_set(struct sched_pool *pool, enum sched_level level, struct sched_unit *unit,
        struct sched_fabric *fabric, unsigned n, unsigned core)
{
    struct sched_nth *nth = &unit->nth[n];

    if (nth->core == core)
        return;
    nth_out(nth);
    nth->core = core;
    if (!core)
        return;
    link_in(&pool->lists[level].of[n][core], &nth->link);
    if (fabric) {
        link_in(&fabric->servers.of[n][core], &nth->fabric_link);
        nth->in_fabric = true;
    }
    if (level == SCHED_FABRICS || pool->n_groups < 2)
        return; /* the pool's own lists are those of the group */
    link_in(unit->group ? &unit->group->lists[level].of[n][core]
                        : &pool->mixed[level].of[n][core],
            &nth->group_link);
    nth->grouped = true;
}

static void
unit_out(struct sched_unit *unit)
{
    for (unsigned n = 0; n < TICKET_SLICES_MAX; n++)
        nth_out(&unit->nth[n]);
}

/* File a unit under the free core of its freest card, of its second, and so on: the
 * cards of @server, or those of its @island. */
static void
unit_index(struct sched_pool *pool, struct sched_server *server,
           struct sched_island *island)
{
    unsigned best[TICKET_SLICES_MAX] = {0}, n = 0;
    enum sched_level level = island ? SCHED_ISLANDS : SCHED_SERVERS;
    struct sched_unit *unit = island ? &island->unit : &server->unit;

    for (unsigned i = 0; i < server->n_cards; i++) {
        unsigned core = server->cards[i]->bucket, at;

        if (!core || (island && server->cards[i]->island != island) ||
            (n == TICKET_SLICES_MAX && core <= best[n - 1]))
            continue;
        n = gp_min(n + 1, (unsigned)TICKET_SLICES_MAX);
        for (at = n - 1; at && best[at - 1] < core; at--)
            best[at] = best[at - 1];
        best[at] = core;
    }
    /* They fall: behind a unit's last card nothing is, or was. */
    for (unsigned i = 0; i < TICKET_SLICES_MAX && (best[i] || unit->nth[i].core); i++)
        nth_set(pool, level, unit, island ? NULL : server->fabric, i, best[i]);
}

static void
sched_index_fabric(struct sched_pool *pool, struct sched_fabric *fabric)
{
    unsigned n = 0;

    if (!fabric->changed)
        return;
    fabric->changed = false;
    for (unsigned core = 100; core && n < TICKET_SLICES_MAX; core--)
        for (uint32_t k = fabric->cards[core]; k && n < TICKET_SLICES_MAX; k--)
            nth_set(pool, SCHED_FABRICS, &fabric->unit, NULL, n++, core);
    while (n < TICKET_SLICES_MAX && fabric->unit.nth[n].core)
        nth_set(pool, SCHED_FABRICS, &fabric->unit, NULL, n++, 0);
}

/* Cards of @server have changed: of all its islands, or (not NULL) of one. */
void
sched_index_server(struct sched_pool *pool, struct sched_server *server,
                   struct sched_island *only)
{
    unit_index(pool, server, NULL);
    for (struct sched_island *at = server->islands; at; at = at->next)
        if (!only || at == only)
            unit_index(pool, server, at);
    if (server->fabric)
        sched_index_fabric(pool, server->fabric);
}

/* It is in no list until it is indexed again. */
static void
sched_index_out(struct sched_server *server)
{
    unit_out(&server->unit);
    for (struct sched_island *at = server->islands; at; at = at->next)
        unit_out(&at->unit);
}

uint32_t
sched_index_free_core(const struct sched_server *server)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < server->n_cards; i++)
        if (card_givable(server->cards[i]))
            sum += sched_card_free_core(server->cards[i]);
    return sum;
}

/* What was given of @card has changed, nothing else has. */
void
sched_index_changed(struct sched_pool *pool, struct sched_card *card)
{
    struct sched_server *server = card->server;

    server->free_core = sched_index_free_core(server);
    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *other = server->cards[i];

        if (other != card && other->bucket != 100)
            continue;
        sched_index_drop(pool, other);
        sched_index_card(pool, other);
    }
    sched_index_server(pool, server, card->island);
}

/* ----------------------------------------------------------------- groups -- */

static bool
group_is_of(const struct sched_group *group, const struct sched_card *card)
{
    const struct sched_card_facts *a = &group->facts, *b = &card->facts;

    return a->cc_major == b->cc_major && a->cc_minor == b->cc_minor &&
           !strcmp(a->name, b->name) && !strcmp(group->labels, card->server->labels) &&
           group->reach.zone == card->server->reach.zone &&
           group->reach.rdma == card->server->reach.rdma;
}

static void
mark_used(struct sched_group *group)
{
    if (group)
        group->used = true;
}

/* A group that nothing is of: no card, present or absent, and no unit, which may still
 * name the group of cards that it had.  So its trees and lists are empty.  Passes over
 * all cards.  NULL: there is none. */
static struct sched_group *
group_unused(struct sched_pool *pool)
{
    for (unsigned i = 0; i < pool->n_groups; i++)
        pool->groups[i]->used = false;
    for (struct sched_server *server = pool->servers; server; server = server->next) {
        mark_used(server->unit.group);
        for (struct sched_island *at = server->islands; at; at = at->next)
            mark_used(at->unit.group);
        for (unsigned i = 0; i < server->n_cards; i++)
            mark_used(server->cards[i]->group);
    }
    for (unsigned i = 0; i < pool->n_groups; i++)
        if (!pool->groups[i]->used)
            return pool->groups[i];
    return NULL;
}

static int
group_new(struct sched_pool *pool, struct sched_group **ret)
{
    struct sched_group **more =
        realloc(pool->groups, (pool->n_groups + 1) * sizeof(struct sched_group *));

    if (!more)
        return -ENOMEM;
    pool->groups = more;
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    pool->groups[pool->n_groups++] = *ret;
    return 0;
}

static int
group_add(struct sched_pool *pool, const struct sched_card *card,
          struct sched_group **ret)
{
    struct sched_group *group;

    if (pool->n_groups >= SCHED_GROUPS_MAX) {
        group = group_unused(pool);
        if (!group)
            return -ENOSPC;
        memset(group, 0, sizeof(*group));
    } else {
        int r = group_new(pool, &group);

        if (r < 0)
            return r;
    }
    pool->groups_made++;
    gp_str_copy(group->labels, sizeof(group->labels), card->server->labels);
    group->facts = card->facts;
    group->reach.zone = card->server->reach.zone;
    group->reach.rdma = card->server->reach.rdma;
    for (unsigned level = 0; level < SCHED_FABRICS; level++)
        sched_index_lists(&group->lists[level]);
    *ret = group;
    return 0;
}

/* The second group makes an index of each group worth its price. */
static void
index_groups(struct sched_pool *pool)
{
    for (struct sched_server *server = pool->servers; server; server = server->next) {
        for (unsigned i = 0; i < server->n_cards; i++)
            if (server->cards[i]->bucket) {
                sched_index_drop(pool, server->cards[i]);
                sched_index_card(pool, server->cards[i]);
            }
        sched_index_out(server);
        sched_index_server(pool, server, NULL);
    }
}

/* The group of a card that is not in the index. */
int
sched_index_group(struct sched_pool *pool, struct sched_card *card)
{
    int r;

    if (card->group && group_is_of(card->group, card))
        return 0;
    for (unsigned i = 0; i < pool->n_groups; i++)
        if (group_is_of(pool->groups[i], card)) {
            card->group = pool->groups[i];
            return 0;
        }
    r = group_add(pool, card, &card->group);
    if (!r && pool->groups_made == 2)
        index_groups(pool);
    return r;
}

/* The group of all cards of @server, or of its @island; NULL: they are of several. */
static struct sched_group *
group_of_all(const struct sched_server *server, const struct sched_island *island)
{
    struct sched_group *group = NULL;

    for (unsigned i = 0; i < server->n_cards; i++) {
        if (island && server->cards[i]->island != island)
            continue;
        if (group && server->cards[i]->group != group)
            return NULL;
        group = server->cards[i]->group;
    }
    return group;
}

/* After a card of @server was put into a group: the lists that the server is in. */
void
sched_index_regroup(struct sched_pool *pool, struct sched_server *server)
{
    struct sched_group *group = group_of_all(server, NULL);
    bool changed = group != server->unit.group;

    server->unit.group = group;
    for (struct sched_island *at = server->islands; at; at = at->next) {
        group = group_of_all(server, at);
        changed |= group != at->unit.group;
        at->unit.group = group;
    }
    if (!changed)
        return;
    sched_index_out(server);
    sched_index_server(pool, server, NULL);
}

/* --------------------------------------------------------------- topology -- */

void
sched_index_leave_island(struct sched_pool *pool, struct sched_card *card)
{
    struct sched_island **at = &card->server->islands, *island = card->island;

    card->island = NULL;
    if (!island || --island->n_cards)
        return;
    while (*at != island)
        at = &(*at)->next;
    *at = island->next;
    unit_out(&island->unit);
    pool->n_islands--;
    free(island);
}

static int
island_join(struct sched_pool *pool, struct sched_card *card, uint32_t number)
{
    struct sched_server *server = card->server;
    struct sched_island *island = server->islands;

    while (island && island->number != number)
        island = island->next;
    if (!island) {
        island = calloc(1, sizeof(*island));
        if (!island)
            return -ENOMEM;
        island->number = number;
        island->server = server;
        island->next = server->islands;
        server->islands = island;
        pool->n_islands++;
    }
    island->n_cards++;
    card->island = island;
    return 0;
}

/* The card is in no tree; its server is indexed afterwards. */
int
sched_index_island(struct sched_pool *pool, struct sched_card *card, uint32_t number)
{
    if (number == (card->island ? card->island->number : 0))
        return 0;
    sched_index_leave_island(pool, card);
    return number ? island_join(pool, card, number) : 0;
}

int
sched_pool_set_island(struct sched_pool *pool, struct sched_card *card, uint32_t number)
{
    int r;

    if (number == (card->island ? card->island->number : 0))
        return 0;
    sched_index_drop(pool, card);
    card->facts.island = number;
    r = sched_index_island(pool, card, number);
    sched_pool_server_update(pool, card->server);
    sched_index_regroup(pool, card->server);
    return r;
}

static struct sched_fabric *
fabric_find(struct sched_pool *pool, const char *name)
{
    struct sched_fabric *fabric = pool->fabrics;

    while (fabric && strcmp(fabric->name, name) != 0)
        fabric = fabric->next;
    if (fabric || pool->n_fabrics >= SCHED_FABRICS_MAX)
        return fabric;
    fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return NULL;
    gp_str_copy(fabric->name, sizeof(fabric->name), name);
    sched_index_lists(&fabric->servers);
    fabric->next = pool->fabrics;
    pool->fabrics = fabric;
    pool->n_fabrics++;
    return fabric;
}

/* In no fabric, with none of its cards in an index. */
void
sched_index_leave_fabric(struct sched_pool *pool, struct sched_server *server)
{
    struct sched_fabric *fabric = server->fabric;

    sched_index_out(server);
    for (unsigned i = 0; i < server->n_cards; i++)
        sched_index_drop(pool, server->cards[i]);
    server->fabric = NULL;
    if (!fabric)
        return;
    fabric->n_servers--;
    sched_index_fabric(pool, fabric);
}

int
sched_pool_set_fabric(struct sched_pool *pool, struct sched_server *server,
                      const char *name)
{
    if (!strcmp(server->fabric ? server->fabric->name : "", name))
        return 0;
    sched_index_leave_fabric(pool, server);
    if (*name)
        server->fabric = fabric_find(pool, name);
    if (server->fabric)
        server->fabric->n_servers++;
    sched_pool_server_update(pool, server);
    return *name && !server->fabric ? -ENOSPC : 0;
}

/* What tells groups apart has changed. */
static int
find_groups(struct sched_pool *pool, struct sched_server *server)
{
    int r = 0;

    for (unsigned i = 0; !r && i < server->n_cards; i++) {
        sched_index_drop(pool, server->cards[i]);
        r = sched_index_group(pool, server->cards[i]);
    }
    sched_pool_server_update(pool, server);
    sched_index_regroup(pool, server);
    return r;
}

int
sched_pool_set_labels(struct sched_pool *pool, struct sched_server *server,
                      const char *labels)
{
    if (!strcmp(server->labels, labels))
        return 0;
    gp_str_copy(server->labels, sizeof(server->labels), labels);
    return find_groups(pool, server);
}

int
sched_pool_set_reach(struct sched_pool *pool, struct sched_server *server,
                     const struct sched_reach *reach)
{
    bool same = server->reach.zone == reach->zone && server->reach.rdma == reach->rdma;

    server->reach = *reach;
    return same ? 0 : find_groups(pool, server);
}

void
sched_pool_set_tflops(struct sched_pool *pool, struct sched_card *card, uint32_t tflops)
{
    card->facts.tflops = tflops;
    if (card->group)
        card->group->facts.tflops = tflops;
    pool->most_tflops = gp_max(pool->most_tflops, tflops);
}
