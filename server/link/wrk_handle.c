/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_handle.h"

#include <errno.h>
#include <string.h>

#define FIRST_CAP 64u
/* So many of our own indexes are used before one is used again: a stale id is known as
 * one until its index has come round 256 times. */
#define NAMED_CAP 4096u

struct rev_key {
    unsigned kind;
    const void *obj;
};

static inline bool
wrk_handle_revs_used(const struct wrk_handle_rev *e)
{
    return e->obj != NULL;
}

static inline uint32_t
wrk_handle_revs_hash(struct rev_key key)
{
    return (uint32_t)(((uint64_t)(uintptr_t)key.obj ^ (uint64_t)key.kind << 58) *
                          UINT64_C(0x9e3779b97f4a7c15) >>
                      32);
}

static inline uint32_t
wrk_handle_revs_hash_of(const struct wrk_handle_rev *e)
{
    return wrk_handle_revs_hash((struct rev_key){wire_handle_kind(e->id), e->obj});
}

static inline bool
wrk_handle_revs_is(const struct wrk_handle_rev *e, struct rev_key key)
{
    return e->obj == key.obj && wire_handle_kind(e->id) == key.kind;
}

GP_TABLE(wrk_handle_revs, struct wrk_handle_rev, struct rev_key)

/* There is room. */
static void
rev_set(struct wrk_handles *t, unsigned kind, uint64_t id, void *obj)
{
    /* A driver may reuse a destroyed object's address for a new one before the client
     * has reported the end of the old one: the younger id is the valid one. */
    *wrk_handle_revs_enter(&t->revs, (struct rev_key){kind, obj}) =
        (struct wrk_handle_rev){.obj = obj, .id = id};
}

static void
rev_del(struct wrk_handles *t, unsigned kind, uint64_t id, const void *obj)
{
    struct wrk_handle_rev *e =
        wrk_handle_revs_find(&t->revs, (struct rev_key){kind, obj});

    if (e && e->id == id)
        wrk_handle_revs_remove(&t->revs, e);
}

static int
array_grow(struct wrk_handle_array *a, uint32_t index)
{
    uint32_t cap = gp_max(a->cap, FIRST_CAP);
    struct wrk_handle_slot *slots;

    if (index >= WRK_HANDLE_MAX)
        return -E2BIG;
    while (cap <= index)
        cap *= 2;
    if (cap == a->cap)
        return 0;
    slots = realloc(a->slots, cap * sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    memset(slots + a->cap, 0, (cap - a->cap) * sizeof(*slots));
    a->slots = slots;
    a->cap = cap;
    return 0;
}

int
wrk_handles_put(struct wrk_handles *t, unsigned kind, uint64_t id, void *obj)
{
    uint32_t index = wire_handle_index(id);
    struct wrk_handle_array *a = &t->client[kind];
    int r;

    if (!obj || kind >= WIRE_KIND_COUNT || !wire_handle_is(id, (enum wire_kind)kind) ||
        wire_handle_link(id) != t->link)
        return -EINVAL;
    if (index >= WIRE_INDEX_SERVER) {
        index -= WIRE_INDEX_SERVER;
        a = &t->server[kind];
    }
    r = array_grow(a, index);
    if (r == 0)
        r = wrk_handle_revs_room(&t->revs);
    if (r < 0)
        return r;
    if (a->slots[index].obj) {
        uint64_t old = wire_handle_make((enum wire_kind)kind, a->slots[index].gen,
                                        wire_handle_index(id)) |
                       t->link;

        if (old == id)
            return -EEXIST;
        /* The client uses the index again, so it has given the object up together with
         * its owner (a function with its module). */
        wrk_handles_del(t, kind, old);
    }
    a->slots[index] = (struct wrk_handle_slot){.obj = obj, .gen = wire_handle_gen(id)};
    a->count++;
    rev_set(t, kind, id, obj);
    return 0;
}

uint64_t
wrk_handles_id_of(const struct wrk_handles *t, unsigned kind, const void *obj)
{
    const struct wrk_handle_rev *e =
        wrk_handle_revs_find(&t->revs, (struct rev_key){kind, obj});

    return e ? e->id : 0;
}

int
wrk_handles_name(struct wrk_handles *t, unsigned kind, void *obj, uint64_t *ret_id)
{
    struct wrk_handle_array *a = &t->server[kind];
    uint64_t id = wrk_handles_id_of(t, kind, obj);
    uint32_t i = t->allocated[kind], end;
    int r;

    if (id) {
        *ret_id = id;
        return 0;
    }
    /* Next free index after the last one, around the end.  While half of a table is
     * free it does not grow: what has been named and ended costs no memory. */
    if (a->count >= WRK_HANDLE_MAX)
        return -E2BIG;
    end = a->cap >= NAMED_CAP && a->count < a->cap / 2 ? a->cap : WRK_HANDLE_MAX;
    do
        i = (i + 1) % end;
    while (i < a->cap && a->slots[i].obj);
    id = wire_handle_make((enum wire_kind)kind, i < a->cap ? a->slots[i].gen + 1 : 0,
                          WIRE_INDEX_SERVER + i) |
         t->link;
    r = wrk_handles_put(t, kind, id, obj);
    if (r < 0)
        return r;
    t->allocated[kind] = i;
    *ret_id = id;
    return 0;
}

void *
wrk_handles_del(struct wrk_handles *t, unsigned kind, uint64_t id)
{
    struct wrk_handle_slot *s = wrk_handles_find(t, kind, id);
    void *obj;

    if (!s)
        return NULL;
    obj = s->obj;
    rev_del(t, kind, id, obj);
    s->obj = NULL;
    if (wire_handle_index(id) >= WIRE_INDEX_SERVER)
        t->server[kind].count--;
    else
        t->client[kind].count--;
    return obj;
}

void
wrk_handles_fini(struct wrk_handles *t)
{
    for (unsigned k = 0; k < WIRE_KIND_COUNT; k++) {
        free(t->client[k].slots);
        free(t->server[k].slots);
    }
    wrk_handle_revs_fini(&t->revs);
    memset(t, 0, sizeof(*t));
}
