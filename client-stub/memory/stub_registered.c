/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_registered.h"

#include "stub_memory.h"

#include <errno.h>
#include <sys/mman.h>

_Atomic uint32_t stub_registered_count;

/* Without effect on the pages, but for the answer. */
static bool
is_mapped(uint64_t addr, uint64_t n)
{
    uint64_t first = addr & ~UINT64_C(4095), end = GP_ALIGN_UP(addr + n, 4096);
    int e = errno;
    bool is =
        msync((void *)(uintptr_t)first, end - first, MS_ASYNC) == 0 || errno != ENOMEM;

    errno = e;
    return is;
}

bool
stub_registered_is_gone_slow(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    if (!stub_memory_find(addr, &m) || m.kind != STUB_MEMORY_REGISTERED)
        return false;
    return !is_mapped(addr, gp_min(n, m.range.size - (addr - m.range.start)));
}
