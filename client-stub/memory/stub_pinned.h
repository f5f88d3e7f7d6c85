/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory that the worker maps as well, over transports that can share
 * memory (XPORT_CAN_SHARE).
 *
 * Made by cuMemHostAlloc where the link and the worker can; the registry of memory
 * (stub_memory.h) has its number.  Copies from and to it take the path shared_pinned
 * (stub_path_shared_pinned.c). Any thread.
 */
#ifndef STUB_PINNED_H
#define STUB_PINNED_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "stub_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below this an allocation stays private: a number is worth more than the copy. */
#define STUB_PINNED_MIN (256u * 1024)

/* Maps @size bytes, a multiple of the page size, here and at the worker of the
 * current link.  *@ret_number is not 0. NULL: the link cannot, or there is no
 * memory.  If both have it at one address (stub_unified.h), kernels use it, whatever
 * its size. */
void *stub_pinned_new(size_t size, uint32_t *ret_number,
                      enum stub_memory_reach *ret_reach);

/* Pages of the current link's worker at @addr, whole ones: their number, or 0.  leave:
 * they are not needed any more. */
uint32_t stub_pinned_place(uint64_t addr, uint64_t size);
/* The same pages, which a context took out of the driver's sight when it ended.  False:
 * the driver refuses them, or the worker is an older one. */
bool stub_pinned_place_again(uint32_t number, uint64_t addr, uint64_t size);
void stub_pinned_leave(uint32_t link, uint32_t number);

/* It is unmapped here: the worker may free it.  @link is the number of the link. */
void stub_pinned_drop(uint32_t link, uint32_t number);

extern _Atomic uint32_t stub_pinned_count;

static inline bool
stub_pinned_any(void)
{
    return unlikely(atomic_load_explicit(&stub_pinned_count, memory_order_relaxed) !=
                    0);
}

#endif
