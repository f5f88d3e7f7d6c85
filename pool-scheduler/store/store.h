/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the scheduler's state is kept: keys with values, written in transactions.
 *
 * A store is a table of functions with one object behind it: SQLite (store_sqlite.h),
 * which one scheduler uses alone, or etcd (store_etcd.h), which several share.  It sees
 * bytes; what they mean is store_records.h's, and what is written together is
 * sched_store.h's.
 *
 * Threads: load() and close() on the event loop's, while no write runs; write() on the
 * writer's thread, one call at a time.  A shared store has threads of its own and
 * reports through store_events, from which the event loop takes.
 */
#ifndef STORE_H
#define STORE_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct store;
struct store_events;

/* "session/" and 16 digits, "server/" and a name, with the NUL. */
#define STORE_KEY_MAX 96
/* A server with 64 cards is under 16 KiB. */
#define STORE_VALUE_MAX (64u * 1024)

#define STORE_SERVER "server/"
#define STORE_SESSION "session/"
#define STORE_ACCOUNT "account/"
#define STORE_NUMBER "number"

/* One change of a transaction: a put, or a delete when @value is NULL.  Neighbours of
 * one @group, other than 0, are written together or not at all, also by a store whose
 * transactions are bounded. */
struct store_op {
    const char *key;
    const uint8_t *value;
    size_t size;
    uint64_t group;
};

/* A key and its value, as loaded; returns 0, or -errno which ends the load. */
typedef int (*store_row)(void *arg, const char *key, const uint8_t *value, size_t size,
                         struct gp_err *err);

struct store_ops {
    const char *name;
    /* Every key with its value, in the order of the keys. */
    int (*load)(struct store *store, store_row row, void *arg, struct gp_err *err);
    /* All of @ops, in their order; each key is there once.  0: they are on disk and
     * survive a power cut.  -ESTALE: this scheduler does not lead any more, and never
     * writes again.  Any other error: the first *ret_written of them were written, the
     * others were not. */
    int (*write)(struct store *store, const struct store_op *ops, size_t n,
                 size_t *ret_written, struct gp_err *err);
    /* @err says what is wrong with a record: make it say where the state is and how to
     * go on without that record, too.  -EBADMSG. */
    int (*damaged)(const struct store *store, struct gp_err *err);
    void (*close)(struct store *store);
    /* Of a shared store; NULL for one that a single scheduler uses. */
    const struct store_shared_ops *shared;
};

struct store_shared_ops {
    /* Report changes that come after the load, and try to become the leader under the
     * address that clients and servers reach this scheduler at. */
    int (*join)(struct store *store, const char *address, struct store_events *events,
                struct gp_err *err);
    /* Does this scheduler lead now?  False as soon as another might. */
    bool (*leads)(const struct store *store);
    /* Give the leadership up, so that another need not wait for it to expire. */
    void (*resign)(struct store *store);
    /* The value of @key; @value is put there when there is none.  malloc'ed. */
    int (*put_once)(struct store *store, const char *key, const char *value,
                    char **ret_value, struct gp_err *err);
    /* What keeps this scheduler from following or leading now, in words; "" if nothing
     * does. */
    void (*trouble)(struct store *store, char *ret, size_t size);
};

/* The first member of every store. */
struct store {
    const struct store_ops *ops;
};

#endif
