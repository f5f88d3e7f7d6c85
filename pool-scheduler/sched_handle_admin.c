/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about the pool: status, drain, cordon, forget, wait for servers. */
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_ending.h"
#include "sched_handle.h"
#include "sched_list.h"
#include "sched_peer.h"
#include "sched_reads.h"
#include "sched_status.h"
#include "sched_store.h"
#include "sched_wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Each waiting connection is looked at when a server comes. */
#define WAITING_MAX 256
#define WAIT_MAX_MS 600000u

void
sched_handle_status(struct sched_conn *conn, uint32_t id,
                    const Gpupool__Ctl__CtlStatus *msg)
{
    if (!sched_auth_check(conn, id, SCHED_MAY_READ, msg->token))
        return;
    if (msg->servers_only)
        sched_status_reply_servers(conn, id);
    else
        sched_status_reply(conn, id);
}

/* ------------------------------------------------------------------- drain -- */

static uint32_t
sessions_on(const struct sched *sched, const struct sched_server *server)
{
    const struct sched_part *part = NULL;
    uint32_t n = 0;

    while ((part = sched_sessions_next_on(&sched->sessions, server, part)))
        n++;
    return n;
}

static void
reply_drained(struct sched_conn *conn, uint32_t id, uint32_t left)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlDrained drained = GPUPOOL__CTL__CTL_DRAINED__INIT;

    drained.sessions_left = left;
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_DRAINED;
    reply.drained = &drained;
    sched_conn_reply(conn, &reply);
}

static void
set_drain(struct sched_conn *conn, uint32_t id, struct sched_server *server, bool drain)
{
    struct sched *sched = conn->sched;
    struct gp_err err = {0};
    bool before = server->drain_asked;

    server->drain_asked = drain;
    sched_commit_soon(sched);
    if (sched_store_put_server(sched->store, server, &err) < 0) {
        server->drain_asked = before;
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, err.msg,
                          NULL);
        return;
    }
    sched_pool_server_update(sched->pool, server);
    sched_events_add(&sched->events, drain ? "drain" : "undrain", NULL, server->name,
                     NULL, "by an administrator");
    gp_audit("order", "from", conn->peer, "by", sched_peer_who(conn), "order",
             drain ? "drain" : "undrain", "server", server->name, NULL);
    gp_log_info("server", "%s: %s", server->name,
                drain ? "draining: no new sessions" : "accepts sessions again");
    sched_commit_in_effect(sched);
    reply_drained(conn, id, sessions_on(sched, server));
}

void
sched_handle_drain(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlDrain *msg)
{
    struct sched *sched = conn->sched;
    struct sched_server *server;
    char words[320];

    if (!sched_auth_check(conn, id, SCHED_MAY_DRAIN, msg->token))
        return;
    server = sched_pool_server_find(sched->pool, msg->server);
    if (!server) {
        sched_place_no_server(sched->pool, msg->server, words, sizeof(words));
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words, NULL);
        return;
    }
    set_drain(conn, id, server, !msg->undo);
}

/* ------------------------------------------------------------------ cordon -- */

/* Sessions with a slice of @card. */
static uint32_t
sessions_of(const struct sched *sched, const struct sched_card *card)
{
    const struct sched_part *part = NULL;
    uint32_t n = 0;

    while ((part = sched_sessions_next_on(&sched->sessions, card->server, part)))
        for (uint32_t i = part->first; i < part->first + part->n_slices; i++)
            if (part->session->slices[i].card == card) {
                n++;
                break;
            }
    return n;
}

/* Changes memory and the state, or neither. */
static void
set_cordon(struct sched_conn *conn, uint32_t id, struct sched_card *card, bool cordon)
{
    const struct sched_server *server = card->server;
    const char *kind = cordon ? "cordon" : "uncordon";
    struct sched *sched = conn->sched;
    struct gp_err err = {0};
    bool before = card->cordoned;
    char uuid[TICKET_UUID_TEXT], words[TICKET_UUID_TEXT + 64];

    sched_pool_set_cordoned(sched->pool, card, cordon);
    sched_commit_soon(sched);
    if (sched_store_put_server(sched->store, server, &err) < 0) {
        sched_pool_set_cordoned(sched->pool, card, before);
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, err.msg,
                          NULL);
        return;
    }
    ticket_uuid_format(card->facts.uuid, uuid);
    snprintf(words, sizeof(words), "card %u (%s), by an administrator",
             card->facts.index, uuid);
    sched_events_add(&sched->events, kind, NULL, server->name, NULL, words);
    gp_audit("order", "from", conn->peer, "by", sched_peer_who(conn), "order", kind,
             "server", server->name, "card", uuid, NULL);
    gp_log_info("server", "%s: card %u is %s", server->name, card->facts.index,
                cordon ? "cordoned: no new sessions" : "accepts sessions again");
    sched_commit_in_effect(sched);
    reply_drained(conn, id, sessions_of(sched, card));
}

/* @text: an index, or a uuid. */
static struct sched_card *
card_of(const struct sched_server *server, const char *text)
{
    uint8_t uuid[TICKET_UUID_SIZE];
    bool by_uuid = ticket_uuid_parse(text, uuid) == 0;
    uint64_t index = UINT64_MAX;

    if (!by_uuid && gp_str_u64(text, 0, UINT32_MAX, &index) < 0)
        return NULL;
    for (unsigned i = 0; i < server->n_cards; i++) {
        struct sched_card *card = server->cards[i];

        if (by_uuid ? !memcmp(card->facts.uuid, uuid, sizeof(uuid))
                    : card->present && card->facts.index == index)
            return card;
    }
    return NULL;
}

void
sched_handle_cordon(struct sched_conn *conn, uint32_t id,
                    const Gpupool__Ctl__CtlCordon *msg)
{
    const struct sched_server *server;
    struct sched_card *card;
    char words[320];

    if (!sched_auth_check(conn, id, SCHED_MAY_DRAIN, msg->token))
        return;
    server = sched_pool_server_find(conn->sched->pool, msg->server);
    card = server ? card_of(server, msg->card) : NULL;
    if (card) {
        set_cordon(conn, id, card, !msg->undo);
        return;
    }
    if (server)
        snprintf(words, sizeof(words), "server %.*s has no card %.48s",
                 CTL_NAME_MAX - 1, msg->server, msg->card);
    else
        sched_place_no_server(conn->sched->pool, msg->server, words, sizeof(words));
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words, NULL);
}

/* ------------------------------------------------------------------ forget -- */

/* Why @session cannot end with @server alone; false: it can. */
static bool
holds_elsewhere(const struct sched_session *session, const struct sched_server *server,
                char *words, size_t size)
{
    if (session->pending) {
        snprintf(words, size, "%s is being opened there: give the order again",
                 session->name);
        return true;
    }
    for (uint32_t i = 0; i < session->n_parts; i++) {
        const struct sched_server *other = session->parts[i].server;

        if (other == server || !other->conn)
            continue;
        snprintf(
            words, size,
            session->closing
                ? "%s is ending, on server %s too: give the order again when it "
                  "has ended"
                : "%s is also on server %s, which is connected: gpupool close %s ends "
                  "it, then give the order again",
            session->name, other->name, session->name);
        return true;
    }
    return false;
}

/* Everything that is refused is refused before anything changes. */
static bool
may_forget(struct sched_conn *conn, uint32_t id, const struct sched_server *server,
           const char *token)
{
    const struct sched_sessions *set = &conn->sched->sessions;
    const struct sched_part *part = NULL;
    char why[192] = "", words[320];

    if (server->alive || server->conn)
        snprintf(why, sizeof(why),
                 "it is connected: gpupool drain %s, then end it on its host, first",
                 server->name);
    while (!*why && (part = sched_sessions_next_on(set, server, part)))
        holds_elsewhere(part->session, server, why, sizeof(why));
    for (unsigned i = 0; !*why && i < server->n_cards; i++)
        if (server->cards[i]->hold) /* the queue gives it up with its next tick */
            snprintf(why, sizeof(why),
                     "a card of it is still kept for a request: give the order again");
    if (*why) {
        snprintf(words, sizeof(words), "server %s is not forgotten: %s", server->name,
                 why);
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT, words, NULL);
        return false;
    }
    return !sched_sessions_next_on(set, server, NULL) ||
           sched_auth_check(conn, id, SCHED_MAY_END, token);
}

/* Whoever holds one of them would else hear only later that it is not there any more.
 */
static uint32_t
end_sessions_on(struct sched *sched, const struct sched_server *server)
{
    static const char words[] = "its server was forgotten by an administrator";
    struct sched_part *part, *next;
    uint32_t n = 0;

    part = sched_sessions_next_on(&sched->sessions, server, NULL);
    for (; part; part = next, n++) {
        next = sched_sessions_next_on(&sched->sessions, server, part);
        sched_wait_notify(part->session, words, 1);
        sched_session_end(sched, part->session, words);
    }
    return n;
}

static void
reply_forgotten(struct sched_conn *conn, uint32_t id, uint32_t ended)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlForgotten forgotten = GPUPOOL__CTL__CTL_FORGOTTEN__INIT;

    forgotten.sessions_ended = ended;
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_FORGOTTEN;
    reply.forgotten = &forgotten;
    sched_conn_reply(conn, &reply);
}

static void
forget(struct sched_conn *conn, uint32_t id, struct sched_server *server)
{
    struct sched *sched = conn->sched;
    char name[CTL_NAME_MAX], words[64];
    struct gp_err err = {0};
    uint32_t ended;
    int r;

    gp_str_copy(name, sizeof(name), server->name);
    ended = end_sessions_on(sched, server);
    sched_commit_soon(sched);
    r = sched_store_del_server(sched->store, name, &err);
    if (!r)
        r = sched_pool_server_remove(sched->pool, server);
    if (r < 0) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          gp_err_msg(&err, r), NULL);
        return;
    }
    snprintf(words, sizeof(words), "by an administrator, %" PRIu32 " %s ended", ended,
             gp_plural(ended, "session", "sessions"));
    sched_events_add(&sched->events, "forget", NULL, name, NULL, words);
    gp_audit("order", "from", conn->peer, "by", sched_peer_who(conn), "order", "forget",
             "server", name, NULL);
    gp_log_info("server", "%s: forgotten %s", name, words);
    sched_commit_in_effect(sched);
    reply_forgotten(conn, id, ended);
}

void
sched_handle_forget(struct sched_conn *conn, uint32_t id,
                    const Gpupool__Ctl__CtlForget *msg)
{
    struct sched_server *server;
    char words[320];

    if (!sched_auth_check(conn, id, SCHED_MAY_DRAIN, msg->token))
        return;
    server = sched_pool_server_find(conn->sched->pool, msg->server);
    if (!server) {
        sched_place_no_server(conn->sched->pool, msg->server, words, sizeof(words));
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words, NULL);
    } else if (may_forget(conn, id, server, msg->token)) {
        forget(conn, id, server);
    }
}

/* ---------------------------------------------------------- wait for servers -- */

static void
wait_end(struct sched_conn *conn)
{
    gp_loop_timer_del(&conn->wait.timeout);
    conn->wait.request = 0;
    conn->sched->n_waiting--;
    sched_conn_touch(conn);
}

static void
wait_timeout(struct gp_loop_timer *timer)
{
    struct sched_conn *conn = container_of(timer, struct sched_conn, wait.timeout);
    uint32_t request = conn->wait.request;
    char words[80];

    snprintf(words, sizeof(words), "%u of %u servers have registered",
             sched_servers_alive(conn->sched), conn->wait.servers);
    wait_end(conn);
    sched_conn_refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, words, NULL);
}

/* Whether a whole status is wanted is the client's to say: it may be large, and many
 * may have waited for the same server. */
static void
wait_reply(struct sched_conn *conn, uint32_t id, bool numbers_only)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;

    req.id = id;
    if (numbers_only) {
        list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL;
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
        req.list = &list;
    } else {
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
        req.status = &status;
    }
    sched_reads_later(conn, &req);
}

void
sched_handle_wait(struct sched_conn *conn, uint32_t id,
                  const Gpupool__Ctl__CtlWaitServers *msg)
{
    struct sched *sched = conn->sched;
    uint32_t ms = gp_min(msg->timeout_ms, WAIT_MAX_MS);

    if (!sched_auth_check(conn, id, SCHED_MAY_READ, msg->token))
        return;
    if (sched_servers_alive(sched) >= msg->servers) {
        wait_reply(conn, id, msg->numbers_only);
        return;
    }
    if (conn->wait.request || sched->n_waiting >= WAITING_MAX) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                          "too many wait for servers already", NULL);
        return;
    }
    conn->wait.request = id;
    conn->wait.servers = msg->servers;
    conn->wait.numbers_only = msg->numbers_only;
    sched->n_waiting++;
    gp_loop_timer_set(sched->loop, &conn->wait.timeout, gp_now_ns() + ms * GP_NS_PER_MS,
                      wait_timeout);
}

void
sched_handle_wait_check(struct sched *sched)
{
    unsigned alive;

    if (!sched->n_waiting)
        return;
    alive = sched_servers_alive(sched);
    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next) {
        uint32_t request = conn->wait.request;

        if (!request || conn->wait.servers > alive)
            continue;
        wait_end(conn);
        wait_reply(conn, request, conn->wait.numbers_only);
    }
}
