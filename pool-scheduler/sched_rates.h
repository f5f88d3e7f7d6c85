/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often peers may ask: per address (per user on the Unix socket) and per owner.
 *
 * The limits are part of struct sched; a registered server, a proven administrator, the
 * scheduler's own user and root have none.  Not the caps on what exists at a time, such
 * as --owner-sessions.  Event loop thread only.
 */
#ifndef SCHED_RATES_H
#define SCHED_RATES_H

#include "control.pb-c.h"
#include "sched_types.h"

/* A login host of a hundred users whose programs look at the status each second, and a
 * hundred that start. */
#define SCHED_RATE_REQUESTS 500
/* A commit to the disk each; a job array of 500 is within the burst. */
#define SCHED_RATE_OPENS 50
/* Wrong tokens, proofs and lease keys: a daemon with an old token tries once a second.
 */
#define SCHED_RATE_DENIALS 20
/* Owners come from several hosts, and an owner is what a client says: one address that
 * writes another's name cannot use up what the other may do. */
#define SCHED_RATE_OWNER_HOSTS 4

int sched_rates_init(struct sched_rates *rates, const struct sched_config *config);
void sched_rates_fini(struct sched_rates *rates);

/* A request of @len bytes has come.  False: it has been refused, unread. */
bool sched_rates_request(struct sched_conn *conn, const void *data, size_t len);

/* It wants tickets for one more session of a batch, for which a request alone would
 * count as one.  False: not now; its lease is renewed all the same. */
bool sched_rates_ticket(struct sched_conn *conn);

/* It asks for a session; @msg NULL: for a pod's.  False: it has been refused. */
bool sched_rates_open(struct sched_conn *conn, uint32_t id,
                      const Gpupool__Ctl__CtlOpen *msg);

#endif
