/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This scheduler among those that share a store: it leads, or it follows.
 *
 * The leader has the connections of the servers and grants sessions.  A follower keeps
 * a copy of the state, answers what only reads it, and names the leader to everybody
 * else.  With the embedded store a scheduler always leads.  A leader that lost its
 * leadership forgets everything and starts again as a follower (SCHED_START_AGAIN):
 * what it holds in memory may be ahead of the store.  Event loop thread only.
 */
#ifndef SCHED_REPLICA_H
#define SCHED_REPLICA_H

#include "control.pb-c.h"
#include "sched_types.h"

struct gp_err;

/* What sched_run() returns when the leadership is lost. */
#define SCHED_START_AGAIN 2

/* Open the store and load state and key.  A shared store is followed once
 * sched_replica_start() has joined those that use it. */
int sched_replica_open(struct sched *sched, struct gp_err *err);
int sched_replica_start(struct sched *sched, struct gp_err *err);
void sched_replica_fini(struct sched *sched);

/* Read the key that signs tickets again, and the one before it (*ret_old NULL: none).
 * *ret NULL: this scheduler's key comes from the shared store, which keeps its first.
 */
int sched_replica_read_key(const struct sched *sched, struct ticket_key **ret,
                           struct ticket_key **ret_old, struct gp_err *err);
/* Write the public halves beside the state, for servers and clients; @old may be NULL.
 */
int sched_replica_publish_key(const struct sched *sched, const struct ticket_key *key,
                              const struct ticket_key *old, struct gp_err *err);

bool sched_replica_leads(const struct sched *sched);
/* Shows a copy of what another scheduler decides; never with the embedded store. */
bool sched_replica_follows(const struct sched *sched);
/* Has this scheduler what @req asks for?  If not, @err says who has; *ret_leader is its
 * address, or "" when nobody leads. */
bool sched_replica_knows(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req,
                         const char **ret_leader, struct gp_err *err);
/* Is @req answered here?  False: it has been refused, with the leader's address. */
bool sched_replica_answers(struct sched_conn *conn,
                           const Gpupool__Ctl__CtlRequest *req);
/* For the followers: @server came or went. */
void sched_replica_server(struct sched *sched, const struct sched_server *server);

/* gpupool-scheduler migrate: from one store to another.  The program's exit status. */
int sched_migrate(int argc, char **argv);

#endif
