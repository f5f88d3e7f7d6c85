/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: what cuTensorMapEncode* writes into the 128 bytes of a CUtensorMap and
 * cp.async.bulk.tensor reads.  The layout is ours; programs treat it as opaque.
 *
 * A kernel hands over the address of a map, so what is read there may be anything:
 * sg_tmap_open() takes a copy and checks every field.  Addresses are not checked here;
 * each access to the tensor is, as any access of the kernel.
 */
#ifndef SG_TMAP_H
#define SG_TMAP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SG_TMAP_MAGIC 0x70616d74u /* "tmap" */
#define SG_TMAP_DIMS 5

enum sg_tmap_mode {
    SG_TMAP_TILED,
    SG_TMAP_IM2COL,
    SG_TMAP_IM2COL_W,    /* the box moves along the width only */
    SG_TMAP_IM2COL_W128, /* the same, 128 columns at a time */
};

/* What tensormap.replace replaces. */
enum sg_tmap_field {
    SG_TMAP_SET_ADDRESS,
    SG_TMAP_SET_RANK,
    SG_TMAP_SET_BOX,
    SG_TMAP_SET_DIM,
    SG_TMAP_SET_STRIDE,
    SG_TMAP_SET_STEP,
    SG_TMAP_SET_TYPE,
    SG_TMAP_SET_INTERLEAVE,
    SG_TMAP_SET_SWIZZLE,
    SG_TMAP_SET_FILL,
    SG_TMAP_SET_ATOM,
};

/* Little endian; dimension 0 is the innermost. */
struct sg_tmap {
    uint32_t magic;
    uint8_t mode;       /* enum sg_tmap_mode */
    uint8_t type;       /* CUtensorMapDataType */
    uint8_t rank;       /* 1..5; im2col: 3..5 */
    uint8_t interleave; /* CUtensorMapInterleave */
    uint8_t swizzle;    /* CUtensorMapSwizzle */
    uint8_t l2;         /* CUtensorMapL2promotion: a hint */
    uint8_t nan_fill;   /* outside is a NaN, else 0 */
    uint8_t pad[5];
    uint64_t base;
    uint64_t stride[SG_TMAP_DIMS - 1]; /* bytes, of dimensions 1.. */
    uint32_t last[SG_TMAP_DIMS];       /* elements minus one */
    uint16_t box[SG_TMAP_DIMS];        /* tiled: elements, 1..256 */
    uint8_t step[SG_TMAP_DIMS];        /* every n-th element, 1..8 */
    uint8_t pad2;
    int16_t lower[3],
        upper[3];      /* im2col: corners of the box, innermost spatial first */
    uint16_t channels; /* im2col: of a pixel, 1..256 */
    uint16_t pixels;   /* im2col: of a column, 1..1024 */
    uint8_t pad3[20];
};
static_assert(sizeof(struct sg_tmap) == 128, "as large as a CUtensorMap");

/* Bytes of one element in memory; packed types count in their units of 16 elements.
 * 0: no such type. */
static inline unsigned
sg_tmap_element(unsigned type)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 8, 8, 12};

    return type < sizeof(bytes) ? bytes[type] : 0;
}

static inline bool
sg_tmap_is_packed(unsigned type)
{
    return type >= 13;
}

/* A checked copy of the map at @from; false: these 128 bytes are none. */
static inline bool
sg_tmap_open(const void *from, struct sg_tmap *ret)
{
    memcpy(ret, from, sizeof(*ret));
    if (ret->magic != SG_TMAP_MAGIC || ret->mode > SG_TMAP_IM2COL_W128 ||
        !sg_tmap_element(ret->type) || ret->rank < 1 || ret->rank > SG_TMAP_DIMS ||
        (ret->mode != SG_TMAP_TILED && ret->rank < 3) || ret->interleave > 2 ||
        ret->swizzle > 6 || ret->l2 > 3)
        return false;
    for (unsigned i = 0; i < ret->rank; i++)
        if (ret->step[i] < 1 || ret->step[i] > 8 ||
            (ret->mode == SG_TMAP_TILED && (ret->box[i] < 1 || ret->box[i] > 256)))
            return false;
    for (unsigned i = 0; i + 1 < ret->rank; i++)
        if (ret->stride[i] >> 40)
            return false;
    return ret->mode == SG_TMAP_TILED || (ret->channels >= 1 && ret->channels <= 256 &&
                                          ret->pixels >= 1 && ret->pixels <= 1024);
}

#endif
