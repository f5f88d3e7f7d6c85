/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for room in the scheduler as a process: places, quotas, classes, and what a
 * client that waits is told.
 */
#include "ut_wait.h"

#include "gp_err.h"
#include "gp_file.h"
#include "sched_rules.h"
#include "sched_wait.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A scheduler that was started with @rules. */
static void
with_rules(struct world *w, const char *rules)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/rules", w->dir);
    assert_int_equal(gp_file_replace(path, rules, strlen(rules), 0600, NULL), 0);
    if (w->config.rules)
        return;
    w->config.rules = path;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
}

static void
await_waiting(const struct world *w, uint32_t n)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    uint32_t waiting;

    do {
        reply_t *reply = ut_wait_ask_queue(w);

        waiting = reply->queue->waiting;
        ut_sched_drop(reply);
    } while (waiting != n && gp_now_ns() < end);
    assert_int_equal(waiting, n);
}

/* -------------------------------------------------------------------- places -- */

static void
request_that_does_not_fit_waits_and_is_served_in_order(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), first = ut_sched_dial(w),
        second = ut_sched_dial(w), third = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(first, ut_sched_preference(80, GIB)), *reply;

    reply = ut_wait_queued(second, ut_wait_preference("ada@host", 60));
    assert_int_equal(reply->queued->position, 1);
    ut_wait_says(reply->queued->reason, "most free: 20 %, 60 % wanted");
    assert_false(reply->queued->estimated);
    ut_sched_drop(reply);
    reply = ut_wait_queued(third, ut_wait_preference("ada@host", 70));
    assert_int_equal(reply->queued->position, 2);
    assert_int_equal(reply->queued->waiting, 2);
    ut_sched_drop(reply);
    ut_wait_finish(server, first, grant->grant);
    ut_sched_drop(grant);
    ut_wait_granted(second);
    await_waiting(w, 1);
    close(server);
    close(first);
    close(second);
    close(third);
}

static void
small_request_passes_one_that_does_not_fit(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), first = ut_sched_dial(w),
        second = ut_sched_dial(w), third = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(first, ut_sched_preference(50, GIB));
    reply_t *other = ut_sched_granted(first, ut_sched_preference(50, GIB));

    ut_sched_drop(ut_wait_queued(second, ut_wait_preference("ada@host", 80)));
    ut_sched_drop(ut_wait_queued(third, ut_wait_preference("ada@host", 40)));
    ut_sched_post_close(first, grant->grant);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(server, other->grant->session_id));
    ut_wait_granted(third);
    await_waiting(w, 1);
    ut_sched_drop(grant);
    ut_sched_drop(other);
    close(server);
    close(first);
    close(second);
    close(third);
}

static void
lost_client_leaves_the_queue(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w);

    ut_sched_drop(ut_sched_granted(a, ut_sched_preference(80, GIB)));
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("ada@host", 60)));
    await_waiting(w, 1);
    close(b);
    await_waiting(w, 0);
    close(server);
    close(a);
}

static void
time_to_wait_ends_in_a_refusal(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 60);

    ut_sched_drop(ut_sched_granted(a, ut_sched_preference(80, GIB)));
    open.wait_ms = 300;
    ut_sched_drop(ut_wait_queued(b, open));
    ut_sched_refused(ut_wait_outcome(b), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "timed out in the queue: the only card does not fit");
    await_waiting(w, 0);
    /* The connection is good for another request. */
    ut_sched_drop(ut_sched_granted(b, ut_sched_preference(20, GIB)));
    close(server);
    close(a);
    close(b);
}

static void
connection_that_waits_has_one_request(void **state)
{
    struct world *w = *state;
    int a = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 60);

    ut_sched_drop(ut_wait_queued(a, open)); /* no server at all */
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "waits already");
    await_waiting(w, 1);
    close(a);
}

static void
waiting_ends_when_a_server_comes(void **state)
{
    struct world *w = *state;
    int a = ut_sched_dial(w), server;
    reply_t *reply = ut_wait_queued(a, ut_wait_preference("ada@host", 60));

    ut_wait_says(reply->queued->reason, "no server has registered");
    ut_sched_drop(reply);
    server = ut_sched_join(w, "node-a", 1);
    ut_wait_granted(a);
    close(server);
    close(a);
}

/* -------------------------------------------------------------------- quotas -- */

static void
quota_refuses_or_queues_and_is_named(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 40);
    reply_t *grant, *reply;
    int server, a, b;

    with_rules(w, "[tenant research]\nowners = ada@*\ncore = 60\nmemory = 8GiB\n");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    grant = ut_sched_granted(a, open);
    open.wait = false;
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "quota: tenant research may hold 60 % core and holds 40 %, 40 % "
                     "wanted");
    open = ut_wait_preference("ada@host", 70);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "70 % wanted"); /* never: it does not even wait */
    reply = ut_wait_queued(b, ut_wait_preference("ada@elsewhere", 40));
    ut_wait_says(reply->queued->reason, "quota: tenant research");
    ut_sched_drop(reply);
    ut_sched_drop(
        ut_sched_granted(a, ut_wait_preference("bob@host", 90))); /* another tenant */
    ut_wait_finish(server, a, grant->grant);
    ut_sched_drop(grant);
    ut_wait_granted(b);
    close(server);
    close(a);
    close(b);
}

/* A scheduler whose owners have two sessions at most, and a card that bob has. */
static reply_t *
fill_up(struct world *w, int *ret_server, int *ret_client)
{
    w->config.owner_sessions = 2;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
    *ret_server = ut_sched_join(w, "node-a", 1);
    *ret_client = ut_sched_dial(w);
    return ut_sched_granted(*ret_client, ut_wait_preference("bob@host", 100));
}

static void
owner_gets_no_more_sessions_by_waiting(void **state)
{
    struct world *w = *state;
    reply_t *grant, *first, *reply;
    int server, bob, ada[3];

    grant = fill_up(w, &server, &bob);
    for (int i = 0; i < 3; i++) {
        ada[i] = ut_sched_dial(w);
        ut_sched_drop(ut_wait_queued(ada[i], ut_wait_preference("ada@host", 10)));
    }
    ut_wait_finish(server, bob, grant->grant);
    ut_sched_drop(grant);
    close(bob); /* with the answer to the close */
    bob = ut_sched_dial(w);
    first = ut_wait_outcome(ada[0]);
    assert_int_equal(first->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    ut_wait_granted(ada[1]);
    await_waiting(w, 1);
    reply = ut_wait_ask_queue(w);
    ut_wait_says(reply->queue->waiters[0]->reason,
                 "owner ada@host has 2 sessions, the most allowed");
    ut_sched_drop(reply);
    ut_sched_drop(
        ut_sched_granted(bob, ut_wait_preference("bob@host", 10))); /* another owner */
    await_waiting(w, 1);
    ut_wait_finish(server, ada[0], first->grant);
    ut_sched_drop(first);
    ut_wait_granted(ada[2]);
    close(server);
    close(bob);
    for (int i = 0; i < 3; i++)
        close(ada[i]);
}

static void
whole_card_is_charged_with_all_of_its_memory(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);
    int server, a;

    with_rules(w, "[tenant research]\nowners = ada@*\nmemory = 8GiB\n");
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "may hold 8.00 GiB and holds 0.00 GiB, 16.00 GiB wanted");
    close(server);
    close(a);
}

static void
smaller_share_is_served_first(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w), d = ut_sched_dial(w);
    reply_t *keep = ut_sched_granted(a, ut_wait_preference("ada@host", 50));
    reply_t *grant = ut_sched_granted(c, ut_wait_preference("cyd@host", 50));
    reply_t *reply;

    ut_sched_drop(ut_wait_queued(
        b, ut_wait_preference("ada@host", 50))); /* holds half the pool */
    reply = ut_wait_queued(d, ut_wait_preference("bob@host", 50));
    assert_int_equal(reply->queued->position, 1); /* came later, holds nothing */
    ut_sched_drop(reply);
    ut_sched_post_close(c, grant->grant);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(server, keep->grant->session_id));
    ut_wait_granted(d);
    await_waiting(w, 1);
    ut_sched_drop(keep);
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(b);
    close(c);
    close(d);
}

static void
rules_are_read_again_and_bad_ones_are_not_taken(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(40, GIB);
    int server, a, b;

    with_rules(w, "[tenant research]\nowners = ada@*\ncore = 50\n");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(a, open));
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("ada@host", 40)));
    with_rules(w, "[tenant research]\ncore = many\n");
    kill(w->scheduler, SIGHUP);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "may hold 50 %");
    with_rules(w, "[tenant research]\nowners = ada@*\ncore = 90\n");
    kill(w->scheduler, SIGHUP);
    ut_wait_granted(b);
    close(server);
    close(a);
    close(b);
}

static void
bad_rules_are_named_with_their_line(void **state)
{
    struct {
        const char *rules, *words;
    } cases[] = {
        {"core = 4\n", ":1: core: a section like [tenant NAME] comes first"},
        {"[tenant a]\ncore = x\n", ":2: x: a number from 1 is wanted"},
        {"[tenant a]\nmemory = 64\n", ":2: 64: in which unit? Say 64MiB or 64GiB"},
        {"[tenant a]\nmemory = 64Gb\n", ":2: 64Gb: a size like 64GiB is wanted"},
        {"[tenant a]\n[tenant a]\n", ":2: tenant a is there twice"},
        {"[class a]\n[class a]\n", ":2: class a is there twice"},
        {"[queue]\n\n[queue]\n", ":3: [queue] is there twice"},
        {"\xef\xbb\xbf[tenant a]\nweight = 2\n\n weight=2\n",
         ":4: weight is in line 2 already"},
        {"[tenant]\n", ":1: [tenant]: a name is wanted"},
        {"[user a]\n", ":1: [user]: tenant, class"},
        {"# all\n\n[class a]\ngrace = 2d\n", ":4: 2d: a time like 30s"},
        {"[class a]\npreempts = maybe\n", ":2: maybe: yes or no"},
        {"[servers *]\nlabels = rack\n", ":2: rack: labels like"},
        {"[queue]\ndefault-class = none\n", "default-class none is no class"},
        {"[tenant a]\nwight = 2\n", ":2: wight: unknown in this section"},
    };
    const char *path = "/tmp/ut-sched-rules";
    struct sched_rules *rules;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct gp_err err = {0};

        gp_file_replace(path, cases[i].rules, strlen(cases[i].rules), 0600, NULL);
        assert_true(sched_rules_load(path, &rules, &err) < 0);
        ut_wait_says(err.msg, cases[i].words);
    }
    unlink(path);
}

/* ------------------------------------------------------------------- classes -- */

static void
higher_class_is_served_first(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(a, ut_sched_preference(100, 0));
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("bob@host", 100);

    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("ada@host", 100)));
    open.priority = (char *)"high";
    ut_sched_drop(ut_wait_queued(c, open));
    ut_wait_finish(server, a, grant->grant);
    ut_sched_drop(grant);
    ut_wait_granted(c);
    await_waiting(w, 1);
    ut_sched_drop(ut_sched_hear(a)); /* that the session is closed */
    open.priority = (char *)"royal";
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "no priority class royal; there are: high, normal, batch");
    close(server);
    close(a);
    close(b);
    close(c);
}

static const char PREEMPT[] = "[class prod]\nvalue = 9\npreempts = yes\n"
                              "[class normal]\nvalue = 5\n"
                              "[class batch]\nvalue = 1\npreemptible = yes\n"
                              "grace = 1s\n";

static void
preemptible_session_ends_after_notice_for_a_higher_class(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 100);
    reply_t *grant, *reply;
    int server, a, b;

    with_rules(w, PREEMPT);
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    open.session_class =
        GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE; /* so its class is batch */
    open.hold = true;
    grant = ut_sched_granted(a, open);
    open = ut_wait_preference("bob@host", 60);
    open.priority = (char *)"prod";
    ut_sched_drop(ut_wait_queued(b, open));
    reply = ut_sched_hear(a);
    assert_int_equal(reply->id, 0);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE);
    assert_true(reply->session_notice->session_id == grant->grant->session_id);
    assert_int_equal(reply->session_notice->ends_in_ms, 1000);
    ut_wait_says(reply->session_notice->words,
                 "it makes room for a request of class prod");
    ut_sched_drop(reply);
    /* Renewing does not save it. */
    reply = ut_sched_renew(a, grant->grant, true);
    assert_null(reply->error);
    ut_sched_drop(reply);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(server, 0));
    ut_wait_granted(b);
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(b);
}

static void
preemption_is_called_off_when_nobody_needs_it(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 100);
    reply_t *grant, *reply;
    int server, a, b;

    with_rules(w, PREEMPT);
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    open.priority = (char *)"batch";
    open.hold = true;
    grant = ut_sched_granted(a, open);
    open = ut_wait_preference("bob@host", 60);
    open.priority = (char *)"prod";
    ut_sched_drop(ut_wait_queued(b, open));
    ut_sched_drop(ut_sched_hear(a));
    close(b);
    reply = ut_sched_hear(a);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE);
    assert_int_equal(reply->session_notice->ends_in_ms, 0);
    ut_sched_drop(reply);
    await_waiting(w, 0);
    reply = ut_sched_renew(a, grant->grant, true);
    assert_null(reply->error);
    assert_true(reply->grant->lease_ms > 0);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(server);
    close(a);
}

static void
equal_class_is_not_preempted_and_explain_says_what_would_help(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 100);
    int server, a;

    with_rules(w, PREEMPT);
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(a, open));
    open.explain = true;
    open.priority = (char *)"prod";
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "it would fit on server node-a if s1 (ada@host) ended");
    close(server);
    close(a);
}

static void
time_limit_ends_a_session(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_wait_preference("ada@host", 100);
    reply_t *grant;

    open.run_ms = 1000;
    grant = ut_sched_granted(a, open);
    ut_sched_await_notice(server, grant->grant->session_id); /* the lease is a minute */
    ut_sched_drop(grant);
    close(server);
    close(a);
}

/* --------------------------------------------------------------- reservations -- */

static void
room_is_kept_for_a_large_request_that_waits_long(void **state)
{
    struct world *w = *state;
    reply_t *grants[2];
    int server, a, b;

    with_rules(w, "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    grants[0] = ut_sched_granted(a, ut_sched_preference(50, GIB));
    grants[1] = ut_sched_granted(a, ut_sched_preference(30, GIB));
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("bob@host", 100)));
    /* Until the card is kept, small requests go on being served. */
    for (;;) {
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(20, GIB);
        reply_t *reply = ut_sched_open(a, &open);

        if (reply->error) {
            ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                             "kept free for a request that waits longer");
            break;
        }
        ut_sched_post_close(a, reply->grant);
        ut_sched_await_notice(server, reply->grant->session_id);
        ut_sched_drop(ut_sched_report(server, 0));
        ut_sched_drop(reply);
        reply = ut_sched_hear(a); /* that it is closed */
        assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
        ut_sched_drop(reply);
    }
    ut_wait_finish(server, a, grants[0]->grant);
    ut_sched_drop(ut_sched_hear(a));
    ut_wait_finish(server, a, grants[1]->grant);
    ut_wait_granted(b);
    ut_sched_drop(grants[0]);
    ut_sched_drop(grants[1]);
    close(server);
    close(a);
    close(b);
}

/* Until cards are kept for the waiter of @owner. */
static void
await_kept(const struct world *w, const char *owner)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    bool kept = false;

    while (!kept && gp_now_ns() < end) {
        reply_t *reply = ut_wait_ask_queue(w);

        for (size_t i = 0; i < reply->queue->n_waiters; i++)
            kept |= !strcmp(reply->queue->waiters[i]->owner, owner) &&
                    reply->queue->waiters[i]->n_held_cards;
        ut_sched_drop(reply);
    }
    assert_true(kept);
}

/* A whole card of @server, or the one that @grant is on. */
static Gpupool__Ctl__CtlOpen
whole_of(const char *owner, const char *server, const reply_t *grant)
{
    Gpupool__Ctl__CtlOpen open = ut_wait_preference(owner, 100);

    open.memory_bytes = 0;
    open.server = (char *)server;
    if (grant)
        open.card_uuid = grant->grant->slices[0]->card_uuid;
    return open;
}

/* Two requests of a tenant have a card kept each; its quota is in use elsewhere, and
 * the card of the first is as well. */
static void
quota_that_is_free_again_serves_whoever_has_its_card(void **state)
{
    struct world *w = *state;
    int server, other, bob, ada, waits[2];
    reply_t *grants[2], *own[2];

    with_rules(w, "[tenant research]\nowners = ada@*\ncore = 200\n"
                  "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 2);
    other = ut_sched_join(w, "other-b", 2);
    bob = ut_sched_dial(w);
    ada = ut_sched_dial(w);
    for (int i = 0; i < 2; i++)
        grants[i] = ut_sched_granted(bob, whole_of("bob@host", "node-a", NULL));
    for (int i = 0; i < 2; i++) {
        char owner[16];

        snprintf(owner, sizeof(owner), "ada@%d", i);
        waits[i] = ut_sched_dial(w);
        ut_sched_drop(ut_wait_queued(waits[i], whole_of(owner, "", grants[i])));
        await_kept(w, owner);
    }
    for (int i = 0; i < 2; i++)
        own[i] = ut_sched_granted(ada, whole_of("ada@host", "other-b", NULL));
    ut_sched_post_close(bob, grants[1]->grant);
    ut_sched_await_notice(server, grants[1]->grant->session_id);
    ut_sched_drop(ut_sched_report(server, grants[0]->grant->session_id));
    await_waiting(w, 2);
    ut_sched_post_close(ada, own[0]->grant);
    ut_sched_await_notice(other, own[0]->grant->session_id);
    ut_sched_drop(ut_sched_report(other, own[1]->grant->session_id));
    ut_wait_granted(waits[1]);
    await_waiting(w, 1);
    for (int i = 0; i < 2; i++) {
        ut_sched_drop(grants[i]);
        ut_sched_drop(own[i]);
        close(waits[i]);
    }
    close(server);
    close(other);
    close(bob);
    close(ada);
}

/* A card that is kept for a request, and that the quota of its tenant, used up
 * elsewhere since, keeps it from, is of use to others. */
static void
kept_card_goes_to_others_when_the_quota_is_used_up(void **state)
{
    struct world *w = *state;
    int server, other, bob, ada, waits, next;
    reply_t *grant, *own, *reply;

    with_rules(w, "[tenant research]\nowners = ada@*\ncore = 100\n"
                  "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 1);
    other = ut_sched_join(w, "other-b", 1);
    bob = ut_sched_dial(w);
    ada = ut_sched_dial(w);
    waits = ut_sched_dial(w);
    next = ut_sched_dial(w);
    grant = ut_sched_granted(bob, whole_of("bob@host", "node-a", NULL));
    ut_sched_drop(ut_wait_queued(waits, whole_of("ada@0", "", grant)));
    await_kept(w, "ada@0");
    own = ut_sched_granted(ada, whole_of("ada@host", "other-b", NULL));
    ut_sched_drop(ut_wait_queued(next, whole_of("cyd@host", "node-a", NULL)));
    ut_wait_finish(server, bob, grant->grant);
    ut_wait_granted(next);
    /* The quota that comes free is its own. */
    ut_wait_finish(other, ada, own->grant);
    ut_sched_drop(ut_sched_hear(ada)); /* that the session is closed */
    reply = ut_wait_queued(ada, whole_of("ada@host", "other-b", NULL));
    ut_wait_says(reply->queued->reason, "is kept for an older request");
    ut_sched_drop(reply);
    await_kept(w, "ada@0");
    ut_sched_drop(grant);
    ut_sched_drop(own);
    close(server);
    close(other);
    close(bob);
    close(ada);
    close(waits);
    close(next);
}

/* The memory of a whole card counts, which a request does not name. */
static void
no_card_is_kept_that_is_larger_than_the_quota(void **state)
{
    struct world *w = *state;
    int server, bob, waits, next;
    reply_t *grant;

    with_rules(w, "[tenant research]\nowners = ada@*\nmemory = 1GiB\n"
                  "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 1);
    bob = ut_sched_dial(w);
    waits = ut_sched_dial(w);
    next = ut_sched_dial(w);
    grant = ut_sched_granted(bob, whole_of("bob@host", "node-a", NULL));
    ut_sched_drop(ut_wait_queued(waits, whole_of("ada@host", "", NULL)));
    ut_sched_drop(ut_wait_queued(next, whole_of("cyd@host", "", NULL)));
    await_kept(w, "cyd@host");
    ut_wait_finish(server, bob, grant->grant);
    ut_wait_granted(next);
    ut_sched_drop(grant);
    close(server);
    close(bob);
    close(waits);
    close(next);
}

static void
request_with_a_time_limit_may_use_kept_cards_until_then(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(50, GIB);
    int server, a, b;
    reply_t *reply;

    with_rules(w, "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    open.run_ms = 600 * 1000;
    ut_sched_drop(ut_sched_granted(a, open));
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("bob@host", 100)));
    await_kept(w, "bob@host");
    reply = ut_wait_ask_queue(w); /* the time limit is an estimate */
    assert_true(reply->queue->waiters[0]->estimated);
    assert_in_range(reply->queue->waiters[0]->estimate_ms, 500 * 1000, 601 * 1000);
    ut_sched_drop(reply);
    open.core = 40;
    open.run_ms = 0;
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "kept free");
    open.run_ms = 700 * 1000;
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "kept free");
    open.run_ms = 60 * 1000;
    ut_sched_drop(ut_sched_granted(a, open));
    close(server);
    close(a);
    close(b);
}

static void
requests_that_no_card_can_serve_hold_up_nobody(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open;
    int server, a, b, hopeless[4];

    with_rules(w, "[queue]\nreserve-after = 0s\n"
                  "[tenant research]\nowners = ada@*\ncore = 60\n");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(a, ut_sched_preference(40, GIB)));
    open = ut_sched_preference(90, GIB);
    open.owner = (char *)"cyd@host";
    ut_sched_drop(ut_sched_granted(a, open));
    for (unsigned i = 0; i < 4; i++) {
        open = ut_wait_preference(i ? "dan@host" : "ada@host",
                                  50); /* over ada's quota, too */
        open.memory_bytes = 64 * GIB;
        hopeless[i] = ut_sched_dial(w);
        ut_sched_drop(ut_wait_queued(hopeless[i], open));
    }
    ut_sched_drop(ut_wait_queued(b, ut_wait_preference("bob@host", 100)));
    await_kept(w, "bob@host");
    /* What ada's quota leaves is not kept for what can never be. */
    open = ut_sched_preference(10, GIB);
    ut_sched_drop(ut_sched_granted(a, open));
    for (unsigned i = 0; i < 4; i++)
        close(hopeless[i]);
    close(server);
    close(a);
    close(b);
}

/* ------------------------------------------------------------------ selectors -- */

static void
labels_models_and_speed_choose_cards(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(30, GIB);
    char *label = (char *)"rack=r2";
    reply_t *grant;
    int a, b, c;

    with_rules(w, "[servers node-a]\nlabels = rack=r1\n[servers node-b]\nlabels = "
                  "rack=r2, zone=z\n[model a card]\ntflops = 200\n");
    a = ut_sched_join(w, "node-a", 1);
    b = ut_sched_dial(w);
    ut_sched_drop(ut_sched_enlist(
        b, &(struct play){.name = "bode-b", .instance = 1, .cards = 1}));
    close(b);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    open.labels = &label;
    open.n_labels = 1;
    ut_sched_refused(ut_sched_open(c, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "not of the kind that is wanted");
    label = (char *)"rack!=r2";
    grant = ut_sched_granted(c, open);
    ut_sched_drop(grant);
    open.n_labels = 0;
    open.core = 0;
    open.tflops = 100; /* half of a card that does 200 */
    grant = ut_sched_granted(c, open);
    assert_int_equal(grant->grant->slices[0]->core, 50);
    ut_sched_drop(grant);
    open.tflops = 0;
    open.core = 10;
    open.model = (char *)"*H100*";
    open.explain = true;
    ut_sched_refused(ut_sched_open(c, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "not of the kind that is wanted");
    label = (char *)"rack";
    open.n_labels = 1;
    ut_sched_refused(ut_sched_open(c, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "NAME=VALUE or NAME!=VALUE is wanted");
    close(a);
    close(b);
    close(c);
}

static void
sessions_apart_are_on_different_cards(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), a = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);
    reply_t *first, *second;

    open.apart = GPUPOOL__CTL__CTL_APART__CTL_APART_CARD;
    first = ut_sched_granted(a, open);
    second = ut_sched_granted(a, open);
    assert_memory_not_equal(first->grant->slices[0]->card_uuid.data,
                            second->grant->slices[0]->card_uuid.data, 16);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "");
    open.owner = (char *)"bob@host";
    open.apart = GPUPOOL__CTL__CTL_APART__CTL_APART_SERVER;
    ut_sched_drop(ut_sched_granted(a, open));
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "");
    ut_sched_drop(first);
    ut_sched_drop(second);
    close(server);
    close(a);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(request_that_does_not_fit_waits_and_is_served_in_order),
        T(small_request_passes_one_that_does_not_fit),
        T(lost_client_leaves_the_queue),
        T(time_to_wait_ends_in_a_refusal),
        T(connection_that_waits_has_one_request),
        T(waiting_ends_when_a_server_comes),
        T(quota_refuses_or_queues_and_is_named),
        T(owner_gets_no_more_sessions_by_waiting),
        T(whole_card_is_charged_with_all_of_its_memory),
        T(smaller_share_is_served_first),
        T(rules_are_read_again_and_bad_ones_are_not_taken),
        T(bad_rules_are_named_with_their_line),
        T(higher_class_is_served_first),
        T(preemptible_session_ends_after_notice_for_a_higher_class),
        T(preemption_is_called_off_when_nobody_needs_it),
        T(equal_class_is_not_preempted_and_explain_says_what_would_help),
        T(time_limit_ends_a_session),
        T(room_is_kept_for_a_large_request_that_waits_long),
        T(quota_that_is_free_again_serves_whoever_has_its_card),
        T(kept_card_goes_to_others_when_the_quota_is_used_up),
        T(no_card_is_kept_that_is_larger_than_the_quota),
        T(request_with_a_time_limit_may_use_kept_cards_until_then),
        T(requests_that_no_card_can_serve_hold_up_nobody),
        T(labels_models_and_speed_choose_cards),
        T(sessions_apart_are_on_different_cards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
