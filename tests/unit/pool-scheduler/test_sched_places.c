/* SPDX-License-Identifier: Apache-2.0 */
/* Places in the queue that clients come back with, after a restart or a failover. */
#include "ut_wait.h"

#include "gp_err.h"
#include "gp_str.h"
#include "sched_types.h"
#include "sched_wait.h"
#include "ticket_key.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SIGNED_UNIX UINT64_C(1700000000)

static void
place_is_kept_over_a_restart(void **state)
{
    struct world *w = *state;
    int a = ut_sched_dial(w), b = ut_sched_dial(w), server;
    reply_t *first = ut_wait_queued(a, ut_wait_preference("ada@host", 60)), *again;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 60),
                          forged = ut_wait_preference("bob@h", 60);

    assert_int_equal(first->queued->place.len, SCHED_PLACE_SIZE);
    ut_sched_end(w, SIGKILL);
    close(a);
    close(b);
    ut_sched_start(w);

    /* Somebody was faster, and somebody else shows a place that is not his. */
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("ada@host", 60)));
    open.place = first->queued->place;
    again = ut_wait_queued(a, open);
    assert_int_equal(again->queued->position, 1);
    forged.place = first->queued->place;
    server = ut_sched_dial(w);
    ut_sched_drop(again);
    again = ut_wait_queued(server, forged);
    assert_int_equal(again->queued->position, 3);
    ut_sched_drop(again);
    ut_sched_drop(first);
    close(server);

    server = ut_sched_join(w, "node-a", 1);
    ut_wait_granted(a);
    close(server);
    close(a);
    close(b);
}

/* After a failover: the clock of the leader that signed it was another one. */
static void
place_is_good_in_spite_of_clocks_that_differ(void **state)
{
    static struct sched_waits waits;
    struct sched_wait wait = {.waiter.arrived = SIGNED_UNIX * GP_NS_PER_S};
    struct sched sched = {.waits = &waits};
    uint8_t place[SCHED_PLACE_SIZE];
    static const struct {
        int64_t later;
        bool good;
    } moments[] = {{0, true},   {-5, true},   {-30, true},
                   {120, true}, {-31, false}, {121, false}};

    (void)state;
    assert_int_equal(ticket_key_generate(&sched.key, NULL), 0);
    wait.sched = &sched;
    assert_int_equal(sched_place_sign(&wait, SIGNED_UNIX, place), 0);
    for (size_t i = 0; i < ARRAY_SIZE(moments); i++)
        assert_int_equal(sched_place_check(&wait,
                                           SIGNED_UNIX + (uint64_t)moments[i].later,
                                           place, sizeof(place)),
                         moments[i].good ? wait.waiter.arrived : 0);
    ticket_key_free(sched.key);
}

/* Otherwise who has waited once is always first. */
static void
place_is_good_for_one_request(void **state)
{
    struct world *w = *state;
    int a = ut_sched_dial(w), b = ut_sched_dial(w), twin = ut_sched_dial(w), server;
    reply_t *first = ut_wait_queued(a, ut_wait_preference("ada@host", 60)), *again,
            *grant;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 60);

    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("ada@host", 60)));
    /* At the same time: the one that comes later has it. */
    open.place = first->queued->place;
    again = ut_wait_queued(twin, open);
    assert_int_equal(again->queued->position, 1);
    assert_int_equal(again->queued->waiting, 2);
    ut_sched_drop(again);
    again = ut_wait_outcome(a);
    assert_non_null(again->error);
    ut_wait_says(again->error->words, "another connection came back with the place");
    ut_sched_drop(again);
    /* And not after it was served. */
    server = ut_sched_join(w, "node-a", 1);
    grant = ut_wait_outcome(twin);
    assert_int_equal(grant->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    again = ut_wait_queued(a, open);
    assert_int_equal(again->queued->position, 2);
    ut_sched_drop(again);
    ut_wait_finish(server, twin, grant->grant);
    ut_wait_granted(b);
    ut_sched_drop(grant);
    ut_sched_drop(first);
    close(server);
    close(a);
    close(b);
    close(twin);
}

/* A place of @arrived that the scheduler signed. */
static void
make_place(const struct world *w, const Gpupool__Ctl__CtlOpen *open, uint64_t arrived,
           uint8_t place[SCHED_PLACE_SIZE])
{
    struct sched_wait wait = {.waiter.arrived = arrived};
    struct sched sched = {0};
    char path[128];

    snprintf(path, sizeof(path), "%s/ticket-key.pem", w->dir);
    assert_int_equal(ticket_key_open(path, &sched.key, NULL), 0);
    wait.sched = &sched;
    wait.open.req = (struct sched_request){
        .core = open->core, .cards = 1, .memory = open->memory_bytes};
    gp_str_copy(wait.owner, sizeof(wait.owner), open->owner);
    gp_str_copy(wait.class_name, sizeof(wait.class_name), "normal");
    assert_int_equal(sched_place_sign(&wait, gp_wall_ns() / GP_NS_PER_S, place), 0);
    ticket_key_free(sched.key);
}

/* The age counts for what the operator sees and for reserve-after. */
static void
time_that_was_waited_before_a_restart_counts(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 60);
    uint64_t end = gp_now_ns() + PATIENCE;
    uint8_t place[SCHED_PLACE_SIZE];
    size_t kept;
    reply_t *queue;

    ut_sched_drop(ut_sched_granted(b, ut_sched_preference(80, GIB)));
    make_place(w, &open, gp_wall_ns() - 3600 * GP_NS_PER_S, place);
    open.place.data = place;
    open.place.len = sizeof(place);
    open.wait_ms = 600000; /* from now on */
    ut_sched_drop(ut_wait_queued(a, open));
    queue = ut_wait_ask_queue(w);
    assert_int_equal(queue->queue->n_waiters, 1);
    assert_true(queue->queue->waiters[0]->waited_ms >= 3600000);
    assert_true(queue->queue->waiters[0]->waited_ms < 3700000);
    ut_sched_drop(queue);
    do { /* with the next tick, and not only after reserve-after, a minute */
        queue = ut_wait_ask_queue(w);
        kept = queue->queue->waiters[0]->n_held_cards;
        ut_sched_drop(queue);
    } while (!kept && gp_now_ns() < end);
    assert_int_equal(kept, 1);
    close(server);
    close(a);
    close(b);
}

/* Between tenants that hold the same, arrival decides: that of the request, not that of
 * the tenant, and after a restart whoever comes back with an older place is before who
 * was faster. */
static void
oldest_request_is_first_among_tenants_that_hold_the_same(void **state)
{
    struct world *w = *state;
    int fds[3] = {ut_sched_dial(w), ut_sched_dial(w)}, server;
    reply_t *bob = ut_wait_queued(fds[0], ut_wait_preference("bob@host", 60)), *reply;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("bob@host", 60);

    ut_sched_drop(ut_wait_queued(fds[1], ut_wait_preference("ada@host", 60)));
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
    close(fds[0]);
    close(fds[1]);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = ut_sched_dial(w);
    ut_sched_drop(ut_wait_queued(fds[0], ut_wait_preference("ada@host", 60)));
    open.place = bob->queued->place;
    reply = ut_wait_queued(fds[1], open);
    assert_int_equal(reply->queued->position, 1);
    ut_sched_drop(reply);
    ut_sched_drop(bob);
    reply = ut_wait_queued(fds[2], ut_wait_preference("bob@host", 60));
    assert_int_equal(reply->queued->position, 2); /* beside his older one */
    ut_sched_drop(reply);
    server = ut_sched_join(w, "node-a", 1);
    ut_wait_granted(fds[1]);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    close(server);
}

/* A controller may ask a second time while the first request waits. */
static void
request_for_one_session_gets_the_one_that_there_is(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), first = ut_sched_dial(w),
        waits = ut_sched_dial(w), other = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(first, ut_sched_preference(80, GIB)), *found,
            *reply;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("eve@host", 60);

    open.once = true;
    ut_sched_drop(ut_wait_queued(waits, open));
    open.wait = false;
    open.core = 10;
    found = ut_sched_granted(other, open);
    ut_wait_finish(server, first, grant->grant);
    reply = ut_wait_outcome(waits);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    assert_int_equal(reply->grant->session_id, found->grant->session_id);
    ut_sched_drop(reply);
    reply = ut_wait_ask_queue(w);
    assert_int_equal(reply->queue->waiting, 0);
    ut_sched_drop(reply);
    ut_sched_drop(found);
    ut_sched_drop(grant);
    close(server);
    close(first);
    close(waits);
    close(other);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(place_is_kept_over_a_restart),
        T(place_is_good_for_one_request),
        T(time_that_was_waited_before_a_restart_counts),
        T(oldest_request_is_first_among_tenants_that_hold_the_same),
        T(request_for_one_session_gets_the_one_that_there_is),
        cmocka_unit_test(place_is_good_in_spite_of_clocks_that_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
