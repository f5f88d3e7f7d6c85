/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More connections between the same two processes, for payloads only: on a long line
 * one connection carries its window per round trip and no more.  Private to transport/;
 * what the ends agree on is in xport.h.
 *
 * A stripe is one of these connections.  The units of a run (XPORT_STRIPE_UNIT bytes)
 * go to the stripes in turn; both ends know from the place of a byte which stripe
 * carries it, so nothing is framed and order is kept.  All stripes are served side by
 * side, since one that is full would hold up the others.
 *
 * A connection's stripes live as long as the link that they were made for; those of the
 * next link, of the same number, take their places, so that whoever looks at a socket
 * without a lock finds one.  One sender and one receiver at a time, as for the
 * connection.
 */
#ifndef XPORT_STRIPES_H
#define XPORT_STRIPES_H

#include "gp_wire.h"
#include "xport_conn.h"
#include "xport_liveness.h"
#include "xport_rate.h"

#include <stdatomic.h>

#define XPORT_STRIPE_UNIT (64u * 1024)

/* A shorter run has no unit for each stripe, or waits for each unit. */
#define XPORT_STRIPED_MIN (256u * 1024)

struct xport_stripes {
    unsigned n;
    int fd[XPORT_STRIPES_MAX];
    struct gp_wire *wire[XPORT_STRIPES_MAX]; /* NULL: the socket itself */
    struct xport_liveness live[XPORT_STRIPES_MAX];
    atomic_bool send;       /* the other end receives over the stripes */
    atomic_bool ended;      /* of a connection that resumes: with their link */
    _Atomic uint32_t times; /* they were made again */
    /* The sender's: does it pay? */
    uint32_t seen; /* `times` when this was found out */
    struct xport_rate rate;
    bool use;       /* the last comparison said so */
    uint64_t until; /* bytes until the next one */
    bool main;      /* of this one, the connection's own turn has begun */
    uint64_t given; /* bytes in this turn */
    uint64_t taken; /* what the link had taken when it began */
};

/* Owns the @n <= XPORT_STRIPES_MAX sockets, and their layers (@wires may be NULL), from
 * then on; NULL: no memory, nothing owned.
 */
struct xport_stripes *xport_stripes_new(const int *fds, struct gp_wire *const *wires,
                                        unsigned n);

/* They have ended, and others of the next link take their places: the same as above,
 * for as many as there were.  -errno: they stay ended, nothing is owned. */
int xport_stripes_renew(struct xport_stripes *stripes, const int *fds,
                        struct gp_wire *const *wires);

/* The link that they were made for is broken. */
void xport_stripes_end(struct xport_stripes *stripes);

/* Does the link in use have them, and may they be sent over? */
static inline bool
xport_stripes_live(const struct xport_stripes *stripes)
{
    return stripes && !atomic_load_explicit(&stripes->ended, memory_order_acquire);
}

static inline bool
xport_stripes_usable(const struct xport_stripes *stripes)
{
    return stripes && atomic_load_explicit(&stripes->send, memory_order_acquire) &&
           xport_stripes_live(stripes);
}

/* @len bytes of a run from its byte @at on, out of or into @buf. */
int xport_stripes_send(struct xport_stripes *stripes, const uint8_t *buf, uint64_t len);
int xport_stripes_recv(struct xport_stripes *stripes, uint64_t at, uint8_t *buf,
                       uint64_t len);

/* Send the next run of *len bytes, which may become less, over the stripes?  @main is
 * the connection's own rate. */
bool xport_stripes_pay(struct xport_stripes *stripes, const struct xport_rate *main,
                       uint32_t *len);

/* True: the peer of one of them is dead, as xport_liveness.h says.  *ret_again (may be
 * NULL) is set when one has unacknowledged bytes, and left alone otherwise. */
bool xport_stripes_lost(struct xport_stripes *stripes, bool *ret_again);

void xport_stripes_abort(struct xport_stripes *stripes);
void xport_stripes_free(struct xport_stripes *stripes); /* NULL is a no-op */

#endif
