/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of a piece of memory in this process are still to be compared: those that
 * a card may have written to, where the driver tells (wrk_changes.h).
 *
 * Cards note what they write, and the notes are taken over here, so that a comparison
 * may stop in the middle and go on later.  A page stays listed until it was compared.
 * What this process writes is not noted.  Receive thread only.
 */
#ifndef WRK_CHANGED_PAGES_H
#define WRK_CHANGED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* All bytes 0: the driver does not tell, and all of the memory is always listed. */
struct wrk_changed_pages {
    uint64_t start, size; /* whole pages */
    uint64_t *bits;       /* one for each page; NULL: not told */
};

/* From now on; all pages are listed.  Again, when the driver has forgotten the memory
 * meanwhile.  Left untold if the driver does not tell or memory is short. */
void wrk_changed_pages_watch(struct wrk_changed_pages *pages, uint64_t start,
                             uint64_t size);
void wrk_changed_pages_end(struct wrk_changed_pages *pages);

/* List what cards have written up to now. */
void wrk_changed_pages_note(struct wrk_changed_pages *pages);

/* The next listed bytes from offset *@pos on, up to the size: *@pos is their start
 * then, and the result their end.  Both are the size when there are none. */
uint64_t wrk_changed_pages_next(const struct wrk_changed_pages *pages, uint64_t *pos);

/* The pages that lie in [@from, @end) have been compared. */
void wrk_changed_pages_done(struct wrk_changed_pages *pages, uint64_t from,
                            uint64_t end);

#endif
