/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cards have written to a range of memory since somebody last asked: private
 * entries of the library for a pool server, which brings the client no more than that
 * (docs/managed.md).  A program that does not use them pays nothing.  Any thread,
 * without the lock; both wait for running blocks to notice (microseconds).
 */
#ifndef SG_CHANGES_H
#define SG_CHANGES_H

#include "sg_written.h"

#include <stddef.h>
#include <stdint.h>

/* Exported.  Nothing in the range counts as written now; what is written behind this is
 * noted.  What the host itself writes to registered memory is not.  -ENOENT: not all of
 * it is memory that can be watched. */
int sg_changes_forget(uint64_t addr, uint64_t len);

/* Exported.  The first pages in [*@addr, @end) that were written, as at most @max runs;
 * they count as not written from now on.  *@addr is where to go on.  Returns how many
 * runs; -ENOENT: the range is not watched. */
int sg_changes_take(uint64_t *addr, uint64_t end, struct sg_written_run *runs, int max);

#endif
