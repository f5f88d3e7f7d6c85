/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: every allocating call asks the quota first, every free gives
 * back exactly what was taken.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"

#include <string.h>

/* The slice of the current context; false when there is none. */
static bool
current_slice(struct wrk *w, uint32_t *slice)
{
    if (!wrk_ctx_current(w))
        return false;
    *slice = wrk_ctx_slice(w, w->ctx_index);
    return true;
}

/* Enter what the driver has given.  On failure the memory goes back. */
static CUresult
mem_note(struct wrk *w, CUdeviceptr ptr, uint32_t slice, uint64_t bytes)
{
    struct wrk_quota *q = w->priv->quota;

    /* An address that is still in the book was freed behind our back (with its
     * pool, say): it is this allocation now. */
    wrk_quota_drop(q, ptr);
    if (wrk_quota_note(q, ptr, slice, w->ctx_index, bytes) == 0)
        return CUDA_SUCCESS;
    WRK_CALL(w, cuMemFree_v2, ptr);
    wrk_quota_give(q, slice, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
h_cuMemAlloc_v2(struct wrk *w, const struct wire_args_cuMemAlloc_v2 *a,
                struct wrk_reply *rep)
{
    struct wire_cuMemAlloc_v2_rep *body = rep->body;
    CUdeviceptr ptr = 0;
    uint32_t slice;
    CUresult r;

    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!wrk_quota_take(w->priv->quota, slice, a->bytesize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemAlloc_v2, &ptr, a->bytesize);
    if (r == CUDA_SUCCESS)
        r = mem_note(w, ptr, slice, a->bytesize);
    else
        wrk_quota_give(w->priv->quota, slice, a->bytesize);
    body->dptr = ptr;
    return r;
}

CUresult
h_cuMemAllocManaged(struct wrk *w, const struct wire_args_cuMemAllocManaged *a,
                    struct wrk_reply *rep)
{
    struct wire_cuMemAllocManaged_rep *body = rep->body;
    CUdeviceptr ptr = 0;
    uint32_t slice;
    CUresult r;

    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!wrk_quota_take(w->priv->quota, slice, a->bytesize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemAllocManaged, &ptr, a->bytesize, a->flags);
    if (r == CUDA_SUCCESS)
        r = mem_note(w, ptr, slice, a->bytesize);
    else
        wrk_quota_give(w->priv->quota, slice, a->bytesize);
    body->dptr = ptr;
    return r;
}

/* What is asked for is rows of a width; the padding is the driver's choice and
 * not charged. */
CUresult
h_cuMemAllocPitch_v2(struct wrk *w, const struct wire_args_cuMemAllocPitch_v2 *a,
                     struct wrk_reply *rep)
{
    struct wire_cuMemAllocPitch_v2_rep *body = rep->body;
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    uint64_t bytes;
    uint32_t slice;
    CUresult r;

    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!gp_mul_ok((uint64_t)a->WidthInBytes, (uint64_t)a->Height, &bytes) ||
        !wrk_quota_take(w->priv->quota, slice, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemAllocPitch_v2, &ptr, &pitch, a->WidthInBytes, a->Height,
                 a->ElementSizeBytes);
    if (r == CUDA_SUCCESS)
        r = mem_note(w, ptr, slice, bytes);
    else
        wrk_quota_give(w->priv->quota, slice, bytes);
    body->dptr = ptr;
    body->pPitch = pitch;
    return r;
}

CUresult
h_cuMemFree_v2(struct wrk *w, const struct wire_args_cuMemFree_v2 *a,
               struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemFree_v2, a->dptr);

    (void)rep;
    if (r == CUDA_SUCCESS)
        wrk_quota_drop(w->priv->quota, a->dptr);
    return r;
}

CUresult
h_cuMemGetInfo_v2(struct wrk *w, const struct wire_args_cuMemGetInfo_v2 *a,
                  struct wrk_reply *rep)
{
    struct wire_cuMemGetInfo_v2_rep *body = rep->body;
    size_t card_free = 0;
    size_t card_total = 0;
    uint64_t limit, used;
    uint32_t slice;
    CUresult r = WRK_CALL(w, cuMemGetInfo_v2, &card_free, &card_total);

    (void)a;
    if (r != CUDA_SUCCESS)
        return r;
    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    limit = wrk_quota_limit(w->priv->quota, slice);
    used = wrk_quota_used(w->priv->quota, slice);
    body->total = limit;
    body->free = gp_min(used < limit ? limit - used : 0, (uint64_t)card_free);
    return CUDA_SUCCESS;
}

CUresult
h_cuPointerGetAttribute(struct wrk *w, const struct wire_args_cuPointerGetAttribute *a,
                        struct wrk_reply *rep)
{
    struct wire_cuPointerGetAttribute_rep *body = rep->body;
    /* The largest answer of a known attribute is two words (the tokens). */
    uint64_t data[4] = {0};
    CUresult r;

    if (a->attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        return CUDA_ERROR_NOT_SUPPORTED; /* of use to a kernel module on this host */
    r = WRK_CALL(w, cuPointerGetAttribute, data, a->attribute, a->ptr);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        data[0] = wrk_handle_name(w, WIRE_KIND_CTX, (void *)(uintptr_t)data[0]);
    else if (a->attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
        data[0] = wrk_handle_name(w, WIRE_KIND_MEMPOOL, (void *)(uintptr_t)data[0]);
    body->data = data[0];
    return CUDA_SUCCESS;
}

/* --- in stream order ------------------------------------------------------------- */

CUresult
h_cuMemAllocAsync(struct wrk *w, const struct wire_args_cuMemAllocAsync *a,
                  struct wrk_reply *rep)
{
    struct wire_cuMemAllocAsync_rep *body = rep->body;
    CUdeviceptr ptr = 0;
    uint32_t slice;
    CUresult r;

    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!wrk_quota_take(w->priv->quota, slice, a->bytesize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemAllocAsync, &ptr, a->bytesize, a->hStream);
    if (r == CUDA_SUCCESS)
        r = mem_note(w, ptr, slice, a->bytesize);
    else
        wrk_quota_give(w->priv->quota, slice, a->bytesize);
    body->dptr = ptr;
    return r;
}

CUresult
h_cuMemAllocFromPoolAsync(struct wrk *w, const struct wire_args_cuMemAllocFromPoolAsync *a,
                          struct wrk_reply *rep)
{
    struct wire_cuMemAllocFromPoolAsync_rep *body = rep->body;
    CUdeviceptr ptr = 0;
    uint32_t slice;
    CUresult r;

    if (!current_slice(w, &slice))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!wrk_quota_take(w->priv->quota, slice, a->bytesize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemAllocFromPoolAsync, &ptr, a->bytesize, a->pool, a->hStream);
    if (r == CUDA_SUCCESS)
        r = mem_note(w, ptr, slice, a->bytesize);
    else
        wrk_quota_give(w->priv->quota, slice, a->bytesize);
    body->dptr = ptr;
    return r;
}

CUresult
h_cuMemFreeAsync(struct wrk *w, const struct wire_args_cuMemFreeAsync *a,
                 struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemFreeAsync, a->dptr, a->hStream);

    (void)rep;
    if (r == CUDA_SUCCESS)
        wrk_quota_drop(w->priv->quota, a->dptr);
    return r;
}

/* --- physical memory without an address ------------------------------------------- */

CUresult
h_cuMemCreate(struct wrk *w, const struct wire_args_cuMemCreate *a, struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    uint32_t slice = (uint32_t)a->prop->location.id;
    CUresult r;

    (void)rep;
    /* Memory of the host would be the server's. */
    if (a->prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!wrk_quota_take(w->priv->quota, slice, a->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemCreate, &handle, a->size, a->prop, a->flags);
    /* Context 0: it belongs to none and outlives all. */
    if (r == CUDA_SUCCESS &&
        wrk_quota_note(w->priv->quota, a->handle_id, slice, 0, a->size) < 0) {
        WRK_CALL(w, cuMemRelease, handle);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    else
        wrk_quota_give(w->priv->quota, slice, a->size);
    return r;
}

CUresult
h_cuMemRelease(struct wrk *w, const struct wire_args_cuMemRelease *a,
               struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemRelease, a->handle);

    (void)rep;
    if (r == CUDA_SUCCESS) {
        wrk_quota_drop(w->priv->quota, a->handle_id);
        wrk_handle_del(w, WIRE_KIND_MEMHANDLE, a->handle_id);
    }
    return r;
}
