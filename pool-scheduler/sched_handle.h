/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each request does.  Called by sched_serve.c with a decoded message whose
 * strings and lists are still as the peer sent them.
 *
 * Every handler answers the request exactly once, now or later.  A handler may end
 * sessions, but never frees the connection it was called for.
 */
#ifndef SCHED_HANDLE_H
#define SCHED_HANDLE_H

#include "control.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct sched;
struct sched_conn;
struct sched_kube;
struct sched_open;
struct sched_said;
struct sched_session;

/* sched_handle_proof.c */
void sched_handle_hello(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlHello *msg);
void sched_handle_prove(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlProve *msg);

/* sched_handle_server.c */
/* May this peer, which shows @token, register a server?  If not, it has been told. */
bool sched_handle_register_allowed(struct sched_conn *conn, uint32_t id,
                                   const char *token);
void sched_handle_register(struct sched_conn *conn, uint32_t id,
                           const Gpupool__Ctl__CtlRegister *msg);
void sched_handle_report(struct sched_conn *conn, uint32_t id,
                         const Gpupool__Ctl__CtlReport *msg);
/* Tell all servers which keys of the scheduler are good. */
void sched_handle_tell_keys(struct sched *sched);
void sched_handle_leave(struct sched_conn *conn, uint32_t id);

/* sched_handle_session.c */
void sched_handle_open(struct sched_conn *conn, uint32_t id,
                       const Gpupool__Ctl__CtlOpen *msg);
/* The same request after other pools were asked, which @said so. */
void sched_handle_open_again(struct sched_conn *conn, uint32_t id,
                             const Gpupool__Ctl__CtlOpen *msg,
                             const struct sched_said *said);
/* The request @id is for @session, which its owner has already: its lease begins anew
 * and the grant is the answer. */
void sched_handle_open_found(struct sched_conn *conn, uint32_t id,
                             struct sched_session *session);
/* Everything that is refused before a card is looked for.  -errno with *ret_code and
 * words; else *ret_open, whose strings are those of @msg. */
int sched_handle_open_check(struct sched_conn *conn, const Gpupool__Ctl__CtlOpen *msg,
                            struct sched_open *ret_open,
                            Gpupool__Ctl__CtlCode *ret_code, struct gp_err *err);
/* The session that the request @id opened is on disk: answer with the grant. */
void sched_handle_opened(struct sched_conn *conn, uint32_t id,
                         const struct sched_session *session);

/* sched_handle_many.c */
void sched_handle_open_many(struct sched_conn *conn, uint32_t id,
                            const Gpupool__Ctl__CtlOpenMany *msg);

/* sched_handle_lease.c */
void sched_handle_renew(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlRenew *msg);
void sched_handle_renew_many(struct sched_conn *conn, uint32_t id,
                             const Gpupool__Ctl__CtlRenewMany *msg);
void sched_handle_close(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlClose *msg);

/* sched_handle_admin.c */
void sched_handle_status(struct sched_conn *conn, uint32_t id,
                         const Gpupool__Ctl__CtlStatus *msg);
void sched_handle_cordon(struct sched_conn *conn, uint32_t id,
                         const Gpupool__Ctl__CtlCordon *msg);
void sched_handle_drain(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlDrain *msg);
void sched_handle_forget(struct sched_conn *conn, uint32_t id,
                         const Gpupool__Ctl__CtlForget *msg);
void sched_handle_wait(struct sched_conn *conn, uint32_t id,
                       const Gpupool__Ctl__CtlWaitServers *msg);
/* A server has come: answer those who waited for it. */
void sched_handle_wait_check(struct sched *sched);

/* sched_watch_pool.c */
void sched_handle_watch_pool(struct sched_conn *conn, uint32_t id,
                             const Gpupool__Ctl__CtlWatchPool *msg);
/* Answer those who watch, when the pool has changed.  Every tick. */
void sched_watch_pool_check(struct sched *sched);
void sched_watch_pool_end(struct sched_conn *conn); /* not watching: a no-op */

/* sched_pod.c */
void sched_handle_pod_session(struct sched_conn *conn, uint32_t id,
                              const Gpupool__Ctl__CtlPodSession *msg);
int sched_kube_start(struct sched *sched, struct gp_err *err);
void sched_kube_stop(struct sched_kube *kube); /* NULL is a no-op */
void sched_pod_end(struct sched_conn *conn);   /* nothing under way: a no-op */

/* sched_handle_lease.c */
/* A grant of @session with its lease key, which lets the peer renew and close it. */
void sched_reply_grant(struct sched_conn *conn, uint32_t id,
                       const struct sched_session *session);
/* A grant without the lease key, with tickets for who has the secret of @client_key;
 * NULL: a peer that has none. */
void sched_reply_pod_grant(struct sched_conn *conn, uint32_t id,
                           const struct sched_session *session,
                           const uint8_t *client_key);

#endif
