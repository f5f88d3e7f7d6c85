/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of virtual addresses, handed out in pieces: first fit, lowest
 * address, so that what is in use stays dense.
 *
 * It hands out addresses, not pages; the owner maps.  Lock held.
 */
#ifndef SG_VA_H
#define SG_VA_H

#include <stddef.h>
#include <stdint.h>

struct sg_va_extent {
    uint64_t base, size;
};

struct sg_va {
    uint64_t base, size;
    struct sg_va_extent *free; /* sorted, coalesced */
    size_t n_free, cap;
};

int sg_va_init(struct sg_va *va, uint64_t base, uint64_t size);
void sg_va_fini(struct sg_va *va);

/* 0 when nothing fits; @align is a power of two. */
uint64_t sg_va_take(struct sg_va *va, uint64_t size, uint64_t align);
/* Exactly there; -EEXIST when a part of it is taken. */
int sg_va_take_at(struct sg_va *va, uint64_t base, uint64_t size);
void sg_va_give(struct sg_va *va, uint64_t base, uint64_t size);

#endif
