/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tables that begin as zeros and are seldom touched as a whole: addresses now, a
 * page when it is first used.  munmap() ends them.  Any thread.
 */
#ifndef SG_MAP_ZERO_H
#define SG_MAP_ZERO_H

#include <stddef.h>
#include <sys/mman.h>

/* @size in bytes; NULL: no addresses are left. */
static inline void *
sg_map_zero(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

#endif
