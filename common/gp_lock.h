/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex of one futex word, and bare futex waits.
 *
 * The locks around the two ends of a connection are taken by every call, so they have
 * to cost two atomic instructions when nobody else is there, on the page of who takes
 * them; and libpthread's symbols carry newer versions than the oldest C library that
 * the stub loads on.  Zero is unlocked: static storage needs no initialiser.  Not
 * recursive, not fair.  Any thread.
 */
#ifndef GP_LOCK_H
#define GP_LOCK_H

#include "gp_base.h"
#include "gp_syscall.h"
#include "gp_time.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct gp_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

/* Sleep while *@word is @value; @timeout NULL for ever.  May return early. */
static inline void
gp_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
    gp_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)value, (long)timeout);
}

static inline void
gp_futex_wake(_Atomic uint32_t *word, int count)
{
    gp_syscall4(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count, 0);
}

/* The holder is inside a few dozen instructions or inside a write(2): spin for the
 * first, sleep for the second. */
static GP_COLD __attribute__((unused)) void
gp_lock_slow(struct gp_lock *lock)
{
    for (int i = 0; i < 64; i++) {
        uint32_t free = 0;

        if (atomic_compare_exchange_weak_explicit(
                &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed))
            return;
        gp_cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        gp_futex_wait(&lock->word, 2, NULL);
}

static inline void
gp_lock_take(struct gp_lock *lock)
{
    uint32_t free = 0;

    if (likely(atomic_compare_exchange_strong_explicit(
            &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed)))
        return;
    gp_lock_slow(lock);
}

static inline bool
gp_lock_try(struct gp_lock *lock)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong_explicit(
        &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

/* The same for at most about @ns, false if it is still held then: for those who give up
 * what they wanted the lock for. */
static GP_COLD __attribute__((unused)) bool
gp_lock_take_for(struct gp_lock *lock, uint64_t ns)
{
    const uint64_t end = gp_now_ns() + ns;
    struct timespec left;
    uint64_t now;

    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
        now = gp_now_ns();
        if (now >= end)
            return false;
        left = (struct timespec){.tv_sec = (time_t)((end - now) / GP_NS_PER_S),
                                 .tv_nsec = (long)((end - now) % GP_NS_PER_S)};
        gp_futex_wait(&lock->word, 2, &left);
    }
    return true;
}

static inline void
gp_lock_release(struct gp_lock *lock)
{
    if (unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
        gp_futex_wake(&lock->word, 1);
}

#endif
