/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set of nodes under 128-bit keys (a treap), embedded in its members.
 *
 * The node belongs to its member; the tree owns nothing.  Keys are unique within
 * one tree (the caller's duty) and do not change while the node is in it.  Event
 * loop thread only.
 */
#ifndef SCHED_TREE_H
#define SCHED_TREE_H

#include "gp_base.h"

#include <stdint.h>

struct sched_node {
    struct sched_node *left, *right;
    uint64_t key[2]; /* key[0] decides, then key[1] */
};

struct sched_tree {
    struct sched_node *root;
    size_t count;
};

void sched_tree_insert(struct sched_tree *tree, struct sched_node *node, uint64_t key0,
                       uint64_t key1);
void sched_tree_remove(struct sched_tree *tree, struct sched_node *node);

/* Smallest node with a key >= (key0, key1), NULL when there is none. */
struct sched_node *sched_tree_at_least(const struct sched_tree *tree, uint64_t key0,
                                       uint64_t key1);
/* Largest node with a key <= (key0, key1), NULL when there is none. */
struct sched_node *sched_tree_at_most(const struct sched_tree *tree, uint64_t key0,
                                      uint64_t key1);
struct sched_node *sched_tree_find(const struct sched_tree *tree, uint64_t key0,
                                   uint64_t key1);
/* Neighbours in key order; NULL at the end. */
struct sched_node *sched_tree_next(const struct sched_tree *tree,
                                   const struct sched_node *node);
struct sched_node *sched_tree_prev(const struct sched_tree *tree,
                                   const struct sched_node *node);

static inline struct sched_node *
sched_tree_first(const struct sched_tree *tree)
{
    return sched_tree_at_least(tree, 0, 0);
}

static inline struct sched_node *
sched_tree_last(const struct sched_tree *tree)
{
    return sched_tree_at_most(tree, UINT64_MAX, UINT64_MAX);
}

#endif
