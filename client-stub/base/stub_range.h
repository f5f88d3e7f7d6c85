/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of address ranges that do not overlap, found by any address inside.
 *
 * The caller embeds struct stub_range_node at the start of what it stores and owns
 * that; the set only links it, so that entering and leaving allocate nothing.  What
 * stub_range_find() copies out stays true only as long as nobody removes the range,
 * which is the application's duty for its own memory.  Any thread: the first two calls
 * take the set's lock, the others want it held.  Zero-initialised storage is an empty
 * set.
 */
#ifndef STUB_RANGE_H
#define STUB_RANGE_H

#include "gp_base.h"
#include "gp_lock.h"
#include "gp_tree.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_range {
    uint64_t start;
    uint64_t size; /* > 0 */
};

struct stub_range_node {
    union {
        struct stub_range range;
        struct gp_tree_node tree; /* the set's own; the range is its key */
    };
};
static_assert(offsetof(struct gp_tree_node, key) == 0, "start, then size");

struct stub_ranges {
    struct gp_lock lock;
    struct gp_tree tree;
};

/* Without sums: a server may name a range that wraps. */
static inline bool
stub_range_overlap(const struct stub_range *a, const struct stub_range *b)
{
    return a->start - b->start < b->size || b->start - a->start < a->size;
}

/* -EEXIST: overlaps a range of the set.  -EINVAL: empty or wraps. */
int stub_range_add(struct stub_ranges *set, struct stub_range_node *node);

/* Copy the first @size bytes of the entry that holds @addr; false if none does. */
bool stub_range_find(struct stub_ranges *set, uint64_t addr, void *ret, size_t size);

/* Some entry that overlaps @where, NULL if none does. */
struct stub_range_node *stub_range_touching(const struct stub_ranges *set,
                                            const struct stub_range *where);

/* The entry that holds @addr, NULL if none does. */
static inline struct stub_range_node *
stub_range_at(const struct stub_ranges *set, uint64_t addr)
{
    struct gp_tree_node *at = set->tree.root;

    while (at) {
        struct stub_range_node *node = container_of(at, struct stub_range_node, tree);

        if (addr - node->range.start < node->range.size)
            return node;
        at = addr < node->range.start ? at->left : at->right;
    }
    return NULL;
}

/* The first entry that begins at @addr or behind it, NULL if none does. */
struct stub_range_node *stub_range_from(const struct stub_ranges *set, uint64_t addr);

/* @node overlaps nothing and does not wrap; it is in the set. */
void stub_range_insert(struct stub_ranges *set, struct stub_range_node *node);
void stub_range_remove(struct stub_ranges *set, struct stub_range_node *node);

#endif
