/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_pool.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_str.h"
#include "sched_index.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct sched_pool *
sched_pool_new(void)
{
    struct sched_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return NULL;
    pool->servers_tail = &pool->servers;
    for (unsigned level = 0; level < SCHED_LEVELS; level++)
        sched_index_lists(&pool->lists[level]);
    for (unsigned level = 0; level < SCHED_FABRICS; level++)
        sched_index_lists(&pool->mixed[level]);
    return pool;
}

static void
card_free(struct sched_card *card)
{
    free(card->fault);
    free(card);
}

static void
free_islands(struct sched_server *server)
{
    struct sched_island *island, *next;

    for (island = server->islands; island; island = next) {
        next = island->next;
        free(island);
    }
}

void
sched_pool_free(struct sched_pool *pool)
{
    struct sched_server *server, *next;
    struct sched_fabric *fabric, *more;

    if (!pool)
        return;
    for (server = pool->servers; server; server = next) {
        next = server->next;
        for (unsigned i = 0; i < server->n_cards; i++)
            card_free(server->cards[i]);
        free_islands(server);
        free(server);
    }
    for (fabric = pool->fabrics; fabric; fabric = more) {
        more = fabric->next;
        free(fabric);
    }
    for (unsigned i = 0; i < pool->n_groups; i++)
        free(pool->groups[i]);
    free(pool->groups);
    free(pool);
}

/* ------------------------------------------------------------------- sums -- */

/* Every sum is kept twice, over the pool and over the card's server.  All are modulo
 * 2^64: a negative number is added as such. */
static void
sums_given(struct sched_pool *pool, const struct sched_card *card, uint64_t core,
           uint64_t memory, uint64_t slices)
{
    struct sched_sums *both[] = {&pool->sums, &card->server->sums};

    for (unsigned i = 0; i < ARRAY_SIZE(both); i++) {
        both[i]->core_given += core;
        both[i]->memory_given += memory;
        both[i]->slices += slices;
    }
}

static void
sums_memory(struct sched_pool *pool, const struct sched_card *card, uint64_t memory)
{
    pool->sums.memory += memory;
    card->server->sums.memory += memory;
}

static void
sums_faulty(struct sched_pool *pool, const struct sched_card *card, uint32_t n)
{
    pool->sums.n_faulty += n;
    card->server->sums.n_faulty += n;
}

static void
sums_cordoned(struct sched_pool *pool, const struct sched_card *card, uint32_t n)
{
    pool->sums.n_cordoned += n;
    card->server->sums.n_cordoned += n;
}

/* Of the @n cards of @server those that its state keeps from everybody. */
static void
sums_server_state(struct sched_pool *pool, struct sched_server *server, uint32_t n)
{
    bool drains = server->drain_asked || server->drain_self;
    uint32_t away = server->alive ? 0 : n, draining = server->alive && drains ? n : 0;

    pool->sums.n_away += away - server->sums.n_away;
    pool->sums.n_draining += draining - server->sums.n_draining;
    server->sums.n_away = away;
    server->sums.n_draining = draining;
}

/* @card, which holds nothing, is about to be forgotten. */
static void
sums_forget(struct sched_pool *pool, struct sched_card *card)
{
    sched_pool_used(pool, card, 0, 0);
    pool->core -= 100;
    sums_memory(pool, card, -card->facts.memory);
    sums_faulty(pool, card, card->fault ? UINT32_MAX : 0);
    sums_cordoned(pool, card, card->cordoned ? UINT32_MAX : 0);
}

/* ------------------------------------------------------------------ freed -- */

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

void
sched_pool_server_update(struct sched_pool *pool, struct sched_server *server)
{
    server->free_core = sched_index_free_core(server);
    sums_server_state(pool, server, server->n_cards);
    for (unsigned i = 0; i < server->n_cards; i++) {
        sched_index_drop(pool, server->cards[i]);
        sched_index_card(pool, server->cards[i]);
        if (server->cards[i]->bucket || server->cards[i]->hold)
            freed_add(pool, server->cards[i]);
    }
    sched_index_server(pool, server, NULL);
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
    sums_server_state(pool, server, 0);
    sched_index_leave_fabric(pool, server);
    for (unsigned i = 0; i < server->n_cards; i++)
        sched_index_leave_island(pool, server->cards[i]);
    while (*at != server)
        at = &(*at)->next;
    *at = server->next;
    if (!server->next)
        pool->servers_tail = at;
    for (unsigned i = 0; i < server->n_cards; i++) {
        gp_tree_remove(&pool->by_uuid, &server->cards[i]->by_uuid);
        freed_drop(pool, server->cards[i]);
        sums_forget(pool, server->cards[i]);
        card_free(server->cards[i]);
    }
    pool->n_cards -= server->n_cards;
    pool->servers_removed++;
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
        sched_index_drop(pool, card);
        sched_index_leave_island(pool, card);
        freed_drop(pool, card);
        gp_tree_remove(&pool->by_uuid, &card->by_uuid);
        memmove(&server->cards[i], &server->cards[i + 1],
                (server->n_cards - i - 1) * sizeof(server->cards[0]));
        server->n_cards--;
        pool->n_cards--;
        sums_server_state(pool, server, server->n_cards);
        sums_forget(pool, card);
        card_free(card);
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
    sums_server_state(pool, server, server->n_cards);
    pool->core += 100;
    sums_memory(pool, card, facts->memory);
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
    bool cordoned = card && card->cordoned;
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
    sched_index_drop(pool, card); /* its key is about to change */
    sums_memory(pool, card, facts->memory - card->facts.memory);
    card->facts = *facts;
    pool->most_tflops = gp_max(pool->most_tflops, facts->tflops);
    pool->most_memory = gp_max(pool->most_memory, facts->memory);
    r = sched_index_island(pool, card, facts->island);
    if (r < 0)
        return r;
    r = sched_index_group(pool, card);
    if (r < 0)
        return gp_err_set(err, r,
                          "card %u of server %s: cards of %d different kinds are known "
                          "already, the most allowed",
                          facts->index, server->name, SCHED_GROUPS_MAX);
    card->group->facts.tflops = facts->tflops;
    card->present = true;
    if (cordoned) /* the order was about the card, wherever it is */
        sched_pool_set_cordoned(pool, card, true);
    sched_pool_server_update(pool, server);
    sched_index_regroup(pool, server);
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
    sched_index_drop(pool, card); /* its tree is about to change */
    card->core_given += core;
    card->memory_given += memory;
    card->in_space = in_space;
    card->slices++;
    sums_given(pool, card, core, memory, 1);
    sched_index_changed(pool, card);
    return 0;
}

void
sched_pool_untake(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                  uint64_t memory)
{
    assert(card->slices && card->core_given >= core && card->memory_given >= memory);
    sched_index_drop(pool, card);
    card->core_given -= core;
    card->memory_given -= memory;
    card->slices--;
    sums_given(pool, card, -(uint64_t)core, -memory, UINT64_MAX);
    card->in_space &= card->slices != 0;
    sched_index_changed(pool, card);
}

void
sched_pool_give(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                uint64_t memory)
{
    sched_pool_untake(pool, card, core, memory);
    freed_add(pool, card);
}

void
sched_pool_used(struct sched_pool *pool, struct sched_card *card, uint64_t used_bytes,
                uint32_t busy_percent)
{
    struct sched_sums *both[] = {&pool->sums, &card->server->sums};

    for (unsigned i = 0; i < ARRAY_SIZE(both); i++) {
        both[i]->memory_used += used_bytes - card->used_bytes;
        both[i]->busy += (uint64_t)busy_percent - card->busy_percent;
    }
    card->used_bytes = used_bytes;
    card->busy_percent = busy_percent;
}

void
sched_pool_hold(struct sched_pool *pool, struct sched_card *card, const void *hold)
{
    sched_index_drop(pool, card);
    card->hold = hold;
    card->hold_words = NULL;
    sched_index_changed(pool, card);
    if (!hold)
        freed_add(pool, card);
}

int
sched_pool_set_fault(struct sched_pool *pool, struct sched_card *card,
                     const char *words)
{
    char *copy = NULL;

    if (!strcmp(card->fault ? card->fault : "", words))
        return 0;
    if (*words && !(copy = strdup(words)))
        return -ENOMEM;
    sums_faulty(pool, card, (uint32_t) !!copy - (uint32_t) !!card->fault);
    free(card->fault);
    card->fault = copy;
    sched_pool_server_update(pool, card->server);
    return 0;
}

void
sched_pool_set_cordoned(struct sched_pool *pool, struct sched_card *card, bool cordoned)
{
    if (card->cordoned == cordoned)
        return;
    card->cordoned = cordoned;
    sums_cordoned(pool, card, cordoned ? 1 : UINT32_MAX);
    sched_pool_server_update(pool, card->server);
}
