/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuTexObject* and cuSurfObject*.
 */
#include "sg_texobj.h"

#include "sg_array.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_handle.h"
#include "sg_mem.h"

#include "sg_tex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct texobj {
    struct texobj *next;
    struct sg_ctx *ctx; /* no reference: the context owns it */
    uint64_t handle;    /* of the executor's table, and the caller's */
    bool surface;
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC tex;
};

static struct texobj *objects; /* lock held */

/* ------------------------------------------------------------------ description */

static CUresult
set_format(struct sg_tex *t, CUarray_format format, unsigned channels)
{
    static const struct {
        CUarray_format cuda;
        enum sg_tex_format ours;
    } map[] = {
        {CU_AD_FORMAT_UNSIGNED_INT8, SG_TEX_U8},
        {CU_AD_FORMAT_SIGNED_INT8, SG_TEX_S8},
        {CU_AD_FORMAT_UNSIGNED_INT16, SG_TEX_U16},
        {CU_AD_FORMAT_SIGNED_INT16, SG_TEX_S16},
        {CU_AD_FORMAT_UNSIGNED_INT32, SG_TEX_U32},
        {CU_AD_FORMAT_SIGNED_INT32, SG_TEX_S32},
        {CU_AD_FORMAT_HALF, SG_TEX_F16},
        {CU_AD_FORMAT_FLOAT, SG_TEX_F32},
    };

    if (channels != 1 && channels != 2 && channels != 4)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
        if (map[i].cuda != format)
            continue;
        t->format = map[i].ours;
        t->channels = (uint8_t)channels;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static unsigned
texel_bytes(const struct sg_tex *t)
{
    static const uint8_t bytes[] = {
        [SG_TEX_U8] = 1,  [SG_TEX_S8] = 1,  [SG_TEX_U16] = 2, [SG_TEX_S16] = 2,
        [SG_TEX_F16] = 2, [SG_TEX_U32] = 4, [SG_TEX_S32] = 4, [SG_TEX_F32] = 4,
    };

    return (unsigned)bytes[t->format] * t->channels;
}

static void
set_level(struct sg_tex_level *level, const struct sg_array *a)
{
    *level = (struct sg_tex_level){
        .base = a->base,
        .width = (uint32_t)a->desc.Width,
        .height = (uint32_t)a->height,
        .depth = (uint32_t)a->depth,
        .pitch = a->pitch,
        .slice = a->slice,
    };
}

static CUresult
from_array(struct sg_tex *t, const struct sg_array *a)
{
    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    t->cube = a->desc.Flags & CUDA_ARRAY3D_CUBEMAP;
    t->layered = a->desc.Flags & CUDA_ARRAY3D_LAYERED;
    t->dims = a->desc.Depth && !t->layered && !t->cube ? 3 : a->desc.Height ? 2 : 1;
    t->n_levels = 1;
    set_level(&t->level[0], a);
    return set_format(t, a->desc.Format, a->desc.NumChannels);
}

static CUresult
from_mipmap(struct sg_tex *t, CUmipmappedArray handle)
{
    const struct sg_array *levels;
    unsigned n = sg_mipmap_levels(handle, &levels);
    CUresult rc;

    if (!n)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = from_array(t, &levels[0]);
    t->n_levels = gp_min(n, (unsigned)SG_TEX_LEVELS);
    for (unsigned i = 1; i < t->n_levels; i++)
        set_level(&t->level[i], &levels[i]);
    return rc;
}

/* Textures read without the executor's range check, so only memory whose pages
 * stay readable whatever the application does to it. */
static bool
is_readable(uint64_t addr, uint64_t len)
{
    const struct sg_alloc *alloc = sg_mem_find(addr);

    return alloc && (alloc->kind == SG_MEM_DEVICE || alloc->kind == SG_MEM_MANAGED) &&
           len <= alloc->base + alloc->size - addr;
}

static CUresult
from_linear(struct sg_tex *t, const CUDA_RESOURCE_DESC *res)
{
    uint64_t width = res->res.linear.sizeInBytes;
    CUresult rc = set_format(t, res->res.linear.format, res->res.linear.numChannels);

    if (rc != CUDA_SUCCESS)
        return rc;
    width /= texel_bytes(t);
    if (!width || width > 1u << 28 ||
        !is_readable(res->res.linear.devPtr, width * texel_bytes(t)))
        return CUDA_ERROR_INVALID_VALUE;
    t->dims = 1;
    t->n_levels = 1;
    t->level[0] = (struct sg_tex_level){.base = res->res.linear.devPtr,
                                        .width = (uint32_t)width,
                                        .height = 1,
                                        .depth = 1,
                                        .pitch = width * texel_bytes(t),
                                        .slice = width * texel_bytes(t)};
    return CUDA_SUCCESS;
}

static CUresult
from_pitched(struct sg_tex *t, const CUDA_RESOURCE_DESC *res)
{
    uint64_t width = res->res.pitch2D.width, height = res->res.pitch2D.height;
    uint64_t pitch = res->res.pitch2D.pitchInBytes;
    CUresult rc = set_format(t, res->res.pitch2D.format, res->res.pitch2D.numChannels);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!width || !height || width > 131072 || height > 65000 || pitch > 1u << 24 ||
        pitch < width * texel_bytes(t) ||
        !is_readable(res->res.pitch2D.devPtr,
                     pitch * (height - 1) + width * texel_bytes(t)))
        return CUDA_ERROR_INVALID_VALUE;
    t->dims = 2;
    t->n_levels = 1;
    t->level[0] = (struct sg_tex_level){.base = res->res.pitch2D.devPtr,
                                        .width = (uint32_t)width,
                                        .height = (uint32_t)height,
                                        .depth = 1,
                                        .pitch = pitch,
                                        .slice = pitch * height};
    return CUDA_SUCCESS;
}

static CUresult
from_resource(struct sg_tex *t, const CUDA_RESOURCE_DESC *res)
{
    switch ((int)res->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return from_array(t, SG_OBJ(sg_array, SG_KIND_ARRAY, res->res.array.hArray));
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return from_mipmap(t, res->res.mipmap.hMipmappedArray);
    case CU_RESOURCE_TYPE_LINEAR:
        return from_linear(t, res);
    case CU_RESOURCE_TYPE_PITCH2D:
        return from_pitched(t, res);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
set_sampling(struct sg_tex *t, const CUDA_TEXTURE_DESC *d)
{
    if (d->flags & CU_TRSF_SRGB)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < 3; i++) {
        if ((unsigned)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
        t->address[i] = (enum sg_tex_address)d->addressMode[i];
    }
    if ((unsigned)d->filterMode > CU_TR_FILTER_MODE_LINEAR ||
        (unsigned)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
        return CUDA_ERROR_INVALID_VALUE;
    t->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR;
    t->mip_linear = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    t->normalized = d->flags & CU_TRSF_NORMALIZED_COORDINATES;
    t->read_float = !(d->flags & CU_TRSF_READ_AS_INTEGER) && t->format != SG_TEX_U32 &&
                    t->format != SG_TEX_S32;
    memcpy(t->border, d->borderColor, sizeof(t->border));
    t->lod_bias = d->mipmapLevelBias;
    t->lod_min = d->minMipmapLevelClamp;
    t->lod_max = d->maxMipmapLevelClamp;
    return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------- objects */

static CUresult
object_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res,
           const CUDA_TEXTURE_DESC *tex, bool surface, uint64_t *ret_handle)
{
    struct sg_tex t = {.surface = surface};
    struct texobj *o;
    CUresult rc = from_resource(&t, res);
    int r;

    if (rc == CUDA_SUCCESS && tex)
        rc = set_sampling(&t, tex);
    if (rc != CUDA_SUCCESS)
        return rc;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = sg_tex_register(&t, &o->handle);
    if (r < 0) {
        free(o);
        return r == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : sg_result(r);
    }
    o->ctx = ctx;
    o->surface = surface;
    o->res = *res;
    if (tex)
        o->tex = *tex;
    o->next = objects;
    objects = o;
    *ret_handle = o->handle;
    return CUDA_SUCCESS;
}

static struct texobj *
object_find(uint64_t handle, bool surface)
{
    for (struct texobj *o = objects; o; o = o->next)
        if (o->handle == handle && o->surface == surface)
            return o;
    return NULL;
}

static void
object_free(struct texobj *o)
{
    struct texobj **p = &objects;

    while (*p && *p != o)
        p = &(*p)->next;
    if (*p)
        *p = o->next;
    sg_tex_unregister(o->handle);
    free(o);
}

void
sg_texobj_detach_ctx(struct sg_ctx *ctx)
{
    struct texobj *next;

    for (struct texobj *o = objects; o; o = next) {
        next = o->next;
        if (o->ctx == ctx)
            object_free(o);
    }
}

static CUresult
object_destroy(uint64_t handle, bool surface)
{
    struct texobj *o;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!object_find(handle, surface))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sg_ctx_synchronize_all(); /* kernels may still read it; drops the lock */
    o = object_find(handle, surface);
    if (o)
        object_free(o);
    return sg_leave(o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult
enter_object(uint64_t handle, bool surface, const void *out, struct texobj **ret)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = object_find(handle, surface);
    return *ret && out ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Views that reinterpret the memory are not carried. */
SG_CALL(cuTexObjectCreate, CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
        const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    struct sg_ctx *ctx;
    uint64_t handle;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pTexObject || !pResDesc || !pTexDesc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (pResViewDesc)
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
    rc = object_new(ctx, pResDesc, pTexDesc, false, &handle);
    if (rc == CUDA_SUCCESS)
        *pTexObject = handle;
    return sg_leave(rc);
}

SG_CALL(cuTexObjectDestroy, CUtexObject texObject)
{
    return object_destroy(texObject, false);
}

SG_CALL(cuTexObjectGetResourceDesc, CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    struct texobj *o;
    CUresult rc = enter_object(texObject, false, pResDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pResDesc = o->res;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuTexObjectGetTextureDesc, CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    struct texobj *o;
    CUresult rc = enter_object(texObject, false, pTexDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pTexDesc = o->tex;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuSurfObjectCreate, CUsurfObject *pSurfObject,
        const CUDA_RESOURCE_DESC *pResDesc)
{
    struct sg_ctx *ctx;
    uint64_t handle;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pSurfObject || !pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = object_new(ctx, pResDesc, NULL, true, &handle);
    if (rc == CUDA_SUCCESS)
        *pSurfObject = handle;
    return sg_leave(rc);
}

SG_CALL(cuSurfObjectDestroy, CUsurfObject surfObject)
{
    return object_destroy(surfObject, true);
}

SG_CALL(cuSurfObjectGetResourceDesc, CUDA_RESOURCE_DESC *pResDesc,
        CUsurfObject surfObject)
{
    struct texobj *o;
    CUresult rc = enter_object(surfObject, true, pResDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pResDesc = o->res;
    return sg_leave(CUDA_SUCCESS);
}
