/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A week of a cluster, played through the real placement, index and queue.
 *
 *     week [PART [LOAD [SEED]]]        a PART-th (8) of the cluster at 100 % load by
 * default
 *
 * The cluster and the requests follow published statistics of a production cluster:
 * 6,212 cards in 1,213 servers, and the population of requests by cards (Weng et al.,
 * "Beware of Fragmentation", USENIX ATC 2023, table 1, without the tasks that want no
 * card); the sizes of partial requests are those of its published list of tasks
 * (Alibaba cluster-trace-gpu-v2023).  Servers have 8 or 2 cards, as many of each as
 * make these sums.  Durations are log-normal around the median of 23 minutes, and
 * arrivals follow the day, as in "MLaaS in the Wild" (NSDI 2022).  What nobody
 * published is made up: the spread of durations, the height of the day, and how much of
 * a card's memory a request wants (that of its share, times 0.5 to 1.25).
 *
 * LOAD is the mean demand for core, in percent of what there is: with 100 the days are
 * over what fits, and the nights under it.
 *
 * Each policy sees the same requests.  Who does not fit waits in the product's queue
 * and is served as there, with cards kept for those who wait long.  The first fit and
 * the heuristic as published (which look at every card) are here; the others are the
 * product's.  Prints two lines per policy: how full it makes the pool when nothing
 * ends, and the week.
 */
#include "gp_hash.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_hold.h"
#include "sched_mix.h"
#include "sched_queue.h"
#include "sched_several.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define GIB (UINT64_C(1) << 30)
#define CARD_MEMORY (32 * GIB)
#define WEEK (7 * 24 * 3600.0) /* seconds */
#define DAY (24 * 3600.0)
#define MEDIAN (23 * 60.0)
#define SIGMA 1.6      /* of the logarithm: the longest thousandth is two days */
#define DAY_SWING 0.35 /* the busiest hour has so much more than the mean */
#define HOLDS 16       /* as SCHED_HOLDS_MAX */
#define HOLD_AFTER 60.0

/* Of the requests that want a card, in hundredths of a percent. */
static const struct {
    unsigned cards, population;
    bool part;
} POPULATION[] = {
    {1, 4360, true}, {1, 5537, false}, {2, 23, false}, {4, 23, false}, {8, 57, false},
};

/* Percent of a card that partial requests want, and how many of a run of 225 tasks of
 * the published list do. */
static const struct {
    unsigned core, count;
} PARTS[] = {
    {11, 1},  {16, 5}, {22, 6}, {32, 14}, {46, 9},
    {47, 45}, {48, 1}, {59, 1}, {65, 14}, {81, 32},
};

enum policy { FIRST_FIT, BINPACK, SPREAD, FGD_EXACT, FGD, POLICIES };

static const char *const NAMES[POLICIES] = {
    [FIRST_FIT] = "first-fit",      [BINPACK] = "binpack", [SPREAD] = "spread",
    [FGD_EXACT] = "fgd-every-card", [FGD] = "fgd",
};

struct task {
    struct sched_waiter waiter; /* while it waits */
    double arrives, runs, waited;
    double ends;                /* while it runs */
    struct sched_target target; /* cards kept for it */
    struct sched_decision at;
    bool kept, placed;
};

struct sim {
    enum policy policy;
    struct sched_pool *pool;
    struct sched_tenants tenants;
    struct sched_queue queue;
    struct sched_tenant *tenant;
    struct sched_mix mix; /* the true one: what fragments are counted by */
    struct task *tasks;
    size_t n_tasks, next, n_running;
    struct task **heap; /* that run, the first to end first */
    struct task *holds[HOLDS];
    unsigned n_holds;
    double now, last_hold;
    /* Sums over time. */
    double given, fragments, full, full_given, span;
    uint64_t decisions, decision_ns;
};

/* ------------------------------------------------------------------ the tasks -- */

static uint64_t seed;

static double
uniform(void)
{
    return ((double)(gp_hash_u64(++seed) >> 11) + 0.5) / 9007199254740992.0;
}

static double
normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static struct sched_request
draw_request(void)
{
    struct sched_request req = {.placement = SCHED_BINPACK};
    unsigned at = (unsigned)(uniform() * 10000), kind = 0, core = 100;

    while (kind + 1 < ARRAY_SIZE(POPULATION) && at >= POPULATION[kind].population)
        at -= POPULATION[kind++].population;
    if (POPULATION[kind].part) {
        unsigned n = (unsigned)(uniform() * 128), part = 0;

        while (part + 1 < ARRAY_SIZE(PARTS) && n >= PARTS[part].count)
            n -= PARTS[part++].count;
        core = PARTS[part].core;
    }
    sched_request_shape(
        &req, core * POPULATION[kind].cards,
        core == 100 ? 0
                    : gp_min((uint64_t)((double)CARD_MEMORY * core *
                                        (0.5 + 0.25 * (int)(uniform() * 4)) / 100),
                             CARD_MEMORY),
        0, 0, NULL);
    return req;
}

/* Mean core percent times seconds that a task takes. */
static double
mean_work(void)
{
    uint64_t old = seed;
    double sum = 0;

    for (int i = 0; i < 20000; i++) {
        struct sched_request req = draw_request();

        sum += req.core * req.cards;
    }
    seed = old;
    return sum / 20000 * MEDIAN * exp(SIGMA * SIGMA / 2);
}

static int
by_arrival(const void *a, const void *b)
{
    const struct task *x = a, *y = b;

    return (x->arrives > y->arrives) - (x->arrives < y->arrives);
}

/* The same for every policy. */
static size_t
make_tasks(struct task **ret, unsigned cards, double load)
{
    size_t n = (size_t)(load / 100 * cards * 100 * WEEK / mean_work());
    struct task *tasks = calloc(n + 1, sizeof(*tasks));

    for (size_t i = 0; tasks && i < n; i++) {
        do /* by rejection, from the rate of the day */
            tasks[i].arrives = WEEK * uniform();
        while (uniform() * (1 + DAY_SWING) >
               1 - DAY_SWING * cos(2 * M_PI * tasks[i].arrives / DAY));
        tasks[i].runs = gp_min(MEDIAN * exp(SIGMA * normal()), WEEK);
        tasks[i].waiter.req = draw_request();
    }
    if (tasks)
        qsort(tasks, n, sizeof(*tasks), by_arrival);
    *ret = tasks;
    return tasks ? n : 0;
}

/* -------------------------------------------------------------------- the pool -- */

static int
add_server(struct sched_pool *pool, unsigned number, unsigned cards)
{
    struct sched_server *server;
    struct sched_card *card;
    char name[32];

    snprintf(name, sizeof(name), "n%u", number);
    if (sched_pool_server_add(pool, name, &server, NULL) < 0)
        return -1;
    server->alive = true;
    for (unsigned i = 0; i < cards; i++) {
        struct sched_card_facts facts = {.memory = CARD_MEMORY, .index = i};

        memcpy(facts.uuid, &(uint64_t){(uint64_t)number << 8 | i}, 8);
        if (sched_pool_card_put(pool, server, &facts, &card, NULL) < 0)
            return -1;
    }
    return 0;
}

/* 631 servers of 8 cards and 582 of 2, by @scale, in turns. */
static struct sched_pool *
make_pool(double scale)
{
    struct sched_pool *pool = sched_pool_new();
    unsigned large = (unsigned)(631 * scale), small = (unsigned)(582 * scale), n = 0;

    for (unsigned i = 0; pool && i < gp_max(large, small); i++)
        if ((i < large && add_server(pool, n++, 8) < 0) ||
            (i < small && add_server(pool, n++, 2) < 0))
            return NULL;
    return pool;
}

/* ---------------------------------------------- policies that look at every card -- */

static int
first_fit(const struct sched_pool *pool, const struct sched_request *req,
          struct sched_decision *ret)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        struct sched_decision d = {.n_slices = 0};

        for (unsigned i = 0; i < s->n_cards && d.n_slices < req->cards; i++)
            if (sched_card_fits(s->cards[i], req))
                sched_decide(&d, req, s->cards[i]);
        if (d.n_slices < req->cards)
            continue;
        *ret = d;
        return 0;
    }
    return -ENOSPC;
}

/* Every server, and for one card every card of it. */
static int
fgd_exact(const struct sched_pool *pool, const struct sched_request *req,
          struct sched_decision *ret)
{
    double least = 0;
    bool found = false;

    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        double before = sched_mix_fragments(&pool->mix, s, NULL, 0);

        for (unsigned i = 0; i < (req->cards > 1 ? 1 : s->n_cards); i++) {
            struct sched_decision d = {.n_slices = 0};
            double grows;

            if (req->cards > 1) {
                if (sched_several_on(s, req, &d) < 0)
                    continue;
            } else if (sched_card_fits(s->cards[i], req)) {
                sched_decide(&d, req, s->cards[i]);
            } else {
                continue;
            }
            grows = sched_mix_fragments(&pool->mix, s, d.slices, d.n_slices) - before;
            if (found && grows >= least)
                continue;
            least = grows;
            found = true;
            *ret = d;
        }
    }
    return found ? 0 : -ENOSPC;
}

static int
place(void *arg, const struct sched_waiter *waiter, struct sched_decision *ret)
{
    struct sim *sim = arg;
    struct sched_request req = waiter->req;
    uint64_t start = gp_now_ns();
    int r;

    if (sim->policy == FIRST_FIT) {
        r = first_fit(sim->pool, &req, ret);
    } else if (sim->policy == FGD_EXACT) {
        r = fgd_exact(sim->pool, &req, ret);
    } else {
        req.placement = sim->policy == SPREAD ? SCHED_SPREAD
                        : sim->policy == FGD  ? SCHED_FGD
                                              : SCHED_BINPACK;
        r = sched_place(sim->pool, &req, ret);
    }
    sim->decisions++;
    sim->decision_ns += gp_now_ns() - start;
    return r;
}

/* ---------------------------------------------------------------------- running -- */

static void
heap_down(struct sim *sim, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < sim->n_running; i = child) {
        struct task *moved = sim->heap[i];

        if (child + 1 < sim->n_running &&
            sim->heap[child + 1]->ends < sim->heap[child]->ends)
            child++;
        if (moved->ends <= sim->heap[child]->ends)
            return;
        sim->heap[i] = sim->heap[child];
        sim->heap[child] = moved;
    }
}

static void
heap_add(struct sim *sim, struct task *task)
{
    size_t i = sim->n_running++;

    for (; i && sim->heap[(i - 1) / 2]->ends > task->ends; i = (i - 1) / 2)
        sim->heap[i] = sim->heap[(i - 1) / 2];
    sim->heap[i] = task;
}

static void
release(struct sim *sim, struct task *task)
{
    for (unsigned i = 0; i < sim->n_holds; i++)
        if (sim->holds[i] == task)
            sim->holds[i--] = sim->holds[--sim->n_holds];
    for (unsigned i = 0; task->kept && i < task->target.n; i++)
        sched_pool_hold(sim->pool, task->target.cards[i], NULL);
    task->kept = false;
}

static void
start(struct sim *sim, struct task *task, const struct sched_decision *d)
{
    sched_queue_remove(&sim->queue, &task->waiter);
    release(sim, task);
    task->at = *d;
    for (uint32_t i = 0; i < d->n_slices; i++)
        if (sched_pool_take(sim->pool, d->slices[i].card, d->slices[i].core,
                            d->slices[i].memory, false) < 0) {
            fprintf(stderr, "week: %s gave what is not there\n", NAMES[sim->policy]);
            exit(1);
        }
    task->waited = sim->now - task->arrives;
    task->placed = true;
    task->ends = sim->now + task->runs;
    heap_add(sim, task);
}

static struct task *
task_of(struct sched_waiter *waiter)
{
    return waiter ? container_of(waiter, struct task, waiter) : NULL;
}

/* What is kept for somebody counts for him first, as in sched_wait.c. */
static void
serve(struct sim *sim)
{
    struct sched_decision d;
    struct sched_card *card;
    struct task *task;

    while ((card = sched_pool_freed(sim->pool))) {
        if (card->hold) {
            task = (struct task *)(uintptr_t)card->hold;
            if (!sched_place_held(task->target.cards, task->target.n, &task->waiter.req,
                                  &d))
                start(sim, task, &d);
            continue;
        }
        while (sim->queue.n &&
               (task = task_of(sched_queue_serve_card(&sim->queue, card, &d))))
            start(sim, task, &d);
    }
}

/* Cards for the oldest who wait longer than a minute, sixteen at most. */
static void
keep(struct sim *sim)
{
    struct sched_waiter *w = sched_queue_oldest(&sim->queue);

    if (sim->now - sim->last_hold < HOLD_AFTER)
        return;
    sim->last_hold = sim->now;
    for (unsigned i = 0; w && sim->n_holds < HOLDS && i < 64;
         w = sched_queue_younger(&sim->queue, w), i++) {
        struct task *task = task_of(w);

        if (sim->now - task->arrives < HOLD_AFTER || task->kept ||
            sched_hold_choose(sim->pool, &w->req, 1, NULL, &task->target) < 0)
            continue;
        task->kept = true;
        sim->holds[sim->n_holds++] = task;
        for (unsigned k = 0; k < task->target.n; k++)
            sched_pool_hold(sim->pool, task->target.cards[k], task);
    }
}

static void
end_first(struct sim *sim)
{
    struct task *task = sim->heap[0];

    sim->heap[0] = sim->heap[--sim->n_running];
    heap_down(sim, 0);
    for (uint32_t i = 0; i < task->at.n_slices; i++)
        sched_pool_give(sim->pool, task->at.slices[i].card, task->at.slices[i].core,
                        task->at.slices[i].memory);
}

static void
arrive(struct sim *sim)
{
    struct task *task = &sim->tasks[sim->next++];
    struct sched_waiter *w = &task->waiter;
    struct sched_decision d;

    sched_mix_note(&sim->pool->mix, &w->req);
    if (!place(sim, w, &d)) {
        start(sim, task, &d);
        return;
    }
    w->tenant = sim->tenant;
    w->arrived = (uint64_t)(sim->now * 1e6);
    w->amount = (struct sched_amount){(uint64_t)w->req.core * w->req.cards,
                                      w->req.memory * w->req.cards, w->req.cards};
    if (sched_queue_add(&sim->queue, w, NULL) < 0) {
        fprintf(stderr, "week: the queue is full; try a smaller load\n");
        exit(1);
    }
}

/* Time passes with the pool as it is.  Fragments are counted once in ten minutes. */
static void
pass(struct sim *sim, double until)
{
    double step = until - sim->now, core = (double)sim->pool->core;

    sim->given += step * (double)sim->pool->sums.core_given / core;
    if (sim->queue.n) {
        sim->full += step;
        sim->full_given += step * (double)sim->pool->sums.core_given / core;
    }
    if ((uint64_t)(sim->now / 600) != (uint64_t)(until / 600)) {
        double sum = 0;

        for (const struct sched_server *s = sim->pool->servers; s; s = s->next)
            sum += sched_mix_fragments(&sim->mix, s, NULL, 0);
        sim->fragments += sum / core;
        sim->span++;
    }
    sim->now = until;
}

static void
run(struct sim *sim)
{
    while (sim->now < WEEK) {
        double ends = sim->n_running ? sim->heap[0]->ends : INFINITY;
        double comes =
            sim->next < sim->n_tasks ? sim->tasks[sim->next].arrives : INFINITY;
        double next = gp_min(gp_min(ends, comes), WEEK);

        pass(sim, next);
        if (next == WEEK)
            return;
        if (ends <= comes)
            end_first(sim);
        else
            arrive(sim);
        serve(sim);
        keep(sim);
        serve(sim);
    }
}

/* --------------------------------------------------------------------- results -- */

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
share(const double *sorted, size_t n, double q)
{
    return n ? sorted[(size_t)(q * (double)(n - 1))] : 0;
}

/* A task that still waits has waited until now. */
static void
print(struct sim *sim)
{
    double *waits = calloc(sim->n_tasks + 1, sizeof(*waits)), sum = 0, large = 0;
    size_t n = 0, n_large = 0;

    for (size_t i = 0; waits && i < sim->next; i++) {
        const struct task *task = &sim->tasks[i];
        double waited = task->placed ? task->waited : sim->now - task->arrives;

        waits[n++] = waited;
        sum += waited;
        if (task->waiter.req.cards < 8)
            continue;
        large += waited;
        n_large++;
    }
    if (!waits)
        exit(1);
    qsort(waits, n, sizeof(*waits), by_value);
    printf("%s tasks %zu utilisation %.2f full_utilisation %.2f full_time %.2f "
           "fragmentation %.3f wait_mean_min %.2f wait_p95_min %.2f wait_p99_min %.2f "
           "wait_of_8_cards_min %.1f left_waiting %u decision_us %.2f\n",
           NAMES[sim->policy], sim->next, 100 * sim->given / WEEK,
           sim->full > 0 ? 100 * sim->full_given / sim->full : 0,
           100 * sim->full / WEEK, 100 * sim->fragments / gp_max(sim->span, 1.0),
           n ? sum / (double)n / 60 : 0, share(waits, n, 0.95) / 60,
           share(waits, n, 0.99) / 60, n_large ? large / (double)n_large / 60 : 0,
           sim->queue.n, (double)sim->decision_ns / 1e3 / (double)sim->decisions);
    fflush(stdout);
    free(waits);
}

/* The experiment that the heuristic was published with: requests come and nothing ends,
 * until 130 % of the pool was asked for.  How much of it is given? */
static void
fill(struct sim *sim)
{
    uint64_t asked = 0;

    while (asked < sim->pool->core * 13 / 10) {
        struct sched_waiter w = {.req = draw_request()};
        struct sched_decision d;

        asked += (uint64_t)w.req.core * w.req.cards;
        sched_mix_note(&sim->pool->mix, &w.req);
        if (place(sim, &w, &d) < 0)
            continue;
        for (uint32_t i = 0; i < d.n_slices; i++)
            sched_pool_take(sim->pool, d.slices[i].card, d.slices[i].core,
                            d.slices[i].memory, false);
    }
    printf("%s filled %.2f\n", NAMES[sim->policy],
           100 * (double)sim->pool->sums.core_given / (double)sim->pool->core);
    fflush(stdout);
}

static int
play_fill(enum policy policy, double scale, uint64_t first_seed)
{
    struct sim sim = {.policy = policy, .pool = make_pool(scale)};

    if (!sim.pool)
        return -1;
    seed = first_seed;
    fill(&sim);
    return 0;
}

static int
play(enum policy policy, double scale, double load, uint64_t first_seed)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    if (!sim)
        return -1;
    sim->policy = policy;
    sim->pool = make_pool(scale);
    if (!sim->pool)
        return -1;
    seed = first_seed;
    sim->n_tasks = make_tasks(&sim->tasks, sim->pool->n_cards, load);
    sim->heap = calloc(sim->n_tasks + 1, sizeof(*sim->heap));
    sim->tenants.total = (struct sched_amount){.core = sim->pool->core,
                                               .memory = sim->pool->sums.memory};
    sim->tenant = sched_tenant_ref(&sim->tenants, "all");
    if (!sim->n_tasks || !sim->heap || !sim->tenant)
        return -1;
    sched_queue_init(&sim->queue, sim->pool, &sim->tenants);
    sim->queue.place = place;
    sim->queue.arg = sim;
    for (unsigned i = 0; i < SCHED_MIX_SUM - 1; i++) {
        struct sched_request req = draw_request();

        sched_mix_note(&sim->mix, &req);
    }
    while (sched_pool_freed(sim->pool))
        ;
    run(sim);
    print(sim);
    return 0; /* the system takes the memory back */
}

int
main(int argc, char **argv)
{
    uint64_t part = 8, load = 100, first_seed = 1;

    if ((argc > 1 && gp_str_u64(argv[1], 1, 100, &part)) ||
        (argc > 2 && gp_str_u64(argv[2], 1, 200, &load)) ||
        (argc > 3 && gp_str_u64(argv[3], 0, UINT32_MAX, &first_seed)) || argc > 4) {
        fprintf(stderr, "usage: week [PART [LOAD [SEED]]]\n");
        return 2;
    }
    for (unsigned policy = 0; policy < POLICIES; policy++)
        if (play_fill((enum policy)policy, 1.0 / (double)part, first_seed << 32) < 0 ||
            play((enum policy)policy, 1.0 / (double)part, (double)load,
                 first_seed << 32) < 0) {
            fprintf(stderr, "week: out of memory\n");
            return 1;
        }
    return 0;
}
