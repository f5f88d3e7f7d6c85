/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers and sessions as the bytes that a store keeps (store.proto), and back.
 *
 * No state; event loop thread, since it reads and changes pool and sessions.
 */
#ifndef STORE_RECORDS_H
#define STORE_RECORDS_H

#include "gp_base.h"
#include "store.h"

struct gp_err;
struct sched_account;
struct sched_pool;
struct sched_server;
struct sched_session;
struct sched_sessions;

/* The keys of the records of a server and of a session. */
void store_server_key(const char *name, char key[STORE_KEY_MAX]);
void store_session_key(uint64_t id, char key[STORE_KEY_MAX]);

/* malloc'ed; -ENOMEM. */
int store_server_pack(const struct sched_server *server, uint8_t **ret,
                      size_t *ret_size);
int store_session_pack(const struct sched_session *session, uint8_t **ret,
                       size_t *ret_size);
void store_account_key(const struct sched_account *row, char key[STORE_KEY_MAX]);
int store_account_pack(const struct sched_account *row, uint8_t **ret,
                       size_t *ret_size);
int store_number_pack(uint32_t epoch, uint32_t last, bool checked, uint8_t **ret,
                      size_t *ret_size);

/* Where records go. */
struct store_world {
    struct sched_pool *pool;
    struct sched_sessions *sessions;
    uint64_t now_ns;
    uint32_t epoch, last; /* of the number record */
    bool following;       /* servers are connected to another scheduler */
    bool checked;         /* by the number record, all records have checksums */
    bool broken;          /* a record could not be taken */
    char unchecked[STORE_KEY_MAX]; /* the first one without a checksum, or "" */
};

/* A record is there, new or changed; keys that the scheduler does not know are left
 * alone.  For a store_row with a struct store_world. */
int store_record_take(void *arg, const char *key, const uint8_t *value, size_t size,
                      struct gp_err *err);
/* It is gone. */
void store_record_drop(struct store_world *world, const char *key);

#endif
