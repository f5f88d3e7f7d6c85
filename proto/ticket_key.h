/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's Ed25519 key: private on the scheduler, public on the servers.
 *
 * The private key is a PEM file, mode 0600, made at the first start; the public
 * key travels as 32 raw bytes in CtlRegistered, or as a one-line text file
 * (base64url) that an administrator copies (gpupool-server --scheduler-key).
 *
 * Immutable after creation but for the number of its owners, so any thread may use it.
 * Not a trust decision: who hands a public key to a server decides whom the server
 * obeys.
 */
#ifndef TICKET_KEY_H
#define TICKET_KEY_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct ticket_key;

#define TICKET_PUB_SIZE 32
#define TICKET_SIG_SIZE 64

/* Read the private key of @path; make one when there is no such file.
 *
 * -EPERM: others may read the file, which is refused rather than repaired.
 */
int ticket_key_load(const char *path, struct ticket_key **ret_key, struct gp_err *err);
/* The private key in @path, which somebody else keeps: it must be there, and its group
 * may read it, as it is with files of a Kubernetes Secret. */
int ticket_key_open(const char *path, struct ticket_key **ret_key, struct gp_err *err);
/* The second private key in @path, that of before a change of the key; *ret NULL: there
 * is one only. */
int ticket_key_read_old(const char *path, struct ticket_key **ret, struct gp_err *err);
int ticket_key_generate(struct ticket_key **ret_key,
                        struct gp_err *err); /* memory only */

int ticket_key_from_pub(const uint8_t *raw, size_t size, struct ticket_key **ret_key,
                        struct gp_err *err);
/* Write @key, and in a second line @old (may be NULL). */
int ticket_key_save_pub(const struct ticket_key *key, const struct ticket_key *old,
                        const char *path, struct gp_err *err);

/* One owner more, each of which frees it; of one thread. */
struct ticket_key *ticket_key_ref(struct ticket_key *key);
void ticket_key_free(struct ticket_key *key); /* NULL is a no-op */
DEFINE_CLEANUP(struct ticket_key, ticket_key_free)

const char *ticket_key_id(const struct ticket_key *key); /* 16 hex digits */
const uint8_t *ticket_key_pub(const struct ticket_key *key);

/* The private half, 32 secret bytes, for the scheduler's TLS.  -ENOKEY: a public key.
 */
int ticket_key_seed(const struct ticket_key *key, uint8_t ret[32]);

/* For ticket.c.  @domain is signed with its NUL, before the data. */
int ticket_key_sign(const struct ticket_key *key, const char *domain, const void *data,
                    size_t size, uint8_t ret_sig[TICKET_SIG_SIZE], struct gp_err *err);
/* 0, or -EKEYREJECTED. */
int ticket_key_check(const struct ticket_key *key, const char *domain, const void *data,
                     size_t size, const uint8_t sig[TICKET_SIG_SIZE]);

#endif
