/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_commit.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "sched_conn.h"
#include "sched_handle.h"
#include "sched_store.h"

static void
on_turn_end(struct gp_loop_timer *timer)
{
    sched_commit(container_of(timer, struct sched, commit.timer), NULL);
}

void
sched_commit_soon(struct sched *sched)
{
    /* Timers run after the descriptors of a turn. */
    if (!sched->commit.timer.loop)
        gp_loop_timer_set(sched->loop, &sched->commit.timer, 0, on_turn_end);
}

void
sched_commit_open(struct sched_conn *conn, uint32_t id, struct sched_session *session,
                  bool hold)
{
    struct sched *sched = conn->sched;

    session->pending = true;
    session->pending_hold = hold;
    session->pending_conn = conn;
    session->pending_request = id;
    session->pending_next = NULL;
    *sched->commit.end = session;
    sched->commit.end = &session->pending_next;
    conn->opening = session;
    gp_msg_conn_hold(&conn->msg, true);
    sched_commit_soon(sched);
}

void
sched_commit_forget(struct sched_conn *conn)
{
    if (conn->opening)
        conn->opening->pending_conn = NULL;
    conn->opening = NULL;
}

/* It is on disk: answer. */
static void
opened(struct sched *sched, struct sched_session *session)
{
    struct sched_conn *conn = session->pending_conn;

    sched->counters.opened++;
    gp_log_info("session", "%s: opened for %s on server %s%s, %u x %u %%, %s",
                session->name, session->owner->name, session->parts[0].server->name,
                session->n_parts > 1 ? " and others" : "", session->n_slices,
                session->slices[0].core, ticket_policy_name(session->policy));
    gp_audit("grant", "from", conn ? conn->peer : NULL, "who", session->owner->name,
             "session", session->name, "program", session->program, "server",
             session->parts[0].server->name, NULL);
    if (!conn) {
        sched->commit.orphaned(sched, session);
        return;
    }
    if (session->pending_hold)
        sched_conn_hold(conn, session);
    sched_handle_opened(conn, session->pending_request, session);
}

/* It is not: as if it had never been. */
static void
undone(struct sched *sched, struct sched_session *session, const char *words)
{
    struct sched_conn *conn = session->pending_conn;

    sched->counters.refused++;
    gp_log_error("session", "%s: refused: %s", session->name, words);
    if (conn)
        sched_conn_refuse(conn, session->pending_request,
                          GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, words, NULL);
    sched_session_free(&sched->sessions, session);
}

int
sched_commit(struct sched *sched, struct gp_err *err)
{
    struct sched_session *session = sched->commit.first, *next;
    struct gp_err own = {0};
    int r = sched_store_commit(sched->store, &own);

    gp_loop_timer_del(&sched->commit.timer);
    if (r < 0)
        gp_log_error("sched", "changes were not written: %s", gp_err_msg(&own, r));
    sched->commit.first = NULL;
    sched->commit.end = &sched->commit.first;
    for (; session; session = next) {
        struct sched_conn *conn = session->pending_conn;

        next = session->pending_next;
        session->pending = false;
        if (conn)
            conn->opening = NULL;
        if (r < 0)
            undone(sched, session, gp_err_msg(&own, r));
        else
            opened(sched, session);
        if (conn) {
            sched_conn_touch(conn);
            gp_msg_conn_hold(&conn->msg, false);
        }
    }
    return r < 0 ? gp_err_set(err, r, "%s", gp_err_msg(&own, r)) : 0;
}
