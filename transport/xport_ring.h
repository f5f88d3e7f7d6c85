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
#include "gp_syscall.h"
#include "gp_words.h"
#include "xport_wakefd.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* Small enough that a ring and what is copied to and from it stay in a core's L2, large
 * enough that producer and consumer do not take turns too often (measured). */
#define XPORT_RING_SIZE (512u << 10)
/* A consumer that has emptied the ring publishes its tail once in so many bytes.  Each
 * store to the tail has to fetch the cache line from the producer's core, and the
 * answer to the call that was just taken out would wait for that store.  Less than half
 * of the ring, because a producer sleeps until half of it is free. */
#define XPORT_RING_LAG (XPORT_RING_SIZE / 8)

enum xport_ring_sleep {
    XPORT_RING_AWAKE,
    XPORT_RING_ON_FUTEX, /* on the word that says so */
    XPORT_RING_ON_WAKEFD,
};

/* Up to so many bytes that are published at once lie in the head's cache line as well.
 */
#define XPORT_RING_INLINE 40u

/* In shared memory; a cache line each for what the two sides write. */
struct xport_ring_shared {
    uint64_t head;        /* bytes produced; written by the producer */
    uint32_t room_wanted; /* futex: the producer sleeps until there is room */
    uint32_t pad0;
    uint64_t inline_is; /* which bytes of the ring the inline words are, in the form of
                           xport_ring_inline_name(); 0: none */
    uint64_t inline_words[XPORT_RING_INLINE / 8];
    uint64_t tail;        /* bytes consumed; written by the consumer */
    uint32_t data_wanted; /* enum xport_ring_sleep: the consumer sleeps until there is
                             data */
    uint32_t data_core;   /* the core on which it last slept for a payload, plus one; 0:
                             unknown.  A hint */
    uint8_t pad1[48];
};
static_assert(sizeof(struct xport_ring_shared) == 128, "shared layout");
static_assert(offsetof(struct xport_ring_shared, tail) == 64, "shared layout");

/* One side's view. */
struct xport_ring {
    struct xport_ring_shared *shared;
    uint8_t *bytes;            /* XPORT_RING_SIZE */
    uint64_t index;            /* our own: head of the producer, tail of the consumer */
    uint64_t tail;             /* in shared memory: as the producer last read it, as the
                                  consumer last wrote it */
    const atomic_bool *closed; /* set before xport_ring_kick(): do not sleep any more */
    int wakefd; /* the consumer's, borrowed; -1: none, which a consumer may find out
                 while any thread kicks */
};

/* What one thread sends happens before what another then receives: the answer came from
 * a peer who had seen it.  The thread sanitizer knows that of sockets; of two rings it
 * knows what it is told, by way of the word that the rings of a connection share. */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define XPORT_RING_SENT(ring) __tsan_release((void *)(uintptr_t)(ring)->closed)
#define XPORT_RING_RECEIVED(ring) __tsan_acquire((void *)(uintptr_t)(ring)->closed)
#else
#define XPORT_RING_SENT(ring) ((void)0)
#define XPORT_RING_RECEIVED(ring) ((void)0)
#endif

/* --- calls and answers: on the way of each of them, so inline ------------------------
 */

/* The memory is shared between processes, so these are not FUTEX_PRIVATE. */
static GP_INLINE long
xport_ring_futex(uint32_t *word, int op, uint32_t val, const struct timespec *timeout)
{
    return gp_syscall4(SYS_futex, (long)word, op, (long)val, (long)timeout);
}

/* Who sleeps on @word is woken.  No exchange: should its owner have slept anew since
 * the first look, it is woken by this all the same, and looks again; for it always
 * sleeps in the same way. */
static GP_INLINE void
xport_ring_wake(uint32_t *word, int wakefd)
{
    uint32_t how = __atomic_load_n(word, __ATOMIC_SEQ_CST);

    if (!how)
        return;
    __atomic_store_n(word, XPORT_RING_AWAKE, __ATOMIC_RELAXED);
    if (likely(how == XPORT_RING_ON_WAKEFD && wakefd >= 0))
        xport_wakefd_wake(wakefd);
    else
        xport_ring_futex(word, FUTEX_WAKE, 1, NULL);
}

/* Bytes in the ring as the producer sees them, or -1. */
static GP_INLINE int64_t
xport_ring_used_by_producer(struct xport_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->shared->tail, __ATOMIC_SEQ_CST);
    uint64_t used = ring->index - tail;

    if (unlikely(used > XPORT_RING_SIZE))
        return -1;
    ring->tail = tail;
    return (int64_t)used;
}

/* The same, but with the tail that the producer read last if @len bytes fit even so.
 * Both numbers are private to the producer, so there is nothing to check. */
static GP_INLINE int64_t
xport_ring_used_for(struct xport_ring *ring, size_t len)
{
    uint64_t used = ring->index - ring->tail;

    if (likely(len <= XPORT_RING_SIZE - used))
        return (int64_t)used;
    return xport_ring_used_by_producer(ring);
}

static GP_INLINE int64_t
xport_ring_used_by_consumer(const struct xport_ring *ring)
{
    uint64_t head = __atomic_load_n(&ring->shared->head, __ATOMIC_SEQ_CST);
    uint64_t used = head - ring->index;

    XPORT_RING_RECEIVED(ring);
    return used > XPORT_RING_SIZE ? -1 : (int64_t)used;
}

/* A store that comes before all later loads.  An exchange would do that too, but
 * fetches its cache line only after the earlier stores, those of the frame, have
 * fetched theirs.
 */
static GP_INLINE void
xport_ring_publish(uint64_t *word, uint64_t value)
{
#if defined(__SANITIZE_THREAD__) /* which knows no fences */
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Bytes of the ring: the next @n, at most XPORT_RING_INLINE, of @ring. */
static GP_INLINE uint64_t
xport_ring_inline_name(const struct xport_ring *ring, size_t n)
{
    return ring->index << 6 | n;
}

/* The next @n bytes at @data, whole words and at most XPORT_RING_INLINE, go beside the
 * head as well as into the ring: a consumer that polls the head need not fetch a second
 * cache line for them.  Their name comes first, and each store is ordered behind the
 * one before: a consumer that finds the same name before and after it has read the
 * words, of bytes that have been published, has read those that the name means. */
static GP_INLINE void
xport_ring_put_inline(struct xport_ring *ring, const void *data, size_t n)
{
    struct xport_ring_shared *s = ring->shared;

    __atomic_store_n(&s->inline_is, xport_ring_inline_name(ring, n), __ATOMIC_RELAXED);
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t word;

        memcpy(&word, (const uint8_t *)data + 8 * i, 8);
        __atomic_store_n(&s->inline_words[i], word, __ATOMIC_RELEASE);
    }
}

/* The next @n bytes, all that there are, from beside the head; false: they are not
 * there. */
static GP_INLINE bool
xport_ring_get_inline(const struct xport_ring *ring, void *buf, size_t n)
{
    struct xport_ring_shared *s = ring->shared;
    uint64_t name = xport_ring_inline_name(ring, n);

    if (n > XPORT_RING_INLINE || n % 8 ||
        __atomic_load_n(&s->inline_is, __ATOMIC_ACQUIRE) != name)
        return false;
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t word = __atomic_load_n(&s->inline_words[i], __ATOMIC_ACQUIRE);

        memcpy((uint8_t *)buf + 8 * i, &word, 8);
    }
    return __atomic_load_n(&s->inline_is, __ATOMIC_RELAXED) == name;
}

/* The next @n bytes are the consumer's.  Index and flag are written and read in
 * sequentially consistent order: here index, then flag; the sleeper flag, then index
 * (xport_ring_wait_data).  So one sees the other. */
static GP_INLINE void
xport_ring_push(struct xport_ring *ring, size_t n)
{
    ring->index += n;
    XPORT_RING_SENT(ring);
    xport_ring_publish(&ring->shared->head, ring->index);
    xport_ring_wake(&ring->shared->data_wanted, ring->wakefd);
}

/* Back to the producer, who is woken when half of the ring is free: for every few bytes
 * the two would take turns.  Nothing orders index and flag here, so once in a while
 * they miss each other; therefore who waits for room looks again by himself. */
static GP_INLINE void
xport_ring_drop_of(struct xport_ring *ring, size_t used, size_t n)
{
    ring->index += n;
    if (used == n && ring->index - ring->tail < XPORT_RING_LAG)
        return;
    ring->tail = ring->index;
    __atomic_store_n(&ring->shared->tail, ring->index, __ATOMIC_RELEASE);
    if (unlikely(__atomic_load_n(&ring->shared->room_wanted, __ATOMIC_RELAXED)) &&
        used - n <= XPORT_RING_SIZE / 2)
        xport_ring_wake(&ring->shared->room_wanted, -1);
}

/* Are @n bytes from (to) @at on few, whole words, and in one piece? */
static GP_INLINE bool
xport_ring_is_small(size_t at, size_t n)
{
    return n <= GP_WORDS_MAX && n % 8 == 0 && n <= XPORT_RING_SIZE - at;
}

/* Copies of any size and place; @len fits. */
void xport_ring_copy_in(struct xport_ring *ring, size_t at, const void *data,
                        size_t len);
void xport_ring_copy_out(const struct xport_ring *ring, size_t at, void *buf,
                         size_t len);

/* Copy in what fits and publish it; how much.  -EPROTO: the other side broke the rules.
 */
static GP_INLINE int64_t
xport_ring_put(struct xport_ring *ring, const void *data, size_t len)
{
    int64_t used = xport_ring_used_for(ring, len);
    size_t at = ring->index % XPORT_RING_SIZE;

    if (unlikely(used < 0))
        return -EPROTO;
    if (likely(xport_ring_is_small(at, len) && len <= XPORT_RING_SIZE - (size_t)used)) {
        gp_words_copy(ring->bytes + at, data, len);
        if (len <= XPORT_RING_INLINE)
            xport_ring_put_inline(ring, data, len);
    } else {
        len = gp_min(len, XPORT_RING_SIZE - (size_t)used);
        xport_ring_copy_in(ring, at, data, len);
    }
    if (likely(len))
        xport_ring_push(ring, len);
    return (int64_t)len;
}

/* The same for several pieces, which are published together: the consumer is not woken
 * for a frame whose payload is not there yet. */
int64_t xport_ring_put_all(struct xport_ring *ring, const struct iovec *iov,
                           size_t n_iov);

/* Copy out what is there, at most @len bytes; how much.  -EPROTO. */
static GP_INLINE int64_t
xport_ring_get(struct xport_ring *ring, void *buf, size_t len)
{
    int64_t used = xport_ring_used_by_consumer(ring);
    size_t at = ring->index % XPORT_RING_SIZE;

    if (used <= 0)
        return used < 0 ? -EPROTO : 0;
    len = gp_min(len, (size_t)used);
    if (len == (size_t)used && xport_ring_get_inline(ring, buf, len))
        ;
    else if (likely(xport_ring_is_small(at, len)))
        gp_words_copy(buf, ring->bytes + at, len);
    else
        xport_ring_copy_out(ring, at, buf, len);
    xport_ring_drop_of(ring, (size_t)used, len);
    return (int64_t)len;
}

/* Announce that the consumer sleeps on its wake-up descriptor.  False: there is no need
 * to. */
static GP_INLINE bool
xport_ring_before_wakefd(const struct xport_ring *ring)
{
    __atomic_store_n(&ring->shared->data_wanted, XPORT_RING_ON_WAKEFD,
                     __ATOMIC_SEQ_CST);
    return xport_ring_used_by_consumer(ring) == 0 && !atomic_load(ring->closed);
}

/* Sleep on the wakefd, of a ring that has one, until there is data; may end early.  One
 * that does not work is one that there is not. */
static GP_INLINE void
xport_ring_wait_wakefd(struct xport_ring *ring)
{
    if (xport_ring_before_wakefd(ring) && unlikely(xport_wakefd_wait(ring->wakefd) < 0))
        __atomic_store_n(&ring->wakefd, -1, __ATOMIC_RELAXED);
}

/* --- the rest
 * -------------------------------------------------------------------------
 */

/* Where the bytes lie, @ahead bytes after the next one to get (put), as far as they are
 * there (there is room) without a break, at most @len; *ret_n may be 0.  They are the
 * other side's until xport_ring_push(), ours until xport_ring_drop(). */
int xport_ring_peek(const struct xport_ring *ring, size_t ahead, size_t len,
                    uint8_t **ret, size_t *ret_n);
int xport_ring_room(struct xport_ring *ring, size_t ahead, size_t len, uint8_t **ret,
                    size_t *ret_n);
void xport_ring_drop(struct xport_ring *ring, size_t n);

/* xport_ring_push() of a part of a payload.  @more: the next part follows at once. Then
 * a consumer that sleeps on this core stays asleep until a push without @more, or until
 * the producer calls xport_ring_wake() before it waits: woken now, it would interrupt
 * the producer, take out this part, and sleep again. */
void xport_ring_push_bulk(struct xport_ring *ring, size_t n, bool more);

/* Is it empty?  (A broken index counts as data: the read reports it.) */
bool xport_ring_empty(const struct xport_ring *ring);

/* Sleep until there is room (data), the deadline passes, or the ring is closed and
 * kicked; spurious returns happen.  -ETIMEDOUT. */
int xport_ring_wait_room(struct xport_ring *ring, uint64_t deadline_ns);
int xport_ring_wait_data(struct xport_ring *ring, uint64_t deadline_ns);

/* Wake all sleepers of this ring, on both sides. */
void xport_ring_kick(struct xport_ring *ring);

#endif
