/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_commit.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_draft.h"
#include "sched_handle.h"
#include "sched_signer.h"
#include "sched_store.h"

#include <errno.h>
#include <string.h>

/* An answer that waits: for the disk, then for its tickets, and for those of its
 * connection that were given before it. */
struct sched_answer {
    struct sched_conn *conn; /* NULL: it is gone */
    uint32_t request;        /* 0: a notice */
    uint8_t *bytes;
    size_t size;
    struct sched_answer *conn_next; /* of its connection, oldest first */

    uint64_t serial;           /* of the transaction that it waits for */
    struct sched_answer *next; /* among those that wait for one, oldest first */
    bool on_disk;
    bool in_effect; /* what it says is so, written or not */

    struct sched_draft *draft; /* @bytes are made of it by a signing thread; or NULL */
    bool with_signer;
    struct sched_signer_job job;
    int result; /* of that thread, or of the transaction */
    struct gp_err err;
};

static void answers_written(struct sched *sched, uint64_t serial, int r,
                            const struct gp_err *err);

/* A change that was not even collected (no memory) is not waited for. */
static void
write_rest(struct sched *sched)
{
    if (sched_store_dirty(sched->store))
        sched_store_write(sched->store);
    else if (sched_store_done(sched->store) + 1 == sched_store_serial(sched->store))
        answers_written(sched, sched_store_serial(sched->store), 0, NULL);
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

/* The newest transaction that has a change. */
static uint64_t
newest(const struct sched *sched)
{
    uint64_t serial = sched_store_serial(sched->store);

    return sched_store_dirty(sched->store) ? serial : serial - 1;
}

void
sched_commit_after(struct sched *sched, uint64_t serial)
{
    if (sched->commit.failing && serial <= sched_store_done(sched->store))
        serial = newest(sched);
    sched->commit.after = gp_max(sched->commit.after, serial);
}

void
sched_commit_everything(struct sched *sched)
{
    sched_commit_after(sched, newest(sched));
}

void
sched_commit_in_effect(struct sched *sched)
{
    sched->commit.in_effect = true;
}

void
sched_commit_closed(struct sched *sched, struct sched_session *session)
{
    uint64_t after = sched->commit.after;
    bool in_effect = sched->commit.in_effect;

    sched_commit_after(sched, session->end_serial);
    sched_commit_in_effect(sched);
    sched_conn_closed(session);
    sched->commit.after = after;
    sched->commit.in_effect = in_effect;
}

void
sched_commit_turn(struct sched *sched)
{
    sched->commit.after = 0;
    sched->commit.in_effect = false;
}

/* ----------------------------------------------------------------- answers -- */

static void
answer_free(struct sched_answer *answer)
{
    sched_draft_free(answer->draft);
    free(answer->bytes);
    free(answer);
}

static bool
is_ready(const struct sched_answer *answer)
{
    return answer->on_disk && !answer->with_signer;
}

/* It was not written.  Memory has the change, and the next transaction: but not of a
 * scheduler that leads no more, which forgets it. */
static void
refuse_unwritten(const struct sched_answer *answer)
{
    bool in_effect = answer->in_effect && answer->result != -ESTALE;
    char words[sizeof(answer->err.msg) + 160];

    snprintf(words, sizeof(words), "%s%s%s",
             in_effect ? "in effect, but not recorded yet: " : "",
             gp_err_msg(&answer->err, answer->result),
             in_effect ? "; the scheduler tries again every quarter of a second, and "
                         "does not know of it if it is started again before"
                       : "");
    sched_conn_refuse(answer->conn, answer->request,
                      in_effect ? GPUPOOL__CTL__CTL_CODE__CTL_UNRECORDED
                                : GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                      words, NULL);
}

static void
answer_send(struct sched_answer *answer)
{
    struct sched_conn *conn = answer->conn;

    conn->sched->commit.sending = true;
    if (answer->result < 0 && answer->request)
        refuse_unwritten(answer);
    else if (answer->bytes)
        sched_conn_send_now(conn, answer->bytes, answer->size);
    conn->sched->commit.sending = false;
}

void
sched_commit_release(struct sched_conn *conn)
{
    if (!conn->answers && !conn->opening && !conn->reads)
        gp_msg_conn_hold(&conn->msg, false);
}

/* Send what need not wait any more. */
static void
send_ready(struct sched_conn *conn)
{
    struct sched_answer *answer;

    while ((answer = conn->answers) && is_ready(answer)) {
        conn->answers = answer->conn_next;
        if (!conn->answers)
            conn->answers_end = &conn->answers;
        answer_send(answer);
        answer_free(answer);
    }
    sched_commit_release(conn);
}

/* It is ready: its connection has it, or it has nobody. */
static void
became_ready(struct sched_answer *answer)
{
    if (answer->conn)
        send_ready(answer->conn);
    else
        answer_free(answer);
}

static void
sign(struct sched_signer_job *job)
{
    struct sched_answer *answer = container_of(job, struct sched_answer, job);

    answer->result =
        answer->draft->pack(answer->draft, &answer->bytes, &answer->size, &answer->err);
}

static void
on_signed(struct sched_signer_job *job)
{
    struct sched_answer *answer = container_of(job, struct sched_answer, job);
    int r = answer->result;

    answer->with_signer = false;
    if (r < 0) {
        gp_log_error("session", "%s: no ticket: %s", answer->draft->name,
                     gp_err_msg(&answer->err, r));
        gp_err_set(&answer->err, r,
                   "the scheduler cannot sign a ticket, its log says why");
    }
    became_ready(answer);
}

/* Tickets are signed after the commit: none exists of a session that does not. */
static void
answer_on_disk(struct sched_answer *answer, struct sched_signer *signer)
{
    answer->on_disk = true;
    if (!answer->draft || !answer->conn || answer->result < 0) {
        became_ready(answer);
        return;
    }
    answer->with_signer = true;
    answer->job = (struct sched_signer_job){.run = sign, .done = on_signed};
    sched_signer_add(signer, &answer->job);
}

static void
await_disk(struct sched *sched, struct sched_answer *answer)
{
    /* Serials of the queue never go down. */
    answer->serial = gp_max(sched->commit.after, sched->commit.queued);
    sched->commit.queued = answer->serial;
    *sched->commit.answers_end = answer;
    sched->commit.answers_end = &answer->next;
}

/* Behind the other answers of its connection. */
static void
enqueue(struct sched_conn *conn, struct sched_answer *answer)
{
    struct sched *sched = conn->sched;

    answer->conn = conn;
    answer->in_effect = sched->commit.in_effect;
    if (!conn->answers) {
        conn->answers_end = &conn->answers;
        if (!conn->opening)
            gp_msg_conn_hold(&conn->msg, true);
    }
    *conn->answers_end = answer;
    conn->answers_end = &answer->conn_next;
    if (sched->commit.after > sched_store_done(sched->store))
        await_disk(sched, answer);
    else
        answer_on_disk(answer, sched->signer);
}

int
sched_commit_send(struct sched_conn *conn, uint32_t request, const void *data,
                  size_t size)
{
    struct sched *sched = conn->sched;
    struct sched_answer *answer;

    if (sched->commit.sending ||
        (!conn->answers && sched->commit.after <= sched_store_done(sched->store)))
        return gp_msg_conn_send(&conn->msg, data, size);
    answer = calloc(1, sizeof(*answer));
    if (answer)
        answer->bytes = malloc(size ? size : 1);
    if (!answer || !answer->bytes) {
        free(answer);
        return -ENOMEM;
    }
    memcpy(answer->bytes, data, size);
    answer->size = size;
    answer->request = request;
    enqueue(conn, answer);
    return 0;
}

int
sched_commit_draft(struct sched_conn *conn, uint32_t request, struct sched_draft *draft)
{
    struct sched_answer *answer = calloc(1, sizeof(*answer));

    if (!answer) {
        sched_draft_free(draft);
        return -ENOMEM;
    }
    answer->draft = draft;
    answer->request = request;
    enqueue(conn, answer);
    return 0;
}

/* Transactions up to @serial have ended. */
static void
answers_written(struct sched *sched, uint64_t serial, int r, const struct gp_err *err)
{
    struct sched_answer *answer;

    while ((answer = sched->commit.answers) && answer->serial <= serial) {
        sched->commit.answers = answer->next;
        if (!answer->next)
            sched->commit.answers_end = &sched->commit.answers;
        answer->result = r;
        if (r < 0)
            answer->err = *err;
        answer_on_disk(answer, sched->signer);
    }
}

/* Those of @conn that others hold are freed when they become ready. */
static void
forget_answers(struct sched_conn *conn)
{
    struct sched_answer *next;

    for (struct sched_answer *answer = conn->answers; answer; answer = next) {
        next = answer->conn_next;
        answer->conn = NULL;
        if (is_ready(answer))
            answer_free(answer);
    }
    conn->answers = NULL;
}

/* ------------------------------------------------------------------- opens -- */

static void
await_commit(struct sched_conn *conn, struct sched_session *session)
{
    struct sched *sched = conn->sched;

    session->pending = true;
    session->pending_conn = conn;
    session->pending_next = NULL;
    session->open_serial = sched_store_serial(sched->store);
    *sched->commit.end = session;
    sched->commit.end = &session->pending_next;
    write_soon(sched);
}

void
sched_commit_open(struct sched_conn *conn, uint32_t id, struct sched_session *session,
                  bool hold)
{
    session->pending_hold = hold;
    session->pending_request = id;
    await_commit(conn, session);
    conn->opening = session;
    gp_msg_conn_hold(&conn->msg, true);
}

void
sched_commit_open_many(struct sched_conn *conn, struct sched_session *session)
{
    session->pending_many = true;
    await_commit(conn, session);
    conn->opening_many++;
}

static void
forget_many(struct sched_conn *conn)
{
    struct sched_session *session = conn->sched->commit.first;

    for (; conn->opening_many && session; session = session->pending_next)
        if (session->pending_many && session->pending_conn == conn) {
            session->pending_conn = NULL;
            conn->opening_many--;
        }
}

void
sched_commit_forget(struct sched_conn *conn)
{
    if (conn->opening)
        conn->opening->pending_conn = NULL;
    conn->opening = NULL;
    forget_many(conn);
    forget_answers(conn);
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
    if (session->pending_many)
        return;
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
    if (conn && !session->pending_many)
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
        if (conn && session->pending_many)
            conn->opening_many--;
        else if (conn)
            conn->opening = NULL;
        sched_commit_turn(sched);
        if (r < 0)
            undone(sched, session, gp_err_msg(err, r));
        else
            opened(sched, session);
        if (conn) {
            sched_conn_touch(conn);
            sched_commit_release(conn);
        }
    }
}

/* ------------------------------------------------------------------ commit -- */

/* Each tick tries again, for as long as a disk is full. */
static void
log_result(struct sched *sched, int r, const struct gp_err *err)
{
    uint32_t skipped;

    if (r == 0 && sched->commit.failing)
        gp_log_info("sched", "changes are written again");
    else if (r < 0 && gp_log_limit_ok(&sched->commit.failures, &skipped))
        gp_log_error("sched", "changes were not written: %s (%u such lines left out)",
                     gp_err_msg(err, r), skipped);
    sched->commit.failing = r < 0;
}

static void
on_ended(void *arg, uint64_t serial, int r, const struct gp_err *err)
{
    struct sched *sched = arg;

    log_result(sched, r, err);
    sched_commit_turn(sched);
    end_opens(sched, serial, r, err);
    answers_written(sched, serial, r, err);
    if (!r) /* after a failure the tick tries again */
        write_soon(sched);
    if (r == -ESTALE)
        sched->commit.stale(sched, gp_err_msg(err, r));
}

int
sched_commit_start(struct sched *sched, struct gp_err *err)
{
    int r = sched_signer_new(sched->loop, &sched->signer, err);

    return r < 0 ? r
                 : sched_store_start(sched->store, sched->loop, on_ended, sched, err);
}

int
sched_commit(struct sched *sched, struct gp_err *err)
{
    int r;

    gp_loop_timer_del(&sched->commit.timer);
    r = sched_store_commit(sched->store, err);
    if (!sched_store_dirty(sched->store))
        write_rest(sched);
    if (sched->signer)
        sched_signer_wait(sched->signer);
    return r;
}
