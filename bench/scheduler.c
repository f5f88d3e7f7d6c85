/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions with everything around them: labels, models, quotas, a full queue.
 *
 *     scheduler [CARDS [SESSIONS [WAITING [DECISIONS]]]]
 *
 * 100,000 cards of four models in eight racks, in islands of four and fabrics of 32
 * servers, filled with up to 500,000 sessions of
 * 1,000 tenants with quotas, and 10,000 requests that wait for more than there is. Then
 * one session ends, whoever waits and fits is served, and one request comes, again and
 * again.  Rates are per second of processor time, so that other work on the machine
 * changes them less; slow decisions (p99) are on the wall clock.  Prints "key value"
 * lines.
 */
#include "gp_hash.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_queue.h"
#include "sched_rules.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CARDS_PER_SERVER 8
#define TENANTS 1000
#define GIB (UINT64_C(1) << 30)
#define SLICES 4
/* Reading the processor time is a system call: once for so many operations. */
#define BATCH ((size_t)500)

struct session {
    struct sched_card *cards[SLICES];
    uint64_t memory[SLICES];
    uint8_t core[SLICES], n;
    struct sched_tenant *tenant;
};

struct bench {
    struct sched_pool *pool;
    struct sched_tenants tenants;
    struct sched_queue queue;
    struct sched_tenant *tenant[TENANTS];
    struct sched_where where[16];
    struct session *live; /* a ring, oldest first */
    size_t cap, first, n;
    uint64_t seed, served, granted, refused;
};

static uint32_t
roll(struct bench *b, uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++b->seed) % n);
}

static uint64_t
cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * GP_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --------------------------------------------------------------------- the pool -- */

static int
make_server(struct bench *b, unsigned index)
{
    static const char *const models[] = {"NVIDIA A100", "NVIDIA H100", "NVIDIA L40S",
                                         "NVIDIA T4"};
    struct sched_server *server;
    struct sched_card *card;
    char text[32];

    snprintf(text, sizeof(text), "n%u", index);
    if (sched_pool_server_add(b->pool, text, &server, NULL) < 0)
        return -1;
    snprintf(text, sizeof(text), "rack=r%u", index % 8);
    server->alive = true;
    sched_pool_set_labels(b->pool, server, text);
    snprintf(text, sizeof(text), "row%u", index / 32);
    sched_pool_set_fabric(b->pool, server, text);
    for (unsigned k = 0; k < CARDS_PER_SERVER; k++) {
        struct sched_card_facts facts = {.memory = (index % 3 ? 80 : 141) * GIB,
                                         .index = k,
                                         .cc_major = 8,
                                         .island = 1 + k / 4};
        uint64_t number = (uint64_t)index * CARDS_PER_SERVER + k;

        memcpy(facts.uuid, &number, sizeof(number));
        gp_str_copy(facts.name, sizeof(facts.name), models[index / 8 % 4]);
        if (sched_pool_card_put(b->pool, server, &facts, &card, NULL) < 0)
            return -1;
    }
    return 0;
}

static int
place(void *arg, const struct sched_waiter *waiter, struct sched_decision *ret)
{
    struct bench *b = arg;

    return sched_place(b->pool, &waiter->req, ret);
}

static int
make(struct bench *b, unsigned cards)
{
    char name[16];

    b->pool = sched_pool_new();
    if (!b->pool)
        return -1;
    for (unsigned i = 0; i < cards / CARDS_PER_SERVER; i++)
        if (make_server(b, i) < 0)
            return -1;
    b->tenants.total =
        (struct sched_amount){.core = b->pool->core, .memory = b->pool->sums.memory};
    sched_queue_init(&b->queue, b->pool, &b->tenants);
    b->queue.place = place;
    b->queue.arg = b;
    for (unsigned i = 0; i < TENANTS; i++) {
        snprintf(name, sizeof(name), "tenant%u", i);
        b->tenant[i] = sched_tenant_ref(&b->tenants, name);
        if (!b->tenant[i])
            return -1;
        b->tenant[i]->limit = (struct sched_amount){
            .core = b->pool->core / 300, .memory = b->pool->sums.memory / 300};
    }
    for (unsigned i = 0; i < 8; i++)
        snprintf(b->where[i].labels, SCHED_LABELS_MAX, "rack=r%u", i);
    snprintf(b->where[8].model, SCHED_MODEL_MAX, "*H100*");
    snprintf(b->where[9].model, SCHED_MODEL_MAX, "*A100*");
    while (sched_pool_freed(b->pool))
        ;
    return 0;
}

/* Mostly small fractions of one card; a third select cards, some want several. */
static struct sched_request
draw(struct bench *b)
{
    struct sched_request req = {.placement = SCHED_BINPACK};
    uint32_t kind = roll(b, 20);

    sched_request_shape(&req, 5 * (1 + roll(b, 6)), (1 + roll(b, 12)) * GIB,
                        kind == 0 ? 2 + roll(b, 3) : 0, 0, NULL);
    if (kind >= 14)
        req.where = &b->where[roll(b, 10)];
    return req;
}

static struct sched_amount
amount_of(const struct sched_request *req)
{
    return (struct sched_amount){(uint64_t)req->core * req->cards,
                                 req->memory * req->cards, req->cards};
}

/* ------------------------------------------------------------------- operations -- */

static void
take(struct bench *b, const struct sched_decision *d, struct sched_tenant *tenant)
{
    struct session *s = &b->live[(b->first + b->n++) % b->cap];
    struct sched_amount amount = {.cards = d->n_slices};

    s->n = (uint8_t)d->n_slices;
    s->tenant = tenant;
    for (uint32_t i = 0; i < d->n_slices; i++) {
        const struct sched_slice *slice = &d->slices[i];

        sched_pool_take(b->pool, slice->card, slice->core, slice->memory, false);
        s->cards[i] = slice->card;
        s->core[i] = (uint8_t)slice->core;
        s->memory[i] = slice->memory;
        amount.core += slice->core;
        amount.memory += slice->memory;
    }
    sched_tenant_charge(tenant, &amount);
    if (tenant->lines)
        sched_queue_tenant_changed(&b->queue, tenant);
}

static bool
open_one(struct bench *b, const struct sched_request *req)
{
    struct sched_tenant *tenant = b->tenant[roll(b, TENANTS)];
    struct sched_amount amount = amount_of(req);
    struct sched_decision d;

    if (b->n == b->cap || sched_tenant_check(tenant, &amount, NULL, 0) < 0 ||
        sched_place(b->pool, req, &d) < 0) {
        b->refused++;
        return false;
    }
    take(b, &d, tenant);
    b->granted++;
    return true;
}

static void
end_oldest(struct bench *b)
{
    struct session *s = &b->live[b->first];
    struct sched_amount amount = {.cards = s->n};

    if (!b->n)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        sched_pool_give(b->pool, s->cards[i], s->core[i], s->memory[i]);
        amount.core += s->core[i];
        amount.memory += s->memory[i];
    }
    sched_tenant_uncharge(s->tenant, &amount);
    if (s->tenant->lines)
        sched_queue_tenant_changed(&b->queue, s->tenant);
    b->first = (b->first + 1) % b->cap;
    b->n--;
}

/* Who waits and fits is served, and another comes in its place. */
static void
serve(struct bench *b)
{
    struct sched_card *card;
    struct sched_decision d;
    struct sched_waiter *w;

    while ((card = sched_pool_freed(b->pool)))
        while ((w = sched_queue_serve_card(&b->queue, card, &d)) && b->n < b->cap) {
            sched_queue_remove(&b->queue, w);
            take(b, &d, w->tenant);
            b->served++;
            w->arrived++;
            w->amount = amount_of(&w->req);
            sched_queue_add(&b->queue, w, NULL);
        }
}

/* They want more than a filled pool has: whole cards, or most of several. */
static int
fill_queue(struct bench *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct sched_waiter *w = calloc(1, sizeof(*w));

        if (!w)
            return -1;
        w->req.placement = SCHED_BINPACK;
        sched_request_shape(&w->req, 60 + 5 * (i % 8), (20 + i % 50) * GIB,
                            i % 10 ? 1 : 4, 0, NULL);
        if (i % 3 == 0)
            w->req.where = &b->where[i % 10];
        w->tenant = b->tenant[i % TENANTS];
        w->tenant->refs++;
        w->priority = i % 3;
        w->arrived = i;
        w->amount = amount_of(&w->req);
        if (sched_queue_add(&b->queue, w, NULL) < 0)
            return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------ measurement -- */

static int
by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* End, serve, open: the life of a full pool. */
static void
measure_life(struct bench *b, uint32_t *ns, size_t count)
{
    uint64_t cpu = 0, ends = 0;
    uint64_t tries = b->queue.tries;

    b->granted = b->refused = b->served = 0;
    for (size_t i = 0; i < count; i += BATCH) {
        uint64_t from = cpu_ns(), middle;

        for (size_t k = 0; k < BATCH; k++) {
            end_oldest(b);
            serve(b);
        }
        middle = cpu_ns();
        for (size_t k = i; k < i + BATCH; k++) {
            struct sched_request req = draw(b);
            uint64_t start = gp_now_ns();

            open_one(b, &req);
            ns[k] = (uint32_t)gp_min(gp_now_ns() - start, (uint64_t)UINT32_MAX);
        }
        ends += middle - from;
        cpu += cpu_ns() - middle;
    }
    qsort(ns, count, sizeof(ns[0]), by_value);
    printf("placement_per_s %.0f\n", 1e9 * (double)count / (double)cpu);
    printf("placement_p50_us %.2f\n", ns[count / 2] / 1e3);
    printf("placement_p99_ms %.5f\n", ns[count * 99 / 100] / 1e6);
    printf("queue_end_per_s %.0f\n", 1e9 * (double)count / (double)ends);
    printf("queue_tries_per_end %.3f\n",
           (double)(b->queue.tries - tries) / (double)count);
    printf("queue_served %llu\n", (unsigned long long)b->served);
    printf("placement_refused %.4f\n", (double)b->refused / (double)count);
}

static double
refusal_ns(struct bench *b, size_t count, bool explain)
{
    static struct sched_reasons reasons;
    struct sched_request req = {.placement = SCHED_BINPACK};
    struct sched_decision d;
    uint64_t from;

    sched_request_shape(&req, 100, 200 * GIB, 0, 0, NULL); /* no card is so large */
    from = cpu_ns();
    for (size_t i = 0; i < count; i++) {
        if (sched_place(b->pool, &req, &d) == 0)
            return 0;
        if (explain)
            sched_place_explain(b->pool, &req, NULL, &reasons);
        else
            sched_place_refusal(b->pool, &req, &reasons);
    }
    return (double)(cpu_ns() - from) / (double)count;
}

static int
number(int argc, char **argv, int at, uint64_t most, uint64_t *ret)
{
    return argc > at ? gp_str_u64(argv[at], 8, most, ret) : 0;
}

int
main(int argc, char **argv)
{
    uint64_t cards = 100000, sessions = 500000, waiting = 10000, count = 200000;
    struct bench b = {.seed = 1};
    uint32_t *ns;

    if (number(argc, argv, 1, 200000, &cards) ||
        number(argc, argv, 2, 2000000, &sessions) ||
        number(argc, argv, 3, SCHED_QUEUE_MAX, &waiting) ||
        number(argc, argv, 4, 100000000, &count) || argc > 5) {
        fprintf(stderr, "usage: scheduler [CARDS [SESSIONS [WAITING [DECISIONS]]]]\n");
        return 2;
    }
    count -= count % BATCH;
    b.cap = sessions + 1000;
    b.live = calloc(b.cap, sizeof(b.live[0]));
    ns = calloc(count, sizeof(ns[0]));
    if (!b.live || !ns || make(&b, (unsigned)cards) < 0) {
        fprintf(stderr, "scheduler: out of memory\n");
        return 1;
    }
    for (uint64_t i = 0; i < 2 * sessions && b.n < sessions; i++) {
        struct sched_request req = draw(&b);

        open_one(&b, &req);
    }
    if (fill_queue(&b, (unsigned)waiting) < 0) {
        fprintf(stderr, "scheduler: the queue cannot be filled\n");
        return 1;
    }
    printf("scheduler_cards %u\n", b.pool->n_cards);
    printf("scheduler_sessions %zu\n", b.n);
    printf("scheduler_waiting %u\n", b.queue.n);
    measure_life(&b, ns, count);
    printf("refusal_us %.2f\n", refusal_ns(&b, 2000, false) / 1e3);
    printf("refusal_of_all_cards_us %.2f\n", refusal_ns(&b, 20, true) / 1e3);
    return 0; /* the system takes the memory back */
}
