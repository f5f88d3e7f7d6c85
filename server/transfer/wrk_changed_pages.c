/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_changed_pages.h"

#include "gp_base.h"
#include "gp_bits.h"
#include "wrk_changes.h"

#include <stdlib.h>
#include <string.h>

#define PAGE UINT64_C(4096)
#define RUNS 64 /* taken over at a time */

static uint64_t
words_of(const struct wrk_changed_pages *pages)
{
    return (pages->size / PAGE + 63) / 64;
}

static void
list_all(struct wrk_changed_pages *pages)
{
    memset(pages->bits, 0xff, words_of(pages) * sizeof(pages->bits[0]));
}

void
wrk_changed_pages_watch(struct wrk_changed_pages *pages, uint64_t start, uint64_t size)
{
    wrk_changed_pages_end(pages);
    if (!wrk_changes_forget(start, size))
        return;
    pages->start = start;
    pages->size = size;
    pages->bits = malloc(words_of(pages) * sizeof(pages->bits[0]));
    if (pages->bits)
        list_all(pages);
}

void
wrk_changed_pages_end(struct wrk_changed_pages *pages)
{
    free(pages->bits);
    *pages = (struct wrk_changed_pages){0};
}

void
wrk_changed_pages_note(struct wrk_changed_pages *pages)
{
    const uint64_t end = pages->start + pages->size;
    struct wrk_change runs[RUNS];
    uint64_t at = pages->start;

    while (pages->bits && at < end) {
        int n = wrk_changes_take(&at, end, runs, RUNS);

        if (n < 0) { /* the context that the memory was registered with has ended */
            list_all(pages);
            return;
        }
        for (int i = 0; i < n; i++)
            for (uint64_t b = runs[i].addr; b < runs[i].addr + runs[i].len; b += PAGE) {
                uint64_t page = (b - pages->start) / PAGE;

                pages->bits[page / 64] |= UINT64_C(1) << page % 64;
            }
    }
}

uint64_t
wrk_changed_pages_next(const struct wrk_changed_pages *pages, uint64_t *pos)
{
    const uint64_t n = pages->size / PAGE;
    const uint64_t page = gp_bits_next(pages->bits, *pos / PAGE, n, true);

    *pos = gp_max(*pos, page * PAGE);
    return gp_bits_next(pages->bits, page, n, false) * PAGE;
}

void
wrk_changed_pages_done(struct wrk_changed_pages *pages, uint64_t from, uint64_t end)
{
    for (uint64_t page = from / PAGE; page < end / PAGE; page++)
        pages->bits[page / 64] &= ~(UINT64_C(1) << page % 64);
}
