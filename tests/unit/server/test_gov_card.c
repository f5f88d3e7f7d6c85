/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter of a card against a virtual clock: simulated workers with kernels of all
 * lengths, random arrivals, kills and policy changes.
 */
#include "ut.h"

#include "gov_card.h"
#include "ut_gov_sim.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* --- promises --- */

static void
lone_fixed_share_gets_its_part_and_no_more(void **state)
{
    static const uint32_t cores[] = {5, 10, 30, 50, 75, 100};

    for (size_t i = 0; i < ARRAY_SIZE(cores); i++) {
        struct sim sim;

        sim_new(&sim);
        sim_add(&sim, 1, share(GOV_FIXED_SHARE, cores[i]), 20 * US, 20 * MS, 0);
        sim_run(&sim, 2 * S); /* settling */
        part(&sim, 0, 1);
        sim_run(&sim, 20 * S);
        expect_near(part(&sim, 0, 20 * S), cores[i], 0.5);
        sim_free(&sim);
    }
}

static void
lone_tenant_without_ceiling_is_never_stopped(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 10), 20 * US, 50 * US, 0);
    sim_run(&sim, 10 * S);
    expect_near(part(&sim, 0, 10 * S), 100, 0.01);
    assert_true(sim.switches == 1);
    sim_free(&sim);
}

static void
mixed_shares(enum gov_policy policy, const uint32_t *cores, unsigned n, uint64_t kmin,
             uint64_t kmax)
{
    struct sim sim;

    sim_new(&sim);
    for (unsigned i = 0; i < n; i++)
        sim_add(&sim, i + 1, share(policy, cores[i]), kmin, kmax, 0);
    sim_run(&sim, 4 * S);
    for (unsigned i = 0; i < n; i++)
        part(&sim, i, 1);
    sim.busy = 0;
    sim_run(&sim, 40 * S);
    for (unsigned i = 0; i < n; i++)
        expect_near(part(&sim, i, 40 * S), cores[i], 1.0);
    sim_free(&sim);
}

static void
fixed_shares_that_fill_the_card_hold_side_by_side(void **state)
{
    static const uint32_t a[] = {10, 90}, b[] = {30, 60}, c[] = {25, 25, 50},
                          d[] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9};

    for (int long_kernels = 0; long_kernels < 2; long_kernels++) {
        uint64_t kmax = long_kernels ? 20 * MS : 200 * US;

        mixed_shares(GOV_FIXED_SHARE, a, 2, 20 * US, kmax);
        mixed_shares(GOV_FIXED_SHARE, b, 2, 20 * US, kmax);
        mixed_shares(GOV_FIXED_SHARE, c, 3, 20 * US, kmax);
        mixed_shares(GOV_FIXED_SHARE, d, 10, 20 * US, kmax);
    }
}

static void
burst_shares_that_fill_the_card_hold_side_by_side(void **state)
{
    static const uint32_t a[] = {10, 90}, c[] = {25, 25, 50};

    mixed_shares(GOV_BURST_SHARE, a, 2, 20 * US, 20 * MS);
    mixed_shares(GOV_BURST_SHARE, c, 3, 20 * US, 20 * MS);
}

static void
short_kernels_hold_against_long_ones(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), 20 * US, 20 * US, 0);
    sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), 20 * MS, 20 * MS, 0);
    sim_run(&sim, 20 * S);
    expect_near(part(&sim, 0, 20 * S), 50, 1);
    expect_near(part(&sim, 1, 20 * S), 50, 1);
    sim_free(&sim);
}

static void
idle_time_goes_to_who_bursts_and_comes_back_when_claimed(void **state)
{
    struct sim sim;
    struct sim_worker *claimer;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 20), MS, 2 * MS, 0);
    claimer = sim_add(&sim, 2, share(GOV_BURST_SHARE, 80), MS, 2 * MS, 1000 * S);
    sim_run(&sim, 5 * S);
    part(&sim, 0, 1);
    sim_run(&sim, 5 * S);
    expect_near(part(&sim, 0, 5 * S), 100, 0.1);
    claimer->think = 0;
    claimer->at = claimer->wait_from = sim.now;
    claimer->wait_max = 0;
    part(&sim, 1, 1);
    sim_run(&sim, 5 * S);
    expect_near(part(&sim, 1, 5 * S), 80, 1);
    assert_true(claimer->wait_max < 20 * MS);
    sim_free(&sim);
}

static void
soft_ceiling_caps_a_burst(void **state)
{
    struct gov_share sh = {.policy = GOV_BURST_SHARE, .core = 20, .core_limit = 45};
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, sh, 100 * US, 3 * MS, 0);
    sim_run(&sim, 2 * S);
    part(&sim, 0, 1);
    sim_run(&sim, 20 * S);
    expect_near(part(&sim, 0, 20 * S), 45, 0.5);
    sim_free(&sim);
}

static void
best_effort_divides_what_is_left_equally(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_FIXED_SHARE, 40), 100 * US, 5 * MS, 0);
    for (uint64_t i = 2; i <= 4; i++)
        sim_add(&sim, i, share(GOV_BEST_EFFORT, 1), 100 * US, 5 * MS, 0);
    sim_run(&sim, 4 * S);
    for (unsigned i = 0; i < 4; i++)
        part(&sim, i, 1);
    sim_run(&sim, 40 * S);
    expect_near(part(&sim, 0, 40 * S), 40, 1);
    for (unsigned i = 1; i < 4; i++)
        expect_near(part(&sim, i, 40 * S), 20, 1);
    sim_free(&sim);
}

static void
offline_runs_only_in_the_gaps_of_online(void **state)
{
    struct gov_share off = {.policy = GOV_BURST_SHARE, .core = 90, .offline = true};
    struct sim sim;
    struct sim_worker *online;

    sim_new(&sim);
    sim_add(&sim, 1, off, 2 * MS, 2 * MS, 0);
    online = sim_add(&sim, 2, share(GOV_BURST_SHARE, 10), MS, MS, 9 * MS);
    sim_run(&sim, 20 * S);
    /* It waits for the kernel under way at most. */
    assert_true(online->wait_max <= 2 * MS);
    expect_near(part(&sim, 1, 20 * S), 9, 1.5);
    expect_near(part(&sim, 0, 20 * S), 90, 2);
    online->think = 0;
    sim_run(&sim, S);
    part(&sim, 0, 1);
    sim_run(&sim, 5 * S);
    expect_near(part(&sim, 0, 5 * S), 0, 0.01);
    sim_free(&sim);
}

static void
many_workers_of_a_session_get_what_one_would(void **state)
{
    struct sim sim;
    double first = 0;

    sim_new(&sim);
    for (int i = 0; i < 6; i++) /* one session, six processes */
        sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), 100 * US, MS, 0);
    sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), 100 * US, MS, 0);
    sim_run(&sim, 20 * S);
    for (unsigned i = 0; i < 6; i++)
        first += part(&sim, i, 20 * S);
    expect_near(part(&sim, 6, 20 * S), 50, 2);
    assert_true(first >= 48); /* its six run at the same time: more than wall time */
    sim_free(&sim);
}

static void
overrun_is_repaid_exactly(void **state)
{
    struct sim sim;

    /* A kernel a hundred times the bucket: shares hold over a long time all the same.
     */
    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_FIXED_SHARE, 10), 2 * S, 2 * S, 0);
    sim_run(&sim, 400 * S);
    expect_near(part(&sim, 0, 400 * S), 10, 0.5);
    sim_free(&sim);
}

/* What was submitted in one turn and could not begin then runs in another's. */
static void
work_that_begins_out_of_turn_is_charged_and_repaid(void **state)
{
    struct gov_share sh = share(GOV_FIXED_SHARE, 20);
    struct gov_card *card;
    struct sim sim;
    uint64_t until;
    int late, other;

    sim_new(&sim);
    card = sim.card;
    late = gov_card_join(card, 1, 1, &sh, sim.now);
    other = gov_card_join(card, 2, 2, &sh, sim.now);
    sim.now += S;
    assert_true(gov_card_ask(card, other, sim.now, &until));
    gov_card_overrun(card, late, sim.now, sim.now);
    sim.now += MS;
    /* It ends nobody's turn, and gives none. */
    assert_true(gov_card_keep(card, other, sim.now));
    assert_false(gov_card_keep(card, late, sim.now));
    gov_card_report(card, other, MS, sim.now);
    gov_card_drained(card, other, sim.now);
    sim.now += 99 * MS;
    gov_card_report(card, late, 100 * MS, sim.now);
    gov_card_drained(card, late, sim.now);
    assert_int_equal(tenant_of(card, late)->charged_ns, 100 * MS);
    assert_true(gov_card_ask(card, other, sim.now, &until));
    gov_card_drained(card, other, sim.now);
    /* 100 ms are worth 500 ms of a fifth; 100 have passed, and a little was saved up.
     */
    while (!gov_card_ask(card, late, sim.now, &until))
        sim.now = until;
    expect_near((double)(sim.now - 6 * S) / 1e6, 490, 11);
    sim_free(&sim);
}

/* What a worker measured is its own claim. */
static void
who_reports_nothing_gets_a_third_more_at_most(void **state)
{
    static const uint32_t cores[] = {10, 50, 80};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct sim sim;

        sim_new(&sim);
        sim.silent = 1;
        sim_add(&sim, 1, share(GOV_BURST_SHARE, cores[i]), MS / 2, MS / 2, 0);
        sim_add(&sim, 2, share(GOV_BURST_SHARE, 100 - cores[i]), MS / 2, MS / 2, 0);
        sim_run(&sim, 20 * S);
        assert_true(part(&sim, 0, 20 * S) <= cores[i] * 4.0 / 3 + 1);
        assert_true(part(&sim, 1, 20 * S) >= 100 - cores[i] * 4.0 / 3 - 1);
        sim_free(&sim);
    }
}

/* The arbiter looks when a turn may be over, and kernels are reported when they end. */
static void
reports_that_lag_behind_a_look_are_charged_once(void **state)
{
    struct gov_share sh = share(GOV_BURST_SHARE, 50);
    struct gov_card *card;
    struct sim sim;
    uint64_t until;
    int slot, other;

    sim_new(&sim);
    card = sim.card;
    slot = gov_card_join(card, 1, 1, &sh, sim.now);
    other = gov_card_join(card, 2, 2, &sh, sim.now);
    assert_true(gov_card_ask(card, slot, sim.now, &until));
    assert_false(gov_card_ask(card, other, sim.now, &until));
    /* Four looks between two reports; the turn lasts a fifth longer than its work. */
    for (int look = 0; look < 12; look++) {
        sim.now += 300 * US;
        gov_card_keep(card, slot, sim.now);
        if (look % 4 == 3)
            gov_card_report(card, slot, MS, sim.now);
    }
    gov_card_drained(card, slot, sim.now);
    assert_int_equal(tenant_of(card, slot)->charged_ns, 3 * MS);
    sim_free(&sim);
}

static void
worker_that_overruns_may_get_the_turn_meanwhile(void **state)
{
    struct gov_share sh = share(GOV_BURST_SHARE, 50);
    struct gov_card *card;
    struct sim sim;
    uint64_t until;
    int late, other;

    sim_new(&sim);
    card = sim.card;
    late = gov_card_join(card, 1, 1, &sh, sim.now);
    other = gov_card_join(card, 2, 2, &sh, sim.now);
    assert_true(gov_card_ask(card, other, sim.now, &until));
    gov_card_overrun(card, late, sim.now, sim.now);
    assert_false(gov_card_ask(card, late, sim.now, &until));
    assert_int_equal(tenant_of(card, other)->contended, 1);
    sim.now += GOV_QUANTUM_NS;
    gov_card_report(card, other, GOV_QUANTUM_NS, sim.now);
    assert_false(gov_card_keep(card, other, sim.now));
    gov_card_drained(card, other, sim.now);
    assert_true(gov_card_ask(card, late, sim.now, &until));
    assert_true(gov_card_keep(card, late, sim.now));
    sim_free(&sim);
}

/* A session that is a second ahead asks while its neighbour's work, which began late,
 * is on the card: it waits as it does for one that pauses, a bounded time. */
static void
who_is_far_ahead_waits_for_work_that_began_late(void **state)
{
    struct gov_share small = share(GOV_BURST_SHARE, 10),
                     large = share(GOV_BURST_SHARE, 50);
    struct gov_card *card;
    struct sim sim;
    uint64_t until, begun;
    int ahead, behind;

    sim_new(&sim);
    card = sim.card;
    ahead = gov_card_join(card, 1, 1, &small, sim.now);
    behind = gov_card_join(card, 2, 2, &large, sim.now);
    assert_true(gov_card_ask(card, behind, sim.now, &until));
    gov_card_drained(card, behind, sim.now);
    assert_true(gov_card_ask(card, ahead, sim.now, &until));
    assert_false(gov_card_ask(card, behind, sim.now, &until));
    sim.now += S;
    gov_card_report(card, ahead, S, sim.now);
    gov_card_drained(card, ahead, sim.now);
    assert_true(gov_card_ask(card, behind, sim.now, &until));
    sim.now += MS;
    gov_card_report(card, behind, MS, sim.now);
    gov_card_drained(card, behind, sim.now);
    gov_card_overrun(card, behind, sim.now, sim.now);
    assert_false(gov_card_ask(card, ahead, sim.now, &until));
    sim.now += 20 * MS;
    assert_false(gov_card_ask(card, ahead, sim.now, &until));
    /* It has not lost its place when it asks at last. */
    assert_true(gov_card_ask(card, behind, sim.now, &until));
    sim.now += MS;
    gov_card_report(card, behind, MS, sim.now);
    assert_true(gov_card_keep(card, behind, sim.now));
    gov_card_drained(card, behind, sim.now);
    /* And what never ends keeps nobody waiting for ever. */
    gov_card_overrun(card, behind, sim.now, sim.now);
    begun = sim.now;
    while (!gov_card_ask(card, ahead, sim.now, &until)) {
        assert_true(until > sim.now);
        sim.now = until;
    }
    assert_true(sim.now - begun >= 80 * MS && sim.now - begun <= GOV_HELD_MAX_NS);
    sim_free(&sim);
}

static void
killed_worker_gives_the_turn_back(void **state)
{
    struct sim sim;
    struct sim_worker *hog;

    sim_new(&sim);
    hog = sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), 1000 * S, 1000 * S, 0);
    sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), MS, MS, 0);
    sim_run(&sim, S);
    assert_true(sim.w[1].ran == 0);
    hog->state = GONE;
    gov_card_leave(sim.card, hog->slot, sim.now);
    sim_run(&sim, S);
    expect_near(part(&sim, 1, S), 100, 1);
    sim_free(&sim);
}

/* Looks have charged part of it by then. */
static void
killed_worker_pays_for_all_that_it_had(void **state)
{
    struct gov_share sh = share(GOV_BURST_SHARE, 50);
    const struct gov_tenant *t;
    struct gov_card *card;
    struct sim sim;
    uint64_t until;
    int slot, other;

    sim_new(&sim);
    card = sim.card;
    slot = gov_card_join(card, 1, 1, &sh, sim.now);
    other = gov_card_join(card, 2, 2, &sh, sim.now);
    assert_true(gov_card_ask(card, slot, sim.now, &until));
    assert_false(gov_card_ask(card, other, sim.now, &until));
    t = tenant_of(card, slot);
    for (int look = 0; look < 100; look++) {
        sim.now += MS;
        gov_card_keep(card, slot, sim.now);
    }
    gov_card_leave(card, slot, sim.now); /* nothing was reported */
    assert_int_equal(t->session, 1);     /* in debt, so it is remembered */
    assert_int_equal(t->charged_ns, 100 * MS);
    sim_free(&sim);
}

/* One kernel per process, each in a process of its own, for a session of 10 %. */
static void
starting_again_pays_no_debt(void **state)
{
    struct gov_share sh = share(GOV_FIXED_SHARE, 10);
    struct sim sim;
    uint64_t ran = 0, until;

    sim_new(&sim);
    while (sim.now < 105 * S) {
        int slot = gov_card_join(sim.card, 1, 4711, &sh, sim.now);

        while (!gov_card_ask(sim.card, slot, sim.now, &until))
            sim.now = gp_min(until, sim.now + 50 * MS);
        sim.now += 500 * MS;
        ran += 500 * MS;
        gov_card_leave(sim.card, slot, sim.now); /* killed: nothing was reported */
    }
    expect_near((double)ran / 1e9, 10, 1);
    assert_int_equal(sim.card->n_tenants, 0);
    sim_free(&sim);
}

/* Long kernels beside a queue that runs dry for a moment after each of its own. */
static void
pauses_of_a_neighbour_pay_no_debt(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), 2 * MS, 2 * MS, 500 * US);
    sim_add(&sim, 2, share(GOV_BURST_SHARE, 10), S, S, 0);
    sim_run(&sim, 20 * S);
    part(&sim, 0, 1);
    part(&sim, 1, 1);
    sim_run(&sim, 60 * S);
    assert_true(part(&sim, 0, 60 * S) > 60); /* five sixths, less its pauses */
    assert_true(part(&sim, 1, 60 * S) < 25);
    sim_free(&sim);
}

static void
debt_of_the_gone_is_forgotten_when_there_is_no_room(void **state)
{
    struct gov_share sh = share(GOV_FIXED_SHARE, 10);
    struct sim sim;
    uint64_t until;

    sim_new(&sim);
    for (uint64_t id = 1; id <= 3 * GOV_TENANTS_MAX; id++) {
        int slot = gov_card_join(sim.card, id, 4711, &sh, sim.now);

        assert_true(slot >= 0);
        while (!gov_card_ask(sim.card, slot, sim.now, &until))
            sim.now = until;
        sim.now += 100 * MS;
        gov_card_leave(sim.card, slot, sim.now);
    }
    sim_free(&sim);
}

static void
late_comer_gets_no_back_pay(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), MS, MS, 0);
    sim_run(&sim, 50 * S);
    sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), MS, MS, 0);
    part(&sim, 0, 1);
    sim_run(&sim, 2 * S);
    expect_near(part(&sim, 0, 2 * S), 50, 2);
    sim_free(&sim);
}

static void
waking_service_waits_for_a_kernel_not_a_quantum(void **state)
{
    struct sim sim;
    struct sim_worker *service;

    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_BURST_SHARE, 50), 500 * US, 500 * US, 0);
    service = sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), MS, MS, 20 * MS);
    sim_run(&sim, 100 * MS);
    service->wait_max = 0;
    sim_run(&sim, 2 * S);
    assert_true(service->wait_max <= 1200 * US); /* a quantum is 4 ms */
    sim_free(&sim);
}

static void
idle_session_saves_up_little(void **state)
{
    struct sim sim;
    struct sim_worker *w;

    sim_new(&sim);
    w = sim_add(&sim, 1, share(GOV_FIXED_SHARE, 50), MS, MS, 0);
    w->state = THINKING;
    w->at = sim.now + S;
    sim_run(&sim, S);
    part(&sim, 0, 1);
    sim_run(&sim, 100 * MS);
    assert_true(part(&sim, 0, 100 * MS) < 58); /* 50, 5 ms saved up, a kernel */
    sim_free(&sim);
}

/* The start tag of a session of 60 % that comes back @pause after its last kernel,
 * against that of the one of 30 % that runs meanwhile; negative: it is due first. */
static int64_t
lag_after(uint64_t pause)
{
    struct sim sim;
    struct sim_worker *a, *b;
    uint64_t until;
    int64_t lag;

    sim_new(&sim);
    a = sim_add(&sim, 1, share(GOV_BURST_SHARE, 60), MS, MS, 0);
    b = sim_add(&sim, 2, share(GOV_BURST_SHARE, 30), MS, MS, 0);
    assert_true(gov_card_ask(sim.card, b->slot, sim.now, &until));
    sim.now += 9 * MS;
    gov_card_report(sim.card, b->slot, 9 * MS, sim.now);
    gov_card_drained(sim.card, b->slot, sim.now);
    assert_true(gov_card_ask(sim.card, a->slot, sim.now, &until));
    assert_false(gov_card_ask(sim.card, b->slot, sim.now, &until));
    sim.now += MS;
    gov_card_report(sim.card, a->slot, MS, sim.now);
    gov_card_drained(sim.card, a->slot, sim.now);
    assert_true(gov_card_ask(sim.card, b->slot, sim.now, &until));
    sim.now += pause;
    gov_card_ask(sim.card, a->slot, sim.now, &until);
    lag = (int64_t)(sim.card->tenants[0].vtime - sim.card->tenants[1].vtime);
    sim_free(&sim);
    return lag;
}

static void
queue_that_ran_dry_for_a_moment_catches_up(void **state)
{
    /* 9 ms at 30 % against 1 ms at 60 %: what it is behind is not forgotten. */
    assert_in_range(-lag_after(6 * MS), 28 * MS, 29 * MS);
    assert_int_equal(lag_after(20 * MS), 0);
}

static struct gov_share
space(enum gov_policy policy, uint32_t core, uint32_t units)
{
    return (struct gov_share){
        .policy = policy, .core = core, .in_space = true, .units = units};
}

static void
parts_of_the_card_run_at_the_same_time(void **state)
{
    static const uint32_t cores[] = {25, 25, 50};
    struct sim sim;

    sim_new(&sim);
    for (unsigned i = 0; i < ARRAY_SIZE(cores); i++)
        sim_add(&sim, i + 1, space(GOV_FIXED_SHARE, cores[i], 16), 20 * US, 20 * MS, 0);
    sim_run(&sim, 10 * S);
    for (unsigned i = 0; i < ARRAY_SIZE(cores); i++) {
        const struct gov_tenant *t = tenant_of(sim.card, sim.w[i].slot);

        /* All of its part's time, but for the kernel under way. */
        expect_near(part(&sim, i, 10 * S), 100, 0.3);
        assert_int_equal(t->rivals, 0);
        assert_int_equal(__builtin_popcountll(t->units) * 100 / 16, cores[i]);
        /* A part is charged as a part. */
        expect_near((double)t->charged_ns / (10.0 * 1e9), cores[i] / 100.0, 0.01);
    }
    sim_free(&sim);
}

static void
parts_that_cannot_be_cut_out_exactly_are_held_in_time(void **state)
{
    struct sim sim;

    /* Two pieces: 30 % is one of them for 60 % of the time, or both for 30 %. */
    sim_new(&sim);
    for (uint64_t i = 1; i <= 3; i++)
        sim_add(&sim, i, space(GOV_FIXED_SHARE, 30, 2), 100 * US, 2 * MS, 0);
    sim_run(&sim, 4 * S);
    for (unsigned i = 0; i < 3; i++)
        part(&sim, i, 1);
    sim_run(&sim, 40 * S);
    for (unsigned i = 0; i < 3; i++) {
        const struct gov_tenant *t = tenant_of(sim.card, sim.w[i].slot);

        expect_near(part(&sim, i, 40 * S) * t->part / 1000, 30, 1.5);
    }
    sim_free(&sim);
}

static void
session_without_a_part_is_not_starved_by_those_that_have_one(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, space(GOV_BURST_SHARE, 25, 4), MS, MS, 0);
    sim_add(&sim, 2, space(GOV_BURST_SHARE, 25, 4), MS, 3 * MS, 0);
    sim_add(&sim, 3, share(GOV_BURST_SHARE, 50), MS, 2 * MS, 0);
    sim_run(&sim, 4 * S);
    for (unsigned i = 0; i < 3; i++)
        part(&sim, i, 1);
    sim_run(&sim, 20 * S);
    for (unsigned i = 0; i < 3; i++)
        assert_true(part(&sim, i, 20 * S) > 25);
    sim_free(&sim);
}

static void
offline_beside_a_part_waits_for_it_alone(void **state)
{
    struct gov_share off = space(GOV_BURST_SHARE, 50, 2);
    struct sim sim;

    off.offline = true;
    sim_new(&sim);
    sim_add(&sim, 1, space(GOV_BURST_SHARE, 50, 2), MS, MS, 0);
    sim_add(&sim, 2, off, MS, MS, 0); /* on the other half */
    sim_add(&sim, 3, off, MS, MS, 0); /* on either */
    sim_run(&sim, 10 * S);
    assert_true(part(&sim, 0, 10 * S) > 99);
    assert_true(part(&sim, 1, 10 * S) > 45);
    sim_free(&sim);
}

static void
time_is_conserved_whatever_happens(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sim sim;
        uint64_t ran = 0;

        sim_new(&sim);
        sim.rng = seed * 7919;
        for (int round = 0; round < 60; round++) {
            struct gov_share sh = {.policy = (enum gov_policy)rnd(&sim, 3),
                                   .core = 1 + (uint32_t)rnd(&sim, 100),
                                   .core_limit = (uint32_t)rnd(&sim, 101),
                                   .in_space = rnd(&sim, 2),
                                   .units = 8,
                                   .offline = !rnd(&sim, 4)};
            uint64_t pick = rnd(&sim, 10);

            if (pick < 5 && sim.n < ARRAY_SIZE(sim.w))
                sim_add(&sim, 1 + rnd(&sim, 12), sh, 1 + rnd(&sim, 100 * US),
                        200 * US + rnd(&sim, 20 * MS),
                        rnd(&sim, 2) * rnd(&sim, 30 * MS));
            else if (pick < 7 && sim.n)
                gov_card_reshare(sim.card, sim.w[rnd(&sim, sim.n)].session, &sh,
                                 sim.now);
            else if (pick < 9 && sim.n) {
                struct sim_worker *w = &sim.w[rnd(&sim, sim.n)];

                if (w->state != GONE) {
                    w->state = GONE;
                    gov_card_leave(sim.card, w->slot, sim.now);
                }
            }
            sim_run(&sim, 100 * MS);
        }
        for (unsigned i = 0; i < sim.n; i++) {
            ran += sim.w[i].ran;
            if (sim.w[i].state != GONE)
                gov_card_leave(sim.card, sim.w[i].slot, sim.now);
        }
        /* All are gone, nothing is held but debt, and nobody was on the card twice. */
        for (unsigned i = 0; i < GOV_TENANTS_MAX; i++) {
            const struct gov_tenant *t = &sim.card->tenants[i];

            assert_true(!t->slots && !t->running && !t->wanting && !t->holding);
        }
        assert_int_equal(sim.card->holders, 0);
        assert_int_equal(sim.card->n_tenants, 0);
        assert_true(sim.busy <= 6 * S);
        assert_true(ran > 0);
        sim_free(&sim);
    }
}

static void
nobody_starves_and_the_card_never_idles_while_wanted(void **state)
{
    struct sim sim;

    sim_new(&sim);
    for (uint64_t i = 1; i <= 30; i++)
        sim_add(&sim, i, share(GOV_BEST_EFFORT, 1), 50 * US, 5 * MS, 0);
    sim_run(&sim, 30 * S);
    expect_near(100.0 * (double)sim.busy / (30.0 * 1e9), 100, 0.01);
    for (unsigned i = 0; i < 30; i++)
        expect_near(part(&sim, i, 30 * S), 100.0 / 30, 0.5);
    sim_free(&sim);
}

static void
full_card_refuses_a_slot(void **state)
{
    struct gov_share sh = share(GOV_BEST_EFFORT, 1);
    struct sim sim;

    sim_new(&sim);
    for (uint64_t i = 0; i < GOV_TENANTS_MAX; i++)
        assert_true(gov_card_join(sim.card, i + 1, 1, &sh, 0) >= 0);
    assert_int_equal(gov_card_join(sim.card, 999, 1, &sh, 0), -ENOSPC);
    sim_free(&sim);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lone_fixed_share_gets_its_part_and_no_more),
        cmocka_unit_test(lone_tenant_without_ceiling_is_never_stopped),
        cmocka_unit_test(fixed_shares_that_fill_the_card_hold_side_by_side),
        cmocka_unit_test(burst_shares_that_fill_the_card_hold_side_by_side),
        cmocka_unit_test(short_kernels_hold_against_long_ones),
        cmocka_unit_test(idle_time_goes_to_who_bursts_and_comes_back_when_claimed),
        cmocka_unit_test(soft_ceiling_caps_a_burst),
        cmocka_unit_test(best_effort_divides_what_is_left_equally),
        cmocka_unit_test(offline_runs_only_in_the_gaps_of_online),
        cmocka_unit_test(many_workers_of_a_session_get_what_one_would),
        cmocka_unit_test(overrun_is_repaid_exactly),
        cmocka_unit_test(work_that_begins_out_of_turn_is_charged_and_repaid),
        cmocka_unit_test(who_reports_nothing_gets_a_third_more_at_most),
        cmocka_unit_test(reports_that_lag_behind_a_look_are_charged_once),
        cmocka_unit_test(worker_that_overruns_may_get_the_turn_meanwhile),
        cmocka_unit_test(who_is_far_ahead_waits_for_work_that_began_late),
        cmocka_unit_test(killed_worker_gives_the_turn_back),
        cmocka_unit_test(killed_worker_pays_for_all_that_it_had),
        cmocka_unit_test(starting_again_pays_no_debt),
        cmocka_unit_test(pauses_of_a_neighbour_pay_no_debt),
        cmocka_unit_test(debt_of_the_gone_is_forgotten_when_there_is_no_room),
        cmocka_unit_test(late_comer_gets_no_back_pay),
        cmocka_unit_test(waking_service_waits_for_a_kernel_not_a_quantum),
        cmocka_unit_test(idle_session_saves_up_little),
        cmocka_unit_test(queue_that_ran_dry_for_a_moment_catches_up),
        cmocka_unit_test(parts_of_the_card_run_at_the_same_time),
        cmocka_unit_test(parts_that_cannot_be_cut_out_exactly_are_held_in_time),
        cmocka_unit_test(session_without_a_part_is_not_starved_by_those_that_have_one),
        cmocka_unit_test(offline_beside_a_part_waits_for_it_alone),
        cmocka_unit_test(time_is_conserved_whatever_happens),
        cmocka_unit_test(nobody_starves_and_the_card_never_idles_while_wanted),
        cmocka_unit_test(full_card_refuses_a_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
