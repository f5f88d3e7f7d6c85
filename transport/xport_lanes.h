/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More connections between the same two processes, for payloads only: on a long line
 * one connection carries its window per round trip and no more.  Private to transport/;
 * what the ends agree on is in xport.h.
 *
 * Stripes of a run go to the lanes in turn; both ends know from the place of a byte
 * which lane carries it, so nothing is framed and order is kept.  All lanes are served
 * side by side, or the one that is full would hold up the others.
 *
 * A set of lanes is given to a connection once and lives as long.  One sender and one
 * receiver at a time, as for the connection.
 */
#ifndef XPORT_LANES_H
#define XPORT_LANES_H

#include "xport_conn.h"
#include "xport_liveness.h"
#include "xport_rate.h"

#include <stdatomic.h>

#define XPORT_STRIPE (64u * 1024)

/* A run below this has no stripe for each lane, or a wait for each stripe. */
#define XPORT_STRIPED_MIN (256u * 1024)

struct xport_lanes {
    unsigned n;
    int fd[XPORT_LANES_MAX];
    struct xport_liveness live[XPORT_LANES_MAX];
    atomic_bool send; /* the other end takes stripes */
    /* The sender's: does it pay? */
    struct xport_rate rate;
    bool use;       /* the last comparison said so */
    uint64_t until; /* bytes until the next one */
    bool main;      /* of this one, the connection's own turn has begun */
    uint64_t given; /* bytes in this turn */
    uint64_t taken; /* what the link had taken when it began */
};

/* Owns the @n <= XPORT_LANES_MAX sockets from then on; NULL: no memory, nothing owned.
 */
struct xport_lanes *xport_lanes_new(const int *fds, unsigned n);

/* @len bytes of a run from its byte @at on, out of or into @buf. */
int xport_lanes_send(struct xport_lanes *lanes, const uint8_t *buf, uint64_t len);
int xport_lanes_recv(struct xport_lanes *lanes, uint64_t at, uint8_t *buf,
                     uint64_t len);

/* Send the next run of *len bytes, which may become less, over the lanes?  @main is
 * the connection's own rate. */
bool xport_lanes_pay(struct xport_lanes *lanes, const struct xport_rate *main,
                     uint32_t *len);

/* True: the peer of one of them is dead, as xport_liveness.h says.  *ret_again (may be
 * NULL) is set when one has unacknowledged bytes, and left alone otherwise. */
bool xport_lanes_lost(struct xport_lanes *lanes, bool *ret_again);

void xport_lanes_abort(struct xport_lanes *lanes);
void xport_lanes_free(struct xport_lanes *lanes); /* NULL is a no-op */

#endif
