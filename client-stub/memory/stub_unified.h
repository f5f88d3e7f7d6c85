/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that host and device have in common: page-locked memory of this process is
 * in one range of addresses that the worker keeps free, too, so that it can have the
 * memory, or a copy of it, at the same address.
 *
 * The range is reserved, and offered to each server, when the program first allocates
 * such memory.  Over shared memory the worker maps the pages themselves
 * (stub_pinned.h). Otherwise it makes pages of its own for an allocation whose address
 * is sent to a device, as an argument or in memory: every frame is searched for such
 * addresses while there are allocations that no device knows (stub_managed.h moves the
 * changes). An address that gets to a device in any other way is an illegal one there.
 *
 * Programs without such memory pay one branch per call.  Any thread.
 */
#ifndef STUB_UNIFIED_H
#define STUB_UNIFIED_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_feature;
struct stub_link;

/* Addresses, no memory: many times what a worker keeps for a client. */
#define STUB_UNIFIED_SIZE (UINT64_C(64) << 30)

/* Have the range, if this process and all servers have one free; once. */
bool stub_unified_open(void);

/* Is there one? */
bool stub_unified_any(void);

/* @size bytes there, whole pages; 0 when there is no room.  hold: without access.  map:
 * of @fd, or fresh when that is -1. */
uint64_t stub_unified_hold(uint64_t size);
void *stub_unified_map(uint64_t size, int fd);

bool stub_unified_holds(uint64_t addr);

/* They are free again. */
void stub_unified_release(uint64_t addr, uint64_t size);

/* Marks those whose addresses are in what a call sends as wanted (stub_memory.h). */
extern const struct stub_feature stub_unified_feature;

/* The same for @n bytes that go to a card otherwise; true: there were some. */
bool stub_unified_seek(const void *bytes, size_t n);

#endif
