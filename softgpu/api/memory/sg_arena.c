/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_arena.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Every page that can be written counts as memory in use.  Written before there is an
 * allocation. */
static bool strict;

static void *
at(uint64_t base)
{
    return (void *)(uintptr_t)base;
}

int
sg_arena_map(uint64_t base, uint64_t size)
{
    const int flags = FLAGS | MAP_FIXED_NOREPLACE;
    void *p = mmap(at(base), size, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (p == MAP_FAILED && errno == ENOMEM) {
        p = mmap(at(base), size, PROT_NONE, flags, -1, 0);
        strict |= p != MAP_FAILED;
    }
    if (p == MAP_FAILED)
        return -errno;
    if (p != at(base)) { /* a kernel that does not know the flag */
        munmap(p, size);
        return -EEXIST;
    }
    madvise(p, size, MADV_DONTDUMP);
    return 0;
}

bool
sg_arena_open(uint64_t base, uint64_t size)
{
    return !strict || mprotect(at(base), size, PROT_READ | PROT_WRITE) == 0;
}

void
sg_arena_drop(uint64_t base, uint64_t size, bool foreign)
{
    /* Only a new mapping stops counting. */
    if (strict)
        mmap(at(base), size, PROT_NONE, FLAGS | MAP_FIXED, -1, 0);
    else if (foreign)
        mmap(at(base), size, PROT_READ | PROT_WRITE, FLAGS | MAP_FIXED, -1, 0);
    else
        madvise(at(base), size, MADV_DONTNEED);
}
