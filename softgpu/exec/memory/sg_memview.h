/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses a kernel may touch: live ranges with exact byte bounds.
 *
 * Device addresses are host addresses, so this table is the only thing between a
 * kernel and the memory of the process: every lane access is checked against it.
 * softgpu/api owns one view per context (or card) and adds and removes ranges; the
 * executor looks up.  Lookups take no lock.  Updates take one, any thread.
 *
 * Index: a two-level table by 64 KiB granule over 48 bits of address.  A granule that
 * holds parts of several ranges (registered host memory) is marked mixed and searched
 * under the lock; allocations that start on a granule of their own never pay that.
 * The executor keeps found ranges in per-CTA caches; removal therefore waits until
 * every CTA that runs on this view has dropped its cache.
 */
#ifndef SG_MEMVIEW_H
#define SG_MEMVIEW_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct sg_memview;

#define SG_GRANULE_SHIFT 16
#define SG_GRANULE (1u << SG_GRANULE_SHIFT)
#define SG_VA_BITS 48

/* Windows of the generic address space that are not memory of the process.
 * They lie where no allocation of softgpu/api may lie; sg_memview_add() refuses. */
#define SG_WIN_SHARED 0x1000000000ull
#define SG_WIN_LOCAL 0x1100000000ull
#define SG_WIN_PARAM 0x1200000000ull
#define SG_WIN_CODE 0x1300000000ull
#define SG_WIN_END 0x1400000000ull
#define SG_WIN_SIZE 0x1000000ull /* 16 MiB usable in each */

#define SG_RANGE_READ_ONLY 1u
/* Pages that kernels store to are noted (sg_written.h); never with READ_ONLY.  In the
 * executor's caches of ranges, such a range is read-only as a whole; one page of it can
 * be written to once that is noted. */
#define SG_RANGE_WATCHED 2u
/* Loads may run to the end of the aligned block of this size that a range ends in, as
 * on a card; never beyond the page, so registered host memory keeps to itself. */
#define SG_READ_ALIGN 16u

struct sg_range {
    uint64_t lo;
    uint64_t len; /* 0 = not found */
    uint32_t flags;
};

int sg_memview_new(struct sg_memview **ret_view);
void sg_memview_free(struct sg_memview *view); /* NULL is a no-op */
DEFINE_CLEANUP(struct sg_memview, sg_memview_free)

/* -EEXIST: overlaps a live range; -EINVAL: empty, a window, or beyond SG_VA_BITS. */
int sg_memview_add(struct sg_memview *view, uint64_t lo, uint64_t len, uint32_t flags);

/* @lo as it was added.  When it returns no CTA can reach the range any more.  Waits
 * for running CTAs to pass a back edge (microseconds): never call it from a hook.
 * -ENOENT: no range starts there. */
int sg_memview_remove(struct sg_memview *view, uint64_t lo);

/* The range that starts at @lo is watched from now on: when it returns every CTA knows.
 * Waits like sg_memview_remove().  A range that is read-only stays so. */
void sg_memview_watch(struct sg_memview *view, uint64_t lo);
/* When it returns every CTA has dropped what it had cached; waits in the same way. */
void sg_memview_flush(struct sg_memview *view);

/* The live range that holds @addr. */
bool sg_memview_find(struct sg_memview *view, uint64_t addr, struct sg_range *ret);

/* Of a range or of a cached one: can kernels not store to it at all? */
static inline bool
sg_range_is_read_only(uint32_t flags)
{
    return (flags & (SG_RANGE_READ_ONLY | SG_RANGE_WATCHED)) == SG_RANGE_READ_ONLY;
}

/* Executor side: a reader announces itself while it holds cached ranges. */
struct sg_memview_reader {
    struct sg_memview *view;
    uint64_t seen; /* generation whose cache it holds; 0 = holds none */
    struct sg_memview_reader *next, *prev;
};

/* Between the two the thread that @rd belongs to reads @view without a lock, and a
 * removal of a range waits for it to drop its caches.  @rd is the caller's storage. */
void sg_memview_reader_enter(struct sg_memview *view, struct sg_memview_reader *rd);
void sg_memview_reader_leave(struct sg_memview_reader *rd);

/* As sg_memview_find(), without a lock; only between enter and leave. */
bool sg_memview_lookup(struct sg_memview *view, uint64_t addr, struct sg_range *ret);

/* The generation as it is now; differs from rd->seen after a removal. */
const uint64_t *sg_memview_generation(const struct sg_memview *view);

#endif
