/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_ring.h"

#include "gp_time.h"
#include "xport_bell.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

/* What one thread sends happens before what another then receives: the answer came from
 * a peer who had seen it.  The thread sanitizer knows that of sockets; of two rings it
 * knows what it is told, by way of the word that the rings of a connection share. */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define SENT(ring) __tsan_release((void *)(uintptr_t)(ring)->closed)
#define RECEIVED(ring) __tsan_acquire((void *)(uintptr_t)(ring)->closed)
#else
#define SENT(ring) ((void)0)
#define RECEIVED(ring) ((void)0)
#endif

/* The memory is shared between processes, so these are not FUTEX_PRIVATE. */
static inline long
futex(uint32_t *word, int op, uint32_t val, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, val, timeout, NULL, 0);
}

/* Index and flag are written and read in sequentially consistent order throughout: here
 * index, then flag; the sleeper flag, then index (xport_ring_wait_*).  So one sees the
 * other. */
static inline void
wake(uint32_t *word, int bell)
{
    uint32_t how;

    if (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
        return;
    how = __atomic_exchange_n(word, XPORT_RING_AWAKE, __ATOMIC_SEQ_CST);
    if (how == XPORT_RING_ON_BELL && bell >= 0)
        xport_bell_ring(bell);
    else if (how != XPORT_RING_AWAKE)
        futex(word, FUTEX_WAKE, 1, NULL);
}

/* A call or an answer is a few words: not worth a call to the C library. */
#define WORDS_MAX 192

static inline void
copy(uint8_t *to, const uint8_t *from, size_t n)
{
    if (likely(n <= WORDS_MAX && n % 8 == 0)) {
        for (size_t i = 0; i < n; i += 8) {
            uint64_t word;

            memcpy(&word, from + i, 8);
            memcpy(to + i, &word, 8);
        }
        return;
    }
    memcpy(to, from, n);
}

/* Bytes in the ring as the producer sees them, or -1. */
static inline int64_t
used_by_producer(const struct xport_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->shared->tail, __ATOMIC_SEQ_CST);
    uint64_t used = ring->index - tail;

    return used > XPORT_RING_SIZE ? -1 : (int64_t)used;
}

static inline int64_t
used_by_consumer(const struct xport_ring *ring)
{
    uint64_t head = __atomic_load_n(&ring->shared->head, __ATOMIC_SEQ_CST);
    uint64_t used = head - ring->index;

    RECEIVED(ring);
    return used > XPORT_RING_SIZE ? -1 : (int64_t)used;
}

int
xport_ring_room(const struct xport_ring *ring, size_t ahead, size_t len, uint8_t **ret,
                size_t *ret_n)
{
    int64_t used = used_by_producer(ring);
    size_t at = (ring->index + ahead) % XPORT_RING_SIZE;

    if (used < 0 || (size_t)used + ahead > XPORT_RING_SIZE)
        return -EPROTO;
    len = gp_min(len, XPORT_RING_SIZE - (size_t)used - ahead);
    *ret = ring->bytes + at;
    *ret_n = gp_min(len, XPORT_RING_SIZE - at);
    return 0;
}

GP_HOT void
xport_ring_push(struct xport_ring *ring, size_t n)
{
    ring->index += n;
    SENT(ring);
    __atomic_store_n(&ring->shared->head, ring->index, __ATOMIC_SEQ_CST);
    wake(&ring->shared->data_wanted, ring->bell);
}

int
xport_ring_peek(const struct xport_ring *ring, size_t ahead, size_t len, uint8_t **ret,
                size_t *ret_n)
{
    int64_t used = used_by_consumer(ring);
    size_t at = (ring->index + ahead) % XPORT_RING_SIZE;

    if (used < 0 || (size_t)used < ahead)
        return -EPROTO;
    len = gp_min(len, (size_t)used - ahead);
    *ret = ring->bytes + at;
    *ret_n = gp_min(len, XPORT_RING_SIZE - at);
    return 0;
}

/* Waking the producer for every few bytes would make the two take turns: wait until
 * half of the ring is free. */
static inline void
drop(struct xport_ring *ring, size_t used, size_t n)
{
    ring->index += n;
    __atomic_store_n(&ring->shared->tail, ring->index, __ATOMIC_SEQ_CST);
    if (used - n <= XPORT_RING_SIZE / 2)
        wake(&ring->shared->room_wanted, -1);
}

void
xport_ring_drop(struct xport_ring *ring, size_t n)
{
    drop(ring, (size_t)gp_max(used_by_consumer(ring), (int64_t)n), n);
}

GP_HOT int
xport_ring_put(struct xport_ring *ring, const void *data, size_t len, size_t *ret_n)
{
    int64_t used = used_by_producer(ring);
    size_t at = ring->index % XPORT_RING_SIZE, first;

    if (unlikely(used < 0))
        return -EPROTO;
    len = gp_min(len, XPORT_RING_SIZE - (size_t)used);
    first = gp_min(len, XPORT_RING_SIZE - at);
    copy(ring->bytes + at, data, first);
    if (unlikely(first < len))
        memcpy(ring->bytes, (const uint8_t *)data + first, len - first);
    if (len)
        xport_ring_push(ring, len);
    *ret_n = len;
    return 0;
}

GP_HOT int
xport_ring_get(struct xport_ring *ring, void *buf, size_t len, size_t *ret_n)
{
    int64_t used = used_by_consumer(ring);
    size_t at = ring->index % XPORT_RING_SIZE, first;

    if (unlikely(used < 0))
        return -EPROTO;
    len = gp_min(len, (size_t)used);
    *ret_n = len;
    if (!len)
        return 0;
    first = gp_min(len, XPORT_RING_SIZE - at);
    copy(buf, ring->bytes + at, first);
    if (unlikely(first < len))
        memcpy((uint8_t *)buf + first, ring->bytes, len - first);
    drop(ring, (size_t)used, len);
    return 0;
}

/* Who closes sets the flag, then clears the word and wakes; here the word was set
 * before the flag is read: one sees the other. */
GP_HOT static int
sleep_on(const struct xport_ring *ring, uint32_t *word, uint64_t deadline_ns)
{
    struct timespec ts, *timeout = NULL;

    if (atomic_load(ring->closed))
        return 0;
    if (deadline_ns != GP_FOREVER) {
        uint64_t now = gp_now_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

        ts =
            (struct timespec){(time_t)(left / GP_NS_PER_S), (long)(left % GP_NS_PER_S)};
        timeout = &ts;
    }
    if (futex(word, FUTEX_WAIT, 1, timeout) < 0 && errno == ETIMEDOUT)
        return -ETIMEDOUT;
    return 0;
}

int
xport_ring_wait_room(struct xport_ring *ring, uint64_t deadline_ns)
{
    int64_t used;

    __atomic_store_n(&ring->shared->room_wanted, XPORT_RING_ON_FUTEX, __ATOMIC_SEQ_CST);
    used = used_by_producer(ring);
    if (used < 0)
        return -EPROTO;
    if (used <= XPORT_RING_SIZE / 2)
        return 0;
    return sleep_on(ring, &ring->shared->room_wanted, deadline_ns);
}

bool
xport_ring_empty(const struct xport_ring *ring)
{
    return used_by_consumer(ring) == 0;
}

/* One that does not work is one that there is not. */
GP_HOT static int
sleep_on_bell(struct xport_ring *ring)
{
    if (!atomic_load(ring->closed) && unlikely(xport_bell_wait(ring->bell) < 0))
        ring->bell = -1;
    return 0;
}

GP_HOT int
xport_ring_wait_data(struct xport_ring *ring, uint64_t deadline_ns)
{
    uint32_t *wanted = &ring->shared->data_wanted;
    bool bell = ring->bell >= 0 && deadline_ns == GP_FOREVER;

    __atomic_store_n(wanted, bell ? XPORT_RING_ON_BELL : XPORT_RING_ON_FUTEX,
                     __ATOMIC_SEQ_CST);
    if (used_by_consumer(ring))
        return 0;
    return bell ? sleep_on_bell(ring) : sleep_on(ring, wanted, deadline_ns);
}

void
xport_ring_kick(struct xport_ring *ring)
{
    __atomic_store_n(&ring->shared->room_wanted, XPORT_RING_AWAKE, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->shared->data_wanted, XPORT_RING_AWAKE, __ATOMIC_SEQ_CST);
    futex(&ring->shared->room_wanted, FUTEX_WAKE, INT32_MAX, NULL);
    futex(&ring->shared->data_wanted, FUTEX_WAKE, INT32_MAX, NULL);
    if (ring->bell >= 0)
        xport_bell_kick(ring->bell);
}
