/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table of a worker: which driver object stands behind an id.
 *
 * Ids are laid out as wire_format.h says.  The table is two arrays per kind,
 * one for the indexes that the client allocates and one for those that the worker
 * allocates (objects that only a query reveals), plus a map from driver object back
 * to id.  An entry remembers its generation, so a stale id never finds the
 * object that reuses its slot.
 *
 * Owned by struct wrk, reader thread only: waiter threads get driver handles,
 * never ids.  It does not own the driver objects: they die with their context,
 * or with the process.
 */
#ifndef WRK_HANDLE_H
#define WRK_HANDLE_H

#include "gp_base.h"
#include "gp_table.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects of one kind, made by one side, that a client may hold at once.  A
 * training process was seen with some 40,000 graph nodes; an entry is 16 bytes
 * and a map entry 24, so a hostile client costs 80 MiB per kind at most, and
 * only for objects that the driver really made. */
#define WRK_HANDLE_MAX (1u << 20)

struct wrk_handle_slot {
    void *obj;     /* NULL: free */
    uint32_t gen;  /* 8 bits used */
    uint32_t user; /* for the kind's owner: the context index of a stream, what a
                      function is of (wrk_handle_of) */
};

struct wrk_handle_array {
    struct wrk_handle_slot *slots;
    uint32_t cap;   /* entries allocated */
    uint32_t count; /* entries in use */
};

struct wrk_handle_rev {
    void *obj; /* NULL: free */
    uint64_t id;
};

GP_TABLE_TYPE(wrk_handle_revs, struct wrk_handle_rev);

struct wrk_handles {
    struct wrk_handle_array client[WIRE_KIND_COUNT];
    struct wrk_handle_array server[WIRE_KIND_COUNT];
    uint32_t allocated[WIRE_KIND_COUNT]; /* last server index tried, relative */
    struct wrk_handle_revs revs;
    uint32_t link; /* what ids say in their low bits: the client's number of us */
};

/* The entry of @id, or NULL: malformed, of another kind, stale, or never put. */
static inline struct wrk_handle_slot *
wrk_handles_find(const struct wrk_handles *t, unsigned kind, uint64_t id)
{
    uint32_t index = wire_handle_index(id);
    const struct wrk_handle_array *a = &t->client[kind];

    if (unlikely(index >= WIRE_INDEX_SERVER)) {
        index -= WIRE_INDEX_SERVER;
        a = &t->server[kind];
    }
    if (unlikely(!wire_handle_is(id, (enum wire_kind)kind) || index >= a->cap ||
                 wire_handle_link(id) != t->link))
        return NULL;
    if (unlikely(!a->slots[index].obj || a->slots[index].gen != wire_handle_gen(id)))
        return NULL;
    return &a->slots[index];
}

/* The client's entry with this index whatever its generation, or NULL. */
static inline struct wrk_handle_slot *
wrk_handles_at(const struct wrk_handles *t, unsigned kind, uint32_t index)
{
    const struct wrk_handle_array *a = &t->client[kind];

    return index < a->cap && a->slots[index].obj ? &a->slots[index] : NULL;
}

/* Enter @obj (not NULL) under @id; an entry of an older generation in its place is
 * dropped.  -EINVAL: malformed id or another kind.  -EEXIST: the very id is in use.
 * -E2BIG: index past WRK_HANDLE_MAX.  -ENOMEM. */
int wrk_handles_put(struct wrk_handles *t, unsigned kind, uint64_t id, void *obj);

/* The id under which @obj of @kind is known, 0 when it is not. */
uint64_t wrk_handles_id_of(const struct wrk_handles *t, unsigned kind, const void *obj);

/* The same; makes a server index when it is not known yet.  -E2BIG, -ENOMEM. */
int wrk_handles_name(struct wrk_handles *t, unsigned kind, void *obj, uint64_t *ret_id);

/* Forget @id and return what stood behind it; NULL when nothing did. */
void *wrk_handles_del(struct wrk_handles *t, unsigned kind, uint64_t id);

void wrk_handles_fini(struct wrk_handles *t);

#endif
