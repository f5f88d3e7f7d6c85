/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_pool.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_str.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static void
lists_init(struct sched_link lists[TICKET_SLICES_MAX][101])
{
    for (unsigned n = 0; n < TICKET_SLICES_MAX; n++)
        for (unsigned core = 0; core <= 100; core++) {
            struct sched_link *head = &lists[n][core];

            head->prev = head->next = head;
        }
}

struct sched_pool *
sched_pool_new(void)
{
    struct sched_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return NULL;
    pool->servers_tail = &pool->servers;
    lists_init(pool->by_nth);
    lists_init(pool->mixed_by_nth);
    return pool;
}

void
sched_pool_free(struct sched_pool *pool)
{
    struct sched_server *server, *next;

    if (!pool)
        return;
    for (server = pool->servers; server; server = next) {
        next = server->next;
        for (unsigned i = 0; i < server->n_cards; i++)
            free(server->cards[i]);
        free(server);
    }
    for (unsigned i = 0; i < pool->n_groups; i++)
        free(pool->groups[i]);
    free(pool->groups);
    free(pool);
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
    return card->present && !card->hold && sched_server_open(card->server) &&
           card->core_given < 100 && card->slices < CTL_SLICES_PER_CARD_MAX;
}

static struct gp_tree *
card_tree(struct sched_pool *pool, const struct sched_card *card)
{
    return &pool->by_fit[SCHED_FIT(card->in_space, card->bucket)];
}

static void
card_unindex(struct sched_pool *pool, struct sched_card *card)
{
    if (card->in_tree)
        gp_tree_remove(card_tree(pool, card), &card->by_fit);
    if (card->in_group)
        gp_tree_remove(&card->group->by_fit[SCHED_FIT(card->in_space, card->bucket)],
                       &card->by_group);
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
static void
card_index(struct sched_pool *pool, struct sched_card *card)
{
    uint64_t low = card->slices ? 0 : (uint64_t)card->server->free_core << 32;

    if (!card_givable(card))
        return;
    card->bucket = sched_card_free_core(card);
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
freed_add(struct sched_pool *pool, struct sched_card *card)
{
    bool first = !pool->freed;

    if (card->freed_next)
        return;
    card->freed_next = card; /* the last one */
    if (first)
        pool->freed = card;
    else
        pool->freed_last->freed_next = card;
    pool->freed_last = card;
    if (first && pool->on_freed)
        pool->on_freed(pool->on_freed_arg);
}

struct sched_card *
sched_pool_freed(struct sched_pool *pool)
{
    struct sched_card *card = pool->freed;

    if (!card)
        return NULL;
    pool->freed = card->freed_next == card ? NULL : card->freed_next;
    card->freed_next = NULL;
    return card;
}

/* Only for a card that is about to be forgotten: the list has no way back. */
static void
freed_drop(struct sched_pool *pool, struct sched_card *card)
{
    struct sched_card *list = pool->freed, *next;

    if (!card->freed_next)
        return;
    pool->freed = NULL;
    for (; list; list = next) {
        next = list->freed_next == list ? NULL : list->freed_next;
        list->freed_next = NULL;
        if (list != card)
            freed_add(pool, list);
    }
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
nth_set(struct sched_pool *pool, struct sched_server *server, unsigned n, unsigned core)
{
    struct sched_nth *nth = &server->nth[n];

    if (nth->core == core)
        return;
    if (nth->core)
        link_out(&nth->link);
    if (nth->grouped)
        link_out(&nth->group_link);
    nth->core = core;
    nth->grouped = core && pool->n_groups > 1;
    if (!core)
        return;
    link_in(&pool->by_nth[n][core], &nth->link);
    if (!nth->grouped)
        return; /* the pool's own lists are those of the group */
    link_in(server->group ? &server->group->by_nth[n][core]
                          : &pool->mixed_by_nth[n][core],
            &nth->group_link);
}

/* File the server under the free core of its freest card, of its second, and so on. */
static void
server_index(struct sched_pool *pool, struct sched_server *server)
{
    unsigned best[TICKET_SLICES_MAX] = {0}, n = 0;

    for (unsigned i = 0; i < server->n_cards; i++) {
        unsigned core = server->cards[i]->bucket, at;

        if (!core || (n == TICKET_SLICES_MAX && core <= best[n - 1]))
            continue;
        n = gp_min(n + 1, (unsigned)TICKET_SLICES_MAX);
        for (at = n - 1; at && best[at - 1] < core; at--)
            best[at] = best[at - 1];
        best[at] = core;
    }
    for (unsigned i = 0; i < TICKET_SLICES_MAX; i++)
        nth_set(pool, server, i, best[i]);
}

static uint32_t
server_free_core(const struct sched_server *server)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < server->n_cards; i++)
        if (card_givable(server->cards[i]))
            sum += sched_card_free_core(server->cards[i]);
    return sum;
}

void
sched_pool_server_update(struct sched_pool *pool, struct sched_server *server)
{
    server->free_core = server_free_core(server);
    for (unsigned i = 0; i < server->n_cards; i++) {
        card_unindex(pool, server->cards[i]);
        card_index(pool, server->cards[i]);
        if (server->cards[i]->bucket || server->cards[i]->hold)
            freed_add(pool, server->cards[i]);
    }
    server_index(pool, server);
}

/* What was given of @card has changed, nothing else has. */
static void
card_changed(struct sched_pool *pool, struct sched_card *card)
{
    struct sched_server *server = card->server;

    server->free_core = server_free_core(server);
    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *other = server->cards[i];

        if (other != card && other->bucket != 100)
            continue;
        card_unindex(pool, other);
        card_index(pool, other);
    }
    server_index(pool, server);
}

/* ----------------------------------------------------------------- groups -- */

static bool
group_is_of(const struct sched_group *group, const struct sched_card *card)
{
    const struct sched_card_facts *a = &group->facts, *b = &card->facts;

    return a->cc_major == b->cc_major && a->cc_minor == b->cc_minor &&
           !strcmp(a->name, b->name) && !strcmp(group->labels, card->server->labels);
}

static int
group_add(struct sched_pool *pool, const struct sched_card *card,
          struct sched_group **ret)
{
    struct sched_group *group, **more;

    if (pool->n_groups >= SCHED_GROUPS_MAX)
        return -ENOSPC;
    more = realloc(pool->groups, (pool->n_groups + 1) * sizeof(struct sched_group *));
    if (!more)
        return -ENOMEM;
    pool->groups = more;
    group = calloc(1, sizeof(*group));
    if (!group)
        return -ENOMEM;
    gp_str_copy(group->labels, sizeof(group->labels), card->server->labels);
    group->facts = card->facts;
    lists_init(group->by_nth);
    pool->groups[pool->n_groups++] = group;
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
                card_unindex(pool, server->cards[i]);
                card_index(pool, server->cards[i]);
            }
        for (unsigned n = 0; n < TICKET_SLICES_MAX; n++)
            nth_set(pool, server, n, 0);
        server_index(pool, server);
    }
}

/* The group of a card that is not in the index. */
static int
group_find(struct sched_pool *pool, struct sched_card *card)
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
    if (!r && pool->n_groups == 2)
        index_groups(pool);
    return r;
}

/* After a card of @server was put into a group: the lists that the server is in. */
static void
server_regroup(struct sched_pool *pool, struct sched_server *server)
{
    struct sched_group *group = server->n_cards ? server->cards[0]->group : NULL;

    for (unsigned i = 1; i < server->n_cards; i++)
        if (server->cards[i]->group != group)
            group = NULL;
    if (group == server->group)
        return;
    for (unsigned n = 0; n < TICKET_SLICES_MAX; n++)
        nth_set(pool, server, n, 0);
    server->group = group;
    server_index(pool, server);
}

int
sched_pool_set_labels(struct sched_pool *pool, struct sched_server *server,
                      const char *labels)
{
    int r = 0;

    if (!strcmp(server->labels, labels))
        return 0;
    gp_str_copy(server->labels, sizeof(server->labels), labels);
    for (unsigned i = 0; !r && i < server->n_cards; i++) {
        card_unindex(pool, server->cards[i]);
        r = group_find(pool, server->cards[i]);
    }
    sched_pool_server_update(pool, server);
    server_regroup(pool, server);
    return r;
}

void
sched_pool_set_tflops(struct sched_pool *pool, struct sched_card *card, uint32_t tflops)
{
    card->facts.tflops = tflops;
    if (card->group)
        card->group->facts.tflops = tflops;
    pool->most_tflops = gp_max(pool->most_tflops, tflops);
}

/* ---------------------------------------------------------------- servers -- */

/* Two keyed hashes make 128 bits: names do not collide, whoever chooses them. */
static void
name_key(const char *name, uint64_t key[2])
{
    const struct gp_hash_key *k = gp_hash_process_key();
    struct gp_hash_key other = {.k = {k->k[1], ~k->k[0]}};

    key[0] = gp_hash_bytes(k, name, strlen(name));
    key[1] = gp_hash_bytes(&other, name, strlen(name));
}

struct sched_server *
sched_pool_server_find(const struct sched_pool *pool, const char *name)
{
    struct gp_tree_node *node;
    uint64_t key[2];

    name_key(name, key);
    node = gp_tree_find(&pool->by_name, key[0], key[1]);
    return node ? container_of(node, struct sched_server, by_name) : NULL;
}

int
sched_pool_server_add(struct sched_pool *pool, const char *name,
                      struct sched_server **ret_server, struct gp_err *err)
{
    struct sched_server *server;
    uint64_t key[2];

    if (pool->n_servers >= SCHED_SERVERS_MAX)
        return gp_err_set(err, -ENOSPC, "the scheduler is at its cap of %d servers",
                          SCHED_SERVERS_MAX);
    server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    gp_str_copy(server->name, sizeof(server->name), name);
    name_key(server->name, key);
    gp_tree_insert(&pool->by_name, &server->by_name, key[0], key[1]);
    server->serial = pool->next_serial++;
    *pool->servers_tail = server;
    pool->servers_tail = &server->next;
    pool->n_servers++;
    *ret_server = server;
    return 0;
}

static bool
server_in_use(const struct sched_server *server)
{
    if (server->alive || server->conn)
        return true;
    for (unsigned i = 0; i < server->n_cards; i++)
        if (server->cards[i]->slices || server->cards[i]->hold)
            return true;
    return false;
}

int
sched_pool_server_remove(struct sched_pool *pool, struct sched_server *server)
{
    struct sched_server **at = &pool->servers;

    if (server_in_use(server))
        return -EBUSY;
    sched_pool_server_update(pool, server); /* nothing of it is in the index now */
    while (*at != server)
        at = &(*at)->next;
    *at = server->next;
    if (!server->next)
        pool->servers_tail = at;
    for (unsigned i = 0; i < server->n_cards; i++) {
        gp_tree_remove(&pool->by_uuid, &server->cards[i]->by_uuid);
        freed_drop(pool, server->cards[i]);
        sched_pool_used(pool, server->cards[i], 0, 0);
        pool->core -= 100;
        pool->memory -= server->cards[i]->facts.memory;
        free(server->cards[i]);
    }
    pool->n_cards -= server->n_cards;
    pool->n_servers--;
    gp_tree_remove(&pool->by_name, &server->by_name);
    free(server);
    return 0;
}

/* ------------------------------------------------------------------ cards -- */

static void
uuid_key(const uint8_t uuid[TICKET_UUID_SIZE], uint64_t key[2])
{
    memcpy(key, uuid, TICKET_UUID_SIZE);
}

struct sched_card *
sched_pool_card_find(const struct sched_pool *pool,
                     const uint8_t uuid[TICKET_UUID_SIZE])
{
    struct gp_tree_node *node;
    uint64_t key[2];

    uuid_key(uuid, key);
    node = gp_tree_find(&pool->by_uuid, key[0], key[1]);
    return node ? container_of(node, struct sched_card, by_uuid) : NULL;
}

/* Make room in a server's table: the first card that is gone and holds nothing. */
static void
card_forget_one(struct sched_pool *pool, struct sched_server *server)
{
    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *card = server->cards[i];

        if (card->present || card->slices || card->hold)
            continue;
        card_unindex(pool, card);
        freed_drop(pool, card);
        gp_tree_remove(&pool->by_uuid, &card->by_uuid);
        memmove(&server->cards[i], &server->cards[i + 1],
                (server->n_cards - i - 1) * sizeof(server->cards[0]));
        server->n_cards--;
        pool->n_cards--;
        sched_pool_used(pool, card, 0, 0);
        pool->core -= 100;
        pool->memory -= card->facts.memory;
        free(card);
        return;
    }
}

static int
card_add(struct sched_pool *pool, struct sched_server *server,
         const struct sched_card_facts *facts, struct sched_card **ret_card,
         struct gp_err *err)
{
    struct sched_card *card;
    uint64_t key[2];

    if (server->n_cards == CTL_SERVER_CARDS_MAX)
        card_forget_one(pool, server);
    if (server->n_cards == CTL_SERVER_CARDS_MAX)
        return gp_err_set(err, -ENOSPC, "server %s: more than %d cards", server->name,
                          CTL_SERVER_CARDS_MAX);
    card = calloc(1, sizeof(*card));
    if (!card)
        return -ENOMEM;
    card->facts = *facts;
    card->server = server;
    card->serial = pool->next_serial++;
    uuid_key(facts->uuid, key);
    gp_tree_insert(&pool->by_uuid, &card->by_uuid, key[0], key[1]);
    server->cards[server->n_cards++] = card;
    pool->n_cards++;
    pool->core += 100;
    pool->memory += facts->memory;
    *ret_card = card;
    return 0;
}

/* A card that holds nothing moves to the server that has it now. */
static int
card_move_away(struct sched_pool *pool, struct sched_card *card, struct gp_err *err)
{
    struct sched_server *from = card->server;
    char uuid[TICKET_UUID_TEXT];

    ticket_uuid_format(card->facts.uuid, uuid);
    if (from->alive && card->present)
        return gp_err_set(err, -EEXIST, "card %s is registered by server %s as well",
                          uuid, from->name);
    if (card->slices)
        return gp_err_set(err, -EEXIST,
                          "card %s still carries %u slices of sessions on server %s; "
                          "wait until their leases end, or start the server as %s",
                          uuid, card->slices, from->name, from->name);
    if (card->hold)
        return gp_err_set(err, -EEXIST,
                          "card %s of server %s is kept for a request; try again", uuid,
                          from->name);
    card->present = false;
    for (unsigned i = 0; i < from->n_cards; i++)
        if (from->cards[i] == card) { /* to the front: the one to be forgotten */
            from->cards[i] = from->cards[0];
            from->cards[0] = card;
        }
    card_forget_one(pool, from);
    return 0;
}

int
sched_pool_card_put(struct sched_pool *pool, struct sched_server *server,
                    const struct sched_card_facts *facts, struct sched_card **ret_card,
                    struct gp_err *err)
{
    struct sched_card *card = sched_pool_card_find(pool, facts->uuid);
    int r;

    if (card && card->server != server) {
        r = card_move_away(pool, card, err);
        if (r < 0)
            return r;
        card = NULL;
    }
    if (!card) {
        r = card_add(pool, server, facts, &card, err);
        if (r < 0)
            return r;
    }
    if (facts->memory < card->memory_given)
        return gp_err_set(
            err, -EBUSY,
            "card %u of server %s came back with less memory than sessions "
            "hold on it",
            facts->index, server->name);
    card_unindex(pool, card); /* its key is about to change */
    pool->memory += facts->memory - card->facts.memory;
    card->facts = *facts;
    pool->most_tflops = gp_max(pool->most_tflops, facts->tflops);
    r = group_find(pool, card);
    if (r < 0)
        return gp_err_set(err, r,
                          "card %u of server %s: cards of %d different kinds are known "
                          "already, the most allowed",
                          facts->index, server->name, SCHED_GROUPS_MAX);
    card->group->facts.tflops = facts->tflops;
    card->present = true;
    sched_pool_server_update(pool, server);
    server_regroup(pool, server);
    *ret_card = card;
    return 0;
}

void
sched_pool_cards_absent(struct sched_pool *pool, struct sched_server *server)
{
    for (unsigned i = 0; i < server->n_cards; i++)
        server->cards[i]->present = false;
    sched_pool_server_update(pool, server);
}

/* ------------------------------------------------------------ take, give -- */

int
sched_pool_take(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                uint64_t memory, bool in_space)
{
    if (!core || !sched_card_shares(card, in_space) ||
        core > sched_card_free_core(card) || memory > sched_card_free_memory(card) ||
        card->slices >= CTL_SLICES_PER_CARD_MAX)
        return -ENOSPC;
    card_unindex(pool, card); /* its tree is about to change */
    card->core_given += core;
    card->memory_given += memory;
    card->in_space = in_space;
    card->slices++;
    pool->sums.core_given += core;
    pool->sums.memory_given += memory;
    pool->sums.slices++;
    card_changed(pool, card);
    return 0;
}

void
sched_pool_give(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                uint64_t memory)
{
    assert(card->slices && card->core_given >= core && card->memory_given >= memory);
    card_unindex(pool, card);
    card->core_given -= core;
    card->memory_given -= memory;
    card->slices--;
    pool->sums.core_given -= core;
    pool->sums.memory_given -= memory;
    pool->sums.slices--;
    card->in_space &= card->slices != 0;
    card_changed(pool, card);
    freed_add(pool, card);
}

void
sched_pool_used(struct sched_pool *pool, struct sched_card *card, uint64_t used_bytes,
                uint32_t busy_percent)
{
    pool->sums.memory_used += used_bytes - card->used_bytes;
    pool->sums.busy += (uint64_t)busy_percent - card->busy_percent;
    card->used_bytes = used_bytes;
    card->busy_percent = busy_percent;
}

void
sched_pool_hold(struct sched_pool *pool, struct sched_card *card, const void *hold)
{
    card_unindex(pool, card);
    card->hold = hold;
    card_changed(pool, card);
    if (!hold)
        freed_add(pool, card);
}
