/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one lane computes: helpers for the expressions of exec_alu.def.
 *
 * Written so that the compiler can vectorise the loop around them and so that every
 * build gives the same bits: NaN results are canonical, no contraction, no traps.
 */
#ifndef EXEC_LANE_H
#define EXEC_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANE static inline __attribute__((always_inline))

LANE uint32_t
lane_bits32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

LANE float
lane_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

LANE uint64_t
lane_bits64(double f)
{
    uint64_t u;

    memcpy(&u, &f, 8);
    return u;
}

LANE double
lane_double(uint64_t u)
{
    double f;

    memcpy(&f, &u, 8);
    return f;
}

LANE uint32_t
lane_popc(uint32_t a)
{
    a -= a >> 1 & 0x55555555;
    a = (a & 0x33333333) + (a >> 2 & 0x33333333);
    a = (a + (a >> 4)) & 0x0f0f0f0f;
    return a * 0x01010101 >> 24;
}

/* The bits from the highest that is set downwards, all set. */
LANE uint32_t
lane_smear(uint32_t a)
{
    a |= a >> 1;
    a |= a >> 2;
    a |= a >> 4;
    a |= a >> 8;
    return a | a >> 16;
}

LANE uint32_t
lane_clz(uint32_t a)
{
    return 32 - lane_popc(lane_smear(a));
}

LANE uint32_t
lane_brev(uint32_t a)
{
    a = (a & 0x55555555) << 1 | (a >> 1 & 0x55555555);
    a = (a & 0x33333333) << 2 | (a >> 2 & 0x33333333);
    a = (a & 0x0f0f0f0f) << 4 | (a >> 4 & 0x0f0f0f0f);
    a = (a & 0x00ff00ff) << 8 | (a >> 8 & 0x00ff00ff);
    return a << 16 | a >> 16;
}

/* Position and length of fields are the low byte, as on a card. */
LANE uint32_t
lane_ones(uint32_t len)
{
    return len > 31 ? UINT32_MAX : (1u << (len & 31)) - 1;
}

LANE uint32_t
lane_bfe_u32(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 0xff;
    return (pos > 31 ? 0 : a >> (pos & 31)) & lane_ones(len & 0xff);
}

/* A field that reaches over the top is filled with the sign of the value. */
LANE uint32_t
lane_bfe_s32(uint32_t a, uint32_t pos, uint32_t len)
{
    uint32_t n = len & 0xff;

    pos = (pos & 0xff) > 31 ? 31 : pos & 0xff;
    n = n > 32 - pos ? 32 - pos : n;
    return n ? (uint32_t)((int32_t)(a << ((32 - pos - n) & 31)) >> ((32 - n) & 31)) : 0;
}

LANE uint32_t
lane_bfi_mask(uint32_t pos, uint32_t len)
{
    pos &= 0xff;
    return pos > 31 ? 0 : lane_ones(len & 0xff) << (pos & 31);
}

/* The upper and the lower word of b:a, shifted by the low five bits of @n. */
LANE uint32_t
lane_shf_l(uint32_t a, uint32_t b, uint32_t n)
{
    return b << (n & 31) | a >> 1 >> (~n & 31);
}

LANE uint32_t
lane_shf_r(uint32_t a, uint32_t b, uint32_t n)
{
    return a >> (n & 31) | b << 1 << (~n & 31);
}

/* The byte of b:a that four bits of @sel name, or eight times its sign. */
LANE uint32_t
lane_pick(uint32_t a, uint32_t b, uint32_t sel)
{
    uint32_t byte = ((sel & 4) ? b : a) >> ((sel & 3) * 8) & 0xff;

    return (sel & 8) ? (byte >> 7) * 0xff : byte;
}

LANE uint32_t
lane_prmt(uint32_t a, uint32_t b, uint32_t c)
{
    return lane_pick(a, b, c) | lane_pick(a, b, c >> 4) << 8 |
           lane_pick(a, b, c >> 8) << 16 | lane_pick(a, b, c >> 12) << 24;
}

/* Four products of bytes, signed where @sa and @sb say so. */
LANE uint32_t
lane_dp4a(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (int k = 0; k < 32; k += 8) {
        const uint32_t x = a >> k & 0xff, y = b >> k & 0xff;
        c += (sa ? (uint32_t)(int32_t)(int8_t)x : x) *
             (sb ? (uint32_t)(int32_t)(int8_t)y : y);
    }
    return c;
}

/* A quotient of 32 bits is exact in 53.  Division by zero gives all ones and leaves the
 * dividend. */
LANE uint32_t
lane_quotient_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((double)a / (double)(b ? b : 1));
}

LANE uint32_t
lane_quotient_s32(int32_t a, int32_t b)
{
    return (uint32_t)(int64_t)((double)a / (double)(b ? b : 1));
}

/* f32 results that are NaN are this one NaN. */
LANE float
lane_nan32(float r)
{
    return lane_float(r != r ? 0x7fffffffu : lane_bits32(r));
}

/* The sign has no meaning in a NaN of f32, whose negation is the one NaN. */
LANE uint32_t
lane_neg32(uint32_t a)
{
    return (a & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : a ^ 0x80000000u;
}

LANE uint32_t
lane_abs32(uint32_t a)
{
    return (a & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : a & 0x7fffffffu;
}

/* A NaN of f64 becomes quiet and keeps its sign. */
LANE uint64_t
lane_sign64(uint64_t a, uint64_t r)
{
    bool nan = (a & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;

    return nan ? a | 0x0008000000000000ull : r;
}

/* f64 keeps the payload of the first NaN among @a, @b and @c, made quiet.  A card looks
 * at b, c and a in this order, in a division at the dividend first. */
LANE double
lane_nan64(double r, double a, double b, double c)
{
    const uint64_t quiet = 0x0008000000000000ull;
    uint64_t nan = c != c ? lane_bits64(c) | quiet : 0xfff8000000000000ull;

    nan = b != b ? lane_bits64(b) | quiet : nan;
    nan = a != a ? lane_bits64(a) | quiet : nan;
    return lane_double(r != r ? nan : lane_bits64(r));
}

LANE float
lane_ftz(float a)
{
    uint32_t u = lane_bits32(a);

    return lane_float((u & 0x7f800000u) ? u : u & 0x80000000u);
}

LANE float
lane_fma32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

LANE double
lane_fma64(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

LANE float
lane_sqrt32(float a)
{
    return __builtin_sqrtf(a);
}

LANE double
lane_sqrt64(double a)
{
    return __builtin_sqrt(a);
}

/* One NaN gives the other operand, two of f32 the canonical one and of f64 the second,
 * made quiet; -0 < +0. */
LANE float
lane_min32(float a, float b)
{
    uint32_t ua = lane_bits32(a), ub = lane_bits32(b);
    uint32_t r = a < b ? ua : ub;

    r = a == b ? ua | ub : r;
    r = a != a ? ub : r;
    r = b != b ? ua : r;
    r = ((a != a) & (b != b)) ? 0x7fffffffu : r;
    return lane_float(r);
}

LANE float
lane_max32(float a, float b)
{
    uint32_t ua = lane_bits32(a), ub = lane_bits32(b);
    uint32_t r = a > b ? ua : ub;

    r = a == b ? ua & ub : r;
    r = a != a ? ub : r;
    r = b != b ? ua : r;
    r = ((a != a) & (b != b)) ? 0x7fffffffu : r;
    return lane_float(r);
}

LANE double
lane_min64(double a, double b)
{
    uint64_t ua = lane_bits64(a), ub = lane_bits64(b);
    uint64_t r = a < b ? ua : ub;

    r = a == b ? ua | ub : r;
    r = a != a ? ub : r;
    r = b != b ? ua : r;
    r = ((a != a) & (b != b)) ? ub | 0x0008000000000000ull : r;
    return lane_double(r);
}

LANE double
lane_max64(double a, double b)
{
    uint64_t ua = lane_bits64(a), ub = lane_bits64(b);
    uint64_t r = a > b ? ua : ub;

    r = a == b ? ua & ub : r;
    r = a != a ? ub : r;
    r = b != b ? ua : r;
    r = ((a != a) & (b != b)) ? ub | 0x0008000000000000ull : r;
    return lane_double(r);
}

/* Clamp to [0, 1]; NaN and -0 give +0. */
LANE float
lane_sat32(float a)
{
    float r = a > 0.0f ? a : 0.0f;

    return r > 1.0f ? 1.0f : r;
}

/* Float to integer rounds towards zero, saturates, NaN gives 0. */
LANE int32_t
lane_f32_s32(float a)
{
    float in = a >= 2147483648.0f || a < -2147483648.0f || a != a ? 0.0f : a;
    int32_t r = (int32_t)in;

    r = a >= 2147483648.0f ? INT32_MAX : r;
    return a < -2147483648.0f ? INT32_MIN : r;
}

LANE uint32_t
lane_f32_u32(float a)
{
    float in = a > 0.0f && a < 4294967296.0f ? a : 0.0f;
    float low = in >= 2147483648.0f ? in - 2147483648.0f : in;
    uint32_t r = (uint32_t)(int32_t)low;

    r = in >= 2147483648.0f ? r + 0x80000000u : r;
    return a >= 4294967296.0f ? UINT32_MAX : r;
}

/* Exact; subnormals by a multiplication that cannot round. */
LANE float
lane_f16_f32(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, mag = h & 0x7fffu;
    uint32_t normal = (mag << 13) + 0x38000000u;
    uint32_t special = (mag << 13) | 0x7f800000u;
    uint32_t tiny = lane_bits32((float)(int32_t)mag * 0x1p-24f);
    uint32_t r = mag >= 0x0400u ? normal : tiny;

    r = mag >= 0x7c00u ? special : r;
    r = mag > 0x7c00u ? 0x7fffffffu : r | sign;
    return lane_float(r);
}

/* @r becomes the polynomial of @x with these coefficients, the highest first. */
#define LANE_POLYNOMIAL(r, x, coefficients)                                            \
    do {                                                                               \
        (r) = (coefficients)[0];                                                       \
        _Pragma("GCC unroll 16") for (unsigned k_ = 1;                                 \
                                      k_ < sizeof(coefficients) / sizeof(double);      \
                                      k_++)(r) = (r) * (x) + (coefficients)[k_];       \
    } while (0)

/* The series of 2^f around 0, log(2)^k / k!, from its thirteenth term down.  Of numbers
 * up to a half what follows is below a double's precision. */
static const double lane_ex2_series[] = {
    0x1.816193166d0f9p-40, 0x1.c3bd650fc2986p-36, 0x1.e8cac7351bb25p-32,
    0x1.e4cf5158b8ecap-28, 0x1.b5253d395e7c4p-24, 0x1.62c0223a5c824p-20,
    0x1.ffcbfc588b0c7p-17, 0x1.430912f86c787p-13, 0x1.5d87fe78a6731p-10,
    0x1.3b2ab6fba4e77p-7,  0x1.c6b08d704a0c0p-5,  0x1.ebfbdff82c58fp-3,
    0x1.62e42fefa39efp-1,  0x1.0000000000000p+0};

/* 2^a, in double precision and rounded once. */
LANE float
lane_ex2(float a)
{
    const double x = a != a ? 0.0 : a > 200.0f ? 200.0 : a < -200.0f ? -200.0 : a;
    const double n = __builtin_rint(x), f = x - n;
    const uint64_t exponent = (uint64_t)(uint32_t)((int32_t)n + 1023) << 52;
    double p;

    LANE_POLYNOMIAL(p, f, lane_ex2_series);
    return a != a ? lane_float(0x7fffffff) : (float)(p * lane_double(exponent));
}

/* To the nearest half, halfway to even.  What is below the normal ones is a multiple of
 * 2^-24, as it is in a float between a half and one. */
LANE uint32_t
lane_f32_f16(float f)
{
    uint32_t u = lane_bits32(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    uint32_t normal = (mag + 0xfffu + (mag >> 13 & 1u) - 0x38000000u) >> 13;
    uint32_t tiny = lane_bits32(lane_float(mag) + 0.5f) - 0x3f000000u;
    uint32_t r = mag < 0x38800000u ? tiny : normal;

    r = mag >= 0x47800000u ? 0x7c00u : r;
    return mag > 0x7f800000u ? 0x7fffu : r | sign;
}

LANE uint32_t
lane_f32_bf16(uint32_t u)
{
    uint32_t r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;

    return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r;
}

#endif
