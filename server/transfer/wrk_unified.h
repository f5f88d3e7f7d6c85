/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The range of addresses in which page-locked memory has the same address in client and
 * worker.
 *
 * The client reserves the range and sends it; the worker reserves the same addresses
 * without replacing any mapping of its own.  Addresses that a client names are mapped
 * inside this range only, each page for one owner.  So an address that a client names
 * is either the client's own memory or refused.  Any thread.
 */
#ifndef WRK_UNIFIED_H
#define WRK_UNIFIED_H

#include <stdbool.h>
#include <stdint.h>

struct gp_err;

/* What one client can have reserved: addresses, no memory. */
#define WRK_UNIFIED_SIZE_MAX (UINT64_C(64) << 30)

/* Reserve [base, base + size), once in a process.  -EEXIST: something is there. */
int wrk_unified_reserve(uint64_t base, uint64_t size, struct gp_err *err);

/* Give the range that begins at @base back, so that another one can be reserved.
 * -ENOENT: it is not reserved.  -EBUSY: something is mapped in it. */
int wrk_unified_give_back(uint64_t base, struct gp_err *err);

/* Map @fd, or with -1 pages full of zeros, at [addr, addr + size) inside the range,
 * where nothing is mapped; whole pages. */
int wrk_unified_map(uint64_t addr, uint64_t size, int fd, struct gp_err *err);

/* The addresses are without access again, and may be mapped again. */
void wrk_unified_unmap(uint64_t addr, uint64_t size);

#endif
