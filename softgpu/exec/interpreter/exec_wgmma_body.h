/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix operations of a warpgroup: wgmma.mma_async.
 *
 * Included by exec_wgmma_v2.c, _v3.c and _v4.c alone, compiled for those levels as the
 * interpreter is, which make vectors of the loops over elements and columns.
 *
 * Done when it is issued, which the language allows: nobody may touch its operands
 * before it has waited for it.  Warp i of the four makes rows 16 i .. 16 i + 15, so
 * each works for itself.  Shared memory is described by 64 bits: where the matrix
 * starts, two distances, and how 16-byte pieces change places (bits of the address
 * itself). Products are exact, sums of floats are kept in double and rounded once.
 */
#include "exec_lane_fn.h"
#include "exec_level.h"
#include "exec_matrix.h"
#include "sg_cta.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 16 /* of a warp */
#define MAX_N 256
#define MAX_K_FLOAT 64
#define MAX_K 256

struct wgmma {
    struct sg_cta *cta;
    struct sg_warp *warp;
    const struct sg_insn *op;
    unsigned n, k, flags;
    unsigned type[3]; /* d a b */
    unsigned d_regs;
    const uint32_t *d, *c, *a, *meta;
};

/* A is row-major, of B element (k, column) is at k * n + column. */
struct wgmma_work {
    _Alignas(64) uint32_t raw[MAX_N * MAX_K];
    _Alignas(64) double fa[ROWS * MAX_K_FLOAT], fb[MAX_N * MAX_K_FLOAT];
    _Alignas(64) double sums[ROWS * MAX_N];
    _Alignas(64) int32_t ia[ROWS * MAX_K], ib[MAX_N * MAX_K], totals[ROWS * MAX_N];
};

/* A matrix in shared memory. */
struct tile {
    uint64_t start, leading, stride;
    unsigned swizzle; /* 0..3: pieces change places within 16 << swizzle bytes */
    unsigned base;    /* which row of the pattern the start is */
    bool trans;       /* rows lie side by side, not elements of k */
    unsigned bits;
    uint64_t piece_at;
    const uint8_t *piece; /* the 16 bytes read last */
};

static void
tile_open(struct tile *t, uint64_t desc, unsigned bits, bool trans)
{
    static const uint8_t modes[] = {0, 3, 2, 1}; /* none, 128, 64, 32 bytes */

    *t = (struct tile){
        .start = (desc & 0x3fff) << 4,
        .leading = (desc >> 16 & 0x3fff) << 4,
        .stride = (desc >> 32 & 0x3fff) << 4,
        .base = desc >> 49 & 7,
        .swizzle = modes[desc >> 62],
        .trans = trans,
        .bits = bits,
    };
}

/* Address of the byte with element (row, k); the row is of the whole tile. */
static uint64_t
tile_address(const struct tile *t, unsigned row, unsigned k)
{
    unsigned width = 16u << t->swizzle, bytes;
    uint64_t at = t->start;

    if (t->trans) {
        bytes = row * t->bits / 8;
        at += bytes % width + k % 8 * width;
        at += t->swizzle ? bytes / width * t->leading + k / 8 * t->stride
                         : bytes / width * t->stride + k / 8 * t->leading;
    } else {
        bytes = k * t->bits / 8;
        at += row / 8 * t->stride + row % 8 * width + bytes % width +
              bytes / width * t->leading;
    }
    return at ^ (((at >> 7) - t->base) & ((1u << t->swizzle) - 1)) << 4;
}

/* False: a fault has been recorded. */
static bool
tile_element(struct tile *t, const struct wgmma *g, unsigned row, unsigned k,
             uint64_t *ret)
{
    uint64_t at = tile_address(t, row, k), raw = 0;

    if (!t->piece || t->piece_at != (at & ~15ull)) {
        t->piece_at = at & ~15ull;
        t->piece = sg_mem_resolve(g->cta, g->warp, 0, t->piece_at, 16, 15,
                                  SG_MEM_SHARED, SG_ACCESS_READ);
        if (!t->piece)
            return false;
    }
    memcpy(&raw, t->piece + (at & 15), t->bits < 8 ? 1 : t->bits / 8);
    *ret = t->bits < 8 ? raw >> (k % 8) & 1 : raw;
    return true;
}

/* ---------------------------------------------------------------- elements -- */

static unsigned
element_at(const struct wgmma *g, int operand, unsigned row, unsigned k)
{
    return operand == SG_MAT_A ? row * g->k + k : k * g->n + row;
}

static unsigned
sparse_column(const struct wgmma *g, unsigned row, unsigned k)
{
    return sg_mat_sparse_place(sg_reg_w(g->warp, g->meta[0]),
                               g->flags >> SG_MAT_SELECTOR_SHIFT & 3,
                               sg_mat_bits(g->type[SG_MAT_A]), g->k, row, k);
}

/* Rows of one operand from shared memory, @k stored elements each. */
static bool
load_elements(const struct wgmma *g, uint32_t *raw, int operand, struct tile *t,
              unsigned first, unsigned rows, unsigned k)
{
    const bool sparse = operand == SG_MAT_A && (g->flags & SG_MAT_SPARSE);

    for (unsigned i = 0; i < rows * k; i++) {
        unsigned row = t->trans ? i % rows : i / k, kk = t->trans ? i / rows : i % k;
        uint64_t v;
        if (!tile_element(t, g, first + row, kk, &v))
            return false;
        raw[element_at(g, operand, row, sparse ? sparse_column(g, row, kk) : kk)] =
            (uint32_t)v;
    }
    return true;
}

/* The elements of a piece of 16 bytes, @step places from each other. */
LANE void
spread(const uint8_t *piece, unsigned bits, uint32_t *raw, unsigned step)
{
    uint16_t halves[8];
    uint32_t words[4];

    memcpy(halves, piece, 16);
    memcpy(words, piece, 16);
    if (bits == 16)
        for (unsigned j = 0; j < 8; j++)
            raw[j * step] = halves[j];
    else if (bits == 32)
        for (unsigned j = 0; j < 4; j++)
            raw[j * step] = words[j];
    else
        for (unsigned j = 0; j < 16; j++)
            raw[j * step] = piece[j];
}

/* The same, of elements of which 16 bytes hold whole ones, a piece at a time. */
static bool
load_pieces(const struct wgmma *g, uint32_t *raw, int operand, struct tile *t,
            unsigned first, unsigned rows, unsigned k)
{
    const struct sg_window w = sg_shared_window(g->cta);
    const unsigned e = 128 / t->bits, down = t->trans ? e : 1, along = t->trans ? 1 : e;
    const unsigned step = element_at(g, operand, t->trans, !t->trans);

    for (unsigned row = 0; row < rows; row += down)
        for (unsigned kk = 0; kk < k; kk += along) {
            const uint64_t at = tile_address(t, first + row, kk);
            const uint8_t *p = sg_window_at(&w, 0, at, 16, 15);
            if (unlikely(!p))
                p = sg_mem_resolve(g->cta, g->warp, 0, at, 16, 15, SG_MEM_SHARED,
                                   SG_ACCESS_READ);
            if (!p)
                return false;
            spread(p, t->bits, raw + element_at(g, operand, row, kk), step);
        }
    return true;
}

static bool
load_tile(const struct wgmma *g, uint32_t *raw, int operand, uint64_t desc,
          unsigned first, unsigned rows, unsigned k)
{
    const bool sparse = operand == SG_MAT_A && (g->flags & SG_MAT_SPARSE);
    const bool trans =
        g->flags & (operand == SG_MAT_A ? SG_MAT_A_TRANS : SG_MAT_B_TRANS);
    const unsigned bits = sg_mat_bits(g->type[operand]);
    struct tile t;

    tile_open(&t, desc, bits, trans);
    if (bits < 8 || sparse || (trans ? rows : k) % (128 / bits))
        return load_elements(g, raw, operand, &t, first, rows, k);
    return load_pieces(g, raw, operand, &t, first, rows, k);
}

/* A in registers: as the A of mma.m16n8. */
static void
load_registers(const struct wgmma *g, uint32_t *raw)
{
    unsigned bits = sg_mat_bits(g->type[SG_MAT_A]), e = 32 / bits;

    for (unsigned i = 0; i < SG_LANES * 4 * e; i++) {
        unsigned lane = i / (4 * e), r = i / e % 4, j = i % e;
        unsigned row = lane / 4 + 8 * (r & 1), k = (lane % 4 + r / 2 * 4) * e + j;
        uint32_t v = sg_reg_w(g->warp, g->a[r])[lane] >> (j * bits % 32);
        if (bits < 32)
            v &= (1u << bits) - 1;
        if (g->flags & SG_MAT_SPARSE)
            k = sparse_column(g, row, k);
        raw[row * g->k + k] = v;
    }
}

/* ------------------------------------------------------------------ numbers -- */

#define CONVERT(to, expr)                                                              \
    do {                                                                               \
        for (unsigned i = 0; i < n; i++) {                                             \
            const uint32_t v = raw[i];                                                 \
            (to)[i] = (expr);                                                          \
        }                                                                              \
        return;                                                                        \
    } while (0)

static void
convert_floats(const uint32_t *raw, unsigned type, unsigned n, double *to)
{
    switch (type) {
    case SG_MAT_F16:
        CONVERT(to, (double)lane_f16_f32(v));
    case SG_MAT_BF16:
        CONVERT(to, (double)lane_float(v << 16));
    case SG_MAT_TF32:
        CONVERT(to, (double)lane_float(v & 0xffffe000u));
    case SG_MAT_E4M3:
        CONVERT(to, lane_decode(LANE_E4M3, v));
    case SG_MAT_E5M2:
        CONVERT(to, lane_decode(LANE_E5M2, v));
    default:
        CONVERT(to, sg_mat_double(v, type));
    }
}

static void
convert_integers(const uint32_t *raw, unsigned type, unsigned n, int32_t *to)
{
    switch (type) {
    case SG_MAT_S8:
        CONVERT(to, (int8_t)v);
    default: /* of 8 bits without sign, or of one */
        CONVERT(to, (int32_t)v);
    }
}

static void
convert(const struct wgmma *g, struct wgmma_work *w, int operand)
{
    const unsigned type = g->type[operand], rows = operand == SG_MAT_A ? ROWS : g->n;

    if (sg_mat_is_float(type))
        convert_floats(w->raw, type, rows * g->k, operand == SG_MAT_A ? w->fa : w->fb);
    else
        convert_integers(w->raw, type, rows * g->k,
                         operand == SG_MAT_A ? w->ia : w->ib);
}

static bool
load_all(const struct wgmma *g, struct wgmma_work *w)
{
    unsigned stored = g->flags & SG_MAT_SPARSE ? g->k / 2 : g->k;

    if (g->flags & SG_MAT_SPARSE) /* what is not stored is zero */
        memset(w->raw, 0, ROWS * g->k * sizeof(w->raw[0]));
    if (g->flags & SG_MAT_A_REGS)
        load_registers(g, w->raw);
    else if (!load_tile(g, w->raw, SG_MAT_A, sg_reg_d(g->warp, g->op->a)[0],
                        g->warp->index % 4 * ROWS, ROWS, stored))
        return false;
    convert(g, w, SG_MAT_A);
    if (!load_tile(g, w->raw, SG_MAT_B, sg_reg_d(g->warp, g->op->b)[0], 0, g->n, g->k))
        return false;
    convert(g, w, SG_MAT_B);
    return true;
}

/* --------------------------------------------------------------------- sums -- */

/* All of a kind have eight columns or a multiple. */
#define COLUMNS 8

/* The sums of @rows rows and eight columns, each from k = 0 on. */
#define DEF_SUMS(name, T, fa, fb, to)                                                  \
    static void name(const struct wgmma *g, struct wgmma_work *w)                      \
    {                                                                                  \
        typedef T vec __attribute__((vector_size(COLUMNS * sizeof(T))));               \
        for (unsigned row = 0; row < ROWS; row += 4)                                   \
            for (unsigned col = 0; col < g->n; col += COLUMNS) {                       \
                const T *a = w->fa + row * g->k, *b = w->fb + col;                     \
                vec s[4] = {{0}}, v;                                                   \
                for (unsigned k = 0; k < g->k; k++) {                                  \
                    memcpy(&v, b + k * g->n, sizeof(v));                               \
                    for (unsigned i = 0; i < 4; i++)                                   \
                        s[i] += a[i * g->k + k] * v;                                   \
                }                                                                      \
                for (unsigned i = 0; i < 4; i++)                                       \
                    memcpy(w->to + (row + i) * g->n + col, &s[i], sizeof(v));          \
            }                                                                          \
    }
DEF_SUMS(sum_floats, double, fa, fb, sums)
DEF_SUMS(sum_integers, int32_t, ia, ib, totals)

/* One element of each lane with what it is added to. */
static void
finish_floats(const struct wgmma *g, const double *sums, const uint32_t *c, uint32_t *d)
{
    const bool negative = !(g->flags & SG_MAT_A_NEG) != !(g->flags & SG_MAT_B_NEG);

    if (g->type[SG_MAT_D] == SG_MAT_F16) {
        for (int i = 0; i < SG_LANES; i++) {
            const double s = negative ? -sums[i] : sums[i];
            d[i] = lane_f64_f16(s + (double)lane_f16_f32(c[i]));
        }
        return;
    }
    for (int i = 0; i < SG_LANES; i++) {
        const double s = negative ? -sums[i] : sums[i];
        d[i] = lane_bits32(lane_nan32((float)(s + (double)lane_float(c[i]))));
    }
}

static void
finish_integers(const struct wgmma *g, const int32_t *totals, const uint32_t *c,
                uint32_t *d)
{
    for (int i = 0; i < SG_LANES; i++) {
        int64_t sum = (int64_t)totals[i] + (int32_t)c[i];
        if (g->flags & SG_MAT_SATFINITE)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        d[i] = (uint32_t)sum;
    }
}

/* Element number @i of all lanes: of every eight columns a lane has two in row quad and
 * two in row quad + 8. */
static void
finish(const struct wgmma *g, const struct wgmma_work *w, unsigned i, const uint32_t *c,
       uint32_t *d)
{
    const unsigned first = i / 2 % 2 * 8 * g->n + i / 4 * 8 + i % 2;
    double sums[SG_LANES];
    int32_t totals[SG_LANES];

    if (sg_mat_is_float(g->type[SG_MAT_A])) {
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            sums[lane] = w->sums[first + lane / 4 * g->n + lane % 4 * 2];
        finish_floats(g, sums, c, d);
    } else {
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            totals[lane] = w->totals[first + lane / 4 * g->n + lane % 4 * 2];
        finish_integers(g, totals, c, d);
    }
}

static void
multiply(const struct wgmma *g, struct wgmma_work *w, uint32_t accumulate)
{
    const bool half = g->type[SG_MAT_D] == SG_MAT_F16;
    uint32_t old[SG_LANES], high[SG_LANES];

    (sg_mat_is_float(g->type[SG_MAT_A]) ? sum_floats : sum_integers)(g, w);
    for (unsigned r = 0; r < g->d_regs; r++) {
        const uint32_t *c = sg_reg_w(g->warp, g->c[r]);
        uint32_t *d = sg_reg_w(g->warp, g->d[r]);
        for (int i = 0; i < SG_LANES; i++) {
            const uint32_t v = (accumulate >> i & 1) ? c[i] : 0;
            old[i] = half ? v & 0xffff : v;
            high[i] = v >> 16;
        }
        finish(g, w, half ? 2 * r : r, old, d);
        if (!half)
            continue;
        finish(g, w, 2 * r + 1, high, high);
        for (int i = 0; i < SG_LANES; i++)
            d[i] |= high[i] << 16;
    }
}

static void
wgmma_open(struct wgmma *g, struct sg_cta *cta, struct sg_warp *warp,
           const struct sg_insn *op)
{
    const uint32_t *list = cta->unit->lists + op->f;
    uint64_t p = (uint64_t)op->imm;

    *g = (struct wgmma){.cta = cta, .warp = warp, .op = op};
    g->n = op->x & 0xffff;
    g->k = op->x >> 16;
    g->flags = (unsigned)(p >> SG_MAT_FLAGS_SHIFT);
    for (int i = 0; i < 3; i++)
        g->type[i] = p >> (4 * i) & 15;
    g->d_regs = g->type[SG_MAT_D] == SG_MAT_F16 ? g->n / 4 : g->n / 2;
    g->d = list;
    g->c = list + g->d_regs;
    g->a = g->c + g->d_regs;
    g->meta = g->a + (g->flags & SG_MAT_A_REGS ? 4 : 0);
}

enum sg_stop
CAT(sg_wgmma_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    struct wgmma_work *w;
    struct wgmma g;

    if (stop != SG_STOP_NONE)
        return stop;
    if (!cta->wgmma)
        cta->wgmma = aligned_alloc(64, sizeof(*w));
    w = cta->wgmma;
    if (!w)
        return sg_fault_set(cta, warp, 0, SG_FAULT_LAUNCH_FAILED, 0, "out of memory");
    wgmma_open(&g, cta, warp, op);
    if (!load_all(&g, w))
        return SG_STOP_FAULT;
    multiply(&g, w, *sg_reg_p(warp, op->c));
    return SG_STOP_NONE;
}
