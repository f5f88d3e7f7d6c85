/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory without an address: create, reference, map, release.  The client's
 * references and mappings are counted in wrk_physmem_quota.h.  Receive thread, except
 * that a waiter thread unmaps while the GPU is busy.
 */
#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_physmem_quota.h"
#include "wrk_quota.h"
#include "wrk_release.h"

CUresult
h_cuMemCreate(struct wrk *w, const struct wire_args_cuMemCreate *a,
              struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    uint32_t slice = (uint32_t)a->prop->location.id;
    CUresult r;

    (void)rep;
    /* The client's processor would not reach it (h_pool.c). */
    if (a->prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    /* Memory of the host would be the server's. */
    if (a->prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return a->prop->location.type == CU_MEM_LOCATION_TYPE_INVALID
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_NOT_SUPPORTED;
    if (slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    /* Such a handle would name it to machines that are not of the session. */
    if (a->prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!wrk_quota_take_soon(w->priv->quota, slice, a->size, WRK_QUOTA_SOON_NS))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemCreate, &handle, a->size, a->prop, a->flags);
    if (r == CUDA_SUCCESS && !wrk_physmem_add(handle, a->size, slice)) {
        WRK_CALL(w, cuMemRelease, handle);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        wrk_quota_give(w->priv->quota, slice, a->size);
        return r;
    }
    wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

CUresult
h_cuMemRetainAllocationHandle(struct wrk *w,
                              const struct wire_args_cuMemRetainAllocationHandle *a,
                              struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult r = wrk_physmem_retain(w, a->addr, &handle);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

CUresult
h_cuMemRelease(struct wrk *w, const struct wire_args_cuMemRelease *a,
               struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemRelease, a->handle);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_del(w, WIRE_KIND_MEMHANDLE, a->handle_id);
    wrk_physmem_release(w, a->handle);
    return CUDA_SUCCESS;
}

CUresult
h_cuMemMap(struct wrk *w, const struct wire_args_cuMemMap *a, struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemMap, a->ptr, a->size, a->offset, a->handle, a->flags);

    (void)rep;
    if (r == CUDA_SUCCESS && !wrk_physmem_map(a->ptr, a->size, a->handle)) {
        WRK_CALL(w, cuMemUnmap, a->ptr, a->size);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return r;
}

static CUresult
unmap(struct wrk *w, uint64_t ptr, uint64_t size)
{
    uint64_t begun = wrk_physmem_unmap_begin(ptr, size);
    CUresult r = WRK_CALL(w, cuMemUnmap, ptr, size);

    wrk_physmem_unmap_end(w, begun, r == CUDA_SUCCESS);
    return r;
}

/* A driver may wait for what still uses the addresses. */
CUresult
h_cuMemUnmap(struct wrk *w, const struct wire_args_cuMemUnmap *a, struct wrk_reply *rep)
{
    return wrk_release(
        w, rep,
        &(struct wrk_release_what){.fn = unmap, .obj = a->ptr, .size = a->size});
}
