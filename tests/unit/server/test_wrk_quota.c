/* SPDX-License-Identifier: Apache-2.0 */
/* The session's memory limit, over threads and processes, killed ones included. */
#include "ut.h"

#include "ut_arbiter.h"
#include "wrk_quota.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LIMIT UINT64_C(1000003)

static struct srv_arbiter *arb;
static const struct gov_share whole = {.policy = GOV_BURST_SHARE, .core = 100};

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

static struct wrk_quota *
quota_new(struct ut_session *s)
{
    struct wrk_quota *q = NULL;

    assert_int_equal(wrk_quota_new(ut_session_sit(s, whole), &q), 0);
    return q;
}

static void
limit_is_exact_to_the_byte(void **state)
{
    struct ut_session s;
    struct wrk_quota *a, *b;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    a = quota_new(&s);
    b = quota_new(&s);
    assert_true(wrk_quota_take(a, 0, LIMIT - 5));
    assert_false(wrk_quota_take(b, 0, 6));
    assert_true(wrk_quota_take(b, 0, 5));
    assert_false(wrk_quota_take(a, 0, 1));
    assert_true(wrk_quota_take(a, 0, 0));
    assert_false(wrk_quota_take(a, 0, UINT64_MAX));
    assert_int_equal(wrk_quota_used(a, 0), LIMIT);
    wrk_quota_give(b, 0, 5);
    assert_false(wrk_quota_take(a, 0, 6));
    assert_true(wrk_quota_take(a, 0, 5));
    assert_true(wrk_quota_take(a, 1, 10)); /* another slice, another limit */
    assert_int_equal(srv_ledger_high(s.ledger, 0), LIMIT);
    wrk_quota_free(a);
    wrk_quota_free(b);
    ut_session_free(&s);
}

struct giver {
    struct wrk_quota *quota;
    struct wrk_desk *asks; /* of who waits for the bytes */
    uint64_t bytes;
    bool released; /* they come from a job that was seen to wait */
};

/* When the other one has been refused once. */
static void *
give_when_asked(void *arg)
{
    const struct giver *g = arg;

    while (atomic_load(&g->asks->call.seq) < 3)
        sched_yield();
    wrk_quota_give(g->quota, 0, g->bytes);
    if (g->released)
        wrk_quota_unshare_release(g->quota);
    return NULL;
}

static void
what_others_are_freeing_is_waited_for(void **state)
{
    struct ut_session s;
    struct giver giver = {.bytes = LIMIT - 5, .released = true};
    struct wrk_quota *b;
    pthread_t thread;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    giver.quota = quota_new(&s);
    b = quota_new(&s);
    giver.asks = s.desks[1].desk;
    atomic_store(&s.desks[1].desk->knows_room, 1);
    assert_true(wrk_quota_take(giver.quota, 0, LIMIT - 5));
    wrk_quota_share_release(giver.quota);
    assert_false(wrk_quota_take(b, 0, 6));
    assert_int_equal(srv_ledger_room(s.ledger, 1, 0, 6), WRK_TAKE_FREEING);
    assert_int_equal(pthread_create(&thread, NULL, give_when_asked, &giver), 0);
    assert_true(wrk_quota_take_soon(b, 0, LIMIT, WRK_QUOTA_LATE_NS));
    pthread_join(thread, NULL);
    assert_int_equal(wrk_quota_used(b, 0), LIMIT);
    wrk_quota_free(giver.quota);
    wrk_quota_free(b);
    ut_session_free(&s);
}

/* Two processes: the first has all but 5 bytes, the second knows that it may wait. */
static void
nearly_full(struct ut_session *s, struct wrk_quota **ret_has,
            struct wrk_quota **ret_asks)
{
    ut_session_new(s, arb, 1, LIMIT, 10);
    *ret_has = quota_new(s);
    *ret_asks = quota_new(s);
    atomic_store(&s->desks[1].desk->knows_room, 1);
    assert_true(wrk_quota_take(*ret_has, 0, LIMIT - 5));
}

static void
what_nobody_frees_is_refused(void **state)
{
    struct ut_session s;
    struct wrk_quota *a, *b;

    (void)state;
    nearly_full(&s, &a, &b);
    assert_int_equal(srv_ledger_room(s.ledger, 1, 0, 6), WRK_TAKE_QUIET);
    atomic_store(&s.desks[0].desk->busy, 1);
    assert_int_equal(srv_ledger_room(s.ledger, 1, 0, 6), WRK_TAKE_BUSY);
    assert_false(wrk_quota_take_soon(b, 0, 6, 1));
    atomic_store(&s.desks[0].desk->busy, 0);
    assert_false(wrk_quota_take_soon(b, 0, 6, WRK_QUOTA_LATE_NS));
    atomic_store(&s.slots[0]->leaving, true);
    assert_int_equal(srv_ledger_room(s.ledger, 1, 0, 6), WRK_TAKE_FREEING);
    /* No other can make room for these. */
    assert_int_equal(srv_ledger_room(s.ledger, 1, 0, LIMIT + 1), WRK_TAKE_REFUSED);
    assert_int_equal(srv_ledger_room(s.ledger, 0, 0, 6), WRK_TAKE_REFUSED);
    assert_false(wrk_quota_take_soon(b, 0, LIMIT + 1, WRK_QUOTA_LATE_NS));
    wrk_quota_free(a);
    wrk_quota_free(b);
    ut_session_free(&s);
}

/* What a client has freed may not have been sent yet: its host may be busy. */
static void
room_is_looked_for_long_enough_for_a_client_to_send_what_it_freed(void **state)
{
    struct ut_session s;
    struct wrk_quota *a, *b;
    uint64_t began;
    uint32_t looks;

    (void)state;
    nearly_full(&s, &a, &b);
    looks = atomic_load(&s.desks[1].desk->call.seq);
    began = gp_now_ns();
    assert_false(wrk_quota_take_soon(b, 0, 6, WRK_QUOTA_SOON_NS));
    assert_true(gp_now_ns() - began >= 100 * GP_NS_PER_MS);
    assert_true(atomic_load(&s.desks[1].desk->call.seq) - looks > 5);
    /* As often if the time has passed already, as where the host stood still. */
    looks = atomic_load(&s.desks[1].desk->call.seq);
    assert_false(wrk_quota_take_soon(b, 0, 6, 1));
    assert_true(atomic_load(&s.desks[1].desk->call.seq) - looks > 5);
    wrk_quota_free(a);
    wrk_quota_free(b);
    ut_session_free(&s);
}

static void
tiny_allocations_are_limited_in_number(void **state)
{
    struct ut_session s;
    struct wrk_quota *a, *b;
    uint64_t most = 16384 + 4096;

    (void)state;
    ut_session_new(&s, arb, 1, 4096 * 4096, 10);
    a = quota_new(&s);
    b = quota_new(&s);
    for (uint64_t i = 0; i < most; i++)
        assert_true(wrk_quota_take(i % 2 ? a : b, 0, 1));
    assert_false(wrk_quota_take(a, 0, 1));
    assert_int_equal(wrk_quota_used(a, 0), most);
    wrk_quota_give(b, 0, 1);
    assert_true(wrk_quota_take(a, 0, 1));
    assert_false(wrk_quota_take(b, 0, 1));
    wrk_quota_free(a);
    wrk_quota_free(b);
    ut_session_free(&s);
}

static void
free_gives_back_what_was_taken_and_only_once(void **state)
{
    struct ut_session s;
    struct wrk_quota *q;
    struct wrk_quota_held held;
    uint64_t bytes = 0;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    assert_true(wrk_quota_take(q, 0, 77));
    assert_int_equal(wrk_quota_note(q, 0x1000, 0, 1, 77), 0);
    assert_int_equal(wrk_quota_note(q, 0x1000, 0, 1, 77), -EEXIST);
    assert_int_equal(wrk_quota_note(q, 0, 0, 1, 77), -EINVAL);
    assert_true(wrk_quota_find(q, 0x1000, &bytes));
    assert_int_equal(bytes, 77);
    assert_false(wrk_quota_drop(q, 0x1001));
    assert_true(wrk_quota_drop(q, 0x1000));
    assert_false(wrk_quota_drop(q, 0x1000));
    assert_int_equal(wrk_quota_used(q, 0), 0);

    assert_true(wrk_quota_take(q, 0, 9));
    assert_int_equal(wrk_quota_note(q, 0x2000, 0, 1, 9), 0);
    assert_true(wrk_quota_detach(q, 0x2000, &held));
    assert_int_equal(held.bytes, 9);
    assert_int_equal(wrk_quota_used(q, 0), 9); /* not given back yet */
    assert_false(wrk_quota_drop(q, 0x2000));
    wrk_quota_free(q);
    ut_session_free(&s);
}

static void
context_takes_its_memory_with_it(void **state)
{
    enum { N = 5000 };
    struct ut_session s;
    struct wrk_quota *q;
    uint64_t kept = 0;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    srand(3);
    for (uint64_t i = 1; i <= N; i++) {
        uint64_t bytes = (uint64_t)rand() % 100;
        uint32_t ctx = (uint32_t)rand() % 3;

        assert_true(wrk_quota_take(q, 0, bytes));
        assert_int_equal(wrk_quota_note(q, i * 512, 0, ctx, bytes), 0);
        kept += ctx != 1 ? bytes : 0;
    }
    wrk_quota_drop_ctx(q, 1);
    assert_int_equal(wrk_quota_used(q, 0), kept);
    wrk_quota_drop_ctx(q, 0);
    wrk_quota_drop_ctx(q, 2);
    assert_int_equal(wrk_quota_used(q, 0), 0);
    for (uint64_t i = 1; i <= N; i++)
        assert_false(wrk_quota_drop(q, i * 512));
    wrk_quota_free(q);
    ut_session_free(&s);
}

/* Whatever their contexts, from the first to the last of them and no other. */
static void
keys_of_a_range_are_given_back_together(void **state)
{
    struct ut_session s;
    struct wrk_quota *q;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    for (uint32_t i = 1; i <= 3000; i++) {
        assert_true(wrk_quota_take(q, 0, 1));
        assert_int_equal(wrk_quota_note(q, UINT64_MAX - i, 0, i % 3, 1), 0);
    }
    wrk_quota_drop_range(q, UINT64_MAX - 2000, UINT64_MAX - 1001);
    assert_int_equal(wrk_quota_used(q, 0), 2000);
    for (uint32_t i = 1; i <= 3000; i++)
        assert_int_equal(wrk_quota_drop(q, UINT64_MAX - i), i < 1001 || i > 2000);
    assert_int_equal(wrk_quota_used(q, 0), 0);
    wrk_quota_free(q);
    ut_session_free(&s);
}

/* Another object may have the key before the first one has ended; each gives back what
 * was its own. */
static void
what_is_ending_holds_its_own_bytes(void **state)
{
    struct ut_session s;
    struct wrk_quota *q;
    uint64_t none, first, second, third;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    none = wrk_quota_end_begins(q, 7);
    assert_int_equal(none, 0);
    assert_true(wrk_quota_take(q, 0, 1000));
    assert_int_equal(wrk_quota_note(q, 7, 0, 1, 1000), 0);
    assert_false(wrk_quota_drop(q, none)); /* the first had nothing */
    first = wrk_quota_end_begins(q, 7);
    assert_true(wrk_quota_take(q, 0, 200));
    assert_int_equal(wrk_quota_note(q, 7, 0, 2, 200), 0);
    assert_true(wrk_quota_drop(q, first));
    assert_false(wrk_quota_drop(q, first));
    assert_int_equal(wrk_quota_used(q, 0), 200);

    /* Refused: it is itself again, unless another one is. */
    second = wrk_quota_end_begins(q, 7);
    wrk_quota_end_refused(q, second, 7);
    second = wrk_quota_end_begins(q, 7);
    assert_true(wrk_quota_take(q, 0, 30));
    assert_int_equal(wrk_quota_note(q, 7, 0, 1, 30), 0);
    wrk_quota_end_refused(q, second, 7);
    third = wrk_quota_end_begins(q, 7);
    assert_true(wrk_quota_drop(q, third));
    assert_int_equal(wrk_quota_used(q, 0), 200);

    /* Its context takes it along, once. */
    wrk_quota_drop_ctx(q, 2);
    assert_int_equal(wrk_quota_used(q, 0), 0);
    wrk_quota_end_refused(q, second, 7);
    assert_false(wrk_quota_drop(q, second));
    assert_false(wrk_quota_drop(q, 7));
    wrk_quota_free(q);
    ut_session_free(&s);
}

static _Noreturn void
take_and_give_for_ever(struct wrk_desks *desks)
{
    struct wrk_quota *q = NULL;

    if (wrk_quota_new(desks, &q) < 0)
        _exit(1);
    srand(desks->slot);
    for (;;) {
        uint64_t bytes = 1 + (uint64_t)rand() % (LIMIT / 3);

        if (wrk_quota_take(q, 0, bytes))
            wrk_quota_give(q, 0, bytes);
    }
}

/* Workers are killed wherever they are; taking their slots away is all it needs, and at
 * no time is the sum over the limit. */
static void
killed_workers_leave_nothing_and_never_exceed_the_limit(void **state)
{
    enum { WORKERS = 3, ROUNDS = 40 };
    struct ut_session s;
    struct wrk_quota *q;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pid_t pids[WORKERS];

        for (uint32_t i = 0; i < WORKERS; i++) {
            struct wrk_desks *desks = ut_session_sit(&s, whole);

            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0)
                take_and_give_for_ever(desks);
        }
        for (unsigned i = 0; i < 200; i++)
            assert_true(wrk_quota_used(q, 0) <= LIMIT);
        for (uint32_t i = 0; i < WORKERS; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
            ut_session_leave(&s, i + 1);
        }
        assert_int_equal(wrk_quota_used(q, 0), 0);
        assert_true(wrk_quota_take(q, 0, LIMIT));
        wrk_quota_give(q, 0, LIMIT);
    }
    wrk_quota_free(q);
    ut_session_free(&s);
}

/* --- the second attachment of a session ---------------------------------------- */

struct newcomer {
    struct ut_session s;
    pthread_barrier_t start;
    bool taken;
};

/* As the supervisor and a new worker do. */
static void *
come_and_take(void *arg)
{
    struct newcomer *n = arg;
    struct wrk_quota *q = NULL;

    pthread_barrier_wait(&n->start);
    if (wrk_quota_new(ut_session_sit(&n->s, whole), &q) < 0)
        return NULL;
    n->taken = wrk_quota_take(q, 0, LIMIT / 2 + 1);
    wrk_quota_free(q);
    return NULL;
}

static void
one_that_comes_while_another_takes_is_counted_with_it(void **state)
{
    enum { ROUNDS = 1000 };
    unsigned firsts = 0;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct newcomer n = {.taken = false};
        struct wrk_quota *q;
        pthread_t thread;
        bool taken;

        ut_session_new(&n.s, arb, 1, LIMIT, 10);
        q = quota_new(&n.s);
        pthread_barrier_init(&n.start, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, come_and_take, &n), 0);
        pthread_barrier_wait(&n.start);
        for (unsigned i = 0; i < round; i++) {
            assert_true(wrk_quota_take(q, 1, 1)); /* another slice */
            wrk_quota_give(q, 1, 1);
        }
        taken = wrk_quota_take(q, 0, LIMIT / 2 + 1);
        pthread_join(thread, NULL);
        assert_true(taken != n.taken); /* one of them, and only one */
        firsts += taken;
        assert_int_equal(wrk_quota_used(q, 0), LIMIT / 2 + 1);
        assert_int_equal(srv_ledger_pieces(n.s.ledger, 0), 1);
        assert_int_equal(srv_ledger_high(n.s.ledger, 0), LIMIT / 2 + 1);
        pthread_barrier_destroy(&n.start);
        wrk_quota_free(q);
        ut_session_free(&n.s);
    }
    assert_true(firsts > 0);
}

static void
only_the_first_slot_ever_is_alone(void **state)
{
    struct ut_session s;
    struct wrk_quota *a, *b;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    a = quota_new(&s);
    assert_true(wrk_quota_take(a, 0, LIMIT - 1));
    b = quota_new(&s);
    assert_false(wrk_quota_take(b, 0, 2));
    assert_true(wrk_quota_take(b, 0, 1));
    assert_false(wrk_quota_take(a, 0, 1));
    wrk_quota_give(b, 0, 1);
    assert_true(wrk_quota_take(a, 0, 1));
    wrk_quota_free(a);
    wrk_quota_free(b);
    ut_session_free(&s);
}

/* --- the ledger, shared with jobs ----------------------------------------------------
 */

static void
an_address_handed_out_again_is_the_new_allocation(void **state)
{
    struct ut_session s;
    struct wrk_quota *q;
    uint64_t bytes = 0;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    assert_true(wrk_quota_take(q, 0, 70));
    assert_int_equal(wrk_quota_note(q, 0x1000, 0, 1, 70), 0);
    assert_true(wrk_quota_take(q, 0, 7));
    assert_int_equal(wrk_quota_note_new(q, 0x1000, &(struct wrk_quota_held){7, 0, 2}),
                     0);
    assert_int_equal(wrk_quota_note_new(q, 0, &(struct wrk_quota_held){7, 0, 2}),
                     -EINVAL);
    assert_int_equal(wrk_quota_used(q, 0), 7);
    assert_int_equal(srv_ledger_pieces(s.ledger, 0), 1);
    assert_true(wrk_quota_find(q, 0x1000, &bytes));
    assert_int_equal(bytes, 7);
    wrk_quota_drop_ctx(q, 1);
    assert_int_equal(wrk_quota_used(q, 0), 7);
    wrk_quota_drop_ctx(q, 2);
    assert_int_equal(wrk_quota_used(q, 0), 0);
    wrk_quota_free(q);
    ut_session_free(&s);
}

enum { JOB_KEYS = 2000 };

/* What free_job and alloc_job of h_mem.c do. */
static void *
job_main(void *arg)
{
    struct wrk_quota *q = arg;

    for (uint64_t i = 1; i <= JOB_KEYS; i++) {
        struct wrk_quota_held held = {1, 0, 1};

        if (wrk_quota_take(q, 0, 1))
            wrk_quota_note_new(q, i * 2, &held);
        if (i % 2 && wrk_quota_detach(q, i * 2, &held))
            wrk_quota_give(q, 0, held.bytes);
    }
    wrk_quota_unshare(q);
    return NULL;
}

static void
announced_jobs_and_the_reader_use_one_ledger(void **state)
{
    struct ut_session s;
    struct wrk_quota *q;

    (void)state;
    ut_session_new(&s, arb, 1, LIMIT, 10);
    q = quota_new(&s);
    for (unsigned round = 0; round < 20; round++) {
        pthread_t job;

        wrk_quota_share(q);
        assert_int_equal(pthread_create(&job, NULL, job_main, q), 0);
        for (uint64_t i = 1; i <= JOB_KEYS; i++) {
            struct wrk_quota_held held = {1, 0, 2};

            assert_true(wrk_quota_take(q, 0, 1));
            assert_int_equal(wrk_quota_note_new(q, i * 2 + 1, &held), 0);
            if (i % 2)
                assert_true(wrk_quota_drop(q, i * 2 + 1));
        }
        pthread_join(job, NULL);
        assert_int_equal(wrk_quota_used(q, 0), JOB_KEYS);
        wrk_quota_drop_ctx(q, 1);
        assert_int_equal(wrk_quota_used(q, 0), JOB_KEYS / 2);
        wrk_quota_drop_ctx(q, 2);
        assert_int_equal(wrk_quota_used(q, 0), 0);
        assert_int_equal(srv_ledger_pieces(s.ledger, 0), 0);
    }
    wrk_quota_free(q);
    ut_session_free(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tiny_allocations_are_limited_in_number, fresh,
                                        gone),
        cmocka_unit_test_setup_teardown(limit_is_exact_to_the_byte, fresh, gone),
        cmocka_unit_test_setup_teardown(what_others_are_freeing_is_waited_for, fresh,
                                        gone),
        cmocka_unit_test_setup_teardown(
            room_is_looked_for_long_enough_for_a_client_to_send_what_it_freed, fresh,
            gone),
        cmocka_unit_test_setup_teardown(what_nobody_frees_is_refused, fresh, gone),
        cmocka_unit_test_setup_teardown(free_gives_back_what_was_taken_and_only_once,
                                        fresh, gone),
        cmocka_unit_test_setup_teardown(context_takes_its_memory_with_it, fresh, gone),
        cmocka_unit_test_setup_teardown(keys_of_a_range_are_given_back_together, fresh,
                                        gone),
        cmocka_unit_test_setup_teardown(what_is_ending_holds_its_own_bytes, fresh,
                                        gone),
        cmocka_unit_test_setup_teardown(only_the_first_slot_ever_is_alone, fresh, gone),
        cmocka_unit_test_setup_teardown(
            one_that_comes_while_another_takes_is_counted_with_it, fresh, gone),
        cmocka_unit_test_setup_teardown(
            an_address_handed_out_again_is_the_new_allocation, fresh, gone),
        cmocka_unit_test_setup_teardown(announced_jobs_and_the_reader_use_one_ledger,
                                        fresh, gone),
        cmocka_unit_test_setup_teardown(
            killed_workers_leave_nothing_and_never_exceed_the_limit, fresh, gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
