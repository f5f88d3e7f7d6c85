/* SPDX-License-Identifier: Apache-2.0 */
/* The session's memory limit, over threads and processes, killed ones included. */
#include "ut.h"

#include "wrk_quota.h"
#include "wrk_segment.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LIMIT UINT64_C(1000003)

static struct wrk_segment *
segment_new(uint32_t seats)
{
    struct wrk_segment *seg = mmap(NULL, sizeof(*seg), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;

    assert_ptr_not_equal(seg, MAP_FAILED);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&seg->memory_lock, &attr);
    seg->n_slices = 2;
    seg->slices[0].memory = LIMIT;
    seg->slices[1].memory = 10;
    atomic_store(&seg->seats_high, seats);
    return seg;
}

static struct wrk_quota *
quota_new(struct wrk_segment *seg, uint32_t seat)
{
    struct wrk_quota *q = NULL;

    assert_int_equal(wrk_quota_new(seg, seat, &q), 0);
    return q;
}

static void
limit_is_exact_to_the_byte(void **state)
{
    struct wrk_segment *seg = segment_new(2);
    struct wrk_quota *a = quota_new(seg, 0);
    struct wrk_quota *b = quota_new(seg, 1);

    (void)state;
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
    assert_int_equal(atomic_load(&seg->high[0]), LIMIT);
    wrk_quota_free(a);
    wrk_quota_free(b);
    munmap(seg, sizeof(*seg));
}

static void
tiny_allocations_are_limited_in_number(void **state)
{
    struct wrk_segment *seg = segment_new(2);
    struct wrk_quota *a = quota_new(seg, 0);
    struct wrk_quota *b = quota_new(seg, 1);
    uint64_t most = 16384 + 4096;

    (void)state;
    seg->slices[0].memory = 4096 * 4096;
    for (uint64_t i = 0; i < most; i++)
        assert_true(wrk_quota_take(i % 2 ? a : b, 0, 1));
    assert_false(wrk_quota_take(a, 0, 1));
    assert_int_equal(wrk_quota_used(a, 0), most);
    wrk_quota_give(b, 0, 1);
    assert_true(wrk_quota_take(a, 0, 1));
    assert_false(wrk_quota_take(b, 0, 1));
    wrk_quota_free(a);
    wrk_quota_free(b);
    munmap(seg, sizeof(*seg));
}

static void
free_gives_back_what_was_taken_and_only_once(void **state)
{
    struct wrk_segment *seg = segment_new(1);
    struct wrk_quota *q = quota_new(seg, 0);
    struct wrk_quota_held held;
    uint64_t bytes = 0;

    (void)state;
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
    munmap(seg, sizeof(*seg));
}

static void
context_takes_its_memory_with_it(void **state)
{
    enum { N = 5000 };
    struct wrk_segment *seg = segment_new(1);
    struct wrk_quota *q = quota_new(seg, 0);
    uint64_t kept = 0;

    (void)state;
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
    munmap(seg, sizeof(*seg));
}

static _Noreturn void
take_and_give_for_ever(struct wrk_segment *seg, uint32_t seat)
{
    struct wrk_quota *q = NULL;

    if (wrk_quota_new(seg, seat, &q) < 0)
        _exit(1);
    srand(seat);
    for (;;) {
        uint64_t bytes = 1 + (uint64_t)rand() % (LIMIT / 3);

        if (wrk_quota_take(q, 0, bytes))
            wrk_quota_give(q, 0, bytes);
    }
}

/* Workers are killed wherever they are, the lock included; clearing their seats is
 * all it takes, and at no time is the sum over the limit. */
static void
killed_workers_leave_nothing_and_never_exceed_the_limit(void **state)
{
    enum { WORKERS = 3, ROUNDS = 40 };
    struct wrk_segment *seg = segment_new(WORKERS + 1);
    struct wrk_quota *q = quota_new(seg, WORKERS);

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pid_t pids[WORKERS];

        for (uint32_t i = 0; i < WORKERS; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0)
                take_and_give_for_ever(seg, i);
        }
        for (unsigned i = 0; i < 2000; i++)
            assert_true(wrk_quota_used(q, 0) <= LIMIT);
        for (uint32_t i = 0; i < WORKERS; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
            atomic_store(&seg->seats[i].used[0], 0); /* as the supervisor does */
        }
        assert_int_equal(wrk_quota_used(q, 0), 0);
        assert_true(wrk_quota_take(q, 0, LIMIT));
        wrk_quota_give(q, 0, LIMIT);
    }
    wrk_quota_free(q);
    munmap(seg, sizeof(*seg));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_allocations_are_limited_in_number),
        cmocka_unit_test(limit_is_exact_to_the_byte),
        cmocka_unit_test(free_gives_back_what_was_taken_and_only_once),
        cmocka_unit_test(context_takes_its_memory_with_it),
        cmocka_unit_test(killed_workers_leave_nothing_and_never_exceed_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
