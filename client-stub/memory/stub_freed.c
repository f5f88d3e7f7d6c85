/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_freed.h. */
#include "stub_freed.h"

#include <stdlib.h>

_Atomic uint32_t stub_freed_count;

static struct stub_ranges freed;

/* What was freed last, which is handed out again next mostly; size 0: none. */
static struct gp_lock last_lock;
static struct stub_range last;

/* @with becomes the last; the one before it. */
static struct stub_range
last_replace(const struct stub_range *with)
{
    struct stub_range before;

    gp_lock_take(&last_lock);
    before = last;
    last = *with;
    gp_lock_release(&last_lock);
    return before;
}

/* Does it overlap @where?  Then it goes, if it is to. */
static bool
last_overlaps(const struct stub_range *where, bool drop)
{
    bool overlaps;

    gp_lock_take(&last_lock);
    overlaps = last.size && where->start < last.start + last.size &&
               last.start < where->start + where->size;
    if (overlaps && drop)
        last.size = 0;
    gp_lock_release(&last_lock);
    return overlaps;
}

void
stub_freed_add(const struct stub_range *where)
{
    struct stub_range before, *range;

    if (!where->size || atomic_load(&stub_freed_count) >= STUB_FREED_MAX)
        return;
    before = last_replace(where);
    if (!before.size) {
        atomic_fetch_add(&stub_freed_count, 1);
        return;
    }
    range = malloc(sizeof(*range));
    if (!range)
        return;
    *range = before;
    if (stub_range_add(&freed, range) < 0)
        free(range);
    else
        atomic_fetch_add(&stub_freed_count, 1);
}

/* Whole entries go: an address too many only is not asked about. */
void
stub_freed_forget(uint64_t start, uint64_t size)
{
    struct stub_range where = {start, size}, found;
    struct stub_range *range;

    if (atomic_load(&stub_freed_count) == 0)
        return;
    if (last_overlaps(&where, true))
        atomic_fetch_sub(&stub_freed_count, 1);
    while (atomic_load(&stub_freed_count) != 0 &&
           stub_range_overlap(&freed, &where, &found, sizeof(found))) {
        range = stub_range_remove(&freed, found.start);
        if (!range)
            continue; /* another thread was faster */
        free(range);
        atomic_fetch_sub(&stub_freed_count, 1);
    }
}

bool
stub_freed_find(uint64_t addr)
{
    struct stub_range range = {addr, 1};

    return last_overlaps(&range, false) ||
           stub_range_find(&freed, addr, &range, sizeof(range));
}
