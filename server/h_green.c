/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts, and references to physical memory: what counts against a session
 * although it allocates nothing.
 */
#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_quota.h"

/* A part of the card's multiprocessors is a part of what the session may use anyway:
 * the governor charges the work, whichever context it comes from. */
CUresult
h_cuGreenCtxCreate(struct wrk *w, const struct wire_args_cuGreenCtxCreate *a,
                   struct wrk_reply *rep)
{
    CUgreenCtx green = NULL;
    CUresult r = WRK_CALL(w, cuGreenCtxCreate, &green, a->desc, a->dev, a->flags);

    (void)rep;
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GREENCTX, a->phCtx_id, green);
    return r;
}

/* The bytes are counted again under the new id: either reference keeps the memory
 * alive, and which of them is dropped last, nobody knows. */
CUresult
h_cuMemRetainAllocationHandle(struct wrk *w,
                              const struct wire_args_cuMemRetainAllocationHandle *a,
                              struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    struct wrk_quota *q = w->priv->quota;
    uint64_t bytes = 0, known;
    CUmemAllocationProp prop;
    CUresult r = WRK_CALL(w, cuMemRetainAllocationHandle, &handle, a->addr);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    known = wrk_handle_name(w, WIRE_KIND_MEMHANDLE, (void *)(uintptr_t)handle);
    wrk_quota_find(q, known, &bytes);
    r = WRK_CALL(w, cuMemGetAllocationPropertiesFromHandle, &prop, handle);
    if (r == CUDA_SUCCESS && !wrk_quota_take(q, (uint32_t)prop.location.id, bytes))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (r == CUDA_SUCCESS &&
             wrk_quota_note(q, a->handle_id, (uint32_t)prop.location.id, 0, bytes) <
                 0) {
        wrk_quota_give(q, (uint32_t)prop.location.id, bytes);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    else
        WRK_CALL(w, cuMemRelease, handle);
    return r;
}
