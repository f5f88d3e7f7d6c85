/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group commit: nothing is answered before what it speaks of is on disk.
 *
 * A handler changes memory and the store's transaction at once, so that the next
 * decision sees it.  At the end of the event loop's turn the transaction goes to the
 * writer's thread, and what collects meanwhile is the next one.  Answers wait:
 *
 *   an open      for its transaction.  When that is not written, the session is given
 *                back in memory and the open is refused.
 *   other        a reply that a changing request makes, and everything that its
 *   replies      connection is sent after it, waits in the same way.  When the
 *                transaction is not written, the reply becomes an error that says so;
 *                the change stays in memory and joins the next transaction.  The error
 *                of an order (sched_commit_in_effect()) says that as well: whoever
 *                drains a server must not conclude that it takes sessions.
 *   a grant      for its transaction, if it has one, and then for a signing thread
 *                (sched_signer.h), which makes its tickets while others are decided
 *                and written.
 *
 * Answers of one connection are sent in the order in which they were given.  A
 * connection with a waiting answer is held: no further request of it is read, which
 * bounds what waits.  Event loop thread only.
 */
#ifndef SCHED_COMMIT_H
#define SCHED_COMMIT_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct sched;
struct sched_conn;
struct sched_draft;
struct sched_session;

/* Start the writer's thread and those that sign. */
int sched_commit_start(struct sched *sched, struct gp_err *err);

/* @session, just opened by the request @id of @conn, is answered after the commit. */
void sched_commit_open(struct sched_conn *conn, uint32_t id,
                       struct sched_session *session, bool hold);
/* One of those that one request of @conn opens.  That is answered by a reply of its own
 * (sched_commit_soon()), and the session stays when @conn is gone before. */
void sched_commit_open_many(struct sched_conn *conn, struct sched_session *session);
/* The store has changed: what is sent until the next sched_commit_turn() waits for it,
 * and it is written this turn. */
void sched_commit_soon(struct sched *sched);
/* What is sent until the next sched_commit_turn() waits for transaction @serial; if
 * that has failed, for a later one, which its changes have joined. */
void sched_commit_after(struct sched *sched, uint64_t serial);
/* The same for all changes so far: a reply that shows the pool. */
void sched_commit_everything(struct sched *sched);
/* What is sent until the next sched_commit_turn() tells of an order that is in effect,
 * also when it is not written. */
void sched_commit_in_effect(struct sched *sched);
/* Tell who asked for the end of @session that it has ended, when that is on disk.  What
 * else is sent meanwhile, the answer to the report of a server say, does not wait. */
void sched_commit_closed(struct sched *sched, struct sched_session *session);
/* The next request, or another event, begins. */
void sched_commit_turn(struct sched *sched);

/* Send @data, or keep it until it may be sent.  -ENOMEM; as gp_msg_conn_send(). */
int sched_commit_send(struct sched_conn *conn, uint32_t request, const void *data,
                      size_t size);

/* The same for a @draft, which becomes this module's, also on failure.  -ENOMEM. */
int sched_commit_draft(struct sched_conn *conn, uint32_t request,
                       struct sched_draft *draft);

/* Nothing keeps @conn from being read any more, unless an answer of it waits, or an
 * open or a read of it (sched_reads.h). */
void sched_commit_release(struct sched_conn *conn);

/* Write everything now, wait for it, and answer those who wait. */
int sched_commit(struct sched *sched, struct gp_err *err);
/* @conn goes: its open ends when it is on disk, and its answers are dropped. */
void sched_commit_forget(struct sched_conn *conn);

#endif
