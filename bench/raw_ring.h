/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw shared-memory transport: one direction between two processes, a ring of
 * slots and futexes, nothing else.
 *
 * Lives in memory that both map; one sender and one receiver.  Bytes are copied
 * into a slot and out of it, as any transport between two address spaces must
 * that cannot borrow the other's pages.  Blocks at once, never spins.
 */
#ifndef RAW_RING_H
#define RAW_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_RING_SLOTS 4u
#define RAW_RING_SLOT (256u * 1024u) /* hot in a second-level cache */

struct raw_ring {
    _Atomic uint32_t sent, received; /* slots, for ever counting up */
    _Atomic uint32_t sender_sleeps, receiver_sleeps;
    uint32_t size[RAW_RING_SLOTS];
    char slot[RAW_RING_SLOTS][RAW_RING_SLOT];
};

void raw_ring_send(struct raw_ring *ring, const void *data, size_t size);
/* Exactly @size bytes, as they were sent in pieces. */
void raw_ring_receive(struct raw_ring *ring, void *data, size_t size);

#endif
