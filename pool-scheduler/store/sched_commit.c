/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_commit.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_handle.h"
#include "sched_store.h"

#include <errno.h>
#include <string.h>

/* An answer that waits for the disk. */
struct sched_answer {
    struct sched_conn *conn; /* NULL: it is gone */
    uint64_t serial;
    uint32_t request; /* 0: a notice */
    size_t size;
    struct sched_answer *next;
    uint8_t bytes[];
};

static void send_answers(struct sched *sched, uint64_t serial, int r,
                         const struct gp_err *err);

/* A change that was not even collected (no memory) is not waited for. */
static void
write_rest(struct sched *sched)
{
    if (sched_store_dirty(sched->store))
        sched_store_write(sched->store);
    else if (sched_store_done(sched->store) + 1 == sched_store_serial(sched->store))
        send_answers(sched, sched_store_serial(sched->store), 0, NULL);
}

static void
on_turn_end(struct gp_loop_timer *timer)
{
    write_rest(container_of(timer, struct sched, commit.timer));
}

static void
write_soon(struct sched *sched)
{
    /* Timers run after the descriptors of a turn. */
    if (sched->loop && !sched->commit.timer.loop)
        gp_loop_timer_set(sched->loop, &sched->commit.timer, 0, on_turn_end);
}

void
sched_commit_soon(struct sched *sched)
{
    sched->commit.after = sched_store_serial(sched->store);
    write_soon(sched);
}

void
sched_commit_after(struct sched *sched, uint64_t serial)
{
    sched->commit.after = gp_max(sched->commit.after, serial);
}

void
sched_commit_everything(struct sched *sched)
{
    uint64_t serial = sched_store_serial(sched->store);

    sched_commit_after(sched, sched_store_dirty(sched->store) ? serial : serial - 1);
}

void
sched_commit_turn(struct sched *sched)
{
    sched->commit.after = 0;
}

/* ----------------------------------------------------------------- answers -- */

int
sched_commit_send(struct sched_conn *conn, uint32_t request, const void *data,
                  size_t size)
{
    struct sched *sched = conn->sched;
    struct sched_answer *answer;

    if (sched->commit.sending ||
        (!conn->n_answers && sched->commit.after <= sched_store_done(sched->store)))
        return gp_msg_conn_send(&conn->msg, data, size);
    answer = malloc(sizeof(*answer) + size);
    if (!answer)
        return -ENOMEM;
    *answer = (struct sched_answer){
        .conn = conn,
        /* Serials of the queue never go down. */
        .serial = gp_max(sched->commit.after, sched->commit.queued),
        .request = request,
        .size = size,
    };
    sched->commit.queued = answer->serial;
    memcpy(answer->bytes, data, size);
    *sched->commit.answers_end = answer;
    sched->commit.answers_end = &answer->next;
    if (!conn->n_answers++ && !conn->opening)
        gp_msg_conn_hold(&conn->msg, true);
    return 0;
}

static void
release(struct sched_conn *conn)
{
    if (!conn->n_answers && !conn->opening)
        gp_msg_conn_hold(&conn->msg, false);
}

static void
answer_send(struct sched_answer *answer, int r, const struct gp_err *err)
{
    struct sched_conn *conn = answer->conn;

    conn->n_answers--;
    conn->sched->commit.sending = true;
    if (r < 0 && answer->request)
        sched_conn_refuse(conn, answer->request, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          gp_err_msg(err, r), NULL);
    else
        sched_conn_send_now(conn, answer->bytes, answer->size);
    conn->sched->commit.sending = false;
}

/* Those that waited for transactions up to @serial. */
static void
send_answers(struct sched *sched, uint64_t serial, int r, const struct gp_err *err)
{
    struct sched_answer *answer;

    while ((answer = sched->commit.answers) && answer->serial <= serial) {
        sched->commit.answers = answer->next;
        if (!answer->next)
            sched->commit.answers_end = &sched->commit.answers;
        if (answer->conn) {
            struct sched_conn *conn = answer->conn;

            answer_send(answer, r, err);
            release(conn); /* may end the connection */
        }
        free(answer);
    }
}

/* ------------------------------------------------------------------- opens -- */

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
    session->open_serial = sched_store_serial(sched->store);
    *sched->commit.end = session;
    sched->commit.end = &session->pending_next;
    conn->opening = session;
    gp_msg_conn_hold(&conn->msg, true);
    write_soon(sched);
}

void
sched_commit_forget(struct sched_conn *conn)
{
    if (conn->opening)
        conn->opening->pending_conn = NULL;
    conn->opening = NULL;
    if (!conn->n_answers)
        return;
    for (struct sched_answer *a = conn->sched->commit.answers; a; a = a->next)
        if (a->conn == conn)
            a->conn = NULL;
    conn->n_answers = 0;
}

/* It is on disk: answer. */
static void
opened(struct sched *sched, struct sched_session *session)
{
    struct sched_conn *conn = session->pending_conn;

    sched->counters.opened++;
    /* The write took a part of the first term. */
    sched_session_lease(&sched->sessions, session,
                        gp_now_ns() + session->lease_ms * GP_NS_PER_MS);
    gp_log_info("session", "%s: opened for %s on server %s%s, %u x %u %%, %s",
                session->name, session->owner->name, session->parts[0].server->name,
                session->n_parts > 1 ? " and others" : "", session->n_slices,
                session->slices[0].core, ticket_policy_name(session->policy));
    sched_events_add(&sched->events, "open", session->name,
                     session->parts[0].server->name, session->owner->name,
                     session->program);
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
    sched_store_undo_session(sched->store, session->id);
    if (conn)
        sched_conn_refuse(conn, session->pending_request,
                          GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, words, NULL);
    sched_session_free(&sched->sessions, session);
}

static void
end_opens(struct sched *sched, uint64_t serial, int r, const struct gp_err *err)
{
    struct sched_session *session;

    while ((session = sched->commit.first) && session->open_serial <= serial) {
        struct sched_conn *conn = session->pending_conn;

        sched->commit.first = session->pending_next;
        if (!session->pending_next)
            sched->commit.end = &sched->commit.first;
        session->pending = false;
        if (conn)
            conn->opening = NULL;
        sched_commit_turn(sched);
        if (r < 0)
            undone(sched, session, gp_err_msg(err, r));
        else
            opened(sched, session);
        if (conn) {
            sched_conn_touch(conn);
            release(conn);
        }
    }
}

/* ------------------------------------------------------------------ commit -- */

static void
on_ended(void *arg, uint64_t serial, int r, const struct gp_err *err)
{
    struct sched *sched = arg;

    if (r < 0)
        gp_log_error("sched", "changes were not written: %s", gp_err_msg(err, r));
    sched_commit_turn(sched);
    end_opens(sched, serial, r, err);
    send_answers(sched, serial, r, err);
    if (!r) /* after a failure the tick tries again */
        write_soon(sched);
    if (r == -ESTALE)
        sched->commit.stale(sched);
}

int
sched_commit_start(struct sched *sched, struct gp_err *err)
{
    return sched_store_start(sched->store, sched->loop, on_ended, sched, err);
}

int
sched_commit(struct sched *sched, struct gp_err *err)
{
    int r;

    gp_loop_timer_del(&sched->commit.timer);
    r = sched_store_commit(sched->store, err);
    if (!sched_store_dirty(sched->store))
        write_rest(sched);
    return r;
}
