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

#endif
