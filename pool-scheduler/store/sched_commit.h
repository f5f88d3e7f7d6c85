/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group commit: sessions that were opened in one turn of the event loop reach the disk
 * together, and only then are their clients answered.
 *
 * An open is taken in memory and written into the store's transaction at once, so that
 * the next decision sees it; its connection is held (no further request of it is read)
 * until the commit at the end of the turn.  What a commit loses, it gives back in
 * memory and refuses.  Handlers that answer at once commit first (sched_commit()).
 * Event loop thread only.
 */
#ifndef SCHED_COMMIT_H
#define SCHED_COMMIT_H

#include "gp_base.h"

struct gp_err;
struct sched;
struct sched_conn;
struct sched_session;

/* @session, just opened by the request @id of @conn, is answered after the commit. */
void sched_commit_open(struct sched_conn *conn, uint32_t id,
                       struct sched_session *session, bool hold);
/* The store has changed without anybody to answer: it is written this turn. */
void sched_commit_soon(struct sched *sched);
/* Write everything now and answer those who wait for it. */
int sched_commit(struct sched *sched, struct gp_err *err);
/* @conn goes: its open ends when it is on disk. */
void sched_commit_forget(struct sched_conn *conn);

#endif
