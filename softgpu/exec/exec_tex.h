/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How texture and surface operations are described between lowering and executor.
 *
 * TEX: list = 4 results, then layer, coordinates, level or derivatives (all 32 bit).
 * SULD, SUST: list = the elements, then layer and coordinates.
 */
#ifndef EXEC_TEX_H
#define EXEC_TEX_H

#include <stdbool.h>
#include <stdint.h>

enum { TEX_BASE, TEX_LEVEL, TEX_GRAD };
enum { TXQ_WIDTH, TXQ_HEIGHT, TXQ_DEPTH, TXQ_ARRAY, TXQ_LEVELS, TXQ_NORMALIZED };
enum { SURF_TRAP, SURF_CLAMP, SURF_ZERO };

struct tex_form {
    unsigned coords, lod;
    bool layered, float_coords, float_result;
    int gather; /* -1: no tld4 */
};

static inline uint32_t
tex_pack(const struct tex_form *f)
{
    return f->coords | f->lod << 2 | (uint32_t)f->layered << 4 |
           (uint32_t)f->float_coords << 5 | (uint32_t)f->float_result << 6 |
           (uint32_t)(f->gather + 1) << 7;
}

static inline struct tex_form
tex_unpack(uint32_t x)
{
    return (struct tex_form){.coords = x & 3,
                             .lod = x >> 2 & 3,
                             .layered = x >> 4 & 1,
                             .float_coords = x >> 5 & 1,
                             .float_result = x >> 6 & 1,
                             .gather = (int)(x >> 7) - 1};
}

struct surf_form {
    unsigned coords, mode, elem, bytes;
    bool layered;
};

static inline uint32_t
surf_pack(const struct surf_form *f)
{
    return f->coords | f->mode << 2 | (uint32_t)f->layered << 4 | f->elem << 5 |
           f->bytes << 10;
}

static inline struct surf_form
surf_unpack(uint32_t x)
{
    return (struct surf_form){.coords = x & 3,
                              .mode = x >> 2 & 3,
                              .layered = x >> 4 & 1,
                              .elem = x >> 5 & 31,
                              .bytes = x >> 10 & 255};
}

#endif
