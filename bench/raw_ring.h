/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw shared-memory transport: one direction between two processes, a ring of
 * slots, nothing else.
 *
 * Lives in memory that both map; one sender and one receiver, each with a struct
 * raw_ring of its own.  Bytes are copied into a slot and out of it, as any transport
 * between two address spaces must that cannot borrow the other's pages.  How it waits
 * and how large its slots are is a setting (raw_setting.h).
 */
#ifndef RAW_RING_H
#define RAW_RING_H

#include "raw_setting.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_RING_SLOTS_MAX 64u
#define RAW_RING_BYTES_MAX (4u << 20)

/* In shared memory; the slots follow. */
struct raw_ring_shared {
    _Alignas(64) _Atomic uint32_t sent; /* slots, for ever counting up */
    _Atomic uint32_t sender_sleeps;
    uint32_t size[RAW_RING_SLOTS_MAX]; /* of the first slots: in the line of sent */
    _Alignas(64) _Atomic uint32_t received;
    _Atomic uint32_t receiver_sleeps;
    _Alignas(4096) char bytes[];
};

/* One end's view. */
struct raw_ring {
    struct raw_ring_shared *shared;
    uint32_t wait, slots, slot, late;
    uint32_t seen; /* the sender's: slots that were received when it last had to look */
    int data_fd, room_fd; /* eventfds of RAW_WAIT_BLOCK */
};

/* @fds: those that the receiver and the sender sleep on. */
struct raw_ring raw_ring_of(struct raw_ring_shared *shared,
                            const struct raw_setting *setting, const int fds[2]);
void raw_ring_send(struct raw_ring *ring, const void *data, size_t size);
/* Exactly @size bytes, as they were sent in pieces. */
void raw_ring_receive(struct raw_ring *ring, void *data, size_t size);

#endif
