/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats of texels: as the driver API numbers them, and as the executor does.
 * Constant; any thread.
 */
#ifndef SG_FORMAT_H
#define SG_FORMAT_H

#include "sg_tex.h"

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_format {
    int cuda;
    enum sg_tex_format ours;
    uint8_t channels; /* 0: the description says how many */
};

const struct sg_format *
sg_format_find(CUarray_format format); /* NULL: no such format */
bool sg_format_is_known(CUarray_format format);
/* Bytes of a texel; 0: no such format, or not with so many channels. */
unsigned sg_format_texel(CUarray_format format, unsigned channels);
unsigned sg_format_channel_bytes(enum sg_tex_format format);

#endif
