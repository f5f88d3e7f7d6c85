/* SPDX-License-Identifier: Apache-2.0 */
/* Sleepers: the answer may come at the one moment when nobody holds the lock. */
#include "ut.h"

#include <stdatomic.h>

/* What another thread does at that moment: once. */
static void (*ut_before_exchange)(void);

static void
ut_exchange(void)
{
    void (*now)(void) = ut_before_exchange;

    ut_before_exchange = NULL;
    if (now)
        now();
}

/* The lead is taken by an exchange. */
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(at, old, new)                                   \
    (ut_exchange(), atomic_compare_exchange_strong_explicit(                           \
                        at, old, new, memory_order_seq_cst, memory_order_seq_cst))

#include "stub_wait.c"

#include <unistd.h>

static struct stub_link ut_link;

/* A call that stub_wait_for() has found pending, with the lock held as there. */
static void
found_pending(struct stub_call *c, enum stub_call_state state)
{
    memset(c, 0, sizeof(*c));
    c->link = &ut_link;
    c->result = CUDA_ERROR_NOT_FOUND;
    gp_lock_take(&ut_link.wait);
    wait_set_state(c, state);
}

/* Another thread reads the answer between the look and the sleep: it takes no lock. */
static void
answer_that_comes_before_the_sleep_is_not_forgotten(void **state)
{
    struct stub_call c;

    alarm(10); /* the sleep has no end otherwise */
    found_pending(&c, STUB_CALL_DONE);
    wait_sleep(&c, NULL);
    assert_int_equal(wait_state(&c), STUB_CALL_DONE);
    atomic_store(&ut_link.leading,
                 true); /* so that it would sleep again, were it not done */
    assert_int_equal(stub_wait_for(&c), CUDA_ERROR_NOT_FOUND);
    atomic_store(&ut_link.leading, false);
    alarm(0);
}

static struct stub_call *ut_waits;

/* Another thread that reads finishes the call and gives up the lead. */
static void
read_by_another(void)
{
    wait_unlink(ut_waits);
    wait_finish(ut_waits, CUDA_ERROR_NOT_FOUND);
    atomic_store(&ut_link.leading, false);
}

/* Between the look at the state and the lead: who would read then would read for ever.
 * The thread has the lead then, and gives it up as any other does. */
static void
answer_that_comes_before_the_lead_is_not_waited_for(void **state)
{
    struct stub_call c = {.link = &ut_link}, sleeper = {.link = &ut_link};

    alarm(10);
    atomic_store(&ut_link.leading, true);
    stub_wait_enter(&c, false);
    ut_waits = &c;
    ut_before_exchange = read_by_another;
    assert_int_equal(stub_wait_for(&c), CUDA_ERROR_NOT_FOUND);
    stub_wait_enter(&sleeper, false);
    sleeper.sleeps = true;
    stub_wait_leave(&c);
    assert_false(atomic_load(&ut_link.leading));
    assert_int_equal(wait_state(&sleeper), STUB_CALL_CALLED);
    stub_wait_cancel(&sleeper);
    alarm(0);
}

/* Who is called to lead and finds a leader goes back to sleep: the call is used up. */
static void
call_to_lead_is_used_up_by_the_sleep(void **state)
{
    const struct timespec pause = {.tv_nsec = 1000};
    struct stub_call c;

    found_pending(&c, STUB_CALL_CALLED);
    wait_sleep(&c, &pause);
    assert_int_equal(wait_state(&c), STUB_CALL_PENDING);
    assert_false(c.sleeps); /* a short sleep is not interrupted for a lead to take */
}

static void
lead_is_one_threads_and_needs_no_list(void **state)
{
    struct stub_call first = {.link = &ut_link}, second = {.link = &ut_link};

    stub_wait_enter(&first, true);
    assert_true(first.leads);
    assert_null(atomic_load(&ut_link.waiting));
    stub_wait_enter(&second, true);
    assert_false(second.leads);
    assert_ptr_equal(atomic_load(&ut_link.waiting), &second);
    stub_wait_cancel(&second);
    stub_wait_leave(&first);
    assert_null(atomic_load(&ut_link.waiting));
    assert_false(atomic_load(&ut_link.leading));
}

/* Who leads and would have to wait for room is a call like others from then on: a
 * sleeper is called to read, and an answer finds it in the list. */
static void
who_steps_back_is_found_and_has_somebody_read(void **state)
{
    struct stub_call first = {.link = &ut_link, .seq = 7}, sleeper = {.link = &ut_link};

    stub_wait_enter(&first, true);
    stub_wait_enter(&sleeper, true);
    sleeper.sleeps = true;
    stub_wait_step_back(&first);
    assert_false(first.leads);
    assert_false(atomic_load(&ut_link.leading));
    assert_int_equal(wait_state(&sleeper), STUB_CALL_CALLED);
    assert_ptr_equal(wait_claim(&sleeper, 7), &first);
    stub_wait_cancel(&sleeper);
    assert_null(atomic_load(&ut_link.waiting));
}

/* Who gives up the lead looks for those who came meanwhile. */
static void
lead_that_ends_is_offered_to_a_sleeper(void **state)
{
    struct stub_call first = {.link = &ut_link}, sleeper = {.link = &ut_link};

    stub_wait_enter(&first, true);
    stub_wait_enter(&sleeper, false);
    sleeper.sleeps = true;
    stub_wait_leave(&first);
    assert_int_equal(wait_state(&sleeper), STUB_CALL_CALLED);
    stub_wait_cancel(&sleeper);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_that_comes_before_the_sleep_is_not_forgotten),
        cmocka_unit_test(answer_that_comes_before_the_lead_is_not_waited_for),
        cmocka_unit_test(call_to_lead_is_used_up_by_the_sleep),
        cmocka_unit_test(lead_is_one_threads_and_needs_no_list),
        cmocka_unit_test(who_steps_back_is_found_and_has_somebody_read),
        cmocka_unit_test(lead_that_ends_is_offered_to_a_sleeper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
