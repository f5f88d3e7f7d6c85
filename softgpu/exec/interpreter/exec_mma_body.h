/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices that a warp holds, with vectors: mma.sync and wmma of f16, bf16,
 * tf32 and integers of 8 and 4 bits.
 *
 * Included by exec_mma_v2.c, _v3.c and _v4.c alone, compiled for those levels as the
 * interpreter is.  Every other form, and every row that this cannot do, is
 * exec_matrix.c's, which says how elements lie in registers and how sums are those of a
 * card.  The same sums here: a product of two such floats is exact in f32, and so is
 * what it becomes when it is scaled until 1 is the last place that counts; it is cut
 * when it is converted to an integer.  That holds while the largest exponent of a sum
 * is within +-100, where what is below f32's normal numbers would be cut anyway.
 *
 * Eight columns of one row are computed at a time.
 */
#include "exec_lane_fn.h"
#include "exec_level.h"
#include "exec_matrix.h"
#include "sg_cta.h"

#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define COLUMNS 8
#define MAX_FLOATS (32 * 16) /* of a factor: k * m or k * n */
#define MAX_INTEGERS (16 * 64)
#define MAX_SUMS 256 /* m * n */
#define MOST_EXPONENT 100

typedef float vec_f __attribute__((vector_size(4 * COLUMNS)));
typedef int32_t vec_i __attribute__((vector_size(4 * COLUMNS)));
typedef double vec_d __attribute__((vector_size(8 * COLUMNS)));
typedef int64_t vec_l __attribute__((vector_size(8 * COLUMNS)));

/* A is row-major; B and what belongs to C are rows of columns, as the sums want them:
 * element (k, col) of B is at k * n + col. */
struct floats {
    _Alignas(64) float a[MAX_FLOATS], b[MAX_FLOATS], c[MAX_SUMS], d[MAX_SUMS];
    _Alignas(64) int32_t xa[MAX_FLOATS], xb[MAX_FLOATS], xc[MAX_SUMS]; /* exponents */
};

struct integers {
    _Alignas(64) int32_t a[MAX_INTEGERS], b[MAX_INTEGERS], c[MAX_SUMS], d[MAX_SUMS];
};

/* ------------------------------------------------------------------- places -- */

/* Elements that one register of an operand holds. */
LANE unsigned
per_register(unsigned bits)
{
    return bits >= 32 ? 1 : 32 / bits;
}

/* Element number @j of register @r belongs to place base + lane / 4 * quad + lane % 4 *
 * lane; of wmma, whose layout is linear, to (base + lane * per_lane) % total, which of
 * B is turned. */
struct places {
    unsigned base, quad, lane, per_lane, total;
};

LANE struct places
places_of(const struct sg_mat *mat, int operand, unsigned r, unsigned j)
{
    const unsigned e = per_register(mat->bits[operand]), n = mat->n, k = mat->k;
    const unsigned i = r * e + j;

    if (mat->flags & SG_MAT_WMMA)
        return (struct places){.base = i,
                               .per_lane = mat->count[operand] * e,
                               .total = operand == SG_MAT_A   ? mat->m * k
                                        : operand == SG_MAT_B ? n * k
                                                              : mat->m * n};
    if (operand == SG_MAT_A && mat->m == 16)
        return (struct places){8 * (r & 1) * k + r / 2 * 4 * e + j, k, e, 0, 0};
    if (operand == SG_MAT_A)
        return (struct places){r * 4 * e + j, k, e, 0, 0};
    if (operand == SG_MAT_B)
        return (struct places){(r * 4 * e + j) * n, 1, e * n, 0, 0};
    return (struct places){8 * (i / 2) * n + i % 2, n, 2, 0, 0};
}

LANE unsigned
wmma_place(const struct sg_mat *mat, int operand, const struct places *p, unsigned lane)
{
    const unsigned at = (p->base + lane * p->per_lane) % p->total;

    return operand == SG_MAT_B ? at % mat->k * mat->n + at / mat->k : at;
}

/* One element of each lane to its place. */
static void
scatter(const struct sg_mat *mat, int operand, unsigned r, unsigned j,
        const uint32_t *from, uint32_t *to)
{
    const struct places p = places_of(mat, operand, r, j);

    if (mat->flags & SG_MAT_WMMA) {
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            to[wmma_place(mat, operand, &p, lane)] = from[lane];
        return;
    }
    to += p.base;
    for (unsigned quad = 0; quad < 8; quad++, to += p.quad, from += 4) {
        to[0] = from[0];
        to[p.lane] = from[1];
        to[2 * p.lane] = from[2];
        to[3 * p.lane] = from[3];
    }
}

/* And back, to the high or the low half of the lanes' words, or all of them. */
static void
collect(const struct sg_mat *mat, unsigned r, unsigned j, const uint32_t *from,
        uint32_t *to)
{
    const struct places p = places_of(mat, SG_MAT_D, r, j);
    const unsigned shift = mat->bits[SG_MAT_D] * j;

    for (unsigned lane = 0; lane < SG_LANES; lane++) {
        const unsigned at = mat->flags & SG_MAT_WMMA
                                ? wmma_place(mat, SG_MAT_D, &p, lane)
                                : p.base + lane / 4 * p.quad + lane % 4 * p.lane;
        to[lane] = j ? to[lane] | from[at] << shift : from[at];
    }
}

static void
write_sums(struct sg_warp *warp, const struct sg_mat *mat, const uint32_t *from)
{
    for (unsigned r = 0; r < mat->count[SG_MAT_D]; r++)
        for (unsigned j = 0; j < per_register(mat->bits[SG_MAT_D]); j++)
            collect(mat, r, j, from, sg_reg_w(warp, mat->list[SG_MAT_D][r]));
}

/* ------------------------------------------------------------------- floats -- */

LANE float
element_float(unsigned type, uint32_t word, unsigned j)
{
    const uint32_t half = j ? word >> 16 : word & 0xffff;

    return type == SG_MAT_F16    ? lane_f16_f32(half)
           : type == SG_MAT_BF16 ? lane_float(half << 16)
           : type == SG_MAT_TF32 ? lane_float(word & 0xffffe000u)
                                 : lane_float(word);
}

#define DEF_UNPACK(TYPE)                                                               \
    static void unpack_##TYPE(const uint32_t *word, unsigned j, uint32_t *to)          \
    {                                                                                  \
        for (int i = 0; i < SG_LANES; i++)                                             \
            to[i] = lane_bits32(element_float(SG_MAT_##TYPE, word[i], j));             \
    }
DEF_UNPACK(F16)
DEF_UNPACK(BF16)
DEF_UNPACK(TF32)
DEF_UNPACK(F32)

static void
gather_floats(const struct sg_warp *warp, const struct sg_mat *mat, int operand,
              uint32_t *to)
{
    const unsigned type = mat->type[operand], e = per_register(mat->bits[operand]);
    _Alignas(64) uint32_t lanes[SG_LANES];

    for (unsigned r = 0; r < mat->count[operand]; r++) {
        const uint32_t *word = sg_reg_w(warp, mat->list[operand][r]);
        for (unsigned j = 0; j < e; j++) {
            (type == SG_MAT_F16    ? unpack_F16
             : type == SG_MAT_BF16 ? unpack_BF16
             : type == SG_MAT_TF32 ? unpack_TF32
                                   : unpack_F32)(word, j, lanes);
            scatter(mat, operand, r, j, lanes, to);
        }
    }
}

/* What cut_exponent() of exec_matrix.c gives. */
LANE int32_t
exponent_of(float v, int32_t least)
{
    const uint32_t mag = lane_bits32(v) & 0x7fffffffu;
    const int32_t e = (int32_t)(mag >> 23) - 127;
    int32_t x = e < least ? least : e;

    x = mag == 0 ? SG_CUT_ZERO : x;
    return mag >= 0x7f800000u ? SG_CUT_NONE : x;
}

static void
exponents(const float *v, int32_t *x, unsigned n, int32_t least)
{
    for (unsigned i = 0; i < n; i++)
        x[i] = exponent_of(v[i], least);
}

LANE int32_t
least_of(unsigned type)
{
    return type == SG_MAT_F16 ? -14 : -126;
}

LANE vec_i
greater(vec_i a, vec_i b)
{
#if defined(__AVX2__)
    return (vec_i)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const vec_i m = a > b;

    return (a & m) | (b & ~m);
#endif
}

LANE vec_d
double_of(vec_l bits)
{
    vec_d v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* The sums of eight columns of @row, from @col on.  False: exec_matrix.c has to. */
LANE bool
sums_floats(const struct sg_mat *mat, const struct floats *w, unsigned row,
            unsigned col, vec_d *ret)
{
    const unsigned n = mat->n, k = mat->k;
    const float *a = w->a + row * k;
    const int32_t *xa = w->xa + row * k;
    vec_i most, even, odd, bits;
    int32_t beyond = 0;
    vec_f c, scale;
    vec_l back;

    memcpy(&c, w->c + row * n + col, sizeof(c));
    memcpy(&most, w->xc + row * n + col, sizeof(most));
    for (unsigned i = 0; i < k; i++) {
        vec_i xb;
        memcpy(&xb, w->xb + i * n + col, sizeof(xb));
        most = greater(most, xb + xa[i]);
    }
    odd = (most > MOST_EXPONENT) | (most < -MOST_EXPONENT);
    for (int o = 0; o < COLUMNS; o++)
        beyond |= odd[o];
    if (unlikely(beyond))
        return false;
    odd = (vec_i){0};
    bits = (127 + SG_CUT_BITS - most) << 23;
    memcpy(&scale, &bits, sizeof(scale));
    even = __builtin_convertvector(c * scale, vec_i);
    for (unsigned i = 0; i < k; i += 2) { /* each sum of up to 17 is below 2^31 */
        vec_f b0, b1;
        memcpy(&b0, w->b + i * n + col, sizeof(b0));
        memcpy(&b1, w->b + (i + 1) * n + col, sizeof(b1));
        even += __builtin_convertvector(a[i] * b0 * scale, vec_i);
        odd += __builtin_convertvector(a[i + 1] * b1 * scale, vec_i);
    }
    back = __builtin_convertvector(most, vec_l);
    back = (back + (1023 - SG_CUT_BITS)) << 52;
    *ret =
        (__builtin_convertvector(even, vec_d) + __builtin_convertvector(odd, vec_d)) *
        double_of(back);
    return true;
}

/* Cut towards zero, of sums that f32 has the exponents for. */
LANE vec_f
cut_floats(vec_d sums)
{
    vec_l bits;

    memcpy(&bits, &sums, sizeof(bits));
    return __builtin_convertvector(double_of(bits & ~((INT64_C(1) << 29) - 1)), vec_f);
}

static void
row_floats(const struct sg_mat *mat, const struct floats *w, unsigned row, unsigned col,
           float *d)
{
    vec_d sums;

    if (likely(sums_floats(mat, w, row, col, &sums))) {
        const vec_f v = cut_floats(sums);
        memcpy(d, &v, sizeof(v));
        return;
    }
    for (unsigned o = 0; o < COLUMNS; o++)
        d[o] =
            lane_nan32((float)sg_mat_dot_cut(mat, w->a + row * mat->k, w->b + col + o,
                                             mat->n, w->c[row * mat->n + col + o]));
}

/* The halves are kept in the low bits of @d. */
static void
row_halves(const struct sg_mat *mat, const struct floats *w, unsigned row, unsigned col,
           float *d)
{
    vec_d sums;

    if (!sums_floats(mat, w, row, col, &sums))
        for (unsigned o = 0; o < COLUMNS; o++)
            sums[o] = sg_mat_dot_cut(mat, w->a + row * mat->k, w->b + col + o, mat->n,
                                     w->c[row * mat->n + col + o]);
    for (int o = 0; o < COLUMNS; o++)
        d[o] = lane_float(lane_f64_f16(sums[o]));
}

static void
multiply_floats(struct sg_warp *warp, const struct sg_mat *mat)
{
    const bool halves = mat->type[SG_MAT_D] == SG_MAT_F16;
    struct floats w;

    gather_floats(warp, mat, SG_MAT_A, (uint32_t *)w.a);
    gather_floats(warp, mat, SG_MAT_B, (uint32_t *)w.b);
    gather_floats(warp, mat, SG_MAT_C, (uint32_t *)w.c);
    exponents(w.a, w.xa, mat->m * mat->k, least_of(mat->type[SG_MAT_A]));
    exponents(w.b, w.xb, mat->n * mat->k, least_of(mat->type[SG_MAT_B]));
    exponents(w.c, w.xc, mat->m * mat->n, least_of(mat->type[SG_MAT_C]));
    for (unsigned row = 0; row < mat->m; row++)
        for (unsigned col = 0; col < mat->n; col += COLUMNS)
            (halves ? row_halves : row_floats)(mat, &w, row, col,
                                               w.d + row * mat->n + col);
    write_sums(warp, mat, (const uint32_t *)w.d);
}

/* ----------------------------------------------------------------- integers -- */

static void
gather_integers(const struct sg_warp *warp, const struct sg_mat *mat, int operand,
                uint32_t *to)
{
    const unsigned type = mat->type[operand], bits = mat->bits[operand];
    const bool sgn = type == SG_MAT_S8 || type == SG_MAT_S4;
    const unsigned e = per_register(bits), rest = 32 - bits;
    _Alignas(64) uint32_t lanes[SG_LANES];

    for (unsigned r = 0; r < mat->count[operand]; r++) {
        const uint32_t *word = sg_reg_w(warp, mat->list[operand][r]);
        for (unsigned j = 0; j < e; j++) {
            for (int i = 0; i < SG_LANES; i++) {
                const uint32_t up = word[i] << (rest - j * bits);
                lanes[i] = sgn ? (uint32_t)((int32_t)up >> rest) : up >> rest;
            }
            scatter(mat, operand, r, j, lanes, to);
        }
    }
}

/* Sums of up to 64 products of 8 bits are below 2^23, so only @c can take them out of
 * 32 bits. */
LANE int32_t
sum_integers(uint32_t products, uint32_t c, bool clamp)
{
    const int64_t sum = (int64_t)(int32_t)products + (int32_t)c;

    if (!clamp)
        return (int32_t)(products + c);
    return (int32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}

static void
multiply_integers(struct sg_warp *warp, const struct sg_mat *mat)
{
    const bool clamp = mat->flags & SG_MAT_SATFINITE;
    const unsigned n = mat->n, k = mat->k;
    struct integers w;

    gather_integers(warp, mat, SG_MAT_A, (uint32_t *)w.a);
    gather_integers(warp, mat, SG_MAT_B, (uint32_t *)w.b);
    gather_integers(warp, mat, SG_MAT_C, (uint32_t *)w.c);
    for (unsigned row = 0; row < mat->m; row++)
        for (unsigned col = 0; col < n; col += COLUMNS) {
            const int32_t *a = w.a + row * k;
            vec_i sum = {0}, b;
            for (unsigned i = 0; i < k; i++) {
                memcpy(&b, w.b + i * n + col, sizeof(b));
                sum += a[i] * b;
            }
            for (unsigned o = 0; o < COLUMNS; o++)
                w.d[row * n + col + o] = sum_integers(
                    (uint32_t)sum[o], (uint32_t)w.c[row * n + col + o], clamp);
        }
    write_sums(warp, mat, (const uint32_t *)w.d);
}

/* ---------------------------------------------------------------------- both -- */

static bool
is_for_integers(const struct sg_mat *mat)
{
    const unsigned a = mat->type[SG_MAT_A], b = mat->type[SG_MAT_B];

    return a >= SG_MAT_S8 && a <= SG_MAT_U4 && b >= SG_MAT_S8 && b <= SG_MAT_U4;
}

static bool
is_for_floats(const struct sg_mat *mat)
{
    const unsigned a = mat->type[SG_MAT_A], d = mat->type[SG_MAT_D];

    return (a == SG_MAT_F16 || a == SG_MAT_BF16 || a == SG_MAT_TF32) &&
           mat->type[SG_MAT_B] == a && (d == SG_MAT_F32 || d == SG_MAT_F16);
}

enum sg_stop
CAT(sg_mma_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                     uint32_t m)
{
    enum sg_stop stop;
    struct sg_mat mat;

    sg_mat_unpack(cta, op, &mat);
    if ((mat.flags & SG_MAT_SPARSE) || (mat.flags >> SG_MAT_SCALES_SHIFT & 7) ||
        mat.n % COLUMNS || mat.k % 2 || !(is_for_floats(&mat) || is_for_integers(&mat)))
        return sg_op_mma(cta, warp, op, m);
    stop = sg_mat_whole_warp(cta, warp, &m);
    if (stop != SG_STOP_NONE)
        return stop;
    if (is_for_integers(&mat))
        multiply_integers(warp, &mat);
    else
        multiply_floats(warp, &mat);
    return SG_STOP_NONE;
}
