/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer may do what it asks for, and the words for who may not.
 *
 * There are three roles, which stand for rights (sched_tokens.h).  A peer has a right
 * when it shows a token that gives it, when the role is open to everybody by an
 * explicit choice (--allow-anonymous), or when the kernel says that it is the
 * scheduler's own user or root, which it does for peers of the Unix socket.  An address
 * proves nothing: every user of a host, and every tunnel and proxy on it, arrives from
 * 127.0.0.1.
 *
 * Event loop thread only.
 */
#ifndef SCHED_AUTH_H
#define SCHED_AUTH_H

#include "gp_base.h"
#include "sched_tokens.h"
#include "sched_types.h"

/* May this peer, which shows @token, use @right?  A peer that may is known from then
 * on, and need not show the token again on its connection. */
bool sched_auth_allowed(struct sched_conn *conn, enum sched_right right,
                        const char *token);

/* The same, and the request @id is refused with words that name the remedy. */
bool sched_auth_check(struct sched_conn *conn, uint32_t id, enum sched_right right,
                      const char *token);

/* Why a peer is not let in as @role, and what helps; @text of
 * 256 bytes has room for most of it. */
void sched_auth_words(const struct sched_conn *conn, enum sched_role role, char *text,
                      size_t size);

/* The same for a right that a peer, whom its token may have let in, does not have. */
void sched_auth_right_words(const struct sched_conn *conn, enum sched_right right,
                            char *text, size_t size);

/* What the kernel says of a new peer: its name for the log, and whether it is trusted
 * as the scheduler's own user or root. */
bool sched_auth_peer(int fd, char *name, size_t size);

#endif
