/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit over a sorted array of free extents.  A linear scan: a program with
 * thousands of holes of different sizes pays microseconds, others nothing.
 */
#include "sg_va.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
sg_va_init(struct sg_va *va, uint64_t base, uint64_t size)
{
    *va = (struct sg_va){.base = base, .size = size, .cap = 64};
    va->free = malloc(va->cap * sizeof(*va->free));
    if (!va->free)
        return -ENOMEM;
    va->free[0] = (struct sg_va_extent){base, size};
    va->n_free = 1;
    return 0;
}

void
sg_va_fini(struct sg_va *va)
{
    free(va->free);
    memset(va, 0, sizeof(*va));
}

/* Room for @extra more extents. */
static int
va_reserve(struct sg_va *va, size_t extra)
{
    struct sg_va_extent *p;

    if (va->n_free + extra <= va->cap)
        return 0;
    p = realloc(va->free, va->cap * 2 * sizeof(*p));
    if (!p)
        return -ENOMEM;
    va->free = p;
    va->cap *= 2;
    return 0;
}

static void
extent_remove(struct sg_va *va, size_t i)
{
    memmove(&va->free[i], &va->free[i + 1], (va->n_free - i - 1) * sizeof(*va->free));
    va->n_free--;
}

static void
extent_insert(struct sg_va *va, size_t i, uint64_t base, uint64_t size)
{
    memmove(&va->free[i + 1], &va->free[i], (va->n_free - i) * sizeof(*va->free));
    va->free[i] = (struct sg_va_extent){base, size};
    va->n_free++;
}

/* Cuts [base, base + size) out of extent @i, which holds it. */
static void
extent_cut(struct sg_va *va, size_t i, uint64_t base, uint64_t size)
{
    uint64_t before = base - va->free[i].base;
    uint64_t after = va->free[i].size - before - size;

    if (before && after) {
        va->free[i].size = before;
        extent_insert(va, i + 1, base + size, after);
    } else if (before) {
        va->free[i].size = before;
    } else if (after) {
        va->free[i] = (struct sg_va_extent){base + size, after};
    } else {
        extent_remove(va, i);
    }
}

uint64_t
sg_va_take(struct sg_va *va, uint64_t size, uint64_t align)
{
    if (!size || va_reserve(va, 1) < 0)
        return 0;
    for (size_t i = 0; i < va->n_free; i++) {
        uint64_t start = (va->free[i].base + align - 1) & ~(align - 1);
        uint64_t end = va->free[i].base + va->free[i].size;

        if (start > end || end - start < size)
            continue;
        extent_cut(va, i, start, size);
        return start;
    }
    return 0;
}

int
sg_va_take_at(struct sg_va *va, uint64_t base, uint64_t size)
{
    if (va_reserve(va, 1) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < va->n_free; i++) {
        const struct sg_va_extent *e = &va->free[i];

        if (base < e->base || size > e->size || base - e->base > e->size - size)
            continue;
        extent_cut(va, i, base, size);
        return 0;
    }
    return -EEXIST;
}

void
sg_va_give(struct sg_va *va, uint64_t base, uint64_t size)
{
    size_t lo = 0, hi = va->n_free;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (va->free[mid].base < base)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo > 0 && va->free[lo - 1].base + va->free[lo - 1].size == base) {
        va->free[lo - 1].size += size;
        if (lo < va->n_free && base + size == va->free[lo].base) {
            va->free[lo - 1].size += va->free[lo].size;
            extent_remove(va, lo);
        }
    } else if (lo < va->n_free && base + size == va->free[lo].base) {
        va->free[lo].base = base;
        va->free[lo].size += size;
    } else if (va_reserve(va, 1) == 0) {
        extent_insert(va, lo, base, size);
    }
    /* Out of host memory for one extent: the addresses are lost to reuse, which
     * costs virtual space only. */
}
