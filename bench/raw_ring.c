/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of slots and its ways to wait; see raw_ring.h. */
#include "raw_ring.h"

#include "bench.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct raw_ring
raw_ring_of(struct raw_ring_shared *shared, const struct raw_setting *setting,
            const int fds[2])
{
    struct raw_ring ring = {.shared = shared,
                            .wait = setting->wait,
                            .slots = setting->slots,
                            .slot = setting->piece_kib << 10,
                            .late = setting->late,
                            .pause = setting->pause,
                            .data_fd = fds[0],
                            .room_fd = fds[1]};

    if (ring.slots == 0 || ring.slots > RAW_RING_SLOTS_MAX || ring.slot == 0 ||
        (uint64_t)ring.slots * ring.slot > RAW_RING_BYTES_MAX) {
        fprintf(stderr, "raw ring: %u slots of %u bytes do not fit\n", ring.slots,
                ring.slot);
        exit(2);
    }
    return ring;
}

static void
cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void
poll_for_change(const struct raw_ring *ring, _Atomic uint32_t *word, uint32_t seen)
{
    if (!ring->pause) {
        while (atomic_load_explicit(word, memory_order_acquire) == seen)
            ;
        return;
    }
    while (atomic_load_explicit(word, memory_order_acquire) == seen)
        cpu_relax();
}

/* Sleep until @word is no longer @seen.  The flag is raised before the last look,
 * and the other side looks at the flag after it moved the word: one of the two
 * sees the other. */
static void
wait_for_change(const struct raw_ring *ring, _Atomic uint32_t *word, uint32_t seen,
                _Atomic uint32_t *sleeps, int fd)
{
    uint64_t count;

    if (ring->wait == RAW_WAIT_POLL) {
        poll_for_change(ring, word, seen);
        return;
    }
    for (;;) {
        atomic_store(sleeps, 1); /* anew: who wakes lowers it */
        if (atomic_load(word) != seen)
            break;
        if (ring->wait == RAW_WAIT_FUTEX)
            syscall(SYS_futex, sleeps, FUTEX_WAIT, 1, NULL, NULL, 0);
        else if (read(fd, &count, sizeof(count)) < 0)
            bench_die("raw ring: eventfd");
    }
    atomic_store_explicit(sleeps, 0, memory_order_relaxed);
}

static void
wake(const struct raw_ring *ring, _Atomic uint32_t *sleeps, int fd)
{
    uint64_t one = 1;

    if (ring->wait == RAW_WAIT_POLL || !atomic_load(sleeps))
        return;
    atomic_store_explicit(sleeps, 0, memory_order_relaxed);
    if (ring->wait == RAW_WAIT_FUTEX)
        syscall(SYS_futex, sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
    else if (write(fd, &one, sizeof(one)) < 0)
        bench_die("raw ring: eventfd");
}

/* Whoever polls needs no flag to be read behind the word. */
static void
publish(const struct raw_ring *ring, _Atomic uint32_t *word, uint32_t value)
{
    if (ring->wait == RAW_WAIT_POLL)
        atomic_store_explicit(word, value, memory_order_release);
    else
        atomic_store(word, value);
}

/* The slot is the receiver's.  Late waking lets the receiver take many slots at one
 * switch; a sender that ran out of room, or of data, wakes it. */
static void
sent(struct raw_ring *ring, struct raw_head *head, size_t left)
{
    struct raw_ring_shared *s = ring->shared;

    publish(ring, &head->number, ++ring->count);
    if (!ring->late || left == 0 ||
        ring->count - atomic_load(&s->received) == ring->slots)
        wake(ring, &s->receiver_sleeps, ring->data_fd);
}

static char *
bytes_of(const struct raw_ring *ring, struct raw_head *head, uint32_t slot,
         uint32_t size)
{
    if (size <= RAW_RING_LINE)
        return head->bytes;
    return ring->shared->bytes + (size_t)slot * ring->slot;
}

void
raw_ring_send(struct raw_ring *ring, const void *data, size_t size)
{
    struct raw_ring_shared *s = ring->shared;
    const char *at = data;

    while (size > 0) {
        uint32_t part = size < ring->slot ? (uint32_t)size : ring->slot;
        uint32_t slot = ring->count % ring->slots;

        if (ring->count - ring->seen == ring->slots) {
            ring->seen = atomic_load_explicit(&s->received, memory_order_acquire);
            if (ring->count - ring->seen == ring->slots)
                wait_for_change(ring, &s->received, ring->seen, &s->sender_sleeps,
                                ring->room_fd);
            continue;
        }
        memcpy(bytes_of(ring, &s->heads[slot], slot, part), at, part);
        s->heads[slot].size = part;
        at += part;
        size -= part;
        sent(ring, &s->heads[slot], size);
    }
}

/* With late waking a sender that sleeps is woken when half of the ring is free. */
static void
received(struct raw_ring *ring)
{
    struct raw_ring_shared *s = ring->shared;
    uint32_t half = ++ring->count + ring->slots / 2;

    publish(ring, &s->received, ring->count);
    if (!ring->late || atomic_load(&s->heads[half % ring->slots].number) != half + 1)
        wake(ring, &s->sender_sleeps, ring->room_fd);
}

void
raw_ring_receive(struct raw_ring *ring, void *data, size_t size)
{
    struct raw_ring_shared *s = ring->shared;
    char *at = data;

    while (size > 0) {
        uint32_t slot = ring->count % ring->slots;
        struct raw_head *head = &s->heads[slot];
        uint32_t number = atomic_load_explicit(&head->number, memory_order_acquire);
        uint32_t part;

        if (number != ring->count + 1) {
            wait_for_change(ring, &head->number, number, &s->receiver_sleeps,
                            ring->data_fd);
            continue;
        }
        part = head->size;
        if (part > size) {
            fprintf(stderr, "raw ring: a piece of %u bytes, %zu wanted\n", part, size);
            exit(2);
        }
        memcpy(at, bytes_of(ring, head, slot, part), part);
        received(ring);
        at += part;
        size -= part;
    }
}
