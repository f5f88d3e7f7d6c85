/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix operations of a warp: mma.sync and wmma.
 *
 * mma's fragment layout is architectural and one formula for all shapes: with g =
 * lane/4 and t = lane%4, register r of A holds row g + 8*(r&1) and E consecutive
 * columns from t*E + (r/2)*4*E, register r of B column g and rows from t*E + r*4*E,
 * where E elements fit a register; accumulator register i is row g + 8*(i/2), column
 * 2*t + i%2. wmma's layout is ours to choose: element number (lane * per_lane + i) %
 * total of the row-major matrix.
 *
 * Products of floats are exact.  Sums of f16, bf16, tf32 and, into f32, of 8 bits are
 * those of an H200, bit by bit (cut_sum()); all others are kept in double and rounded
 * once.
 */
#include "exec_matrix.h"

#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"

#include <math.h>
#include <string.h>

#define MAX_DIM 32
#define MAX_K 256

/* Room for one warp's matrices; floats and integers as what holds them exactly. */
struct work {
    double fa[MAX_DIM * MAX_K], fb[MAX_DIM * MAX_K];
    int16_t xa[MAX_DIM * MAX_K], xb[MAX_DIM * MAX_K]; /* exponents: cut_exponent() */
    int64_t ia[MAX_DIM * MAX_K], ib[MAX_DIM * MAX_K];
};

bool
sg_mat_is_float(unsigned type)
{
    return type <= SG_MAT_F64 || type >= SG_MAT_E4M3;
}

double
sg_mat_double(uint64_t raw, unsigned type)
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
        return lane_double(sg_fn_e4m3_f64(raw, 0, 0));
    case SG_MAT_E5M2:
        return lane_double(sg_fn_e5m2_f64(raw, 0, 0));
    case SG_MAT_E3M2:
        return lane_double(sg_fn_e3m2_f64(raw, 0, 0));
    case SG_MAT_E2M3:
        return lane_double(sg_fn_e2m3_f64(raw, 0, 0));
    case SG_MAT_E2M1:
        return lane_double(sg_fn_e2m1_f64(raw, 0, 0));
    default:
        return lane_double(raw);
    }
}

int64_t
sg_mat_int(uint64_t raw, unsigned type)
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

uint64_t
sg_mat_from_double(double v, unsigned type)
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

/*
 * A row keeps two of four elements, of 32 bits one of two, of 4 bits two pairs of four.
 * Four bits of metadata say which, for one such group each: a register has those of
 * four groups of row g in its low half and of row g + 8 in its high half, where g is
 * the lane's quad; the groups go on in the next lane of the quad.
 */
unsigned
sg_mat_sparse_place(const uint32_t *meta, unsigned selector, unsigned bits, unsigned k,
                    unsigned row, unsigned at)
{
    unsigned stored = bits == 32 ? 1 : bits == 4 ? 4 : 2; /* of a group */
    unsigned group = at / stored, i = at % stored;
    unsigned lanes = k / (2 * stored) / 4; /* of a quad that bring metadata */
    unsigned lane = row % 8 * 4 + (selector * lanes + group / 4) % 4;
    unsigned nibble = meta[lane] >> (row / 8 * 16 + group % 4 * 4) & 15;

    if (bits == 32)
        return group * 2 + (nibble >> 1 & 1);
    if (bits == 4)
        return group * 8 + (nibble >> (i / 2 * 2) & 3) * 2 + i % 2;
    return group * 4 + (nibble >> (i * 2) & 3);
}

void
sg_mat_unpack(const struct sg_cta *cta, const struct sg_insn *op, struct sg_mat *mat)
{
    const uint32_t *list = cta->unit->lists + op->f;
    uint64_t p = (uint64_t)op->imm;

    mat->m = op->x & 0xff;
    mat->n = op->x >> 8 & 0xff;
    mat->k = op->x >> 16;
    mat->flags = (unsigned)(p >> SG_MAT_FLAGS_SHIFT);
    for (int i = 0; i < SG_MAT_OPERANDS; i++) {
        mat->type[i] = p >> (4 * i) & 15;
        mat->bits[i] = mat->type[i] == SG_MAT_E2M1 && (mat->flags & SG_MAT_PACKED)
                           ? 4
                           : sg_mat_bits(mat->type[i]);
        mat->count[i] = p >> (16 + 6 * i) & 63;
        mat->list[i] = list;
        list += mat->count[i];
    }
    mat->more = list;
}

static uint64_t
reg_raw(const struct sg_warp *warp, const struct sg_mat *mat, int operand, unsigned r,
        unsigned lane)
{
    if (mat->bits[operand] == 64)
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
put(struct work *w, const struct sg_mat *mat, int operand, unsigned at, uint64_t raw)
{
    unsigned type = mat->type[operand];
    bool is_a = operand == SG_MAT_A;

    if (type == SG_MAT_E2M1 && mat->bits[operand] == 8)
        raw = raw >> 2 & 15; /* two bits of nothing on either side */
    if (sg_mat_is_float(type))
        (is_a ? w->fa : w->fb)[at] = sg_mat_double(raw, type);
    else
        (is_a ? w->ia : w->ib)[at] = sg_mat_int(raw, type);
}

/* What is not stored of a sparse matrix is zero. */
static void
clear_a(struct work *w, const struct sg_mat *mat)
{
    memset(w->fa, 0, mat->m * mat->k * sizeof(w->fa[0]));
    memset(w->ia, 0, mat->m * mat->k * sizeof(w->ia[0]));
}

static unsigned
sparse_column(const struct sg_warp *warp, const struct sg_mat *mat, unsigned row,
              unsigned at)
{
    return sg_mat_sparse_place(sg_reg_w(warp, mat->more[0]),
                               mat->flags >> SG_MAT_SELECTOR_SHIFT & 3,
                               mat->bits[SG_MAT_A], mat->k, row, at);
}

/* Gather A (row-major m x k) and B (stored n x k) from the fragments. */
static void
gather(const struct sg_warp *warp, const struct sg_mat *mat, struct work *w)
{
    for (int operand = SG_MAT_A; operand <= SG_MAT_B; operand++) {
        unsigned bits = mat->bits[operand], e = per_reg(bits);
        unsigned per_lane = mat->count[operand] * e;
        bool sparse = operand == SG_MAT_A && (mat->flags & SG_MAT_SPARSE);
        if (sparse)
            clear_a(w, mat);
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
                    if (sparse)
                        kk = sparse_column(warp, mat, row, kk);
                    at = row * mat->k + kk;
                }
                put(w, mat, operand, at, raw);
            }
        }
    }
}

/* Row and column of accumulator element @i of @lane. */
static void
acc_place(const struct sg_mat *mat, int operand, unsigned lane, unsigned i,
          unsigned *ret_row, unsigned *ret_col)
{
    unsigned per_lane = mat->count[operand] * per_reg(mat->bits[operand]);

    if (mat->flags & SG_MAT_WMMA) {
        unsigned at = (lane * per_lane + i) % (mat->m * mat->n);
        *ret_row = at / mat->n;
        *ret_col = at % mat->n;
    } else {
        *ret_row = lane / 4 + 8 * (i / 2);
        *ret_col = lane % 4 * 2 + i % 2;
    }
}

/* Scale number @i of a row of A or a column of B: the lanes of a quad share the work,
 * and the instruction says which of them and from which byte on. */
static double
scale_of(const struct sg_warp *warp, const struct sg_mat *mat, int operand,
         unsigned row, unsigned i)
{
    const uint32_t *list = mat->more + (mat->flags & SG_MAT_SPARSE ? 1 : 0) +
                           (operand == SG_MAT_B ? 3 : 0);
    unsigned byte = sg_reg_w(warp, list[1])[0] & 3, t = sg_reg_w(warp, list[2])[0] & 3;
    unsigned lane = row % 8 * 4 + (operand == SG_MAT_B ? t : (t * 2 + row / 8) % 4);
    uint32_t raw = sg_reg_w(warp, list[0])[lane] >> ((byte + i) % 4 * 8) & 0xff;

    if (mat->flags & SG_MAT_UE4M3)
        return lane_double(sg_fn_e4m3_f64(raw & 0x7f, 0, 0));
    return lane_double(sg_fn_ue8m0_f64(raw, 0, 0));
}

static double
dot_scaled(const struct sg_warp *warp, const struct work *w, const struct sg_mat *mat,
           unsigned row, unsigned col, double c)
{
    unsigned scales = mat->flags >> SG_MAT_SCALES_SHIFT & 7, block = mat->k / scales;

    for (unsigned i = 0; i < scales; i++) {
        double sum = 0;
        for (unsigned k = i * block; k < (i + 1) * block; k++)
            sum += w->fa[row * mat->k + k] * w->fb[col * mat->k + k];
        c += sum * scale_of(warp, mat, SG_MAT_A, row, i) *
             scale_of(warp, mat, SG_MAT_B, col, i);
    }
    return c;
}

/* ---- sums of a card: the results of test_sg_card, of 24,000 that were looked at, all.
 * Products and the addend are aligned to the largest exponent among them, that of a
 * product being the sum of its factors' (so that the mantissa is below 4), and cut
 * towards zero 25 bits below it; their sum is exact, and cut towards zero to f32 or
 * rounded to nearest to f16. */

/* Those of subnormal numbers are @least. */
static int16_t
cut_exponent(double v, int least)
{
    int e = (int)(lane_bits64(v) >> 52 & 0x7ff) - 1023;

    if (v == 0.0)
        return SG_CUT_ZERO;
    return (int16_t)(e == 1024 ? SG_CUT_NONE : e < least ? least : e);
}

static int
least_exponent(unsigned type)
{
    return type == SG_MAT_BF16 || type == SG_MAT_TF32 || type == SG_MAT_F32 ? -126
                                                                            : -14;
}

static bool
of_8_bits(const struct sg_mat *mat)
{
    return mat->type[SG_MAT_A] == SG_MAT_E4M3 || mat->type[SG_MAT_A] == SG_MAT_E5M2;
}

/* Whether it is known how a card sums these. */
static bool
is_cut(const struct sg_mat *mat)
{
    unsigned a = mat->type[SG_MAT_A], b = mat->type[SG_MAT_B], d = mat->type[SG_MAT_D];

    if (mat->flags & SG_MAT_SPARSE || mat->flags >> SG_MAT_SCALES_SHIFT & 7)
        return false;
    if (of_8_bits(mat))
        return (b == SG_MAT_E4M3 || b == SG_MAT_E5M2) && d == SG_MAT_F32 &&
               mat->k == 32;
    return (a == SG_MAT_F16 || a == SG_MAT_BF16 || a == SG_MAT_TF32) &&
           (d == SG_MAT_F32 || d == SG_MAT_F16);
}

/* The first two of each four of a row of 32 to its first half. */
static void
part_pairs(double *rows, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        double row[32];
        memcpy(row, rows + i * 32, sizeof(row));
        for (unsigned k = 0; k < 32; k++)
            rows[i * 32 + k / 4 * 2 + k % 2 + (k & 2 ? 16 : 0)] = row[k];
    }
}

static void
find_exponents(const struct sg_mat *mat, struct work *w)
{
    int a = least_exponent(mat->type[SG_MAT_A]),
        b = least_exponent(mat->type[SG_MAT_B]);

    if (of_8_bits(mat)) {
        part_pairs(w->fa, mat->m);
        part_pairs(w->fb, mat->n);
    }
    for (unsigned i = 0; i < mat->m * mat->k; i++)
        w->xa[i] = cut_exponent(w->fa[i], a);
    for (unsigned i = 0; i < mat->n * mat->k; i++)
        w->xb[i] = cut_exponent(w->fb[i], b);
}

/* The sum of @c, of exponent @xc, and the products of the row and column.  Cut, a term
 * is below 2^27. */
static double
cut_sum(const double *fa, const double *fb, const int16_t *xa, const int16_t *xb,
        unsigned k, double c, int xc)
{
    double scale;
    int64_t sum;
    int most = xc;

    for (unsigned i = 0; i < k; i++)
        most = xa[i] + xb[i] > most ? xa[i] + xb[i] : most;
    if (most < SG_CUT_ZERO / 2 ||
        most > SG_CUT_NONE / 8) { /* zeros alone, or no number */
        for (unsigned i = 0; i < k; i++)
            c += fa[i] * fb[i];
        return c;
    }
    scale = lane_double((uint64_t)(1023 + SG_CUT_BITS - most) << 52);
    sum = (int32_t)(c * scale);
    for (unsigned i = 0; i < k; i++)
        sum += (int32_t)(fa[i] * fb[i] * scale);
    return (double)sum / scale;
}

/* Towards zero, beyond the largest number infinite. */
static double
cut_to_f32(double v)
{
    double mag = fabs(v);

    if (mag < 0x1p-126)
        return (double)(int64_t)(v * 0x1p149) * 0x1p-149;
    if (mag >= 0x1p128 || v != v)
        return mag < (double)INFINITY ? copysign((double)INFINITY, v) : v;
    return lane_double(lane_bits64(v) & ~((1ull << 29) - 1));
}

/* Products of 8 bits are made of halves, two of each four and then the other two, and
 * the addend is added behind them, in f32. */
static double
dot_cut(const struct work *w, const struct sg_mat *mat, unsigned row, unsigned col,
        double c)
{
    const size_t a = (size_t)row * mat->k, b = (size_t)col * mat->k;
    const double *fa = w->fa + a, *fb = w->fb + b;
    const int16_t *xa = w->xa + a, *xb = w->xb + b;
    double sum;

    if (of_8_bits(mat)) {
        const unsigned half = mat->k / 2;
        sum = cut_to_f32(cut_sum(fa, fb, xa, xb, half, 0.0, SG_CUT_ZERO));
        sum = cut_to_f32(cut_sum(fa + half, fb + half, xa + half, xb + half, half, sum,
                                 cut_exponent(sum, least_exponent(SG_MAT_F32))));
        return (double)((float)sum + (float)c);
    }
    sum = cut_sum(fa, fb, xa, xb, mat->k, c,
                  cut_exponent(c, least_exponent(mat->type[SG_MAT_C])));
    return mat->type[SG_MAT_D] == SG_MAT_F32 ? cut_to_f32(sum) : sum;
}

double
sg_mat_dot_cut(const struct sg_mat *mat, const float *a, const float *b,
               unsigned stride_b, double c)
{
    const int la = least_exponent(mat->type[SG_MAT_A]);
    const int lb = least_exponent(mat->type[SG_MAT_B]);
    double fa[MAX_DIM], fb[MAX_DIM], sum;
    int16_t xa[MAX_DIM], xb[MAX_DIM];

    for (unsigned i = 0; i < mat->k; i++) {
        fa[i] = a[i];
        fb[i] = b[(size_t)i * stride_b];
        xa[i] = cut_exponent(fa[i], la);
        xb[i] = cut_exponent(fb[i], lb);
    }
    sum = cut_sum(fa, fb, xa, xb, mat->k, c,
                  cut_exponent(c, least_exponent(mat->type[SG_MAT_C])));
    return mat->type[SG_MAT_D] == SG_MAT_F32 ? cut_to_f32(sum) : sum;
}

/* f64 is a chain of fma in the rounding asked for. */
static double
dot_f64(const struct work *w, const struct sg_mat *mat, unsigned row, unsigned col,
        double c)
{
    static sg_fn *const directed[] = {NULL, sg_fn_fma_f64_rz, sg_fn_fma_f64_rm,
                                      sg_fn_fma_f64_rp};
    sg_fn *fn = directed[mat->flags >> SG_MAT_ROUND_SHIFT & 3];

    for (unsigned k = 0; k < mat->k; k++) {
        double a = w->fa[row * mat->k + k], b = w->fb[col * mat->k + k];
        c = fn ? lane_double(fn(lane_bits64(a), lane_bits64(b), lane_bits64(c)))
               : lane_nan64(fma(a, b, c), b, c, a);
    }
    return c;
}

static double
dot_float(const struct sg_warp *warp, const struct work *w, const struct sg_mat *mat,
          unsigned row, unsigned col, double c)
{
    if (mat->flags >> SG_MAT_SCALES_SHIFT & 7)
        return dot_scaled(warp, w, mat, row, col, c);
    if (is_cut(mat))
        return dot_cut(w, mat, row, col, c);
    if (mat->type[SG_MAT_D] == SG_MAT_F64)
        return dot_f64(w, mat, row, col, c);
    for (unsigned k = 0; k < mat->k; k++)
        c += w->fa[row * mat->k + k] * w->fb[col * mat->k + k];
    return c;
}

static uint32_t
dot_int(const struct work *w, const struct sg_mat *mat, unsigned row, unsigned col,
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
multiply(struct sg_warp *warp, const struct sg_mat *mat, const struct work *w)
{
    unsigned dbits = mat->bits[SG_MAT_D], de = per_reg(dbits);
    unsigned cbits = mat->bits[SG_MAT_C], ce = per_reg(cbits);
    bool is_float = sg_mat_is_float(mat->type[SG_MAT_A]);
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
                r = sg_mat_from_double(dot_float(warp, w, mat, row, col,
                                                 sg_mat_double(c, mat->type[SG_MAT_C])),
                                       mat->type[SG_MAT_D]);
            else
                r = dot_int(w, mat, row, col, sg_mat_int(c, mat->type[SG_MAT_C]));
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

enum sg_stop
sg_mat_whole_warp(struct sg_cta *cta, struct sg_warp *warp, uint32_t *m)
{
    uint32_t all[SG_LANES];

    memset(all, 0xff, sizeof(all));
    return sg_op_gather_members(cta, warp, all, m);
}

enum sg_stop
sg_op_mma(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    struct work *w;
    struct sg_mat mat;

    if (stop != SG_STOP_NONE)
        return stop;
    if (!cta->matrix) {
        cta->matrix = malloc(sizeof(*w));
        if (!cta->matrix)
            return sg_fault_set(cta, warp, 0, SG_FAULT_LAUNCH_FAILED, 0,
                                "out of memory");
    }
    w = cta->matrix;
    sg_mat_unpack(cta, op, &mat);
    gather(warp, &mat, w);
    if (is_cut(&mat))
        find_exponents(&mat, w);
    multiply(warp, &mat, w);
    return SG_STOP_NONE;
}

/* ---------------------------------------------- m8n8k4 of halves: four at a time */

/* Lanes q*4 .. q*4+3 and those 16 above make product number q.  Of the eight, number
 * @who has row or column @who of A and B in row- and column-major order; else every
 * register element is another row. */
static unsigned
quad_lane(unsigned quad, unsigned who)
{
    return quad * 4 + who % 4 + (who >= 4 ? 16 : 0);
}

static double
quad_element(const struct sg_warp *warp, const struct sg_mat *mat, int operand,
             unsigned quad, unsigned row, unsigned k, bool lane_is_row)
{
    unsigned lane =
        lane_is_row ? quad_lane(quad, row) : quad_lane(quad, k + (row >= 4 ? 4 : 0));
    unsigned i = lane_is_row ? k : row % 4;

    return sg_mat_double(
        element_bits(reg_raw(warp, mat, operand, i / 2, lane), 16, i % 2), SG_MAT_F16);
}

/* Row and column of accumulator element @i of lane number @who. */
static void
quad_place(const struct sg_mat *mat, int operand, unsigned who, unsigned i,
           unsigned *ret_row, unsigned *ret_col)
{
    if (mat->type[operand] == SG_MAT_F16) {
        *ret_row = who;
        *ret_col = i;
    } else {
        *ret_row = (who & 1) + (i & 2) + (who & 4);
        *ret_col = (i & 4) + (who & 2) + (i & 1);
    }
}

static void
quad_multiply(struct sg_warp *warp, const struct sg_mat *mat, unsigned quad)
{
    bool a_row = !(mat->flags & SG_MAT_A_COL), b_col = mat->flags & SG_MAT_B_COL;
    unsigned row, col;
    double acc[8][8];

    for (unsigned who = 0; who < 8; who++) {
        for (unsigned i = 0; i < 8; i++) {
            unsigned e = mat->type[SG_MAT_C] == SG_MAT_F16 ? 2 : 1;
            uint64_t raw = reg_raw(warp, mat, SG_MAT_C, i / e, quad_lane(quad, who));
            quad_place(mat, SG_MAT_C, who, i, &row, &col);
            acc[row][col] =
                sg_mat_double(element_bits(raw, 32 / e, i % e), mat->type[SG_MAT_C]);
        }
    }
    for (row = 0; row < 8; row++)
        for (col = 0; col < 8; col++)
            for (unsigned k = 0; k < 4; k++)
                acc[row][col] +=
                    quad_element(warp, mat, SG_MAT_A, quad, row, k, a_row) *
                    quad_element(warp, mat, SG_MAT_B, quad, col, k, b_col);
    for (unsigned who = 0; who < 8; who++) {
        uint32_t out[8] = {0};
        unsigned e = mat->type[SG_MAT_D] == SG_MAT_F16 ? 2 : 1;
        for (unsigned i = 0; i < 8; i++) {
            quad_place(mat, SG_MAT_D, who, i, &row, &col);
            out[i / e] |=
                (uint32_t)sg_mat_from_double(acc[row][col], mat->type[SG_MAT_D])
                << (i % e * 16);
        }
        for (unsigned r = 0; r < mat->count[SG_MAT_D]; r++)
            sg_reg_w(warp, mat->list[SG_MAT_D][r])[quad_lane(quad, who)] = out[r];
    }
}

enum sg_stop
sg_op_mma_quads(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    struct sg_mat mat;

    if (stop != SG_STOP_NONE)
        return stop;
    sg_mat_unpack(cta, op, &mat);
    for (unsigned quad = 0; quad < 4; quad++)
        quad_multiply(warp, &mat, quad);
    return SG_STOP_NONE;
}

/* ------------------------------------------------------------- wmma load, store */

/* Memory place of logical (row, col), in elements. */
static uint64_t
wmma_index(const struct sg_mat *mat, unsigned row, unsigned col, uint32_t stride)
{
    return mat->flags & SG_MAT_COL ? row + (uint64_t)col * stride
                                   : (uint64_t)row * stride + col;
}

/* Which matrix the operand is: rows, columns, and whether it is kept transposed. */
static void
wmma_dims(const struct sg_mat *mat, unsigned *ret_rows, unsigned *ret_cols)
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
wmma_place(const struct sg_mat *mat, unsigned at, unsigned *ret_row, unsigned *ret_col)
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

uint32_t
sg_wmma_spans(const struct sg_cta *cta, const struct sg_warp *warp,
              const struct sg_insn *op, unsigned lane, struct sg_mat_span ret[32])
{
    const uint64_t base = sg_reg_d(warp, op->a)[lane];
    const uint32_t stride = sg_reg_w(warp, op->b)[lane];
    unsigned rows, cols, bits, n;
    bool by_col;
    struct sg_mat mat;

    sg_mat_unpack(cta, op, &mat);
    wmma_dims(&mat, &rows, &cols);
    bits = mat.bits[SG_MAT_D];
    by_col = mat.flags & SG_MAT_COL;
    n = gp_min(by_col ? cols : rows, 32u);
    for (unsigned i = 0; i < n; i++)
        ret[i] = (struct sg_mat_span){base + (uint64_t)i * stride * bits / 8,
                                      (by_col ? rows : cols) * bits / 8};
    return n;
}

static enum sg_stop
wmma_move(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m, bool store)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    unsigned rows, cols, bits, bytes, e, per_lane, lane0;
    uint64_t base, out;
    uint32_t stride;
    struct sg_mat mat;

    if (stop != SG_STOP_NONE)
        return stop;
    sg_mat_unpack(cta, op, &mat);
    wmma_dims(&mat, &rows, &cols);
    bits = mat.bits[SG_MAT_D];
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
sg_op_wmma_ld(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    return wmma_move(cta, warp, op, m, false);
}

enum sg_stop
sg_op_wmma_st(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    return wmma_move(cta, warp, op, m, true);
}
