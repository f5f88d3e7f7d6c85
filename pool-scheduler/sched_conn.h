/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What handlers do with a connection: answer, refuse, and the sessions that follow it.
 *
 * The connection's life and its requests are sched_serve.c's, above this.  Event loop
 * thread only.
 */
#ifndef SCHED_CONN_H
#define SCHED_CONN_H

#include "control.pb-c.h"
#include "sched_types.h"

struct sched_draft;
struct sched_reasons;
struct sched_said;

/* Send a reply, when what it speaks of is on disk.  A peer that cannot get it is
 * disconnected later, by its own event. */
void sched_conn_reply(struct sched_conn *conn, const Gpupool__Ctl__CtlReply *reply);
/* The same for one that is packed already. */
void sched_conn_send(struct sched_conn *conn, uint32_t request, const void *data,
                     size_t size);
/* Send an answer with tickets, when they are signed; @draft is not the caller's any
 * more. NULL: there was no memory for it. */
void sched_conn_draft(struct sched_conn *conn, uint32_t request,
                      struct sched_draft *draft);
/* Send bytes whose commit has ended; for sched_commit.c. */
void sched_conn_send_now(struct sched_conn *conn, const void *data, size_t size);
/* Send a refusal.  @reasons may be NULL. */
void sched_conn_refuse(struct sched_conn *conn, uint32_t request,
                       Gpupool__Ctl__CtlCode code, const char *words,
                       const struct sched_reasons *reasons);

/* Refuse what fits nowhere, with what other pools said (may be NULL).  @retry_ms not 0:
 * a server is expected, and the same may be asked again after that. */
void sched_conn_refuse_no_fit(struct sched_conn *conn, uint32_t request,
                              uint32_t retry_ms, const struct sched_reasons *reasons,
                              const struct sched_said *said);

/* A part of a request showed a wrong secret; the rest of it is answered. */
void sched_conn_denied(struct sched_conn *conn, const char *words);

/* Refuse what was asked too often and may be asked again after @retry_ms. */
void sched_conn_refuse_until(struct sched_conn *conn, uint32_t request,
                             uint32_t retry_ms, const char *words);

/* The scheduler's keys as messages list them. */
struct sched_keys {
    ProtobufCBinaryData list[2];
    size_t n;
};
struct sched_keys sched_conn_keys(const struct sched *sched);

/* Another scheduler of the pool answers this. */
void sched_conn_not_leader(struct sched_conn *conn, uint32_t request, const char *words,
                           const char *leader);

/* Something has been done for it: its silence counts from now. */
void sched_conn_touch(struct sched_conn *conn);

/* A held session follows the connection; it moves when another connection holds it. */
void sched_conn_hold(struct sched_conn *conn, struct sched_session *session);
void sched_conn_unhold(struct sched_session *session);
/* Who holds the session is gone: it gets a short time to be claimed by another. */
void sched_conn_lost(struct sched_session *session, uint64_t now);
/* The request is answered by sched_conn_closed(), after a commit. */
void sched_conn_await_close(struct sched_conn *conn, struct sched_session *session,
                            uint32_t request);
void sched_conn_closed(struct sched_session *session);

#endif
