/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of the spare blocks of a link: memory that the program has freed and
 * the server still has (stub_spare.h).
 *
 * Every frame that is sent while there are some is searched for them, because a call
 * that names such an address must find it freed.  The owner writes under a lock of its
 * own; whoever searches takes none.  A thread that searches while another one frees or
 * allocates the very block that it names may miss it: such a program has a race of its
 * own.
 */
#ifndef STUB_SPARE_RANGES_H
#define STUB_SPARE_RANGES_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As many as each word of a frame can be compared with in some ten nanoseconds. */
#define STUB_SPARES_MAX 32u

struct stub_spare_ranges {
    _Atomic uint32_t n; /* places in use, or that were; 0: there is no spare block */
    _Atomic uint64_t low, high; /* all of them are in [low, high) */
    struct {
        _Atomic uint64_t start, size; /* size 0: an empty place */
    } at[STUB_SPARES_MAX];
};

/* Is @addr in one of them? */
static inline bool
stub_spare_ranges_hold(const struct stub_spare_ranges *r, uint64_t addr)
{
    uint32_t n = atomic_load_explicit(&r->n, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++)
        if (addr - atomic_load_explicit(&r->at[i].start, memory_order_relaxed) <
            atomic_load_explicit(&r->at[i].size, memory_order_relaxed))
            return true;
    return false;
}

/* Does one of the @n bytes' words, which are aligned as addresses are, name one? */
static inline bool
stub_spare_ranges_named(const struct stub_spare_ranges *r, const void *bytes, size_t n)
{
    uint64_t low, span, word;

    if (atomic_load_explicit(&r->n, memory_order_acquire) == 0)
        return false;
    low = atomic_load_explicit(&r->low, memory_order_relaxed);
    span = atomic_load_explicit(&r->high, memory_order_relaxed) - low;
    for (size_t i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
        memcpy(&word, (const char *)bytes + i, sizeof(word));
        if (unlikely(word - low < span) && stub_spare_ranges_hold(r, word))
            return true;
    }
    return false;
}

/* Enter a block at an empty place, under the owner's lock. */
static inline void
stub_spare_ranges_enter(struct stub_spare_ranges *r, uint32_t i, uint64_t start,
                        uint64_t size)
{
    uint32_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
    uint64_t low = atomic_load_explicit(&r->low, memory_order_relaxed);
    uint64_t high = atomic_load_explicit(&r->high, memory_order_relaxed);

    atomic_store_explicit(&r->at[i].start, start, memory_order_relaxed);
    atomic_store_explicit(&r->at[i].size, size, memory_order_relaxed);
    atomic_store_explicit(&r->low, n ? gp_min(low, start) : start,
                          memory_order_relaxed);
    atomic_store_explicit(&r->high, n ? gp_max(high, start + size) : start + size,
                          memory_order_relaxed);
    atomic_store_explicit(&r->n, gp_max(n, i + 1), memory_order_release);
}

/* Empty a place.  The bounds need a look at all places only where it was at one. */
static inline void
stub_spare_ranges_clear(struct stub_spare_ranges *r, uint32_t i)
{
    uint64_t start = atomic_load_explicit(&r->at[i].start, memory_order_relaxed);
    uint64_t size = atomic_load_explicit(&r->at[i].size, memory_order_relaxed);
    uint32_t n = 0, most = atomic_load_explicit(&r->n, memory_order_relaxed);
    uint64_t low = UINT64_MAX, high = 0;

    atomic_store_explicit(&r->at[i].size, 0, memory_order_relaxed);
    if (i + 1 < most && start != atomic_load_explicit(&r->low, memory_order_relaxed) &&
        start + size != atomic_load_explicit(&r->high, memory_order_relaxed))
        return;
    for (uint32_t k = 0; k < most; k++) {
        uint64_t from = atomic_load_explicit(&r->at[k].start, memory_order_relaxed);
        uint64_t len = atomic_load_explicit(&r->at[k].size, memory_order_relaxed);

        if (!len)
            continue;
        low = gp_min(low, from);
        high = gp_max(high, from + len);
        n = k + 1;
    }
    atomic_store_explicit(&r->low, low, memory_order_relaxed);
    atomic_store_explicit(&r->high, high, memory_order_relaxed);
    atomic_store_explicit(&r->n, n, memory_order_release);
}

#endif
