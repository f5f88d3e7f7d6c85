/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_tree.h"

#include "gp_hash.h"

/* The heap order comes from the node's address, which nobody outside chooses. */
static uint64_t
priority(const struct gp_tree_node *node)
{
    return gp_hash_u64((uint64_t)(uintptr_t)node);
}

static int
compare(const struct gp_tree_node *node, uint64_t key0, uint64_t key1)
{
    if (node->key[0] != key0)
        return node->key[0] < key0 ? -1 : 1;
    if (node->key[1] != key1)
        return node->key[1] < key1 ? -1 : 1;
    return 0;
}

/* Cut @node's subtree into what is below the key and what is not. */
static void
split(struct gp_tree_node *node, uint64_t key0, uint64_t key1,
      struct gp_tree_node **low, struct gp_tree_node **high)
{
    while (node) {
        if (compare(node, key0, key1) < 0) {
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

GP_HOT void
gp_tree_insert(struct gp_tree *tree, struct gp_tree_node *node, uint64_t key0,
               uint64_t key1)
{
    struct gp_tree_node **at = &tree->root;
    uint64_t prio = priority(node);

    while (*at && priority(*at) >= prio)
        at = compare(*at, key0, key1) < 0 ? &(*at)->right : &(*at)->left;
    node->key[0] = key0;
    node->key[1] = key1;
    split(*at, key0, key1, &node->left, &node->right);
    *at = node;
    tree->count++;
}

GP_HOT void
gp_tree_remove(struct gp_tree *tree, struct gp_tree_node *node)
{
    struct gp_tree_node **at = &tree->root, *low = node->left, *high = node->right;

    while (*at != node)
        at =
            compare(*at, node->key[0], node->key[1]) < 0 ? &(*at)->right : &(*at)->left;
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
    node->left = node->right = NULL;
    tree->count--;
}

GP_HOT struct gp_tree_node *
gp_tree_at_least(const struct gp_tree *tree, uint64_t key0, uint64_t key1)
{
    struct gp_tree_node *node = tree->root, *best = NULL;

    while (node) {
        if (compare(node, key0, key1) >= 0) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

struct gp_tree_node *
gp_tree_at_most(const struct gp_tree *tree, uint64_t key0, uint64_t key1)
{
    struct gp_tree_node *node = tree->root, *best = NULL;

    while (node) {
        if (compare(node, key0, key1) <= 0) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best;
}

struct gp_tree_node *
gp_tree_find(const struct gp_tree *tree, uint64_t key0, uint64_t key1)
{
    struct gp_tree_node *node = gp_tree_at_least(tree, key0, key1);

    return node && !compare(node, key0, key1) ? node : NULL;
}

struct gp_tree_node *
gp_tree_next(const struct gp_tree *tree, const struct gp_tree_node *node)
{
    uint64_t key0 = node->key[0], key1 = node->key[1] + 1;

    if (!key1 && !++key0)
        return NULL;
    return gp_tree_at_least(tree, key0, key1);
}

struct gp_tree_node *
gp_tree_prev(const struct gp_tree *tree, const struct gp_tree_node *node)
{
    uint64_t key0 = node->key[0], key1 = node->key[1];

    if (!key1-- && !key0--)
        return NULL;
    return gp_tree_at_most(tree, key0, key1);
}
