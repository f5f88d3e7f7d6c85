/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated workers on the accounting of one card, against a virtual clock: kernels of
 * all lengths, pauses, whoever reports nothing.
 */
#ifndef UT_GOV_SIM_H
#define UT_GOV_SIM_H

#include "ut.h"

#include "ut_gov_card.h"

#include <math.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)
#define S UINT64_C(1000000000)

/* One simulated worker: always or now and then busy, kernels of a length in a range. */
struct sim_worker {
    int slot;
    uint64_t session;
    uint64_t kernel_min, kernel_max;
    uint64_t think; /* pause after a kernel, 0: the next one is ready at once */
    enum { READY, WAITING, RUNNING, THINKING, GONE } state;
    uint64_t at;    /* when the state ends by itself */
    uint64_t begun; /* RUNNING */
    uint64_t ran;   /* card time used */
    uint64_t wait_from, wait_max;
};

struct sim {
    struct gov_card *card;
    struct sim_worker w[64];
    unsigned n;
    uint64_t silent; /* a session that reports nothing */
    uint64_t now, switches, busy, rng;
    unsigned on_card; /* sessions with work on the card: must never be two */
};

static inline uint64_t
rnd(struct sim *sim, uint64_t n)
{
    sim->rng = sim->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (sim->rng >> 33) % n;
}

static inline struct gov_share
share(enum gov_policy policy, uint32_t core)
{
    return (struct gov_share){.policy = policy, .core = core};
}

static inline void
sim_new(struct sim *sim)
{
    *sim = (struct sim){.rng = 42, .now = 5 * S};
    sim->card = calloc(1, sizeof(*sim->card));
    assert_non_null(sim->card);
}

static inline void
sim_free(struct sim *sim)
{
    free(sim->card);
}

static inline struct sim_worker *
sim_add(struct sim *sim, uint64_t session, struct gov_share sh, uint64_t kmin,
        uint64_t kmax, uint64_t think)
{
    struct sim_worker *w = &sim->w[sim->n++];

    *w = (struct sim_worker){.session = session,
                             .kernel_min = kmin,
                             .kernel_max = kmax,
                             .think = think,
                             .wait_from = sim->now};
    w->slot = gov_card_join(sim->card, session, 1000 + (int)sim->n, &sh, sim->now);
    assert_true(w->slot >= 0);
    return w;
}

/* Nobody else is on the card, unless both have multiprocessors of their own. */
static inline void
no_other_session_runs(const struct sim *sim, const struct sim_worker *self)
{
    const struct gov_tenant *a = tenant_of(sim->card, self->slot);

    for (unsigned i = 0; i < sim->n; i++) {
        const struct gov_tenant *b = tenant_of(sim->card, sim->w[i].slot);

        if (sim->w[i].state == RUNNING && sim->w[i].session != self->session &&
            (!a->in_space || !b->in_space || (a->units & b->units)))
            fail_msg("two sessions on the card at %lu", (unsigned long)sim->now);
    }
}

static inline void
begin_kernel(struct sim *sim, struct sim_worker *w)
{
    no_other_session_runs(sim, w);
    w->state = RUNNING;
    w->begun = sim->now;
    w->at = sim->now + w->kernel_min + rnd(sim, w->kernel_max - w->kernel_min + 1);
}

static inline void
try_begin(struct sim *sim, struct sim_worker *w)
{
    uint64_t until;

    if (gov_card_ask(sim->card, w->slot, sim->now, &until)) {
        w->wait_max = gp_max(w->wait_max, sim->now - w->wait_from);
        sim->switches++;
        begin_kernel(sim, w);
    } else {
        w->state = WAITING;
        assert_true(until > sim->now);
        w->at = until;
    }
}

static inline void
end_kernel(struct sim *sim, struct sim_worker *w)
{
    w->ran += sim->now - w->begun;
    gov_card_report(sim->card, w->slot,
                    w->session == sim->silent ? 0 : sim->now - w->begun, sim->now);
    if (!w->think && gov_card_keep(sim->card, w->slot, sim->now)) {
        begin_kernel(sim, w);
        return;
    }
    w->state = w->think ? THINKING : READY;
    w->at = sim->now + w->think;
    gov_card_drained(sim->card, w->slot, sim->now);
    w->wait_from = w->at;
}

static inline void
step(struct sim *sim, struct sim_worker *w)
{
    if (w->state == RUNNING)
        end_kernel(sim, w);
    else
        try_begin(sim, w);
}

/* Everybody whom a change of the futex word would wake looks again. */
static inline void
wake_waiters(struct sim *sim)
{
    uint32_t seq;

    do {
        seq = sim->card->seq;
        for (unsigned i = 0; i < sim->n; i++)
            if (sim->w[i].state == WAITING || sim->w[i].state == READY)
                try_begin(sim, &sim->w[i]);
    } while (seq != sim->card->seq);
}

static inline void
sim_run(struct sim *sim, uint64_t span)
{
    uint64_t end = sim->now + span;

    wake_waiters(sim);
    for (;;) {
        struct sim_worker *next = NULL;
        bool running = false;

        for (unsigned i = 0; i < sim->n; i++) {
            struct sim_worker *w = &sim->w[i];

            running |= w->state == RUNNING;
            if (w->state != GONE && (!next || w->at < next->at))
                next = w;
        }
        if (!next || next->at >= end)
            break;
        if (running)
            sim->busy += next->at - sim->now;
        sim->now = next->at;
        step(sim, next);
        wake_waiters(sim);
    }
    sim->now = end;
}

/* Percent of @span that worker @i ran since the last call. */
static inline double
part(struct sim *sim, unsigned i, uint64_t span)
{
    double p = 100.0 * (double)sim->w[i].ran / (double)span;

    sim->w[i].ran = 0;
    return p;
}

static inline void
expect_near(double got, double want, double off)
{
    if (fabs(got - want) > off)
        fail_msg("%.2f, expected %.2f within %.2f", got, want, off);
}

#endif
