/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's thread, and workers that say whatever they like: turns pass between
 * those that keep to the rules, and nothing that stands on a desk can stop that.
 */
#include "ut.h"

#include "gp_time.h"
#include "ut_arbiter.h"

#include <errno.h>
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

/* ---- supervisors that die ---- */

/* What the keeper has of them. */
struct left {
    int arbiter;
    struct srv_desk_files desk[2];
    int ledger[2], segment[2];
};

static struct srv_desk_files
desk_left(const struct srv_desk *d)
{
    return (struct srv_desk_files){.desk = dup(d->desk_fd),
                                   .notice = dup(d->notice_fd),
                                   .wake = dup(d->wake_fd),
                                   .kept = dup(d->kept_fd)};
}

/* The thread ends wherever it is; its memory is gone, the files are not. */
static struct left
dies(struct ut_session *s[2])
{
    struct left left = {.arbiter = dup(srv_arbiter_kept(arb))};

    for (unsigned i = 0; i < 2; i++) {
        left.desk[i] = desk_left(s[i]->slots[0]);
        left.ledger[i] = dup(srv_ledger_kept_fd(s[i]->ledger));
        left.segment[i] = dup(srv_ledger_segment_fd(s[i]->ledger));
    }
    srv_arbiter_free(arb);
    return left;
}

static void
adopt_session(struct ut_session *s, struct left *left, unsigned i)
{
    struct srv_desk *old = s->slots[0], *d = NULL;
    struct wrk_desks *w = &s->desks[0];
    struct srv_ledger *before = s->ledger;

    assert_int_equal(srv_ledger_adopt(&s->claims, left->ledger[i], left->segment[i],
                                      &s->ledger, NULL),
                     0);
    close(left->segment[i]);
    assert_int_equal(srv_desk_adopt(&left->desk[i], &d, NULL), 0);
    d->session = s->claims.session_id;
    d->ledger = s->ledger;
    d->n_slices = 2;
    for (uint32_t k = 0; k < 2; k++) {
        d->slices[k].card = k;
        d->slices[k].share = half;
    }
    srv_ledger_desk(s->ledger, 0, d, 1000);
    s->arb = arb;
    s->slots[0] = d;
    assert_int_equal(srv_arbiter_readd(arb, d, NULL), 0);
    srv_ledger_mend(s->ledger);
    /* What the worker does with the new files. */
    munmap((void *)(uintptr_t)w->segment, sizeof(*w->segment));
    w->segment = mmap(NULL, sizeof(*w->segment), PROT_READ, MAP_SHARED,
                      srv_ledger_segment_fd(s->ledger), 0);
    w->notice = d->notice;
    w->desk = d->desk;
    w->wake_fd = d->wake_fd;
    srv_desk_free(old);
    srv_ledger_free(before);
}

static void
adopted(struct ut_session *s[2], struct left *left)
{
    assert_int_equal(srv_arbiter_adopt(2, left->arbiter, &arb, NULL), 0);
    close(left->arbiter);
    for (unsigned i = 0; i < 2; i++)
        adopt_session(s[i], left, i);
    srv_arbiter_mend(arb);
}

static void
successor_knows_turns_limits_and_what_was_granted(void **state)
{
    struct ut_session a, b, *both[] = {&a, &b};
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint32_t theirs = ask(first), ours;
    struct left left;

    (void)state;
    assert_true(comes(&first->notice->turns[0].grant, theirs));
    assert_true(wrk_desks_call(first, WRK_CALL_TAKE, 0, 600));
    for (unsigned i = 0; i < 20; i++) {
        ours = ask(second);
        left = dies(both);
        adopted(both, &left);
        assert_int_equal(atomic_load(&first->notice->turns[0].grant), theirs);
        assert_true(comes(&first->notice->turns[0].stop, 1));
        assert_true(atomic_load(&second->notice->turns[0].grant) == ours - 1);
        assert_false(wrk_desks_call(first, WRK_CALL_TAKE, 0, 500));
        assert_true(wrk_desks_call(first, WRK_CALL_TAKE, 0, 10));
        assert_true(wrk_desks_call(first, WRK_CALL_NAME, 0, i + 1));
        assert_int_equal(srv_ledger_used(a.ledger, 0), 600 + 10 * (i + 1));
        drain(first, theirs);
        assert_true(comes(&second->notice->turns[0].grant, ours));
        theirs = ask(first);
        drain(second, ours);
        assert_true(comes(&first->notice->turns[0].grant, theirs));
    }
    ut_session_free(&a);
    ut_session_free(&b);
}

/* All that a worker can write.  It keeps to no rule that ThreadSanitizer knows. */
__attribute__((no_sanitize("thread"))) static void
fill_with_rubbish(struct wrk_desk *desk, uint64_t *rng)
{
    uint8_t *bytes = (uint8_t *)desk;

    for (size_t at = 2 * sizeof(uint32_t); at < sizeof(*desk); at++) {
        *rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
        bytes[at] = (uint8_t)(*rng >> 56);
    }
}

/* Before the successor looks. */
static void
worker_that_lies_to_a_successor_gains_nothing(void **state)
{
    struct ut_session a, b, *both[] = {&a, &b};
    struct wrk_desks *first = joined(&a, 1), *second = joined(&b, 2);
    uint64_t rng = 7;

    (void)state;
    assert_true(wrk_desks_call(first, WRK_CALL_TAKE, 0, 900));
    for (unsigned i = 0; i < 50; i++) {
        uint32_t grant;
        struct left left;

        fill_with_rubbish(first->desk, &rng);
        atomic_store(&first->desk->call.kind, WRK_CALL_LOOK);
        left = dies(both);
        adopted(both, &left);
        assert_int_equal(atomic_load(&first->segment->limits[0]), 1000);
        assert_true(srv_ledger_used(a.ledger, 0) <= 1000);
        atomic_store(&first->desk->wants[0].run, GOV_RUN_NOT);
        drain(first, atomic_load(&first->notice->turns[0].grant));
        atomic_store(&first->desk->wants[0].ask,
                     atomic_load(&first->notice->turns[0].grant));
        wrk_desks_ring(first);
        grant = ask(second);
        assert_true(comes(&second->notice->turns[0].grant, grant));
        drain(second, grant);
        assert_true(wrk_desks_call(second, WRK_CALL_TAKE, 0, 1));
    }
    assert_int_equal(srv_ledger_used(b.ledger, 0), 50);
    ut_session_free(&a);
    ut_session_free(&b);
}

static void
files_of_another_form_are_not_adopted(void **state)
{
    struct ut_session a, b, *both[] = {&a, &b};
    struct srv_desk_files files;
    struct srv_ledger *ledger = NULL;
    struct srv_desk *d = NULL;
    struct left left;

    (void)state;
    joined(&a, 1);
    joined(&b, 2);
    left = dies(both);
    files = left.desk[0];
    files.kept = left.desk[0].desk;
    assert_int_equal(srv_desk_adopt(&files, &d, NULL), -EPROTO);
    files = left.desk[0];
    files.desk = left.desk[0].kept;
    assert_int_equal(srv_desk_adopt(&files, &d, NULL), -EPROTO);
    assert_int_equal(
        srv_ledger_adopt(&a.claims, left.desk[0].desk, left.segment[0], &ledger, NULL),
        -EPROTO);
    assert_int_equal(
        srv_ledger_adopt(&a.claims, left.ledger[0], left.desk[0].desk, &ledger, NULL),
        -EPROTO);
    adopted(both, &left);
    ut_session_free(&a);
    ut_session_free(&b);
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
        CASE(successor_knows_turns_limits_and_what_was_granted),
        CASE(worker_that_lies_to_a_successor_gains_nothing),
        CASE(files_of_another_form_are_not_adopted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
