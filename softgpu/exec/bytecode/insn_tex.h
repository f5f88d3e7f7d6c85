/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How texture and surface instructions encode their form and registers.
 *
 * TEX: list = 4 results, then layer, coordinates, level or derivatives, offsets in
 * texels (all 32 bit); imm: a sampler of the module, or b: the texture whose sampler
 * is meant, if it is not the texture's own.
 * SULD, SUST, SURED: list = the elements, then layer and coordinates; SURED's imm: enum
 * sg_atom for unsigned types, or for signed ones << 8.
 */
#ifndef INSN_TEX_H
#define INSN_TEX_H

#include <stdbool.h>
#include <stdint.h>

enum { TEX_BASE, TEX_LEVEL, TEX_GRAD };
enum {
    TXQ_WIDTH,
    TXQ_HEIGHT,
    TXQ_DEPTH,
    TXQ_ARRAY,
    TXQ_LEVELS,
    TXQ_NORMALIZED,
    TXQ_FORMAT, /* as the driver API numbers formats, filters and address modes */
    TXQ_CHANNELS,
    TXQ_SAMPLES,
    TXQ_FORCE_TEXELS,
    TXQ_FILTER,
    TXQ_ADDRESS_0,
    TXQ_ADDRESS_1,
    TXQ_ADDRESS_2,
    TXQ_LAYOUT,     /* 1: rows one behind the other */
    TXQ_IS_TEXTURE, /* istypep: no handle is a fault */
    TXQ_IS_SURFACE,
};
enum { SURF_TRAP, SURF_CLAMP, SURF_ZERO };

struct tex_form {
    unsigned coords, lod;
    bool layered, float_coords, float_result, offset;
    int gather; /* -1: no tld4 */
};

/* A sampler of the module's own (texmode_independent). */
#define TEX_SAMPLER 1u
#define TEX_SAMPLER_LINEAR 2u
#define TEX_SAMPLER_TEXELS 4u       /* coordinates count texels */
#define TEX_SAMPLER_ADDRESS_SHIFT 4 /* enum sg_tex_address, two bits each */

/* What a form of the language means that no texture or address of ours allows. */
enum { NO_SUCH_DEPTH, NO_SUCH_MULTICAST };

static inline uint32_t
tex_pack(const struct tex_form *f)
{
    return f->coords | f->lod << 2 | (uint32_t)f->layered << 4 |
           (uint32_t)f->float_coords << 5 | (uint32_t)f->float_result << 6 |
           (uint32_t)(f->gather + 1) << 7 | (uint32_t)f->offset << 10;
}

static inline struct tex_form
tex_unpack(uint32_t x)
{
    return (struct tex_form){.coords = x & 3,
                             .lod = x >> 2 & 3,
                             .layered = x >> 4 & 1,
                             .float_coords = x >> 5 & 1,
                             .float_result = x >> 6 & 1,
                             .offset = x >> 10 & 1,
                             .gather = (int)(x >> 7 & 7) - 1};
}

struct surf_form {
    unsigned coords, mode, elem, bytes;
    bool layered;
    bool formatted; /* x counts texels, values are 32 bits each */
};

static inline uint32_t
surf_pack(const struct surf_form *f)
{
    return f->coords | f->mode << 2 | (uint32_t)f->layered << 4 | f->elem << 5 |
           f->bytes << 10 | (uint32_t)f->formatted << 18;
}

static inline struct surf_form
surf_unpack(uint32_t x)
{
    return (struct surf_form){.coords = x & 3,
                              .mode = x >> 2 & 3,
                              .layered = x >> 4 & 1,
                              .elem = x >> 5 & 31,
                              .bytes = x >> 10 & 255,
                              .formatted = x >> 18 & 1};
}

#endif
