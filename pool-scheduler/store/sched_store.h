/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What survives a restart of the scheduler: servers, their cards, sessions.
 *
 * The interface is narrow on purpose (put, remove, load), so that another store can
 * stand behind it; this one is SQLite in one file.  Owned by struct sched, event loop
 * thread only, calls block for the time of a small local write.
 *
 * Write-ahead log with synchronous=NORMAL: a killed scheduler loses nothing; a host
 * that loses power may forget the last moment, and then the servers are told to end
 * sessions that nobody knows.  FULL would put a disk flush into every open.
 *
 * Leases are not written at each renewal: after a restart every session gets a full
 * term, since its client could not renew meanwhile.
 */
#ifndef SCHED_STORE_H
#define SCHED_STORE_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct sched_pool;
struct sched_server;
struct sched_session;
struct sched_sessions;
struct sched_store;

/* -EBUSY: another scheduler has it open. -EPROTO: written by a newer version. */
int sched_store_open(const char *path, struct sched_store **ret_store,
                     struct gp_err *err);
void sched_store_close(struct sched_store *store); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_store, sched_store_close)

/* Fill an empty pool and an empty set.  Servers come back as not connected. */
int sched_store_load(struct sched_store *store, struct sched_pool *pool,
                     struct sched_sessions *sessions, uint64_t now_ns,
                     struct gp_err *err);

/*
 * Changes collect in one transaction until sched_store_commit(), so that many of them
 * share one write to the disk (group commit).  Nobody is answered before it: after a
 * power cut, only what was committed is known.  A change that fails leaves those before
 * it alone; when the commit fails, all of them are undone on disk, and the caller
 * undoes them in memory.
 */
int sched_store_commit(struct sched_store *store, struct gp_err *err);

/* The server and the cards it has now, replacing what was known. */
int sched_store_put_server(struct sched_store *store, const struct sched_server *server,
                           struct gp_err *err);
/* The server and its cards are forgotten. */
int sched_store_del_server(struct sched_store *store, const char *name,
                           struct gp_err *err);
int sched_store_put_session(struct sched_store *store,
                            const struct sched_session *session, struct gp_err *err);
int sched_store_del_session(struct sched_store *store, uint64_t id, struct gp_err *err);

#endif
