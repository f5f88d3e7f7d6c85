/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix operations of a warpgroup: wgmma.mma_async.
 *
 * Done when it is issued, which the language allows: nobody may touch its operands
 * before it has waited for it.  Warp i of the four makes rows 16 i .. 16 i + 15, so
 * each works for itself.  Shared memory is described by 64 bits: where the matrix
 * starts, two distances, and how 16-byte pieces change places (bits of the address
 * itself). Products are exact, sums of floats are kept in double and rounded once.
 */
#include "exec_matrix.h"
#include "exec_scalar.h"
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

struct wgmma_work {
    double fa[ROWS * MAX_K_FLOAT], fb[MAX_N * MAX_K_FLOAT];
    int16_t ia[ROWS * MAX_K], ib[MAX_N * MAX_K];
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

static void
put(struct wgmma_work *w, const struct wgmma *g, int operand, unsigned at, uint64_t raw)
{
    unsigned type = g->type[operand];

    if (sg_mat_is_float(type))
        (operand == SG_MAT_A ? w->fa : w->fb)[at] = sg_mat_double(raw, type);
    else
        (operand == SG_MAT_A ? w->ia : w->ib)[at] = (int16_t)sg_mat_int(raw, type);
}

/* Rows of one operand from shared memory, @k stored elements each. */
static bool
load_tile(const struct wgmma *g, struct wgmma_work *w, int operand, uint64_t desc,
          unsigned first, unsigned rows, unsigned k)
{
    bool sparse = operand == SG_MAT_A && (g->flags & SG_MAT_SPARSE);
    bool trans = g->flags & (operand == SG_MAT_A ? SG_MAT_A_TRANS : SG_MAT_B_TRANS);
    unsigned bits = sg_mat_bits(g->type[operand]);
    struct tile t;

    tile_open(&t, desc, bits, trans);
    for (unsigned i = 0; i < rows * k; i++) {
        unsigned row = trans ? i % rows : i / k, kk = trans ? i / rows : i % k, to = kk;
        uint64_t raw;
        if (!tile_element(&t, g, first + row, kk, &raw))
            return false;
        if (sparse)
            to = sg_mat_sparse_place(sg_reg_w(g->warp, g->meta[0]),
                                     g->flags >> SG_MAT_SELECTOR_SHIFT & 3, bits, g->k,
                                     row, kk);
        put(w, g, operand, row * g->k + to, raw);
    }
    return true;
}

/* A in registers: as the A of mma.m16n8. */
static void
load_registers(const struct wgmma *g, struct wgmma_work *w)
{
    unsigned bits = sg_mat_bits(g->type[SG_MAT_A]), e = 32 / bits;

    for (unsigned i = 0; i < SG_LANES * 4 * e; i++) {
        unsigned lane = i / (4 * e), r = i / e % 4, j = i % e;
        unsigned row = lane / 4 + 8 * (r & 1), k = (lane % 4 + r / 2 * 4) * e + j;
        uint64_t raw = sg_reg_w(g->warp, g->a[r])[lane] >> (j * bits % 32);
        if (bits < 32)
            raw &= (1u << bits) - 1;
        if (g->flags & SG_MAT_SPARSE)
            k = sg_mat_sparse_place(sg_reg_w(g->warp, g->meta[0]),
                                    g->flags >> SG_MAT_SELECTOR_SHIFT & 3, bits, g->k,
                                    row, k);
        put(w, g, SG_MAT_A, row * g->k + k, raw);
    }
}

static bool
load_all(const struct wgmma *g, struct wgmma_work *w)
{
    unsigned stored = g->flags & SG_MAT_SPARSE ? g->k / 2 : g->k;

    memset(w->fa, 0, sizeof(w->fa));
    memset(w->ia, 0, sizeof(w->ia));
    if (g->flags & SG_MAT_A_REGS)
        load_registers(g, w);
    else if (!load_tile(g, w, SG_MAT_A, sg_reg_d(g->warp, g->op->a)[0],
                        g->warp->index % 4 * ROWS, ROWS, stored))
        return false;
    return load_tile(g, w, SG_MAT_B, sg_reg_d(g->warp, g->op->b)[0], 0, g->n, g->k);
}

static uint32_t
dot(const struct wgmma *g, const struct wgmma_work *w, unsigned row, unsigned col,
    uint32_t c)
{
    if (sg_mat_is_float(g->type[SG_MAT_A])) {
        double sum = 0;
        for (unsigned k = 0; k < g->k; k++)
            sum += w->fa[row * g->k + k] * w->fb[col * g->k + k];
        if (!(g->flags & SG_MAT_A_NEG) != !(g->flags & SG_MAT_B_NEG))
            sum = -sum;
        sum += sg_mat_double(c, g->type[SG_MAT_D]);
        return (uint32_t)sg_mat_from_double(sum, g->type[SG_MAT_D]);
    }
    int64_t sum = (int32_t)c;
    for (unsigned k = 0; k < g->k; k++)
        sum += (int64_t)w->ia[row * g->k + k] * w->ib[col * g->k + k];
    if (g->flags & SG_MAT_SATFINITE)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

/* The accumulator: of every eight columns a lane has two in row quad and two in row
 * quad + 8. */
static void
multiply(const struct wgmma *g, const struct wgmma_work *w, uint32_t accumulate)
{
    bool half = g->type[SG_MAT_D] == SG_MAT_F16;
    unsigned e = half ? 2 : 1;

    for (unsigned lane = 0; lane < SG_LANES; lane++) {
        for (unsigned r = 0; r < g->d_regs; r++) {
            uint32_t old =
                accumulate >> lane & 1 ? sg_reg_w(g->warp, g->c[r])[lane] : 0;
            uint32_t out = 0;
            for (unsigned j = 0; j < e; j++) {
                unsigned i = r * e + j; /* number of the element */
                unsigned row = lane / 4 + (i / 2 % 2) * 8;
                unsigned col = i / 4 * 8 + lane % 4 * 2 + i % 2;
                uint32_t c = half ? old >> (16 * j) & 0xffff : old;
                out |= dot(g, w, row, col, c) << (16 * j);
            }
            sg_reg_w(g->warp, g->d[r])[lane] = out;
        }
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
sg_op_wgmma(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    struct wgmma_work *w;
    struct wgmma g;
    bool ok;

    if (stop != SG_STOP_NONE)
        return stop;
    w = malloc(sizeof(*w));
    if (!w)
        return sg_fault_set(cta, warp, 0, SG_FAULT_LAUNCH_FAILED, 0, "out of memory");
    wgmma_open(&g, cta, warp, op);
    ok = load_all(&g, w);
    if (ok)
        multiply(&g, w, *sg_reg_p(warp, op->c));
    free(w);
    return ok ? SG_STOP_NONE : SG_STOP_FAULT;
}
