/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS of connections whose handshake the supervisor has made.  Any thread. */
#ifndef WRK_TLS_H
#define WRK_TLS_H

struct gp_err;
struct gp_wire;
struct tls_keys;

/* The layer of a connection, with the keys that its handshake left; NULL: clear text.
 * Opens a library, so it is called before the sandbox closes; later calls find it open.
 */
int wrk_tls_layer(const struct tls_keys *keys, struct gp_wire **ret,
                  struct gp_err *err);

#endif
