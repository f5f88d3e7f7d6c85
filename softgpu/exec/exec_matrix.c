/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix operations of a warp: mma.sync, wmma, ldmatrix, stmatrix, movmatrix.
 *
 * mma's fragment layout is architectural and one formula for all shapes: with g =
 * lane/4 and t = lane%4, register r of A holds row g + 8*(r&1) and E consecutive
 * columns from t*E + (r/2)*4*E, register r of B column g and rows from t*E + r*4*E,
 * where E elements fit a register; accumulator register i is row g + 8*(i/2), column
 * 2*t + i%2. wmma's layout is ours to choose: element number (lane * per_lane + i) %
 * total of the row-major matrix.  Products are exact, sums of floats are kept in double
 * and rounded once.
 */
#include "exec_matrix.h"

#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"

#include <string.h>

#define MAX_DIM 32
#define MAX_K 256

struct mat {
    unsigned m, n, k;
    unsigned type[SG_MAT_OPERANDS]; /* d a b c */
    unsigned count[SG_MAT_OPERANDS];
    unsigned flags;
    const uint32_t *list[SG_MAT_OPERANDS];
};

/* Room for one warp's matrices; floats and integers as what holds them exactly. */
struct work {
    double fa[MAX_DIM * MAX_K], fb[MAX_DIM * MAX_K];
    int64_t ia[MAX_DIM * MAX_K], ib[MAX_DIM * MAX_K];
};

static unsigned
type_bits(unsigned type)
{
    static const uint8_t bits[] = {
        [SG_MAT_F16] = 16, [SG_MAT_BF16] = 16, [SG_MAT_TF32] = 32, [SG_MAT_F32] = 32,
        [SG_MAT_F64] = 64, [SG_MAT_S8] = 8,    [SG_MAT_U8] = 8,    [SG_MAT_S4] = 4,
        [SG_MAT_U4] = 4,   [SG_MAT_B1] = 1,    [SG_MAT_S32] = 32,  [SG_MAT_E4M3] = 8,
        [SG_MAT_E5M2] = 8,
    };

    return bits[type];
}

static bool
type_is_float(unsigned type)
{
    return type <= SG_MAT_F64 || type == SG_MAT_E4M3 || type == SG_MAT_E5M2;
}

static double
fp8_value(uint64_t raw, bool e5m2)
{
    unsigned mant_bits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
    unsigned exp = raw >> mant_bits & (e5m2 ? 31 : 15);
    unsigned mant = raw & ((1u << mant_bits) - 1);
    double v;

    if (e5m2 && exp == 31)
        v = mant ? __builtin_nan("") : __builtin_inf();
    else if (!e5m2 && exp == 15 && mant == 7)
        v = __builtin_nan("");
    else if (exp == 0)
        v = __builtin_ldexp((double)mant, 1 - (int)bias - (int)mant_bits);
    else
        v = __builtin_ldexp((double)(mant | 1u << mant_bits),
                            (int)exp - (int)bias - (int)mant_bits);
    return raw & 0x80 ? -v : v;
}

static double
to_double(uint64_t raw, unsigned type)
{
    switch (type) {
    case SG_MAT_F16:
        return sg_f16_to_f64((uint16_t)raw);
    case SG_MAT_BF16:
        return sg_bf16_to_f64((uint16_t)raw);
    case SG_MAT_TF32:
        return (double)lane_float((uint32_t)raw & 0xffffe000u);
    case SG_MAT_F32:
        return (double)lane_float((uint32_t)raw);
    case SG_MAT_E4M3:
        return fp8_value(raw, false);
    case SG_MAT_E5M2:
        return fp8_value(raw, true);
    default:
        return lane_double(raw);
    }
}

static int64_t
to_int(uint64_t raw, unsigned type)
{
    switch (type) {
    case SG_MAT_S8:
        return (int8_t)raw;
    case SG_MAT_S4:
        return (int64_t)(raw << 60) >> 60;
    case SG_MAT_S32:
        return (int32_t)raw;
    default:
        return (int64_t)raw;
    }
}

static uint64_t
from_double(double v, unsigned type)
{
    switch (type) {
    case SG_MAT_F16:
        return sg_f64_to_f16(v);
    case SG_MAT_BF16:
        return sg_f64_to_bf16(v);
    case SG_MAT_F64:
        return lane_bits64(v);
    default:
        return lane_bits32(lane_nan32((float)v));
    }
}

static void
mat_unpack(const struct sg_cta *cta, const struct sg_op *op, struct mat *mat)
{
    const uint32_t *list = cta->unit->lists + op->f;
    uint64_t p = (uint64_t)op->imm;

    mat->m = op->x & 0xff;
    mat->n = op->x >> 8 & 0xff;
    mat->k = op->x >> 16;
    mat->flags = (unsigned)(p >> SG_MAT_FLAGS_SHIFT);
    for (int i = 0; i < SG_MAT_OPERANDS; i++) {
        mat->type[i] = p >> (4 * i) & 15;
        mat->count[i] = p >> (16 + 6 * i) & 63;
        mat->list[i] = list;
        list += mat->count[i];
    }
}

static uint64_t
reg_raw(const struct sg_warp *warp, const struct mat *mat, int operand, unsigned r,
        unsigned lane)
{
    if (type_bits(mat->type[operand]) == 64)
        return sg_reg_d(warp, mat->list[operand][r])[lane];
    return sg_reg_w(warp, mat->list[operand][r])[lane];
}

static uint64_t
element_bits(uint64_t reg, unsigned bits, unsigned i)
{
    uint64_t v = reg >> (bits * i % 64);

    return bits == 64 ? v : v & ((1ull << bits) - 1);
}

/* Elements that one register of an operand holds. */
static unsigned
per_reg(unsigned bits)
{
    return bits >= 32 ? 1 : 32 / bits;
}

static void
put(struct work *w, bool is_a, unsigned at, uint64_t raw, unsigned type)
{
    if (type_is_float(type))
        (is_a ? w->fa : w->fb)[at] = to_double(raw, type);
    else
        (is_a ? w->ia : w->ib)[at] = to_int(raw, type);
}

/* Gather A (row-major m x k) and B (stored n x k) from the fragments. */
static void
gather(const struct sg_warp *warp, const struct mat *mat, struct work *w)
{
    for (int operand = SG_MAT_A; operand <= SG_MAT_B; operand++) {
        unsigned type = mat->type[operand], bits = type_bits(type), e = per_reg(bits);
        unsigned per_lane = mat->count[operand] * e;
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            unsigned g = lane / 4, t = lane % 4;
            for (unsigned i = 0; i < per_lane; i++) {
                unsigned r = i / e, j = i % e, row, kk, at;
                uint64_t raw =
                    element_bits(reg_raw(warp, mat, operand, r, lane), bits, j);
                if (mat->flags & SG_MAT_WMMA) {
                    unsigned rows = operand == SG_MAT_A ? mat->m : mat->n;
                    at = (lane * per_lane + i) % (rows * mat->k);
                } else {
                    bool a16 = operand == SG_MAT_A && mat->m == 16;
                    row = g + (a16 ? 8 * (r & 1) : 0);
                    kk = t * e + (a16 ? r / 2 : r) * 4 * e + j;
                    at = row * mat->k + kk;
                }
                put(w, operand == SG_MAT_A, at, raw, type);
            }
        }
    }
}

/* Row and column of accumulator element @i of @lane. */
static void
acc_place(const struct mat *mat, int operand, unsigned lane, unsigned i,
          unsigned *ret_row, unsigned *ret_col)
{
    unsigned per_lane = mat->count[operand] * per_reg(type_bits(mat->type[operand]));

    if (mat->flags & SG_MAT_WMMA) {
        unsigned at = (lane * per_lane + i) % (mat->m * mat->n);
        *ret_row = at / mat->n;
        *ret_col = at % mat->n;
    } else {
        *ret_row = lane / 4 + 8 * (i / 2);
        *ret_col = lane % 4 * 2 + i % 2;
    }
}

static double
dot_float(const struct work *w, const struct mat *mat, unsigned row, unsigned col,
          double c)
{
    for (unsigned k = 0; k < mat->k; k++)
        c += w->fa[row * mat->k + k] * w->fb[col * mat->k + k];
    return c;
}

static uint32_t
dot_int(const struct work *w, const struct mat *mat, unsigned row, unsigned col,
        int64_t c)
{
    for (unsigned k = 0; k < mat->k; k++) {
        int64_t a = w->ia[row * mat->k + k], b = w->ib[col * mat->k + k];
        c += mat->flags & SG_MAT_XOR ? a ^ b : a * b; /* and of two bits is a product */
    }
    if (mat->flags & SG_MAT_SATFINITE)
        c = c > INT32_MAX ? INT32_MAX : c < INT32_MIN ? INT32_MIN : c;
    return (uint32_t)c;
}

static void
multiply(struct sg_warp *warp, const struct mat *mat, const struct work *w)
{
    unsigned dbits = type_bits(mat->type[SG_MAT_D]), de = per_reg(dbits);
    unsigned cbits = type_bits(mat->type[SG_MAT_C]), ce = per_reg(cbits);
    bool is_float = type_is_float(mat->type[SG_MAT_A]);
    uint64_t out[SG_LANES][16];

    for (unsigned lane = 0; lane < SG_LANES; lane++) {
        memset(out[lane], 0, sizeof(out[lane]));
        for (unsigned i = 0; i < mat->count[SG_MAT_D] * de; i++) {
            uint64_t c = element_bits(reg_raw(warp, mat, SG_MAT_C, i / ce, lane), cbits,
                                      i % ce),
                     r;
            unsigned row, col;
            acc_place(mat, SG_MAT_D, lane, i, &row, &col);
            if (is_float)
                r = from_double(
                    dot_float(w, mat, row, col, to_double(c, mat->type[SG_MAT_C])),
                    mat->type[SG_MAT_D]);
            else
                r = dot_int(w, mat, row, col, to_int(c, mat->type[SG_MAT_C]));
            out[lane][i / de] |= r << (i % de * dbits % 64);
        }
    }
    for (unsigned lane = 0; lane < SG_LANES; lane++) {
        for (unsigned r = 0; r < mat->count[SG_MAT_D]; r++) {
            if (dbits == 64)
                sg_reg_d(warp, mat->list[SG_MAT_D][r])[lane] = out[lane][r];
            else
                sg_reg_w(warp, mat->list[SG_MAT_D][r])[lane] = (uint32_t)out[lane][r];
        }
    }
}

/* All lanes of the warp take part, whoever is absent is undefined behaviour. */
static enum sg_stop
whole_warp(struct sg_cta *cta, struct sg_warp *warp, uint32_t *m)
{
    uint32_t all[SG_LANES];

    memset(all, 0xff, sizeof(all));
    return sg_op_gather_members(cta, warp, all, m);
}

enum sg_stop
sg_op_mma(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m)
{
    enum sg_stop stop = whole_warp(cta, warp, &m);
    struct work *w;
    struct mat mat;

    if (stop != SG_STOP_NONE)
        return stop;
    if (!cta->matrix) {
        cta->matrix = malloc(sizeof(*w));
        if (!cta->matrix)
            return sg_fault_set(cta, warp, 0, SG_FAULT_LAUNCH_FAILED, 0,
                                "out of memory");
    }
    w = cta->matrix;
    mat_unpack(cta, op, &mat);
    gather(warp, &mat, w);
    multiply(warp, &mat, w);
    return SG_STOP_NONE;
}

/* ------------------------------------------------------------- wmma load, store */

/* Memory place of logical (row, col), in elements. */
static uint64_t
wmma_index(const struct mat *mat, unsigned row, unsigned col, uint32_t stride)
{
    return mat->flags & SG_MAT_COL ? row + (uint64_t)col * stride
                                   : (uint64_t)row * stride + col;
}

/* Which matrix the operand is: rows, columns, and whether it is kept transposed. */
static void
wmma_dims(const struct mat *mat, unsigned *ret_rows, unsigned *ret_cols)
{
    if (mat->flags & SG_MAT_IS_A) {
        *ret_rows = mat->m;
        *ret_cols = mat->k;
    } else if (mat->flags & SG_MAT_IS_B) {
        *ret_rows = mat->k;
        *ret_cols = mat->n;
    } else {
        *ret_rows = mat->m;
        *ret_cols = mat->n;
    }
}

/* Fragment element number @at is (row, col); B is kept as n x k. */
static void
wmma_place(const struct mat *mat, unsigned at, unsigned *ret_row, unsigned *ret_col)
{
    unsigned rows, cols;

    wmma_dims(mat, &rows, &cols);
    if (mat->flags & SG_MAT_IS_B) {
        *ret_row = at % rows;
        *ret_col = at / rows;
    } else {
        *ret_row = at / cols;
        *ret_col = at % cols;
    }
}

static enum sg_stop
wmma_move(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m,
          bool store)
{
    enum sg_stop stop = whole_warp(cta, warp, &m);
    unsigned rows, cols, bits, bytes, e, per_lane, lane0;
    uint64_t base, out;
    uint32_t stride;
    struct mat mat;

    if (stop != SG_STOP_NONE)
        return stop;
    mat_unpack(cta, op, &mat);
    wmma_dims(&mat, &rows, &cols);
    bits = type_bits(mat.type[SG_MAT_D]);
    bytes = bits / 8 ? bits / 8 : 1;
    e = per_reg(bits);
    per_lane = mat.count[SG_MAT_D] * e;
    lane0 = (unsigned)__builtin_ctz(m);
    base = sg_reg_d(warp, op->a)[lane0];
    stride = sg_reg_w(warp, op->b)[lane0];
    for (unsigned lane = 0; lane < SG_LANES; lane++) {
        for (unsigned r = 0; r < mat.count[SG_MAT_D]; r++) {
            out = store ? reg_raw(warp, &mat, SG_MAT_D, r, lane) : 0;
            for (unsigned j = 0; j < e; j++) {
                unsigned at = (lane * per_lane + r * e + j) % (rows * cols), row, col;
                uint64_t index, v = element_bits(out, bits, j);
                void *p;
                wmma_place(&mat, at, &row, &col);
                index = wmma_index(&mat, row, col, stride);
                p = sg_mem_resolve(cta, warp, lane0, base + index * bits / 8, bytes,
                                   bytes - 1, op->n,
                                   store ? SG_ACCESS_WRITE : SG_ACCESS_READ);
                if (!p)
                    return SG_STOP_FAULT;
                if (store) {
                    memcpy(p, &v, bytes);
                } else {
                    v = 0;
                    memcpy(&v, p, bytes);
                    if (bits < 8)
                        v = v >> (index * bits % 8) & ((1u << bits) - 1);
                    out |= v << (j * bits % 64);
                }
            }
            if (!store && bits == 64)
                sg_reg_d(warp, mat.list[SG_MAT_D][r])[lane] = out;
            else if (!store)
                sg_reg_w(warp, mat.list[SG_MAT_D][r])[lane] = (uint32_t)out;
        }
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_wmma_ld(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
              uint32_t m)
{
    return wmma_move(cta, warp, op, m, false);
}

enum sg_stop
sg_op_wmma_st(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
              uint32_t m)
{
    return wmma_move(cta, warp, op, m, true);
}

/* ------------------------------------------------------------ 8x8 matrices of b16 */

/* Element (row, col) of the 8x8 matrix that lane holds at position j of its word. */
static void
m8n8_place(bool trans, unsigned lane, unsigned j, unsigned *ret_row, unsigned *ret_col)
{
    unsigned row = lane / 4, col = lane % 4 * 2 + j;

    *ret_row = trans ? col : row;
    *ret_col = trans ? row : col;
}

enum sg_stop
sg_op_ldmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
               uint32_t m)
{
    enum sg_stop stop = whole_warp(cta, warp, &m);
    unsigned n = op->n & 0xff;
    bool trans = op->n >> 8;
    const uint32_t *list = cta->unit->lists + op->f;
    uint16_t data[4][8][8];

    if (stop != SG_STOP_NONE)
        return stop;
    for (unsigned i = 0; i < n * 8; i++) {
        uint64_t addr = sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm;
        const void *p =
            sg_mem_resolve(cta, warp, i, addr, 16, 15, op->x, SG_ACCESS_READ);
        if (!p)
            return SG_STOP_FAULT;
        memcpy(data[i / 8][i % 8], p, 16);
    }
    for (unsigned k = 0; k < n; k++) {
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            uint32_t v = 0;
            for (unsigned j = 0; j < 2; j++) {
                unsigned row, col;
                m8n8_place(trans, lane, j, &row, &col);
                v |= (uint32_t)data[k][row][col] << (16 * j);
            }
            sg_reg_w(warp, list[k])[lane] = v;
        }
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_stmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
               uint32_t m)
{
    enum sg_stop stop = whole_warp(cta, warp, &m);
    unsigned n = op->n & 0xff;
    bool trans = op->n >> 8;
    const uint32_t *list = cta->unit->lists + op->f;
    uint16_t data[4][8][8];

    if (stop != SG_STOP_NONE)
        return stop;
    for (unsigned k = 0; k < n; k++) {
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            for (unsigned j = 0; j < 2; j++) {
                unsigned row, col;
                m8n8_place(trans, lane, j, &row, &col);
                data[k][row][col] =
                    (uint16_t)(sg_reg_w(warp, list[k])[lane] >> (16 * j));
            }
        }
    }
    for (unsigned i = 0; i < n * 8; i++) {
        uint64_t addr = sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm;
        void *p = sg_mem_resolve(cta, warp, i, addr, 16, 15, op->x, SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        memcpy(p, data[i / 8][i % 8], 16);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_movmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
                uint32_t m)
{
    enum sg_stop stop = whole_warp(cta, warp, &m);
    uint16_t data[8][8];

    if (stop != SG_STOP_NONE)
        return stop;
    for (unsigned lane = 0; lane < SG_LANES; lane++)
        for (unsigned j = 0; j < 2; j++)
            data[lane / 4][lane % 4 * 2 + j] =
                (uint16_t)(sg_reg_w(warp, op->a)[lane] >> (16 * j));
    for (unsigned lane = 0; lane < SG_LANES; lane++)
        sg_reg_w(warp, op->d)[lane] = data[lane % 4 * 2][lane / 4] |
                                      (uint32_t)data[lane % 4 * 2 + 1][lane / 4] << 16;
    return SG_STOP_NONE;
}
