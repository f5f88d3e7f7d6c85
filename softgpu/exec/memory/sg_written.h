/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of watched memory the card has written to.
 *
 * One record for the process, because device addresses are host addresses: two bits for
 * each page of the regions of addresses that sg_written_watch() was ever called for.
 * Memory that nobody watches costs one branch per copy and nothing in kernels.  What a
 * kernel stores is noted before the store, while the thread block that stores counts as
 * a reader of its view (sg_memview.h); whoever takes the record waits for these readers
 * before it reads the memory.  All others note after they have written.
 *
 * Nothing here knows of allocations.  Any thread, no lock.
 */
#ifndef SG_WRITTEN_H
#define SG_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_WRITTEN_PAGE 4096u

struct sg_written_run {
    uint64_t addr, len; /* whole pages, but for the ends of what was asked about */
};

/* Nothing of these pages counts as written now.  -ENOMEM. */
int sg_written_watch(uint64_t addr, uint64_t len);
/* The same for pages that are watched already. */
void sg_written_forget(uint64_t addr, uint64_t len);
void sg_written_unwatch(uint64_t addr, uint64_t len);

/* These bytes are or were just written. */
void sg_written_mark(uint64_t addr, uint64_t len);

/* The first written pages in [*@addr, @end), as at most @max runs; none of them counts
 * as written any more.  *@addr is where to go on, @end when that was all. */
size_t sg_written_take(uint64_t *addr, uint64_t end, struct sg_written_run *runs,
                       size_t max);

#endif
