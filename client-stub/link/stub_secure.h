/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS to a session's servers: GPUPOOL_TLS=prefer|require|off.
 *
 * The key is made of the session's secret and the server's public key, which the
 * scheduler handed out with the ticket (attach_proof.h).  A server whose key is known
 * is spoken to with TLS or, with `off`, in clear text by that choice; a handshake that
 * fails is an error and never a reason for clear text.  Without a key, because the
 * server or the scheduler is older or has no TLS, `prefer` goes on in clear text and
 * logs it.
 *
 * Plain values; any thread.
 */
#ifndef STUB_SECURE_H
#define STUB_SECURE_H

#include "attach_proof.h"

#include <stdbool.h>

struct gp_err;
struct gp_wire;
struct stub_server;

struct stub_secure {
    bool on;
    uint8_t identity[ATTACH_IDENTITY_SIZE];
    uint8_t psk[ATTACH_KEY_SIZE];
    uint8_t server_key[ATTACH_KEY_SIZE];
};

/* How to speak to @server over TCP; @secret (may be NULL) is the session's, as text.
 * -EINVAL: a word or a key that is none.  -EPROTONOSUPPORT: TLS is required and cannot
 * be. */
int stub_secure_prepare(struct stub_secure *ret, const struct stub_server *server,
                        const char *secret, struct gp_err *err);

/* The handshake on the connected @fd; *ret is NULL where there is to be none. */
int stub_secure_connect(const struct stub_secure *tls, int fd, uint64_t deadline,
                        struct gp_wire **ret, struct gp_err *err);

#endif
