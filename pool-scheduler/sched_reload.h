/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading again, without a restart, what an administrator changes (SIGHUP): options,
 * rules, tokens, the ticket key, the audit log.
 *
 * All of it or nothing.  Sessions go on.  The key file may hold a second key, that of
 * before: it stays good until it is taken out of the file.  The first one is shown in
 * new handshakes at once; connections that were made with another one keep it. Servers,
 * and clients that hold sessions, hear of all keys over their connections.  A peer
 * whose token is gone loses what that gave, and its connection too unless a session
 * hangs on it.  Event loop thread only.
 */
#ifndef SCHED_RELOAD_H
#define SCHED_RELOAD_H

struct gp_err;
struct sched;

/* -errno, with everything as it was. */
int sched_reload(struct sched *sched, struct gp_err *err);

/* What the rules say of servers and cards; also at the start. */
void sched_reload_apply_rules(struct sched *sched);

/* The certificate is the ticket key's: it is what servers pin and proofs are made over.
 */
struct ticket_key;
struct tls_context;
int sched_reload_tls(const struct ticket_key *key, struct tls_context **ret,
                     struct gp_err *err);

#endif
