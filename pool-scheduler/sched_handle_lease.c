/* SPDX-License-Identifier: Apache-2.0 */
/* Grants, and requests of who has a session's lease key: renew, close. */
#include "gp_audit.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_conn.h"
#include "sched_draft.h"
#include "sched_ended.h"
#include "sched_ending.h"
#include "sched_grant.h"
#include "sched_handle.h"
#include "sched_peer.h"
#include "sched_rates.h"
#include "sched_renewed.h"
#include "sched_wait.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>

#define WORDS_MAX 128 /* of a refusal, for one session */

/* ------------------------------------------------------------------ grants -- */

static struct sched_grant *
grant_of(const struct sched *sched, uint32_t request,
         const struct sched_session *session)
{
    return sched_grant_new(sched, request, session,
                           session->bound ? session->client_key : NULL, true);
}

void
sched_reply_grant(struct sched_conn *conn, uint32_t id,
                  const struct sched_session *session)
{
    sched_conn_draft(conn, id, sched_grant_draft(grant_of(conn->sched, id, session)));
}

void
sched_reply_pod_grant(struct sched_conn *conn, uint32_t id,
                      const struct sched_session *session, const uint8_t *client_key)
{
    sched_conn_draft(conn, id,
                     sched_grant_draft(
                         sched_grant_new(conn->sched, id, session, client_key, false)));
}

/* ------------------------------------------------------------------------ renew -- */

/* The session that @id and @key name; closing ones are as good as gone.  NULL: there is
 * none, *code and @words (WORDS_MAX bytes) say why. */
static struct sched_session *
find_by_key(struct sched_conn *conn, uint64_t id, const ProtobufCBinaryData *key,
            Gpupool__Ctl__CtlCode *code, char *words)
{
    struct sched_session *session = sched_sessions_find(&conn->sched->sessions, id);

    if (!session || session->closing) {
        const char *why = sched_ended_find(conn->sched->ended, id, key->data, key->len);

        *code = GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND;
        snprintf(words, WORDS_MAX, "no session s%" PRIu32 ": %.*s", sched_id_number(id),
                 SCHED_ENDED_WORDS, why ? why : "it was closed or expired");
        return NULL;
    }
    if (key->len != CTL_LEASE_KEY_SIZE ||
        CRYPTO_memcmp(key->data, session->lease_key, CTL_LEASE_KEY_SIZE)) {
        *code = GPUPOOL__CTL__CTL_CODE__CTL_DENIED;
        snprintf(words, WORDS_MAX, "wrong lease key");
        return NULL;
    }
    conn->known = true;
    return session;
}

/* The same; who names none is refused. */
static struct sched_session *
session_by_key(struct sched_conn *conn, uint32_t request, uint64_t id,
               const ProtobufCBinaryData *key)
{
    Gpupool__Ctl__CtlCode code;
    char words[WORDS_MAX];
    struct sched_session *session = find_by_key(conn, id, key, &code, words);

    if (!session)
        sched_conn_refuse(conn, request, code, words, NULL);
    return session;
}

/* The one thing that a renewal is. */
static void
renew(struct sched_conn *conn, struct sched_session *session, bool hold)
{
    sched_session_lease(&conn->sched->sessions, session,
                        gp_now_ns() + session->lease_ms * GP_NS_PER_MS);
    if (hold)
        sched_conn_hold(conn, session);
}

void
sched_handle_renew(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlRenew *msg)
{
    struct sched_session *session =
        session_by_key(conn, id, msg->session_id, &msg->lease_key);

    if (!session)
        return;
    renew(conn, session, msg->hold);
    gp_log_debug("session", "%s: renewed for %u ms", session->name, session->lease_ms);
    sched_reply_grant(conn, id, session);
}

/* ----------------------------------------------------------------- many of them -- */

static bool
wants_tickets(const struct sched *sched, const struct sched_session *session,
              uint32_t tickets_unix)
{
    enum sched_due due = sched_grant_due(sched, session, tickets_unix);
    size_t most = sched->config.batch_tickets ? sched->config.batch_tickets
                                              : SCHED_BATCH_TICKETS_MAX;

    return due == SCHED_OVERDUE || (due == SCHED_DUE && sched->batch_tickets < most);
}

/* One of a batch.  -ENOMEM: its tickets would be lost. */
static int
renew_one(struct sched_conn *conn, const Gpupool__Ctl__CtlRenewMany *msg,
          const Gpupool__Ctl__CtlRenewOne *one, struct sched_renewed *renewed)
{
    Gpupool__Ctl__CtlCode code;
    char words[WORDS_MAX];
    struct sched_session *session =
        find_by_key(conn, one->session_id, &one->lease_key, &code, words);
    struct sched_grant *grant = NULL;

    if (!session) {
        if (code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED)
            sched_conn_denied(conn, words);
        sched_renewed_refuse(renewed, one->session_id, code, words);
        return 0;
    }
    renew(conn, session, msg->hold);
    /* What it says of its tickets is only its word. */
    if (!msg->no_tickets && wants_tickets(conn->sched, session, one->tickets_unix) &&
        sched_rates_ticket(conn)) {
        grant = grant_of(conn->sched, 0, session);
        if (!grant)
            return -ENOMEM;
    }
    sched_renewed_add(renewed, session->id, session->lease_ms, grant);
    return 0;
}

static void
reply_renewed(struct sched_conn *conn, uint32_t id, struct sched_renewed *renewed)
{
    CLEANUP(sched_renewed_freep) struct sched_renewed *owned = renewed;
    CLEANUP_FREE uint8_t *bytes = NULL;
    struct sched_draft *draft = sched_renewed_draft(renewed);
    size_t size;

    if (sched_renewed_signs(renewed)) {
        owned = NULL;
        sched_conn_draft(conn, id, draft);
    } else if (draft->pack(draft, &bytes, &size, NULL) < 0) {
        sched_conn_draft(conn, id, NULL);
    } else {
        sched_conn_send(conn, id, bytes, size);
    }
}

void
sched_handle_renew_many(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlRenewMany *msg)
{
    CLEANUP(sched_renewed_freep) struct sched_renewed *renewed = NULL;
    char words[WORDS_MAX];
    int r;

    if (!msg->n_sessions || msg->n_sessions > CTL_RENEW_MAX) {
        snprintf(words, sizeof(words), "%zu sessions to renew; 1 to %d may be named",
                 msg->n_sessions, CTL_RENEW_MAX);
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, words,
                          NULL);
        return;
    }
    renewed = sched_renewed_new(conn->sched, id, msg->n_sessions);
    r = renewed ? 0 : -ENOMEM;
    for (size_t i = 0; !r && i < msg->n_sessions; i++)
        r = renew_one(conn, msg, msg->sessions[i], renewed);
    if (r < 0) {
        sched_conn_draft(conn, id, NULL);
        return;
    }
    gp_log_debug("session", "%s: renewed %zu of %zu sessions", conn->peer,
                 sched_renewed_count(renewed), msg->n_sessions);
    if (!conn->known) /* not one of them was right */
        conn->refusals++;
    reply_renewed(conn, id, TAKE_PTR(renewed));
}

/* ------------------------------------------------------------------------ close -- */

/* The session that an administrator means by its number, or by its whole id. */
static struct sched_session *
session_by_order(struct sched_conn *conn, uint32_t request,
                 const Gpupool__Ctl__CtlClose *msg)
{
    const struct sched_sessions *set = &conn->sched->sessions;
    struct sched_session *session;
    char words[WORDS_MAX];

    /* Before anything is looked for: an unauthenticated peer learns no numbers. */
    if (!sched_auth_check(conn, request, SCHED_MAY_END, msg->token))
        return NULL;
    session = sched_sessions_find(set, msg->session_id);
    if (!session)
        session = sched_sessions_find_number(set, msg->session_id);
    if (session && !session->closing && !session->pending)
        return session;
    snprintf(words, sizeof(words), "no session s%" PRIu32 ": it was closed or expired",
             sched_id_number(msg->session_id));
    sched_conn_refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words,
                      NULL);
    return NULL;
}

/* Its client is gone: as if a connection that held it had broken. */
static void
lose(struct sched_conn *conn, uint32_t id, struct sched_session *session)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlClosed closed = GPUPOOL__CTL__CTL_CLOSED__INIT;

    if (session->holder == conn)
        sched_conn_lost(session, gp_now_ns());
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED;
    reply.closed = &closed;
    sched_conn_reply(conn, &reply);
}

void
sched_handle_close(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlClose *msg)
{
    struct sched *sched = conn->sched;
    bool own = msg->lease_key.len;
    struct sched_session *session =
        own ? session_by_key(conn, id, msg->session_id, &msg->lease_key)
            : session_by_order(conn, id, msg);

    if (!session)
        return;
    if (own && msg->lost) {
        lose(conn, id, session);
        return;
    }
    if (!own)
        gp_audit("order", "from", conn->peer, "by", sched_peer_who(conn), "order",
                 "close", "session", session->name, "who", session->owner->name, NULL);
    if (!own) /* who holds it would only hear later that it is not there any more */
        sched_wait_notify(session, "closed by an administrator", 1);
    sched_conn_await_close(conn, session, id);
    sched_session_end(sched, session,
                      own ? "closed by its owner" : "closed by an administrator");
}
