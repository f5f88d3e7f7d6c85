/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler as a process: what it promises to sessions and servers across kills,
 * restarts and lost connections.
 */
#include "ut_sched.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "ticket.h"
#include "ticket_key.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void
ticket_of_a_grant_is_good_for_its_server(void **state)
{
    struct world *w = *state;
    int server = ut_sched_dial(w), client = ut_sched_dial(w);
    reply_t *reg = ut_sched_enlist(
        server, &(struct play){.name = "node-a", .instance = 1, .cards = 2});
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(30, GIB);
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;
    struct ticket_claims c;
    struct ticket_key *pub;
    reply_t *grant;

    assert_int_equal(ticket_key_from_pub(reg->registered->scheduler_key.data,
                                         reg->registered->scheduler_key.len, &pub,
                                         NULL),
                     0);
    open.policy = GPUPOOL__CTL__CTL_POLICY__CTL_BURST_SHARE;
    open.core_limit = 60;
    open.spatial = GPUPOOL__CTL__CTL_SPATIAL__CTL_SPATIAL_SM;
    grant = ut_sched_granted(client, open);
    assert_int_equal(grant->grant->n_tickets, 1);
    assert_string_equal(grant->grant->tickets[0]->server, "node-a");
    assert_string_equal(grant->grant->tickets[0]->endpoint, "127.0.0.1:7481");
    assert_int_equal(
        ticket_verify(pub, grant->grant->tickets[0]->text, now, "node-a", &c, NULL), 0);
    assert_int_equal(c.session_id, grant->grant->session_id);
    assert_string_equal(c.owner, "ada@host");
    assert_int_equal(c.policy, TICKET_BURST_SHARE);
    assert_int_equal(c.slices[0].core, 30);
    assert_int_equal(c.slices[0].core_limit, 60);
    assert_int_equal(c.spatial, TICKET_SPATIAL_SM);
    assert_true(c.slices[0].memory == GIB);
    assert_int_equal(c.max_attachments, 8);
    assert_in_range(c.expires, now + 60, now + 120);
    ticket_key_free(pub);
    ut_sched_drop(reg);
    ut_sched_drop(grant);
    close(server);
    close(client);
}

/* Workers are few on a server, and each is a process. */
static void
client_asks_for_no_more_processes_than_allowed(void **state)
{
    static const uint32_t asked[] = {5, 17, UINT32_MAX}, given[] = {5, 16, 16};
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(5, GIB);

    for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
        reply_t *status;

        open.max_attachments = asked[i];
        ut_sched_drop(ut_sched_granted(client, open));
        status = ut_sched_status(client);
        assert_int_equal(status->status->sessions[i]->max_attachments, given[i]);
        ut_sched_drop(status);
    }
    close(server);
    close(client);
}

static void
killed_scheduler_comes_back_with_its_sessions(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(60, 10 * GIB);
    reply_t *grant, *again, *reg, *status;
    char key_id[32];

    open.session_class = GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE;
    grant = ut_sched_granted(client, open);
    status = ut_sched_status(client);
    gp_str_copy(key_id, sizeof(key_id), status->status->scheduler_key_id);
    ut_sched_drop(status);
    ut_sched_end(w, SIGKILL);
    close(server);
    close(client);
    ut_sched_start(w);

    /* The server re-registers, reports the session, and is not told to end it. */
    server = ut_sched_dial(w);
    reg = ut_sched_enlist(server, &(struct play){.name = "node-a",
                                                 .instance = 1,
                                                 .cards = 1,
                                                 .running = grant->grant->session_id});
    assert_null(reg->error);
    assert_int_equal(reg->registered->n_close_sessions, 0);
    assert_string_equal(reg->registered->scheduler_key_id, key_id);
    ut_sched_drop(reg);

    /* Its client renews; what it holds is not given to another. */
    client = ut_sched_dial(w);
    again = ut_sched_renew(client, grant->grant, true);
    assert_null(again->error);
    assert_string_equal(again->grant->session, grant->grant->session);
    ut_sched_drop(again);
    status = ut_sched_status(client);
    assert_int_equal(status->status->sessions[0]->session_class,
                     GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE);
    ut_sched_drop(status);
    ut_sched_refused(ut_sched_ask_preference(client, 50),
                     GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "it lacks core");
    ut_sched_drop(grant);
    grant = ut_sched_granted(client, ut_sched_preference(40, GIB));
    assert_string_equal(grant->grant->session, "s2"); /* numbers go on */
    ut_sched_drop(grant);
    close(server);
    close(client);
}

static void
unknown_running_session_is_ended_before_its_card_is_given(void **state)
{
    struct world *w = *state;
    int server = ut_sched_dial(w), client = ut_sched_dial(w);
    reply_t *reg, *reply;

    reg = ut_sched_enlist(
        server,
        &(struct play){.name = "node-a", .instance = 1, .cards = 1, .running = 4711});
    assert_int_equal(reg->registered->n_close_sessions, 1);
    assert_int_equal(reg->registered->close_sessions[0], 4711);
    ut_sched_drop(reg);
    ut_sched_refused(ut_sched_ask_preference(client, 50),
                     GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "not available");
    reply = ut_sched_report(server, 0);
    assert_int_equal(reply->reported->n_close_sessions, 0);
    ut_sched_drop(reply);
    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    close(server);
    close(client);
}

static void
closed_session_keeps_its_place_until_the_server_is_done(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w),
        other = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(100, 0)), *reply;
    uint64_t id = grant->grant->session_id;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);

    ut_sched_drop(ut_sched_report(server, id));
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(server, id);
    reply = ut_sched_report(server, id); /* its workers are still dying */
    assert_int_equal(reply->reported->n_close_sessions, 1);
    ut_sched_drop(reply);
    ut_sched_refused(ut_sched_open(other, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "core");
    ut_sched_drop(ut_sched_report(server, 0));
    reply = ut_sched_hear(client); /* only now is the close answered */
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(ut_sched_granted(other, open));
    ut_sched_drop(grant);
    close(server);
    close(client);
    close(other);
}

/* A report that was under way when the session was closed says nothing of a program
 * that attaches meanwhile. */
static void
report_from_before_the_close_does_not_end_a_session(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w),
        other = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(100, 0)), *reply;
    uint64_t id = grant->grant->session_id;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);

    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(server, id);
    ut_sched_drop(ut_sched_report_after(server, 0, 1));
    ut_sched_refused(ut_sched_open(other, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "core");
    ut_sched_drop(ut_sched_report_after(server, id, 1)); /* one has attached */
    ut_sched_drop(ut_sched_report_after(server, id, 2)); /* and is ended */
    ut_sched_refused(ut_sched_open(other, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "core");
    ut_sched_drop(ut_sched_report_after(server, 0, 2));
    reply = ut_sched_hear(client);
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(ut_sched_granted(other, open));
    ut_sched_drop(grant);
    close(server);
    close(client);
    close(other);
}

/* Two cards, one on each of two servers. */
static Gpupool__Ctl__CtlOpen
preference_that_spans(void)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);

    open.cards = 2;
    open.core = 200;
    open.span = true;
    return open;
}

static void
session_on_two_servers_has_a_ticket_for_each(void **state)
{
    struct world *w = *state;
    int a = ut_sched_join(w, "node-a", 1), b = ut_sched_join(w, "other-node", 1),
        client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = preference_that_spans();
    const Gpupool__Ctl__CtlGrant *grant;
    struct ticket_claims c;
    reply_t *reply;

    open.span = false;
    ut_sched_refused(ut_sched_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "--span takes several servers");
    open.span = true;
    reply = ut_sched_granted(client, open);
    grant = reply->grant;
    assert_int_equal(grant->n_tickets, 2);
    assert_int_equal(grant->n_slices, 2);
    assert_string_not_equal(grant->tickets[0]->server, grant->tickets[1]->server);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(grant->slices[i]->server, grant->tickets[i]->server);
        assert_int_equal(ticket_peek(grant->tickets[i]->text, &c, NULL), 0);
        assert_string_equal(c.server, grant->tickets[i]->server);
        assert_int_equal(c.n_slices, 1);
        assert_int_equal(c.n_peers, 2); /* and may connect to the other one */
        assert_string_equal(c.peers[1 - i], grant->tickets[1 - i]->endpoint);
        assert_memory_equal(c.slices[0].card_uuid, grant->slices[i]->card_uuid.data,
                            TICKET_UUID_SIZE);
    }
    ut_sched_drop(reply);
    close(a);
    close(b);
    close(client);
}

static void
session_on_two_servers_is_gone_when_both_have_ended_it(void **state)
{
    struct world *w = *state;
    int a = ut_sched_join(w, "node-a", 1), b = ut_sched_join(w, "other-node", 1),
        client = ut_sched_dial(w), other = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, preference_that_spans()), *reply;
    Gpupool__Ctl__CtlOpen open = preference_that_spans();
    uint64_t id = grant->grant->session_id;

    ut_sched_drop(ut_sched_report(a, id));
    ut_sched_drop(ut_sched_report(b, id));
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(a, id);
    ut_sched_await_notice(b, id);
    ut_sched_drop(ut_sched_report(a, 0));
    ut_sched_refused(ut_sched_open(other, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "core");
    ut_sched_drop(ut_sched_report(b, 0));
    reply = ut_sched_hear(client);
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(ut_sched_granted(other, open));
    ut_sched_drop(grant);
    close(a);
    close(b);
    close(client);
    close(other);
}

/* One that dies keeps its part until the lease ends; closing waits for the other only.
 */
static void
dead_server_does_not_hold_up_the_end_of_a_session(void **state)
{
    struct world *w = *state;
    int a = ut_sched_join(w, "node-a", 1), b = ut_sched_join(w, "other-node", 1),
        client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, preference_that_spans()), *reply;
    uint64_t id = grant->grant->session_id;

    ut_sched_drop(ut_sched_report(b, id));
    close(a);
    do { /* until the scheduler has noticed */
        reply = ut_sched_status(client);
        if (reply->status->sessions[0]->server_dead)
            break;
        ut_sched_drop(reply);
    } while (true);
    ut_sched_drop(reply);
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(b, id);
    ut_sched_drop(ut_sched_report(b, 0));
    reply = ut_sched_hear(client);
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(b);
    close(client);
}

static void
close_by_order(int fd, uint64_t session)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose close = GPUPOOL__CTL__CTL_CLOSE__INIT;

    close.session_id = session;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &close;
    ut_sched_post(fd, &req);
}

/* Its holder was not connected when an administrator closed it, and asks later. */
static void
reason_of_an_end_is_told_to_who_comes_back_with_the_lease_key(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w),
        admin = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);
    reply_t *grant;

    open.hold = true;
    grant = ut_sched_granted(client, open);
    close(client);
    close_by_order(admin, grant->grant->session_id);
    ut_sched_await_notice(server, grant->grant->session_id);
    client = ut_sched_dial(w); /* while its workers may still run */
    ut_sched_refused(ut_sched_renew(client, grant->grant, true),
                     GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND,
                     "closed by an administrator");
    ut_sched_drop(ut_sched_report(server, 0));
    ut_sched_drop(ut_sched_hear(admin)); /* that it is closed */
    ut_sched_refused(ut_sched_renew(client, grant->grant, true),
                     GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND,
                     "closed by an administrator");
    grant->grant->lease_key.data[3] ^= 1; /* others do not learn it */
    ut_sched_refused(ut_sched_renew(client, grant->grant, true),
                     GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "closed or expired");
    ut_sched_drop(grant);
    close(server);
    close(client);
    close(admin);
}

static void
lease_that_is_not_renewed_ends(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);
    reply_t *grant;

    open.lease_ms = 100;
    grant = ut_sched_granted(client, open);
    assert_int_equal(grant->grant->lease_ms, 100);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(server, 0));
    ut_sched_refused(ut_sched_renew(client, grant->grant, false),
                     GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND,
                     "its lease was not renewed");
    ut_sched_drop(grant);
    close(server);
    close(client);
}

static void
held_session_ends_soon_after_its_client(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);
    reply_t *grant;

    open.hold = true; /* with a lease of a minute */
    grant = ut_sched_granted(client, open);
    close(client);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(grant);
    close(server);
}

static void
held_session_survives_a_new_connection(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w), second,
        third;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);
    reply_t *grant, *reply;

    open.hold = true;
    grant = ut_sched_granted(client, open);
    second = ut_sched_dial(w);
    ut_sched_drop(ut_sched_renew(second, grant->grant, true));
    close(client); /* no longer the holder */
    close(second);
    third = ut_sched_dial(w);
    reply = ut_sched_renew(third, grant->grant, true);
    assert_null(reply->error);
    ut_sched_drop(reply);
    reply = ut_sched_status(third);
    assert_int_equal(reply->status->n_sessions, 1);
    assert_true(reply->status->sessions[0]->lease_left_ms > 50000);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(third);
    close(server);
}

static void
lost_server_takes_no_session_and_gives_none_away(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(60, GIB)), *reply;

    close(server);
    do { /* until the scheduler has seen it */
        reply = ut_sched_status(client);
        if (reply->status->servers[0]->state ==
            GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD)
            break;
        ut_sched_drop(reply);
    } while (true);
    assert_int_equal(reply->status->n_sessions, 1);
    assert_true(reply->status->sessions[0]->server_dead);
    ut_sched_drop(reply);
    ut_sched_refused(ut_sched_ask_preference(client, 10),
                     GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "not available");
    reply = ut_sched_renew(client, grant->grant, false);
    assert_null(reply->error);
    ut_sched_drop(reply);
    server = ut_sched_join(w, "node-a", 1);
    ut_sched_refused(ut_sched_ask_preference(client, 50),
                     GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "50 % wanted");
    ut_sched_drop(grant);
    close(server);
    close(client);
}

static void
server_that_stays_away_is_forgotten(void **state)
{
    struct world *w = *state;
    int server, client;
    reply_t *reply;
    size_t n;

    ut_sched_end(w, SIGTERM);
    w->config.forget_ms = 1;
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    client = ut_sched_dial(w);
    close(server);
    do {
        reply = ut_sched_status(client);
        n = reply->status->n_servers;
        ut_sched_drop(reply);
    } while (n);
    ut_sched_end(w, SIGKILL);
    close(client);
    ut_sched_start(w);
    client = ut_sched_dial(w);
    reply = ut_sched_status(client);
    assert_int_equal(reply->status->n_servers, 0);
    ut_sched_drop(reply);
    close(client);
}

static void
drained_server_stays_drained_over_a_restart(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    reply_t *reply = ut_sched_drain(client, "node-a", false);

    assert_null(reply->error);
    ut_sched_drop(reply);
    ut_sched_refused(ut_sched_drain(client, "node-z", false),
                     GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "no server node-z");
    ut_sched_end(w, SIGKILL);
    close(server);
    close(client);
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    client = ut_sched_dial(w);
    ut_sched_refused(ut_sched_ask_preference(client, 50),
                     GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "not available");
    ut_sched_drop(ut_sched_drain(client, "node-a", true));
    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    close(server);
    close(client);
}

static uint32_t
post_renew(int fd, const Gpupool__Ctl__CtlGrant *grant)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    renew.session_id = grant->session_id;
    renew.lease_key = grant->lease_key;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &renew;
    ut_sched_post(fd, &req);
    return req.id;
}

static uint32_t
post_status(int fd)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    ut_sched_post(fd, &req);
    return req.id;
}

static void
answers_keep_their_order_while_tickets_are_signed(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(50, GIB)), *reply;
    uint32_t ids[64];

    for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
        ids[i] = i % 2 ? post_status(client) : post_renew(client, grant->grant);
    for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
        reply = ut_sched_hear(client);
        assert_non_null(reply);
        assert_int_equal(reply->id, ids[i]);
        assert_int_equal(reply->body_case, i % 2 ? GPUPOOL__CTL__CTL_REPLY__BODY_STATUS
                                                 : GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
        ut_sched_drop(reply);
    }
    ut_sched_drop(grant);
    close(server);
    close(client);
}

static void
clients_that_go_while_their_tickets_are_signed_do_no_harm(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(50, GIB));

    for (unsigned i = 0; i < 100; i++) {
        int other = ut_sched_dial(w);

        post_renew(other, grant->grant);
        post_renew(other, grant->grant);
        close(other);
    }
    ut_sched_drop(ut_sched_renew(client, grant->grant, false));
    ut_sched_drop(grant);
    close(server);
    close(client); /* the teardown sees how the scheduler ends */
}

/* A port that nobody has now; port 0 would be known to the daemon alone. */
#define PROMISE(fn)                                                                    \
    cmocka_unit_test_setup_teardown(fn, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(ticket_of_a_grant_is_good_for_its_server),
        PROMISE(client_asks_for_no_more_processes_than_allowed),
        PROMISE(killed_scheduler_comes_back_with_its_sessions),
        PROMISE(unknown_running_session_is_ended_before_its_card_is_given),
        PROMISE(closed_session_keeps_its_place_until_the_server_is_done),
        PROMISE(report_from_before_the_close_does_not_end_a_session),
        PROMISE(session_on_two_servers_has_a_ticket_for_each),
        PROMISE(session_on_two_servers_is_gone_when_both_have_ended_it),
        PROMISE(dead_server_does_not_hold_up_the_end_of_a_session),
        PROMISE(reason_of_an_end_is_told_to_who_comes_back_with_the_lease_key),
        PROMISE(lease_that_is_not_renewed_ends),
        PROMISE(held_session_ends_soon_after_its_client),
        PROMISE(held_session_survives_a_new_connection),
        PROMISE(lost_server_takes_no_session_and_gives_none_away),
        PROMISE(server_that_stays_away_is_forgotten),
        PROMISE(drained_server_stays_drained_over_a_restart),
        PROMISE(answers_keep_their_order_while_tickets_are_signed),
        PROMISE(clients_that_go_while_their_tickets_are_signed_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
