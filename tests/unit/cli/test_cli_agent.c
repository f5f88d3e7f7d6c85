/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds the sessions of a host: batches, schedulers of other ages, and what peers
 * of the agent may.  The scheduler is played on the same loop.
 */
#include "ut.h"

#include "cli_agent.h"
#include "cli_renewer.h"
#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATIENCE (20 * GP_NS_PER_S)
#define REQUESTS_MAX 64

typedef Gpupool__Ctl__CtlRequest request_t;
typedef Gpupool__Ctl__CtlReply reply_t;

struct session {
    struct cli_lease lease;
    unsigned renewed, with_tickets, lost, notices;
    char words[64];
};

/* One connection at a time. */
struct played {
    struct gp_listener listener;
    struct gp_msg_conn conn;
    bool connected;
    unsigned connections;
    request_t *requests[REQUESTS_MAX];
    unsigned n;
    void (*answer)(struct played *played, const request_t *req);
    uint64_t gone;      /* id of a session that does not exist */
    const char *leader; /* who leads, if not this one */
    uint32_t lease_ms;
};

struct world {
    struct gp_loop *loop;
    struct gp_loop_timer timeout;
    char dir[64], address[96];
    struct played played;
    struct cli_renewer renewer;
    struct cli_agent agent;
    bool (*until)(struct world *w);
};

static struct world *world;

/* ----------------------------------------------------------- the played scheduler --
 */

static void
reply(struct played *p, reply_t *msg)
{
    size_t size = gpupool__ctl__ctl_reply__get_packed_size(msg);
    uint8_t *bytes = malloc(size + 1);

    assert_non_null(bytes);
    gpupool__ctl__ctl_reply__pack(msg, bytes);
    assert_int_equal(gp_msg_conn_send(&p->conn, bytes, size), 0);
    free(bytes);
}

static void
refuse(struct played *p, uint32_t id, Gpupool__Ctl__CtlCode code, const char *words,
       const char *leader)
{
    reply_t msg = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;

    error.code = code;
    error.words = (char *)(uintptr_t)words;
    error.leader = (char *)(uintptr_t)leader;
    msg.id = id;
    msg.error = &error;
    reply(p, &msg);
}

/* Odd sessions get tickets. */
static void
answer_many(struct played *p, const request_t *req)
{
    static Gpupool__Ctl__CtlRenewedOne ones[CTL_RENEW_MAX], *list[CTL_RENEW_MAX];
    Gpupool__Ctl__CtlGrant grant = GPUPOOL__CTL__CTL_GRANT__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;
    Gpupool__Ctl__CtlRenewed body = GPUPOOL__CTL__CTL_RENEWED__INIT;
    reply_t msg = GPUPOOL__CTL__CTL_REPLY__INIT;

    if (req->body_case != GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY)
        return;
    assert_true(req->renew_many->n_sessions <= CTL_RENEW_MAX);
    grant.tickets_unix = 4711;
    error.code = GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND;
    error.words = (char *)"it was closed";
    for (size_t i = 0; i < req->renew_many->n_sessions; i++) {
        gpupool__ctl__ctl_renewed_one__init(&ones[i]);
        ones[i].session_id = req->renew_many->sessions[i]->session_id;
        if (ones[i].session_id == p->gone)
            ones[i].error = &error;
        else
            ones[i].lease_ms = p->lease_ms;
        if (ones[i].session_id % 2)
            ones[i].grant = &grant;
        list[i] = &ones[i];
    }
    body.sessions = list;
    body.n_sessions = req->renew_many->n_sessions;
    msg.id = req->id;
    msg.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED;
    msg.renewed = &body;
    reply(p, &msg);
}

/* One of before batches. */
static void
answer_old(struct played *p, const request_t *req)
{
    Gpupool__Ctl__CtlGrant grant = GPUPOOL__CTL__CTL_GRANT__INIT;
    reply_t msg = GPUPOOL__CTL__CTL_REPLY__INIT;

    if (req->body_case != GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW) {
        refuse(p, req->id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
               "an unknown request", "");
        gp_msg_conn_fini(&p->conn);
        p->connected = false;
        return;
    }
    if (req->renew->session_id == p->gone) {
        refuse(p, req->id, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "it was closed", "");
        return;
    }
    assert_true(req->renew->hold);
    grant.session_id = req->renew->session_id;
    grant.lease_ms = p->lease_ms;
    msg.id = req->id;
    msg.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;
    msg.grant = &grant;
    reply(p, &msg);
}

static void
answer_elsewhere(struct played *p, const request_t *req)
{
    refuse(p, req->id, GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER, "another leads",
           p->leader);
    p->answer = answer_many;
}

static void
check(struct world *w)
{
    if (w->until(w))
        gp_loop_stop(w->loop, 0);
}

static void
on_request(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct played *p = container_of(conn, struct played, conn);
    request_t *req = gpupool__ctl__ctl_request__unpack(NULL, len, data);

    assert_non_null(req);
    assert_true(p->n < REQUESTS_MAX);
    p->requests[p->n++] = req;
    p->answer(p, req);
    check(world);
}

static void
on_gone(struct gp_msg_conn *conn, int code)
{
    struct played *p = container_of(conn, struct played, conn);

    (void)code;
    gp_msg_conn_fini(conn);
    p->connected = false;
}

static void
on_accept(struct gp_listener *listener, int fd)
{
    struct played *p = container_of(listener, struct played, listener);

    if (p->connected)
        gp_msg_conn_fini(&p->conn);
    assert_int_equal(gp_msg_conn_init(&p->conn, listener->loop, fd, CTL_REQUEST_MAX,
                                      CTL_REPLY_MAX, on_request, on_gone),
                     0);
    p->connected = true;
    p->connections++;
}

static void
on_trouble(struct gp_listener *listener, int error)
{
    (void)listener;
    fail_msg("accept: %s", strerror(-error));
}

/* --------------------------------------------------------------------- the world -- */

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    int fd;

    world = w;
    snprintf(w->dir, sizeof(w->dir), "/tmp/ut-agent-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    setenv("GPUPOOL_RUN_DIR", w->dir, 1);
    snprintf(w->address, sizeof(w->address), "unix:%s/scheduler", w->dir);
    assert_int_equal(gp_loop_new(&w->loop, NULL), 0);
    assert_int_equal(gp_net_listen(w->address, 0, 16, &fd, NULL), 0);
    assert_int_equal(
        gp_listener_init(&w->played.listener, w->loop, fd, on_accept, on_trouble), 0);
    w->played.answer = answer_many;
    w->played.lease_ms = 60000;
    cli_renewer_init(&w->renewer, w->loop, w->address, w->address,
                     &(struct ctl_pins){.n = 0});
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;
    DIR *dir = opendir(w->dir);
    struct dirent *entry;

    cli_agent_stop(&w->agent);
    cli_renewer_fini(&w->renewer);
    if (w->played.connected)
        gp_msg_conn_fini(&w->played.conn);
    gp_listener_fini(&w->played.listener);
    for (unsigned i = 0; i < w->played.n; i++)
        gpupool__ctl__ctl_request__free_unpacked(w->played.requests[i], NULL);
    gp_loop_free(w->loop);
    while ((entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(w->dir), 0);
    free(w);
    return 0;
}

static void
on_timeout(struct gp_loop_timer *timer)
{
    (void)timer;
    fail_msg("nothing comes any more");
}

static void
run(struct world *w, bool (*until)(struct world *w))
{
    w->until = until;
    if (until(w))
        return;
    gp_loop_timer_set(w->loop, &w->timeout, gp_now_ns() + PATIENCE, on_timeout);
    gp_loop_run(w->loop);
    gp_loop_timer_del(&w->timeout);
}

/* ------------------------------------------------------------------------ sessions --
 */

static struct session *sessions;
static unsigned n_sessions;

static void
on_renewed(struct cli_lease *lease, const Gpupool__Ctl__CtlRenewedOne *one)
{
    struct session *s = container_of(lease, struct session, lease);

    assert_true(one->lease_ms);
    s->renewed++;
    s->with_tickets += one->grant != NULL;
    check(world);
}

static void
on_lost(struct cli_lease *lease, const char *words)
{
    struct session *s = container_of(lease, struct session, lease);

    assert_null(lease->renewer);
    s->lost++;
    snprintf(s->words, sizeof(s->words), "%s", words);
    check(world);
}

static void
on_notice(struct cli_lease *lease, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    (void)notice;
    container_of(lease, struct session, lease)->notices++;
}

static void
hold(struct world *w, unsigned n)
{
    n_sessions = n;
    sessions = test_calloc(n, sizeof(sessions[0]));
    for (unsigned i = 0; i < n; i++) {
        sessions[i].lease.id = i + 1;
        sessions[i].lease.on_renewed = on_renewed;
        sessions[i].lease.on_lost = on_lost;
        sessions[i].lease.on_notice = on_notice;
        cli_renewer_add(&w->renewer, &sessions[i].lease, 0);
    }
}

static void
let_go(struct world *w)
{
    cli_renewer_fini(&w->renewer);
    test_free(sessions);
}

static bool
all_were_answered(struct world *w)
{
    (void)w;
    for (unsigned i = 0; i < n_sessions; i++)
        if (!sessions[i].renewed && !sessions[i].lost)
            return false;
    return true;
}

static void
thousand_sessions_take_three_requests_over_one_connection(void **state)
{
    struct world *w = *state;
    struct played *p = &w->played;

    p->gone = 77;
    hold(w, 1000);
    run(w, all_were_answered);
    assert_int_equal(p->connections, 1);
    assert_int_equal(p->n, 3);
    assert_int_equal(p->requests[0]->renew_many->n_sessions, 450);
    assert_int_equal(p->requests[1]->renew_many->n_sessions, 450);
    assert_int_equal(p->requests[2]->renew_many->n_sessions, 100);
    assert_true(p->requests[2]->renew_many->hold);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(sessions[i].renewed, i + 1 != 77);
        assert_int_equal(sessions[i].lost, i + 1 == 77);
        assert_int_equal(sessions[i].with_tickets, i + 1 != 77 && (i + 1) % 2);
        assert_int_equal(sessions[i].lease.tickets_unix,
                         sessions[i].with_tickets * 4711);
    }
    assert_string_equal(sessions[76].words, "it was closed");
    let_go(w);
}

static bool
first_was_renewed_twice(struct world *w)
{
    (void)w;
    return sessions[0].renewed == 2;
}

/* Else each would be a request of its own for ever. */
static void
sessions_that_are_due_soon_are_renewed_with_those_that_are_due(void **state)
{
    struct world *w = *state;

    w->played.lease_ms = 2000;
    hold(w, 2);
    run(w, all_were_answered);
    sessions[0].lease.due_ns = gp_now_ns();
    sessions[1].lease.due_ns = gp_now_ns() + 400 * GP_NS_PER_MS;
    cli_renewer_hurry(&sessions[0].lease);
    run(w, first_was_renewed_twice);
    assert_int_equal(w->played.n, 2);
    assert_int_equal(w->played.requests[1]->renew_many->n_sessions, 2);
    let_go(w);
}

static void
older_scheduler_is_asked_for_one_after_the_other(void **state)
{
    struct world *w = *state;
    struct played *p = &w->played;

    p->answer = answer_old;
    p->gone = 2;
    hold(w, 3);
    run(w, all_were_answered);
    assert_int_equal(p->n, 4); /* the first was no request to it */
    assert_int_equal(p->connections, 2);
    assert_int_equal(sessions[0].renewed + sessions[2].renewed, 2);
    assert_int_equal(sessions[1].lost, 1);
    assert_true(w->renewer.single);
    let_go(w);
}

static void
leader_is_followed(void **state)
{
    struct world *w = *state;

    w->played.answer = answer_elsewhere;
    w->played.leader = w->address;
    hold(w, 2);
    snprintf(w->renewer.list, sizeof(w->renewer.list), "unix:%s/nobody,%s", w->dir,
             w->address);
    run(w, all_were_answered);
    assert_int_equal(w->played.connections, 2);
    let_go(w);
}

/* --------------------------------------------------------------------------- peers --
 */

struct peer {
    struct gp_msg_conn conn;
    struct cli_lease lease; /* id and key only */
    unsigned renewed, notices, errors;
    bool closed;
};

static void
peer_on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct peer *peer = container_of(conn, struct peer, conn);
    reply_t *msg = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    assert_non_null(msg);
    if (msg->error)
        peer->errors++;
    else if (msg->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE)
        peer->notices++;
    else
        peer->renewed += msg->renewed->sessions[0]->session_id == peer->lease.id;
    gpupool__ctl__ctl_reply__free_unpacked(msg, NULL);
    check(world);
}

static void
peer_on_close(struct gp_msg_conn *conn, int code)
{
    struct peer *peer = container_of(conn, struct peer, conn);

    (void)code;
    gp_msg_conn_fini(conn);
    peer->closed = true;
    check(world);
}

static void
serve(struct world *w, char *address, size_t size)
{
    assert_int_equal(cli_agent_address(w->address, NULL, address, size), 0);
    assert_int_equal(cli_agent_start(&w->agent, address, &w->renewer, w->loop), 0);
}

static void
post(struct peer *peer, const uint8_t *bytes, size_t size)
{
    assert_int_equal(gp_msg_conn_send(&peer->conn, bytes, size), 0);
}

static void
peer_dial(struct world *w, struct peer *peer, const char *address, uint64_t id)
{
    uint8_t bytes[CLI_AGENT_MSG_MAX];
    int fd;

    memset(peer, 0, sizeof(*peer));
    peer->lease.id = id;
    memset(peer->lease.lease_key, (int)id, sizeof(peer->lease.lease_key));
    assert_int_equal(gp_net_connect(address, 0, 0, false, &fd, NULL), 0);
    assert_int_equal(gp_msg_conn_init(&peer->conn, w->loop, fd, CTL_REPLY_MAX, 4096,
                                      peer_on_msg, peer_on_close),
                     0);
    post(peer, bytes, cli_agent_hello(&peer->lease, bytes));
}

static struct peer peers[3];

static bool
two_are_held(struct world *w)
{
    (void)w;
    return peers[0].renewed && peers[1].renewed;
}

static bool
a_close_came(struct world *w)
{
    return w->played.n && w->played.requests[w->played.n - 1]->body_case ==
                              GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
}

static bool
third_was_closed(struct world *w)
{
    (void)w;
    return peers[2].closed;
}

static bool
a_notice_came(struct world *w)
{
    (void)w;
    return peers[0].notices || peers[1].notices;
}

static bool
an_error_came(struct world *w)
{
    (void)w;
    return peers[0].errors || peers[1].errors;
}

static const Gpupool__Ctl__CtlClose *
last_close(const struct world *w)
{
    return w->played.requests[w->played.n - 1]->close;
}

static void
agent_holds_sessions_of_peers_and_tells_each_of_its_own(void **state)
{
    struct world *w = *state;
    reply_t msg = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlSessionNotice notice = GPUPOOL__CTL__CTL_SESSION_NOTICE__INIT;
    char address[160];

    serve(w, address, sizeof(address));
    peer_dial(w, &peers[0], address, 10);
    peer_dial(w, &peers[1], address, 11);
    run(w, two_are_held);
    assert_int_equal(w->played.connections, 1);
    notice.session_id = 11;
    msg.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE;
    msg.session_notice = &notice;
    reply(&w->played, &msg);
    run(w, a_notice_came);
    assert_int_equal(peers[0].notices, 0);
    w->played.gone = 10;
    for (struct cli_lease *lease = w->renewer.sessions; lease; lease = lease->next)
        cli_renewer_hurry(lease);
    run(w, an_error_came);
    assert_int_equal(peers[0].errors, 1);
    assert_int_equal(peers[1].errors, 0);

    /* One goes without a word, or ends its session. */
    gp_msg_conn_fini(&peers[1].conn);
    run(w, a_close_came);
    assert_true(last_close(w)->session_id == 11);
    assert_true(last_close(w)->lost);
    gp_msg_conn_fini(&peers[0].conn);
}

static void
peer_ends_its_own_session_and_no_other(void **state)
{
    struct world *w = *state;
    uint8_t bytes[CLI_CLOSE_MAX];
    char address[160];
    struct cli_lease other;

    serve(w, address, sizeof(address));
    peer_dial(w, &peers[0], address, 10);
    peer_dial(w, &peers[1], address, 11);
    run(w, two_are_held);
    peer_dial(w, &peers[2], address, 12);
    other = peers[0].lease; /* with the right key, but not its own */
    post(&peers[2], bytes, cli_close_message(&other, 2, false, bytes));
    run(w, third_was_closed);
    run(w, a_close_came);
    assert_true(last_close(w)->session_id == 12); /* it is as good as gone */
    assert_true(last_close(w)->lost);
    post(&peers[0], bytes, cli_close_message(&peers[0].lease, 2, false, bytes));
    w->played.requests[w->played.n - 1]->body_case =
        GPUPOOL__CTL__CTL_REQUEST__BODY__NOT_SET; /* that one was seen */
    gpupool__ctl__ctl_close__free_unpacked(w->played.requests[w->played.n - 1]->close,
                                           NULL);
    run(w, a_close_came);
    assert_true(last_close(w)->session_id == 10);
    assert_false(last_close(w)->lost);
    gp_msg_conn_fini(&peers[0].conn);
    gp_msg_conn_fini(&peers[1].conn);
}

/* Two sessions in a first message, another request, a second hello. */
static void
peer_that_breaks_the_protocol_is_sent_away(void **state)
{
    struct world *w = *state;
    uint8_t bytes[CLI_AGENT_MSG_MAX];
    char address[160];

    serve(w, address, sizeof(address));
    for (int how = 0; how < 3; how++) {
        request_t req = GPUPOOL__CTL__CTL_REQUEST__INIT;
        Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;

        req.id = 3;
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
        req.status = &status;
        peer_dial(w, &peers[2], address, 12);
        if (how == 0)
            post(&peers[2], bytes, cli_agent_hello(&peers[2].lease, bytes));
        else if (how == 1)
            post(&peers[2], bytes, gpupool__ctl__ctl_request__pack(&req, bytes));
        else
            post(&peers[2], (const uint8_t *)"\xff\xff", 2);
        run(w, third_was_closed);
    }
    assert_int_equal(w->agent.n_peers, 0);
}

static void
there_is_one_agent(void **state)
{
    struct world *w = *state;
    struct cli_agent second = {.n_peers = 0};
    struct stat st;
    char address[160], other[160];

    serve(w, address, sizeof(address));
    assert_int_equal(stat(address + strlen("unix:"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(cli_agent_start(&second, address, &w->renewer, w->loop),
                     -EADDRINUSE);
    /* Of another scheduler, or of the same address with another key, another. */
    assert_int_equal(cli_agent_address("unix:/else", NULL, other, sizeof(other)), 0);
    assert_string_not_equal(address, other);
    assert_int_equal(
        cli_agent_address(w->address, (const uint8_t[32]){1}, other, sizeof(other)), 0);
    assert_string_not_equal(address, other);
    assert_int_equal(cli_agent_start(&second, other, &w->renewer, w->loop), 0);
    cli_agent_stop(&second);
    assert_int_equal(stat(other + strlen("unix:"), &st), -1);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(thousand_sessions_take_three_requests_over_one_connection),
        PROMISE(sessions_that_are_due_soon_are_renewed_with_those_that_are_due),
        PROMISE(older_scheduler_is_asked_for_one_after_the_other),
        PROMISE(leader_is_followed),
        PROMISE(agent_holds_sessions_of_peers_and_tells_each_of_its_own),
        PROMISE(peer_ends_its_own_session_and_no_other),
        PROMISE(peer_that_breaks_the_protocol_is_sent_away),
        PROMISE(there_is_one_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
