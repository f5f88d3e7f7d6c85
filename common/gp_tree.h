/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set of nodes under 128-bit keys (a treap), embedded in its members:
 * ordered by key, and a heap by what a hash makes of the place of a node in memory,
 * which keeps it about as deep as a balanced tree.
 *
 * The node belongs to its member; the tree owns nothing, and entering and leaving
 * allocate nothing.  Keys are unique within one tree (the caller's duty) and do not
 * change while the node is in it.  Zero-initialised storage is an empty tree.  No
 * locks: one thread at a time.
 */
#ifndef GP_TREE_H
#define GP_TREE_H

#include "gp_base.h"

#include <stdint.h>

struct gp_tree_node {
    uint64_t key[2]; /* key[0] decides, then key[1] */
    struct gp_tree_node *left, *right;
};

struct gp_tree {
    struct gp_tree_node *root;
    size_t count;
};

/* @node is in no tree before, and in @tree before it is removed. */
void gp_tree_insert(struct gp_tree *tree, struct gp_tree_node *node, uint64_t key0,
                    uint64_t key1);
void gp_tree_remove(struct gp_tree *tree, struct gp_tree_node *node);

/* Smallest node with a key >= (key0, key1), NULL when there is none. */
struct gp_tree_node *gp_tree_at_least(const struct gp_tree *tree, uint64_t key0,
                                      uint64_t key1);
/* Largest node with a key <= (key0, key1), NULL when there is none. */
struct gp_tree_node *gp_tree_at_most(const struct gp_tree *tree, uint64_t key0,
                                     uint64_t key1);
struct gp_tree_node *gp_tree_find(const struct gp_tree *tree, uint64_t key0,
                                  uint64_t key1);
/* Neighbours in key order; NULL at the end. */
struct gp_tree_node *gp_tree_next(const struct gp_tree *tree,
                                  const struct gp_tree_node *node);
struct gp_tree_node *gp_tree_prev(const struct gp_tree *tree,
                                  const struct gp_tree_node *node);

static inline struct gp_tree_node *
gp_tree_first(const struct gp_tree *tree)
{
    return gp_tree_at_least(tree, 0, 0);
}

static inline struct gp_tree_node *
gp_tree_last(const struct gp_tree *tree)
{
    return gp_tree_at_most(tree, UINT64_MAX, UINT64_MAX);
}

#endif
