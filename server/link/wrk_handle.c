/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_handle.h"

#include <errno.h>
#include <string.h>

#define FIRST_CAP 64u

static uint32_t
rev_hash(const void *obj, unsigned kind)
{
    uint64_t x = ((uint64_t)(uintptr_t)obj ^ (uint64_t)kind << 58) *
                 UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(x >> 32);
}

/* Where (@kind, @obj) is, or the free entry where it belongs. */
static uint32_t
rev_probe(const struct wrk_handles *t, unsigned kind, const void *obj)
{
    uint32_t i = rev_hash(obj, kind) & (t->rev_cap - 1);

    while (t->rev[i].obj &&
           (t->rev[i].obj != obj || wire_handle_kind(t->rev[i].id) != kind))
        i = (i + 1) & (t->rev_cap - 1);
    return i;
}

static int
rev_grow(struct wrk_handles *t)
{
    struct wrk_handle_rev *old = t->rev;
    uint32_t old_cap = t->rev_cap;

    if (t->rev_cap && t->rev_count < t->rev_cap / 2)
        return 0;
    t->rev_cap = old_cap ? old_cap * 2 : FIRST_CAP * 2;
    t->rev = calloc(t->rev_cap, sizeof(*t->rev));
    if (!t->rev) {
        t->rev = old;
        t->rev_cap = old_cap;
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < old_cap; i++) {
        if (!old[i].obj)
            continue;
        t->rev[rev_probe(t, wire_handle_kind(old[i].id), old[i].obj)] = old[i];
    }
    free(old);
    return 0;
}

static void
rev_set(struct wrk_handles *t, unsigned kind, uint64_t id, void *obj)
{
    uint32_t i = rev_probe(t, kind, obj);

    /* A driver may reuse a destroyed object's address for a new one before the client
     * has reported the end of the old one: the younger id is the valid one. */
    if (!t->rev[i].obj)
        t->rev_count++;
    t->rev[i] = (struct wrk_handle_rev){.obj = obj, .id = id};
}

/* Take the entry out and move up what linear probing put behind it. */
static void
rev_del(struct wrk_handles *t, unsigned kind, uint64_t id, const void *obj)
{
    uint32_t mask = t->rev_cap - 1;
    uint32_t hole = rev_probe(t, kind, obj);
    uint32_t i = hole;

    if (!t->rev[hole].obj || t->rev[hole].id != id)
        return;
    for (;;) {
        uint32_t home;

        i = (i + 1) & mask;
        if (!t->rev[i].obj)
            break;
        home = rev_hash(t->rev[i].obj, wire_handle_kind(t->rev[i].id)) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->rev[hole] = t->rev[i];
            hole = i;
        }
    }
    t->rev[hole].obj = NULL;
    t->rev_count--;
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
        r = rev_grow(t);
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
    uint32_t i;

    if (!t->rev_cap || !obj)
        return 0;
    i = rev_probe(t, kind, obj);
    return t->rev[i].obj ? t->rev[i].id : 0;
}

int
wrk_handles_name(struct wrk_handles *t, unsigned kind, void *obj, uint64_t *ret_id)
{
    struct wrk_handle_array *a = &t->server[kind];
    uint64_t id = wrk_handles_id_of(t, kind, obj);
    uint32_t i = t->allocated[kind];
    int r;

    if (id) {
        *ret_id = id;
        return 0;
    }
    /* Next free index after the last one, around the end. */
    if (a->count >= WRK_HANDLE_MAX)
        return -E2BIG;
    do
        i = (i + 1) % WRK_HANDLE_MAX;
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
    free(t->rev);
    memset(t, 0, sizeof(*t));
}
