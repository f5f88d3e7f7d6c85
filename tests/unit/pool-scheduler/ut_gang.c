/* SPDX-License-Identifier: Apache-2.0 */
#include "ut_gang.h"

#include "gp_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

Gpupool__Ctl__CtlOpen
ut_gang_member(const char *gang, uint32_t size, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(core, GIB);

    open.owner = (char *)"ada@host";
    open.wait = true;
    open.gang = (char *)gang;
    open.gang_size = size;
    return open;
}

void
ut_gang_post(int fd, Gpupool__Ctl__CtlOpen open)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.id = 77;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    open.major = CTL_MAJOR;
    req.open = &open;
    ut_sched_post(fd, &req);
}

void
ut_gang_waits(int fd, Gpupool__Ctl__CtlOpen open, const char *reason)
{
    reply_t *reply = ut_sched_open(fd, &open);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED);
    if (!strstr(reply->queued->reason, reason))
        fail_msg("\"%s\" does not say \"%s\"", reply->queued->reason, reason);
    ut_sched_drop(reply);
}

reply_t *
ut_gang_granted(int fd)
{
    reply_t *reply = ut_sched_hear(fd);

    while (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED) {
        ut_sched_drop(reply);
        reply = ut_sched_hear(fd);
    }
    assert_non_null(reply);
    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    return reply;
}

uint32_t
ut_gang_waiting(const struct world *w, char *reason, size_t size)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery query = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    int fd = ut_sched_dial(w);
    reply_t *reply;
    uint32_t n;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &query;
    reply = ut_sched_ask(fd, &req);
    n = reply->queue->waiting;
    if (reason)
        snprintf(reason, size, "%s", n ? reply->queue->waiters[0]->reason : "");
    ut_sched_drop(reply);
    close(fd);
    return n;
}

void
ut_gang_await_waiting(const struct world *w, uint32_t n)
{
    uint64_t end = gp_now_ns() + PATIENCE;

    while (ut_gang_waiting(w, NULL, 0) != n && gp_now_ns() < end)
        ;
    assert_int_equal(ut_gang_waiting(w, NULL, 0), n);
}

void
ut_gang_finish(int server, int client, const Gpupool__Ctl__CtlGrant *grant,
               uint64_t other)
{
    ut_sched_post_close(client, grant);
    ut_sched_await_notice(server, grant->session_id);
    ut_sched_drop(ut_sched_report(server, other));
}

void
ut_gang_start_with(struct world *w, const char *rules)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/rules", w->dir);
    assert_int_equal(gp_file_replace(path, rules, strlen(rules), 0600, NULL), 0);
    w->config.rules = path;
    w->config.owner_sessions = 1000;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
}
