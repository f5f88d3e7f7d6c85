/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a resource, a view of it and sampling rules to what the executor reads by.
 */
#include "sg_texdesc.h"

#include "sg_array.h"
#include "sg_format.h"
#include "sg_handle.h"
#include "sg_mem.h"

#include "sg_tex.h"

#include <string.h>

enum {
    LINEAR_ALIGN = 512,  /* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT */
    PITCH_ALIGN = 32,    /* CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT */
    MAX_PITCH = 2097120, /* CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH */
    KNOWN_FLAGS = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                  CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                  CU_TRSF_SEAMLESS_CUBEMAP,
};

static CUresult
set_format(struct sg_tex *t, CUarray_format format, unsigned channels)
{
    if (!sg_format_texel(format, channels))
        return CUDA_ERROR_INVALID_VALUE;
    t->format = sg_format_find(format)->ours;
    t->channels = (uint8_t)channels;
    t->read_float = sg_format_find(format)->channels != 0;
    return CUDA_SUCCESS;
}

static unsigned
texel_bytes(const struct sg_tex *t)
{
    return sg_format_channel_bytes(t->format) * t->channels;
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

/* What is there now; every access of a kernel is checked again. */
static bool
is_readable(uint64_t addr, uint64_t len)
{
    const struct sg_alloc *alloc = sg_mem_find(addr);

    return alloc && len <= alloc->base + alloc->size - addr;
}

static CUresult
from_linear(struct sg_tex *t, const CUDA_RESOURCE_DESC *res)
{
    const struct sg_alloc *alloc = sg_mem_find(res->res.linear.devPtr);
    uint64_t width = res->res.linear.sizeInBytes;
    CUresult rc = set_format(t, res->res.linear.format, res->res.linear.numChannels);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!res->res.linear.devPtr || res->res.linear.devPtr % LINEAR_ALIGN)
        return CUDA_ERROR_INVALID_VALUE;
    /* It may be said to end behind its memory, as on a card, or where there is none. */
    if (alloc)
        width = gp_min(width, alloc->base + alloc->size - res->res.linear.devPtr);
    width = gp_min(width / texel_bytes(t), UINT64_C(1) << 28);
    width = gp_max(width, UINT64_C(1));
    t->dims = 1;
    t->buffer = true;
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
    if (!width || !height || width > 131072 || height > 65000 || pitch > MAX_PITCH ||
        pitch % PITCH_ALIGN || res->res.pitch2D.devPtr % LINEAR_ALIGN ||
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
    if (d->flags & ~(unsigned)KNOWN_FLAGS ||
        (d->flags & CU_TRSF_SEAMLESS_CUBEMAP && !t->cube))
        return CUDA_ERROR_INVALID_VALUE;
    if (d->flags & CU_TRSF_SRGB && t->format == SG_TEX_U8 && t->channels == 4)
        t->srgb = true;
    for (int i = 0; i < 3; i++) {
        if ((unsigned)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
        t->address[i] = (enum sg_tex_address)d->addressMode[i];
    }
    t->seamless = d->flags & CU_TRSF_SEAMLESS_CUBEMAP;
    for (int i = 0; i < 3 && t->seamless; i++) /* what was asked for is ignored */
        t->address[i] = SG_TEX_CLAMP;
    if ((unsigned)d->filterMode > CU_TR_FILTER_MODE_LINEAR ||
        (unsigned)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
        return CUDA_ERROR_INVALID_VALUE;
    t->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR;
    t->mip_linear = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    t->normalized = d->flags & CU_TRSF_NORMALIZED_COORDINATES;
    t->read_float = (t->read_float || !(d->flags & CU_TRSF_READ_AS_INTEGER)) &&
                    t->format != SG_TEX_U32 && t->format != SG_TEX_S32;
    memcpy(t->border, d->borderColor, sizeof(t->border));
    if (t->buffer) { /* no address mode applies: what is outside reads as 0 */
        t->address[0] = SG_TEX_BORDER;
        memset(t->border, 0, sizeof(t->border));
    }
    t->lod_bias = d->mipmapLevelBias;
    t->lod_min = d->minMipmapLevelClamp;
    t->lod_max = d->maxMipmapLevelClamp;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------ views */

static CUresult
view_format(struct sg_tex *t, CUresourceViewFormat format)
{
    static const enum sg_tex_format kinds[] = {SG_TEX_U8,  SG_TEX_S8,  SG_TEX_U16,
                                               SG_TEX_S16, SG_TEX_U32, SG_TEX_S32,
                                               SG_TEX_F16, SG_TEX_F32};
    unsigned old = texel_bytes(t), i = (unsigned)format - 1;

    if (format == CU_RES_VIEW_FORMAT_NONE)
        return CUDA_SUCCESS;
    if (format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 &&
        format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
        return CUDA_ERROR_NOT_SUPPORTED; /* compressed blocks */
    if (i / 3 >= ARRAY_SIZE(kinds))
        return CUDA_ERROR_INVALID_VALUE;
    t->format = kinds[i / 3];
    t->channels = (uint8_t)(1u << i % 3);
    t->read_float = false;
    return texel_bytes(t) == old ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A view's extent is the resource's, whose height and depth are 0 if it has none.  Of
 * layers a view may also have none: a driver takes it. */
static bool
has_extent(const struct sg_tex *t, const CUDA_RESOURCE_VIEW_DESC *v)
{
    const struct sg_tex_level *whole = &t->level[0];
    uint64_t height = t->dims > 1 ? whole->height : 0;
    uint64_t depth = t->dims > 2 || t->layered || t->cube ? whole->depth : 0;

    return v->width == whole->width && v->height == height &&
           (v->depth == depth || (t->dims < 3 && !v->depth));
}

/* Another format and fewer levels and layers. */
static CUresult
set_view(struct sg_tex *t, const CUDA_RESOURCE_VIEW_DESC *v)
{
    uint64_t layers;

    if (v->lastMipmapLevel < v->firstMipmapLevel || v->lastLayer < v->firstLayer ||
        v->lastMipmapLevel >= t->n_levels)
        return CUDA_ERROR_INVALID_VALUE;
    if (!has_extent(t, v))
        return CUDA_ERROR_INVALID_VALUE;
    t->n_levels = v->lastMipmapLevel - v->firstMipmapLevel + 1;
    memmove(t->level, t->level + v->firstMipmapLevel,
            t->n_levels * sizeof(t->level[0]));
    layers = (uint64_t)v->lastLayer - v->firstLayer + 1;
    if (v->lastLayer || (t->layered && !t->cube)) {
        if ((!t->layered && !t->cube) || v->lastLayer >= t->level[0].depth)
            return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < t->n_levels; i++) {
            t->level[i].base += v->firstLayer * t->level[i].slice;
            t->level[i].depth = (uint32_t)layers;
        }
    }
    return view_format(t, v->format);
}

CUresult
sg_texdesc_make(const CUDA_RESOURCE_DESC *res, const CUDA_TEXTURE_DESC *tex,
                const CUDA_RESOURCE_VIEW_DESC *view, struct sg_tex *ret_tex)
{
    CUresult rc;

    memset(ret_tex, 0, sizeof(*ret_tex));
    ret_tex->surface = !tex;
    rc = res->flags ? CUDA_ERROR_INVALID_VALUE : from_resource(ret_tex, res);
    if (rc == CUDA_SUCCESS && tex && res->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
        !(tex->flags & CU_TRSF_NORMALIZED_COORDINATES))
        rc = CUDA_ERROR_INVALID_VALUE; /* levels differ in their extents */
    if (rc == CUDA_SUCCESS && view)
        rc = res->resType == CU_RESOURCE_TYPE_ARRAY ||
                     res->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
                 ? set_view(ret_tex, view)
                 : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && tex)
        rc = set_sampling(ret_tex, tex);
    return rc;
}
