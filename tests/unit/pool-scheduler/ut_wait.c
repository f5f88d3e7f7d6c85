/* SPDX-License-Identifier: Apache-2.0 */
#include "ut_wait.h"

#include <string.h>

Gpupool__Ctl__CtlOpen
ut_wait_preference(const char *owner, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(core, GIB);

    open.owner = (char *)owner;
    open.wait = true;
    return open;
}

/* Open and expect a place in the queue; the caller drops the reply. */
reply_t *
ut_wait_queued(int fd, Gpupool__Ctl__CtlOpen open)
{
    reply_t *reply = ut_sched_open(fd, &open);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED);
    return reply;
}

void
ut_wait_says(const char *words, const char *part)
{
    if (!strstr(words, part))
        fail_msg("\"%s\" does not say \"%s\"", words, part);
}

/* What comes after all news of the queue; the caller drops it. */
reply_t *
ut_wait_outcome(int fd)
{
    reply_t *reply = ut_sched_hear(fd);

    while (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED) {
        ut_sched_drop(reply);
        reply = ut_sched_hear(fd);
    }
    assert_non_null(reply);
    return reply;
}

void
ut_wait_granted(int fd)
{
    reply_t *reply = ut_wait_outcome(fd);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    ut_sched_drop(reply);
}

/* A session ends, and its server has no workers of it. */
void
ut_wait_finish(int server, int client, const Gpupool__Ctl__CtlGrant *grant)
{
    ut_sched_post_close(client, grant);
    ut_sched_await_notice(server, grant->session_id);
    ut_sched_drop(ut_sched_report(server, 0));
}

reply_t *
ut_wait_ask_queue(const struct world *w)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery query = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    int fd = ut_sched_dial(w);
    reply_t *reply;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &query;
    reply = ut_sched_ask(fd, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE);
    close(fd);
    return reply;
}
