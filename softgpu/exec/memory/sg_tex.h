/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: what a handle means to a kernel.
 *
 * softgpu/api describes memory once and gets a handle, which is the value of a
 * CUtexObject or CUsurfObject, or what sg_inst_bind_texref() binds a reference to.  One
 * table per process; any thread.  Every access is checked against the ranges that the
 * kernel may touch: memory that is freed under a texture is a fault.  No kernel that
 * uses a handle may run any more when it is unregistered.
 */
#ifndef SG_TEX_H
#define SG_TEX_H

#include <stdbool.h>
#include <stdint.h>

enum sg_tex_format {
    SG_TEX_U8,
    SG_TEX_U16,
    SG_TEX_U32,
    SG_TEX_S8,
    SG_TEX_S16,
    SG_TEX_S32,
    SG_TEX_F16,
    SG_TEX_F32,
};

/* CUDA's numbers. */
enum sg_tex_address { SG_TEX_WRAP, SG_TEX_CLAMP, SG_TEX_MIRROR, SG_TEX_BORDER };

#define SG_TEX_LEVELS 16
#define SG_TEX_MAX 65536u /* live handles of a process */

struct sg_tex_level {
    uint64_t base;
    uint32_t width, height, depth; /* texels; depth counts layers and faces too */
    uint64_t pitch, slice;         /* bytes */
};

struct sg_tex {
    enum sg_tex_format format;
    uint8_t channels; /* 1, 2, 4 */
    uint8_t dims;     /* 1, 2, 3 */
    bool layered, cube;
    bool buffer;  /* linear memory: sg_texdesc.c */
    bool surface; /* suld and sust may use it */
    bool linear;  /* filter; else the nearest texel */
    bool mip_linear;
    bool normalized; /* coordinates 0..1 */
    bool read_float; /* integers are read as 0..1 or -1..1 */
    enum sg_tex_address address[3];
    float border[4];
    float lod_bias, lod_min, lod_max;
    bool srgb; /* the first three of four 8-bit channels, when read as floats */
    uint32_t n_levels;
    struct sg_tex_level level[SG_TEX_LEVELS];
    uint64_t lo, len; /* all bytes of all levels: by sg_tex_register() */
};

/* -ENOSPC: SG_TEX_MAX are live; -EINVAL: a description that makes no sense. */
int sg_tex_register(const struct sg_tex *tex, uint64_t *ret_handle);
void sg_tex_unregister(uint64_t handle); /* unknown ones are ignored */
/* NULL: no such texture. */
const struct sg_tex *sg_tex_find(uint64_t handle);

/* One texture read.  @coord: x, y, z as the geometry has them (cube: a direction),
 * @layer for layered ones.  Results as bits: floats, or integers as they are stored. */
struct sg_tex_query {
    float coord[3];
    int32_t texel[3];  /* used instead when by_texel */
    int32_t offset[3]; /* in texels, added to either */
    bool by_texel;
    int32_t layer;
    float lod;
    int gather; /* component of tld4, or -1 */
    bool want_float;
};
void sg_tex_sample(const struct sg_tex *tex, const struct sg_tex_query *q,
                   uint32_t ret[4]);

#endif
