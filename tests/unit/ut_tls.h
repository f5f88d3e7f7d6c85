/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a TLS connection in one process. */
#ifndef UT_TLS_H
#define UT_TLS_H

#include "gp_err.h"
#include "tls_handshake.h"
#include "tls_record.h"

#include <string.h>

static inline void
ut_tls_both(const struct tls_keys *keys, struct gp_wire **client,
            struct gp_wire **server)
{
    struct tls_keys other = {.suite = keys->suite, .tx = keys->rx, .rx = keys->tx};

    assert_int_equal(tls_record_new(keys, client, NULL), 0);
    assert_int_equal(tls_record_new(&other, server, NULL), 0);
}

/* Layers with keys that no handshake made. */
static inline void
ut_tls_layers(uint32_t suite, struct gp_wire **client, struct gp_wire **server)
{
    struct tls_keys keys = {.suite = suite};

    memset(keys.tx.secret, 1, sizeof(keys.tx.secret));
    memset(keys.rx.secret, 2, sizeof(keys.rx.secret));
    ut_tls_both(&keys, client, server);
}

#endif
