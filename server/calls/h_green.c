/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: resources that count against a session although they allocate
 * nothing.
 */
#include "drv.h"
#include "wrk.h"
#include "wrk_args.h"

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
    r = WRK_CALL(w, cuGreenCtxCreate, &green, a->desc, a->dev, a->flags);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GREENCTX, a->phCtx_id, green);
    return r;
}
