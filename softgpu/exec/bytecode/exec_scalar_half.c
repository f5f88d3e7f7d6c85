/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half precision: f16 and bf16, one or two to a word; see exec_scalar.h.
 *
 * Every operation is evaluated in double and rounded once.  That is exact for add, sub,
 * mul; fma is made so by rounding the double result to odd first.
 */
#include "exec_lane.h"
#include "exec_scalar.h"

#include <math.h>

#define DEF(name) uint64_t sg_fn_##name(uint64_t a, uint64_t b, uint64_t c)

enum rounding { RN, RZ, RM, RP, RNA };

/* Round @v to a format of @mant explicit mantissa bits whose smallest normal exponent
 * is @emin; the result is the bits above the format's own exponent bias. */
static uint32_t
round_to(double v, int mant, int emin, int emax, enum rounding how, uint32_t nan)
{
    uint64_t bits = lane_bits64(v), frac, half, rest;
    uint32_t sign = (uint32_t)(bits >> 63) << 15, r;
    int exp = (int)(bits >> 52 & 0x7ff) - 1023, drop;
    bool up;

    if (v != v)
        return nan;
    if (exp == 1024)
        return sign | (uint32_t)(emax - emin + 2) << mant;
    if (exp == -1023) { /* zero and f64 subnormals are below every half */
        up = (bits << 1) && ((how == RP && !sign) || (how == RM && sign));
        return sign | (up ? 1u : 0);
    }
    frac = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    drop = 52 - mant + (exp < emin ? emin - exp : 0);
    if (drop > 60) {
        up = (how == RP && !sign) || (how == RM && sign);
        return sign | (up ? 1u : 0);
    }
    half = 1ull << (drop - 1);
    rest = frac & ((1ull << drop) - 1);
    frac >>= drop;
    up = how == RN    ? rest > half || (rest == half && (frac & 1))
         : how == RNA ? rest >= half
         : how == RP  ? rest && !sign
         : how == RM  ? rest && sign
                      : false;
    frac += up;
    r = exp < emin ? (uint32_t)frac
                   : (uint32_t)((uint64_t)(exp - emin) << mant) + (uint32_t)frac;
    if (r >= (uint32_t)(emax - emin + 2) << mant) {
        bool inf =
            how == RN || how == RNA || (how == RP && !sign) || (how == RM && sign);
        r = ((uint32_t)(emax - emin + 2) << mant) - (inf ? 0 : 1);
    }
    return sign | r;
}

static uint16_t
to_f16(double v, enum rounding how)
{
    return (uint16_t)round_to(v, 10, -14, 15, how, 0x7fff);
}

static uint16_t
to_bf16(double v, enum rounding how)
{
    return (uint16_t)round_to(v, 7, -126, 127, how, 0x7fff);
}

uint16_t
sg_f64_to_f16(double v)
{
    return to_f16(v, RN);
}

uint16_t
sg_f64_to_bf16(double v)
{
    return to_bf16(v, RN);
}

double
sg_f16_to_f64(uint16_t h)
{
    return (double)lane_f16_f32(h);
}

double
sg_bf16_to_f64(uint16_t h)
{
    return (double)lane_float((uint32_t)h << 16);
}

#define UNI(name, expr)                                                                \
    DEF(name)                                                                          \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return (expr);                                                                 \
    }
/* A half @a of @b, with the sign and the upper payload where that is a NaN. */
static uint64_t
half_nan(uint64_t a, uint64_t b, int mant)
{
    double v = lane_double(b);
    uint64_t payload = b >> (52 - mant) & ((1u << (mant - 1)) - 1);
    uint64_t quiet = 0x7fff & ~((1u << (mant - 1)) - 1);

    return v != v ? (b >> 48 & 0x8000) | quiet | payload : a;
}

DEF(nan_f16)
{
    (void)c;
    return half_nan(a, b, 10);
}

DEF(nan_bf16)
{
    (void)c;
    return half_nan(a, b, 7);
}

DEF(f16_f64_nan)
{
    (void)b, (void)c;
    if ((a & 0x7fff) > 0x7c00)
        return (a & 0x8000) << 48 | 0x7ff8000000000000u | (a & 0x1ff) << 42;
    return lane_bits64(sg_f16_to_f64((uint16_t)a));
}

UNI(f64_f16_rz, to_f16(lane_double(a), RZ))
UNI(f64_f16_rm, to_f16(lane_double(a), RM))
UNI(f64_f16_rp, to_f16(lane_double(a), RP))
UNI(f64_bf16_rz, to_bf16(lane_double(a), RZ))
UNI(f64_bf16_rm, to_bf16(lane_double(a), RM))
UNI(f64_bf16_rp, to_bf16(lane_double(a), RP))

/* tf32: an f32 whose low 13 mantissa bits are zero.  To nearest, ties away from zero,
 * is done with the bits alone: a NaN loses its low ones, and .satfinite, which a card
 * makes of the number below where the result is none, makes a number of some NaN. */
static uint32_t
tf32_away(uint32_t u)
{
    return ((u & 0x7f800000u) == 0x7f800000u ? u : u + 0x1000u) & ~0x1fffu;
}

DEF(f32_tf32_rna)
{
    (void)b, (void)c;
    return tf32_away((uint32_t)a);
}

DEF(f32_tf32_rna_finite)
{
    uint32_t u = tf32_away((uint32_t)a);

    (void)b, (void)c;
    return (u & 0x7f800000u) == 0x7f800000u ? u - 0x2000u : u;
}

DEF(f64_tf32_rn)
{
    uint32_t u = lane_bits32(lane_nan32((float)lane_double(a)));

    (void)b, (void)c;
    if ((u & 0x7f800000u) == 0x7f800000u)
        return u & ~0x1fffu;
    return (u + 0xfffu + (u >> 13 & 1)) & ~0x1fffu;
}

DEF(f64_tf32_rz)
{
    (void)b, (void)c;
    return lane_bits32(lane_nan32((float)lane_double(a))) & ~0x1fffu;
}

typedef double half_fn(double x);

static uint32_t
pair_f16(half_fn *fn, uint64_t a)
{
    return to_f16(fn(sg_f16_to_f64((uint16_t)a)), RN) |
           (uint32_t)to_f16(fn(sg_f16_to_f64((uint16_t)(a >> 16))), RN) << 16;
}

static uint32_t
pair_bf16(half_fn *fn, uint64_t a)
{
    return to_bf16(fn(sg_bf16_to_f64((uint16_t)a)), RN) |
           (uint32_t)to_bf16(fn(sg_bf16_to_f64((uint16_t)(a >> 16))), RN) << 16;
}
UNI(ex2_f16x2, pair_f16(exp2, a))
UNI(ex2_bf16x2, pair_bf16(exp2, a))
UNI(tanh_f16x2, pair_f16(tanh, a))
UNI(tanh_bf16x2, pair_bf16(tanh, a))

/* The sign is the product's, the magnitude the smaller or greater one.  @inf: above it
 * are the NaNs. */
static uint32_t
pair_xorsign(sg_fn *fn, uint64_t a, uint64_t b, uint32_t inf)
{
    uint32_t r = (uint32_t)fn(a & 0x7fff7fffu, b & 0x7fff7fffu, 0);
    uint32_t sign = (uint32_t)(a ^ b) & 0x80008000u;

    if ((r & 0x7fffu) > inf)
        sign &= 0xffff0000u;
    if ((r >> 16 & 0x7fffu) > inf)
        sign &= 0xffffu;
    return r | sign;
}

#define XORSIGN(what, type, inf)                                                       \
    DEF(what##_xorsign_##type)                                                         \
    {                                                                                  \
        (void)c;                                                                       \
        return pair_xorsign(sg_fn_##what##_##type, a, b, inf);                         \
    }
XORSIGN(min, f16x2, 0x7c00)
XORSIGN(max, f16x2, 0x7c00)
XORSIGN(min_nan, f16x2, 0x7c00)
XORSIGN(max_nan, f16x2, 0x7c00)
XORSIGN(min, bf16x2, 0x7f80)
XORSIGN(max, bf16x2, 0x7f80)
XORSIGN(min_nan, bf16x2, 0x7f80)
XORSIGN(max_nan, bf16x2, 0x7f80)

/* Halves whose a or b is what a tensor copy puts outside of its tensor become 0. */
static uint32_t
fma_oob(sg_fn *fn, uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t r = (uint32_t)fn(a, b, c);

    for (int k = 0; k < 32; k += 16)
        if ((a >> k & 0xffff) == SG_OOB_NAN || (b >> k & 0xffff) == SG_OOB_NAN)
            r &= ~(0xffffu << k);
    return r;
}

DEF(fma_oob_f16x2)
{
    return fma_oob(sg_fn_fma_f16x2, a, b, c);
}

DEF(fma_oob_bf16x2)
{
    return fma_oob(sg_fn_fma_bf16x2, a, b, c);
}

uint64_t
sg_atom_half(unsigned what, uint64_t old, uint64_t b)
{
    switch (what) {
    case SG_ATOM_ADD_F16:
        return sg_fn_add_f16x2(old, b, 0) & 0xffff;
    case SG_ATOM_ADD_F16X2:
        return sg_fn_add_f16x2(old, b, 0);
    case SG_ATOM_ADD_BF16:
        return sg_fn_add_bf16x2(old, b, 0) & 0xffff;
    case SG_ATOM_ADD_BF16X2:
        return sg_fn_add_bf16x2(old, b, 0);
    case SG_ATOM_MIN_F16:
        return sg_fn_min_f16x2(old, b, 0) & 0xffff;
    case SG_ATOM_MAX_F16:
        return sg_fn_max_f16x2(old, b, 0) & 0xffff;
    case SG_ATOM_MIN_F16X2:
        return sg_fn_min_f16x2(old, b, 0);
    case SG_ATOM_MAX_F16X2:
        return sg_fn_max_f16x2(old, b, 0);
    case SG_ATOM_MIN_BF16:
        return sg_fn_min_bf16x2(old, b, 0) & 0xffff;
    case SG_ATOM_MAX_BF16:
        return sg_fn_max_bf16x2(old, b, 0) & 0xffff;
    case SG_ATOM_MIN_BF16X2:
        return sg_fn_min_bf16x2(old, b, 0);
    case SG_ATOM_MAX_BF16X2:
        return sg_fn_max_bf16x2(old, b, 0);
    default:
        return old;
    }
}
