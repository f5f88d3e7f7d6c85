/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session on this server: its slices, its ledger, and which worker has which slot.
 *
 * Made when the first attachment presents a valid ticket; kept, without workers too,
 * until the scheduler ends it or its ticket has expired, because its use must stay
 * visible.  A running worker is never ended for an expired ticket: leases are the
 * scheduler's, and its restart must not disturb programs.  Owned by srv->sessions,
 * event-loop thread only.
 */
#ifndef SRV_SESSION_H
#define SRV_SESSION_H

#include "gp_base.h"
#include "srv_types.h"
#include "ticket.h"
#include "wrk_segment.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct srv;
struct srv_keep_fds;

struct gov_share;
/* The share of a card that the claims give to slice @i. */
struct gov_share srv_session_share(const struct ticket_claims *claims, uint32_t i);

/* The session of these claims, made if it is not known yet.
 *
 * -EKEYREVOKED: the scheduler has closed it.  -EDQUOT: the server's cap.
 * -ENODEV: a card of it is not here. */
int srv_session_get(struct srv *srv, const struct ticket_claims *claims,
                    struct srv_session **ret, struct gp_err *err);

/* Session @id of a supervisor that is gone, from its @fds at the keeper; those that it
 * does not take stay the caller's. */
int srv_session_adopt(struct srv *srv, uint64_t id, struct srv_keep_fds *fds,
                      struct gp_err *err);
/* Its workers have been adopted. */
void srv_session_mend(struct srv_session *s);

/* NULL: there is none with this id. */
struct srv_session *srv_session_find(struct srv *srv, uint64_t id);

/* Take a slot for a new worker.  -EDQUOT: the session has all it may have. */
int srv_session_take_slot(struct srv_session *s, uint32_t *ret_slot,
                          struct gp_err *err);
/* The worker is gone: what it used is free again, its GPU time is remembered. */
void srv_session_free_slot(struct srv_session *s, uint32_t slot);

/* The scheduler has ended session @id, known here or not: refuse its tickets from now
 * on.  The session, whose workers the caller ends (srv_worker_close_session()), or NULL
 * if it is not known here. */
struct srv_session *srv_session_close(struct srv *srv, uint64_t id, const char *why);

/* A closed session without workers is only a number to remember: free the rest. */
void srv_session_commit(struct srv_session *s);

/* From now on, forget sessions without workers whose ticket has run out: on a timer of
 * its own, because a server without its scheduler would only collect them. */
void srv_session_start_expiry(struct srv *srv);

void srv_session_free(struct srv_session *s); /* takes it out of srv->sessions */

uint64_t srv_session_used(const struct srv_session *s, uint32_t slice);
/* So many attachments go over @transport (enum wrk_transport) with @gdr_mode (enum
 * wrk_gdr_mode). */
unsigned srv_session_links_of(const struct srv_session *s, uint32_t transport,
                              uint32_t gdr_mode);
/* What its attachments go over: "2 rdma (mapped), 1 tcp". */
#define SRV_LINKS_MAX 128
void srv_session_links(const struct srv_session *s, char text[SRV_LINKS_MAX]);

/* The most bytes that were in use of a slice; what all its workers, those that have
 * ended too, have spent there (in the unit of @kind). */
uint64_t srv_session_high(const struct srv_session *s, uint32_t slice);
uint64_t srv_session_spent(const struct srv_session *s, enum wrk_spent kind,
                           uint32_t slice);

#endif
