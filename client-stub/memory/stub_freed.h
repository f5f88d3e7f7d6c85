/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that were device memory and are none any more.
 *
 * A fill or a copy there is wrong, and a driver says so from that very call; here most
 * such calls are sent without asking.  What the program freed stays known until the
 * server hands the addresses out again, so that the verdict on them is awaited
 * (stub_memory_is_plausible()).  Not a proof of anything: what was freed behind our
 * back is not here, and past FREED_MAX ranges nothing is entered.
 *
 * Any thread.
 */
#ifndef STUB_FREED_H
#define STUB_FREED_H

#include "stub_range.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* 4 MiB of entries; programs that hold more addresses than that back reuse them. */
#define STUB_FREED_MAX 65536u

extern _Atomic uint32_t stub_freed_count;

/* Before the server hears of it: it may hand the addresses out at once. */
void stub_freed_add(const struct stub_range *where);

/* The server hands out [start, start + size). */
void stub_freed_forget(uint64_t start, uint64_t size);

bool stub_freed_find(uint64_t addr);

static inline bool
stub_freed_has(uint64_t addr)
{
    return atomic_load_explicit(&stub_freed_count, memory_order_relaxed) != 0 &&
           stub_freed_find(addr);
}

#endif
