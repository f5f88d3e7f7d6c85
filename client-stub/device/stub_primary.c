/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDevicePrimaryCtx*: the context that every runtime program uses.
 *
 * The handle is fixed per device.  Retains are counted here; only the first retain and
 * the last release are sent.  The flags are asked for once, until something may have
 * changed them: PyTorch asks whether there is a context dozens of times in a step.  A
 * context that is destroyed takes its storage entries and its entries in the registry
 * of memory with it.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <string.h>

static CUresult
primary_find(CUdevice dev, struct stub_ctx **ret)
{
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    *ret = stub_ctx_primary(dev);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult
primary_call(uint16_t number, CUdevice dev)
{
    struct wire_cuDevicePrimaryCtxRetain_req *req;
    struct stub_call c;
    CUresult r;

    static_assert(
        sizeof(struct wire_cuDevicePrimaryCtxRelease_v2_req) == sizeof(*req) &&
            sizeof(struct wire_cuDevicePrimaryCtxReset_v2_req) == sizeof(*req),
        "the three say nothing but the device");
    if (number != WIRE_CALL_cuDevicePrimaryCtxRetain)
        stub_hooks_drain_all(); /* the context may end, and its host memory with it */
    r = stub_call_begin_on(&c, stub_devices[dev].link, number, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->dev = stub_device_wire(dev);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* The context may end, but pools, whose freed blocks are kept for it, do not end with
 * it: those are freed while it lives.  Outside the context's lock. */
static void
primary_free_spares(CUdevice dev, uint16_t number)
{
    struct stub_link *link = stub_devices[dev].link;

    if (stub_link_attention(link) & STUB_ATTEND_SPARE)
        stub_hooks_spare_before(link, number);
}

/* The program lets go of it.  Under the context's lock up to the end, because another
 * thread's retain makes a new context of the same handle: what is forgotten here must
 * not be of that one. */
static CUresult
primary_end(struct stub_ctx *ctx, uint16_t number,
            struct stub_ctx_storage_removed **ret_removed)
{
    CUresult r;

    atomic_store(&ctx->alive, false);
    atomic_store(&ctx->state, 0);
    ctx->retains = 0;
    r = primary_call(number, ctx->dev);
    stub_hooks_ctx_end(ctx);
    *ret_removed = stub_ctx_end_primary(ctx);
    return r;
}

/* The lock is held during the call to the server, so that a second thread's retain
 * returns only when the context exists. */
CUresult
stub_impl_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct stub_ctx *ctx;
    CUresult r = primary_find(dev, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    gp_lock_take(&ctx->lock);
    if (ctx->retains == 0)
        r = primary_call(WIRE_CALL_cuDevicePrimaryCtxRetain, dev);
    if (r == CUDA_SUCCESS) {
        ctx->retains++;
        atomic_store(&ctx->alive, true);
        atomic_store(&ctx->state, 0);
        *pctx = stub_ctx_handle(ctx);
    }
    gp_lock_release(&ctx->lock);
    return r;
}

CUresult
stub_impl_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct stub_ctx_storage_removed *removed = NULL;
    struct stub_ctx *ctx;
    CUresult r = primary_find(dev, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    primary_free_spares(dev, WIRE_CALL_cuDevicePrimaryCtxRelease_v2);
    gp_lock_take(&ctx->lock);
    if (ctx->retains == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (ctx->retains == 1)
        r = primary_end(ctx, WIRE_CALL_cuDevicePrimaryCtxRelease_v2, &removed);
    else
        ctx->retains--;
    gp_lock_release(&ctx->lock);
    stub_ctx_storage_destroy(removed, stub_ctx_handle(ctx));
    return r;
}

/* Whoever had retained it has to do so again; a runtime does. */
CUresult
stub_impl_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct stub_ctx_storage_removed *removed;
    struct stub_ctx *ctx;
    CUresult r = primary_find(dev, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    primary_free_spares(dev, WIRE_CALL_cuDevicePrimaryCtxReset_v2);
    gp_lock_take(&ctx->lock);
    r = primary_end(ctx, WIRE_CALL_cuDevicePrimaryCtxReset_v2, &removed);
    gp_lock_release(&ctx->lock);
    stub_ctx_storage_destroy(removed, stub_ctx_handle(ctx));
    return r;
}

/* ---- flags ------------------------------------------------------------------ */

static CUresult
primary_ask_state(struct stub_ctx *ctx, unsigned int *flags)
{
    int active;
    CUresult r;

    gp_lock_take(&ctx->lock);
    r = stub_gen_cuDevicePrimaryCtxGetState(ctx->dev, flags, &active);
    if (r == CUDA_SUCCESS)
        atomic_store(&ctx->state, STUB_CTX_STATE_KNOWN | *flags);
    gp_lock_release(&ctx->lock);
    return r;
}

/* Whether there is a context is known here.  Where errors stick, the driver answers. */
CUresult
stub_impl_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    struct stub_ctx *ctx;
    uint64_t state;
    CUresult r;

    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    r = primary_find(dev, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    state = atomic_load(&ctx->state);
    if (!state || stub_link_wants_replies(stub_devices[dev].link))
        r = primary_ask_state(ctx, flags);
    else
        *flags = (unsigned int)state;
    if (r == CUDA_SUCCESS)
        *active = atomic_load(&ctx->alive);
    return r;
}

CUresult
stub_impl_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    struct stub_ctx *ctx;
    CUresult r = primary_find(dev, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    gp_lock_take(&ctx->lock);
    r = stub_gen_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
    atomic_store(&ctx->state, 0);
    gp_lock_release(&ctx->lock);
    return r;
}

CUresult
stub_impl_cuCtxSetFlags(unsigned int flags)
{
    struct stub_ctx *ctx;
    CUresult r = stub_ctx_resolve(NULL, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    gp_lock_take(&ctx->lock);
    r = stub_gen_cuCtxSetFlags(flags);
    atomic_store(&ctx->state, 0);
    gp_lock_release(&ctx->lock);
    return r;
}
