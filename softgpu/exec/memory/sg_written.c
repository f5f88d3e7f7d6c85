/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bits for pages that were written; see sg_written.h.
 *
 * A flat directory has a pointer for each 16 MiB of addresses; a page of the directory
 * and the bits of a region exist once the region is watched, and stay.
 */
#include "sg_written.h"

#include "gp_base.h"
#include "sg_map_zero.h"

#include <errno.h>
#include <pthread.h>

#define VA_BITS 48
#define REGION_BITS 24
#define N_REGIONS (1ull << (VA_BITS - REGION_BITS))
#define PAGE SG_WRITTEN_PAGE
#define WORDS ((1u << REGION_BITS) / PAGE / 64)

struct region {
    uint64_t watched[WORDS], written[WORDS];
};

static struct region **regions; /* NULL: nothing was ever watched */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* while one is made */

static struct region *
region_find(uint64_t addr)
{
    struct region **all = __atomic_load_n(&regions, __ATOMIC_ACQUIRE);

    if (likely(!all) || addr >> VA_BITS)
        return NULL;
    return __atomic_load_n(&all[addr >> REGION_BITS], __ATOMIC_ACQUIRE);
}

static struct region *
region_make(uint64_t addr)
{
    struct region *region = NULL;
    struct region **all;

    if (addr >> VA_BITS)
        return NULL;
    pthread_mutex_lock(&lock);
    all = regions;
    if (!all && (all = sg_map_zero(N_REGIONS * sizeof(*all))))
        __atomic_store_n(&regions, all, __ATOMIC_RELEASE);
    if (all) {
        region = all[addr >> REGION_BITS];
        if (!region && (region = sg_map_zero(sizeof(*region))))
            __atomic_store_n(&all[addr >> REGION_BITS], region, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return region;
}

/* One word's worth of the pages in [addr, end), which are up to 64 of one region. */
struct part {
    struct region *region;
    uint32_t word, shift;
    uint64_t mask;
    uint64_t next; /* the address behind them */
};

static struct part
part_at(uint64_t addr, uint64_t end)
{
    uint64_t page = addr / PAGE, n = 64 - page % 64;
    uint64_t left = (end - 1) / PAGE - page + 1;

    n = gp_min(n, left);
    return (struct part){
        .region = region_find(addr),
        .word = (uint32_t)(page / 64 % WORDS),
        .shift = (uint32_t)(page % 64),
        .mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << page % 64,
        .next = gp_min((page + n) * PAGE, end),
    };
}

int
sg_written_watch(uint64_t addr, uint64_t len)
{
    const uint64_t end = addr + len;

    for (uint64_t at = addr; at < end;) {
        struct part p;

        if (!region_make(at))
            return -ENOMEM;
        p = part_at(at, end);
        __atomic_fetch_and(&p.region->written[p.word], ~p.mask, __ATOMIC_SEQ_CST);
        __atomic_fetch_or(&p.region->watched[p.word], p.mask, __ATOMIC_SEQ_CST);
        at = p.next;
    }
    return 0;
}

void
sg_written_forget(uint64_t addr, uint64_t len)
{
    const uint64_t end = addr + len;

    for (uint64_t at = addr; at < end;) {
        struct part p = part_at(at, end);

        if (p.region)
            __atomic_fetch_and(&p.region->written[p.word], ~p.mask, __ATOMIC_SEQ_CST);
        at = p.next;
    }
}

void
sg_written_unwatch(uint64_t addr, uint64_t len)
{
    const uint64_t end = addr + len;

    for (uint64_t at = addr; at < end;) {
        struct part p = part_at(at, end);

        if (p.region) {
            __atomic_fetch_and(&p.region->watched[p.word], ~p.mask, __ATOMIC_SEQ_CST);
            __atomic_fetch_and(&p.region->written[p.word], ~p.mask, __ATOMIC_SEQ_CST);
        }
        at = p.next;
    }
}

void
sg_written_mark(uint64_t addr, uint64_t len)
{
    const uint64_t end = addr + len;

    if (likely(!__atomic_load_n(&regions, __ATOMIC_RELAXED)))
        return;
    for (uint64_t at = addr; at < end;) {
        struct part p = part_at(at, end);

        if (p.region) {
            p.mask &= __atomic_load_n(&p.region->watched[p.word], __ATOMIC_RELAXED);
            if (p.mask & ~__atomic_load_n(&p.region->written[p.word], __ATOMIC_RELAXED))
                __atomic_fetch_or(&p.region->written[p.word], p.mask, __ATOMIC_SEQ_CST);
        }
        at = p.next;
    }
}

/* The pages of @bits (one word's, from the address @base on) as runs that continue the
 * last one.  Returns the bits for which there was no room. */
static uint64_t
runs_add(uint64_t base, uint64_t bits, uint64_t from, uint64_t end,
         struct sg_written_run *runs, size_t *n, size_t max)
{
    while (bits) {
        const unsigned first = (unsigned)__builtin_ctzll(bits);
        const uint64_t lo = gp_max(base + (uint64_t)first * PAGE, from);
        const uint64_t hi = gp_min(base + (uint64_t)(first + 1) * PAGE, end);

        if (*n && runs[*n - 1].addr + runs[*n - 1].len == lo)
            runs[*n - 1].len += hi - lo;
        else if (*n < max)
            runs[(*n)++] = (struct sg_written_run){lo, hi - lo};
        else
            break;
        bits &= bits - 1;
    }
    return bits;
}

size_t
sg_written_take(uint64_t *addr, uint64_t end, struct sg_written_run *runs, size_t max)
{
    const uint64_t from = *addr;
    size_t n = 0;

    while (*addr < end) {
        const struct part p = part_at(*addr, end);
        uint64_t bits = 0, left;

        if (p.region && __atomic_load_n(&p.region->written[p.word], __ATOMIC_RELAXED))
            bits = __atomic_fetch_and(&p.region->written[p.word], ~p.mask,
                                      __ATOMIC_SEQ_CST) &
                   p.mask;
        left =
            runs_add((*addr / PAGE - p.shift) * PAGE, bits, from, end, runs, &n, max);
        if (left) {
            __atomic_fetch_or(&p.region->written[p.word], left, __ATOMIC_SEQ_CST);
            *addr = (*addr / PAGE - p.shift + (unsigned)__builtin_ctzll(left)) * PAGE;
            return n;
        }
        *addr = p.next;
    }
    return n;
}
