/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_arena.h"

#include "gp_base.h"
#include "gp_file.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Every page that can be written counts as memory in use.  Written before there is an
 * allocation. */
static bool strict;

/* With vm.overcommit_memory=2 MAP_NORESERVE says nothing; nor is there any for a limit.
 */
static void
strict_or_not(void)
{
    CLEANUP_FREE char *mode = NULL;
    struct rlimit data;
    size_t len;

    strict =
        (gp_file_read("/proc/sys/vm/overcommit_memory", 16, &mode, &len, NULL) == 0 &&
         mode[0] == '2') ||
        (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

static void *
at(uint64_t base)
{
    return (void *)(uintptr_t)base;
}

int
sg_arena_map(uint64_t base, uint64_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int flags = FLAGS | MAP_FIXED_NOREPLACE;
    void *p;

    pthread_once(&once, strict_or_not);
    p = mmap(at(base), size, strict ? PROT_NONE : PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED && errno == ENOMEM && !strict) {
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
