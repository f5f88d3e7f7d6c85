/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays: memory that is addressed by coordinates.
 *
 * Stored row by row in device memory that no kernel sees by address; textures
 * and surfaces read it through its description.  Owned by the context in which
 * it was made, or by its mipmapped array.  Lock held.
 */
#ifndef SG_ARRAY_H
#define SG_ARRAY_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct sg_alloc;
struct sg_ctx;

struct sg_array {
    uint64_t handle;
    struct sg_ctx *ctx;
    struct sg_array *next, **at;
    struct sg_alloc *alloc; /* NULL: a level of a mipmapped array */
    CUDA_ARRAY3D_DESCRIPTOR desc;
    uint64_t base;
    unsigned element;     /* bytes */
    size_t width;         /* bytes of a row */
    size_t height, depth; /* at least 1; depth counts layers too */
    size_t pitch, slice;
    uint64_t mipmap; /* handle of the owner, or 0 */
};

/* The levels of a mipmapped array; 0: no such array. */
unsigned sg_mipmap_levels(CUmipmappedArray handle, const struct sg_array **ret_levels);
/* Frees the arrays of a context that is destroyed. */
void sg_array_detach_ctx(struct sg_ctx *ctx);

#endif
