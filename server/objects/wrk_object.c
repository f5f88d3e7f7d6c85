/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_object.h"

#include "drv.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_table.h"
#include "wire_format.h"
#include "wire_result.h"
#include "wrk_hooks.h"
#include "wrk_priv.h"
#include "wrk_state.h"

#include <errno.h>
#include <string.h>

GP_HOT CUresult
wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret)
{
    const struct wrk_handle_slot *slot;

    *ret = NULL;
    if (id == 0)
        return CUDA_SUCCESS;
    if (id <= 2 && kind == WIRE_KIND_STREAM) {
        *ret = (void *)(uintptr_t)id;
        return CUDA_SUCCESS;
    }
    slot = wrk_handles_find(&w->handles, kind, id);
    if (unlikely(!slot))
        return wire_handle_error((enum wire_kind)kind);
    *ret = slot->obj;
    return CUDA_SUCCESS;
}

/* Set in the owner's number of a function: that is a library, and the function a
 * kernel.
 */
#define OWNER_LIBRARY (UINT32_C(1) << 31)

/* The function of a kernel in a context, which the client knows by the kernel's id: a
 * driver that names the function, as a node's, means that kernel.  Receive thread. */
struct kernel_func {
    const void *func;
    uint64_t id;
    uint32_t ctx_index;
};

GP_TABLE_TYPE(kernel_funcs, struct kernel_func);

static inline bool
kernel_funcs_used(const struct kernel_func *e)
{
    return e->func != NULL;
}

static inline uint32_t
kernel_funcs_hash(const void *func)
{
    return (uint32_t)gp_hash_u64((uintptr_t)func);
}

static inline uint32_t
kernel_funcs_hash_of(const struct kernel_func *e)
{
    return kernel_funcs_hash(e->func);
}

static inline bool
kernel_funcs_is(const struct kernel_func *e, const void *func)
{
    return e->func == func;
}

GP_TABLE(kernel_funcs, struct kernel_func, const void *)

static struct kernel_funcs kernel_funcs;

static void
kernel_func_note(const struct wrk *w, const void *func, uint64_t id)
{
    struct kernel_func *e = func ? kernel_funcs_enter(&kernel_funcs, func) : NULL;

    if (e)
        *e = (struct kernel_func){func, id, w->ctx_index};
}

/* Their context has gone, or (0) the kernels that have no id any more. */
static void
kernel_funcs_forget(const struct wrk *w, uint32_t ctx_index)
{
    for (uint32_t i = 0; i < kernel_funcs.cap;) {
        struct kernel_func *e = &kernel_funcs.slots[i];

        if (kernel_funcs_used(e) &&
            (ctx_index ? e->ctx_index == ctx_index
                       : !wrk_handles_find(&w->handles, WIRE_KIND_FUNC, e->id)))
            kernel_funcs_remove(&kernel_funcs, e);
        else
            i++;
    }
}

void
wrk_object_ctx_gone(struct wrk *w, uint32_t ctx_index)
{
    kernel_funcs_forget(w, ctx_index);
}

uint64_t
wrk_func_id_of(const struct wrk *w, const void *func)
{
    const struct kernel_func *e =
        func && kernel_funcs.count ? kernel_funcs_find(&kernel_funcs, func) : NULL;

    return e ? e->id : wrk_handles_id_of(&w->handles, WIRE_KIND_FUNC, func);
}

CUresult
wrk_func_get(struct wrk *w, uint64_t id, void **ret)
{
    CUresult r = wrk_handle_get(w, WIRE_KIND_FUNC, id, ret);
    CUfunction func = NULL;

    if (r != CUDA_SUCCESS || !*ret ||
        !(wrk_handles_find(&w->handles, WIRE_KIND_FUNC, id)->user & OWNER_LIBRARY))
        return r;
    r = WRK_CALL(w, cuKernelGetFunction, &func, (CUkernel)*ret);
    if (r == CUDA_SUCCESS)
        kernel_func_note(w, func, id);
    *ret = func;
    return r;
}

/* If there is no memory for the table, the next call with a reply reports it.  The
 * object stays with its owner, under an id that no call accepts. */
static void
handle_trouble(struct wrk *w, unsigned kind, int r)
{
    CUresult none = CUDA_SUCCESS;

    if (r == -ENOMEM) {
        gp_log_warn("call", "no memory to enter a handle of kind %u", kind);
        atomic_compare_exchange_strong(&w->deferred, &none, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    gp_log_error("frame",
                 "handle of kind %u cannot be entered: %s; the attachment ends", kind,
                 r == -EEXIST ? "its id is in use" : strerror(-r));
    if (!w->priv->bad)
        w->priv->bad = "bad handle id";
}

void
wrk_handle_put(struct wrk *w, unsigned kind, uint64_t id, void *obj)
{
    int r = wrk_handles_put(&w->handles, kind, id, obj);
    struct wrk_handle_slot *slot;

    if (unlikely(r < 0)) {
        handle_trouble(w, kind, r);
        return;
    }
    slot = wrk_handles_find(&w->handles, kind, id);
    slot->user = kind == WIRE_KIND_FUNC ? 0 : w->ctx_index;
}

uint64_t
wrk_handle_name(struct wrk *w, unsigned kind, void *obj)
{
    uint64_t id = 0;
    int r;

    if (!obj || (kind == WIRE_KIND_STREAM && (uintptr_t)obj <= 2))
        return (uintptr_t)obj;
    if (kind == WIRE_KIND_CTX)
        for (wrk_ctx_named_hook *const *fn = wrk_hooks.ctx_named; *fn; fn++)
            obj = (*fn)(w, obj);
    if (kind == WIRE_KIND_GREENCTX) /* another one has ended, or is ours */
        return wrk_handles_id_of(&w->handles, kind, obj);
    if (kind == WIRE_KIND_FUNC)
        id = wrk_func_id_of(w, obj);
    if (id)
        return id;
    r = wrk_handles_name(&w->handles, kind, obj, &id);
    if (unlikely(r < 0))
        handle_trouble(w, kind, r);
    return id;
}

/* The number of a function's module or library in its entry; 0: none. */
static uint32_t
owner_key(uint64_t owner_id)
{
    bool library = wire_handle_is(owner_id, WIRE_KIND_LIBRARY);

    return (library ? OWNER_LIBRARY : 0) | (wire_handle_index(owner_id) + 1);
}

void
wrk_handle_of(struct wrk *w, uint64_t func_id, uint64_t owner_id)
{
    struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_FUNC, func_id);

    /* A kernel stays its library's where the function that it is known by is found in
     * the library's module. */
    if (slot && !(slot->user & OWNER_LIBRARY))
        slot->user = owner_key(owner_id);
}

/* A driver frees a module's functions with it; an id that outlived them would lead the
 * driver to freed memory. */
static void
forget_functions(struct wrk *w, uint64_t owner_id)
{
    const struct wrk_handle_array *arrays[] = {&w->handles.client[WIRE_KIND_FUNC],
                                               &w->handles.server[WIRE_KIND_FUNC]};
    const uint32_t base[] = {0, WIRE_INDEX_SERVER};
    uint32_t key = owner_key(owner_id);

    for (unsigned side = 0; side < ARRAY_SIZE(arrays); side++)
        for (uint32_t i = 0; i < arrays[side]->cap; i++) {
            const struct wrk_handle_slot *slot = &arrays[side]->slots[i];

            if (slot->obj && slot->user == key)
                wrk_handles_del(
                    &w->handles, WIRE_KIND_FUNC,
                    wire_handle_make(WIRE_KIND_FUNC, slot->gen, base[side] + i) |
                        w->handles.link);
        }
    kernel_funcs_forget(w, 0);
}

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    void *obj = wrk_handles_del(&w->handles, kind, id);

    if (kind == WIRE_KIND_STREAM && obj)
        for (wrk_stream_hook *const *fn = wrk_hooks.stream_gone; *fn; fn++)
            (*fn)(w, obj);
    else if ((kind == WIRE_KIND_MODULE || kind == WIRE_KIND_LIBRARY) && obj)
        forget_functions(w, id);
}
