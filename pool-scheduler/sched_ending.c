/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_ending.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_ended.h"
#include "sched_replica.h"
#include "sched_store.h"

/* Tell the server.  False: it is not connected, and cleans up when it is back. */
static bool
notify_server(struct sched_part *part, const char *words)
{
    Gpupool__Ctl__CtlReply notice = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlCloseSession close = GPUPOOL__CTL__CTL_CLOSE_SESSION__INIT;
    struct sched_server *server = part->server;

    if (!server->conn)
        return false;
    close.session_id = part->session->id;
    close.words = (char *)words;
    notice.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION;
    notice.close_session = &close;
    part->close_number = ++server->closes;
    sched_conn_reply(server->conn, &notice);
    return true;
}

/* What of a closing session was on a server is gone; with the last of its servers, so
 * is the session. */
void
sched_session_gone(struct sched *sched, struct sched_part *part)
{
    struct sched_session *session = part->session;

    if (!part->gone)
        gp_log_info("session", "%s: gone from server %s", session->name,
                    part->server->name);
    part->gone = true;
    for (uint32_t i = 0; i < session->n_parts; i++)
        if (!session->parts[i].gone)
            return;
    sched_conn_unhold(session);
    if (session->closer)
        sched_commit_closed(sched, session);
    sched_session_free(&sched->sessions, session);
}

void
sched_session_end(struct sched *sched, struct sched_session *session, const char *words)
{
    bool told[TICKET_SLICES_MAX];
    uint32_t n = session->n_parts;
    struct gp_err err = {0};

    /* What is being opened has no end before its answer; the next turn sees it. */
    if (session->closing || session->pending)
        return;
    gp_log_info("session", "%s: ends: %s", session->name, words);
    sched_events_add(&sched->events, "end", session->name,
                     session->parts[0].server->name, session->owner->name, words);
    sched_ended_note(sched->ended, session, words);
    gp_audit("end", "who", session->owner->name, "session", session->name, "words",
             words, NULL);
    sched_commit_soon(sched);
    session->end_serial = sched_store_serial(sched->store);
    if (sched_store_del_session(sched->store, session->id, &err) < 0)
        gp_log_error("session",
                     "%s: still in the state file, it would come back after a "
                     "restart until its lease ends: %s",
                     session->name, err.msg);
    sched->counters.closed++;
    sched_conn_unhold(session);
    sched_session_closing(&sched->sessions, session);
    for (uint32_t i = 0; i < n; i++)
        told[i] = notify_server(&session->parts[i], words);
    /* The last of them takes the session with it. */
    for (uint32_t i = 0; i < n; i++)
        if (!told[i])
            sched_session_gone(sched, &session->parts[i]);
}

/* Its sessions keep their slices and leases: it may come back and still run them. Only
 * those that were ending are given up now; should it still run them when it is back,
 * they are unknown then, and nothing is placed on it before they are gone. */
static void
forget_closing(struct sched *sched, const struct sched_server *server)
{
    struct sched_part *part, *next;

    part = sched_sessions_next_on(&sched->sessions, server, NULL);
    for (; part; part = next) {
        next = sched_sessions_next_on(&sched->sessions, server, part);
        sched_session_unused(part);
        if (part->session->closing)
            sched_session_gone(sched, part);
    }
}

void
sched_server_lost(struct sched *sched, struct sched_server *server, const char *words)
{
    gp_log_warn("server", "%s: not connected any more: %s", server->name, words);
    sched_events_add(&sched->events, "lost", NULL, server->name, NULL, words);
    server->conn = NULL;
    server->alive = false;
    server->lost_ns = sched->lost_ns = gp_now_ns();
    for (unsigned i = 0; i < server->n_cards; i++)
        sched_pool_used(sched->pool, server->cards[i], 0, 0);
    sched_pool_server_update(sched->pool, server);
    forget_closing(sched, server);
    sched_replica_server(sched, server);
}

unsigned
sched_servers_alive(const struct sched *sched)
{
    unsigned n = 0;

    for (const struct sched_server *s = sched->pool->servers; s; s = s->next)
        n += s->alive;
    return n;
}

/* Of several schedulers the one before may stand still, or its host be gone: servers
 * find that out by reports that nobody answers, after up to eight seconds, of which the
 * lease of the leadership is over by then. */
#define SILENT_LEADER_MS 4000

bool
sched_servers_expected(const struct sched *sched, uint64_t now)
{
    uint64_t lost_within = sched->config.server_return_ms * GP_NS_PER_MS;
    uint64_t led_within = lost_within && sched->config.etcd.urls
                              ? lost_within + SILENT_LEADER_MS * GP_NS_PER_MS
                              : lost_within;
    bool led = now - sched->started_ns < led_within;

    if (!led && now - sched->lost_ns >= lost_within)
        return false; /* the usual case, without a look at each */
    for (const struct sched_server *s = sched->pool->servers; s; s = s->next)
        if (!s->conn && !s->left && (led || now - s->lost_ns < lost_within))
            return true;
    return false;
}

void
sched_session_orphaned(struct sched *sched, struct sched_session *session)
{
    sched_session_end(sched, session, "its client went away while it was opened");
}
