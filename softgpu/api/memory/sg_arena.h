/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages behind the addresses that a card's allocations are made of.
 *
 * An arena is mapped once, without reserving memory: pages appear with the first touch
 * and are given back when an allocation is freed.  Where the system grants no more than
 * there is (vm.overcommit_memory=2, RLIMIT_DATA), an arena cannot be had that way: then
 * its addresses are kept closed, and each allocation opens its own.
 *
 * Any thread may open and drop; a range is one allocation's.
 */
#ifndef SG_ARENA_H
#define SG_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* Before any allocation.  0 or -errno. */
int sg_arena_map(uint64_t base, uint64_t size);

/* The pages of [base, base + size) can be read and written, and are zero.  False: no
 * memory. */
bool sg_arena_open(uint64_t base, uint64_t size);

/* Give its pages back.  @foreign: something else was mapped over them. */
void sg_arena_drop(uint64_t base, uint64_t size, bool foreign);

#endif
