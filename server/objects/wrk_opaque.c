/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_opaque.h"

#include "gp_base.h"
#include "gp_hash.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- resources ---- */

/* In the place of the driver's bytes. */
struct stand_in {
    uint64_t number; /* from 1 on */
    uint64_t proof;  /* its hash with the process's key */
};

struct resource {
    uint64_t number; /* 0: none yet */
    uint64_t hash;   /* of the driver's */
    CUdevResource drivers;
};

/* One process is one attachment.  Number n is at n % WRK_OPAQUE_RESOURCES. */
static struct {
    struct resource *known; /* NULL: none was asked for */
    uint64_t last;
} resources;

static struct resource *
place_of(uint64_t number)
{
    return &resources.known[number % WRK_OPAQUE_RESOURCES];
}

static struct stand_in
stand_in_of(uint64_t number)
{
    return (struct stand_in){
        number, gp_hash_bytes(gp_hash_process_key(), &number, sizeof(number))};
}

/* What a client is shown. */
static CUdevResource
shown(const struct resource *r)
{
    struct stand_in in = stand_in_of(r->number);
    CUdevResource res;

    static_assert(sizeof(in) <= sizeof(res._internal_padding), "there is room");
    memset(&res, 0, sizeof(res)); /* what stands in no field is compared, too */
    res.type = r->drivers.type;
    res.sm = r->drivers.sm;
    memcpy(res._internal_padding, &in, sizeof(in));
    return res;
}

static struct resource *
resource_same(const CUdevResource *drivers, uint64_t hash)
{
    uint64_t n = gp_min(resources.last, (uint64_t)WRK_OPAQUE_RESOURCES);

    for (uint64_t i = 0; i < n; i++) {
        struct resource *r = place_of(resources.last - i);

        if (r->hash == hash && memcmp(&r->drivers, drivers, sizeof(*drivers)) == 0)
            return r;
    }
    return NULL;
}

static struct resource *
resource_enter(const CUdevResource *drivers)
{
    uint64_t hash = gp_hash_bytes(gp_hash_process_key(), drivers, sizeof(*drivers));
    struct resource *r;

    if (!resources.known)
        resources.known = calloc(WRK_OPAQUE_RESOURCES, sizeof(*resources.known));
    if (!resources.known)
        return NULL;
    r = resource_same(drivers, hash);
    if (r)
        return r;
    r = place_of(++resources.last);
    *r = (struct resource){resources.last, hash, *drivers};
    return r;
}

CUresult
wrk_opaque_hide(CUdevResource *given, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct resource *r = resource_enter(&given[i]);

        if (!r) {
            memset(given, 0, n * sizeof(*given));
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        given[i] = shown(r);
    }
    return CUDA_SUCCESS;
}

/* All of it is compared: a client that changes what it may read gets no part of a card
 * that the driver did not describe. */
static CUresult
show_one(const CUdevResource *of_client, CUdevResource *ret)
{
    const struct resource *r;
    CUdevResource was;
    struct stand_in in;

    if (of_client->type == CU_DEV_RESOURCE_TYPE_INVALID)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memcpy(&in, of_client->_internal_padding, sizeof(in));
    if (!resources.known || !in.number)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    r = place_of(in.number);
    if (r->number != in.number)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    was = shown(r);
    if (memcmp(&was, of_client, sizeof(was)) != 0)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *ret = r->drivers;
    return CUDA_SUCCESS;
}

CUresult
wrk_opaque_show(const CUdevResource *of_client, unsigned n, CUdevResource *ret)
{
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = show_one(&of_client[i], &ret[i]);
    return r;
}

/* ---- objects ---- */

#define OBJECTS_MIN 64u

struct object {
    uint64_t value; /* 0: nothing */
    uint32_t ctx_index;
    enum wrk_opaque_kind kind;
};

/* By open addressing with steps of one, at most half full. */
static struct {
    struct object *at;
    uint32_t cap, n; /* cap is 0 or a power of two */
} objects;

static uint32_t
object_home(enum wrk_opaque_kind kind, uint64_t value)
{
    return (uint32_t)gp_hash_u64(value ^ (uint64_t)kind << 56) & (objects.cap - 1);
}

/* Where it is, or would be. */
static struct object *
object_at(enum wrk_opaque_kind kind, uint64_t value)
{
    uint32_t i = object_home(kind, value);

    while (objects.at[i].value &&
           !(objects.at[i].value == value && objects.at[i].kind == kind))
        i = (i + 1) & (objects.cap - 1);
    return &objects.at[i];
}

static bool
objects_grow(void)
{
    struct object *old = objects.at;
    uint32_t old_cap = objects.cap;
    uint32_t cap = old_cap ? 2 * old_cap : OBJECTS_MIN;
    struct object *at = calloc(cap, sizeof(*at));

    if (!at)
        return false;
    objects.at = at;
    objects.cap = cap;
    for (uint32_t i = 0; i < old_cap; i++)
        if (old[i].value)
            *object_at(old[i].kind, old[i].value) = old[i];
    free(old);
    return true;
}

CUresult
wrk_opaque_enter(enum wrk_opaque_kind kind, uint64_t value, uint32_t ctx_index)
{
    struct object *o;

    if (!value)
        return CUDA_SUCCESS;
    if (2 * (objects.n + 1) > objects.cap && !objects_grow())
        return CUDA_ERROR_OUT_OF_MEMORY;
    o = object_at(kind, value);
    objects.n += !o->value;
    *o = (struct object){value, ctx_index, kind};
    return CUDA_SUCCESS;
}

CUresult
wrk_opaque_find(enum wrk_opaque_kind kind, uint64_t value)
{
    if (!value || (objects.cap && object_at(kind, value)->value))
        return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

/* Those behind it up to the next gap may have stood aside for it. */
static void
object_remove(struct object *o)
{
    uint32_t i = (uint32_t)(o - objects.at);

    *o = (struct object){0};
    objects.n--;
    for (;;) {
        struct object moved;

        i = (i + 1) & (objects.cap - 1);
        moved = objects.at[i];
        if (!moved.value)
            break;
        objects.at[i] = (struct object){0};
        *object_at(moved.kind, moved.value) = moved;
    }
}

CUresult
wrk_opaque_leave(enum wrk_opaque_kind kind, uint64_t value)
{
    CUresult r = wrk_opaque_find(kind, value);

    if (r == CUDA_SUCCESS && value)
        object_remove(object_at(kind, value));
    return r;
}

/* What removing moves comes to a place that is looked at later, or was looked at. */
void
wrk_opaque_forget(struct wrk *w, uint32_t ctx_index)
{
    uint32_t i = 0;

    (void)w;
    while (i < objects.cap) {
        if (objects.at[i].value && objects.at[i].ctx_index == ctx_index)
            object_remove(&objects.at[i]);
        else
            i++;
    }
}
