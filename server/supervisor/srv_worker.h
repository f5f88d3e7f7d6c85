/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker process and the client behind it.
 *
 * The supervisor keeps a second descriptor of the client's socket and only
 * watches it for the hang-up: a worker that does not end by itself shortly after
 * its client is gone (it may sit in a driver call) is killed.  Owned by
 * srv->workers from a successful start until the process has been reaped;
 * event-loop thread only.
 */
#ifndef SRV_WORKER_H
#define SRV_WORKER_H

#include "gp_base.h"
#include "srv_types.h"
#include "wire_image.h"
#include "wrk_conf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv;
struct srv_desk;
struct srv_keep_fds;
struct srv_keep_msg;
struct srv_session;
struct srv_worker_client;
struct tls_keys;

/* Start a worker of @session on the client's socket @fd, which it owns on
 * success.  -EDQUOT: a cap, the words say which. */
int srv_worker_start(struct srv *srv, struct srv_session *session,
                     const struct srv_worker_client *client, int fd,
                     struct gp_err *err);

/* @fd comes from server number @link of a session: hand it to the worker that expects
 * it with that @cookie.  -ENOENT: there is none, or it has that one already. */
int srv_worker_peer(struct srv *srv, const uint8_t cookie[WIRE_PEER_COOKIE],
                    uint32_t link, int fd, const struct tls_keys *tls);

/* Hand @fd, connection @index of that @round of the attachment that expects it with
 * that cookie, to its worker; it stays the caller's too.  -ENOENT: no such attachment,
 * or it has that one already, or one of a later round.  -EAGAIN: the worker has taken
 * none for long. */
int srv_worker_stripe(struct srv *srv, const uint8_t cookie[WIRE_STRIPE_COOKIE],
                      uint32_t round, uint32_t index, int fd,
                      const struct tls_keys *tls);

/* Whose link, or connection for acknowledgements, comes with the resume_token of @req,
 * through TLS if @secure; NULL: srv_resume.h.  The connection @fd, which stays the
 * caller's, is its then. */
struct Gpupool__AttachRequest;
struct srv_worker *srv_worker_resumes(struct srv *srv,
                                      const struct Gpupool__AttachRequest *req,
                                      bool secure);
int srv_worker_relink(struct srv_worker *w, const struct Gpupool__AttachRequest *req,
                      int fd, const struct tls_keys *tls);

/* End the workers of sessions that have made more files than a session may; to be
 * called every second or so. */
void srv_worker_end_overfull(struct srv *srv);

/* A worker of a supervisor that is gone, from its @item and @fds at the keeper; those
 * that it does not take stay the caller's.  On failure it is killed. */
int srv_worker_adopt(struct srv *srv, const struct srv_keep_msg *item,
                     struct srv_keep_fds *fds, struct gp_err *err);
/* All have been adopted: what belonged to others is given back. */
void srv_worker_adopted(struct srv *srv);

/* The scheduler has ended session @id, known here or not: end its workers, and refuse
 * its tickets from now on.  @why, for the programs, may be empty; the first one stays.
 */
void srv_worker_close_session(struct srv *srv, uint64_t id, const char *why);
void srv_worker_end_all(struct srv *srv, const char *why);

/* Kill those that held a card against its arbiter's word. */
void srv_worker_overdue(struct srv *srv);

/* At the end of the program, when their processes have been killed. */
void srv_worker_free_all(struct srv *srv);

/* SIGCHLD: true when @pid was a worker, which is then gone. */
bool srv_worker_reaped(struct srv *srv, pid_t pid, int status);

#endif
