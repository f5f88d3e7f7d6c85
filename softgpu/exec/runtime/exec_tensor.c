/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor copies and reductions through tensor maps, element by element: tiles, columns
 * of pixels (im2col), and four rows wherever they are (gather4, scatter4).
 *
 * A map in memory may be anything; sg_tmap_open() takes a checked copy.
 */
#include "exec_bulk.h"
#include "exec_scalar.h"
#include "sg_tmap.h"

#include <string.h>

struct walk {
    const struct sg_bulk *b;
    struct sg_tmap map;
    enum sg_bulk_mode mode;
    unsigned element;             /* bytes */
    uint32_t count[SG_TMAP_DIMS]; /* of the box; im2col: channels, pixels */
    int64_t first[SG_TMAP_DIMS];  /* coordinates: its corner, rows, the first pixel */
    int64_t offset[3];            /* im2col: of the pixel read from that of the box */
    int64_t pixel[SG_TMAP_DIMS];  /* im2col: where the column is */
};

/* Where shared memory keeps what would lie at @at: chunks of 16 bytes change places
 * within 32, 64 or 128 bytes, by bits of the address further up. */
static uint64_t
swizzled(const struct walk *w, uint64_t at)
{
    return at ^ ((at >> 7 & ((1u << w->map.swizzle) - 1)) << 4);
}

static const char *
walk_refusal(const struct walk *w)
{
    if (w->map.interleave || w->map.swizzle > 3 || sg_tmap_is_packed(w->map.type))
        return "interleaved and packed tensor maps are not carried";
    if (w->map.rank != (w->b->op->x & 7))
        return "the tensor map has another rank";
    if (w->map.mode != (w->mode == SG_BULK_IM2COL ? SG_TMAP_IM2COL : SG_TMAP_TILED))
        return "the tensor map is for copies of another kind";
    if (w->mode == SG_BULK_ROWS && (w->map.rank != 2 || w->map.step[0] != 1))
        return "rows are gathered from two dimensions";
    return NULL;
}

static void
walk_begin(struct walk *w)
{
    const uint32_t *list = w->b->cta->unit->lists + w->b->op->f;
    unsigned lane = w->b->lane, rank = w->mode == SG_BULK_ROWS ? 5 : w->map.rank;

    for (unsigned i = 0; i < SG_TMAP_DIMS; i++) {
        bool used = i < w->map.rank;
        w->count[i] = used ? (w->map.box[i] + w->map.step[i] - 1u) / w->map.step[i] : 1;
        w->first[i] =
            i < rank ? (int32_t)sg_reg_d(w->b->warp, list[SG_BULK_COORDS + i])[lane]
                     : 0;
    }
    if (w->mode == SG_BULK_ROWS)
        w->count[1] = 4;
    if (w->mode != SG_BULK_IM2COL)
        return;
    for (unsigned i = 0; i < 3; i++)
        w->offset[i] =
            (int64_t)sg_reg_d(w->b->warp, list[SG_BULK_OFFSETS + i])[lane] & 0xffff;
    w->count[0] = w->map.channels;
    w->count[1] = w->map.pixels;
    w->count[2] = w->count[3] = w->count[4] = 1;
    memcpy(w->pixel, w->first, sizeof(w->pixel));
}

static bool
walk_open(const struct sg_bulk *b, uint64_t map_at, struct walk *w)
{
    const void *raw =
        sg_bulk_resolve(b, map_at, 128, 63, SG_MEM_GENERIC, SG_ACCESS_READ);
    const char *why;

    *w = (struct walk){.b = b, .mode = b->op->x >> 4};
    if (!raw)
        return false;
    why = sg_tmap_open(raw, &w->map) ? walk_refusal(w) : "the tensor map is none";
    if (why) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_ILLEGAL_INSTRUCTION, map_at,
                     why);
        return false;
    }
    w->element = sg_tmap_element(w->map.type);
    walk_begin(w);
    return true;
}

/* The column's next pixel: along the width first, each dimension between its corners.
 */
static void
pixel_next(struct walk *w)
{
    unsigned last = w->map.rank - 1; /* of images: has no corners */

    for (unsigned d = 1; d < last; d++) {
        w->pixel[d] += w->map.step[d];
        if (w->pixel[d] <= (int64_t)w->map.last[d] + w->map.upper[d - 1])
            return;
        w->pixel[d] = w->map.lower[d - 1];
    }
    w->pixel[last] += w->map.step[last];
}

/* Coordinate @d of element @at of the box. */
static int64_t
coordinate(const struct walk *w, const uint32_t at[SG_TMAP_DIMS], unsigned d)
{
    switch (w->mode) {
    case SG_BULK_IM2COL:
        if (d == 0)
            return w->first[0] + at[0];
        return w->pixel[d] + (d + 1u < w->map.rank ? w->offset[d - 1] : 0);
    case SG_BULK_ROWS:
        return d == 0 ? w->first[0] + at[0] : w->first[1 + at[1]];
    default:
        return w->first[d] + (int64_t)at[d] * w->map.step[d];
    }
}

/* The address of an element in global memory; false: outside the tensor. */
static bool
tensor_at(const struct walk *w, const uint32_t at[SG_TMAP_DIMS], uint64_t *ret)
{
    *ret = w->map.base;
    for (unsigned i = 0; i < w->map.rank; i++) {
        int64_t c = coordinate(w, at, i);
        if (c < 0 || c > w->map.last[i])
            return false;
        *ret += (uint64_t)c * (i ? w->map.stride[i - 1] : w->element);
    }
    return true;
}

static void
fill_outside(const struct walk *w, void *to)
{
    static const uint16_t half_nan = SG_OOB_NAN;
    static const uint32_t nan = 0x7fffffff;
    static const uint64_t wide_nan = 0x7fffffffffffffff;

    memset(to, 0, w->element);
    if (w->map.nan_fill)
        memcpy(to,
               w->element == 2   ? (const void *)&half_nan
               : w->element == 4 ? (const void *)&nan
                                 : (const void *)&wide_nan,
               w->element);
}

/* enum sg_atom of a reduction on the map's type; 255: there is none. */
static unsigned
reduce_kind(const struct walk *w, unsigned what)
{
    enum { U32 = 2, S32, U64, S64, F16, F32, F64, BF16, F32_FTZ }; /* of the maps */
    bool sgn = w->map.type == S32 || w->map.type == S64;

    if (w->map.type < U32)
        return 255;
    switch (what) {
    case SG_BULK_ADD:
        return w->map.type <= S64       ? SG_ATOM_ADD
               : w->map.type == F16     ? SG_ATOM_ADD_F16
               : w->map.type == BF16    ? SG_ATOM_ADD_BF16
               : w->map.type == F32     ? SG_ATOM_ADD_F32
               : w->map.type == F32_FTZ ? SG_ATOM_ADD_F32_FTZ
               : w->map.type == F64     ? SG_ATOM_ADD_F64
                                        : 255;
    case SG_BULK_MIN:
    case SG_BULK_MAX:
        if (w->map.type <= S64)
            return what == SG_BULK_MIN ? (sgn ? SG_ATOM_MIN_S : SG_ATOM_MIN_U)
                                       : (sgn ? SG_ATOM_MAX_S : SG_ATOM_MAX_U);
        return w->map.type == F16
                   ? (what == SG_BULK_MIN ? SG_ATOM_MIN_F16 : SG_ATOM_MAX_F16)
               : w->map.type == BF16
                   ? (what == SG_BULK_MIN ? SG_ATOM_MIN_BF16 : SG_ATOM_MAX_BF16)
                   : 255;
    case SG_BULK_INC:
    case SG_BULK_DEC:
        return w->map.type != U32    ? 255
               : what == SG_BULK_INC ? SG_ATOM_INC
                                     : SG_ATOM_DEC;
    default:
        return w->map.type > S64 ? 255 : SG_ATOM_AND + (what - SG_BULK_AND);
    }
}

/* One element between shared memory at @in and the tensor. */
static bool
element_down(const struct walk *w, uint64_t in, uint64_t where, bool inside)
{
    const struct sg_bulk *b = w->b;
    const void *s =
        sg_bulk_resolve(b, in, w->element, 0, SG_MEM_SHARED, SG_ACCESS_READ);
    uint64_t v = 0;
    void *p;

    if (!s || !inside)
        return s != NULL;
    p = sg_bulk_resolve(b, where, w->element, 0, SG_MEM_GLOBAL, SG_ACCESS_WRITE);
    if (!p)
        return false;
    memcpy(&v, s, w->element);
    if (b->op->n & SG_BULK_REDUCE)
        sg_atom_do(reduce_kind(w, (unsigned)b->op->imm), w->element, p, v, 0);
    else
        memcpy(p, &v, w->element);
    return true;
}

static bool
element_up(const struct walk *w, uint64_t in, uint64_t where, bool inside)
{
    const void *p;
    uint64_t v;

    if (inside) {
        p = sg_bulk_resolve(w->b, where, w->element, 0, SG_MEM_GLOBAL, SG_ACCESS_READ);
        if (!p)
            return false;
        memcpy(&v, p, w->element);
    } else {
        fill_outside(w, &v);
    }
    return sg_bulk_deliver(w->b, in, &v, w->element);
}

/* Every element of the box, the innermost dimension first. */
static bool
walk_all(struct walk *w, uint64_t smem, uint64_t total, bool down)
{
    uint32_t at[SG_TMAP_DIMS] = {0};
    uint64_t where;

    for (uint64_t n = 0; n < total; n++) {
        uint64_t in = swizzled(w, smem + n * w->element);
        bool inside = tensor_at(w, at, &where);
        if (!(down ? element_down(w, in, where, inside)
                   : element_up(w, in, where, inside)))
            return false;
        for (unsigned d = 0; d < SG_TMAP_DIMS && ++at[d] == w->count[d]; d++) {
            at[d] = 0;
            if (d == 0 && w->mode == SG_BULK_IM2COL)
                pixel_next(w);
        }
    }
    return true;
}

static bool
tensor_lane(const struct sg_bulk *b)
{
    bool down = b->op->n & SG_BULK_TO_GLOBAL;
    uint64_t smem = b->arg[down ? SG_BULK_ARG_FROM : SG_BULK_ARG_TO], total = 1;
    struct walk w;

    if (!walk_open(b, b->arg[down ? SG_BULK_ARG_TO : SG_BULK_ARG_FROM], &w))
        return false;
    for (unsigned i = 0; i < SG_TMAP_DIMS; i++)
        total *= w.count[i];
    if (total * w.element > SG_WIN_SIZE || (smem & 127)) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, smem,
                     "tensor copy: shared memory wants 128-byte addresses");
        return false;
    }
    if ((b->op->n & SG_BULK_REDUCE) && reduce_kind(&w, (unsigned)b->op->imm) == 255) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_ILLEGAL_INSTRUCTION, 0,
                     "the tensor's type has no such reduction");
        return false;
    }
    return walk_all(&w, smem, total, down) &&
           (down || sg_bulk_done(b, total * w.element));
}

enum sg_stop
sg_op_bulk_tensor(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                  uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        struct sg_bulk b;
        sg_bulk_open(&b, cta, warp, op, i);
        if (!tensor_lane(&b))
            return SG_STOP_FAULT;
    }
    return SG_STOP_NONE;
}

/* ------------------------------------------------------------------ tensormap.replace
 */

/* The language's numbers of types; the driver's are in the order of CUDA's header. */
static unsigned
map_type(uint64_t v)
{
    static const uint8_t types[] = {0,  1, 2, 3,  4,  5,  6,  7,
                                    10, 8, 9, 11, 12, 13, 14, 15};

    return v < sizeof(types) ? types[v] : 255;
}

/* False: the map has no such field, or it cannot have this value. */
static bool
map_set(struct sg_tmap *m, unsigned field, unsigned index, uint64_t v)
{
    bool dim = index < SG_TMAP_DIMS;

    switch (field) {
    case SG_TMAP_SET_ADDRESS:
        m->base = v;
        return v % 16 == 0;
    case SG_TMAP_SET_RANK: /* counted from zero */
        m->rank = (uint8_t)(v + 1);
        return v < SG_TMAP_DIMS;
    case SG_TMAP_SET_BOX:
        m->box[dim ? index : 0] = (uint16_t)v;
        return dim && v >= 1 && v <= 256;
    case SG_TMAP_SET_DIM:
        m->last[dim ? index : 0] = (uint32_t)v - 1;
        return dim && v >= 1 && v <= 1ull << 32;
    case SG_TMAP_SET_STRIDE:
        dim = index + 1 < SG_TMAP_DIMS;
        m->stride[dim ? index : 0] = v;
        return dim && !(v >> 40) && v % 16 == 0;
    case SG_TMAP_SET_STEP:
        m->step[dim ? index : 0] = (uint8_t)v;
        return dim && v >= 1 && v <= 8;
    case SG_TMAP_SET_TYPE:
        m->type = (uint8_t)map_type(v);
        return m->type != 255;
    case SG_TMAP_SET_INTERLEAVE:
        m->interleave = (uint8_t)v;
        return v <= 2;
    case SG_TMAP_SET_SWIZZLE:
        m->swizzle = (uint8_t)v;
        return v <= 3;
    case SG_TMAP_SET_FILL:
        m->nan_fill = (uint8_t)v;
        return v <= 1;
    default: /* the swizzle's atom: 16 bytes is the only one */
        return v == 0;
    }
}

enum sg_stop
sg_op_tmap_replace(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                   uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        uint64_t at = sg_reg_d(warp, op->a)[i];
        void *p = sg_mem_resolve(cta, warp, i, at, 128, 63, (enum sg_mem_space)op->x,
                                 SG_ACCESS_WRITE);
        struct sg_tmap map;
        if (!p)
            return SG_STOP_FAULT;
        memcpy(&map, p, sizeof(map));
        if (map.magic != SG_TMAP_MAGIC ||
            !map_set(&map, op->n & 0xff, op->n >> 8, sg_reg_d(warp, op->b)[i]))
            return sg_fault_set(cta, warp, i, SG_FAULT_ILLEGAL_INSTRUCTION, at,
                                "tensormap.replace of what is none, or by no value");
        memcpy(p, &map, sizeof(map));
    }
    return SG_STOP_NONE;
}
