/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set that knows how many members are before each one, and finds the first
 * member that a given room suffices for: a treap whose nodes sum up their subtrees.
 *
 * What a member needs is the least memory for each step of core percent; a room is the
 * most memory that there is for each step.  A subtree whose sums fit nowhere in the
 * room is never entered, so that a search costs O(log n) where members of different
 * sizes are mixed, and more only where core and memory fit for different members of
 * one step each.  The caller checks the member that was found exactly.
 *
 * The node belongs to its member; the tree owns nothing and allocates nothing.  Keys
 * are unique in one tree and change only while the node is not in it.  Zeroed storage
 * is an empty tree.  One thread at a time.
 */
#ifndef SCHED_ORDER_H
#define SCHED_ORDER_H

#include "gp_base.h"

#include <stdint.h>

/* Core percent in steps of five: what most requests are multiples of. */
#define SCHED_NEED_STEPS 20
#define SCHED_NEED_NONE INT32_MAX

static inline unsigned
sched_need_step(uint32_t core)
{
    return core ? (gp_min(core, 100u) - 1) / 5 : 0;
}

/* In MiB, up to 2 PiB, rounded so that nothing that fits is missed.
 * Of a need: the least memory that somebody in the step wants, SCHED_NEED_NONE if there
 * is nobody.  Of a room: one more than the memory that there is, 0 if there is none. */
struct sched_need {
    int32_t memory[SCHED_NEED_STEPS];
};

static inline int32_t
sched_room_of(uint64_t bytes)
{
    return (int32_t)gp_min(bytes >> 20, (uint64_t)SCHED_NEED_NONE - 2) + 1;
}

void sched_need_clear(struct sched_need *need);
void sched_need_point(struct sched_need *need, uint32_t core, uint64_t memory);
/* There are @core percent with @memory somewhere. */
void sched_room_add(struct sched_need *room, uint32_t core, uint64_t memory);
bool sched_need_fits(const struct sched_need *need, const struct sched_need *room);

struct sched_order_key {
    uint64_t word[3]; /* the first one decides, then the second */
};

struct sched_order_node {
    struct sched_order_key key;
    struct sched_order_node *left, *right;
    struct sched_need own, least; /* of the member; of the subtree */
    uint32_t weight, sum;         /* members that it stands for; of the subtree */
};

struct sched_order {
    struct sched_order_node *root;
};

/* Negative, 0 or positive, as @a is before, equal to or after @b. */
int sched_order_compare(const struct sched_order_key *a,
                        const struct sched_order_key *b);
void sched_order_insert(struct sched_order *order, struct sched_order_node *node);
void sched_order_remove(struct sched_order *order, struct sched_order_node *node);
/* node->own or node->weight has changed. */
void sched_order_update(struct sched_order *order, struct sched_order_node *node);
/* Gives @node another key where that leaves its place, and says whether it does: true
 * at a fraction of the price of a removal and an insertion. */
bool sched_order_rekey(struct sched_order *order, struct sched_order_node *node,
                       const struct sched_order_key *key);
/* Sum of the weights of members before @key. */
uint32_t sched_order_before(const struct sched_order *order,
                            const struct sched_order_key *key);
static inline uint32_t
sched_order_sum(const struct sched_order *order)
{
    return order->root ? order->root->sum : 0;
}

/* The first member after @after (NULL: of all) whose own need fits @room, or NULL. */
struct sched_order_node *sched_order_first_fit(const struct sched_order *order,
                                               const struct sched_order_key *after,
                                               const struct sched_need *room);

#endif
