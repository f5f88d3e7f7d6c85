/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: resources that count against a session although they allocate
 * nothing.
 */
#include "drv.h"
#include "wrk.h"
#include "wrk_args.h"

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
