/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_freed.h. */
#include "stub_freed.h"

#include <stdlib.h>

_Atomic uint32_t stub_freed_count;

static struct stub_ranges freed;

void
stub_freed_add(const struct stub_range *where)
{
    struct stub_range *range;

    if (atomic_load(&stub_freed_count) >= STUB_FREED_MAX)
        return;
    range = malloc(sizeof(*range));
    if (!range)
        return;
    *range = *where;
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
    struct stub_range range;

    return stub_range_find(&freed, addr, &range, sizeof(range));
}
