/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory at a server that did not allocate it: at the same address, in physical
 * allocations mapped there (internal to stub_managed.c). An allocation may hold several
 * small ranges; it is freed with the last of them.  Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_MIRROR_H
#define STUB_MANAGED_MIRROR_H

#include "cuda_abi.h"

#include <stdint.h>

struct managed_physmem;

/* Have memory at [dev, dev + size) of the current link's server. */
CUresult managed_mirror_open(uint64_t dev, uint64_t size);

/* [dev, dev + size) is not needed any more at server @link.  Allocations that hold
 * nothing else are put in front of *@list, to be freed without the lock, because
 * freeing waits for the devices' work. */
void managed_mirror_leave(uint32_t link, uint64_t dev, uint64_t size,
                          struct managed_physmem **list);
void managed_mirror_close(struct managed_physmem *list);

#endif
