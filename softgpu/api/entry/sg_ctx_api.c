/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on contexts.
 */
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_output.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "gp_base.h"

static CUcontext
to_handle(uint64_t handle)
{
    return (CUcontext)(uintptr_t)handle;
}

static CUresult
create(CUcontext *pctx, unsigned flags, unsigned version, CUdevice dev)
{
    struct sg_ctx *ctx;
    struct sg_dev *d;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    d = sg_dev_get(dev);
    if (!d)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!pctx || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_ctx_new(d, flags, false, &ctx);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    ctx->api_version = version;
    if (sg_ctx_push(ctx->handle) < 0) {
        sg_ctx_destroy(ctx);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *pctx = to_handle(ctx->handle);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxCreate_v2, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return create(pctx, flags, 3020, dev);
}

SG_CALL(cuCtxCreate_v3, CUcontext *pctx, CUexecAffinityParam *paramsArray,
        int numParams, unsigned int flags, CUdevice dev)
{
    if (numParams < 0 || (numParams && !paramsArray))
        return CUDA_ERROR_INVALID_VALUE;
    if (numParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, 3020, dev);
}

SG_CALL(cuCtxCreate_v4, CUcontext *pctx, CUctxCreateParams *params, unsigned int flags,
        CUdevice dev)
{
    if (params && params->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, 3020, dev);
}

SG_CALL(cuCtxDestroy_v2, CUcontext hctx)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!hctx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, hctx);
    if (!ctx || ctx->primary)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (sg_ctx_current_handle() == ctx->handle)
        sg_ctx_set_current(0);
    sg_ctx_destroy(ctx);
    return sg_leave(CUDA_SUCCESS);
}

/* The usage count of old: made with one, destroyed with the last. */
SG_CALL(cuCtxAttach, CUcontext *pctx, unsigned int flags)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pctx || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx->attached++;
    *pctx = (CUcontext)(uintptr_t)ctx->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxDetach, CUcontext hctx)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, hctx);
    if (!ctx)
        return sg_leave(hctx ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
    if (!ctx->primary && !ctx->attached) {
        sg_leave(CUDA_SUCCESS);
        return cuCtxDestroy_v2(hctx);
    }
    ctx->attached -= ctx->attached > 0;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxPushCurrent_v2, CUcontext hctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!hctx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (sg_handle_kind((uintptr_t)hctx) != SG_KIND_CTX)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    return sg_leave(sg_result(sg_ctx_push((uintptr_t)hctx)));
}

SG_CALL(cuCtxPopCurrent_v2, CUcontext *pctx)
{
    uint64_t handle;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    handle = sg_ctx_current_handle();
    if (!handle)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    sg_ctx_set_current(0);
    if (pctx)
        *pctx = to_handle(handle);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxSetCurrent, CUcontext hctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (hctx && sg_handle_kind((uintptr_t)hctx) != SG_KIND_CTX)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    return sg_leave(sg_result(sg_ctx_set_current((uintptr_t)hctx)));
}

SG_CALL(cuCtxGetCurrent, CUcontext *pctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pctx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pctx = to_handle(sg_ctx_current_handle());
    return sg_leave(CUDA_SUCCESS);
}

/* NULL means the current one. */
static CUresult
enter_ctx(CUcontext hctx, struct sg_ctx **ret_ctx)
{
    CUresult rc;

    if (!hctx)
        return sg_enter_broken(ret_ctx);
    rc = sg_enter_init();
    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, hctx);
    if (*ret_ctx)
        return CUDA_SUCCESS;
    return sg_leave(sg_handle_kind((uintptr_t)hctx) == SG_KIND_CTX
                        ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                        : CUDA_ERROR_INVALID_CONTEXT);
}

SG_CALL(cuCtxGetDevice_v2, CUdevice *device, CUcontext hctx)
{
    struct sg_ctx *ctx;
    CUresult rc = enter_ctx(hctx, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!device)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *device = ctx->dev->ordinal;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetDevice, CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

SG_CALL(cuCtxGetFlags, unsigned int *flags)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_broken(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = ctx->flags;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxSetFlags, unsigned int flags)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_broken(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx->flags = flags;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetId, CUcontext hctx, unsigned long long *ctxId)
{
    uint64_t of_green;
    struct sg_ctx *ctx;
    CUresult rc = enter_ctx(hctx, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ctxId)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    of_green = sg_green_ctx_id(hctx ? (uintptr_t)hctx : sg_ctx_current_handle());
    *ctxId = of_green ? of_green : ctx->id;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetApiVersion, CUcontext hctx, unsigned int *version)
{
    struct sg_ctx *ctx;
    CUresult rc = enter_ctx(hctx, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!version)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *version = ctx->api_version;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxSynchronize_v2, CUcontext hctx)
{
    struct sg_ctx *ctx;
    CUresult rc = enter_ctx(hctx, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    for (struct sg_stream *s = ctx->streams; s; s = s->next)
        if (s->capture) /* whoever captures */
            return sg_leave(sg_capture_check_none(s));
    sg_ctx_ref(ctx);
    rc = sg_streams_synchronize(ctx);
    sg_output_flush(ctx);
    sg_ctx_unref(ctx);
    return sg_leave(rc);
}

SG_CALL(cuCtxSynchronize, void)
{
    return cuCtxSynchronize_v2(NULL);
}

static bool
limit_is_known(int limit)
{
    return limit >= CU_LIMIT_STACK_SIZE && limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

SG_CALL(cuCtxGetLimit, size_t *pvalue, CUlimit limit)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pvalue)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!limit_is_known((int)limit))
        return sg_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = ctx->limits[limit];
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxSetLimit, CUlimit limit, size_t value)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!limit_is_known((int)limit))
        return sg_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    switch ((int)limit) {
    case CU_LIMIT_STACK_SIZE:
        if (value > 512 << 10)
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        value = (value + 15) & ~(size_t)15;
        break;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        if (sg_output_in_use(ctx->output, limit))
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        if (value > ctx->dev->memory)
            return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
        break;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        value = gp_min(value, (size_t)128);
        break;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        value = gp_min(value, (size_t)ctx->dev->profile->l2_bytes);
        break;
    }
    ctx->limits[limit] = value;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetCacheConfig, CUfunc_cache *pconfig)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pconfig)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pconfig = ctx->cache_config;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxSetCacheConfig, CUfunc_cache config)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx->cache_config = config;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetSharedMemConfig, CUsharedconfig *pConfig)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pConfig)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return sg_leave(CUDA_SUCCESS);
}

/* The bank width is fixed on every card since compute capability 5.0, where
 * this call is accepted and changes nothing. */
SG_CALL(cuCtxSetSharedMemConfig, CUsharedconfig config)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetStreamPriorityRange, int *leastPriority, int *greatestPriority)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return sg_leave(CUDA_SUCCESS);
}

/* There is no cache to empty: all lines are already "normal". */
SG_CALL(cuCtxResetPersistingL2Cache, void)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc;
}

SG_CALL(cuCtxGetExecAffinity, CUexecAffinityParam *pExecAffinity,
        CUexecAffinityType type)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pExecAffinity || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    pExecAffinity->type = type;
    pExecAffinity->param.smCount.val = ctx->sms.n;
    return sg_leave(CUDA_SUCCESS);
}
