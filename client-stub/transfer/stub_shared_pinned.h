/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is host memory page-locked memory that the worker has mapped, too (stub_pinned.h), so
 * that the device itself can copy from and to it?
 *
 * Linear copies use it by the path shared_pinned.  Arrays, rectangles and asynchronous
 * copies to the host take other paths.  No state.  Any thread.
 */
#ifndef STUB_SHARED_PINNED_H
#define STUB_SHARED_PINNED_H

#include "stub_pinned.h"

#include <stdbool.h>
#include <stdint.h>

/* @n bytes at @offset of the memory that the worker knows as @id. */
struct stub_pinned_place {
    uint32_t id;
    uint64_t offset, n;
};

bool stub_shared_pinned_find(const void *host, uint64_t n,
                             struct stub_pinned_place *ret);

/* Does [host, host + n) lie in such memory of the current link, and may it be used? */
static inline bool
stub_pinned_find(const void *host, uint64_t n, struct stub_pinned_place *ret)
{
    return stub_pinned_any() && stub_shared_pinned_find(host, n, ret);
}

#endif
