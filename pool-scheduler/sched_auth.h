/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what at the scheduler.
 *
 * There are three roles.  A peer has a role when it shows the role's token, when the
 * role is open to everybody by an explicit choice (--allow-anonymous), or when the
 * kernel says that it is the scheduler's own user or root, which it does for peers of
 * the Unix socket.  An administrator is a client as well.  An address proves nothing:
 * every user of a host, and every tunnel and proxy on it, arrives from 127.0.0.1.
 *
 * Event loop thread only.
 */
#ifndef SCHED_AUTH_H
#define SCHED_AUTH_H

#include "gp_base.h"
#include "sched_types.h"

struct gp_err;
/* "server", "client", "admin". */
const char *sched_role_name(enum sched_role role);

/* May this peer, which shows @token, act as @role?  A peer that may is known from then
 * on. */
bool sched_auth_allowed(struct sched_conn *conn, enum sched_role role,
                        const char *token);

/* The same, and the request @id is refused with words that name the remedy. */
bool sched_auth_check(struct sched_conn *conn, uint32_t id, enum sched_role role,
                      const char *token);

/* Why a peer is not let in as @role, and what helps; for @text of GP_ERR_MAX or so. */
void sched_auth_words(const struct sched_conn *conn, enum sched_role role, char *text,
                      size_t size);

/* The token, of those that give @role, for which @is_it holds; NULL: none.  @server is
 * the name of a server, or NULL.  *ret_own: it is that server's own. */
const char *sched_auth_find(const struct sched_config *config, enum sched_role role,
                            const char *server,
                            bool (*is_it)(const char *token, void *arg), void *arg,
                            const struct sched_server_token **ret_own);

/* May the peer, which may act as a server, do so under @name?  Names with tokens of
 * their own belong to who showed that token, and such a token opens no other name. */
bool sched_auth_server_name(const struct sched_conn *conn, const char *name);

/* Read the lines NAME:TOKEN of @path, comments (#) and empty lines left out. */
int sched_auth_load_server_tokens(struct sched_config *config, const char *path,
                                  struct gp_err *err);
void sched_auth_free_server_tokens(struct sched_config *config);

/* What the kernel says of a new peer: its name for the log, and whether it is trusted
 * as the scheduler's own user or root. */
bool sched_auth_peer(int fd, char *name, size_t size);

#endif
