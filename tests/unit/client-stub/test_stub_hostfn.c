/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs host functions: one may be due, or registered, at the one moment
 * when it has looked and does not sleep yet. */
#include "ut.h"

#include "stub_hostfn.c"

#include <unistd.h>

#define UT_TOKEN 7

static struct hostfns *fns = &of_link[0];

static void
nothing(void *user)
{
    (void)user;
}

/* As hostfn_add() does, without the thread. */
static void
registered(void)
{
    struct hostfn *f = calloc(1, sizeof(*f));

    f->token = UT_TOKEN;
    f->fn = nothing;
    fns->last = fns->first ? fns->last : &fns->first;
    assert_int_equal(hostfn_table_room(&table), 0);
    *hostfn_table_enter(&table, f->token) = f;
    hostfn_registered(fns);
}

/* As the thread that reads does. */
static void
found_due(void)
{
    struct wire_event_host_func event = {.token = UT_TOKEN, .once = 1};

    assert_null(hostfn_due(&stub_links[0], &event, false));
}

/* A message as a thread that reads has it. */
static const char *
message_came(const char *(*take)(struct stub_link *, const struct wire_rep *),
             uint64_t ticket)
{
    struct {
        struct wire_rep head;
        struct wire_event_host_func event;
    } message = {{.size = sizeof(message)}, {.token = UT_TOKEN, .ticket = ticket}};

    return take(&stub_links[0], &message.head);
}

static void
taken(void)
{
    struct due *d = hostfn_take(fns);

    assert_non_null(d);
    free(d);
}

static int
start(void **state)
{
    (void)state;
    fns->waiting_call.link = &stub_links[0];
    alarm(10); /* the sleep has no end otherwise */
    return 0;
}

static int
end(void **state)
{
    (void)state;
    alarm(0);
    return 0;
}

/* The last function of all becomes due between the look and the sleep. */
static void
last_function_that_is_due_before_the_sleep_is_not_forgotten(void **state)
{
    uint32_t seen;

    registered();
    seen = atomic_load(&fns->changes);
    assert_null(hostfn_take(fns));
    found_due();
    assert_int_equal(atomic_load(&fns->outstanding), 0);
    assert_true(hostfn_rest(fns, seen));
    taken();
}

/* All of a function's life but its run passes between the look and the sleep. */
static void
function_that_comes_and_is_due_before_the_sleep_is_not_forgotten(void **state)
{
    uint32_t seen = atomic_load(&fns->changes);

    assert_null(hostfn_take(fns));
    registered();
    found_due();
    assert_int_equal(atomic_load(&fns->outstanding), 0);
    assert_true(hostfn_rest(fns, seen));
    taken();
}

/* The worker says it again over another connection, and cannot know that it came. */
static void
function_that_is_due_by_way_of_two_connections_is_due_once(void **state)
{
    fns->second_started = true; /* this test is the thread */
    registered();
    assert_null(message_came(hostfn_take_urgent, 5));
    taken();
    assert_null(message_came(hostfn_take_urgent, 5));
    assert_null(message_came(hostfn_take_due, 5));
    assert_null(hostfn_take(fns));
    assert_null(message_came(hostfn_take_due, 6));
    taken();
    for (uint64_t ticket = 7; ticket < 7 + 2 * URGENT_KEPT; ticket++) {
        assert_null(message_came(hostfn_take_urgent, ticket));
        taken();
        assert_null(message_came(hostfn_take_due, ticket));
    }
    assert_null(hostfn_take(fns));
    assert_non_null(message_came(hostfn_take_urgent, 0));
    found_due();
    taken();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            last_function_that_is_due_before_the_sleep_is_not_forgotten, start, end),
        cmocka_unit_test_setup_teardown(
            function_that_comes_and_is_due_before_the_sleep_is_not_forgotten, start,
            end),
        cmocka_unit_test_setup_teardown(
            function_that_is_due_by_way_of_two_connections_is_due_once, start, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
