/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer has shown itself to be: the tokens that it has proven or sent on its
 * connection, and what they give.  sched_auth.h decides and refuses with it.
 *
 * No state of its own.  Event loop thread only.
 */
#ifndef SCHED_PEER_H
#define SCHED_PEER_H

#include "gp_base.h"
#include "sched_tokens.h"
#include "sched_types.h"

/* By a token, by --allow-anonymous, or as the scheduler's own user. */
bool sched_peer_may(const struct sched_conn *conn, enum sched_right right);

/* The user whose token the peer has shown; NULL: none. */
const char *sched_peer_user(const struct sched_conn *conn);

/* The peer has shown or proven @token in a hello as @role. */
void sched_peer_shown(struct sched_conn *conn, enum sched_role role,
                      const struct sched_token *token);

/* May the peer, which may act as a server, do so under @name?  Names with tokens of
 * their own belong to who showed that token, and such a token opens no other name. */
bool sched_peer_server_name(const struct sched_conn *conn, const char *name);

/* In whose name does a peer open a session that says it is @claimed's?  A user's token
 * decides.  NULL: it claims the name of a user whose token it did not show. */
const char *sched_peer_owner(const struct sched_conn *conn, const char *claimed);

/* Another pool's scheduler, which opens sessions for owners of its own. */
bool sched_peer_forwards(const struct sched_conn *conn);
/* The same for a request that it hands on for its @claimed: "POOL/OWNER" in @text.
 * NULL: it may not do that, or the name is too long. */
const char *sched_peer_owner_of(const struct sched_conn *conn, const char *claimed,
                                char *text, size_t size);

/* An administrator, not one of the users: the scheduler's own user too. */
bool sched_peer_is_admin(const struct sched_conn *conn);

/* Who the peer has shown to be, for the audit log: a user, a server, or a role. */
const char *sched_peer_who(const struct sched_conn *conn);

/* From now on @tokens are the tokens of @conn's scheduler.  False: the peer has lost
 * what it had shown. */
bool sched_peer_rebind(struct sched_conn *conn, const struct sched_tokens *tokens);

#endif
