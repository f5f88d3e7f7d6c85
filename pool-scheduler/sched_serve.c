/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_serve.h"

#include "ctl_limits.h"
#include "ctl_peek.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"
#include "sched_asker.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_crowd.h"
#include "sched_door.h"
#include "sched_ending.h"
#include "sched_fed.h"
#include "sched_handle.h"
#include "sched_list.h"
#include "sched_rates.h"
#include "sched_reads.h"
#include "sched_relay.h"
#include "sched_replica.h"
#include "sched_unread.h"
#include "sched_wait.h"
#include "ticket_key.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

/* An unauthenticated peer that says nothing is not kept. */
#define FIRST_MESSAGE_NS (10 * GP_NS_PER_S)
/* The status of the largest pool, and what may wait before it. */
#define QUEUE_MAX ((size_t)CTL_REPLY_MAX + 4 * QUEUE_BUSY)
/* While this much waits to be read, no further request of the peer is read. */
#define QUEUE_BUSY ((size_t)256 * 1024)
/* A peer to which answers wait must take all of them, or this much, in each period. */
#define UNREAD_NS (10 * GP_NS_PER_S)
#define UNREAD_MIN ((uint64_t)64 * 1024)
/* Who has shown no token is refused so often, then disconnected. */
#define UNPROVEN_REFUSALS_MAX 16

static void on_msg(struct gp_msg_conn *msg, const void *data, size_t len);
static void on_close(struct gp_msg_conn *msg, int code);
static int on_begin(struct gp_msg_conn *msg, uint32_t *ret_events);
static bool on_large(struct gp_msg_conn *msg, const void *data, size_t len,
                     size_t total);

/* ---------------------------------------------------------------- lifetime -- */

static void
idle_expired(struct gp_loop_timer *timer)
{
    struct sched_conn *conn = container_of(timer, struct sched_conn, idle);

    gp_log_info("conn", "%s: silent for too long, disconnected", conn->peer);
    sched_serve_end(conn);
}

static bool
is_unix(int fd)
{
    int family = 0;
    socklen_t len = sizeof(family);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 &&
           family == AF_UNIX;
}

/* For one more connection from @from.  False: there is none. */
static bool
make_room(struct sched *sched, int fd, uint64_t from)
{
    char peer[GP_NET_NAME_MAX];
    struct sched_conn *end;
    uint32_t skipped;
    bool ok = sched_crowd_admits(sched, from, &end);

    if (ok && !end)
        return true;
    if (gp_log_limit_ok(&sched->crowd_log, &skipped))
        gp_log_warn(
            "conn",
            "%u connections, the most there may be; %s is %s, whose address has "
            "the most of them (%u such lines left out)",
            sched->n_clients, ok ? end->peer : gp_net_peer_name(fd, peer, sizeof(peer)),
            ok ? "ended" : "refused", skipped);
    if (end)
        sched_serve_end(end);
    return ok;
}

/* Whether the connection is closed unread: its address makes too many of them, each may
 * cost a handshake of TLS, and an answer would serve the flood. */
static bool
too_often(struct sched *sched, int fd, uint64_t from)
{
    char peer[GP_NET_NAME_MAX];
    uint32_t skipped;
    uint64_t wait =
        is_unix(fd) ? 0 : gp_rate_take(&sched->rates.connections, from, gp_now_ns());

    if (wait && gp_log_limit_ok(&sched->often_log, &skipped))
        gp_log_warn("conn",
                    "%s: too many connections from this address, closed unread; the "
                    "next one is taken in %u ms (%u such lines left out)",
                    gp_net_peer_name(fd, peer, sizeof(peer)), gp_rate_ms(wait),
                    skipped);
    return wait;
}

void
sched_serve_accept(struct sched *sched, int fd)
{
    uint64_t from = gp_net_peer_hash(fd);

    if (too_often(sched, fd, from))
        close(fd);
    else
        sched_door_knock(sched, fd, from, !is_unix(fd));
}

void
sched_serve_begin(struct sched *sched, int fd, uint64_t from)
{
    struct sched_conn *conn;

    if (!make_room(sched, fd, from)) {
        close(fd);
        return;
    }
    conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        return;
    }
    conn->sched = sched;
    conn->key = ticket_key_ref(sched->key);
    conn->from = from;
    conn->own_user = sched_auth_peer(fd, conn->peer, sizeof(conn->peer));
    if (gp_msg_conn_init(&conn->msg, sched->loop, fd, CTL_CLIENT_REQUEST_MAX, QUEUE_MAX,
                         on_msg, on_close) < 0) {
        ticket_key_free(conn->key);
        close(fd);
        free(conn);
        return;
    }
    if (sched->tls && !is_unix(fd)) {
        conn->door = (struct tls_door){.policy = sched->tls_policy, .ctx = sched->tls};
        conn->msg.begin = on_begin;
    }
    conn->msg.on_large = on_large;
    conn->msg.busy_mark = QUEUE_BUSY;
    conn->next = sched->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    conn->link = &sched->conns;
    sched->conns = conn;
    sched_crowd_add(conn);
    sched_door_enter(conn);
    conn->on_idle = idle_expired;
    gp_loop_timer_set(sched->loop, &conn->idle, gp_now_ns() + FIRST_MESSAGE_NS,
                      idle_expired);
    gp_log_debug("conn", "%s: connected", conn->peer);
}

static void
release_held(struct sched_conn *conn)
{
    uint64_t now = gp_now_ns();

    while (conn->held)
        sched_conn_lost(conn->held, now);
}

void
sched_serve_end(struct sched_conn *conn)
{
    struct sched *sched = conn->sched;

    sched_commit_forget(conn);
    sched_wait_end(conn);
    release_held(conn);
    while (conn->closing) {
        struct sched_session *session = conn->closing;

        conn->closing = session->closing_next;
        session->closer = NULL;
        session->closing_link = NULL;
    }
    if (conn->wait.request)
        sched->n_waiting--;
    sched_watch_pool_end(conn);
    sched_pod_end(conn);
    sched_fed_end(conn);
    sched_relay_end(conn);
    sched_reads_end(conn);
    sched_door_leave(conn);
    free(conn->transcript);
    free(conn->hello_server);
    ticket_key_free(conn->key);
    gp_loop_timer_del(&conn->wait.timeout);
    gp_loop_timer_del(&conn->idle);
    if (conn->server)
        sched_server_lost(sched, conn->server, "connection closed");
    else
        sched_crowd_remove(conn);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    tls_door_fini(&conn->door);
    gp_msg_conn_fini(&conn->msg);
    free(conn);
}

static size_t
unread_max(const struct sched *sched)
{
    return sched->config.unread_max ? sched->config.unread_max : SCHED_UNREAD_MAX;
}

/* Who reads slowly, but reads, keeps no more than this altogether. */
static void
end_most_unread(struct sched *sched)
{
    CLEANUP_FREE struct sched_unread *list = NULL;
    size_t n, total;

    if (sched_unread_choose(sched, unread_max(sched), &list, &n, &total) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t skipped;

        if (gp_log_limit_ok(&sched->crowd_log, &skipped))
            gp_log_warn("conn",
                        "%zu KiB of answers are not read yet, the most there may be; "
                        "%s has %zu KiB, disconnected (%u such lines left out)",
                        total >> 10, list[i].conn->peer, list[i].bytes >> 10, skipped);
        total -= list[i].bytes;
        sched_serve_end(list[i].conn); /* which ends no other connection */
    }
}

/* Answers that nobody reads are memory that a peer makes us hold. */
void
sched_serve_sweep_unread(struct sched *sched, uint64_t now)
{
    struct sched_conn *conn, *next;
    size_t total = 0;

    for (conn = sched->conns; conn; conn = next) {
        next = conn->next;
        total += gp_msg_conn_unsent(&conn->msg);
        if (!gp_msg_conn_unsent(&conn->msg) || !conn->unread_ns ||
            conn->msg.sent - conn->unread_sent >= UNREAD_MIN) {
            conn->unread_ns = now;
            conn->unread_sent = conn->msg.sent;
        } else if (now - conn->unread_ns > UNREAD_NS) {
            gp_log_warn("conn", "%s: does not read its answers, disconnected",
                        conn->peer);
            sched_serve_end(conn);
        }
    }
    if (total > unread_max(sched))
        end_most_unread(sched);
}

static void
on_close(struct gp_msg_conn *msg, int code)
{
    struct sched_conn *conn = container_of(msg, struct sched_conn, msg);

    gp_log_debug("conn", "%s: closed: %s", conn->peer, code ? strerror(-code) : "end");
    sched_serve_end(conn);
}

static int
on_begin(struct gp_msg_conn *msg, uint32_t *ret_events)
{
    struct sched_conn *conn = container_of(msg, struct sched_conn, msg);
    struct gp_err err = {0};
    uint32_t skipped;
    int r = tls_door_begin(&conn->door, msg, ret_events, &err);

    if (r < 0 && r != -EAGAIN && gp_log_limit_ok(&conn->sched->accept_log, &skipped))
        gp_log_info("conn", "%s: %s (%u such lines left out)", conn->peer,
                    gp_err_msg(&err, r), skipped);
    return r;
}

/* ---------------------------------------------------------------- requests -- */

static bool
dispatch(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    uint32_t id = req->id;

    switch (req->body_case) {
    case GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER:
        sched_handle_register(conn, id, req->register_server);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT:
        sched_handle_report(conn, id, req->report);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_LEAVE:
        sched_handle_leave(conn, id);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN:
        if (sched_rates_open(conn, id, req->open))
            sched_handle_open(conn, id, req->open);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN_MANY:
        sched_handle_open_many(conn, id, req->open_many);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW:
        sched_handle_renew(conn, id, req->renew);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY:
        sched_handle_renew_many(conn, id, req->renew_many);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE:
        sched_handle_close(conn, id, req->close);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS:
        sched_handle_status(conn, id, req->status);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_DRAIN:
        sched_handle_drain(conn, id, req->drain);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_CORDON:
        sched_handle_cordon(conn, id, req->cordon);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_FORGET:
        sched_handle_forget(conn, id, req->forget);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_HELLO:
        sched_handle_hello(conn, id, req->hello);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_PROVE:
        sched_handle_prove(conn, id, req->prove);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_WAIT_SERVERS:
        sched_handle_wait(conn, id, req->wait_servers);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_POD_SESSION:
        if (sched_rates_open(conn, id, NULL))
            sched_handle_pod_session(conn, id, req->pod_session);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_WATCH_POOL:
        sched_handle_watch_pool(conn, id, req->watch_pool);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE:
        sched_handle_queue(conn, id, req->queue);
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_LIST:
        sched_handle_list(conn, id, req->list);
        return true;
    default:
        return false;
    }
}

static void
violation(struct sched_conn *conn, uint32_t id, const char *words)
{
    gp_log_warn("conn", "%s: %s, disconnected", conn->peer, words);
    conn->sched->counters.bad_requests++;
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, words, NULL);
    sched_serve_end(conn);
}

/* Only a peer that has shown a right token or key stops being an unauthenticated one;
 * the deadline of one whose request was refused goes on. */
static void
after_request(struct sched_conn *conn)
{
    if (!conn->known) {
        if (conn->refusals < UNPROVEN_REFUSALS_MAX)
            return;
        gp_log_info("conn", "%s: refused %u times, disconnected", conn->peer,
                    conn->refusals);
        sched_serve_end(conn);
        return;
    }
    sched_door_leave(conn);
    conn->msg.max_msg = conn->server ? CTL_REQUEST_MAX : CTL_CLIENT_REQUEST_MAX;
    sched_conn_touch(conn);
}

void
sched_serve_read(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    /* Another scheduler may lead since it came. */
    if (sched_replica_answers(conn, req))
        dispatch(conn, req);
    after_request(conn);
}

/* A registration is large when it is unpacked, so its token is looked at before.
 * False: it has been refused. */
static bool
may_unpack(struct sched_conn *conn, const void *data, size_t len)
{
    struct ctl_peek peek;

    if (!ctl_peek(data, len, &peek) || !peek.is_register)
        return true;
    return sched_handle_register_allowed(conn, peek.id, peek.token);
}

/* The registration of a server with many sessions is larger than what unauthenticated
 * peers may send; its token is among its first bytes. */
static bool
on_large(struct gp_msg_conn *msg, const void *data, size_t len, size_t total)
{
    struct sched_conn *conn = container_of(msg, struct sched_conn, msg);
    struct ctl_peek peek;

    if (total > CTL_REQUEST_MAX || !ctl_peek(data, len, &peek) || !peek.is_register)
        return false;
    if (!sched_handle_register_allowed(conn, peek.id, peek.token))
        return false;
    msg->max_msg = CTL_REQUEST_MAX;
    return true;
}

static void
on_msg(struct gp_msg_conn *msg, const void *data, size_t len)
{
    struct sched_conn *conn = container_of(msg, struct sched_conn, msg);
    Gpupool__Ctl__CtlRequest *req;
    struct ctl_peek peek;

    if (conn->door.clear && conn->sched->tls_policy == TLS_REQUIRE) {
        sched_conn_refuse(
            conn, ctl_peek(data, len, &peek) ? peek.id : 0,
            GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
            "this scheduler takes only TLS: upgrade, unset GPUPOOL_TLS, or "
            "start gpupool-scheduler with --tls prefer",
            NULL);
        sched_serve_end(conn);
        return;
    }
    sched_commit_turn(conn->sched);
    if (!sched_rates_request(conn, data, len) || !may_unpack(conn, data, len)) {
        after_request(conn);
        return;
    }
    req = gpupool__ctl__ctl_request__unpack(NULL, len, data);
    if (!req || !req->id) {
        if (req)
            gpupool__ctl__ctl_request__free_unpacked(req, NULL);
        violation(conn, 0, "bytes that are no request");
        return;
    }
    if (!sched_asker_admits(conn, req) || sched_relay_request(conn, req) ||
        !sched_replica_answers(conn, req)) {
        after_request(conn);
    } else if (sched_reads_is(req)) {
        if (sched_reads_request(conn, req, data, len))
            after_request(conn);
    } else if (dispatch(conn, req))
        after_request(conn);
    else
        violation(conn, req->id, "an unknown request");
    gpupool__ctl__ctl_request__free_unpacked(req, NULL);
}
