/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_format.h"

#include "gp_base.h"

#include <stddef.h>

/* Formats that name their channels are read as normalised floats. */
static const struct sg_format formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, SG_TEX_U8, 0},
    {CU_AD_FORMAT_SIGNED_INT8, SG_TEX_S8, 0},
    {CU_AD_FORMAT_UNSIGNED_INT16, SG_TEX_U16, 0},
    {CU_AD_FORMAT_SIGNED_INT16, SG_TEX_S16, 0},
    {CU_AD_FORMAT_UNSIGNED_INT32, SG_TEX_U32, 0},
    {CU_AD_FORMAT_SIGNED_INT32, SG_TEX_S32, 0},
    {CU_AD_FORMAT_HALF, SG_TEX_F16, 0},
    {CU_AD_FORMAT_FLOAT, SG_TEX_F32, 0},
    {CU_AD_FORMAT_UNORM_INT8X1, SG_TEX_U8, 1},
    {CU_AD_FORMAT_UNORM_INT8X2, SG_TEX_U8, 2},
    {CU_AD_FORMAT_UNORM_INT8X4, SG_TEX_U8, 4},
    {CU_AD_FORMAT_UNORM_INT16X1, SG_TEX_U16, 1},
    {CU_AD_FORMAT_UNORM_INT16X2, SG_TEX_U16, 2},
    {CU_AD_FORMAT_UNORM_INT16X4, SG_TEX_U16, 4},
    {CU_AD_FORMAT_SNORM_INT8X1, SG_TEX_S8, 1},
    {CU_AD_FORMAT_SNORM_INT8X2, SG_TEX_S8, 2},
    {CU_AD_FORMAT_SNORM_INT8X4, SG_TEX_S8, 4},
    {CU_AD_FORMAT_SNORM_INT16X1, SG_TEX_S16, 1},
    {CU_AD_FORMAT_SNORM_INT16X2, SG_TEX_S16, 2},
    {CU_AD_FORMAT_SNORM_INT16X4, SG_TEX_S16, 4},
};

const struct sg_format *
sg_format_find(CUarray_format format)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (formats[i].cuda == (int)format)
            return &formats[i];
    return NULL;
}

static const uint8_t format_sizes[] = {
    [SG_TEX_U8] = 1,  [SG_TEX_S8] = 1,  [SG_TEX_U16] = 2, [SG_TEX_S16] = 2,
    [SG_TEX_F16] = 2, [SG_TEX_U32] = 4, [SG_TEX_S32] = 4, [SG_TEX_F32] = 4,
};

unsigned
sg_format_channel_bytes(enum sg_tex_format format)
{
    return format_sizes[format];
}

unsigned
sg_format_texel(CUarray_format format, unsigned channels)
{
    const struct sg_format *f = sg_format_find(format);

    if (!f || (channels != 1 && channels != 2 && channels != 4) ||
        (f->channels && f->channels != channels))
        return 0;
    return sg_format_channel_bytes(f->ours) * channels;
}

bool
sg_format_is_known(CUarray_format format)
{
    return sg_format_find(format) != NULL;
}
