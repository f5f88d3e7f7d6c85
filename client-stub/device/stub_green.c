/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: a part of a card's multiprocessors.
 *
 * A green context holds the primary context of its device, of which it and the context
 * made from it are parts (stub_ctx.h); so the hold is counted where all others are.
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_handle.h"
#include "stub_manual.h"
#include "wire_format.h"

#include <stdlib.h>

/* The twin of a green context's handle. */
struct green {
    struct stub_ctx *whole; /* the primary context */
    uint64_t life;          /* of the primary context, which a reset ends */
    struct stub_ctx *part;  /* the context made from it; NULL: none was, under lock */
};

static struct gp_lock lock;

static struct green *
green_of(CUgreenCtx handle)
{
    return stub_handle_data(WIRE_KIND_GREENCTX, (uintptr_t)handle);
}

/* A reset of the primary context leaves it nothing to be a part of. */
static bool
green_is_alive(const struct green *green)
{
    return atomic_load(&green->whole->unique) == green->life;
}

/* The green context is the driver's already, which holds the primary context for it. */
static CUresult
green_hold(CUgreenCtx handle, CUdevice dev)
{
    struct green *green = calloc(1, sizeof(*green));
    CUcontext primary;
    CUresult r;

    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_impl_cuDevicePrimaryCtxRetain(&primary, dev);
    if (r != CUDA_SUCCESS) {
        free(green);
        return r;
    }
    green->whole = stub_ctx_get(primary);
    green->life = atomic_load(&green->whole->unique);
    stub_handle_set_data(WIRE_KIND_GREENCTX, (uintptr_t)handle, green);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                           unsigned int flags)
{
    CUgreenCtx handle = NULL;
    CUresult r = stub_gen_cuGreenCtxCreate(phCtx ? &handle : NULL, desc, dev, flags);

    if (r == CUDA_SUCCESS)
        r = green_hold(handle, dev);
    if (r == CUDA_SUCCESS)
        *phCtx = handle;
    else if (handle)
        stub_gen_cuGreenCtxDestroy(handle);
    return r;
}

CUresult
stub_impl_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct green *green = green_of(hCtx);
    CUresult r;

    if (green)
        stub_handle_set_data(WIRE_KIND_GREENCTX, (uintptr_t)hCtx, NULL);
    r = stub_gen_cuGreenCtxDestroy(hCtx);
    if (!green)
        return r;
    stub_ctx_end_green(green->part);
    if (!green_is_alive(green))
        r = CUDA_ERROR_INVALID_CONTEXT; /* a reset has taken it from all who held it */
    else if (r == CUDA_SUCCESS)
        r = stub_impl_cuDevicePrimaryCtxRelease_v2(green->whole->dev);
    free(green);
    return r;
}

CUresult
stub_impl_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    CUresult r = stub_gen_cuCtxFromGreenCtx(pContext, hCtx);
    struct green *green = r == CUDA_SUCCESS ? green_of(hCtx) : NULL;

    if (!green)
        return r;
    gp_lock_take(&lock);
    if (!green->part)
        green->part = stub_ctx_new_green((uintptr_t)*pContext, green->whole);
    if (!green->part)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    gp_lock_release(&lock);
    return r;
}

CUresult
stub_impl_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    CUgreenCtx current = NULL;

    if (!greenCtx && cuStreamGetGreenCtx(NULL, &current) == CUDA_SUCCESS)
        greenCtx = current; /* the default stream is of the current context's */
    return stub_gen_cuGreenCtxGetId(greenCtx, greenCtxId);
}

static bool
is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* A default stream is of the current context, as the stack has it; another one of the
 * context that its green context converts to, whether that was asked for or not. */
CUresult
stub_impl_cuStreamGetCtx(CUstream hStream, CUcontext *pctx, bool per_thread)
{
    CUresult r = stub_gen_cuStreamGetCtx(hStream, pctx, per_thread);
    CUgreenCtx green = NULL;

    if (r != CUDA_SUCCESS || !stub_handle_any(WIRE_KIND_GREENCTX))
        return r;
    if (is_default(hStream))
        *pctx = stub_ctx_current();
    else if (cuStreamGetGreenCtx(hStream, &green) == CUDA_SUCCESS && green)
        r = stub_impl_cuCtxFromGreenCtx(pctx, green);
    return r;
}

CUresult
stub_impl_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx,
                            bool per_thread)
{
    bool of_thread = hStream == CU_STREAM_PER_THREAD || (!hStream && per_thread);
    const struct stub_ctx *part =
        of_thread ? stub_ctx_get_part(stub_ctx_current()) : NULL;
    CUresult r = stub_gen_cuStreamGetCtx_v2(hStream, pCtx, pGreenCtx, per_thread);

    return r == CUDA_SUCCESS && part && part->whole ? CUDA_ERROR_INVALID_HANDLE : r;
}

CUresult
stub_impl_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
                                 unsigned int flags, int priority)
{
    const struct green *green = green_of(greenCtx);
    CUresult r;

    if (green && !green_is_alive(green))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (green && flags != CU_STREAM_NON_BLOCKING) /* the call is posted */
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_gen_cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority);
    if (r == CUDA_SUCCESS && green)
        stub_handle_set_ctx(WIRE_KIND_STREAM, (uintptr_t)*phStream,
                            green->whole->index);
    return r;
}
