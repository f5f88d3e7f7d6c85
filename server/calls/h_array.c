/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays: counted against the session's memory by what was asked for.
 *
 * The driver pads and tiles as it likes; that is not charged, like the padding of
 * pitched memory.  An array whose memory is mapped later (sparse, deferred) holds
 * none itself.
 */
#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"
#include "wrk_release.h"

#define MAPPED_LATER (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* Bytes of one channel of one element.  Formats of video and compressed blocks are
 * counted as four bytes, which none of them exceeds per element. */
static uint64_t
channel_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 2;
    default:
        return 4;
    }
}

/* All levels of an array; false on overflow, which no card could hold either. */
static bool
array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, uint64_t *ret)
{
    uint64_t element, total = 0;

    if (!gp_mul_ok(channel_bytes(d->Format), (uint64_t)d->NumChannels, &element))
        return false;
    for (unsigned l = 0; l < levels && l < 64; l++) {
        bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
        uint64_t depth = layers ? d->Depth : (uint64_t)d->Depth >> l;
        uint64_t width = gp_max((uint64_t)d->Width >> l, (uint64_t)1);
        uint64_t height = gp_max((uint64_t)d->Height >> l, (uint64_t)1);
        uint64_t bytes;

        if (!gp_mul_ok(element, width, &bytes) || !gp_mul_ok(bytes, height, &bytes) ||
            !gp_mul_ok(bytes, gp_max(depth, (uint64_t)1), &bytes) ||
            !gp_add_ok(total, bytes, &total))
            return false;
    }
    *ret = d->Flags & MAPPED_LATER ? 0 : total;
    return true;
}

/* What an array is charged to, while it is being made. */
struct charge {
    uint32_t slice;
    uint64_t bytes;
};

static CUresult
charge_take(struct wrk *w, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
            struct charge *c)
{
    if (!wrk_ctx_current(w))
        return CUDA_ERROR_INVALID_CONTEXT;
    c->slice = wrk_ctx_slice(w, w->ctx_index);
    if (!array_bytes(desc, levels, &c->bytes) ||
        !wrk_quota_take_soon(w->priv->quota, c->slice, c->bytes, WRK_QUOTA_SOON_NS))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* The driver has answered: enter the array, or give its bytes back. */
static CUresult
charge_commit(struct wrk *w, const struct charge *c, CUresult r, unsigned kind,
              uint64_t id, void *obj)
{
    struct wrk_quota *q = w->priv->quota;

    if (r == CUDA_SUCCESS &&
        wrk_quota_note(q, id, c->slice, w->ctx_index, c->bytes) < 0) {
        if (kind == WIRE_KIND_ARRAY)
            WRK_CALL(w, cuArrayDestroy, obj);
        else
            WRK_CALL(w, cuMipmappedArrayDestroy, obj);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS)
        wrk_quota_give(q, c->slice, c->bytes);
    else
        wrk_handle_put(w, kind, id, obj);
    return r;
}

CUresult
h_cuArrayCreate_v2(struct wrk *w, const struct wire_args_cuArrayCreate_v2 *a,
                   struct wrk_reply *rep)
{
    const CUDA_ARRAY_DESCRIPTOR *d = a->pAllocateArray;
    CUDA_ARRAY3D_DESCRIPTOR whole = {.Width = d->Width,
                                     .Height = d->Height,
                                     .Format = d->Format,
                                     .NumChannels = d->NumChannels};
    struct charge charge;
    CUarray array = NULL;
    CUresult r = charge_take(w, &whole, 1, &charge);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuArrayCreate_v2, &array, d);
    return charge_commit(w, &charge, r, WIRE_KIND_ARRAY, a->pHandle_id, array);
}

CUresult
h_cuArray3DCreate_v2(struct wrk *w, const struct wire_args_cuArray3DCreate_v2 *a,
                     struct wrk_reply *rep)
{
    struct charge charge;
    CUarray array = NULL;
    CUresult r = charge_take(w, a->pAllocateArray, 1, &charge);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuArray3DCreate_v2, &array, a->pAllocateArray);
    return charge_commit(w, &charge, r, WIRE_KIND_ARRAY, a->pHandle_id, array);
}

CUresult
h_cuMipmappedArrayCreate(struct wrk *w,
                         const struct wire_args_cuMipmappedArrayCreate *a,
                         struct wrk_reply *rep)
{
    CUmipmappedArray array = NULL;
    struct charge charge;
    CUresult r = charge_take(w, a->pMipmappedArrayDesc, a->numMipmapLevels, &charge);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuMipmappedArrayCreate, &array, a->pMipmappedArrayDesc,
                 a->numMipmapLevels);
    return charge_commit(w, &charge, r, WIRE_KIND_MIPMAP, a->pHandle_id, array);
}

static CUresult
array_destroy(struct wrk *w, uint64_t array, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuArrayDestroy, (CUarray)(uintptr_t)array);
}

CUresult
h_cuArrayDestroy(struct wrk *w, const struct wire_args_cuArrayDestroy *a,
                 struct wrk_reply *rep)
{
    return wrk_release(w, rep,
                       &(struct wrk_release_what){.fn = array_destroy,
                                                  .obj = (uintptr_t)a->hArray,
                                                  .key = a->hArray_id,
                                                  .id = a->hArray_id});
}

static CUresult
mipmap_destroy(struct wrk *w, uint64_t array, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuMipmappedArrayDestroy, (CUmipmappedArray)(uintptr_t)array);
}

CUresult
h_cuMipmappedArrayDestroy(struct wrk *w,
                          const struct wire_args_cuMipmappedArrayDestroy *a,
                          struct wrk_reply *rep)
{
    return wrk_release(w, rep,
                       &(struct wrk_release_what){.fn = mipmap_destroy,
                                                  .obj = (uintptr_t)a->hMipmappedArray,
                                                  .key = a->hMipmappedArray_id,
                                                  .id = a->hMipmappedArray_id});
}
