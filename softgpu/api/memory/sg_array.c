/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmapped arrays.
 */
#include "sg_array.h"

#include "gp_list.h"
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_format.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROW_ALIGN = 32, /* what textures of pitched memory ask for, too */
    MAX_LEVELS = 18,
    ARRAY_FLAGS = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                  CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER,
};

struct sg_mipmap {
    uint64_t handle;
    struct sg_ctx *ctx;
    struct sg_mipmap *next, **at;
    struct sg_alloc *alloc;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned n_levels;
    struct sg_array levels[MAX_LEVELS];
};

static struct sg_array *arrays; /* lock held */
static struct sg_mipmap *mipmaps;

/* The attributes that limit width, height and depth; 0: no limit, or none of its own.
 */
struct extents {
    int attr[3];
};

#define MOST(x, y, z)                                                                  \
    {                                                                                  \
        {                                                                              \
            CU_DEVICE_ATTRIBUTE_MAXIMUM_##x, CU_DEVICE_ATTRIBUTE_MAXIMUM_##y,          \
                CU_DEVICE_ATTRIBUTE_MAXIMUM_##z                                        \
        }                                                                              \
    }
#define CU_DEVICE_ATTRIBUTE_MAXIMUM_ANY 0

enum array_kind {
    KIND_1D,
    KIND_2D,
    KIND_3D,
    KIND_1D_LAYERED,
    KIND_2D_LAYERED,
    KIND_CUBE,
    KIND_CUBE_LAYERED,
};

static const struct extents texture_extents[] = {
    [KIND_1D] = MOST(TEXTURE1D_WIDTH, ANY, ANY),
    [KIND_2D] = MOST(TEXTURE2D_WIDTH, TEXTURE2D_HEIGHT, ANY),
    [KIND_3D] = MOST(TEXTURE3D_WIDTH, TEXTURE3D_HEIGHT, TEXTURE3D_DEPTH),
    [KIND_1D_LAYERED] = MOST(TEXTURE1D_LAYERED_WIDTH, ANY, TEXTURE1D_LAYERED_LAYERS),
    [KIND_2D_LAYERED] = MOST(TEXTURE2D_LAYERED_WIDTH, TEXTURE2D_LAYERED_HEIGHT,
                             TEXTURE2D_LAYERED_LAYERS),
    [KIND_CUBE] = MOST(TEXTURECUBEMAP_WIDTH, TEXTURECUBEMAP_WIDTH, ANY),
    [KIND_CUBE_LAYERED] =
        MOST(TEXTURECUBEMAP_LAYERED_WIDTH, TEXTURECUBEMAP_LAYERED_WIDTH,
             TEXTURECUBEMAP_LAYERED_LAYERS),
};

static const struct extents surface_extents[] = {
    [KIND_1D] = MOST(SURFACE1D_WIDTH, ANY, ANY),
    [KIND_2D] = MOST(SURFACE2D_WIDTH, SURFACE2D_HEIGHT, ANY),
    [KIND_3D] = MOST(SURFACE3D_WIDTH, SURFACE3D_HEIGHT, SURFACE3D_DEPTH),
    [KIND_1D_LAYERED] = MOST(SURFACE1D_LAYERED_WIDTH, ANY, SURFACE1D_LAYERED_LAYERS),
    [KIND_2D_LAYERED] = MOST(SURFACE2D_LAYERED_WIDTH, SURFACE2D_LAYERED_HEIGHT,
                             SURFACE2D_LAYERED_LAYERS),
    [KIND_CUBE] = MOST(SURFACECUBEMAP_WIDTH, SURFACECUBEMAP_WIDTH, ANY),
    [KIND_CUBE_LAYERED] =
        MOST(SURFACECUBEMAP_LAYERED_WIDTH, SURFACECUBEMAP_LAYERED_WIDTH,
             SURFACECUBEMAP_LAYERED_LAYERS),
};

static const struct extents tall_extents = MOST(
    TEXTURE3D_WIDTH_ALTERNATE, TEXTURE3D_HEIGHT_ALTERNATE, TEXTURE3D_DEPTH_ALTERNATE);
static const struct extents gather_extents =
    MOST(TEXTURE2D_GATHER_WIDTH, TEXTURE2D_GATHER_HEIGHT, ANY);
static const struct extents mipmap_extents[] = {
    [KIND_1D] = MOST(TEXTURE1D_MIPMAPPED_WIDTH, ANY, ANY),
    [KIND_2D] = MOST(TEXTURE2D_MIPMAPPED_WIDTH, TEXTURE2D_MIPMAPPED_HEIGHT, ANY),
};

static enum array_kind
kind_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

    if (d->Flags & CUDA_ARRAY3D_CUBEMAP)
        return layered ? KIND_CUBE_LAYERED : KIND_CUBE;
    if (layered)
        return d->Height ? KIND_2D_LAYERED : KIND_1D_LAYERED;
    return d->Depth ? KIND_3D : d->Height ? KIND_2D : KIND_1D;
}

static bool
fits(const struct sg_dev *dev, const CUDA_ARRAY3D_DESCRIPTOR *d,
     const struct extents *most)
{
    const size_t asked[] = {d->Width, d->Height, d->Depth};
    int limit = 0;

    for (int i = 0; i < 3; i++)
        if (most->attr[i] && (sg_dev_attr(dev, most->attr[i], &limit) != CUDA_SUCCESS ||
                              asked[i] > (size_t)limit))
            return false;
    return true;
}

/* Every limit that the device's attributes state for arrays of this kind. */
static bool
is_within_limits(const struct sg_dev *dev, const CUDA_ARRAY3D_DESCRIPTOR *d,
                 bool mipmapped)
{
    enum array_kind kind = kind_of(d);

    if (!fits(dev, d, &texture_extents[kind]) &&
        !(kind == KIND_3D && fits(dev, d, &tall_extents)))
        return false;
    if (mipmapped && kind <= KIND_2D && !fits(dev, d, &mipmap_extents[kind]))
        return false;
    if (kind == KIND_2D && (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) &&
        !fits(dev, d, &gather_extents))
        return false;
    return !(d->Flags & CUDA_ARRAY3D_SURFACE_LDST) ||
           fits(dev, d, &surface_extents[kind]);
}

/* Fills in everything but the storage; *ret_size is what it takes. */
static CUresult
array_shape(const CUDA_ARRAY3D_DESCRIPTOR *d, struct sg_array *a, uint64_t *ret_size)
{
    unsigned element = sg_format_texel(d->Format, d->NumChannels);

    if (!sg_format_is_known(d->Format))
        return CUDA_ERROR_INVALID_VALUE;
    if (!element || !d->Width || d->Flags & ~(unsigned)ARRAY_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!d->Height && d->Depth && !(d->Flags & CUDA_ARRAY3D_LAYERED))
        return CUDA_ERROR_INVALID_VALUE;
    if ((d->Flags & CUDA_ARRAY3D_LAYERED) && !d->Depth)
        return CUDA_ERROR_INVALID_VALUE; /* no layers */
    if ((d->Flags & CUDA_ARRAY3D_CUBEMAP) &&
        (d->Width != d->Height || !d->Depth || d->Depth % 6 ||
         (d->Depth != 6 && !(d->Flags & CUDA_ARRAY3D_LAYERED))))
        return CUDA_ERROR_INVALID_VALUE;
    memset(a, 0, sizeof(*a));
    a->desc = *d;
    a->element = element;
    a->width = d->Width * a->element;
    a->height = gp_max(d->Height, (size_t)1);
    a->depth = gp_max(d->Depth, (size_t)1);
    a->pitch = GP_ALIGN_UP(a->width, (size_t)ROW_ALIGN);
    a->slice = a->pitch * a->height;
    *ret_size = (uint64_t)a->slice * a->depth;
    return CUDA_SUCCESS;
}

static CUresult
storage_new(struct sg_ctx *ctx, uint64_t size, struct sg_alloc **ret_alloc)
{
    CUresult rc = sg_capture_check_unsafe();

    if (rc == CUDA_SUCCESS)
        rc = sg_mem_new(ctx, size, ret_alloc);
    if (rc == CUDA_SUCCESS)
        (*ret_alloc)->internal = true;
    return rc;
}

static CUresult
array_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *d, struct sg_array **ret)
{
    struct sg_array *a = calloc(1, sizeof(*a));
    uint64_t size;
    CUresult rc;

    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = is_within_limits(ctx->dev, d, false) ? array_shape(d, a, &size)
                                              : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = storage_new(ctx, size, &a->alloc);
    if (rc != CUDA_SUCCESS) {
        free(a);
        return rc;
    }
    a->ctx = ctx;
    a->base = a->alloc->base;
    a->handle = sg_handle_new(SG_KIND_ARRAY, a);
    if (!a->handle) {
        sg_mem_free(a->alloc);
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    GP_LIST_ADD(&arrays, a);
    *ret = a;
    return CUDA_SUCCESS;
}

/* The storage goes with @free_storage; otherwise with the context's memory. */
static void
array_end(struct sg_array *a, bool free_storage)
{
    struct sg_alloc *alloc = a->alloc;

    GP_LIST_DROP(a);
    sg_handle_drop(a->handle);
    free(a);
    if (free_storage)
        sg_mem_free(alloc);
}

static void
mipmap_end(struct sg_mipmap *m, bool free_storage)
{
    struct sg_alloc *alloc = m->alloc;

    GP_LIST_DROP(m);
    for (unsigned i = 0; i < m->n_levels; i++)
        sg_handle_drop(m->levels[i].handle);
    sg_handle_drop(m->handle);
    free(m);
    if (free_storage)
        sg_mem_free(alloc);
}

void
sg_array_detach_ctx(struct sg_ctx *ctx)
{
    struct sg_array *next;
    struct sg_mipmap *after;

    for (struct sg_array *a = arrays; a; a = next) {
        next = a->next;
        if (a->ctx == ctx)
            array_end(a, false);
    }
    for (struct sg_mipmap *m = mipmaps; m; m = after) {
        after = m->next;
        if (m->ctx == ctx)
            mipmap_end(m, false);
    }
}

SG_CALL(cuArray3DCreate_v2, CUarray *pHandle,
        const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    struct sg_array *a;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pHandle || !pAllocateArray)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = array_new(ctx, pAllocateArray, &a);
    if (rc == CUDA_SUCCESS)
        *pHandle = (CUarray)(uintptr_t)a->handle;
    return sg_leave(rc);
}

SG_CALL(cuArrayCreate_v2, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {0};

    if (!pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    d.Width = pAllocateArray->Width;
    d.Height = pAllocateArray->Height;
    d.Format = pAllocateArray->Format;
    d.NumChannels = pAllocateArray->NumChannels;
    return cuArray3DCreate_v2(pHandle, &d);
}

static CUresult
enter_array(CUarray handle, const void *out, struct sg_array **ret_array)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_array = SG_OBJ(sg_array, SG_KIND_ARRAY, handle);
    if (!*ret_array)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if ((*ret_array)->ctx->error != CUDA_SUCCESS)
        return sg_leave((*ret_array)->ctx->error);
    return out ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor,
        CUarray hArray)
{
    struct sg_array *a;
    CUresult rc = enter_array(hArray, pArrayDescriptor, &a);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pArrayDescriptor = a->desc;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor,
        CUarray hArray)
{
    struct sg_array *a;
    CUresult rc = enter_array(hArray, pArrayDescriptor, &a);

    if (rc != CUDA_SUCCESS)
        return rc;
    pArrayDescriptor->Width = a->desc.Width;
    pArrayDescriptor->Height = a->desc.Height;
    pArrayDescriptor->Format = a->desc.Format;
    pArrayDescriptor->NumChannels = a->desc.NumChannels;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuArrayDestroy, CUarray hArray)
{
    struct sg_array *a;
    CUresult rc = enter_array(hArray, &a, &a);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (a->mipmap) /* its mipmapped array owns it */
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_streams_synchronize(a->ctx); /* drops the lock */
    a = SG_OBJ(sg_array, SG_KIND_ARRAY, hArray);
    if (a)
        array_end(a, true);
    return sg_leave(a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

/* No format here has planes, no array is sparse or waits for its memory. */
SG_CALL(cuArrayGetMemoryRequirements,
        CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array,
        CUdevice device)
{
    struct sg_array *a;
    CUresult rc = enter_array(array, memoryRequirements, &a);

    return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_VALUE) : rc;
}

SG_CALL(cuArrayGetPlane, CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
    struct sg_array *a;
    CUresult rc = enter_array(hArray, pPlaneArray, &a);

    return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_VALUE) : rc;
}

SG_CALL(cuArrayGetSparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
        CUarray array)
{
    struct sg_array *a;
    CUresult rc = enter_array(array, sparseProperties, &a);

    return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_VALUE) : rc;
}

/* -------------------------------------------------------------- mipmapped arrays */

static size_t
halved(size_t extent, unsigned level)
{
    return extent ? gp_max(extent >> level, (size_t)1) : 0;
}

/* Shapes of all levels, one behind the other in one allocation. */
static CUresult
mipmap_shape(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, struct sg_mipmap *m,
             uint64_t *ret_size)
{
    uint64_t size, total = 0;
    CUresult rc = CUDA_SUCCESS;

    for (unsigned i = 0; i < levels && rc == CUDA_SUCCESS; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *d;

        level.Width = halved(d->Width, i);
        level.Height = halved(d->Height, i);
        if (!(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
            level.Depth = halved(d->Depth, i);
        rc = array_shape(&level, &m->levels[i], &size);
        m->levels[i].base = total; /* an offset until the memory is there */
        total += GP_ALIGN_UP(size, (uint64_t)512);
    }
    *ret_size = total;
    return rc;
}

static CUresult
mipmap_publish(struct sg_mipmap *m)
{
    m->handle = sg_handle_new(SG_KIND_MIPMAP, m);
    for (unsigned i = 0; i < m->n_levels; i++) {
        m->levels[i].ctx = m->ctx;
        m->levels[i].base += m->alloc->base;
        m->levels[i].mipmap = m->handle;
        m->levels[i].handle = sg_handle_new(SG_KIND_ARRAY, &m->levels[i]);
        if (!m->levels[i].handle)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return m->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static unsigned
max_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t extent = gp_max(gp_max(d->Width, d->Height), d->Depth);
    unsigned n = 0;

    for (; extent; extent >>= 1)
        n++;
    return gp_min(n, (unsigned)MAX_LEVELS);
}

SG_CALL(cuMipmappedArrayCreate, CUmipmappedArray *pHandle,
        const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
        unsigned int numMipmapLevels)
{
    struct sg_mipmap *m;
    struct sg_ctx *ctx;
    uint64_t size;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pHandle || !pMipmappedArrayDesc ||
        !is_within_limits(ctx->dev, pMipmappedArrayDesc, true))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    numMipmapLevels = gp_max(numMipmapLevels, 1u); /* clamped, as documented */
    m = calloc(1, sizeof(*m));
    if (!m)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    m->ctx = ctx;
    m->desc = *pMipmappedArrayDesc;
    m->n_levels = gp_min(numMipmapLevels, max_levels(pMipmappedArrayDesc));
    rc = mipmap_shape(pMipmappedArrayDesc, m->n_levels, m, &size);
    if (rc == CUDA_SUCCESS)
        rc = m->n_levels ? storage_new(ctx, size, &m->alloc) : CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS) {
        free(m);
        return sg_leave(rc);
    }
    GP_LIST_ADD(&mipmaps, m);
    rc = mipmap_publish(m);
    if (rc == CUDA_SUCCESS)
        *pHandle = (CUmipmappedArray)(uintptr_t)m->handle;
    else
        mipmap_end(m, true);
    return sg_leave(rc);
}

static CUresult
enter_mipmap(CUmipmappedArray handle, struct sg_mipmap **ret)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = SG_OBJ(sg_mipmap, SG_KIND_MIPMAP, handle);
    return *ret ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

unsigned
sg_mipmap_levels(CUmipmappedArray handle, const struct sg_array **ret_levels)
{
    struct sg_mipmap *m = SG_OBJ(sg_mipmap, SG_KIND_MIPMAP, handle);

    if (!m)
        return 0;
    *ret_levels = m->levels;
    return m->n_levels;
}

SG_CALL(cuMipmappedArrayGetLevel, CUarray *pLevelArray,
        CUmipmappedArray hMipmappedArray, unsigned int level)
{
    struct sg_mipmap *m;
    CUresult rc = enter_mipmap(hMipmappedArray, &m);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pLevelArray || level >= m->n_levels)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pLevelArray = (CUarray)(uintptr_t)m->levels[level].handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMipmappedArrayGetSparseProperties,
        CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUmipmappedArray mipmap)
{
    struct sg_mipmap *m;
    CUresult rc = enter_mipmap(mipmap, &m);

    return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_VALUE) : rc;
}

SG_CALL(cuMipmappedArrayGetMemoryRequirements,
        CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray mipmap,
        CUdevice device)
{
    struct sg_mipmap *m;
    CUresult rc = enter_mipmap(mipmap, &m);

    return rc == CUDA_SUCCESS ? sg_leave(CUDA_ERROR_INVALID_VALUE) : rc;
}

SG_CALL(cuMipmappedArrayDestroy, CUmipmappedArray hMipmappedArray)
{
    struct sg_mipmap *m;
    CUresult rc = enter_mipmap(hMipmappedArray, &m);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_streams_synchronize(m->ctx); /* drops the lock */
    m = SG_OBJ(sg_mipmap, SG_KIND_MIPMAP, hMipmappedArray);
    if (m)
        mipmap_end(m, true);
    return sg_leave(m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
