/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler answers to controllers and pods of Kubernetes. */
#include "ut_sched.h"

#include <string.h>

static Gpupool__Ctl__CtlOpen
once(const char *owner)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(30, GIB);

    open.owner = (char *)owner;
    open.once = true;
    return open;
}

static void
asking_twice_gives_one_session(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), client = ut_sched_dial(w);
    reply_t *first = ut_sched_granted(client, once("kube:one"));
    reply_t *again = ut_sched_granted(client, once("kube:one"));
    reply_t *other = ut_sched_granted(client, once("kube:two"));

    assert_int_equal(first->grant->session_id, again->grant->session_id);
    assert_memory_equal(first->grant->lease_key.data, again->grant->lease_key.data, 16);
    assert_int_not_equal(first->grant->session_id, other->grant->session_id);
    ut_sched_drop(first);
    ut_sched_drop(again);
    ut_sched_drop(other);
    close(client);
    close(server);
}

static reply_t *
watch(int fd, uint64_t seen, uint32_t timeout_ms)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlWatchPool body = GPUPOOL__CTL__CTL_WATCH_POOL__INIT;
    reply_t *reply;

    body.seen = seen;
    body.timeout_ms = timeout_ms;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_WATCH_POOL;
    req.watch_pool = &body;
    reply = ut_sched_ask(fd, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_POOL_CHANGE);
    return reply;
}

static uint64_t
state_of_pool(int fd, uint64_t seen, uint32_t timeout_ms)
{
    reply_t *reply = watch(fd, seen, timeout_ms);
    uint64_t now = reply->pool_change->now;

    ut_sched_drop(reply);
    return now;
}

static void
a_watch_is_answered_when_something_is_given(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), client = ut_sched_dial(w),
        watcher = ut_sched_dial(w);
    uint64_t first = state_of_pool(watcher, 0, 20000), second;
    reply_t *grant;

    assert_int_equal(state_of_pool(watcher, first, 1), first); /* its time is over */
    grant = ut_sched_granted(client, once("kube:one"));
    second = state_of_pool(watcher, first, 20000);
    assert_int_not_equal(first, second);
    ut_sched_drop(grant);
    close(server); /* a server that goes is a change, too */
    assert_int_not_equal(state_of_pool(watcher, second, 20000), second);
    close(client);
    close(watcher);
}

static void
a_status_can_leave_the_sessions_out(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, once("kube:one")), *reply;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus body = GPUPOOL__CTL__CTL_STATUS__INIT;

    body.servers_only = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &body;
    reply = ut_sched_ask(client, &req);
    assert_int_equal(reply->status->n_servers, 1);
    assert_int_equal(reply->status->n_sessions, 0);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(client);
    close(server);
}

static void
a_scheduler_without_an_api_server_refuses_pods(void **state)
{
    struct world *w = *state;
    int client = ut_sched_dial(w);
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlPodSession body = GPUPOOL__CTL__CTL_POD_SESSION__INIT;

    body.major = 1;
    body.token = (char *)"t";
    body.claim = (char *)"c";
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_POD_SESSION;
    req.pod_session = &body;
    ut_sched_refused(ut_sched_ask(client, &req),
                     GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "serves no pods");
    close(client);
}

int
main(void)
{
#define CASE(name)                                                                     \
    cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)
    const struct CMUnitTest tests[] = {
        CASE(asking_twice_gives_one_session),
        CASE(a_watch_is_answered_when_something_is_given),
        CASE(a_status_can_leave_the_sessions_out),
        CASE(a_scheduler_without_an_api_server_refuses_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
