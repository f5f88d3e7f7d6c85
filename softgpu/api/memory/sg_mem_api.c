/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on linear device, host, registered and managed memory.
 */
#include "sg_capture.h"
#include "sg_card.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_pool.h"
#include "sg_stream.h"

#include "gp_base.h"

SG_CALL(cuMemAlloc_v2, CUdeviceptr *dptr, size_t bytesize)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dptr)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *dptr = 0;
    rc = bytesize ? sg_capture_check_unsafe() : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = sg_mem_new(ctx, bytesize, &alloc);
    if (rc == CUDA_SUCCESS) {
        sg_mem_undefine(alloc);
        *dptr = alloc->base;
    }
    return sg_leave(rc);
}

SG_CALL(cuMemAllocPitch_v2, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
        size_t Height, unsigned int ElementSizeBytes)
{
    size_t pitch, bytes;
    CUresult rc;

    if (!dptr || !pPitch || !WidthInBytes || !Height ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        !gp_add_ok(WidthInBytes, (size_t)511, &pitch))
        return CUDA_ERROR_INVALID_VALUE;
    pitch &= ~(size_t)511;
    if (!gp_mul_ok(pitch, Height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    rc = cuMemAlloc_v2(dptr, bytes);
    if (rc == CUDA_SUCCESS)
        *pPitch = pitch;
    return rc;
}

/* Work that was submitted before may still use the memory: the call waits for
 * it, as programs expect. */
static void
wait_for_users(const struct sg_alloc *alloc)
{
    if (alloc->ctx && alloc->kind == SG_MEM_DEVICE) {
        sg_streams_synchronize(alloc->ctx);
        return;
    }
    sg_streams_synchronize_all();
}

SG_CALL(cuMemFree_v2, CUdeviceptr dptr)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init(); /* the memory says whose it is */

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_ctx_process_error();
    if (!dptr || rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    for (int tries = 0; tries < 2; tries++) {
        alloc = sg_mem_find(dptr);
        if (!alloc || alloc->base != dptr || alloc->internal || alloc->given_back ||
            (alloc->kind != SG_MEM_DEVICE && alloc->kind != SG_MEM_MANAGED &&
             !(alloc->kind == SG_MEM_IPC && alloc->pool)))
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        if (tries == 0)
            wait_for_users(alloc); /* drops the lock: look it up again */
    }
    if (alloc->pool)
        sg_pool_free(alloc);
    else
        sg_mem_free(alloc);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemGetInfo_v2, size_t *free_, size_t *total)
{
    struct sg_ctx *ctx;
    uint64_t used;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!free_ || !total)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    used = sg_card_used(ctx->dev->card);
    *total = ctx->dev->memory;
    *free_ = ctx->dev->memory > used ? ctx->dev->memory - used : 0;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemGetAddressRange_v2, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(dptr);
    if (!alloc)
        return sg_leave(CUDA_ERROR_NOT_FOUND);
    if (pbase)
        *pbase = alloc->base;
    if (psize)
        *psize = alloc->size;
    return sg_leave(CUDA_SUCCESS);
}

/* ----------------------------------------------------------------- host memory */

SG_CALL(cuMemHostAlloc, void **pp, size_t bytesize, unsigned int Flags)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pp || !bytesize ||
        Flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                            CU_MEMHOSTALLOC_WRITECOMBINED))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_capture_check_unsafe();
    if (rc == CUDA_SUCCESS)
        rc = sg_mem_new_host(ctx, bytesize, Flags | CU_MEMHOSTALLOC_DEVICEMAP, &alloc);
    if (rc == CUDA_SUCCESS)
        *pp = (void *)(uintptr_t)alloc->base;
    return sg_leave(rc);
}

SG_CALL(cuMemAllocHost_v2, void **pp, size_t bytesize)
{
    return cuMemHostAlloc(pp, bytesize, 0);
}

static CUresult
enter_host(const void *p, enum sg_mem_kind kind, struct sg_alloc **ret_alloc)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_alloc = sg_mem_find((uintptr_t)p);
    if (!*ret_alloc || (*ret_alloc)->kind != kind ||
        (*ret_alloc)->base != (uint64_t)(uintptr_t)p)
        return sg_leave(kind == SG_MEM_REGISTERED && p
                            ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                            : CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult
free_host(void *p, enum sg_mem_kind kind)
{
    struct sg_alloc *alloc;
    CUresult rc = enter_host(p, kind, &alloc);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    wait_for_users(alloc);
    alloc = sg_mem_find((uintptr_t)p); /* the lock was dropped */
    if (!alloc || alloc->kind != kind)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sg_mem_free(alloc);
    return sg_leave(CUDA_SUCCESS);
}

/* NULL is freed as free(3) does it. */
SG_CALL(cuMemFreeHost, void *p)
{
    CUresult rc;

    if (p)
        return free_host(p, SG_MEM_HOST);
    rc = sg_enter_init(); /* no context is needed to free nothing */
    return rc == CUDA_SUCCESS ? sg_leave(sg_ctx_process_error()) : rc;
}

SG_CALL(cuMemHostRegister_v2, void *p, size_t bytesize, unsigned int Flags)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!p || !bytesize ||
        Flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                            CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    return sg_leave(sg_mem_new_registered(ctx, p, bytesize, Flags, &alloc));
}

SG_CALL(cuMemHostUnregister, void *p)
{
    return free_host(p, SG_MEM_REGISTERED);
}

SG_CALL(cuMemHostGetDevicePointer_v2, CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find((uintptr_t)p);
    if (!pdptr || Flags || !alloc ||
        (alloc->kind != SG_MEM_HOST && alloc->kind != SG_MEM_REGISTERED))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pdptr = (uintptr_t)p;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemHostGetFlags, unsigned int *pFlags, void *p)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find((uintptr_t)p);
    if (!pFlags || !alloc ||
        (alloc->kind != SG_MEM_HOST && alloc->kind != SG_MEM_REGISTERED))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pFlags = alloc->flags;
    return sg_leave(CUDA_SUCCESS);
}
