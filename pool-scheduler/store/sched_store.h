/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What survives a restart of the scheduler: servers, their cards, sessions.
 *
 * Changes collect in one transaction until it is written (group commit); each
 * transaction has a serial, and who waits for a change waits until the serial that was
 * sched_store_serial() then has been written.  Behind it stands a store (store.h).
 * Owned by struct sched, event loop thread only.
 *
 * Leases are not written at each renewal: after a restart every session gets a full
 * term, since its client could not renew meanwhile.
 */
#ifndef SCHED_STORE_H
#define SCHED_STORE_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct gp_loop;
struct sched_account;
struct sched_pool;
struct sched_server;
struct sched_session;
struct sched_sessions;
struct sched_store;
struct store;

/* @backend is the store's, even on failure. */
int sched_store_new(struct store *backend, struct sched_store **ret_store);
/* The embedded store in the file @path. */
int sched_store_open(const char *path, struct sched_store **ret_store,
                     struct gp_err *err);
void sched_store_close(struct sched_store *store); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_store, sched_store_close)

/* Fill an empty pool and an empty set.  Servers come back as not connected. */
int sched_store_load(struct sched_store *store, struct sched_pool *pool,
                     struct sched_sessions *sessions, uint64_t now_ns,
                     struct gp_err *err);
/* Of a shared store: one key has changed; @value NULL: it is gone. */
int sched_store_follow(struct sched_store *store, struct sched_pool *pool,
                       struct sched_sessions *sessions, uint64_t now_ns,
                       const char *key, const uint8_t *value, size_t size,
                       struct gp_err *err);
/* A new epoch, which is written before or with the first session that has it. */
int sched_store_start_epoch(struct sched_store *store, struct sched_sessions *sessions,
                            struct gp_err *err);

/* ----------------------------------------------------------------- changes -- */

/* The server and the cards it has now, replacing what was known. */
int sched_store_put_server(struct sched_store *store, const struct sched_server *server,
                           struct gp_err *err);
/* The server and its cards are forgotten. */
int sched_store_del_server(struct sched_store *store, const char *name,
                           struct gp_err *err);
int sched_store_put_session(struct sched_store *store,
                            const struct sched_session *session, struct gp_err *err);
int sched_store_del_session(struct sched_store *store, uint64_t id, struct gp_err *err);
int sched_store_put_account(struct sched_store *store, const struct sched_account *row,
                            struct gp_err *err);
int sched_store_del_account(struct sched_store *store, const struct sched_account *row,
                            struct gp_err *err);
/* The sessions that are put between the two are written together or not at all: a crash
 * never leaves some of them. */
void sched_store_group_begin(struct sched_store *store);
void sched_store_group_end(struct sched_store *store);
/* A put whose transaction failed, or was not begun, is not wanted any more. */
void sched_store_undo_session(struct sched_store *store, uint64_t id);

/* ------------------------------------------------------------------ writing -- */

/* Serials of transactions grow by one.  When a write fails, what it should have changed
 * joins the next transaction. */
uint64_t sched_store_serial(const struct sched_store *store); /* collects changes now */
uint64_t sched_store_done(const struct sched_store *store);   /* ended last */
bool sched_store_dirty(const struct sched_store *store);      /* has changes */

/* Write on a thread from now on; @ended is called on @loop for every transaction. */
int sched_store_start(struct sched_store *store, struct gp_loop *loop,
                      void (*ended)(void *arg, uint64_t serial, int r,
                                    const struct gp_err *err),
                      void *arg, struct gp_err *err);
/* Begin to write what has collected, unless a write runs. */
void sched_store_write(struct sched_store *store);
/* Write everything and wait for it; ended() is called as ever. */
int sched_store_commit(struct sched_store *store, struct gp_err *err);

#endif
