/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes of device memory something has been written to (SOFTGPU_CHECK).
 *
 * One for the process, because device addresses are host addresses: a bit for each
 * byte of the regions of addresses that sg_shadow_undefine() was ever called for, and
 * none elsewhere.  What has no bit counts as written: memory of the host, managed and
 * mapped memory, what other processes can write.  Nothing here knows of allocations.
 * Any thread, no lock; bits of bytes that two threads write at the same time are set
 * one after the other.  Costs nothing until the first sg_shadow_undefine().
 */
#ifndef SG_SHADOW_H
#define SG_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

/* Nothing has been written to these bytes yet.  -ENOMEM: they count as written. */
int sg_shadow_undefine(uint64_t addr, uint64_t len);
void sg_shadow_define(uint64_t addr, uint64_t len);
/* @to gets what @from has; the two may overlap. */
void sg_shadow_copy(uint64_t to, uint64_t from, uint64_t len);
/* Whether all were written; *ret_at (may be NULL) is the first that was not. */
bool sg_shadow_defined(uint64_t addr, uint64_t len, uint64_t *ret_at);

#endif
