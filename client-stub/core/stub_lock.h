/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex of one futex word, and bare futex waits.
 *
 * The lock around the queue is taken by every asynchronous call, so it has to cost
 * two atomic instructions when nobody else is there; and libpthread's symbols carry
 * newer versions than the oldest C library we want to load on.  Zero is unlocked:
 * static storage needs no initialiser.  Not recursive, not fair.  Any thread.
 */
#ifndef STUB_LOCK_H
#define STUB_LOCK_H

#include "gp_base.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct stub_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

/* Sleep while *@word is @value; @timeout NULL for ever.  May return early. */
static inline void
stub_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

static inline void
stub_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* The holder is inside a few dozen instructions or inside a write(2): spin for the
 * first, sleep for the second. */
static inline void
stub_lock_slow(struct stub_lock *lock)
{
    for (int i = 0; i < 64; i++) {
        uint32_t free = 0;

        if (atomic_compare_exchange_weak_explicit(
                &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed))
            return;
        gp_cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        stub_futex_wait(&lock->word, 2, NULL);
}

static inline void
stub_lock_take(struct stub_lock *lock)
{
    uint32_t free = 0;

    if (likely(atomic_compare_exchange_strong_explicit(
            &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed)))
        return;
    stub_lock_slow(lock);
}

static inline bool
stub_lock_try(struct stub_lock *lock)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong_explicit(
        &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void
stub_lock_release(struct stub_lock *lock)
{
    if (unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
        stub_futex_wake(&lock->word, 1);
}

#endif
