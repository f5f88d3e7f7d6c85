/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_conn.h"

#include "ctl_limits.h"
#include "gp_audit.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_commit.h"
#include "sched_peer.h"
#include "sched_said.h"
#include "ticket_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* A client may think for a minute; the holder of a session says something each half
 * lease. */
#define CLIENT_IDLE_NS (60 * GP_NS_PER_S)

/* A peer that waits for us may be silent for ever, and servers are watched by the
 * heartbeat's own limit. */
void
sched_conn_touch(struct sched_conn *conn)
{
    uint64_t ns = CLIENT_IDLE_NS;

    if (conn->held)
        ns = gp_max(ns, 2 * conn->held_lease_ms * GP_NS_PER_MS);
    if (conn->server || conn->wait.request || conn->closing ||
        conn->pool_watch.request || conn->pod || conn->waiting)
        gp_loop_timer_del(&conn->idle);
    else
        gp_loop_timer_set(conn->sched->loop, &conn->idle, gp_now_ns() + ns,
                          conn->on_idle);
}

/* ----------------------------------------------------------------- replies -- */

/* A peer that misses an answer would wait for it: end the link, by its own event since
 * the handlers still use the connection. */
static void
not_sent(struct sched_conn *conn, size_t size, int r)
{
    gp_log_warn("conn", "%s: an answer of %zu bytes is not sent: %s, disconnected",
                conn->peer, size, strerror(-r));
    if (conn->msg.src.loop)
        shutdown(conn->msg.src.fd, SHUT_RDWR);
}

void
sched_conn_send(struct sched_conn *conn, uint32_t request, const void *data,
                size_t size)
{
    int r = size <= CTL_REPLY_MAX ? sched_commit_send(conn, request, data, size)
                                  : -EMSGSIZE;

    if (r < 0)
        not_sent(conn, size, r);
}

void
sched_conn_reply(struct sched_conn *conn, const Gpupool__Ctl__CtlReply *reply)
{
    size_t size = gpupool__ctl__ctl_reply__get_packed_size(reply);
    CLEANUP_FREE uint8_t *bytes = malloc(size ? size : 1);

    if (!bytes) {
        not_sent(conn, size, -ENOMEM);
        return;
    }
    gpupool__ctl__ctl_reply__pack(reply, bytes);
    sched_conn_send(conn, reply->id, bytes, size);
}

void
sched_conn_draft(struct sched_conn *conn, uint32_t request, struct sched_draft *draft)
{
    int r = draft ? sched_commit_draft(conn, request, draft) : -ENOMEM;

    if (r < 0)
        not_sent(conn, 0, r);
}

void
sched_conn_send_now(struct sched_conn *conn, const void *data, size_t size)
{
    int r = gp_msg_conn_send(&conn->msg, data, size);

    if (r < 0)
        not_sent(conn, size, r);
}

static void
reason_message(const struct sched_reason *reason, Gpupool__Ctl__CtlReason *msg,
               char uuid[TICKET_UUID_TEXT])
{
    gpupool__ctl__ctl_reason__init(msg);
    if (reason->card) {
        ticket_uuid_format(reason->card->facts.uuid, uuid);
        msg->card = uuid;
    }
    msg->server = (char *)reason->server->name;
    msg->words = (char *)reason->words;
}

/* Of cards, and of other pools. */
#define REASONS_MAX (CTL_REASONS_MAX + SCHED_POOLS_MAX)

static void
count_denial(struct sched_conn *conn)
{
    if (!conn->own_user)
        gp_rate_take(&conn->sched->rates.denials, conn->from, gp_now_ns());
}

void
sched_conn_denied(struct sched_conn *conn, const char *words)
{
    count_denial(conn);
    gp_audit_deny("denied", "from", conn->peer, "by", sched_peer_who(conn), "words",
                  words, NULL);
}

/* Wrong secrets count, and whatever a peer that has shown no right one gets wrong. */
static void
count_refusal(struct sched_conn *conn, Gpupool__Ctl__CtlCode code, const char *words)
{
    if (!conn->known)
        conn->refusals++;
    if (code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED)
        sched_conn_denied(conn, words);
    else if (code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST && !conn->known)
        count_denial(conn);
}

static void
refuse(struct sched_conn *conn, uint32_t request, Gpupool__Ctl__CtlCode code,
       uint32_t retry_ms, const char *words, const struct sched_reasons *reasons,
       const struct sched_said *said)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;
    Gpupool__Ctl__CtlReason msgs[REASONS_MAX], *list[REASONS_MAX];
    char uuids[CTL_REASONS_MAX][TICKET_UUID_TEXT];
    char pools[SCHED_POOLS_MAX][CTL_NAME_MAX + 8];

    for (unsigned i = 0; reasons && i < reasons->n; i++) {
        reason_message(&reasons->list[i], &msgs[i], uuids[i]);
        list[i] = &msgs[i];
    }
    if (!retry_ms || code != GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT)
        count_refusal(conn, code, words);
    error.code = code;
    error.words = (char *)words;
    error.retry_after_ms = retry_ms;
    if (reasons) {
        error.reasons = list;
        error.n_reasons = reasons->n;
        error.reasons_left_off = reasons->left_off;
    }
    for (unsigned i = 0; said && i < said->n; i++) {
        Gpupool__Ctl__CtlReason *msg = &msgs[error.n_reasons];

        gpupool__ctl__ctl_reason__init(msg);
        snprintf(pools[i], sizeof(pools[i]), "pool %s", said->list[i].pool);
        msg->server = pools[i];
        msg->words = (char *)(uintptr_t)said->list[i].words;
        error.reasons = list;
        list[error.n_reasons++] = msg;
    }
    reply.id = request;
    reply.error = &error;
    sched_conn_reply(conn, &reply);
}

void
sched_conn_refuse(struct sched_conn *conn, uint32_t request, Gpupool__Ctl__CtlCode code,
                  const char *words, const struct sched_reasons *reasons)
{
    refuse(conn, request, code, 0, words, reasons, NULL);
}

void
sched_conn_refuse_no_fit(struct sched_conn *conn, uint32_t request, uint32_t retry_ms,
                         const struct sched_reasons *reasons,
                         const struct sched_said *said)
{
    refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, retry_ms,
           reasons->summary, reasons, said);
}

void
sched_conn_refuse_until(struct sched_conn *conn, uint32_t request, uint32_t retry_ms,
                        const char *words)
{
    refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT, retry_ms, words, NULL,
           NULL);
}

void
sched_conn_not_leader(struct sched_conn *conn, uint32_t request, const char *words,
                      const char *leader)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;

    if (!conn->known)
        conn->refusals++;
    error.code = GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;
    error.words = (char *)words;
    error.leader = (char *)leader;
    reply.id = request;
    reply.error = &error;
    sched_conn_reply(conn, &reply);
}

static void
add_key(struct sched_keys *keys, const struct ticket_key *key)
{
    if (key)
        keys->list[keys->n++] = (ProtobufCBinaryData){
            TICKET_PUB_SIZE, (uint8_t *)(uintptr_t)ticket_key_pub(key)};
}

struct sched_keys
sched_conn_keys(const struct sched *sched)
{
    struct sched_keys keys = {.n = 0};

    add_key(&keys, sched->key);
    add_key(&keys, sched->old_key);
    return keys;
}

/* ---------------------------------------------------- sessions of this peer -- */

void
sched_conn_unhold(struct sched_session *session)
{
    if (!session->holder)
        return;
    *session->held_link = session->held_next;
    if (session->held_next)
        session->held_next->held_link = session->held_link;
    session->holder = NULL;
}

void
sched_conn_hold(struct sched_conn *conn, struct sched_session *session)
{
    sched_conn_unhold(session);
    session->holder = conn;
    session->held_next = conn->held;
    conn->held_lease_ms =
        gp_max(conn->held ? conn->held_lease_ms : 0, session->lease_ms);
    if (conn->held)
        conn->held->held_link = &session->held_next;
    session->held_link = &conn->held;
    conn->held = session;
}

void
sched_conn_lost(struct sched_session *session, uint64_t now)
{
    struct sched_conn *conn = session->holder;
    struct sched *sched = conn->sched;
    uint64_t end = now + sched->config.hold_grace_ms * GP_NS_PER_MS;

    sched_conn_unhold(session);
    sched->counters.lost_connections++;
    gp_log_info("session", "%s: its client %s is gone, ends in %u ms", session->name,
                conn->peer, sched->config.hold_grace_ms);
    if (session->lease_end_ns > end)
        sched_session_lease(&sched->sessions, session, end);
}

void
sched_conn_await_close(struct sched_conn *conn, struct sched_session *session,
                       uint32_t request)
{
    session->closer = conn;
    session->closer_request = request;
    session->closing_next = conn->closing;
    if (conn->closing)
        conn->closing->closing_link = &session->closing_next;
    session->closing_link = &conn->closing;
    conn->closing = session;
}

void
sched_conn_closed(struct sched_session *session)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlClosed closed = GPUPOOL__CTL__CTL_CLOSED__INIT;
    struct sched_conn *conn = session->closer;

    if (!conn)
        return;
    *session->closing_link = session->closing_next;
    if (session->closing_next)
        session->closing_next->closing_link = session->closing_link;
    session->closer = NULL;
    reply.id = session->closer_request;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED;
    reply.closed = &closed;
    sched_conn_reply(conn, &reply);
    sched_conn_touch(conn);
}
