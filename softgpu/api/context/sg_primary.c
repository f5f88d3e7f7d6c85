/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primary contexts: one per device, counted, with one handle for all its lives.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"

CUresult
sg_primary_retain(struct sg_dev *dev, struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_ctx_process_error();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dev->primary) {
        rc = sg_ctx_new(dev, dev->primary_flags, true, &dev->primary);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    dev->primary_refs++;
    *ret_ctx = dev->primary;
    return CUDA_SUCCESS;
}

static void
primary_end(struct sg_dev *dev)
{
    struct sg_ctx *ctx = TAKE_PTR(dev->primary);

    dev->primary_refs = 0;
    dev->primary_flags = 0; /* those of the next one are set anew */
    if (ctx)
        sg_ctx_destroy(ctx);
}

SG_CALL(cuDevicePrimaryCtxRetain, CUcontext *pctx, CUdevice dev)
{
    struct sg_dev *d;
    struct sg_ctx *ctx;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pctx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_primary_retain(d, &ctx);
    if (rc == CUDA_SUCCESS)
        *pctx = (CUcontext)(uintptr_t)ctx->handle;
    return sg_leave(rc);
}

SG_CALL(cuDevicePrimaryCtxRelease_v2, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!d->primary || !d->primary_refs)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--d->primary_refs == 0)
        primary_end(d);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDevicePrimaryCtxReset_v2, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    primary_end(d);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDevicePrimaryCtxSetFlags_v2, CUdevice dev, unsigned int flags)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    d->primary_flags = flags;
    if (d->primary)
        d->primary->flags = flags;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDevicePrimaryCtxGetState, CUdevice dev, unsigned int *flags, int *active)
{
    struct sg_dev *d;
    CUresult rc;

    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_dev_enter(dev, &d);
    if (rc != CUDA_SUCCESS)
        return rc;
    *flags = d->primary_flags;
    *active = d->primary != NULL;
    return sg_leave(CUDA_SUCCESS);
}
