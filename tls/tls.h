/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 for stream sockets: handshakes by OpenSSL, records by tls_record.c.
 *
 * OpenSSL's connection object cannot be used by a sender and a receiver at the same
 * time, sends one record per system call, and cannot move to another process.  So it
 * makes the handshake only; then both traffic secrets are taken out of it, and a
 * struct tls_keys, which is plain bytes, is all that the record layer needs.  The
 * supervisor hands one to a worker together with the socket.
 *
 * Two ways to prove who is there:
 * - Clients to servers, by a key of the session: an external PSK of both ends' X25519
 *   keys (attach_proof.h), with a fresh Diffie-Hellman exchange (psk_dhe_ke); no
 *   certificates.
 * - Everybody to the scheduler, by the scheduler's key: a certificate of its Ed25519
 *   key, which says nothing else; the peer compares the key.
 *
 * Nothing older than TLS 1.3, no resumption, no early data, no renegotiation.  Programs
 * link the functions (tls_linked()) or find them in libgpupool-tls.so.1 (tls_found()),
 * so that those who may not depend on OpenSSL pay for it when they use it.  Any thread,
 * one at a time per object.
 */
#ifndef TLS_H
#define TLS_H

#include "gp_base.h"

struct gp_err;
struct gp_wire;

#define TLS_SECRET_SIZE 32
#define TLS_PSK_SIZE 32
#define TLS_PUBLIC_SIZE 32

enum tls_suite {
    TLS_SUITE_NONE = 0, /* no TLS */
    TLS_SUITE_AES128 = 0x1301,
    TLS_SUITE_CHACHA20 = 0x1303,
};

/* Where the records of one direction stand. */
struct tls_half {
    uint8_t secret[TLS_SECRET_SIZE]; /* application traffic secret */
    uint64_t seq;                    /* of the next record */
};

/* All that a record layer is made of.  Secret. */
struct tls_keys {
    uint32_t suite; /* enum tls_suite */
    uint32_t zero;
    struct tls_half tx, rx;
};

/* What the client shows and both ends know. */
struct tls_psk {
    const void *identity; /* goes over the wire in clear */
    size_t identity_size;
    uint8_t key[TLS_PSK_SIZE];
};

/* Bumped when the table or a structure above changes; both sides come from one build.
 */
#define TLS_API_VERSION 1

struct tls_api {
    uint32_t version;
    /* A client's handshake on the connected socket @fd until @deadline_ns.
     * -EKEYREJECTED: the other end does not have the key. */
    int (*connect_psk)(int fd, const struct tls_psk *psk, uint64_t deadline_ns,
                       struct gp_wire **ret, struct gp_err *err);
    /* The same to who has a certificate; *ret_public is its Ed25519 key, to be compared
     * by the caller.  @pin (may be NULL) is compared here: -EKEYREJECTED. */
    int (*connect_pin)(int fd, const uint8_t *pin, uint64_t deadline_ns,
                       struct gp_wire **ret, uint8_t ret_public[TLS_PUBLIC_SIZE],
                       struct gp_err *err);
    /* The layer of a connection whose handshake was made elsewhere. */
    int (*wire_new)(const struct tls_keys *keys, struct gp_wire **ret,
                    struct gp_err *err);
};

/* The functions, linked into this program. */
const struct tls_api *tls_linked(void);

/* The functions of libgpupool-tls.so.1: beside the file that this code is in, else
 * where the dynamic linker looks.  Loaded once.  NULL: not there, the words say why. */
const struct tls_api *tls_found(struct gp_err *err);

#endif
