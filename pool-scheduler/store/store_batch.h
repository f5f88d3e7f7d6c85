/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes that are written together: the last one of each key, in the order in which
 * the keys were first changed.
 *
 * Owned by struct sched_store; event loop thread, and read by the writer's thread while
 * it is being written.
 */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

#include "gp_base.h"
#include "gp_tree.h"
#include "store.h"

struct store_change {
    struct gp_tree_node by_key;
    struct store_change *next;
    uint8_t *value; /* NULL: a delete */
    size_t size;
    uint64_t group; /* of struct store_op */
    char key[STORE_KEY_MAX];
};

struct store_batch {
    struct gp_tree by_key;
    struct store_change *first, **end;
    size_t n;
    uint64_t group; /* of changes to come; the owner's */
};

void store_batch_init(struct store_batch *batch);
void store_batch_fini(struct store_batch *batch);

/* @value is the batch's afterwards, even on failure; NULL: delete the key. -ENOMEM;
 * -ENAMETOOLONG. */
int store_batch_set(struct store_batch *batch, const char *key, uint8_t *value,
                    size_t size);
/* The change of @key is not wanted any more.  False: there is none. */
bool store_batch_forget(struct store_batch *batch, const char *key);
/* The first @n changes are written already. */
void store_batch_drop(struct store_batch *batch, size_t n);
/* What @older changed, and @batch did not, is changed by @batch first; @older is empty
 * afterwards. */
void store_batch_prepend(struct store_batch *batch, struct store_batch *older);

/* What a transaction may hold: changes, and bytes of their keys and values. */
struct store_bound {
    size_t ops, bytes;
};

/* How many of @ops, from the first, a transaction within @most takes without parting a
 * group.  At least one; past the bound: a group, or a change, alone is larger. */
size_t store_ops_piece(const struct store_op *ops, size_t n, struct store_bound most);

/* For store_ops.write(): batch->n of them, whose strings are the batch's. */
int store_batch_ops(const struct store_batch *batch, struct store_op **ret_ops);

#endif
