/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: a part of the primary context's multiprocessors.
 *
 * A resource says how many multiprocessors, and in its internal bytes which, and of
 * which split it is a piece.  A green context is a handle to such a part.  The context
 * made from it is the device's primary one under another handle: memory and modules are
 * the same, but what a thread puts into streams while that handle is its current one,
 * and the streams it makes, run on the part only.
 */
#include "sg_green.h"
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_handle.h"
#include "sg_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    RESOURCE_MAGIC = 0x53674d75,
    MAX_RESOURCES = 64,
};

/* In CUdevResource's internal bytes. */
struct part {
    uint32_t magic;
    int32_t device;
    uint64_t split; /* the call that made it; 0: none */
    struct sg_sm_set sms;
};

struct desc {
    uint64_t handle;
    int device;
    struct sg_sm_set sms;
};

struct green {
    uint64_t handle;
    struct sg_dev *dev;
    uint64_t ctx;   /* handle of the primary context it holds */
    uint64_t alias; /* the same with the part's multiprocessors; 0: not asked for */
    struct green *next;
    struct sg_sm_set sms;
    uint64_t id, alias_id; /* cuGreenCtxGetId, cuCtxGetId */
};

static struct green *greens; /* all that live */

/* The green context whose handle for the primary context this is, or NULL. */
static struct green *
green_of_alias(uint64_t alias)
{
    struct green *g = greens;

    while (g && (!alias || g->alias != alias))
        g = g->next;
    return g;
}

struct sg_sm_set
sg_green_part(const struct sg_stream *stream)
{
    const struct green *g = NULL;

    if (greens && stream->kind != SG_STREAM_NORMAL)
        g = green_of_alias(sg_ctx_current_handle());
    return g ? g->sms : stream->sms;
}

void
sg_green_confine(struct sg_stream *stream)
{
    const struct green *g = green_of_alias(sg_ctx_current_handle());

    if (!g)
        return;
    stream->green = g->handle;
    stream->sms = g->sms;
}

/* The green context of @stream, if it lives. */
static struct green *
green_of(const struct sg_stream *stream)
{
    if (stream->kind != SG_STREAM_NORMAL)
        return green_of_alias(sg_ctx_current_handle());
    return stream->green ? sg_handle_get(SG_KIND_GREEN, stream->green) : NULL;
}

uint64_t
sg_green_of(const struct sg_stream *stream)
{
    const struct green *g = green_of(stream);

    return g ? g->handle : 0;
}

/* The handle of the context made from @g, which is @ctx under another handle; 0: out of
 * memory. */
static uint64_t
alias_get(struct green *g, struct sg_ctx *ctx)
{
    if (!g->alias) {
        g->alias = sg_handle_new(SG_KIND_CTX, ctx);
        g->alias_id = sg_ctx_new_id();
    }
    return g->alias;
}

uint64_t
sg_green_ctx_of(const struct sg_stream *stream)
{
    struct green *g = green_of(stream);

    return g ? alias_get(g, stream->ctx) : stream->ctx->handle;
}

uint64_t
sg_green_ctx_id(uint64_t ctx)
{
    const struct green *g = green_of_alias(ctx);

    return g ? g->alias_id : 0;
}

void
sg_green_ctx_gone(uint64_t ctx)
{
    for (struct green *g = greens; g; g = g->next) {
        if (g->ctx != ctx || !g->alias)
            continue;
        sg_handle_drop(g->alias);
        g->alias = 0;
    }
}

static void
make_resource(CUdevResource *res, int device, uint64_t split, struct sg_sm_set sms)
{
    struct part part = {RESOURCE_MAGIC, device, split, sms};

    static_assert(sizeof(part) <= sizeof(res->_internal_padding), "room in a resource");
    memset(res, 0, sizeof(*res));
    res->type = CU_DEV_RESOURCE_TYPE_SM;
    res->sm.smCount = sms.n;
    res->sm.minSmPartitionSize = 1;
    res->sm.smCoscheduledAlignment = 1;
    memcpy(res->_internal_padding, &part, sizeof(part));
}

/* Multiprocessors that the device has, and as many as the resource says. */
static bool
is_of_device(const struct part *part, const struct sg_dev *dev, unsigned count)
{
    unsigned n = 0;

    for (unsigned sm = 0; sm < SG_MAX_SMS; sm++) {
        if (sm >= dev->sms && sg_sm_set_has(&part->sms, sm))
            return false;
        n += sg_sm_set_has(&part->sms, sm);
    }
    return n && n == part->sms.n && n == count;
}

/* A program can have written into a resource what it likes. */
static CUresult
read_resource(const CUdevResource *res, struct part *ret_part)
{
    const struct sg_dev *dev;

    memcpy(ret_part, res->_internal_padding, sizeof(*ret_part));
    if (res->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    dev = sg_dev_get(ret_part->device);
    if (ret_part->magic != RESOURCE_MAGIC || !dev ||
        !is_of_device(ret_part, dev, res->sm.smCount))
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    return CUDA_SUCCESS;
}

SG_CALL(cuDeviceGetDevResource, CUdevice device, CUdevResource *resource,
        CUdevResourceType type)
{
    struct sg_dev *dev;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    dev = sg_dev_get(device);
    if (!dev)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!resource)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return sg_leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
    make_resource(resource, device, 0, sg_sm_set_first(dev->sms));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuCtxGetDevResource, CUcontext hCtx, CUdevResource *resource,
        CUdevResourceType type)
{
    const struct green *g;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!resource)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, hCtx);
    if (!ctx)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return sg_leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
    g = green_of_alias((uintptr_t)hCtx);
    make_resource(resource, ctx->dev->ordinal, 0, g ? g->sms : ctx->sms);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDevSmResourceSplitByCount, CUdevResource *result, unsigned int *nbGroups,
        const CUdevResource *input, CUdevResource *remaining, unsigned int useFlags,
        unsigned int minCount)
{
    static uint64_t last_split;
    struct part part;
    unsigned groups;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!nbGroups || !input ||
        useFlags & ~(unsigned)(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                               CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = read_resource(input, &part);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    minCount = gp_max(minCount, 1u);
    groups = input->sm.smCount / minCount;
    if (!result) {
        *nbGroups = groups;
        return sg_leave(CUDA_SUCCESS);
    }
    groups = gp_min(groups, *nbGroups);
    if (!groups)
        return sg_leave(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    last_split++;
    for (unsigned i = 0; i < groups; i++)
        make_resource(&result[i], part.device, last_split,
                      sg_sm_set_take(&part.sms, minCount));
    if (remaining) {
        make_resource(remaining, part.device, last_split, part.sms);
        if (!remaining->sm.smCount)
            remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
    *nbGroups = groups;
    return sg_leave(CUDA_SUCCESS);
}

/* Pieces of one split, in any order and each once. */
static CUresult
put_together(struct desc *desc, const CUdevResource *resources, unsigned n)
{
    struct part part;
    uint64_t split = 0;

    for (unsigned i = 0; i < n; i++) {
        CUresult rc = read_resource(&resources[i], &part);

        if (rc != CUDA_SUCCESS)
            return rc;
        if (i == 0) {
            desc->device = part.device;
            split = part.split;
        } else if (part.device != desc->device || part.split != split || !split) {
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        }
        for (unsigned sm = 0; sm < SG_MAX_SMS; sm++)
            if (sg_sm_set_has(&part.sms, sm) && !sg_sm_set_add(&desc->sms, sm))
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    return CUDA_SUCCESS;
}

/* Descriptions are small and live as long as the process, as the interface has
 * no call that ends one. */
SG_CALL(cuDevResourceGenerateDesc, CUdevResourceDesc *phDesc, CUdevResource *resources,
        unsigned int nbResources)
{
    struct desc *desc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phDesc || !resources || !nbResources || nbResources > MAX_RESOURCES)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    desc = calloc(1, sizeof(*desc));
    if (!desc)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    rc = put_together(desc, resources, nbResources);
    if (rc == CUDA_SUCCESS) {
        desc->handle = sg_handle_new(SG_KIND_DESC, desc);
        rc = desc->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS)
        free(desc);
    else
        *phDesc = (CUdevResourceDesc)(uintptr_t)desc->handle;
    return sg_leave(rc);
}

SG_CALL(cuGreenCtxCreate, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
        unsigned int flags)
{
    static uint64_t last_id;
    struct desc *d;
    struct green *g;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    d = SG_OBJ(desc, SG_KIND_DESC, desc);
    if (!phCtx || !d || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (d->device != dev)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    g = calloc(1, sizeof(*g));
    if (!g)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    g->dev = sg_dev_get(dev);
    g->sms = d->sms;
    g->handle = sg_handle_new(SG_KIND_GREEN, g);
    rc = g->handle ? sg_primary_retain(g->dev, &ctx) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS) {
        sg_handle_drop(g->handle);
        free(g);
        return sg_leave(rc);
    }
    g->ctx = ctx->handle;
    g->id = ++last_id;
    g->next = greens;
    greens = g;
    *phCtx = (CUgreenCtx)(uintptr_t)g->handle;
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
enter_green(CUgreenCtx handle, struct green **ret_green, struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_green = SG_OBJ(green, SG_KIND_GREEN, handle);
    if (!*ret_green)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    *ret_ctx = sg_handle_get(SG_KIND_CTX, (*ret_green)->ctx);
    return *ret_ctx ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

SG_CALL(cuGreenCtxDestroy, CUgreenCtx hCtx)
{
    CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
    struct green *g, **at;
    CUresult rc = sg_enter_init();
    CUdevice dev;

    if (rc != CUDA_SUCCESS)
        return rc;
    g = SG_OBJ(green, SG_KIND_GREEN, hCtx);
    if (!g)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    sg_handle_drop(g->handle);
    if (g->alias)
        sg_handle_drop(g->alias);
    for (at = &greens; *at != g; at = &(*at)->next)
        ;
    *at = g->next;
    dev = g->dev->ordinal;
    free(g);
    sg_unlock();
    return cuDevicePrimaryCtxRelease_v2(dev);
}

SG_CALL(cuCtxFromGreenCtx, CUcontext *pContext, CUgreenCtx hCtx)
{
    struct sg_ctx *ctx;
    struct green *g;
    CUresult rc = enter_green(hCtx, &g, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pContext)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!alias_get(g, ctx))
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *pContext = (CUcontext)(uintptr_t)g->alias;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGreenCtxGetDevResource, CUgreenCtx hCtx, CUdevResource *resource,
        CUdevResourceType type)
{
    struct sg_ctx *ctx;
    struct green *g;
    CUresult rc = enter_green(hCtx, &g, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!resource)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return sg_leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
    make_resource(resource, g->dev->ordinal, 0, g->sms);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGreenCtxGetId, CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    const struct green *g;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    g = greenCtx ? SG_OBJ(green, SG_KIND_GREEN, greenCtx)
                 : green_of_alias(sg_ctx_current_handle());
    if (!g)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!sg_handle_get(SG_KIND_CTX, g->ctx))
        return sg_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (!greenCtxId)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *greenCtxId = g->id;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGreenCtxStreamCreate, CUstream *phStream, CUgreenCtx greenCtx,
        unsigned int flags, int priority)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    struct green *g;
    CUresult rc = enter_green(greenCtx, &g, &ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phStream || flags != CU_STREAM_NON_BLOCKING)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_stream_new(ctx, SG_STREAM_NORMAL, flags, gp_max(-5, gp_min(priority, 0)),
                       &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    stream->green = g->handle;
    stream->sms = g->sms;
    *phStream = (CUstream)(uintptr_t)stream->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetGreenCtx, CUstream hStream, CUgreenCtx *phCtx)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc == CUDA_SUCCESS && !phCtx)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *phCtx = (CUgreenCtx)(uintptr_t)sg_green_of(stream);
    return sg_leave(rc);
}

/* Streams that are captured keep an event from standing for all of them, and their
 * captures are invalid. */
static CUresult
check_captures(const struct sg_ctx *ctx, uint64_t green)
{
    CUresult rc = CUDA_SUCCESS;

    for (struct sg_stream *s = ctx->streams; s; s = s->next)
        if (!s->dead && s->capture && sg_stream_serves(s, green))
            rc = sg_capture_check_none(s);
    return rc;
}

/* Work of a green context is the work of its streams. */
static CUresult
over_streams(uint64_t ctx_handle, uint64_t green, CUevent hevent, bool record)
{
    struct sg_ctx *ctx = sg_handle_get(SG_KIND_CTX, ctx_handle);
    struct sg_event *event = SG_OBJ(sg_event, SG_KIND_EVENT, hevent);
    const struct green *g = green_of_alias(ctx_handle);
    CUresult rc = CUDA_SUCCESS;

    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture_id) {
        if (!record)
            sg_capture_event_used(event);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (record && event->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (g)
        green = g->handle;
    rc = check_captures(ctx, green);
    if (rc == CUDA_SUCCESS && record)
        return sg_event_record_all(event, ctx, green);
    for (struct sg_stream *s = ctx->streams; s && rc == CUDA_SUCCESS; s = s->next)
        if (!s->dead && sg_stream_serves(s, green))
            rc = sg_event_wait(s, event);
    return rc;
}

SG_CALL(cuGreenCtxRecordEvent, CUgreenCtx hCtx, CUevent hEvent)
{
    struct sg_ctx *ctx;
    struct green *g;
    CUresult rc = enter_green(hCtx, &g, &ctx);

    return rc == CUDA_SUCCESS ? sg_leave(over_streams(g->ctx, g->handle, hEvent, true))
                              : rc;
}

SG_CALL(cuGreenCtxWaitEvent, CUgreenCtx hCtx, CUevent hEvent)
{
    struct sg_ctx *ctx;
    struct green *g;
    CUresult rc = enter_green(hCtx, &g, &ctx);

    return rc == CUDA_SUCCESS ? sg_leave(over_streams(g->ctx, g->handle, hEvent, false))
                              : rc;
}

SG_CALL(cuCtxRecordEvent, CUcontext hCtx, CUevent hEvent)
{
    CUresult rc = sg_enter_init();

    return rc == CUDA_SUCCESS ? sg_leave(over_streams((uintptr_t)hCtx, 0, hEvent, true))
                              : rc;
}

SG_CALL(cuCtxWaitEvent, CUcontext hCtx, CUevent hEvent)
{
    CUresult rc = sg_enter_init();

    return rc == CUDA_SUCCESS
               ? sg_leave(over_streams((uintptr_t)hCtx, 0, hEvent, false))
               : rc;
}
