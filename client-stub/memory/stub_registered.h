/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory (cuMemHostRegister) that is not there any more.
 *
 * The memory is the program's, which may unmap it before it unregisters it.  The
 * entries themselves are in the registry (stub_memory.h).  Any thread.
 */
#ifndef STUB_REGISTERED_H
#define STUB_REGISTERED_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Ranges of cuMemHostRegister that there are. */
extern _Atomic uint32_t stub_registered_count;

bool stub_registered_is_gone_slow(uint64_t addr, uint64_t n);

/* Has the program unmapped part of [addr, addr + n), which it has registered and not
 * unregistered?  A driver has the pages still, and does not touch the addresses; here a
 * copy is refused with CUDA_ERROR_INVALID_VALUE, and one that was under way when that
 * happened moves nothing.  False for memory that is not registered: there a driver
 * faults as well, and if other memory has been mapped there.  May be called under any
 * lock but the registry's; costs a system call for registered memory. */
static inline bool
stub_registered_is_gone(const void *addr, uint64_t n)
{
    return unlikely(atomic_load_explicit(&stub_registered_count,
                                         memory_order_relaxed) != 0) &&
           stub_registered_is_gone_slow((uintptr_t)addr, n);
}

#endif
