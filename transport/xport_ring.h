/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a shared-memory connection: a byte ring between two processes.
 *
 * One producer, one consumer, each in its own process, neither trusting the other: an
 * index is written by one side only, kept there in private as well, and what the other
 * side wrote is checked before it is used.  The words in shared memory are struct
 * xport_ring_shared.  Private to transport/.
 */
#ifndef XPORT_RING_H
#define XPORT_RING_H

#include "gp_base.h"

#include <assert.h>
#include <stdatomic.h>

/* Small enough that a ring and what is copied to and from it stay in a core's L2, large
 * enough that producer and consumer do not take turns too often (measured). */
#define XPORT_RING_SIZE (512u << 10)

enum xport_ring_sleep {
    XPORT_RING_AWAKE,
    XPORT_RING_ON_FUTEX, /* on the word that says so */
    XPORT_RING_ON_BELL,
};

/* In shared memory; a cache line each for what the two sides write. */
struct xport_ring_shared {
    uint64_t head;        /* bytes produced; written by the producer */
    uint32_t room_wanted; /* futex: the producer sleeps until there is room */
    uint8_t pad0[52];
    uint64_t tail;        /* bytes consumed; written by the consumer */
    uint32_t data_wanted; /* enum xport_ring_sleep: the consumer sleeps until there is
                             data */
    uint8_t pad1[52];
};
static_assert(sizeof(struct xport_ring_shared) == 128, "shared layout");

/* One side's view. */
struct xport_ring {
    struct xport_ring_shared *shared;
    uint8_t *bytes;            /* XPORT_RING_SIZE */
    uint64_t index;            /* our own: head of the producer, tail of the consumer */
    const atomic_bool *closed; /* set before xport_ring_kick(): do not sleep any more */
    int bell;                  /* the consumer's, borrowed; -1: none */
};

/* Copy in what fits and publish it; -EPROTO: the other side broke the rules. */
int xport_ring_put(struct xport_ring *ring, const void *data, size_t len,
                   size_t *ret_n);

/* Copy out what is there; *ret_n may be 0. */
int xport_ring_get(struct xport_ring *ring, void *buf, size_t len, size_t *ret_n);

/* Where the bytes lie, @ahead bytes after the next one to get (put), as far as they are
 * there (there is room) without a break, at most @len; *ret_n may be 0.  They are the
 * other side's until xport_ring_push(), ours until xport_ring_drop(). */
int xport_ring_peek(const struct xport_ring *ring, size_t ahead, size_t len,
                    uint8_t **ret, size_t *ret_n);
int xport_ring_room(const struct xport_ring *ring, size_t ahead, size_t len,
                    uint8_t **ret, size_t *ret_n);
void xport_ring_drop(struct xport_ring *ring, size_t n);
void xport_ring_push(struct xport_ring *ring, size_t n);

/* Nothing to get?  (A broken index counts as something: getting it tells.) */
bool xport_ring_empty(const struct xport_ring *ring);

/* Sleep until there is room (data), the deadline passes, or the ring is closed and
 * kicked; spurious returns happen.  -ETIMEDOUT. */
int xport_ring_wait_room(struct xport_ring *ring, uint64_t deadline_ns);
int xport_ring_wait_data(struct xport_ring *ring, uint64_t deadline_ns);

/* Wake whoever sleeps on this ring, on both sides. */
void xport_ring_kick(struct xport_ring *ring);

#endif
