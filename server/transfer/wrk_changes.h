/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver knows of the changes that its cards make to memory.
 *
 * softgpu notes the pages that kernels, copies and fills write to, and has two entries
 * of its own to ask for them.  Other drivers do not say; then all of a range may have
 * changed at any time.  Any thread.
 */
#ifndef WRK_CHANGES_H
#define WRK_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

/* As the driver fills them in. */
struct wrk_change {
    uint64_t addr, len;
};

/* The driver tells of changes. */
bool wrk_changes_are_told(void);

/* Nothing in the range counts as changed now; changes are noted from now on.  False:
 * the driver cannot do that. */
bool wrk_changes_forget(uint64_t addr, uint64_t len);

/* The first changed pages in [*@addr, @end), as at most @max runs, which count as not
 * changed from now on.  *@addr is where to go on.  Returns how many; negative: nobody
 * has noted changes in the range. */
int wrk_changes_take(uint64_t *addr, uint64_t end, struct wrk_change *changes, int max);

#endif
