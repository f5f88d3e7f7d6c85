/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's thread, and workers that say whatever they like: turns pass between
 * those that keep to the rules, and nothing that stands on a desk can stop that.
 */
#include "ut.h"

#include "gp_time.h"
#include "ut_arbiter.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define PATIENCE_NS (10000 * MS)

static struct srv_arbiter *arb;
static const struct gov_share half = {.policy = GOV_BURST_SHARE, .core = 50};

static int
fresh(void **state)
{
    (void)state;
    return srv_arbiter_new(2, &arb, NULL);
}

static int
gone(void **state)
{
    (void)state;
    srv_arbiter_free(arb);
    arb = NULL;
    return 0;
}

static struct wrk_desks *
joined(struct ut_session *s, uint64_t id)
{
    struct wrk_desks *d;

    ut_session_new(s, arb, id, 1000, 10);
    d = ut_session_sit(s, half);
    assert_int_equal(wrk_desks_join(d), 0);
    return d;
}

static bool
comes(_Atomic uint32_t *word, uint32_t value)
{
    uint64_t until = gp_now_ns() + PATIENCE_NS;

    while (atomic_load(word) != value && gp_now_ns() < until)
        wrk_desks_wait(word, atomic_load(word), MS);
    return atomic_load(word) == value;
}

static uint32_t
ask(struct wrk_desks *d)
{
    uint32_t grant = atomic_load(&d->notice->turns[0].grant) + 1;

    atomic_store(&d->desk->wants[0].ask, grant);
    wrk_desks_ring(d);
    return grant;
}

static void
drain(struct wrk_desks *d, uint32_t grant)
{
    atomic_store(&d->desk->wants[0].run, GOV_RUN_NOT);
    atomic_store(&d->desk->wants[0].done, grant);
    wrk_desks_ring(d);
}

static void
turn_rests_until_another_asks(void **state)
{
    struct ut_session a, b;
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint32_t grant, other;

    (void)state;
    grant = ask(first);
    assert_true(comes(&first->notice->turns[0].grant, grant));
    assert_true(comes(&first->notice->turns[0].rests, 1));
    drain(first, grant); /* and comes back without asking */
    atomic_store(&first->desk->wants[0].run, GOV_RUN_TURN);
    assert_int_equal(atomic_load(&first->notice->turns[0].rests), 1);
    other = ask(second);
    assert_true(comes(&first->notice->turns[0].rests, 0));
    assert_int_equal(atomic_load(&second->notice->turns[0].grant), other - 1);
    assert_true(comes(&first->notice->turns[0].stop, 1));
    drain(first, grant);
    assert_true(comes(&second->notice->turns[0].grant, other));
    ut_session_free(&a);
    ut_session_free(&b);
}

static void
turn_that_rests_with_an_idle_session_passes_at_once(void **state)
{
    struct ut_session a, b;
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint32_t grant = ask(first);

    (void)state;
    assert_true(comes(&first->notice->turns[0].rests, 1));
    drain(first, grant);
    for (unsigned i = 0; i < 100; i++) {
        struct wrk_desks *who = i % 2 ? first : second;

        grant = ask(who);
        assert_true(comes(&who->notice->turns[0].grant, grant));
        drain(who, grant);
    }
    ut_session_free(&a);
    ut_session_free(&b);
}

/* An offline session runs while no online one wants the card, and no longer. */
static void
offline_session_gives_way_to_an_online_one(void **state)
{
    static const struct gov_share offline = {
        .policy = GOV_BURST_SHARE, .core = 50, .offline = true};
    struct ut_session a, b;
    struct wrk_desks *online = joined(&a, 1), *batch;
    uint32_t theirs, ours;

    (void)state;
    ut_session_new(&b, arb, 2, 1000, 10);
    batch = ut_session_sit(&b, offline);
    assert_int_equal(wrk_desks_join(batch), 0);
    theirs = ask(batch);
    assert_true(comes(&batch->notice->turns[0].grant, theirs));
    for (int i = 0; i < 20; i++) {
        ours = ask(online);
        assert_true(comes(&batch->notice->turns[0].stop, 1));
        drain(batch, theirs);
        assert_true(comes(&online->notice->turns[0].grant, ours));
        theirs = ask(batch);
        /* The online session goes on, and is not stopped for the other. */
        assert_int_equal(atomic_load(&online->notice->turns[0].stop), 0);
        assert_int_equal(atomic_load(&batch->notice->turns[0].grant), theirs - 1);
        drain(online, ours);
        assert_true(comes(&batch->notice->turns[0].grant, theirs));
    }
    ut_session_free(&a);
    ut_session_free(&b);
}

static void
who_dies_with_the_turn_gives_it_back(void **state)
{
    struct ut_session a, b;
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint32_t grant = ask(first);

    (void)state;
    assert_true(comes(&first->notice->turns[0].grant, grant));
    grant = ask(second);
    ut_session_leave(&a, 0);
    assert_true(comes(&second->notice->turns[0].grant, grant));
    ut_session_free(&a);
    ut_session_free(&b);
}

static void
who_keeps_the_turn_is_found(void **state)
{
    struct ut_session a, b;
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint64_t until = gp_now_ns() + PATIENCE_NS, times = 0;
    uint32_t grant;

    (void)state;
    a.slots[0]->work_limit_s = 1;
    grant = ask(first);
    assert_true(comes(&first->notice->turns[0].grant, grant));
    ask(second);
    while (read(srv_arbiter_alarm(arb), &times, sizeof(times)) < 0 &&
           gp_now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = (long)MS}, NULL);
    assert_int_equal(times, 1);
    assert_true(atomic_load(&a.slots[0]->overdue));
    assert_false(atomic_load(&b.slots[0]->overdue));
    ut_session_free(&a);
    ut_session_free(&b);
}

struct scribbler {
    struct wrk_desks *desks;
    atomic_bool over;
};

static void *
scribble(void *arg)
{
    struct scribbler *s = arg;
    _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)s->desks->desk;
    uint64_t seed = 12345;

    while (!atomic_load(&s->over)) {
        for (unsigned i = 0; i < 64; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            atomic_store(&word[(seed >> 33) % (sizeof(struct wrk_desk) / 4)],
                         (uint32_t)(seed >> 20) | 0x1000);
        }
        wrk_desks_ring(s->desks);
    }
    return NULL;
}

static void
scribbler_that_rings_without_end_stops_nobody(void **state)
{
    struct ut_session a, b, c;
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    struct scribbler s = {.desks = joined(&c, 3)};
    uint64_t began = gp_now_ns();
    pthread_t thread;
    unsigned turns = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    while (turns < 200 || gp_now_ns() - began < 300 * MS) {
        struct wrk_desks *who = turns++ % 2 ? first : second;
        uint32_t grant = ask(who);

        assert_true(comes(&who->notice->turns[0].grant, grant));
        drain(who, grant);
        assert_true(wrk_desks_call(who, WRK_CALL_TAKE, 0, 1));
        assert_true(srv_ledger_used(c.ledger, 0) <= 1000);
        atomic_fetch_add(&who->desk->usage.gave[0], 1);
        atomic_fetch_add(&who->desk->usage.gave_n[0], 1);
    }
    atomic_store(&s.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(srv_ledger_used(a.ledger, 0), 0);
    ut_session_free(&a);
    ut_session_free(&b);
    ut_session_free(&c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(turn_rests_until_another_asks),
        CASE(turn_that_rests_with_an_idle_session_passes_at_once),
        CASE(offline_session_gives_way_to_an_online_one),
        CASE(who_dies_with_the_turn_gives_it_back),
        CASE(who_keeps_the_turn_is_found),
        CASE(scribbler_that_rings_without_end_stops_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
