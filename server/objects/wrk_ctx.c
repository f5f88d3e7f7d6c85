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
static unsigned contexts; /* the reader's */

CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_at(&w->handles, WIRE_KIND_CTX, index);
    CUresult r;

    if (!slot && index)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = WRK_CALL(w, cuCtxSetCurrent, slot ? slot->obj : NULL);
    if (r == CUDA_SUCCESS)
        w->ctx_index = index;
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

void
wrk_ctx_gone(struct wrk *w, uint64_t id)
{
    uint32_t index = wire_handle_index(id);

    for (unsigned i = 0; i < ARRAY_SIZE(ctx_kinds); i++)
        each_of_kind(w, ctx_kinds[i], index, NULL);
    for (wrk_ctx_hook *const *fn = wrk_hooks.ctx_gone; *fn; fn++)
        (*fn)(w, index);
    if (wrk_handles_find(&w->handles, WIRE_KIND_CTX, id))
        contexts--;
    wrk_handle_del(w, WIRE_KIND_CTX, id);
    atomic_fetch_add(&contexts_gone, 1);
    if (w->ctx_index == index) {
        WRK_CALL(w, cuCtxSetCurrent, NULL);
        w->ctx_index = 0;
    }
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
    return contexts;
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
        if (server->slots[index - WIRE_INDEX_SERVER].obj)
            return index;
    return 0;
}

unsigned
wrk_ctx_epoch(void)
{
    return atomic_load(&contexts_gone);
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
