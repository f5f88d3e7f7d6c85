/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_changes.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_mem.h"

#include <errno.h>
#include <stdlib.h>

/* Whoever has registered memory of the host knows what the host writes there.  The
 * pages of an import are written to by others. */
static bool
can_be_watched(const struct sg_alloc *alloc)
{
    return alloc->kind == SG_MEM_MANAGED || alloc->kind == SG_MEM_MAPPED ||
           alloc->kind == SG_MEM_REGISTERED ||
           (alloc->kind == SG_MEM_DEVICE && alloc->fd < 0);
}

/* Every kernel that runs goes through the record from then on.  Drops the lock. */
static int
watch_one(struct sg_alloc *alloc)
{
    int r;

    if (alloc->watched)
        return 0;
    r = sg_written_watch(alloc->base, alloc->span ? alloc->span : alloc->size);
    if (r < 0)
        return r;
    alloc->watched = true;
    return sg_mem_show_watched(alloc->base);
}

/* Lock held, but dropped meanwhile. */
static int
watch_all(uint64_t addr, uint64_t end)
{
    while (addr < end) {
        struct sg_alloc *alloc = sg_mem_find(addr);
        int r;

        if (!alloc || !can_be_watched(alloc))
            return -ENOENT;
        addr = alloc->base + alloc->size;
        r = watch_one(alloc);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool
all_watched(uint64_t addr, uint64_t end)
{
    while (addr < end) {
        const struct sg_alloc *alloc = sg_mem_find(addr);

        if (!alloc || !alloc->watched)
            return false;
        addr = alloc->base + alloc->size;
    }
    return true;
}

__attribute__((visibility("default"))) int
sg_changes_forget(uint64_t addr, uint64_t len)
{
    int r;

    if (!len || addr > UINT64_MAX - len)
        return -EINVAL;
    sg_lock();
    r = watch_all(addr, addr + len);
    if (r == 0) {
        sg_written_forget(addr, len);
        r = sg_mem_flush_views();
    }
    sg_unlock();
    return r;
}

/* The record first, then the kernels: what they store without noting it is in memory by
 * then. */
__attribute__((visibility("default"))) int
sg_changes_take(uint64_t *addr, uint64_t end, struct sg_written_run *runs, int max)
{
    int n = -ENOENT, r;

    if (max <= 0 || *addr >= end)
        return -EINVAL;
    sg_lock();
    if (all_watched(*addr, end)) {
        n = (int)sg_written_take(addr, end, runs, (size_t)max);
        r = n ? sg_mem_flush_views() : 0;
        if (r < 0)
            n = r;
    }
    sg_unlock();
    return n;
}
