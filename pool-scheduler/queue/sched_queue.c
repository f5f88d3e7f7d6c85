/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_queue.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_str.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void
sched_queue_init(struct sched_queue *queue, const struct sched_pool *pool,
                 struct sched_tenants *tenants)
{
    memset(queue, 0, sizeof(*queue));
    queue->pool = pool;
    queue->tenants = tenants;
}

void
sched_queue_fini(struct sched_queue *queue)
{
    assert(!queue->n && !queue->kinds);
}

static struct sched_waiter *
waiter_of(struct sched_order_node *node)
{
    return node ? container_of(node, struct sched_waiter, node) : NULL;
}

static struct sched_line *
line_of(struct sched_order_node *node)
{
    return node ? container_of(node, struct sched_line, node) : NULL;
}

/* ------------------------------------------------------------------- kinds -- */

static void
kind_key(struct sched_kind_key *key, const struct sched_request *req)
{
    memset(key, 0, sizeof(*key));
    key->cards = req->cards;
    key->span = req->span;
    key->near = req->near;
    key->in_space = req->in_space;
    key->has_uuid = req->has_uuid;
    if (req->has_uuid)
        memcpy(key->uuid, req->uuid, sizeof(key->uuid));
    if (req->server)
        gp_str_copy(key->server, sizeof(key->server), req->server);
    if (req->where)
        key->where = *req->where;
}

static struct sched_kind *
kind_get(struct sched_queue *queue, const struct sched_request *req, struct gp_err *err)
{
    struct sched_kind_key key;
    struct sched_kind *kind;
    uint64_t hash;

    kind_key(&key, req);
    hash = gp_hash_bytes(gp_hash_process_key(), &key, sizeof(key));
    for (kind = queue->kinds; kind; kind = kind->next)
        if (kind->hash == hash && !memcmp(&kind->key, &key, sizeof(key)))
            return kind;
    if (queue->n_kinds >= SCHED_KINDS_MAX) {
        gp_err_set(err, -ENOSPC,
                   "requests for %d different sets of cards wait already, the most "
                   "allowed; ask for cards that others wait for as well (no --server, "
                   "--card, --label or --model of your own), or later",
                   SCHED_KINDS_MAX);
        return NULL;
    }
    kind = calloc(1, sizeof(*kind));
    if (!kind)
        return NULL;
    kind->key = key;
    kind->hash = hash;
    kind->next = queue->kinds;
    queue->kinds = kind;
    queue->n_kinds++;
    return kind;
}

static void
kind_drop(struct sched_queue *queue, struct sched_kind *kind)
{
    struct sched_kind **at = &queue->kinds;

    if (kind->n_lines)
        return;
    while (*at != kind)
        at = &(*at)->next;
    *at = kind->next;
    queue->n_kinds--;
    free(kind);
}

/* ------------------------------------------------------------------- lines -- */

/* What the quotas of its tenant leave of @room for a waiter of @line. */
static void
room_in_quota(const struct sched_line *line, struct sched_need *room)
{
    struct sched_amount left = sched_tenant_left(line->tenant);
    uint32_t cards = line->kind->key.cards;
    int32_t memory = sched_room_of(left.memory / cards);
    /* Steps begin at 1, 6, 11... percent of each card. */
    unsigned each = (unsigned)gp_min(left.core / cards, (uint64_t)100);
    unsigned steps = left.cards < cards ? 0 : (each + 4) / 5;

    for (unsigned step = 0; step < steps; step++)
        room->memory[step] = gp_min(room->memory[step], memory);
    for (unsigned step = steps; step < SCHED_NEED_STEPS; step++)
        room->memory[step] = 0;
}

/* The line's sums and its place, as its waiters and its tenant make them. */
static void
line_figure(const struct sched_queue *queue, const struct sched_line *line,
            struct sched_order_node *ret)
{
    struct sched_need room;

    sched_need_clear(&room);
    room_in_quota(line, &room);
    ret->key.word[0] =
        (uint64_t)(UINT32_MAX - line->priority) << 32 |
        gp_min(sched_tenant_share(queue->tenants, line->tenant), (uint64_t)UINT32_MAX);
    ret->key.word[1] = line->tenant->waits_since;
    ret->key.word[2] = line->tenant->serial;
    ret->weight = sched_order_sum(&line->waiters);
    if (!line->waiters.root)
        sched_need_clear(&ret->own);
    else
        ret->own = line->waiters.root->least;
    for (unsigned step = 0; step < SCHED_NEED_STEPS; step++)
        if (ret->own.memory[step] >= room.memory[step])
            ret->own.memory[step] = SCHED_NEED_NONE;
}

static struct sched_line *
line_find(const struct sched_waiter *waiter, const struct sched_kind *kind)
{
    struct sched_line *line = waiter->tenant->lines;

    while (line && (line->kind != kind || line->priority != waiter->priority))
        line = line->tenant_next;
    return line;
}

/* Every event passes over all kinds, whoever's they are. */
static int
check_lines(const struct sched_queue *queue, const struct sched_tenant *tenant,
            struct gp_err *err)
{
    uint32_t left = SCHED_KINDS_MAX - queue->n_kinds;
    uint32_t most =
        gp_min((uint32_t)SCHED_TENANT_KINDS_MAX, gp_max(left / 4, UINT32_C(1)));

    if (tenant->n_lines < most)
        return 0;
    return gp_err_set(err, -ENOSPC,
                      "requests of %.100s for %u different sets of cards wait already, "
                      "the most allowed%s; name the same servers, labels and models in "
                      "more of them, or start fewer at a time",
                      tenant->name, tenant->n_lines,
                      most < SCHED_TENANT_KINDS_MAX ? " now" : "");
}

static int
line_get(struct sched_queue *queue, const struct sched_waiter *waiter,
         struct sched_kind *kind, struct sched_line **ret, struct gp_err *err)
{
    struct sched_line *line = line_find(waiter, kind);
    int r;

    *ret = line;
    if (line)
        return 0;
    r = check_lines(queue, waiter->tenant, err);
    if (r < 0)
        return r;
    line = calloc(1, sizeof(*line));
    if (!line)
        return -ENOMEM;
    line->kind = kind;
    line->tenant = waiter->tenant;
    line->priority = waiter->priority;
    line->tenant_next = waiter->tenant->lines;
    waiter->tenant->lines = line;
    waiter->tenant->n_lines++;
    line_figure(queue, line, &line->node);
    sched_order_insert(&kind->lines, &line->node);
    kind->n_lines++;
    *ret = line;
    return 0;
}

static void
line_drop(struct sched_queue *queue, struct sched_line *line)
{
    struct sched_line **at = (struct sched_line **)&line->tenant->lines;
    struct sched_kind *kind = line->kind;

    if (line->waiters.root)
        return;
    while (*at != line)
        at = &(*at)->tenant_next;
    *at = line->tenant_next;
    line->tenant->n_lines--;
    sched_order_remove(&kind->lines, &line->node);
    kind->n_lines--;
    free(line);
    kind_drop(queue, kind);
}

/* Its waiters, or what its tenant holds, have changed.  In a large pool one session
 * moves a tenant's share by less than its unit, and then nothing is to be done. */
static void
line_update(struct sched_queue *queue, struct sched_line *line)
{
    struct sched_order_node now, *node = &line->node;

    line_figure(queue, line, &now);
    if (sched_order_compare(&now.key, &node->key) != 0 &&
        !sched_order_rekey(&line->kind->lines, node, &now.key)) {
        sched_order_remove(&line->kind->lines, node);
        node->key = now.key;
        node->own = now.own;
        node->weight = now.weight;
        sched_order_insert(&line->kind->lines, node);
    } else if (now.weight != node->weight ||
               memcmp(&now.own, &node->own, sizeof(now.own)) != 0) {
        node->own = now.own;
        node->weight = now.weight;
        sched_order_update(&line->kind->lines, node);
    }
}

void
sched_queue_tenant_changed(struct sched_queue *queue, struct sched_tenant *tenant)
{
    for (struct sched_line *line = tenant->lines; line; line = line->tenant_next)
        line_update(queue, line);
}

/* When the oldest waiter of @tenant arrived; 0: none waits. */
static uint64_t
oldest_arrival(const struct sched_tenant *tenant)
{
    uint64_t oldest = UINT64_MAX;

    for (const struct sched_line *line = tenant->lines; line;
         line = line->tenant_next) {
        const struct sched_order_node *node = line->waiters.root;

        while (node && node->left)
            node = node->left;
        if (node)
            oldest = gp_min(oldest, node->key.word[0]);
    }
    return oldest == UINT64_MAX ? 0 : oldest;
}

/* A waiter of @line came or went.  Between tenants that hold the same, whose waiter is
 * the oldest is first. */
static void
waiters_changed(struct sched_queue *queue, struct sched_line *line)
{
    struct sched_tenant *tenant = line->tenant;
    uint64_t since = oldest_arrival(tenant);

    if (since == tenant->waits_since) {
        line_update(queue, line);
        return;
    }
    tenant->waits_since = since;
    sched_queue_tenant_changed(queue, tenant);
}

/* ----------------------------------------------------------------- waiters -- */

/* Of a request by speed, what the fastest known card would need. */
static uint32_t
least_core(const struct sched_queue *queue, const struct sched_request *req)
{
    uint32_t best = queue->pool->most_tflops;

    if (!req->where || !req->where->tflops)
        return req->core;
    return best > req->where->tflops ? (100 * req->where->tflops + best - 1) / best : 1;
}

int
sched_queue_add(struct sched_queue *queue, struct sched_waiter *waiter,
                struct gp_err *err)
{
    struct sched_kind *kind;
    struct sched_line *line;
    int r;

    if (queue->n >= SCHED_QUEUE_MAX)
        return gp_err_set(err, -ENOSPC,
                          "%d requests wait already, the most allowed; ask again later",
                          SCHED_QUEUE_MAX);
    kind = kind_get(queue, &waiter->req, err);
    if (!kind)
        return -ENOSPC;
    r = line_get(queue, waiter, kind, &line, err);
    if (r < 0) {
        kind_drop(queue, kind);
        return r;
    }
    waiter->line = line;
    waiter->serial = queue->next_serial++;
    waiter->req.server = *kind->key.server ? kind->key.server : NULL;
    waiter->req.where = sched_where_any(&kind->key.where) ? NULL : &kind->key.where;
    waiter->node.key.word[0] = waiter->arrived;
    waiter->node.key.word[1] = waiter->serial;
    waiter->node.key.word[2] = 0;
    waiter->node.weight = 1;
    sched_need_point(&waiter->node.own, least_core(queue, &waiter->req),
                     waiter->req.memory);
    sched_order_insert(&line->waiters, &waiter->node);
    gp_tree_insert(&queue->by_age, &waiter->by_age, waiter->arrived, waiter->serial);
    waiter->in_queue = true;
    queue->n++;
    waiters_changed(queue, line);
    return 0;
}

void
sched_queue_remove(struct sched_queue *queue, struct sched_waiter *waiter)
{
    struct sched_line *line = waiter->line;

    if (!waiter->in_queue)
        return;
    waiter->in_queue = false;
    waiter->line = NULL;
    queue->n--;
    gp_tree_remove(&queue->by_age, &waiter->by_age);
    sched_order_remove(&line->waiters, &waiter->node);
    waiters_changed(queue, line);
    line_drop(queue, line);
}

uint32_t
sched_queue_ahead(const struct sched_queue *queue, const struct sched_waiter *waiter)
{
    uint32_t n = 0;

    for (const struct sched_kind *kind = queue->kinds; kind; kind = kind->next)
        n += sched_order_before(&kind->lines, &waiter->line->node.key);
    /* Lines of its tenant for other cards have the same place: arrival decides. */
    for (const struct sched_line *l = waiter->tenant->lines; l; l = l->tenant_next)
        if (l->priority == waiter->priority)
            n += sched_order_before(&l->waiters, &waiter->node.key);
    return n;
}

bool
sched_waiter_before(const struct sched_waiter *a, const struct sched_waiter *b)
{
    int at = sched_order_compare(&a->line->node.key, &b->line->node.key);

    return at < 0 || (at == 0 && sched_order_compare(&a->node.key, &b->node.key) < 0);
}

/* ------------------------------------------------------------------- serve -- */

static bool
kind_accepts(const struct sched_kind *kind, const struct sched_card *card)
{
    const struct sched_kind_key *key = &kind->key;

    return sched_card_shares(card, key->in_space) &&
           (!key->has_uuid ||
            !memcmp(key->uuid, card->facts.uuid, sizeof(key->uuid))) &&
           (!*key->server || !strcmp(key->server, card->server->name)) &&
           (!*key->where.labels ||
            sched_where_labels(&key->where, card->server->labels)) &&
           (key->span || key->cards > 1 ||
            sched_where_reaches(&key->where, &card->server->reach, true)) &&
           (key->span || key->cards > 1 || sched_where_card(&key->where, &card->facts));
}

/* What @card, or its server, can do for a waiter of @kind. */
static void
room_of_card(const struct sched_kind *kind, const struct sched_card *card,
             struct sched_need *room)
{
    const struct sched_server *server = card->server;
    uint64_t most = 0;

    memset(room, 0, sizeof(*room));
    if (!card->bucket)
        return;
    if (kind->key.cards == 1 || kind->key.span) {
        sched_room_add(room, card->bucket, sched_card_free_memory(card));
        return;
    }
    for (unsigned i = 0; i < server->n_cards; i++)
        most = gp_max(most, sched_card_free_memory(server->cards[i]));
    sched_room_add(room, server->unit.nth[kind->key.cards - 1].core, most);
}

struct search {
    struct sched_queue *queue;
    const struct sched_tenant *only; /* its lines, or NULL: all */
    unsigned tries;
    const struct sched_line *best; /* of another kind: no need to look behind it */
    const struct sched_waiter *best_waiter;
};

/* Is @line behind what another kind has already? */
static bool
behind(const struct search *search, const struct sched_line *line)
{
    return search->best &&
           sched_order_compare(&line->node.key, &search->best->node.key) > 0;
}

static struct sched_waiter *
serve_line(struct search *search, const struct sched_line *line,
           const struct sched_need *room, struct sched_decision *ret)
{
    const struct sched_order_key *after = NULL;
    struct sched_need own = *room;
    struct sched_waiter *waiter;

    room_in_quota(line, &own);
    while (search->tries < SCHED_TRIES_MAX) {
        waiter = waiter_of(sched_order_first_fit(&line->waiters, after, &own));
        if (!waiter)
            return NULL;
        search->tries++;
        search->queue->tries++;
        if (!sched_tenant_check(waiter->tenant, &waiter->amount, NULL, 0) &&
            !search->queue->place(search->queue->arg, waiter, ret))
            return waiter;
        after = &waiter->node.key;
    }
    return NULL;
}

static struct sched_waiter *
serve_kind(struct search *search, const struct sched_kind *kind,
           const struct sched_need *room, struct sched_decision *ret)
{
    const struct sched_order_key *after = NULL;
    struct sched_waiter *waiter = NULL;
    struct sched_line *line;

    while (!waiter && search->tries < SCHED_TRIES_MAX) {
        line = line_of(sched_order_first_fit(&kind->lines, after, room));
        if (!line || behind(search, line))
            break;
        waiter = serve_line(search, line, room, ret);
        after = &line->node.key;
    }
    return waiter;
}

struct sched_waiter *
sched_queue_serve_card(struct sched_queue *queue, const struct sched_card *card,
                       struct sched_decision *ret)
{
    struct search search = {.queue = queue};
    struct sched_waiter *best = NULL;

    for (const struct sched_kind *kind = queue->kinds; kind; kind = kind->next) {
        struct sched_waiter *waiter;
        struct sched_decision decision;
        struct sched_need room;

        room_of_card(kind, card, &room);
        if (!sched_need_fits(&kind->lines.root->least, &room) ||
            !kind_accepts(kind, card))
            continue;
        waiter = serve_kind(&search, kind, &room, &decision);
        if (!waiter || (best && !sched_waiter_before(waiter, best)))
            continue;
        best = waiter;
        search.best = waiter->line;
        *ret = decision;
    }
    return best;
}

/* What the pool can do at most for waiters of @kind, whatever cards they accept. */
static void
room_of_pool(const struct sched_pool *pool, const struct sched_kind *kind,
             struct sched_need *room)
{
    memset(room, 0, sizeof(*room));
    if (kind->key.cards > 1 && !kind->key.span) {
        for (unsigned core = 100; core; core--) {
            const struct sched_link *head =
                &pool->lists[SCHED_SERVERS].of[kind->key.cards - 1][core];

            if (head->next != head) {
                sched_room_add(room, core, UINT64_MAX - 1);
                return;
            }
        }
        return;
    }
    for (unsigned core = 1; core <= 100; core++) {
        struct gp_tree_node *node =
            gp_tree_last(&pool->by_fit[SCHED_FIT(kind->key.in_space, core)]);

        if (node)
            sched_room_add(room, core, node->key[0]);
    }
}

struct sched_waiter *
sched_queue_serve_tenant(struct sched_queue *queue, const struct sched_tenant *tenant,
                         struct sched_decision *ret)
{
    struct search search = {.queue = queue};
    struct sched_waiter *best = NULL;

    for (const struct sched_line *line = tenant->lines; line;
         line = line->tenant_next) {
        struct sched_waiter *waiter;
        struct sched_decision decision;
        struct sched_need room;

        room_of_pool(queue->pool, line->kind, &room);
        waiter = serve_line(&search, line, &room, &decision);
        if (!waiter || (best && !sched_waiter_before(waiter, best)))
            continue;
        best = waiter;
        *ret = decision;
    }
    return best;
}

struct sched_waiter *
sched_queue_sweep(struct sched_queue *queue, unsigned n, struct sched_decision *ret)
{
    for (n = gp_min(n, queue->n); n; n--) {
        struct gp_tree_node *node =
            gp_tree_at_least(&queue->by_age, queue->swept[0], queue->swept[1]);
        struct sched_waiter *waiter;

        if (!node)
            node = gp_tree_first(&queue->by_age);
        waiter = container_of(node, struct sched_waiter, by_age);
        queue->swept[0] = waiter->arrived;
        queue->swept[1] = waiter->serial + 1;
        queue->tries++;
        if (!sched_tenant_check(waiter->tenant, &waiter->amount, NULL, 0) &&
            !queue->place(queue->arg, waiter, ret))
            return waiter;
    }
    return NULL;
}
