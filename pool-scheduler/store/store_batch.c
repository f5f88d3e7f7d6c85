/* SPDX-License-Identifier: Apache-2.0 */
#include "store_batch.h"

#include "gp_hash.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

void
store_batch_init(struct store_batch *batch)
{
    memset(batch, 0, sizeof(*batch));
    batch->end = &batch->first;
}

static void
change_free(struct store_change *change)
{
    if (change->value)
        explicit_bzero(change->value, change->size);
    free(change->value);
    free(change);
}

void
store_batch_fini(struct store_batch *batch)
{
    struct store_change *next;

    for (struct store_change *c = batch->first; c; c = next) {
        next = c->next;
        change_free(c);
    }
    store_batch_init(batch);
}

/* Two keyed hashes make 128 bits: names that unauthenticated peers choose do not
 * collide. */
static void
hash_key(const char *key, uint64_t hash[2])
{
    const struct gp_hash_key *k = gp_hash_process_key();
    struct gp_hash_key other = {.k = {k->k[1], ~k->k[0]}};

    hash[0] = gp_hash_bytes(k, key, strlen(key));
    hash[1] = gp_hash_bytes(&other, key, strlen(key));
}

static struct store_change *
find(const struct store_batch *batch, const char *key)
{
    struct gp_tree_node *node;
    uint64_t hash[2];

    hash_key(key, hash);
    node = gp_tree_find(&batch->by_key, hash[0], hash[1]);
    return node ? container_of(node, struct store_change, by_key) : NULL;
}

static void
insert(struct store_batch *batch, struct store_change *change)
{
    uint64_t hash[2];

    hash_key(change->key, hash);
    gp_tree_insert(&batch->by_key, &change->by_key, hash[0], hash[1]);
    change->next = NULL;
    *batch->end = change;
    batch->end = &change->next;
    batch->n++;
}

int
store_batch_set(struct store_batch *batch, const char *key, uint8_t *value, size_t size)
{
    struct store_change *change = find(batch, key);

    if (!change) {
        change = calloc(1, sizeof(*change));
        if (!change || !gp_str_copy(change->key, sizeof(change->key), key)) {
            int r = change ? -ENAMETOOLONG : -ENOMEM;

            free(change);
            free(value);
            return r;
        }
        change->group = batch->group;
        insert(batch, change);
    }
    free(change->value);
    change->value = value;
    change->size = size;
    return 0;
}

static void
take_out(struct store_batch *batch, struct store_change **at)
{
    struct store_change *change = *at;

    *at = change->next;
    if (!change->next)
        batch->end = at;
    gp_tree_remove(&batch->by_key, &change->by_key);
    batch->n--;
    change_free(change);
}

bool
store_batch_forget(struct store_batch *batch, const char *key)
{
    struct store_change *change = find(batch, key), **at = &batch->first;

    if (!change)
        return false;
    while (*at != change)
        at = &(*at)->next;
    take_out(batch, at);
    return true;
}

void
store_batch_drop(struct store_batch *batch, size_t n)
{
    while (n-- && batch->first)
        take_out(batch, &batch->first);
}

void
store_batch_prepend(struct store_batch *batch, struct store_batch *older)
{
    struct store_batch both;
    struct store_change *next;

    store_batch_init(&both);
    for (struct store_change *c = older->first; c; c = next) {
        next = c->next;
        if (find(batch, c->key))
            change_free(c);
        else
            insert(&both, c);
    }
    for (struct store_change *c = batch->first; c; c = next) {
        next = c->next;
        insert(&both, c);
    }
    both.group = batch->group;
    *batch = both;
    if (!batch->first)
        batch->end = &batch->first;
    store_batch_init(older);
}

int
store_batch_ops(const struct store_batch *batch, struct store_op **ret_ops)
{
    struct store_op *ops = calloc(batch->n ? batch->n : 1, sizeof(*ops)), *op = ops;

    if (!ops)
        return -ENOMEM;
    for (const struct store_change *c = batch->first; c; c = c->next)
        *op++ = (struct store_op){c->key, c->value, c->size, c->group};
    *ret_ops = ops;
    return 0;
}

static bool
parts_group(const struct store_op *ops, size_t at)
{
    return ops[at].group && ops[at - 1].group == ops[at].group;
}

size_t
store_ops_piece(const struct store_op *ops, size_t n, struct store_bound most)
{
    size_t end = 0;

    for (size_t bytes = 0; end < gp_min(n, most.ops); end++) {
        bytes += strlen(ops[end].key) + ops[end].size;
        if (end && bytes > most.bytes)
            break;
    }
    while (end < n && end > 1 && parts_group(ops, end))
        end--;
    if (end == 1 && n > 1 && parts_group(ops, end))
        while (end < n && parts_group(ops, end))
            end++;
    return end;
}
