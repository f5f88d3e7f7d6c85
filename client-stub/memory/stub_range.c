/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set is a treap: ordered by address, and a heap by what a hash makes of the place
 * of a node in memory, which keeps it about as deep as a balanced tree.
 */
#include "stub_range.h"

#include "gp_base.h"
#include "gp_hash.h"

#include <errno.h>
#include <string.h>

static uint64_t
priority(const struct stub_range_node *node)
{
    return gp_hash_u64((uintptr_t)node);
}

GP_HOT struct stub_range_node *
stub_range_touching(const struct stub_ranges *set, const struct stub_range *where)
{
    struct stub_range_node *node = set->root;

    while (node && !stub_range_overlap(&node->range, where))
        node = where->start < node->range.start ? node->left : node->right;
    return node;
}

struct stub_range_node *
stub_range_from(const struct stub_ranges *set, uint64_t addr)
{
    struct stub_range_node *node = set->root, *best = NULL;

    while (node) {
        if (node->range.start >= addr) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

/* Cut a subtree into what begins below @start and what does not. */
static void
split(struct stub_range_node *node, uint64_t start, struct stub_range_node **low,
      struct stub_range_node **high)
{
    while (node) {
        if (node->range.start < start) {
            *low = node;
            low = &node->right;
            node = node->right;
        } else {
            *high = node;
            high = &node->left;
            node = node->left;
        }
    }
    *low = NULL;
    *high = NULL;
}

void
stub_range_insert(struct stub_ranges *set, struct stub_range_node *node)
{
    struct stub_range_node **at = &set->root;
    uint64_t start = node->range.start, prio = priority(node);

    while (*at && priority(*at) >= prio)
        at = (*at)->range.start < start ? &(*at)->right : &(*at)->left;
    split(*at, start, &node->left, &node->right);
    *at = node;
}

void
stub_range_remove(struct stub_ranges *set, struct stub_range_node *node)
{
    struct stub_range_node **at = &set->root, *low = node->left, *high = node->right;

    while (*at != node)
        at = (*at)->range.start < node->range.start ? &(*at)->right : &(*at)->left;
    while (low && high) {
        if (priority(low) >= priority(high)) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low ? low : high;
}

int
stub_range_add(struct stub_ranges *set, struct stub_range_node *node)
{
    uint64_t end;
    int r = 0;

    if (node->range.size == 0 || !gp_add_ok(node->range.start, node->range.size, &end))
        return -EINVAL;
    gp_lock_take(&set->lock);
    if (stub_range_touching(set, &node->range))
        r = -EEXIST;
    else
        stub_range_insert(set, node);
    gp_lock_release(&set->lock);
    return r;
}

bool
stub_range_find(struct stub_ranges *set, uint64_t addr, void *ret, size_t size)
{
    const struct stub_range where = {addr, 1};
    const struct stub_range_node *node;

    gp_lock_take(&set->lock);
    node = stub_range_touching(set, &where);
    if (node)
        memcpy(ret, node, size);
    gp_lock_release(&set->lock);
    return node != NULL;
}
