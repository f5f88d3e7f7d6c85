/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCtx*: the current context, created contexts.  Primary ones are in stub_primary.c.
 *
 * Only creating and destroying go to the server.
 */
#include "attach.pb-c.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_result.h"
#include "stub_sticky.h"
#include "wire_api.h"

#include <string.h>

/* ---- the stack -------------------------------------------------------------- */

CUresult
stub_impl_cuCtxGetCurrent(CUcontext *pctx)
{
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = stub_ctx_current();
    return CUDA_SUCCESS;
}

/* Accepts a primary context that nobody has retained yet: runtimes set it first. */
CUresult
stub_impl_cuCtxSetCurrent(CUcontext ctx)
{
    CUresult r = stub_link_enter_any();
    struct stub_ctx *c = ctx ? stub_ctx_get_part(ctx) : NULL;

    if (r != CUDA_SUCCESS)
        return r;
    if (ctx && !c)
        return CUDA_ERROR_INVALID_CONTEXT;
    return stub_result_errno(stub_ctx_set(c));
}

CUresult
stub_impl_cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult r = stub_link_enter_any();
    struct stub_ctx *c = stub_ctx_get_part(ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!c)
        return ctx ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    return stub_result_errno(stub_ctx_push(c));
}

CUresult
stub_impl_cuCtxPopCurrent_v2(CUcontext *pctx)
{
    CUresult r = stub_link_enter_any();
    CUcontext old;

    if (r != CUDA_SUCCESS)
        return r;
    old = stub_ctx_pop();
    if (!old)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx)
        *pctx = old;
    return CUDA_SUCCESS;
}

/* ---- questions -------------------------------------------------------------- */

CUresult
stub_impl_cuCtxGetDevice(CUdevice *device)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stub_tls.ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    /* Of a primary one that nobody has retained yet, runtimes ask. */
    if ((!stub_tls.ctx->primary && !atomic_load(&stub_tls.ctx->alive)) ||
        stub_ctx_current_is_gone())
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *device = stub_tls.ctx->dev;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    CUresult r = stub_enter();
    struct stub_ctx *c = ctx ? stub_ctx_get(ctx) : stub_tls.ctx;

    if (r != CUDA_SUCCESS)
        return r;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = c->dev;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    const struct stub_ctx *part;
    struct stub_ctx *c;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(ctx, &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    part = stub_ctx_get_part(ctx ? ctx : stub_ctx_current());
    *ctxId = atomic_load(part ? &part->unique : &c->unique);
    return CUDA_SUCCESS;
}

/* Runtimes take an error for "this context is gone" and set it up again. */
CUresult
stub_impl_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    struct stub_ctx *c;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(ctx, &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = stub_devices[c->dev].info->ctx_api_version;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    struct stub_ctx *c;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &c);
    if (r == CUDA_SUCCESS)
        r = stub_sticky_result();
    if (r != CUDA_SUCCESS)
        return r;
    if (leastPriority)
        *leastPriority = stub_devices[c->dev].info->stream_priority_least;
    if (greatestPriority)
        *greatestPriority = stub_devices[c->dev].info->stream_priority_greatest;
    return CUDA_SUCCESS;
}

/* ---- creating and destroying ------------------------------------------------ */

/* Ask the server for a context under @ctx's index. */
static CUresult
ctx_create_call(struct stub_ctx *ctx, const CUctxCreateParams *params,
                unsigned int flags)
{
    struct wire_cuCtxCreate_v4_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin_on(&c, stub_devices[ctx->dev].link,
                                    WIRE_CALL_cuCtxCreate_v4, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->pctx = ctx->handle;
    req->flags = flags;
    req->dev = stub_device_wire(ctx->dev);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* Execution affinity and CiG carve a card up, which the session has already done. */
CUresult
stub_impl_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                         unsigned int flags, CUdevice dev)
{
    struct stub_ctx *ctx;
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctxCreateParams && ctxCreateParams->cigParams)
        return stub_unsupported(WIRE_CALL_cuCtxCreate_v4);
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stub_device_get(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    ctx = stub_ctx_new(dev, flags);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = ctx_create_call(ctx, ctxCreateParams, flags);
    if (r == CUDA_SUCCESS)
        r = stub_result_errno(stub_ctx_push(ctx));
    if (r != CUDA_SUCCESS) {
        stub_ctx_end(ctx);
        return r;
    }
    *pctx = stub_ctx_handle(ctx);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return stub_impl_cuCtxCreate_v4(pctx, NULL, flags, dev);
}

CUresult
stub_impl_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray,
                         int numParams, unsigned int flags, CUdevice dev)
{
    CUctxCreateParams params = {
        .execAffinityParams = paramsArray,
        .numExecAffinityParams = numParams,
    };

    if (numParams < 0 || (numParams && !paramsArray))
        return CUDA_ERROR_INVALID_VALUE;
    return stub_impl_cuCtxCreate_v4(pctx, &params, flags, dev);
}

/* Destroying the calling thread's current context pops it. */
CUresult
stub_impl_cuCtxDestroy_v2(CUcontext ctx)
{
    struct wire_cuCtxDestroy_v2_req *req;
    struct stub_ctx *c = stub_ctx_get(ctx);
    struct stub_call call;
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c || c->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    stub_hooks_drain_all();
    r = stub_call_begin_on(&call, stub_devices[c->dev].link, WIRE_CALL_cuCtxDestroy_v2,
                           sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = call.body;
    memset(req, 0, sizeof(*req));
    req->ctx = c->handle;
    /* Other threads' waits leave its memory alone from here on. */
    atomic_store(&c->alive, false);
    r = stub_call_wait(&call);
    stub_call_end(&call);
    stub_hooks_ctx_end(c);
    if (stub_tls.ctx == c)
        stub_ctx_pop();
    stub_ctx_end(c);
    return r;
}

/* The usage count of old: made with one, destroyed with the last. */
CUresult
stub_impl_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    CUresult r = stub_impl_cuCtxGetCurrent(pctx);
    struct stub_ctx *c;

    if (r == CUDA_SUCCESS && flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    c = stub_ctx_get(*pctx);
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    atomic_fetch_add(&c->attached, 1);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuCtxDetach(CUcontext ctx)
{
    struct stub_ctx *c = stub_ctx_get(ctx);
    uint32_t attached = c ? atomic_load(&c->attached) : 0;

    while (attached > 0 &&
           !atomic_compare_exchange_weak(&c->attached, &attached, attached - 1))
        ;
    return attached > 0 || (c && c->primary) ? CUDA_SUCCESS
                                             : stub_impl_cuCtxDestroy_v2(ctx);
}
