/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_ctx.h"

#include "drv.h"
#include "wrk_hooks.h"
#include "wrk_object.h"
#include "wrk_priv.h"
#include "wrk_state.h"

#include <stdatomic.h>

/* Kinds whose objects live and die with a context. */
static const enum wire_kind ctx_kinds[] = {
    WIRE_KIND_MODULE, WIRE_KIND_STREAM, WIRE_KIND_EVENT,   WIRE_KIND_ARRAY,
    WIRE_KIND_MIPMAP, WIRE_KIND_TEXOBJ, WIRE_KIND_SURFOBJ,
};

/* A new context may get the address of a dead one: threads that remember which
 * one is current compare this as well. */
static atomic_uint contexts_gone;
static unsigned contexts; /* the reader's, as the next one */
static unsigned greens;   /* contexts that were made from green ones */

/* In the entry of a context that was made from a green one, with its device. */
#define OF_GREEN (UINT32_C(1) << 31)

static bool
is_of_green(const struct wrk_handle_slot *slot)
{
    return slot->obj && slot->user & OF_GREEN;
}

/* Of a context that the worker named; NULL: there is none that may be current. */
static struct wrk_handle_slot *
green_at(const struct wrk *w, uint32_t index)
{
    const struct wrk_handle_array *named = &w->handles.server[WIRE_KIND_CTX];

    index -= WIRE_INDEX_SERVER;
    return index < named->cap && is_of_green(&named->slots[index])
               ? &named->slots[index]
               : NULL;
}

static CUresult
use_green(struct wrk *w, uint32_t index)
{
    const struct wrk_handle_slot *slot = green_at(w, index);
    uint32_t primary =
        slot ? wrk_ctx_primary(w, (CUdevice)(slot->user & ~OF_GREEN)) : 0;
    CUresult r;

    if (!slot || !wrk_handles_at(&w->handles, WIRE_KIND_CTX, primary))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = WRK_CALL(w, cuCtxSetCurrent, slot->obj);
    if (r == CUDA_SUCCESS) {
        w->ctx_index = primary;
        w->ctx_frame = index;
    }
    return r;
}

CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    const struct wrk_handle_slot *slot;
    CUresult r;

    if (unlikely(index >= WIRE_INDEX_SERVER))
        return use_green(w, index);
    slot = wrk_handles_at(&w->handles, WIRE_KIND_CTX, index);
    if (!slot && index)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = WRK_CALL(w, cuCtxSetCurrent, slot ? slot->obj : NULL);
    if (r == CUDA_SUCCESS)
        w->ctx_index = w->ctx_frame = index;
    return r;
}

GP_HOT CUcontext
wrk_ctx_current(struct wrk *w)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_at(&w->handles, WIRE_KIND_CTX, w->ctx_index);

    return slot ? slot->obj : NULL;
}

uint32_t
wrk_ctx_of_stream(const struct wrk *w, const void *stream)
{
    const struct wrk_handle_array *streams = &w->handles.client[WIRE_KIND_STREAM];

    for (uint32_t i = 0; i < streams->cap; i++)
        if (streams->slots[i].obj == stream)
            return streams->slots[i].user;
    return w->ctx_index;
}

GP_HOT uint32_t
wrk_ctx_slice(struct wrk *w, uint32_t index)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_at(&w->handles, WIRE_KIND_CTX, index);

    return slot ? slot->user : 0;
}

uint64_t
wrk_ctx_primary_id(const struct wrk *w, CUdevice device)
{
    return wire_primary_ctx(w->handles.link,
                            w->priv->conf.device_base + (uint32_t)device);
}

uint32_t
wrk_ctx_primary(const struct wrk *w, CUdevice device)
{
    return wire_handle_index(wrk_ctx_primary_id(w, device));
}

void
wrk_ctx_put(struct wrk *w, uint64_t id, CUcontext ctx, CUdevice device)
{
    struct wrk_handle_slot *slot;

    wrk_handle_put(w, WIRE_KIND_CTX, id, ctx);
    slot = wrk_handles_find(&w->handles, WIRE_KIND_CTX, id);
    if (slot) {
        slot->user = (uint32_t)device;
        contexts++;
    }
}

/* Call @fn for, or with NULL forget, every object of that kind in the context. */
static void
each_of_kind(struct wrk *w, enum wire_kind kind, uint32_t ctx_index,
             void (*fn)(struct wrk *w, enum wire_kind kind, void *obj))
{
    struct wrk_handle_array *arrays[] = {&w->handles.client[kind],
                                         &w->handles.server[kind]};
    uint32_t base[] = {0, WIRE_INDEX_SERVER};

    for (unsigned side = 0; side < ARRAY_SIZE(arrays); side++) {
        for (uint32_t i = 0; i < arrays[side]->cap; i++) {
            const struct wrk_handle_slot *slot = &arrays[side]->slots[i];

            if (!slot->obj || slot->user != ctx_index)
                continue;
            if (fn)
                fn(w, kind, slot->obj);
            else
                wrk_handle_del(w, kind,
                               wire_handle_make(kind, slot->gen, base[side] + i) |
                                   w->handles.link);
        }
    }
}

/* The reader's thread leaves the context that is current, which goes. */
static void
leave(struct wrk *w)
{
    WRK_CALL(w, cuCtxSetCurrent, NULL);
    w->ctx_index = w->ctx_frame = 0;
}

void
wrk_ctx_put_green(struct wrk *w, uint64_t id, CUdevice device)
{
    struct wrk_handle_slot *slot = wrk_handles_find(&w->handles, WIRE_KIND_CTX, id);

    if (!slot || wire_handle_index(id) < WIRE_INDEX_SERVER)
        return;
    greens += !is_of_green(slot);
    slot->user = OF_GREEN | (uint32_t)device;
}

void
wrk_ctx_end_green(struct wrk *w, uint64_t id)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_CTX, id);

    if (w->ctx_frame == wire_handle_index(id))
        leave(w);
    greens -= slot && is_of_green(slot);
    wrk_handle_del(w, WIRE_KIND_CTX, id);
    wrk_ctx_dies();
}

/* They go with their primary context. */
static void
end_greens(struct wrk *w, uint32_t device)
{
    const struct wrk_handle_array *named = &w->handles.server[WIRE_KIND_CTX];

    for (uint32_t i = 0; i < named->cap; i++)
        if (is_of_green(&named->slots[i]) &&
            (named->slots[i].user & ~OF_GREEN) == device)
            wrk_ctx_end_green(w, wire_handle_make(WIRE_KIND_CTX, named->slots[i].gen,
                                                  WIRE_INDEX_SERVER + i) |
                                     w->handles.link);
}

void
wrk_ctx_gone(struct wrk *w, uint64_t id)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_CTX, id);
    uint32_t index = wire_handle_index(id);

    if (slot && id == wrk_ctx_primary_id(w, (CUdevice)slot->user))
        end_greens(w, slot->user);

    for (unsigned i = 0; i < ARRAY_SIZE(ctx_kinds); i++)
        each_of_kind(w, ctx_kinds[i], index, NULL);
    for (wrk_ctx_hook *const *fn = wrk_hooks.ctx_gone; *fn; fn++)
        (*fn)(w, index);
    if (wrk_handles_find(&w->handles, WIRE_KIND_CTX, id))
        contexts--;
    wrk_handle_del(w, WIRE_KIND_CTX, id);
    wrk_ctx_dies();
    if (w->ctx_index == index)
        leave(w);
}

void
wrk_ctx_objects(struct wrk *w, uint32_t index,
                void (*fn)(struct wrk *w, enum wire_kind kind, void *obj))
{
    for (unsigned i = 0; i < ARRAY_SIZE(ctx_kinds); i++)
        each_of_kind(w, ctx_kinds[i], index, fn);
}

unsigned
wrk_ctx_count(void)
{
    return contexts + greens;
}

uint32_t
wrk_ctx_next(const struct wrk *w, uint32_t index)
{
    const struct wrk_handle_array *client = &w->handles.client[WIRE_KIND_CTX];
    const struct wrk_handle_array *server = &w->handles.server[WIRE_KIND_CTX];

    for (index++; index < client->cap; index++)
        if (client->slots[index].obj)
            return index;
    index = index < WIRE_INDEX_SERVER ? WIRE_INDEX_SERVER : index;
    for (; index - WIRE_INDEX_SERVER < server->cap; index++)
        if (is_of_green(&server->slots[index - WIRE_INDEX_SERVER]))
            return index;
    return 0;
}

unsigned
wrk_ctx_epoch(void)
{
    return atomic_load(&contexts_gone);
}

void
wrk_ctx_dies(void)
{
    atomic_fetch_add(&contexts_gone, 1);
}

static CUcontext
any_ctx(const struct wrk *w)
{
    const struct wrk_handle_array *arrays[] = {&w->handles.client[WIRE_KIND_CTX],
                                               &w->handles.server[WIRE_KIND_CTX]};

    for (unsigned side = 0; side < ARRAY_SIZE(arrays); side++)
        for (uint32_t i = 0; i < arrays[side]->cap; i++)
            if (arrays[side]->slots[i].obj)
                return arrays[side]->slots[i].obj;
    return NULL;
}

void
wrk_ctx_lend(struct wrk *w, struct wrk_ctx_lent *ret)
{
    CUcontext ctx;

    *ret = (struct wrk_ctx_lent){0};
    if (wrk_ctx_current(w))
        return;
    ctx = any_ctx(w);
    if (!ctx)
        ret->retained = WRK_CALL(w, cuDevicePrimaryCtxRetain, &ctx, 0) == CUDA_SUCCESS;
    ret->current = ctx && WRK_CALL(w, cuCtxSetCurrent, ctx) == CUDA_SUCCESS;
}

void
wrk_ctx_take_back(struct wrk *w, const struct wrk_ctx_lent *lent)
{
    if (lent->current)
        WRK_CALL(w, cuCtxSetCurrent, NULL);
    if (lent->retained)
        WRK_CALL(w, cuDevicePrimaryCtxRelease_v2, 0);
}

void
wrk_ctx_enter(struct wrk *w, CUcontext ctx)
{
    static _Thread_local CUcontext current;
    static _Thread_local unsigned seen;
    unsigned now = atomic_load(&contexts_gone);

    if (ctx == current && now == seen)
        return;
    seen = now;
    current = WRK_CALL(w, cuCtxSetCurrent, ctx) == CUDA_SUCCESS ? ctx : NULL;
}
