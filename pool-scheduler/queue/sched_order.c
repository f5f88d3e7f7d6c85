/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_order.h"

#include "gp_hash.h"

#include <assert.h>

void
sched_need_clear(struct sched_need *need)
{
    for (unsigned step = 0; step < SCHED_NEED_STEPS; step++)
        need->memory[step] = SCHED_NEED_NONE;
}

void
sched_need_point(struct sched_need *need, uint32_t core, uint64_t memory)
{
    sched_need_clear(need);
    need->memory[sched_need_step(core)] =
        (int32_t)gp_min(memory >> 20, (uint64_t)SCHED_NEED_NONE - 2);
}

void
sched_room_add(struct sched_need *room, uint32_t core, uint64_t memory)
{
    if (!core)
        return;
    for (unsigned step = 0; step <= sched_need_step(core); step++)
        room->memory[step] = gp_max(room->memory[step], sched_room_of(memory));
}

bool
sched_need_fits(const struct sched_need *need, const struct sched_need *room)
{
    unsigned fits = 0;

    for (unsigned step = 0; step < SCHED_NEED_STEPS; step++)
        fits |= need->memory[step] < room->memory[step];
    return fits;
}

int
sched_order_compare(const struct sched_order_key *a, const struct sched_order_key *b)
{
    for (unsigned i = 0; i < ARRAY_SIZE(a->word); i++)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

/* ------------------------------------------------------------------- treap -- */

static uint64_t
rank(const struct sched_order_node *node)
{
    return gp_hash_u64((uintptr_t)node);
}

/* Most of what a change of the tree costs: four steps at a time, on every processor. */
static void
need_least(struct sched_need *need, const struct sched_need *other)
{
    typedef int32_t four __attribute__((vector_size(16), may_alias, aligned(4)));
    const four *b = (const four *)other->memory;
    four *a = (four *)need->memory;

    static_assert(SCHED_NEED_STEPS % 4 == 0, "whole vectors");
    for (unsigned i = 0; i < SCHED_NEED_STEPS / 4; i++) {
        four less = b[i] < a[i];

        a[i] = (b[i] & less) | (a[i] & ~less);
    }
}

static void
sum_up(struct sched_order_node *node)
{
    const struct sched_order_node *sides[] = {node->left, node->right};

    node->sum = node->weight;
    node->least = node->own;
    for (unsigned s = 0; s < 2; s++) {
        if (!sides[s])
            continue;
        node->sum += sides[s]->sum;
        need_least(&node->least, &sides[s]->least);
    }
}

static struct sched_order_node *
rotate_right(struct sched_order_node *node)
{
    struct sched_order_node *up = node->left;

    node->left = up->right;
    up->right = node;
    sum_up(node);
    return up;
}

static struct sched_order_node *
rotate_left(struct sched_order_node *node)
{
    struct sched_order_node *up = node->right;

    node->right = up->left;
    up->left = node;
    sum_up(node);
    return up;
}

static struct sched_order_node *
insert(struct sched_order_node *root, struct sched_order_node *node)
{
    if (!root)
        return node;
    if (sched_order_compare(&node->key, &root->key) < 0) {
        root->left = insert(root->left, node);
        if (rank(root->left) > rank(root))
            root = rotate_right(root);
    } else {
        root->right = insert(root->right, node);
        if (rank(root->right) > rank(root))
            root = rotate_left(root);
    }
    sum_up(root);
    return root;
}

static struct sched_order_node *
join(struct sched_order_node *left, struct sched_order_node *right)
{
    if (!left || !right)
        return left ? left : right;
    if (rank(left) > rank(right)) {
        left->right = join(left->right, right);
        sum_up(left);
        return left;
    }
    right->left = join(left, right->left);
    sum_up(right);
    return right;
}

static struct sched_order_node *
without(struct sched_order_node *root, const struct sched_order_node *node)
{
    int at;

    if (!root)
        return NULL; /* it was not there */
    at = sched_order_compare(&node->key, &root->key);
    if (!at)
        return join(root->left, root->right);
    if (at < 0)
        root->left = without(root->left, node);
    else
        root->right = without(root->right, node);
    sum_up(root);
    return root;
}

static void
update(struct sched_order_node *root, const struct sched_order_node *node)
{
    int at;

    if (!root)
        return;
    at = sched_order_compare(&node->key, &root->key);
    if (at)
        update(at < 0 ? root->left : root->right, node);
    sum_up(root);
}

void
sched_order_insert(struct sched_order *order, struct sched_order_node *node)
{
    node->left = node->right = NULL;
    sum_up(node);
    order->root = insert(order->root, node);
}

void
sched_order_remove(struct sched_order *order, struct sched_order_node *node)
{
    order->root = without(order->root, node);
    node->left = node->right = NULL;
}

void
sched_order_update(struct sched_order *order, struct sched_order_node *node)
{
    update(order->root, node);
}

bool
sched_order_rekey(struct sched_order *order, struct sched_order_node *node,
                  const struct sched_order_key *key)
{
    const struct sched_order_node *before = NULL, *after = NULL, *at = order->root;

    while (at && at != node)
        if (sched_order_compare(&node->key, &at->key) < 0) {
            after = at;
            at = at->left;
        } else {
            before = at;
            at = at->right;
        }
    for (at = node->left; at; at = at->right)
        before = at;
    for (at = node->right; at; at = at->left)
        after = at;
    if ((before && sched_order_compare(&before->key, key) >= 0) ||
        (after && sched_order_compare(&after->key, key) <= 0))
        return false;
    node->key = *key;
    return true;
}

/* ------------------------------------------------------------------ search -- */

uint32_t
sched_order_before(const struct sched_order *order, const struct sched_order_key *key)
{
    const struct sched_order_node *at = order->root;
    uint32_t n = 0;

    while (at)
        if (sched_order_compare(&at->key, key) < 0) {
            n += at->weight + (at->left ? at->left->sum : 0);
            at = at->right;
        } else {
            at = at->left;
        }
    return n;
}

static struct sched_order_node *
first_fit(struct sched_order_node *root, const struct sched_order_key *after,
          const struct sched_need *room)
{
    struct sched_order_node *found;

    if (!root || !sched_need_fits(&root->least, room))
        return NULL;
    if (after && sched_order_compare(&root->key, after) <= 0)
        return first_fit(root->right, after, room);
    found = first_fit(root->left, after, room);
    if (!found && sched_need_fits(&root->own, room))
        found = root;
    return found ? found : first_fit(root->right, NULL, room);
}

struct sched_order_node *
sched_order_first_fit(const struct sched_order *order,
                      const struct sched_order_key *after,
                      const struct sched_need *room)
{
    return first_fit(order->root, after, room);
}
