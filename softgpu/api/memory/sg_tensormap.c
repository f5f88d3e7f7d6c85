/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuTensorMap*: checks as CUDA documents them, then the layout of sg_tmap.h.
 *
 * Nothing here looks at memory of the card, so no context is needed.
 */
#include "sg_core.h"

#include "sg_tmap.h"

#include <string.h>

enum {
    MAP_ALIGN = 64, /* of the CUtensorMap itself */
};

/* What all encodings share, as the caller gave it. */
struct request {
    CUtensorMapDataType type;
    uint32_t rank;
    const void *base;
    const cuuint64_t *dims, *strides;
    const cuuint32_t *steps;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2;
    CUtensorMapFloatOOBfill fill;
};

static bool
is_float(CUtensorMapDataType type)
{
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
           type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

static bool
wants_32(const struct request *q)
{
    return q->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ||
           q->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
           q->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

static bool
shape_is_valid(const struct request *q, struct sg_tmap *m)
{
    uint64_t align = wants_32(q) ? 32 : 16;

    if ((uintptr_t)q->base % align || !q->base)
        return false;
    for (uint32_t i = 0; i < q->rank; i++) {
        if (!q->dims[i] || q->dims[i] > UINT64_C(1) << 32 || !q->steps[i] ||
            q->steps[i] > 8)
            return false;
        m->last[i] = (uint32_t)(q->dims[i] - 1);
        m->step[i] = (uint8_t)q->steps[i];
    }
    for (uint32_t i = 0; i + 1 < q->rank; i++) {
        if (q->strides[i] % align || q->strides[i] >> 40)
            return false;
        m->stride[i] = q->strides[i];
    }
    return true;
}

static CUresult
begin(const struct request *q, const void *map, struct sg_tmap *m)
{
    memset(m, 0, sizeof(*m));
    if (!map || (uintptr_t)map % MAP_ALIGN || !sg_tmap_element((unsigned)q->type) ||
        q->rank < 1 || q->rank > SG_TMAP_DIMS || !q->dims || !q->steps ||
        (q->rank > 1 && !q->strides) ||
        (unsigned)q->interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
        (unsigned)q->swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
        (unsigned)q->l2 > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
        (unsigned)q->fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA ||
        (q->fill && !is_float(q->type)) || (q->interleave && q->rank < 3) ||
        (q->interleave == CU_TENSOR_MAP_INTERLEAVE_32B &&
         q->swizzle != CU_TENSOR_MAP_SWIZZLE_32B) ||
        !shape_is_valid(q, m))
        return CUDA_ERROR_INVALID_VALUE;
    m->magic = SG_TMAP_MAGIC;
    m->type = (uint8_t)q->type;
    m->rank = (uint8_t)q->rank;
    m->interleave = (uint8_t)q->interleave;
    m->swizzle = (uint8_t)q->swizzle;
    m->l2 = (uint8_t)q->l2;
    m->nan_fill = q->fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    m->base = (uintptr_t)q->base;
    return CUDA_SUCCESS;
}

/* The innermost rows in shared memory are what is swizzled. */
static bool
inner_fits(const struct request *q, uint64_t inner)
{
    static const uint16_t most[] = {UINT16_MAX, 32, 64, 128, 128, 128, 128};
    uint64_t bytes = inner * sg_tmap_element((unsigned)q->type);

    if (sg_tmap_is_packed((unsigned)q->type))
        bytes = inner / 2; /* four bits each; six take the room of eight */
    if (q->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return true;
    return bytes % 16 == 0 && bytes <= most[q->swizzle];
}

SG_CALL(cuTensorMapEncodeTiled, CUtensorMap *tensorMap,
        CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,
        const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct request q = {tensorDataType, tensorRank,     globalAddress, globalDim,
                        globalStrides,  elementStrides, interleave,    swizzle,
                        l2Promotion,    oobFill};
    struct sg_tmap m;
    CUresult rc = begin(&q, tensorMap, &m);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!boxDim)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < tensorRank; i++) {
        if (!boxDim[i] || boxDim[i] > 256)
            return CUDA_ERROR_INVALID_VALUE;
        m.box[i] = (uint16_t)boxDim[i];
    }
    if (!inner_fits(&q, boxDim[0]))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(tensorMap, &m, sizeof(m));
    return CUDA_SUCCESS;
}

/* @n corners of @lower and @upper, into what 16, 8 or 5 bits hold by rank. */
static CUresult
set_corners(struct sg_tmap *m, uint32_t n, const int *lower, const int *upper)
{
    int bits = n == 1 ? 15 : n == 2 ? 7 : 4;

    if (!lower || !upper)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < n; i++) {
        if (lower[i] < -(1 << bits) || lower[i] >= 1 << bits ||
            upper[i] < -(1 << bits) || upper[i] >= 1 << bits)
            return CUDA_ERROR_INVALID_VALUE;
        m->lower[i] = (int16_t)lower[i];
        m->upper[i] = (int16_t)upper[i];
    }
    return CUDA_SUCCESS;
}

static CUresult
set_column(const struct request *q, struct sg_tmap *m, uint32_t channels,
           uint32_t pixels)
{
    if (!channels || channels > 256 || !pixels || pixels > 1024 ||
        !inner_fits(q, channels))
        return CUDA_ERROR_INVALID_VALUE;
    m->channels = (uint16_t)channels;
    m->pixels = (uint16_t)pixels;
    return CUDA_SUCCESS;
}

SG_CALL(cuTensorMapEncodeIm2col, CUtensorMap *tensorMap,
        CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,
        const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
        cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
        CUtensorMapFloatOOBfill oobFill)
{
    struct request q = {tensorDataType, tensorRank,     globalAddress, globalDim,
                        globalStrides,  elementStrides, interleave,    swizzle,
                        l2Promotion,    oobFill};
    struct sg_tmap m;
    CUresult rc = begin(&q, tensorMap, &m);

    if (rc == CUDA_SUCCESS && tensorRank < 3)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = set_corners(&m, tensorRank - 2, pixelBoxLowerCorner, pixelBoxUpperCorner);
    if (rc == CUDA_SUCCESS)
        rc = set_column(&q, &m, channelsPerPixel, pixelsPerColumn);
    if (rc != CUDA_SUCCESS)
        return rc;
    m.mode = SG_TMAP_IM2COL;
    memcpy(tensorMap, &m, sizeof(m));
    return CUDA_SUCCESS;
}

SG_CALL(cuTensorMapEncodeIm2colWide, CUtensorMap *tensorMap,
        CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,
        const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
        cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
        CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct request q = {tensorDataType, tensorRank,     globalAddress, globalDim,
                        globalStrides,  elementStrides, interleave,    swizzle,
                        l2Promotion,    oobFill};
    struct sg_tmap m;
    CUresult rc = begin(&q, tensorMap, &m);

    if (rc == CUDA_SUCCESS &&
        (tensorRank < 3 || (unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 ||
         interleave != CU_TENSOR_MAP_INTERLEAVE_NONE))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = set_corners(&m, 1, &pixelBoxLowerCornerWidth, &pixelBoxUpperCornerWidth);
    if (rc == CUDA_SUCCESS)
        rc = set_column(&q, &m, channelsPerPixel, pixelsPerColumn);
    if (rc != CUDA_SUCCESS)
        return rc;
    m.mode = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ? SG_TMAP_IM2COL_W
                                                      : SG_TMAP_IM2COL_W128;
    memcpy(tensorMap, &m, sizeof(m));
    return CUDA_SUCCESS;
}

SG_CALL(cuTensorMapReplaceAddress, CUtensorMap *tensorMap, void *globalAddress)
{
    struct sg_tmap m;

    if (!tensorMap || (uintptr_t)tensorMap % MAP_ALIGN || !globalAddress ||
        (uintptr_t)globalAddress % 16 || !sg_tmap_open(tensorMap, &m))
        return CUDA_ERROR_INVALID_VALUE;
    if ((m.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ||
         m.type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
         m.type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) &&
        (uintptr_t)globalAddress % 32)
        return CUDA_ERROR_INVALID_VALUE;
    m.base = (uintptr_t)globalAddress;
    memcpy(tensorMap, &m, sizeof(m));
    return CUDA_SUCCESS;
}
