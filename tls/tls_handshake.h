/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handshake on one socket, step by step, so that an event loop can make many.
 *
 * A context says what a server accepts.  A handshake reads
 * not one byte behind itself: what the peer sends next is for the record layer.
 * What may come is bounded: a client hello by OpenSSL's limit, each side's certificate
 * by 8 KiB, all of it by the caller's deadline.
 */
#ifndef TLS_HANDSHAKE_H
#define TLS_HANDSHAKE_H

#include "tls.h"

#include <stdbool.h>

struct tls_context;
struct tls_handshake;

/* The first bytes of a connection, from which tls_hello_is() tells TLS from a message
 * of ours: no message that may come first is 66326 bytes long.  With fewer than three a
 * hello is assumed, which only a message sent in several pieces disproves. */
#define TLS_HELLO_PEEK 3
bool tls_hello_is(const uint8_t *bytes, size_t n);

/* The key of the client that shows @identity (any bytes).  0, or -ENOKEY. */
typedef int (*tls_psk_find)(void *arg, const void *identity, size_t size,
                            uint8_t ret_key[TLS_PSK_SIZE]);

/* A server whose clients show a key. */
int tls_context_psk(tls_psk_find find, void *arg, struct tls_context **ret,
                    struct gp_err *err);
/* A server with a certificate of its own for the Ed25519 key that @seed is the secret
 * half of. */
int tls_context_cert(const uint8_t seed[32], struct tls_context **ret,
                     struct gp_err *err);
/* Handshakes that began with it go on and keep it.  NULL is a no-op. */
void tls_context_free(struct tls_context *ctx);
DEFINE_CLEANUP(struct tls_context, tls_context_free)

/* The server's side on @fd, which stays the caller's. */
int tls_handshake_server(struct tls_context *ctx, int fd, struct tls_handshake **ret,
                         struct gp_err *err);
/* The client's.  @psk NULL: the server has a certificate. */
int tls_handshake_client(const struct tls_psk *psk, int fd, struct tls_handshake **ret,
                         struct gp_err *err);

/* Go on as far as the socket allows.  0: done.  -EAGAIN: call again when the socket is
 * ready for *ret_events (POLLIN or POLLOUT).  -EKEYREJECTED: the two do not know each
 * other.  -EPROTONOSUPPORT: a peer that is older than TLS 1.3.  -EPROTO: no TLS at all.
 */
int tls_handshake_step(struct tls_handshake *hs, short *ret_events, struct gp_err *err);

/* Of one that is done. */
void tls_handshake_keys(const struct tls_handshake *hs, struct tls_keys *ret);
/* The identity that the client showed; the bytes are @hs's. */
const void *tls_handshake_identity(const struct tls_handshake *hs, size_t *ret_size);
/* The Ed25519 key of the server's certificate.  -EKEYREJECTED: it has another kind. */
int tls_handshake_public(const struct tls_handshake *hs, uint8_t ret[TLS_PUBLIC_SIZE]);

void tls_handshake_free(struct tls_handshake *hs); /* NULL is a no-op */
DEFINE_CLEANUP(struct tls_handshake, tls_handshake_free)

#endif
