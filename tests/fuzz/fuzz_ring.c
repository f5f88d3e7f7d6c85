/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring in memory that the other process writes to whenever it likes: one thread puts,
 * gets, looks and drops, as the input says, while another one writes the input's words
 * into the indexes and bytes into the data.
 *
 * Buffers have the exact length, so that a byte too many is found; what is read twice
 * and used as if it were the same shows in a length or an address.
 */
#include "xport_ring.h"

#include "gp_time.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OPS_MAX 64
#define PIECE_MAX 70000u

static struct xport_ring_shared *shared;
static uint8_t *bytes;
static atomic_bool closed;
/* What the scribbler writes; the main thread changes it between inputs. */
static _Atomic uint64_t words[8];

/* Never stops: with it every read of the shared words may have another result.  The
 * right index comes back now and then, so that there is something to get. */
static void *
scribble(void *arg)
{
    const struct xport_ring *real = arg;

    for (uint64_t i = 0;; i++) {
        uint64_t word = atomic_load_explicit(&words[i % 8], memory_order_relaxed);
        uint64_t index = __atomic_load_n(&real->index, __ATOMIC_RELAXED);
        uint64_t near = index + word % (2 * XPORT_RING_SIZE);

        __atomic_store_n(&shared->head, i % 3 ? near : word, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->tail, i % 3 ? index - word % XPORT_RING_SIZE : word,
                         __ATOMIC_RELAXED);
        __atomic_store_n(&shared->data_wanted, (uint32_t)word, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->room_wanted, (uint32_t)(word >> 8), __ATOMIC_RELAXED);
        __atomic_store_n(&bytes[word % XPORT_RING_SIZE], (uint8_t)i, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void
one(struct xport_ring *ring, uint8_t op, size_t len)
{
    uint8_t *piece = malloc(len ? len : 1), *at = NULL;
    size_t n = 0;
    int64_t got = 0;
    int r;

    if (op % 6 == 0)
        got = xport_ring_get(ring, piece, len);
    if (op % 6 == 1) {
        memset(piece, 1, len);
        got = xport_ring_put(ring, piece, len);
    }
    if (got > (int64_t)len)
        __builtin_trap();
    if (op % 6 == 2 || op % 6 == 3) {
        r = op % 6 == 2 ? xport_ring_peek(ring, op, len, &at, &n)
                        : xport_ring_room(ring, op, len, &at, &n);
        if (r == 0 && (n > len || at < bytes || at + n > bytes + XPORT_RING_SIZE))
            __builtin_trap();
        if (r == 0 && op % 6 == 2 && n)
            memcpy(piece, at, n);
        if (r == 0 && op % 6 == 3 && n)
            memset(at, 2, n);
    }
    if (op % 6 == 4)
        xport_ring_wait_data(ring, gp_now_ns());
    if (op % 6 == 5)
        xport_ring_wait_room(ring, gp_now_ns());
    free(piece);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct xport_ring ring;
    static pthread_t scribbler;

    if (!bytes) {
        shared = calloc(1, sizeof(*shared));
        bytes = malloc(XPORT_RING_SIZE);
        memset(bytes, 0, XPORT_RING_SIZE);
        ring = (struct xport_ring){
            .shared = shared, .bytes = bytes, .closed = &closed, .wakefd = -1};
        if (pthread_create(&scribbler, NULL, scribble, &ring))
            __builtin_trap();
    }
    for (size_t i = 0; i < 8 && size >= 8; i++, data += 8, size -= 8) {
        uint64_t word;

        memcpy(&word, data, 8);
        atomic_store_explicit(&words[i], word, memory_order_relaxed);
    }
    for (size_t i = 0; i + 2 < size && i < 3 * OPS_MAX; i += 3)
        one(&ring, data[i], (size_t)(data[i + 1] | data[i + 2] << 8) % PIECE_MAX);
    return 0;
}
