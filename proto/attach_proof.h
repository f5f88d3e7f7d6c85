/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that an attach request comes from the client that a ticket was made for.
 *
 * Who opens a session makes an X25519 key pair and sends the public half with the
 * request; the scheduler signs it into the tickets.  The secret half never leaves the
 * client's host: it is in the session file, mode 0600.  At attach the server sends a
 * nonce and its own public key, made at its start; both sides compute the shared secret
 * and the client shows a hash of it, the nonce, both keys and the ticket.  The nonce is
 * new for each connection, so a recorded attach is worth nothing.
 *
 * The same shared secret gives the key of the attachment, which never goes over the
 * wire, and the cookies of further connections, each good for one of them.
 *
 * A client that knows the server's public key beforehand, from the scheduler, makes a
 * pre-shared key for TLS 1.3 of the same secret (attach_psk_make()); then all of the
 * above goes inside, and the server is proven as well.  Without TLS nothing proves the
 * server or protects what follows: docs/security.md.  BLAKE3 over secret and text in
 * fixed places is the keyed hash.  No state, any thread.
 */
#ifndef ATTACH_PROOF_H
#define ATTACH_PROOF_H

#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ATTACH_KEY_SIZE 32
#define ATTACH_NONCE_SIZE 32
#define ATTACH_PROOF_SIZE 32
#define ATTACH_COOKIE_SIZE 32

/* What is proven; every byte of it counts. */
struct attach_transcript {
    uint8_t shared[ATTACH_KEY_SIZE]; /* set by attach_transcript_finish() */
    uint8_t client_key[ATTACH_KEY_SIZE], server_key[ATTACH_KEY_SIZE];
    uint8_t nonce[ATTACH_NONCE_SIZE];
    uint8_t ticket[32]; /* its hash; set by attach_transcript_finish() */
};

/* One side's @secret and the @other side's public key.  -EBADMSG: @other is no key. */
int attach_transcript_finish(struct attach_transcript *t,
                             const uint8_t secret[ATTACH_KEY_SIZE],
                             const uint8_t other[ATTACH_KEY_SIZE], const char *ticket);

/* The proof over @t, which the client sends; and whether @proof is it, compared in a
 * time that does not tell where they differ. */
void attach_proof_make(const struct attach_transcript *t,
                       uint8_t ret_proof[ATTACH_PROOF_SIZE]);
bool attach_proof_holds(const struct attach_transcript *t, const uint8_t *proof,
                        size_t size);

/* The key of the attachment that was proven so. */
void attach_key_make(const struct attach_transcript *t,
                     uint8_t ret_key[ATTACH_KEY_SIZE]);

enum attach_cookie {
    ATTACH_COOKIE_STRIPE,  /* @index: which of the further connections (attach.proto) */
    ATTACH_COOKIE_PEER,    /* @index: which of the client's servers connects */
    ATTACH_COOKIE_RDMA,    /* @index: the number of the link; 0: the first */
    ATTACH_COOKIE_ENDING,  /* to ask how the attachment ended; @index 0 */
    ATTACH_COOKIE_RESUME,  /* @index: the number of the link, each once */
    ATTACH_COOKIE_ACKS,    /* the same, for its connection for acknowledgements */
    ATTACH_COOKIE_CONTROL, /* @index: which of the control connections, each once */
};

/* Who knows one of them knows none of the others.  Users that need fewer bytes take the
 * first ones. */
void attach_cookie_make(const uint8_t key[ATTACH_KEY_SIZE], enum attach_cookie kind,
                        uint32_t index, uint8_t ret_cookie[ATTACH_COOKIE_SIZE]);

/* What a client shows in its TLS hello: its public key, and a word about which of the
 * server's keys it knows.  Not secret; an observer learns which connections are of one
 * session. */
#define ATTACH_IDENTITY_SIZE 48
void attach_identity_make(const uint8_t client_key[ATTACH_KEY_SIZE],
                          const uint8_t server_key[ATTACH_KEY_SIZE],
                          uint8_t ret[ATTACH_IDENTITY_SIZE]);

/* The client's key out of an identity.  -EBADMSG: it is none.  -ESTALE: it is for
 * another key than @server_key. */
int attach_identity_read(const void *identity, size_t size,
                         const uint8_t server_key[ATTACH_KEY_SIZE],
                         uint8_t ret_client_key[ATTACH_KEY_SIZE]);

/* The pre-shared key, of one side's @secret and the @other side's public key; both
 * public keys are in @identity.  -EBADMSG: @other is no key. */
int attach_psk_make(const uint8_t secret[ATTACH_KEY_SIZE],
                    const uint8_t other[ATTACH_KEY_SIZE],
                    const uint8_t identity[ATTACH_IDENTITY_SIZE],
                    uint8_t ret_psk[ATTACH_KEY_SIZE]);

#endif
