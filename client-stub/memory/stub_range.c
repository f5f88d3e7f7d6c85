/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set is the C library's balanced tree, with "overlaps" as its equality.
 */
#include "stub_range.h"

#include "gp_base.h"

#include <errno.h>
#include <search.h>
#include <string.h>

static int
range_compare(const void *a, const void *b)
{
    const struct stub_range *x = a, *y = b;

    if (x->start + x->size <= y->start)
        return -1;
    return y->start + y->size <= x->start;
}

static struct stub_range *
range_lookup(struct stub_ranges *set, uint64_t addr)
{
    struct stub_range key = {addr, 1};
    struct stub_range **node;

    if (addr == UINT64_MAX)
        return NULL;
    node = tfind(&key, &set->root, range_compare);
    return node ? *node : NULL;
}

int
stub_range_add(struct stub_ranges *set, struct stub_range *range)
{
    struct stub_range **node;
    uint64_t end;
    int r = 0;

    if (range->size == 0 || !gp_add_ok(range->start, range->size, &end))
        return -EINVAL;
    gp_lock_take(&set->lock);
    node = tsearch(range, &set->root, range_compare);
    if (!node)
        r = -ENOMEM;
    else if (*node != range)
        r = -EEXIST;
    gp_lock_release(&set->lock);
    return r;
}

bool
stub_range_overlap(struct stub_ranges *set, const struct stub_range *where, void *ret,
                   size_t size)
{
    struct stub_range **node;

    gp_lock_take(&set->lock);
    node = tfind(where, &set->root, range_compare);
    if (node)
        memcpy(ret, *node, size);
    gp_lock_release(&set->lock);
    return node != NULL;
}

bool
stub_range_find(struct stub_ranges *set, uint64_t addr, void *ret, size_t size)
{
    struct stub_range where = {addr, 1};

    return addr != UINT64_MAX && stub_range_overlap(set, &where, ret, size);
}

struct stub_range *
stub_range_take(struct stub_ranges *set, uint64_t start,
                bool (*match)(const struct stub_range *range, void *user), void *user)
{
    struct stub_range *found;

    gp_lock_take(&set->lock);
    found = range_lookup(set, start);
    if (found && (found->start != start || (match && !match(found, user))))
        found = NULL;
    if (found)
        tdelete(found, &set->root, range_compare);
    gp_lock_release(&set->lock);
    return found;
}

/* twalk() hands no argument on, and twalk_r() is younger than the C libraries we load
 * on; so one walk at a time, through this. */
static struct gp_lock walk_lock;
static struct range_search {
    bool (*match)(const struct stub_range *range, void *user);
    void *user;
    struct stub_range *found;
} search;

static void
range_visit(const void *node, VISIT which, int depth)
{
    struct stub_range *range = *(struct stub_range *const *)node;

    if ((which == postorder || which == leaf) && !search.found &&
        search.match(range, search.user))
        search.found = range;
}

struct stub_range *
stub_range_remove_if(struct stub_ranges *set,
                     bool (*match)(const struct stub_range *range, void *user),
                     void *user)
{
    struct stub_range *found;

    gp_lock_take(&set->lock);
    gp_lock_take(&walk_lock);
    search = (struct range_search){match, user, NULL};
    twalk(set->root, range_visit);
    found = search.found;
    gp_lock_release(&walk_lock);
    if (found)
        tdelete(found, &set->root, range_compare);
    gp_lock_release(&set->lock);
    return found;
}
