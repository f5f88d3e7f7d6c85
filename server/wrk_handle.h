/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table of a worker: which driver object stands behind an id that
 * the client minted.
 *
 * An id is 1<<46 | kind<<40 | gen<<32 | index<<4.  The table is an array per
 * kind, indexed by the id's index; the entry remembers the generation, so a
 * stale id never finds the object that reuses its slot.  Owned by struct wrk,
 * reader thread only (waiter threads get driver handles, never ids).
 *
 * It does not own the driver objects: they die with their context, or with
 * the process.
 */
#ifndef WRK_HANDLE_H
#define WRK_HANDLE_H

#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRK_HANDLE_KINDS 64 /* the id has six bits for the kind */

/* Objects of one kind that a client may hold at once.  A training process was
 * seen with some 40,000 graph nodes; an entry is 16 bytes, so a hostile client
 * costs us 16 MiB per kind, and only for entries it really fills. */
#define WRK_HANDLE_MAX (1u << 20)

struct wrk_handle_slot {
    void *obj;     /* NULL: free */
    uint32_t gen;  /* 8 bits used */
    uint32_t user; /* for the kind's owner: the context index of a stream... */
};

struct wrk_handle_kind {
    struct wrk_handle_slot *slots;
    uint32_t cap;   /* entries allocated */
    uint32_t count; /* entries in use */
};

struct wrk_handles {
    struct wrk_handle_kind kind[WRK_HANDLE_KINDS];
};

static inline unsigned
wrk_handle_id_kind(uint64_t id)
{
    return (unsigned)(id >> 40) & 0x3f;
}

static inline unsigned
wrk_handle_id_gen(uint64_t id)
{
    return (unsigned)(id >> 32) & 0xff;
}

static inline uint32_t
wrk_handle_id_index(uint64_t id)
{
    return (uint32_t)(id >> 4) & 0x0fffffff;
}

/* The well-formed id of an object; what the client would have minted. */
uint64_t wrk_handle_id(unsigned kind, unsigned gen, uint32_t index);

/* The entry of @id, or NULL: malformed, of another kind, stale, or never put. */
static inline struct wrk_handle_slot *
wrk_handles_find(const struct wrk_handles *t, unsigned kind, uint64_t id)
{
    const struct wrk_handle_kind *k = &t->kind[kind];
    uint32_t index = wrk_handle_id_index(id);

    if (unlikely((id >> 40) != (UINT64_C(1) << 6 | kind) || (id & 0xf) != 0 ||
                 index >= k->cap))
        return NULL;
    if (unlikely(!k->slots[index].obj || k->slots[index].gen != wrk_handle_id_gen(id)))
        return NULL;
    return &k->slots[index];
}

/* The entry with this index whatever its generation, or NULL. */
struct wrk_handle_slot *wrk_handles_at(const struct wrk_handles *t, unsigned kind,
                                       uint32_t index);

/* Enter @obj under @id.  -EINVAL: malformed id or another kind.  -EEXIST: the
 * slot is taken.  -E2BIG: index past WRK_HANDLE_MAX.  -ENOMEM. */
int wrk_handles_put(struct wrk_handles *t, unsigned kind, uint64_t id, void *obj);

/* Forget @id and return what stood behind it; NULL when nothing did. */
void *wrk_handles_del(struct wrk_handles *t, unsigned kind, uint64_t id);

/* Forget every entry of @kind whose object is @obj (an object that died with
 * its owner). */
void wrk_handles_forget(struct wrk_handles *t, unsigned kind, const void *obj);

void wrk_handles_fini(struct wrk_handles *t);

#endif
