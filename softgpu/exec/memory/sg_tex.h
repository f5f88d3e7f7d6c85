/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: what a handle means to a kernel.
 *
 * softgpu/api describes memory once and gets a handle, which is the value of a
 * CUtexObject or CUsurfObject, or what sg_inst_bind_texref() binds a reference to.  One
 * table per process; any thread.  Every access is checked against the ranges that the
 * kernel may touch: memory that is freed under a texture is a fault.
 *
 * Kernels go on reading through handles that were destroyed, as on a card, where the
 * description stays until another one is put there, which takes a while: COLMAP's
 * kernels get handles whose C++ objects have gone out of scope.  So a handle is retired
 * first, and expires after SG_TEX_RETIRED_MAX others at the latest.
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

struct sg_tex_slot;

#define SG_TEX_LEVELS 16
#define SG_TEX_MAX 65536u /* live handles of a process */
#define SG_TEX_RETIRED_MAX 1024u

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
    bool seamless; /* linear filters go on behind the edges of a cube's faces */
    bool buffer;   /* linear memory: sg_texdesc.c */
    bool surface;  /* suld and sust may use it */
    bool linear;   /* filter; else the nearest texel */
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
/* At once: no kernel that uses the handle may run any more.  Unknown ones are ignored.
 */
void sg_tex_unregister(uint64_t handle);
/* Live no more, but found until it expires.  True: it is time for sg_tex_expire(). */
bool sg_tex_retire(uint64_t handle);
/* The older half of the retired handles is not found any more.  Once every block has
 * ended the operation that it was in, which the caller waits for, the result is given
 * back. */
struct sg_tex_slot *sg_tex_expire(void);
void sg_tex_reuse(struct sg_tex_slot *expired);
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
