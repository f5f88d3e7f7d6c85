/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets: what a session may use on one server, signed by the scheduler.
 *
 *     base64url(claims) "." base64url(signature)
 *
 * The claims are a TicketClaims message (control.proto); the signature is
 * Ed25519 over "gpupool-ticket-v1\0" and the claims' bytes, so that no other
 * thing ever signed with the same key can pass for a ticket.  A server needs
 * the scheduler's public key and a clock, and asks nobody.
 *
 * Plain values, no thread of its own.  Not encryption: whoever reads a ticket knows
 * what is in it.  A bound one is used only with the proof of attach_proof.h; one that
 * is not can be used by anybody until it expires.  Tickets are kept in files with mode
 * 0600 and never logged.
 */
#ifndef TICKET_H
#define TICKET_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct ticket_key; /* ticket_key.h */

/* Largest ticket text: 16 slices take about 900 bytes; room for long names. */
#define TICKET_TEXT_MAX 4096
/* As many cards as one server host holds (DGX-class machines have 16). */
#define TICKET_SLICES_MAX 16
#define TICKET_NAME_MAX 64   /* session and server names, with the NUL */
#define TICKET_OWNER_MAX 128 /* user@host, with the NUL */
#define TICKET_KEY_ID_MAX 20 /* 16 hex digits, with the NUL */
#define TICKET_UUID_SIZE 16
#define TICKET_CLIENT_KEY_SIZE 32
#define TICKET_PEER_MAX 96 /* host:port, with the NUL; a longer one is left empty */

enum ticket_policy {
    TICKET_FIXED_SHARE = 0, /* cap, even when the card is idle */
    TICKET_BURST_SHARE = 1, /* floor, plus what is idle */
    TICKET_BEST_EFFORT = 2, /* equal parts */
};
#define TICKET_POLICIES 3

/* Where a session's kernels run on its cards. */
enum ticket_spatial {
    TICKET_SPATIAL_OFF = 0, /* anywhere; sessions take turns */
    TICKET_SPATIAL_SM = 1,  /* on a group of multiprocessors (a green context) */
    TICKET_SPATIAL_MPS = 2, /* on so many, by the driver's multi-process service */
};
#define TICKET_SPATIALS 3

struct ticket_slice {
    uint8_t card_uuid[TICKET_UUID_SIZE];
    uint32_t core;       /* percent of the card, 1..100 */
    uint32_t core_limit; /* soft ceiling, core..100; equals core when none */
    uint64_t memory;     /* bytes */
};

struct ticket_claims {
    uint64_t session_id;
    char session[TICKET_NAME_MAX]; /* "s7": the name used in every message */
    char server[TICKET_NAME_MAX];  /* the only server that honours it */
    struct ticket_slice slices[TICKET_SLICES_MAX];
    uint32_t n_slices; /* 1..TICKET_SLICES_MAX; slice i is device i of the client */
    enum ticket_policy policy;
    enum ticket_spatial spatial;
    bool offline; /* runs only while no online session wants the card */
    char owner[TICKET_OWNER_MAX];
    uint64_t not_before; /* Unix seconds, inclusive */
    uint64_t expires;    /* Unix seconds, exclusive */
    uint32_t max_attachments;
    char key_id[TICKET_KEY_ID_MAX]; /* set by ticket_sign */
    /* Addresses of the session's servers, this one too; none when it is the only one.
     */
    char peers[TICKET_SLICES_MAX][TICKET_PEER_MAX];
    uint32_t n_peers;
    uint8_t peer_keys[TICKET_SLICES_MAX][TICKET_CLIENT_KEY_SIZE]; /* zeros: no TLS */
    bool bound; /* only who proves to have the secret of @client_key may use it */
    uint8_t client_key[TICKET_CLIENT_KEY_SIZE]; /* X25519; zeros unless bound */
};

/* Sign @claims; *ret_text is the caller's, free().
 *
 * -EINVAL: the claims break a rule above, words say which.
 */
int ticket_sign(const struct ticket_key *key, const struct ticket_claims *claims,
                char **ret_text, struct gp_err *err);

/* Check @text and read it.  @text need not be trusted in any way.
 *
 *   -EBADMSG        malformed: not of the form above, or claims out of bounds
 *   -EKEYREJECTED   forged: the signature is not the scheduler's
 *   -EKEYEXPIRED    expired
 *   -EAGAIN         not valid yet (clocks apart?)
 *   -EXDEV          foreign: good, but for another server
 *
 * in this order, each with its own words.  *ret_claims is written on success only.
 */
int ticket_verify(const struct ticket_key *pub, const char *text, uint64_t now_unix,
                  const char *server, struct ticket_claims *ret_claims,
                  struct gp_err *err);

/* What a ticket says, without knowing who signed it: for showing to people, never for
 * a decision.  -EBADMSG. */
int ticket_peek(const char *text, struct ticket_claims *ret_claims, struct gp_err *err);

const char *ticket_policy_name(enum ticket_policy policy); /* "fixed-share", ... */
/* Long and short names (fs, bs, be).  -EINVAL without words when unknown. */
int ticket_policy_parse(const char *name, enum ticket_policy *ret_policy);

const char *ticket_spatial_name(enum ticket_spatial spatial); /* "off", "sm", "mps" */

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and its NUL. */
#define TICKET_UUID_TEXT 41
void ticket_uuid_format(const uint8_t uuid[TICKET_UUID_SIZE],
                        char text[TICKET_UUID_TEXT]);
int ticket_uuid_parse(const char *text, uint8_t ret_uuid[TICKET_UUID_SIZE]);

#endif
