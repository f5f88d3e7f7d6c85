/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on streams, without copies, launches and captures.
 */
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_launch.h"
#include "sg_output.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "gp_base.h"

SG_CALL(cuStreamCreateWithPriority, CUstream *phStream, unsigned int flags,
        int priority)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phStream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    priority = gp_max(-5, gp_min(priority, 0)); /* clamped, as documented */
    rc = sg_stream_new(ctx, SG_STREAM_NORMAL, flags, priority, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_green_confine(stream);
    *phStream = (CUstream)(uintptr_t)stream->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamCreate, CUstream *phStream, unsigned int Flags)
{
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

SG_CALL(cuStreamDestroy_v2, CUstream hStream)
{
    struct sg_stream *stream;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    stream = SG_OBJ(sg_stream, SG_KIND_STREAM, hStream);
    if (!stream || stream->kind != SG_STREAM_NORMAL)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream->ctx->error != CUDA_SUCCESS)
        return sg_leave(stream->ctx->error); /* it ends with its context */
    sg_stream_destroy(stream);
    return sg_leave(CUDA_SUCCESS);
}

/* Named streams need no current context; 0, 1 and 2 are streams of it. */
static CUresult
enter_stream(CUstream handle, struct sg_stream **ret_stream)
{
    struct sg_ctx *ctx;
    CUresult rc;

    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        rc = sg_enter(&ctx);
        if (rc != CUDA_SUCCESS)
            return rc;
        rc = sg_stream_get(ctx, handle, ret_stream);
        return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
    }
    rc = sg_enter_init();
    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_stream = SG_OBJ(sg_stream, SG_KIND_STREAM, handle);
    if (!*ret_stream)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if ((*ret_stream)->ctx->error != CUDA_SUCCESS)
        return sg_leave((*ret_stream)->ctx->error);
    return CUDA_SUCCESS;
}

/* The wait that tells of an error says what kernels wrote before it, a failed
 * assertion's words above all. */
static CUresult
say_before(CUresult error)
{
    struct sg_ctx *ctx;

    if (sg_enter_broken(&ctx) != CUDA_SUCCESS)
        return error;
    sg_ctx_ref(ctx);
    sg_output_flush(ctx);
    sg_ctx_unref(ctx);
    return sg_leave(error);
}

SG_CALL(cuStreamSynchronize, CUstream hStream)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return say_before(rc);
    rc = sg_capture_check_none(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    ctx = sg_ctx_ref(stream->ctx);
    rc = sg_stream_synchronize(stream);
    sg_output_flush(ctx);
    sg_ctx_unref(ctx);
    return sg_leave(rc);
}

SG_CALL(cuStreamQuery, CUstream hStream)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_capture_check_none(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_unsafe();
    if (rc == CUDA_SUCCESS)
        rc = stream->kind == SG_STREAM_LEGACY_KIND
                 ? (sg_stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY)
                 : (stream->last || sg_stream_is_barred(stream) ? CUDA_ERROR_NOT_READY
                                                                : CUDA_SUCCESS);
    return sg_leave(rc);
}

SG_CALL(cuStreamGetFlags, CUstream hStream, unsigned int *flags)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = stream->non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetPriority, CUstream hStream, int *priority)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!priority)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *priority = stream->priority;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetId, CUstream hStream, unsigned long long *streamId)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!streamId)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *streamId = stream->id;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetCtx, CUstream hStream, CUcontext *pctx)
{
    struct sg_stream *stream;
    uint64_t ctx;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pctx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx = sg_green_ctx_of(stream);
    if (!ctx)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *pctx = (CUcontext)(uintptr_t)ctx;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetCtx_v2, CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pCtx || !pGreenCtx)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->kind == SG_STREAM_THREAD && sg_green_of(stream))
        return sg_leave(CUDA_ERROR_INVALID_HANDLE); /* as stated */
    *pCtx = (CUcontext)(uintptr_t)stream->ctx->handle;
    *pGreenCtx = (CUgreenCtx)(uintptr_t)sg_green_of(stream);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetDevice, CUstream hStream, CUdevice *device)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!device)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *device = stream->ctx->dev->ordinal;
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
get_attribute(const struct sg_stream *s, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = s->window;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = s->sync_policy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = s->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value->memSyncDomainMap = s->domain_map;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value->memSyncDomain = s->domain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Cache hints and memory domains change no result here; they are kept so that
 * they can be asked back. */
static CUresult
set_attribute(struct sg_stream *s, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    if (!sg_launch_has_domain(s->ctx->dev, (int)attr, value))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        if (value->accessPolicyWindow.missProp == CU_ACCESS_PROPERTY_PERSISTING)
            return CUDA_ERROR_INVALID_VALUE;
        s->window = value->accessPolicyWindow;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
            value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
            return CUDA_ERROR_INVALID_VALUE;
        s->sync_policy = value->syncPolicy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        s->priority = gp_max(-5, gp_min(value->priority, 0));
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        s->domain_map = value->memSyncDomainMap;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        s->domain = value->memSyncDomain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuStreamGetAttribute, CUstream hStream, CUstreamAttrID attr,
        CUstreamAttrValue *value_out)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(value_out ? get_attribute(stream, attr, value_out)
                              : CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuStreamSetAttribute, CUstream hStream, CUstreamAttrID attr,
        const CUstreamAttrValue *value)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(value ? set_attribute(stream, attr, value)
                          : CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuStreamCopyAttributes, CUstream dst, CUstream src)
{
    struct sg_stream *from, *to;
    CUresult rc = enter_stream(src, &from);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(from->ctx, dst, &to);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    to->priority = from->priority;
    to->window = from->window;
    to->sync_policy = from->sync_policy;
    to->domain_map = from->domain_map;
    to->domain = from->domain;
    return sg_leave(CUDA_SUCCESS);
}
