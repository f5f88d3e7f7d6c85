/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue, the quotas and the reservations as pure objects: random operations, each
 * followed by a look at everything that must hold.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_str.h"
#include "sched_hold.h"
#include "sched_queue.h"
#include "sched_rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define WAITERS 48 /* below SCHED_TRIES_MAX: the search may not give up */
#define SESSIONS 256
#define TENANTS 4

struct held {
    struct sched_decision decision;
    struct sched_tenant *tenant; /* NULL: free */
};

struct sim {
    struct sched_pool *pool;
    struct sched_tenants tenants;
    struct sched_rules rules;
    struct sched_tenant_rule rule[TENANTS];
    struct sched_queue queue;
    struct sched_waiter *waiters[WAITERS];
    struct held sessions[SESSIONS];
    uint64_t seed, clock;
};

static uint32_t
roll(struct sim *s, uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++s->seed) % n);
}

static int
place(void *arg, const struct sched_waiter *waiter, struct sched_decision *ret)
{
    struct sim *s = arg;
    struct sched_amount amount;
    int r = sched_place(s->pool, &waiter->req, ret);

    if (r < 0)
        return r;
    amount = sched_tenant_left(waiter->tenant);
    for (uint32_t i = 0; i < ret->n_slices;
         i++) { /* whole cards hold more than asked */
        if (ret->slices[i].memory > amount.memory)
            return -ENOSPC;
        if (amount.memory != UINT64_MAX)
            amount.memory -= ret->slices[i].memory;
    }
    return 0;
}

static void
add_server(struct sim *s, unsigned index, unsigned cards)
{
    struct sched_server *server;
    struct sched_card *card;
    char name[16];

    snprintf(name, sizeof(name), "n%u", index);
    assert_int_equal(sched_pool_server_add(s->pool, name, &server, NULL), 0);
    snprintf(server->labels, sizeof(server->labels), "rack=r%u", index % 2);
    server->alive = true;
    for (unsigned i = 0; i < cards; i++) {
        struct sched_card_facts facts = {
            .memory = (16 + 8 * roll(s, 5)) * GIB, .index = i, .cc_major = 8};
        uint64_t number = index * 100 + i + 1;

        memcpy(facts.uuid, &number, sizeof(number));
        snprintf(facts.name, sizeof(facts.name), "model %u", roll(s, 2));
        assert_int_equal(sched_pool_card_put(s->pool, server, &facts, &card, NULL), 0);
    }
}

static void
begin(struct sim *s, uint64_t seed, unsigned servers)
{
    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->pool = sched_pool_new();
    assert_non_null(s->pool);
    for (unsigned i = 0; i < servers; i++)
        add_server(s, i, 1 + roll(s, 4));
    for (unsigned i = 0; i < TENANTS; i++) {
        snprintf(s->rule[i].name, sizeof(s->rule[i].name), "t%u", i);
        snprintf(s->rule[i].owners, sizeof(s->rule[i].owners), "t%u", i);
        s->rule[i].weight = 1 + i % 2;
    }
    s->rule[0].limit = (struct sched_amount){.core = 150};
    s->rule[1].limit = (struct sched_amount){.memory = 40 * GIB, .cards = 4};
    s->rules.tenants = s->rule;
    s->rules.n_tenants = TENANTS;
    s->tenants.rules = &s->rules;
    s->tenants.total =
        (struct sched_amount){.core = s->pool->core, .memory = s->pool->sums.memory};
    sched_queue_init(&s->queue, s->pool, &s->tenants);
    s->queue.place = place;
    s->queue.arg = s;
    while (sched_pool_freed(s->pool))
        ;
}

/* ------------------------------------------------------------------ operations -- */

static void
take(struct sim *s, struct sched_tenant *tenant, const struct sched_decision *d)
{
    struct sched_amount amount = {.cards = d->n_slices};

    for (unsigned i = 0; i < SESSIONS; i++) {
        if (s->sessions[i].tenant)
            continue;
        for (uint32_t k = 0; k < d->n_slices; k++) {
            const struct sched_slice *slice = &d->slices[k];

            assert_int_equal(sched_pool_take(s->pool, slice->card, slice->core,
                                             slice->memory, slice->in_space),
                             0);
            amount.core += slice->core;
            amount.memory += slice->memory;
        }
        assert_int_equal(sched_tenant_check(tenant, &amount, NULL, 0), 0);
        sched_tenant_charge(tenant, &amount);
        tenant->refs++;
        s->sessions[i] = (struct held){.decision = *d, .tenant = tenant};
        sched_queue_tenant_changed(&s->queue, tenant);
        return;
    }
    fail_msg("more sessions than the pool should hold");
}

static void
drop_waiter(struct sim *s, struct sched_waiter *waiter)
{
    for (unsigned i = 0; i < WAITERS; i++)
        if (s->waiters[i] == waiter)
            s->waiters[i] = NULL;
    sched_queue_remove(&s->queue, waiter);
    sched_tenant_unref(&s->tenants, waiter->tenant);
    free(waiter);
}

static bool
fits(struct sim *s, const struct sched_waiter *waiter)
{
    struct sched_decision d;

    return !sched_tenant_check(waiter->tenant, &waiter->amount, NULL, 0) &&
           !place(s, waiter, &d);
}

/* What the whole queue says when every member is looked at. */
static struct sched_waiter *
first_by_search(struct sim *s)
{
    struct sched_waiter *best = NULL;

    for (unsigned i = 0; i < WAITERS; i++)
        if (s->waiters[i] && fits(s, s->waiters[i]) &&
            (!best || sched_waiter_before(s->waiters[i], best)))
            best = s->waiters[i];
    return best;
}

/* Serve from @card as long as it serves anybody.  @sole: nothing else came free, so the
 * answer must be that of a search over everybody. */
static void
serve_card(struct sim *s, const struct sched_card *card, bool sole)
{
    struct sched_decision d;
    struct sched_waiter *waiter;

    for (;;) {
        struct sched_waiter *expected = sole ? first_by_search(s) : NULL;

        waiter = sched_queue_serve_card(&s->queue, card, &d);
        if (sole)
            assert_ptr_equal(waiter, expected);
        if (!waiter)
            return;
        take(s, waiter->tenant, &d);
        drop_waiter(s, waiter);
    }
}

static void
serve_tenant(struct sim *s, struct sched_tenant *tenant)
{
    struct sched_decision d;
    struct sched_waiter *waiter;

    while ((waiter = sched_queue_serve_tenant(&s->queue, tenant, &d))) {
        take(s, waiter->tenant, &d);
        drop_waiter(s, waiter);
    }
}

static void
draw(struct sim *s, struct sched_request *req, struct sched_where *where)
{
    uint32_t kind = roll(s, 12), cards = 1 + roll(s, 3);

    memset(req, 0, sizeof(*req));
    memset(where, 0, sizeof(*where));
    req->placement = roll(s, 2) ? SCHED_BINPACK : SCHED_SPREAD;
    req->in_space = kind == 1;
    req->span = kind == 2;
    if (kind == 3)
        sched_request_shape(req, 100 * cards, 0, 0, 0, NULL);
    else
        sched_request_shape(req, 5 + roll(s, 90), (1 + roll(s, 20)) * GIB,
                            kind < 6 ? cards : 0, 0, NULL);
    if (kind == 7)
        snprintf(where->labels, sizeof(where->labels), "rack=r%u", roll(s, 2));
    if (kind == 8)
        snprintf(where->model, sizeof(where->model), "model %u", roll(s, 2));
    if (kind == 9)
        req->server = "n0";
    if (!sched_where_any(where))
        req->where = where;
}

/* An open request: granted at once when it fits, else it waits. */
static void
arrive(struct sim *s)
{
    struct sched_waiter *waiter = calloc(1, sizeof(*waiter));
    struct sched_where where;
    struct sched_decision d;
    char owner[8];
    unsigned slot = 0;

    assert_non_null(waiter);
    snprintf(owner, sizeof(owner), "t%u", roll(s, TENANTS));
    draw(s, &waiter->req, &where);
    waiter->tenant = sched_tenant_ref(&s->tenants, owner);
    waiter->priority = roll(s, 3);
    waiter->arrived = ++s->clock;
    waiter->amount =
        (struct sched_amount){.core = (uint64_t)waiter->req.core * waiter->req.cards,
                              .memory = waiter->req.memory * waiter->req.cards,
                              .cards = waiter->req.cards};
    while (slot < WAITERS && s->waiters[slot])
        slot++;
    if (fits(s, waiter)) {
        assert_int_equal(place(s, waiter, &d), 0);
        take(s, waiter->tenant, &d);
        slot = WAITERS;
    }
    if (slot == WAITERS) {
        sched_tenant_unref(&s->tenants, waiter->tenant);
        free(waiter);
        return;
    }
    assert_int_equal(sched_queue_add(&s->queue, waiter, NULL), 0);
    s->waiters[slot] = waiter;
}

static void
end_session(struct sim *s, struct held *held)
{
    struct sched_decision d = held->decision;
    struct sched_tenant *tenant = held->tenant;
    struct sched_amount amount = {.cards = d.n_slices};
    struct sched_card *card;

    for (uint32_t i = 0; i < d.n_slices; i++) {
        sched_pool_give(s->pool, d.slices[i].card, d.slices[i].core,
                        d.slices[i].memory);
        amount.core += d.slices[i].core;
        amount.memory += d.slices[i].memory;
    }
    sched_tenant_uncharge(tenant, &amount);
    sched_queue_tenant_changed(&s->queue, tenant);
    held->tenant = NULL;
    while ((card = sched_pool_freed(s->pool)))
        serve_card(s, card,
                   d.n_slices == 1 && !tenant->limit.core && !tenant->limit.memory &&
                       !s->pool->freed);
    serve_tenant(s, tenant);
    sched_tenant_unref(&s->tenants, tenant);
}

static void
end_one(struct sim *s)
{
    unsigned from = roll(s, SESSIONS);

    for (unsigned i = 0; i < SESSIONS; i++)
        if (s->sessions[(from + i) % SESSIONS].tenant) {
            end_session(s, &s->sessions[(from + i) % SESSIONS]);
            return;
        }
}

static void
toggle_server(struct sim *s)
{
    struct sched_server *server = s->pool->servers;
    struct sched_card *card;
    char labels[SCHED_LABELS_MAX];

    for (unsigned skip = roll(s, s->pool->n_servers); skip; skip--)
        server = server->next;
    server->alive = !server->alive;
    snprintf(labels, sizeof(labels), "rack=r%u", roll(s, 3));
    assert_int_equal(sched_pool_set_labels(s->pool, server, labels), 0);
    sched_pool_server_update(s->pool, server);
    while ((card = sched_pool_freed(s->pool)))
        serve_card(s, card, false);
}

/* --------------------------------------------------------------------- checks -- */

static void
check_pool(const struct sim *s)
{
    for (const struct sched_server *server = s->pool->servers; server;
         server = server->next)
        for (unsigned i = 0; i < server->n_cards; i++) {
            const struct sched_card *card = server->cards[i];
            uint64_t memory = 0;
            uint32_t core = 0, slices = 0;

            for (unsigned h = 0; h < SESSIONS; h++)
                for (uint32_t k = 0;
                     s->sessions[h].tenant && k < s->sessions[h].decision.n_slices; k++)
                    if (s->sessions[h].decision.slices[k].card == card) {
                        core += s->sessions[h].decision.slices[k].core;
                        memory += s->sessions[h].decision.slices[k].memory;
                        slices++;
                    }
            assert_int_equal(core, card->core_given);
            assert_int_equal(slices, card->slices);
            assert_true(memory == card->memory_given);
            assert_true(core <= 100 && memory <= card->facts.memory);
        }
}

static void
check_quotas(const struct sim *s)
{
    for (unsigned h = 0; h < SESSIONS; h++) {
        const struct sched_tenant *t = s->sessions[h].tenant;

        if (!t)
            continue;
        assert_true(!t->limit.core || t->used.core <= t->limit.core);
        assert_true(!t->limit.memory || t->used.memory <= t->limit.memory);
        assert_true(!t->limit.cards || t->used.cards <= t->limit.cards);
    }
}

/* Is there room in the pool, when every card is looked at? */
static bool
room_by_search(const struct sim *s, const struct sched_request *req)
{
    for (const struct sched_server *v = s->pool->servers; v; v = v->next) {
        unsigned n = 0;

        for (unsigned i = 0; i < v->n_cards; i++) {
            const struct sched_card *card = v->cards[i];

            n += sched_server_open(v) && !card->hold &&
                 card->slices < CTL_SLICES_PER_CARD_MAX &&
                 sched_card_free_core(card) >= req->core &&
                 sched_card_free_memory(card) >= req->memory &&
                 sched_card_shares(card, req->in_space) &&
                 sched_place_accepts(card, req);
        }
        if (n >= req->cards)
            return true;
    }
    return false;
}

/* The index finds room where there is some, for every kind of request. */
static void
check_index(struct sim *s)
{
    for (unsigned i = 0; i < 4; i++) {
        struct sched_request req;
        struct sched_where where;
        struct sched_decision d;

        draw(s, &req, &where);
        req.span = false;
        assert_int_equal(!sched_place(s->pool, &req, &d), room_by_search(s, &req));
    }
}

/* Nobody waits who could be served, and positions count everybody once. */
static void
check_queue(struct sim *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WAITERS; i++) {
        uint32_t before = 0;

        if (!s->waiters[i])
            continue;
        n++;
        assert_false(fits(s, s->waiters[i]));
        for (unsigned k = 0; k < WAITERS; k++)
            before += s->waiters[k] && k != i &&
                      sched_waiter_before(s->waiters[k], s->waiters[i]);
        assert_int_equal(sched_queue_ahead(&s->queue, s->waiters[i]), before);
    }
    assert_int_equal(s->queue.n, n);
}

static void
finish(struct sim *s)
{
    for (unsigned i = 0; i < WAITERS; i++)
        if (s->waiters[i])
            drop_waiter(s, s->waiters[i]);
    for (unsigned i = 0; i < SESSIONS; i++)
        if (s->sessions[i].tenant)
            end_session(s, &s->sessions[i]);
    assert_int_equal(s->tenants.by_name.count, 0);
    assert_null(s->queue.kinds);
    sched_queue_fini(&s->queue);
    sched_pool_free(s->pool);
}

/* ---------------------------------------------------------------------- tests -- */

static void
random_operations_keep_every_promise(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(&s, seed << 32, 1 + (unsigned)(seed % 6));
        for (unsigned step = 0; step < 400; step++) {
            uint32_t op = roll(&s, 20);

            if (op < 11)
                arrive(&s);
            else if (op < 17)
                end_one(&s);
            else if (op == 17 && s.waiters[step % WAITERS])
                drop_waiter(&s, s.waiters[step % WAITERS]);
            else if (op == 18)
                toggle_server(&s);
            check_pool(&s);
            check_quotas(&s);
            check_queue(&s);
            check_index(&s);
        }
        finish(&s);
    }
}

static struct sched_waiter *
want(struct sim *s, const char *owner, uint32_t core, uint64_t memory, uint32_t cards)
{
    struct sched_waiter *waiter = calloc(1, sizeof(*waiter));

    assert_non_null(waiter);
    waiter->req.placement = SCHED_BINPACK;
    assert_int_equal(sched_request_shape(&waiter->req, core, memory, cards, 0, NULL),
                     0);
    waiter->tenant = sched_tenant_ref(&s->tenants, owner);
    waiter->arrived = ++s->clock;
    waiter->amount = (struct sched_amount){core * cards, memory * cards, cards};
    assert_int_equal(sched_queue_add(&s->queue, waiter, NULL), 0);
    return waiter;
}

/* So many requests of 25 % for each of the two wait. */
static void
replenish(struct sim *s, const char *const owners[2], unsigned n)
{
    unsigned waiting[2] = {0}, slot = 0;

    for (unsigned i = 0; i < WAITERS; i++)
        if (s->waiters[i])
            waiting[!strcmp(s->waiters[i]->tenant->name, owners[1])]++;
    for (unsigned o = 0; o < 2; o++)
        for (; waiting[o] < n; waiting[o]++) {
            while (s->waiters[slot])
                slot++;
            s->waiters[slot] = want(s, owners[o], 25, GIB, 1);
        }
}

static uint64_t
difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static void
shares_follow_weights_within_one_request(void **state)
{
    static const char *const owners[2] = {"t2", "t3"}; /* weights 1 and 2 */
    struct sched_tenant *tenants[2];
    struct sim s;

    (void)state;
    begin(&s, 7, 0);
    for (unsigned i = 0; i < 5; i++)
        add_server(&s, i, 4);
    s.tenants.total =
        (struct sched_amount){.core = s.pool->core, .memory = s.pool->sums.memory};
    for (unsigned i = 0; i < 2; i++)
        tenants[i] = sched_tenant_ref(&s.tenants, owners[i]);
    for (struct sched_server *v = s.pool->servers; v; v = v->next) {
        v->alive = false;
        sched_pool_server_update(s.pool, v);
    }
    for (struct sched_server *v = s.pool->servers; v; v = v->next) {
        replenish(&s, owners, 20); /* both want more than a server has */
        v->alive = true;
        sched_pool_server_update(s.pool, v);
        for (unsigned i = 0; i < v->n_cards; i++)
            serve_card(&s, v->cards[i], false);
    }
    replenish(&s, owners, 20);
    assert_null(first_by_search(&s)); /* the pool is full */
    /* A request is 25 of 2000 percent: 12,500 millionths of the pool. */
    assert_in_range(difference(sched_tenant_share(&s.tenants, tenants[0]),
                               sched_tenant_share(&s.tenants, tenants[1])),
                    0, 12500);
    assert_in_range(tenants[1]->used.core, 2 * tenants[0]->used.core - 50,
                    2 * tenants[0]->used.core + 50);
    /* Sessions end at random: whoever has least then is served. */
    for (unsigned step = 0; step < 1000; step++) {
        struct held *held = &s.sessions[roll(&s, SESSIONS)];
        uint64_t before[2], share[2];
        struct sched_amount amount = {25, GIB, 1};
        unsigned poorer;

        replenish(&s, owners, 20);
        if (!held->tenant)
            continue;
        sched_tenant_uncharge(held->tenant, &amount);
        for (unsigned i = 0; i < 2; i++) {
            share[i] = sched_tenant_share(&s.tenants, tenants[i]);
            before[i] = tenants[i]->used.core;
        }
        sched_tenant_charge(held->tenant, &amount);
        poorer = share[1] < share[0];
        end_session(&s, held);
        if (share[0] != share[1])
            assert_int_equal(tenants[poorer]->used.core, before[poorer] + 25);
    }
    for (unsigned i = 0; i < 2; i++)
        sched_tenant_unref(&s.tenants, tenants[i]);
    finish(&s);
}

static void
freed_card_asks_nobody_whom_it_cannot_serve(void **state)
{
    enum { N = 10000 };
    static struct sched_waiter *waiters[N];
    struct sched_decision d;
    struct sched_card *card;
    struct sim s;

    (void)state;
    begin(&s, 9, 2);
    card = s.pool->servers->cards[0];
    assert_int_equal(sched_pool_take(s.pool, card, 40, GIB, false), 0);
    for (unsigned i = 0; i < N; i++) {
        char owner[16];

        snprintf(owner, sizeof(owner), "o%u", i % 100);
        waiters[i] = want(&s, owner, 61 + i % 40, (2 + i % 13) * GIB, 1);
    }
    assert_null(sched_queue_serve_card(&s.queue, card, &d));
    assert_int_equal(s.queue.tries, 0);
    /* One in the middle fits: it alone is asked. */
    sched_queue_remove(&s.queue, waiters[5000]);
    sched_tenant_unref(&s.tenants, waiters[5000]->tenant);
    free(waiters[5000]);
    waiters[5000] = want(&s, "o50", 55, GIB, 1);
    assert_ptr_equal(sched_queue_serve_card(&s.queue, card, &d), waiters[5000]);
    assert_int_equal(s.queue.tries, 1);
    for (unsigned i = 0; i < N; i++) {
        struct sched_tenant *tenant = waiters[i]->tenant;

        sched_queue_remove(&s.queue, waiters[i]);
        sched_tenant_unref(&s.tenants, tenant);
        free(waiters[i]);
    }
    sched_pool_give(s.pool, card, 40, GIB);
    finish(&s);
}

static void
whose_quota_of_memory_is_used_up_is_not_asked(void **state)
{
    enum { N = 400 };
    struct sched_amount used = {.memory = 38 * GIB, .cards = 1};
    static struct sched_waiter *waiters[N + 1];
    struct sched_tenant *tenant;
    struct sched_decision d;
    struct sched_card *card;
    struct sim s;

    (void)state;
    begin(&s, 9, 2);
    card = s.pool->servers->cards[0];
    for (unsigned i = 0; i < N; i++)
        waiters[i] = want(&s, "t1", 5, 4 * GIB, 1);
    waiters[N] = want(&s, "o1", 5, 4 * GIB, 1);
    tenant = waiters[0]->tenant;
    sched_tenant_charge(tenant, &used);
    sched_queue_tenant_changed(&s.queue, tenant);
    assert_ptr_equal(sched_queue_serve_card(&s.queue, card, &d), waiters[N]);
    assert_int_equal(s.queue.tries, 1);
    sched_tenant_uncharge(tenant, &used);
    for (unsigned i = 0; i <= N; i++) {
        tenant = waiters[i]->tenant;
        sched_queue_remove(&s.queue, waiters[i]);
        sched_tenant_unref(&s.tenants, tenant);
        free(waiters[i]);
    }
    finish(&s);
}

/* Waiters that each name another server, so that each is a kind. */
struct kinds {
    struct sched_waiter *waiters[SCHED_KINDS_MAX];
    unsigned n;
};

static int
add_kind(struct sim *s, struct kinds *kinds, const char *owner, struct gp_err *err)
{
    struct sched_waiter *waiter = calloc(1, sizeof(*waiter));
    char server[16];
    int r;

    assert_non_null(waiter);
    snprintf(server, sizeof(server), "s%u", kinds->n);
    waiter->req.server = server;
    sched_request_shape(&waiter->req, 10, GIB, 0, 0, NULL);
    waiter->tenant = sched_tenant_ref(&s->tenants, owner);
    r = sched_queue_add(&s->queue, waiter, err);
    if (!r) {
        kinds->waiters[kinds->n++] = waiter;
        return 0;
    }
    sched_tenant_unref(&s->tenants, waiter->tenant);
    free(waiter);
    return r;
}

static void
drop_kinds(struct sim *s, struct kinds *kinds)
{
    while (kinds->n--) {
        struct sched_waiter *waiter = kinds->waiters[kinds->n];

        sched_queue_remove(&s->queue, waiter);
        sched_tenant_unref(&s->tenants, waiter->tenant);
        free(waiter);
    }
}

static void
tenant_has_its_cap_of_kinds_and_leaves_others_theirs(void **state)
{
    static struct kinds kinds = {.n = 0};
    struct gp_err err = {0};
    struct sched_waiter *more;
    char owner[16];
    unsigned i;
    struct sim s;

    (void)state;
    begin(&s, 3, 1);
    while (!add_kind(&s, &kinds, "greedy", &err))
        ;
    assert_int_equal(kinds.n, SCHED_TENANT_KINDS_MAX);
    assert_non_null(strstr(err.msg, "greedy for 128 different sets of cards"));
    assert_non_null(strstr(err.msg, "start fewer at a time"));
    /* More of a kind that it has already is no more work for anybody. */
    more = calloc(1, sizeof(*more));
    more->req.server = "s0";
    sched_request_shape(&more->req, 20, GIB, 0, 0, NULL);
    more->tenant = sched_tenant_ref(&s.tenants, "greedy");
    assert_int_equal(sched_queue_add(&s.queue, more, &err), 0);
    /* Whoever comes after many greedy ones finds room as well. */
    for (i = 0; i < 20; i++) {
        snprintf(owner, sizeof(owner), "o%u", i);
        while (!add_kind(&s, &kinds, owner, &err))
            ;
    }
    assert_in_range(kinds.n, SCHED_KINDS_MAX / 2, SCHED_KINDS_MAX - 1);
    assert_non_null(strstr(err.msg, "the most allowed now"));
    assert_int_equal(add_kind(&s, &kinds, "modest", &err), 0);
    sched_queue_remove(&s.queue, more);
    sched_tenant_unref(&s.tenants, more->tenant);
    free(more);
    drop_kinds(&s, &kinds);
    finish(&s);
}

static void
caps_of_the_queue_are_kept_in_words(void **state)
{
    static struct kinds kinds = {.n = 0};
    struct gp_err err = {0};
    char owner[16];
    struct sim s;
    int r = 0;

    (void)state;
    begin(&s, 3, 1);
    while (!r) {
        snprintf(owner, sizeof(owner), "o%u", kinds.n);
        r = add_kind(&s, &kinds, owner, &err);
    }
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(kinds.n, SCHED_KINDS_MAX);
    assert_non_null(strstr(err.msg, "1024 different sets of cards wait already"));
    assert_non_null(strstr(err.msg, "or later"));
    drop_kinds(&s, &kinds);
    finish(&s);
}

/* ----------------------------------------------------------------- reservations -- */

static void
cards_on_which_least_must_end_are_kept(void **state)
{
    struct sched_request req = {.placement = SCHED_BINPACK};
    struct sched_target target;
    struct sim s;

    (void)state;
    begin(&s, 11, 0);
    for (unsigned i = 0; i < 3; i++)
        add_server(&s, i, 2);
    for (struct sched_server *server = s.pool->servers; server; server = server->next)
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(sched_pool_take(s.pool, server->cards[i],
                                             server == s.pool->servers->next ? 30 : 60,
                                             GIB, false),
                             0);
    assert_int_equal(sched_request_shape(&req, 80, GIB, 2, 0, NULL), 0);
    assert_int_equal(sched_hold_choose(s.pool, &req, 1, NULL, &target), 0);
    assert_int_equal(target.n, 2);
    assert_int_equal(target.cost, 20); /* 10 of each */
    assert_string_equal(target.cards[0]->server->name, "n1");
    assert_string_equal(target.cards[1]->server->name, "n1");
    req.memory = 1000 * GIB; /* never */
    assert_int_equal(sched_hold_choose(s.pool, &req, 1, NULL, &target), -ENOSPC);
    for (struct sched_server *server = s.pool->servers; server; server = server->next)
        for (unsigned i = 0; i < 2; i++)
            sched_pool_give(s.pool, server->cards[i],
                            server == s.pool->servers->next ? 30 : 60, GIB);
    finish(&s);
}

static void
card_that_is_kept_is_given_to_nobody_else(void **state)
{
    struct sched_request req = {.placement = SCHED_SPREAD};
    struct sched_decision d;
    struct sched_card *card;
    struct sim s;
    int mark;

    (void)state;
    begin(&s, 13, 0);
    add_server(&s, 0, 1);
    card = s.pool->servers->cards[0];
    assert_int_equal(sched_request_shape(&req, 50, GIB, 0, 0, NULL), 0);
    assert_int_equal(sched_place(s.pool, &req, &d), 0);
    sched_pool_hold(s.pool, card, &mark);
    assert_int_equal(sched_place(s.pool, &req, &d), -ENOSPC);
    assert_int_equal(sched_place_held(&card, 1, &req, &d), 0);
    while (sched_pool_freed(s.pool))
        ;
    sched_pool_hold(s.pool, card, NULL);
    assert_ptr_equal(sched_pool_freed(s.pool), card); /* somebody may want it now */
    assert_int_equal(sched_place(s.pool, &req, &d), 0);
    finish(&s);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_keep_every_promise),
        cmocka_unit_test(shares_follow_weights_within_one_request),
        cmocka_unit_test(freed_card_asks_nobody_whom_it_cannot_serve),
        cmocka_unit_test(whose_quota_of_memory_is_used_up_is_not_asked),
        cmocka_unit_test(tenant_has_its_cap_of_kinds_and_leaves_others_theirs),
        cmocka_unit_test(caps_of_the_queue_are_kept_in_words),
        cmocka_unit_test(cards_on_which_least_must_end_are_kept),
        cmocka_unit_test(card_that_is_kept_is_given_to_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
