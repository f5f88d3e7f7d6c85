/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_spatial.h"

#include "drv.h"
#include "gov_card.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"

#include <errno.h>

/* Contexts that a client has on a card at a time; seldom more than one. */
#define CONTEXTS_MAX 256

#define ATTRIBUTE_SMS 16 /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */

struct spatial_card {
    CUdevResource pieces[GOV_UNITS_MAX];
    unsigned n;
    CUdevResourceDesc part; /* the session's */
    CUcontext driver_ctx;   /* the primary one, as the driver names it */
    CUcontext ctx;          /* the client's; NULL: not retained */
    unsigned retained;
};

struct wrk_spatial {
    struct spatial_card cards[TICKET_SLICES_MAX];
    struct {
        CUcontext ctx; /* NULL: free */
        CUgreenCtx green;
    } contexts[CONTEXTS_MAX];
};

/* ---- which part ---- */

/* Cut the card into the smallest pieces that the driver makes, or larger ones where
 * there would be too many. */
static int
card_cut(struct wrk *w, uint32_t i, struct spatial_card *card, struct gp_err *err)
{
    CUdevice dev = w->priv->cards.card[i].device;
    CUdevResource all, rest;
    unsigned n = GOV_UNITS_MAX + 1, least = 1;
    CUresult r =
        WRK_CALL(w, cuDeviceGetDevResource, dev, &all, CU_DEV_RESOURCE_TYPE_SM);

    while (r == CUDA_SUCCESS && n > GOV_UNITS_MAX) {
        r = WRK_CALL(w, cuDevSmResourceSplitByCount, NULL, &n, &all, NULL, 0, least);
        if (n > GOV_UNITS_MAX)
            least = gp_max(least + 1, all.sm.smCount / GOV_UNITS_MAX);
    }
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuDevSmResourceSplitByCount, card->pieces, &n, &all, &rest, 0,
                     least);
    if (r != CUDA_SUCCESS || !n)
        return gp_err_set(err, -ENOTSUP,
                          "this driver does not cut card %u into groups of "
                          "multiprocessors (error %d); --spatial needs CUDA 12.4",
                          i, (int)r);
    card->n = n;
    return 0;
}

/* Whether the multi-process service took the percentage that the supervisor gave it:
 * the card then shows that many multiprocessors only. */
static int
check_service(struct wrk *w, uint32_t i, struct gp_err *err)
{
    uint32_t all = w->priv->conf.card_sms[i];
    int shown = w->priv->cards.card[i].attributes[ATTRIBUTE_SMS - 1];

    if ((uint32_t)shown < all || w->priv->conf.slices[i].core * all > 100 * (all - 1))
        return 0;
    return gp_err_set(err, -ENOTSUP,
                      "card %u still shows all %u multiprocessors: --spatial mps needs "
                      "the driver's multi-process service on the server",
                      i, all);
}

int
wrk_spatial_new(struct wrk *w, struct wrk_spatial **ret, struct gp_err *err)
{
    CLEANUP_FREE struct wrk_spatial *sp = NULL;
    int r = 0;

    for (uint32_t i = 0; i < w->priv->cards.n && r == 0; i++)
        r = w->priv->conf.spatial == TICKET_SPATIAL_MPS ? check_service(w, i, err) : 0;
    if (w->priv->conf.spatial != TICKET_SPATIAL_SM)
        return r;
    sp = calloc(1, sizeof(*sp));
    if (!sp)
        return gp_err_set(err, -ENOMEM, "no memory for the session's multiprocessors");
    for (uint32_t i = 0; r == 0 && i < w->priv->cards.n; i++)
        r = card_cut(w, i, &sp->cards[i], err);
    if (r == 0)
        *ret = TAKE_PTR(sp);
    return r;
}

uint32_t
wrk_spatial_units(const struct wrk_spatial *sp, uint32_t i)
{
    return sp ? sp->cards[i].n : 0;
}

int
wrk_spatial_confine(struct wrk *w, uint32_t i, uint64_t units, struct gp_err *err)
{
    struct wrk_spatial *sp = w->priv->spatial;
    CUdevResource mine[GOV_UNITS_MAX];
    unsigned n = 0, sms = 0;
    CUresult r;

    if (!sp)
        return 0;
    for (unsigned u = 0; u < sp->cards[i].n; u++) {
        if (!(units >> u & 1))
            continue;
        mine[n++] = sp->cards[i].pieces[u];
        sms += sp->cards[i].pieces[u].sm.smCount;
    }
    r = WRK_CALL(w, cuDevResourceGenerateDesc, &sp->cards[i].part, mine, n);
    if (r != CUDA_SUCCESS)
        return gp_err_set(err, -ENOTSUP, "card %u: no part of %u multiprocessors (%d)",
                          i, sms, (int)r);
    w->priv->cards.card[i].attributes[ATTRIBUTE_SMS - 1] = (int)sms;
    gp_log_debug("governor", "slice %u: %u multiprocessors, pieces %llx of %u", i, sms,
                 (unsigned long long)units, sp->cards[i].n);
    return 0;
}

/* ---- contexts on it ---- */

CUresult
wrk_spatial_create(struct wrk *w, CUdevice dev, CUcontext *ret)
{
    struct wrk_spatial *sp = w->priv->spatial;
    CUgreenCtx green = NULL;
    unsigned at = 0;
    CUresult r;

    if (dev < 0 || (uint32_t)dev >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    while (at < CONTEXTS_MAX && sp->contexts[at].ctx)
        at++;
    if (at == CONTEXTS_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuGreenCtxCreate, &green, sp->cards[dev].part, dev,
                 CU_GREEN_CTX_DEFAULT_STREAM);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuCtxFromGreenCtx, ret, green);
    if (r != CUDA_SUCCESS) {
        if (green)
            WRK_CALL(w, cuGreenCtxDestroy, green);
        return r;
    }
    sp->contexts[at].ctx = *ret;
    sp->contexts[at].green = green;
    return CUDA_SUCCESS;
}

static void
destroy_object(struct wrk *w, enum wire_kind kind, void *obj)
{
    switch ((int)kind) {
    case WIRE_KIND_STREAM:
        WRK_CALL(w, cuStreamDestroy_v2, obj);
        break;
    case WIRE_KIND_EVENT:
        WRK_CALL(w, cuEventDestroy_v2, obj);
        break;
    case WIRE_KIND_MODULE:
        WRK_CALL(w, cuModuleUnload, obj);
        break;
    case WIRE_KIND_ARRAY:
        WRK_CALL(w, cuArrayDestroy, obj);
        break;
    case WIRE_KIND_MIPMAP:
        WRK_CALL(w, cuMipmappedArrayDestroy, obj);
        break;
    case WIRE_KIND_TEXOBJ:
        WRK_CALL(w, cuTexObjectDestroy, (CUtexObject)(uintptr_t)obj);
        break;
    case WIRE_KIND_SURFOBJ:
        WRK_CALL(w, cuSurfObjectDestroy, (CUsurfObject)(uintptr_t)obj);
        break;
    default:
        break;
    }
}

/* What the quota noted under an odd number, the id of an array or for an end that has
 * begun is no address, and the driver says so. */
static void
free_memory(void *w, uint64_t key)
{
    WRK_CALL((struct wrk *)w, cuMemFree_v2, key);
}

CUresult
wrk_spatial_destroy(struct wrk *w, CUcontext ctx, uint32_t index)
{
    struct wrk_spatial *sp = w->priv->spatial;
    unsigned at = 0;
    CUresult r;

    while (at < CONTEXTS_MAX && sp->contexts[at].ctx != ctx)
        at++;
    if (at == CONTEXTS_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    r = wrk_ctx_use(w, index);
    if (r != CUDA_SUCCESS)
        return r;
    WRK_CALL(w, cuCtxSynchronize);
    wrk_ctx_objects(w, index, destroy_object);
    wrk_quota_each(w->priv->quota, index, free_memory, w);
    WRK_CALL(w, cuCtxSetCurrent, NULL);
    w->ctx_index = w->ctx_frame = 0;
    r = WRK_CALL(w, cuGreenCtxDestroy, sp->contexts[at].green);
    sp->contexts[at].ctx = NULL;
    return r;
}

CUresult
wrk_spatial_retain(struct wrk *w, CUdevice dev, CUcontext *ret)
{
    struct spatial_card *card = &w->priv->spatial->cards[dev];
    CUresult r = WRK_CALL(w, cuDevicePrimaryCtxRetain, &card->driver_ctx, dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!card->retained)
        r = wrk_spatial_create(w, dev, &card->ctx);
    if (r != CUDA_SUCCESS) {
        WRK_CALL(w, cuDevicePrimaryCtxRelease_v2, dev);
        return r;
    }
    card->retained++;
    *ret = card->ctx;
    return CUDA_SUCCESS;
}

CUresult
wrk_spatial_release(struct wrk *w, CUdevice dev, bool all, bool *ret_gone)
{
    struct spatial_card *card;
    CUresult r = CUDA_SUCCESS;

    *ret_gone = false;
    if (dev < 0 || (uint32_t)dev >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    card = &w->priv->spatial->cards[dev];
    if (!card->retained)
        return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    do {
        if (--card->retained == 0)
            r = wrk_spatial_destroy(w, card->ctx, wrk_ctx_primary(w, dev));
        WRK_CALL(w, cuDevicePrimaryCtxRelease_v2, dev);
    } while (all && card->retained);
    *ret_gone = !card->retained;
    if (*ret_gone)
        card->ctx = NULL;
    return r;
}

CUcontext
wrk_spatial_named(struct wrk *w, CUcontext ctx)
{
    const struct wrk_spatial *sp = w->priv->spatial;

    for (uint32_t i = 0; sp && i < w->priv->cards.n; i++) {
        if (ctx && ctx == sp->cards[i].driver_ctx && sp->cards[i].ctx)
            return sp->cards[i].ctx;
    }
    return ctx;
}
