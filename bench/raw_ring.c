/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of slots with futexes; see raw_ring.h. */
#include "raw_ring.h"

#include "bench.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleep until @word is no longer @seen.  The flag is raised before the last look,
 * and the other side looks at the flag after it moved the word: one of the two
 * sees the other. */
static void
wait_for_change(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleeps)
{
    atomic_store(sleeps, 1);
    while (atomic_load(word) == seen)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    atomic_store(sleeps, 0);
}

static void
move(_Atomic uint32_t *word, _Atomic uint32_t *other_sleeps)
{
    atomic_fetch_add(word, 1);
    if (atomic_load(other_sleeps))
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void
raw_ring_send(struct raw_ring *ring, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        uint32_t number = atomic_load(&ring->sent);
        uint32_t received = atomic_load(&ring->received);
        uint32_t part = size < RAW_RING_SLOT ? (uint32_t)size : RAW_RING_SLOT;

        if (number - received == RAW_RING_SLOTS) {
            wait_for_change(&ring->received, received, &ring->sender_sleeps);
            continue;
        }
        memcpy(ring->slot[number % RAW_RING_SLOTS], at, part);
        ring->size[number % RAW_RING_SLOTS] = part;
        move(&ring->sent, &ring->receiver_sleeps);
        at += part;
        size -= part;
    }
}

void
raw_ring_receive(struct raw_ring *ring, void *data, size_t size)
{
    char *at = data;

    while (size > 0) {
        uint32_t number = atomic_load(&ring->received);
        uint32_t sent = atomic_load(&ring->sent);
        uint32_t part;

        if (sent == number) {
            wait_for_change(&ring->sent, sent, &ring->receiver_sleeps);
            continue;
        }
        part = ring->size[number % RAW_RING_SLOTS];
        if (part > size) {
            fprintf(stderr, "raw ring: a piece of %u bytes, %zu wanted\n", part, size);
            exit(2);
        }
        memcpy(at, ring->slot[number % RAW_RING_SLOTS], part);
        move(&ring->received, &ring->sender_sleeps);
        at += part;
        size -= part;
    }
}
