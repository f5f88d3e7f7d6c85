/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts made and ended by the client, and waiting for all that is in one.
 */
#include "drv.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_ctx_end.h"
#include "wrk_digests.h"
#include "wrk_governor.h"
#include "wrk_output.h"
#include "wrk_quota.h"
#include "wrk_release.h"
#include "wrk_spatial.h"
#include "wrk_variables.h"
#include "wrk_wait.h"
#include "xport_conn.h"

/* What is counted for a context is counted for its card, by number: a driver that took
 * another number would have us count outside of our tables. */
static bool
is_card(const struct wrk *w, CUdevice dev)
{
    return dev >= 0 && (uint32_t)dev < w->priv->cards.n;
}

CUresult
h_cuDevicePrimaryCtxRetain(struct wrk *w,
                           const struct wire_args_cuDevicePrimaryCtxRetain *a,
                           struct wrk_reply *rep)
{
    uint64_t id = wrk_ctx_primary_id(w, a->dev);
    CUcontext ctx = NULL;
    CUresult r = CUDA_SUCCESS;
    bool new;

    (void)rep;
    if (!is_card(w, a->dev))
        return CUDA_ERROR_INVALID_DEVICE;
    new = !wrk_handles_find(&w->handles, WIRE_KIND_CTX, id);
    if (new)
        r = wrk_variables_take_ctx(w, wire_handle_index(id), (uint32_t)a->dev);
    if (r != CUDA_SUCCESS)
        return r;
    r = w->priv->spatial ? wrk_spatial_retain(w, a->dev, &ctx)
                         : WRK_CALL(w, cuDevicePrimaryCtxRetain, &ctx, a->dev);
    if (r != CUDA_SUCCESS && new)
        wrk_variables_give_ctx(w, wire_handle_index(id));
    else if (r == CUDA_SUCCESS && new)
        wrk_ctx_put(w, id, ctx, a->dev);
    return r;
}

static CUresult
ctx_destroy(struct wrk *w, const struct wrk_ctx_end *end)
{
    return WRK_CALL(w, cuCtxDestroy_v2, end->ctx);
}

static CUresult
primary_release(struct wrk *w, const struct wrk_ctx_end *end)
{
    return WRK_CALL(w, cuDevicePrimaryCtxRelease_v2, end->dev);
}

static CUresult
primary_reset(struct wrk *w, const struct wrk_ctx_end *end)
{
    return WRK_CALL(w, cuDevicePrimaryCtxReset_v2, end->dev);
}

static void
ctx_gone(struct wrk *w, const struct wrk_ctx_end *end)
{
    if (wrk_handles_find(&w->handles, WIRE_KIND_CTX, end->id))
        wrk_ctx_gone(w, end->id);
}

/* After a release: whether the context still lives, the driver knows. */
static void
primary_gone(struct wrk *w, const struct wrk_ctx_end *end)
{
    unsigned flags = 0;
    int active = 0;

    if (WRK_CALL(w, cuDevicePrimaryCtxGetState, end->dev, &flags, &active) !=
            CUDA_SUCCESS ||
        !active)
        ctx_gone(w, end);
}

/* The driver's primary context is kept while other contexts are made from it; for the
 * client it is gone. */
static CUresult
primary_release_spatial(struct wrk *w, CUdevice dev, bool all)
{
    bool gone;
    CUresult r;

    wrk_digests_hold(w, true);
    r = wrk_spatial_release(w, dev, all, &gone);
    if (gone)
        wrk_ctx_gone(w, wrk_ctx_primary_id(w, dev));
    wrk_digests_let_go();
    return r;
}

CUresult
h_cuDevicePrimaryCtxRelease_v2(struct wrk *w,
                               const struct wire_args_cuDevicePrimaryCtxRelease_v2 *a,
                               struct wrk_reply *rep)
{
    if (!is_card(w, a->dev))
        return CUDA_ERROR_INVALID_DEVICE;
    wrk_governor_forget(w, wrk_ctx_primary(w, a->dev));
    if (w->priv->spatial)
        return primary_release_spatial(w, a->dev, false);
    return wrk_ctx_end(w, rep,
                       &(struct wrk_ctx_end){.destroy = primary_release,
                                             .gone = primary_gone,
                                             .id = wrk_ctx_primary_id(w, a->dev),
                                             .dev = a->dev});
}

CUresult
h_cuDevicePrimaryCtxReset_v2(struct wrk *w,
                             const struct wire_args_cuDevicePrimaryCtxReset_v2 *a,
                             struct wrk_reply *rep)
{
    if (!is_card(w, a->dev))
        return CUDA_ERROR_INVALID_DEVICE;
    wrk_governor_forget(w, wrk_ctx_primary(w, a->dev));
    if (w->priv->spatial)
        return primary_release_spatial(w, a->dev, true);
    return wrk_ctx_end(w, rep,
                       &(struct wrk_ctx_end){.destroy = primary_reset,
                                             .gone = ctx_gone,
                                             .id = wrk_ctx_primary_id(w, a->dev),
                                             .dev = a->dev});
}

static CUresult
ctx_create(struct wrk *w, const struct wire_args_cuCtxCreate_v4 *a, CUcontext *ret)
{
    if (w->priv->spatial)
        return a->ctxCreateParams ? CUDA_ERROR_NOT_SUPPORTED
                                  : wrk_spatial_create(w, a->dev, ret);
    /* An older driver has the older forms, which can do the plain case. */
    if (w->drv->cuCtxCreate_v4)
        return w->drv->cuCtxCreate_v4(
            ret, (CUctxCreateParams *)(uintptr_t)a->ctxCreateParams, a->flags, a->dev);
    return a->ctxCreateParams ? CUDA_ERROR_NOT_SUPPORTED
                              : WRK_CALL(w, cuCtxCreate_v2, ret, a->flags, a->dev);
}

CUresult
h_cuCtxCreate_v4(struct wrk *w, const struct wire_args_cuCtxCreate_v4 *a,
                 struct wrk_reply *rep)
{
    uint32_t index = wire_handle_index(a->pctx_id);
    CUcontext ctx = NULL, pushed;
    CUresult r;

    (void)rep;
    if (!is_card(w, a->dev))
        return CUDA_ERROR_INVALID_DEVICE;
    /* The client's fault: an index that it has not given up. */
    if (index >= WIRE_INDEX_SERVER || wrk_handles_at(&w->handles, WIRE_KIND_CTX, index))
        return CUDA_ERROR_INVALID_VALUE;
    r = wrk_variables_take_ctx(w, index, (uint32_t)a->dev);
    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_create(w, a, &ctx);
    if (r != CUDA_SUCCESS) {
        wrk_variables_give_ctx(w, index);
        return r;
    }
    wrk_ctx_put(w, a->pctx_id, ctx, a->dev);
    /* cuCtxCreate made the context current on this thread and pushed it; but each frame
     * names its own current context.  Those below it must not come to light in a frame
     * that has none: to set none takes one away. */
    if (!w->priv->spatial)
        WRK_CALL(w, cuCtxPopCurrent_v2, &pushed);
    return wrk_ctx_use(w, wire_handle_index(a->pctx_id));
}

CUresult
h_cuCtxDestroy_v2(struct wrk *w, const struct wire_args_cuCtxDestroy_v2 *a,
                  struct wrk_reply *rep)
{
    struct wrk_ctx_end end = {
        .destroy = ctx_destroy, .gone = ctx_gone, .id = a->ctx_id, .ctx = a->ctx};
    CUresult r;

    wrk_governor_forget(w, wire_handle_index(a->ctx_id));
    if (!w->priv->spatial)
        return wrk_ctx_end(w, rep, &end);
    wrk_digests_hold(w, true);
    r = wrk_spatial_destroy(w, a->ctx, wire_handle_index(a->ctx_id));
    if (r == CUDA_SUCCESS)
        wrk_ctx_gone(w, a->ctx_id);
    wrk_digests_let_go();
    return r;
}

GP_HOT CUresult
h_cuCtxSynchronize(struct wrk *w, const struct wire_args_cuCtxSynchronize *a,
                   struct wrk_reply *rep)
{
    (void)a;
    return wrk_wait_ctx(w, rep);
}

CUresult
h_cuCtxSynchronize_v2(struct wrk *w, const struct wire_args_cuCtxSynchronize_v2 *a,
                      struct wrk_reply *rep)
{
    CUresult r = CUDA_SUCCESS;

    if (a->ctx_id && wire_handle_index(a->ctx_id) != w->ctx_index)
        r = wrk_ctx_use(w, wire_handle_index(a->ctx_id));
    return r == CUDA_SUCCESS ? wrk_wait_ctx(w, rep) : r;
}

/* What a client claims too much is its own loss: a new link could not resume. */
CUresult
h_gp_received(struct wrk *w, const struct wire_args_gp_received *a,
              struct wrk_reply *rep)
{
    (void)rep;
    xport_confirm(w->priv->conn, a->bytes);
    return CUDA_SUCCESS;
}

CUresult
h_gp_check_end(struct wrk *w, const struct wire_args_gp_check_end *a,
               struct wrk_reply *rep)
{
    struct wire_gp_check_end_rep *body = rep->body;
    uint64_t counts[2];

    (void)a;
    wrk_output_check_end(w, counts);
    body->errors = counts[0];
    body->leaks = counts[1];
    return CUDA_SUCCESS;
}

CUresult
h_gp_ping(struct wrk *w, const struct wire_args_gp_ping *a, struct wrk_reply *rep)
{
    struct wire_gp_ping_rep *body = rep->body;

    (void)w;
    body->echo = a->value;
    return CUDA_SUCCESS;
}

/* ---- limits ------------------------------------------------------------------------
 */

/* What each context has at first is the driver's own need; what a program sets beyond
 * it is memory of the card that it could have allocated.  0: a limit of no memory, or
 * of memory that only a kernel's need makes. */
static uint64_t
limit_bytes(CUlimit limit, uint64_t value)
{
    const uint64_t heap = UINT64_C(8) << 20, output = UINT64_C(1) << 20;

    switch ((int)limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return value > heap ? value - heap : 0;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        return value > output ? value - output : 0;
    default:
        return 0;
    }
}

/* In the quota's ledger, where neither addresses nor handles have the highest bit. */
static uint64_t
limit_key(const struct wrk *w, CUlimit limit)
{
    return UINT64_C(1) << 63 | (uint64_t)w->ctx_index << 8 | (uint8_t)limit;
}

/* The limit holds @bytes, which are taken already or taken here. */
static void
limit_note(struct wrk *w, CUlimit limit, uint32_t slice, uint64_t bytes, bool taken)
{
    struct wrk_quota *q = w->priv->quota;

    if (!bytes ||
        ((taken || wrk_quota_take(q, slice, bytes)) &&
         wrk_quota_note(q, limit_key(w, limit), slice, w->ctx_index, bytes) == 0))
        return;
    gp_log_error("quota", "%llu bytes are missing in the session's account",
                 (unsigned long long)bytes);
}

CUresult
h_cuCtxSetLimit(struct wrk *w, const struct wire_args_cuCtxSetLimit *a,
                struct wrk_reply *rep)
{
    uint64_t bytes = limit_bytes(a->limit, a->value);
    struct wrk_quota *q = w->priv->quota;
    struct wrk_quota_held old = {0};
    CUresult r = CUDA_SUCCESS;
    uint32_t slice;

    (void)rep;
    if (!wrk_ctx_current(w)) /* the driver refuses it */
        return WRK_CALL(w, cuCtxSetLimit, a->limit, a->value);
    slice = wrk_ctx_slice(w, w->ctx_index);
    if (wrk_quota_detach(q, limit_key(w, a->limit), &old))
        wrk_quota_give(q, old.slice, old.bytes);
    if (bytes && !wrk_quota_take_soon(q, slice, bytes, WRK_QUOTA_SOON_NS))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        r = WRK_CALL(w, cuCtxSetLimit, a->limit, a->value);
        if (r != CUDA_SUCCESS && bytes)
            wrk_quota_give(q, slice, bytes);
    }
    if (r == CUDA_SUCCESS)
        limit_note(w, a->limit, slice, bytes, true);
    else
        limit_note(w, a->limit, slice, old.bytes, false);
    return r;
}
