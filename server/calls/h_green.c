/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: resources that count against a session although they allocate
 * nothing.
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"

/* A driver (580) crashes when there are none; one that is of no type it need not see.
 */
CUresult
h_cuDevResourceGenerateDesc(struct wrk *w,
                            const struct wire_args_cuDevResourceGenerateDesc *a,
                            struct wrk_reply *rep)
{
    CUdevResourceDesc desc = NULL;
    CUresult r;

    (void)rep;
    if (!a->nbResources || !a->resources)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < a->nbResources; i++)
        if (a->resources[i].type == CU_DEV_RESOURCE_TYPE_INVALID)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    r = WRK_CALL(w, cuDevResourceGenerateDesc, &desc,
                 (CUdevResource *)(uintptr_t)a->resources, a->nbResources);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_RESDESC, a->phDesc_id, desc);
    return r;
}

/* The entry of a green context holds its device. */
static void
green_put(struct wrk *w, uint64_t id, CUgreenCtx green, CUdevice device)
{
    struct wrk_handle_slot *slot;

    wrk_handle_put(w, WIRE_KIND_GREENCTX, id, green);
    slot = wrk_handles_find(&w->handles, WIRE_KIND_GREENCTX, id);
    if (slot)
        slot->user = (uint32_t)device;
}

static CUdevice
green_device(const struct wrk *w, uint64_t id)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_GREENCTX, id);

    return slot ? (CUdevice)slot->user : 0;
}

/* A part of the card's multiprocessors is a part of what the session may use anyway:
 * the governor charges the work, whichever context it comes from. */
CUresult
h_cuGreenCtxCreate(struct wrk *w, const struct wire_args_cuGreenCtxCreate *a,
                   struct wrk_reply *rep)
{
    CUgreenCtx green = NULL;
    CUresult r;

    (void)rep;
    /* Nor may a session leave the part that it has. */
    if (w->priv->spatial)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (a->dev < 0 || (uint32_t)a->dev >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    r = WRK_CALL(w, cuGreenCtxCreate, &green, a->desc, a->dev, a->flags);
    if (r == CUDA_SUCCESS)
        green_put(w, a->phCtx_id, green, a->dev);
    return r;
}

CUresult
h_cuCtxFromGreenCtx(struct wrk *w, const struct wire_args_cuCtxFromGreenCtx *a,
                    struct wrk_reply *rep)
{
    struct wire_cuCtxFromGreenCtx_rep *body = rep->body;
    CUcontext ctx = NULL;
    CUresult r = WRK_CALL(w, cuCtxFromGreenCtx, &ctx, a->hCtx);

    if (r != CUDA_SUCCESS)
        return r;
    body->pContext = wrk_handle_name(w, WIRE_KIND_CTX, ctx);
    wrk_ctx_put_green(w, body->pContext, green_device(w, a->hCtx_id));
    return r;
}

/* A driver frees the context that was made from it; an id that outlived it would lead
 * the driver to freed memory. */
CUresult
h_cuGreenCtxDestroy(struct wrk *w, const struct wire_args_cuGreenCtxDestroy *a,
                    struct wrk_reply *rep)
{
    CUcontext ctx = NULL;
    uint64_t id = 0;
    CUresult r;

    (void)rep;
    if (WRK_CALL(w, cuCtxFromGreenCtx, &ctx, a->hCtx) == CUDA_SUCCESS)
        id = wrk_handles_id_of(&w->handles, WIRE_KIND_CTX, ctx);
    if (id)
        wrk_ctx_end_green(w, id);
    r = WRK_CALL(w, cuGreenCtxDestroy, a->hCtx);
    wrk_handle_del(w, WIRE_KIND_GREENCTX, a->hCtx_id);
    return r;
}

/* It is a stream of the primary context, which need not be the current one. */
CUresult
h_cuGreenCtxStreamCreate(struct wrk *w,
                         const struct wire_args_cuGreenCtxStreamCreate *a,
                         struct wrk_reply *rep)
{
    struct wrk_handle_slot *slot;
    CUstream stream = NULL;
    CUresult r;

    (void)rep;
    r = WRK_CALL(w, cuGreenCtxStreamCreate, &stream, a->greenCtx, a->flags,
                 a->priority);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_put(w, WIRE_KIND_STREAM, a->phStream_id, stream);
    slot = wrk_handles_find(&w->handles, WIRE_KIND_STREAM, a->phStream_id);
    if (slot)
        slot->user = wrk_ctx_primary(w, green_device(w, a->greenCtx_id));
    return r;
}
