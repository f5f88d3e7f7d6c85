/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw shared-memory transport: one direction between two processes, a ring of
 * slots, nothing else.  A slot's number is written last and publishes it; a message
 * that fits is in the number's cache line, so that one line goes from core to core.
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

#define RAW_RING_LINE 56u

struct raw_head {
    _Alignas(64) _Atomic uint32_t number; /* of the last slot sent here, from 1 on */
    uint32_t size;
    char bytes[RAW_RING_LINE]; /* all of them, if they fit */
};

/* In shared memory; the slots follow. */
struct raw_ring_shared {
    struct raw_head heads[RAW_RING_SLOTS_MAX];
    _Alignas(64) _Atomic uint32_t received; /* slots, for ever counting up */
    _Atomic uint32_t receiver_sleeps;
    _Alignas(64) _Atomic uint32_t sender_sleeps;
    _Alignas(4096) char bytes[];
};

/* One end's view. */
struct raw_ring {
    struct raw_ring_shared *shared;
    uint32_t wait, slots, slot, late, pause;
    uint32_t count; /* slots that this end has sent, or received */
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
