/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_range.h"

#include "gp_base.h"

#include <errno.h>
#include <string.h>

static struct stub_range_node *
node_of(struct gp_tree_node *tree)
{
    return tree ? container_of(tree, struct stub_range_node, tree) : NULL;
}

GP_HOT struct stub_range_node *
stub_range_touching(const struct stub_ranges *set, const struct stub_range *where)
{
    struct stub_range_node *node = node_of(set->tree.root);

    while (node && !stub_range_overlap(&node->range, where))
        node = node_of(where->start < node->range.start ? node->tree.left
                                                        : node->tree.right);
    return node;
}

struct stub_range_node *
stub_range_from(const struct stub_ranges *set, uint64_t addr)
{
    return node_of(gp_tree_at_least(&set->tree, addr, 0));
}

void
stub_range_insert(struct stub_ranges *set, struct stub_range_node *node)
{
    gp_tree_insert(&set->tree, &node->tree, node->range.start, node->range.size);
}

void
stub_range_remove(struct stub_ranges *set, struct stub_range_node *node)
{
    gp_tree_remove(&set->tree, &node->tree);
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
    const struct stub_range_node *node;

    gp_lock_take(&set->lock);
    node = stub_range_at(set, addr);
    if (node)
        memcpy(ret, node, size);
    gp_lock_release(&set->lock);
    return node != NULL;
}
