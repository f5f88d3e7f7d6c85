/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer below a connection that a test can put there: it changes every byte, sends
 * small pieces, and receives more than it hands over, so that bytes are often
 * inside it that poll(2) does not announce.
 */
#ifndef UT_WIRE_H
#define UT_WIRE_H

#include "gp_wire.h"

#include <string.h>

#define UT_WIRE_SEND 777
#define UT_WIRE_IN 1000
#define UT_WIRE_HAND 333

struct ut_wire {
    struct gp_wire wire;
    uint8_t in[UT_WIRE_IN];
    size_t at, end;
};

/* All that goes, in small pieces. */
static ssize_t
ut_wire_send(struct gp_wire *wire, int fd, const struct iovec *iov, size_t n_iov,
             int flags)
{
    ssize_t sent = 0;

    for (size_t i = 0; i < n_iov; i++) {
        const uint8_t *from = iov[i].iov_base;

        for (size_t at = 0; at < iov[i].iov_len;) {
            uint8_t out[UT_WIRE_SEND];
            struct iovec one = {out, gp_min(iov[i].iov_len - at, sizeof(out))};
            ssize_t n;

            for (size_t k = 0; k < one.iov_len; k++)
                out[k] = from[at + k] ^ 0x5a;
            n = gp_wire_send(NULL, fd, &one, 1, flags);
            if (n < 0)
                return sent ? sent : n;
            at += (size_t)n;
            sent += n;
        }
    }
    return sent;
}

static ssize_t
ut_wire_recv(struct gp_wire *wire, int fd, void *buf, size_t len, int flags)
{
    struct ut_wire *w = container_of(wire, struct ut_wire, wire);
    size_t n;

    if (w->at == w->end) {
        ssize_t got = gp_wire_recv(NULL, fd, w->in, sizeof(w->in), flags);

        if (got <= 0)
            return got;
        w->at = 0;
        w->end = (size_t)got;
    }
    n = gp_min(gp_min(len, w->end - w->at), (size_t)UT_WIRE_HAND);
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = w->in[w->at++] ^ 0x5a;
    return (ssize_t)n;
}

static bool
ut_wire_pending(const struct gp_wire *wire)
{
    const struct ut_wire *w = container_of(wire, struct ut_wire, wire);

    return w->at != w->end;
}

static void
ut_wire_free(struct gp_wire *wire)
{
    free(container_of(wire, struct ut_wire, wire));
}

static inline struct gp_wire *
ut_wire_new(void)
{
    static const struct gp_wire_ops ops = {
        .send = ut_wire_send,
        .recv = ut_wire_recv,
        .pending = ut_wire_pending,
        .free = ut_wire_free,
    };
    struct ut_wire *w = calloc(1, sizeof(*w));

    w->wire.ops = &ops;
    return &w->wire;
}

#endif
