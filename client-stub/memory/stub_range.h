/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of address ranges that do not overlap, found by any address inside.
 *
 * The caller embeds struct stub_range at the start of what it stores and owns that; the
 * set only links it.  Every call takes the set's lock; what stub_range_find() copies
 * out stays true only as long as nobody removes the range, which is the application's
 * duty for its own memory.  Any thread.  Zero-initialised storage is an empty set.
 */
#ifndef STUB_RANGE_H
#define STUB_RANGE_H

#include "gp_lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_range {
    uint64_t start;
    uint64_t size; /* > 0 */
};

struct stub_ranges {
    struct gp_lock lock;
    void *root;
};

/* -EEXIST: overlaps a range of the set.  -EINVAL: empty or wraps.  -ENOMEM. */
int stub_range_add(struct stub_ranges *set, struct stub_range *range);

/* Copy the first @size bytes of the entry that holds @addr; false if none does. */
bool stub_range_find(struct stub_ranges *set, uint64_t addr, void *ret, size_t size);

/* The same for some entry that overlaps @where. */
bool stub_range_overlap(struct stub_ranges *set, const struct stub_range *where,
                        void *ret, size_t size);

/* Take out the entry that begins at @start, if @match (NULL: anything) says so; NULL if
 * there is none. */
struct stub_range *
stub_range_take(struct stub_ranges *set, uint64_t start,
                bool (*match)(const struct stub_range *range, void *user), void *user);

static inline struct stub_range *
stub_range_remove(struct stub_ranges *set, uint64_t start)
{
    return stub_range_take(set, start, NULL, NULL);
}

/* Take out some entry for which @match says so; NULL when there is none left. */
struct stub_range *stub_range_remove_if(struct stub_ranges *set,
                                        bool (*match)(const struct stub_range *range,
                                                      void *user),
                                        void *user);

#endif
