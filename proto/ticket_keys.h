/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public keys of one scheduler that are good at the same time: one, or while it
 * changes its key the old one and the new one.
 *
 * From a file with one key in a line (base64url), or made of one key.  Immutable, any
 * thread.
 */
#ifndef TICKET_KEYS_H
#define TICKET_KEYS_H

#include "ticket.h"
#include "ticket_key.h"

struct gp_err;
struct ticket_keys;

/* Two are needed; more are a mistake, and each costs a wrong ticket another check. */
#define TICKET_KEYS_MAX 4
/* Their lines, as in a file, or with commas between. */
#define TICKET_KEYS_TEXT_MAX 512

/* Keys in @text, one after another, with line ends, blanks or commas between. */
int ticket_keys_parse(const char *text, struct ticket_keys **ret, struct gp_err *err);
int ticket_keys_load(const char *path, struct ticket_keys **ret, struct gp_err *err);
/* On success it owns @key. */
int ticket_keys_of_one(struct ticket_key *key, struct ticket_keys **ret);
void ticket_keys_free(struct ticket_keys *keys); /* NULL is a no-op */
DEFINE_CLEANUP(struct ticket_keys, ticket_keys_free)

bool ticket_keys_have(const struct ticket_keys *keys,
                      const uint8_t pub[TICKET_PUB_SIZE]);
size_t ticket_keys_count(const struct ticket_keys *keys);
/* The first; there is always one. */
const struct ticket_key *ticket_keys_first(const struct ticket_keys *keys);

/* ticket_verify() with the key that signed it. */
int ticket_keys_verify(const struct ticket_keys *keys, const char *text,
                       uint64_t now_unix, const char *server,
                       struct ticket_claims *ret_claims, struct gp_err *err);

#endif
