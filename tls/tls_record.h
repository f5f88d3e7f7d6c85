/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record layer of TLS 1.3 (RFC 8446, section 5) as a layer below a byte stream.
 *
 * Made of the keys that a handshake left behind.  Several records are sealed and sent
 * in one system call; a record is opened straight into the receiver's memory where it
 * has room.  Keys are changed before AES-GCM's limit, in each direction by itself.  The
 * sender's and the receiver's half share nothing but a flag.
 *
 * The end of a stream: a close alert and the end of the socket are both "the end",
 * because every message of ours has its length in front, so that an end between two
 * messages means as much as a broken link.
 */
#ifndef TLS_RECORD_H
#define TLS_RECORD_H

#include "tls.h"

/* Make a layer of @keys, which it copies. */
int tls_record_new(const struct tls_keys *keys, struct gp_wire **ret,
                   struct gp_err *err);

/* Where @wire, a layer made here, stands now, for another process to go on.  -EBUSY:
 * bytes wait inside. */
int tls_record_keys(const struct gp_wire *wire, struct tls_keys *ret);

/* For tests: change keys after @records instead of the limit. */
void tls_record_rekey_after(struct gp_wire *wire, uint64_t records);

#endif
