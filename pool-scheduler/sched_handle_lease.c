/* SPDX-License-Identifier: Apache-2.0 */
/* Grants, and requests of who has a session's lease key: renew, close. */
#include "gp_audit.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_conn.h"
#include "sched_ending.h"
#include "sched_grant.h"
#include "sched_handle.h"
#include "sched_peer.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>

/* ------------------------------------------------------------------ grants -- */

void
sched_reply_grant(struct sched_conn *conn, uint32_t id,
                  const struct sched_session *session)
{
    sched_conn_grant(conn, id,
                     sched_grant_new(conn->sched, id, session,
                                     session->bound ? session->client_key : NULL,
                                     true));
}

void
sched_reply_pod_grant(struct sched_conn *conn, uint32_t id,
                      const struct sched_session *session, const uint8_t *client_key)
{
    sched_conn_grant(conn, id,
                     sched_grant_new(conn->sched, id, session, client_key, false));
}

/* ------------------------------------------------------------ renew, close -- */

static void
refuse_unknown(struct sched_conn *conn, uint32_t request, uint64_t id)
{
    char words[80];

    snprintf(words, sizeof(words), "no session s%" PRIu32 ": it was closed or expired",
             sched_id_number(id));
    sched_conn_refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words,
                      NULL);
}

/* The session that @id and @key name; closing ones are as good as gone. */
static struct sched_session *
session_by_key(struct sched_conn *conn, uint32_t request, uint64_t id,
               const ProtobufCBinaryData *key)
{
    struct sched_session *session = sched_sessions_find(&conn->sched->sessions, id);

    if (session && !session->closing && key->len == CTL_LEASE_KEY_SIZE &&
        !CRYPTO_memcmp(key->data, session->lease_key, CTL_LEASE_KEY_SIZE)) {
        conn->known = true;
        return session;
    }
    if (session && !session->closing) {
        sched_conn_refuse(conn, request, GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
                          "wrong lease key", NULL);
        return NULL;
    }
    refuse_unknown(conn, request, id);
    return NULL;
}

void
sched_handle_renew(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlRenew *msg)
{
    struct sched *sched = conn->sched;
    struct sched_session *session;

    session = session_by_key(conn, id, msg->session_id, &msg->lease_key);
    if (!session)
        return;
    sched_session_lease(&sched->sessions, session,
                        gp_now_ns() + session->lease_ms * GP_NS_PER_MS);
    if (msg->hold)
        sched_conn_hold(conn, session);
    gp_log_debug("session", "%s: renewed for %u ms", session->name, session->lease_ms);
    sched_reply_grant(conn, id, session);
}

/* The session that an administrator means by its number, or by its whole id. */
static struct sched_session *
session_by_order(struct sched_conn *conn, uint32_t request,
                 const Gpupool__Ctl__CtlClose *msg)
{
    const struct sched_sessions *set = &conn->sched->sessions;
    struct sched_session *session;

    /* Before anything is looked for: an unauthenticated peer learns no numbers. */
    if (!sched_auth_check(conn, request, SCHED_MAY_END, msg->token))
        return NULL;
    session = sched_sessions_find(set, msg->session_id);
    if (!session)
        session = sched_sessions_find_number(set, msg->session_id);
    if (session && !session->closing && !session->pending)
        return session;
    refuse_unknown(conn, request, msg->session_id);
    return NULL;
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
    if (!own)
        gp_audit("order", "from", conn->peer, "by", sched_peer_who(conn), "order",
                 "close", "session", session->name, "who", session->owner->name, NULL);
    sched_conn_await_close(conn, session, id);
    sched_session_end(sched, session,
                      own ? "closed by its owner" : "closed by an administrator");
}
