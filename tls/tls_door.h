/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a server: what a new connection speaks, TLS or clear text, and whether it
 * may.
 *
 * A client that speaks TLS begins with a client hello, one that does not with the
 * length of a message; no message that may come first looks like a hello
 * (tls_hello_is()). Used as the beginning of a struct gp_msg_conn; its owner keeps the
 * deadline and the bound on the number of connections, which count for handshakes too.
 * Loop thread only.
 */
#ifndef TLS_DOOR_H
#define TLS_DOOR_H

#include "gp_base.h"
#include "tls_policy.h"

struct gp_err;
struct gp_msg_conn;
struct tls_context;
struct tls_handshake;

/* One connection's; embedded in its owner, zero-initialised but for the first two. */
struct tls_door {
    enum tls_policy policy;
    struct tls_context *ctx; /* of the server */
    struct tls_handshake *hs;
    bool clear; /* it speaks clear text */
    uint8_t identity[64];
    size_t identity_size; /* of a client with a PSK */
};

/* For gp_msg_conn.begin, with its meaning; the words of @err say why a handshake
 * failed. Clear text passes with @clear set: the owner refuses it, in words that its
 * client understands, where TLS is required. */
int tls_door_begin(struct tls_door *door, struct gp_msg_conn *conn,
                   uint32_t *ret_events, struct gp_err *err);
void tls_door_fini(struct tls_door *door);

#endif
