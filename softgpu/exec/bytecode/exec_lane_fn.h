/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one lane computes: helpers for the expressions of exec_warp_fn.def.
 *
 * As in exec_lane.h, the compiler can vectorise loops around them, and every build
 * gives the same bits.
 */
#ifndef EXEC_LANE_FN_H
#define EXEC_LANE_FN_H

#include "exec_lane.h"

/* ------------------------------------------------------------------------ halves */

/* The low or the high half of a word as an f32, which holds each exactly. */
#define LANE_LOW_F16(v) lane_f16_f32((v)&0xffff)
#define LANE_HIGH_F16(v) lane_f16_f32((v) >> 16)
#define LANE_LOW_BF16(v) lane_float((v) << 16)
#define LANE_HIGH_BF16(v) lane_float((v)&0xffff0000u)

/* @expr of x, y and z, for both halves of @a, @b and @c, and @round to make a half of
 * it. */
#define LANE_PAIR(name, TYPE, T, round, expr)                                          \
    LANE uint32_t name(uint32_t a, uint32_t b, uint32_t c)                             \
    {                                                                                  \
        uint32_t low, high;                                                            \
        {                                                                              \
            const T x = LANE_LOW_##TYPE(a), y = LANE_LOW_##TYPE(b);                    \
            const T z = LANE_LOW_##TYPE(c);                                            \
            (void)y, (void)z;                                                          \
            low = round(expr);                                                         \
        }                                                                              \
        {                                                                              \
            const T x = LANE_HIGH_##TYPE(a), y = LANE_HIGH_##TYPE(b);                  \
            const T z = LANE_HIGH_##TYPE(c);                                           \
            (void)y, (void)z;                                                          \
            high = round(expr);                                                        \
        }                                                                              \
        return low | high << 16;                                                       \
    }

LANE uint32_t
lane_round_bf16(float v)
{
    return lane_f32_bf16(lane_bits32(v));
}

/* @v to the nearest multiple of 2^(e - @mant), halfway to even, where 2^e is the power
 * of two below it and at least 2^@emin: the digits of a narrower format, without its
 * upper end.  To add and subtract a number whose last place that is rounds once. */
LANE double
lane_digits(double v, uint32_t mant, int emin)
{
    uint64_t e = lane_bits64(v) >> 52 & 0x7ff;
    const uint64_t low = (uint64_t)(1023 + emin);
    double place;

    e = e < low ? low : e;
    e = e > 1023 + 200 ? 1023 + 200 : e; /* far above either format, or no number */
    place = lane_double(((e + 52 - mant) << 52) | 1ull << 51);
    return (v + place) - place;
}

/* The sign comes from @v, for what becomes zero. */
LANE uint32_t
lane_f64_f16(double v)
{
    const uint32_t sign = (uint32_t)(lane_bits64(v) >> 48) & 0x8000u;
    const uint32_t r = lane_f32_f16((float)lane_digits(v, 10, -14));

    return v != v ? 0x7fffu : (r & 0x7fffu) | sign;
}

LANE uint32_t
lane_f64_bf16(double v)
{
    const uint32_t sign = (uint32_t)(lane_bits64(v) >> 48) & 0x8000u;
    const uint32_t r = lane_bits32((float)lane_digits(v, 7, -126)) >> 16;

    return v != v ? 0x7fffu : (r & 0x7fffu) | sign;
}

/* x * y + z rounded to odd, of an exact product: whoever rounds it further rounds once.
 */
LANE float
lane_fma_odd32(float x, float y, float z)
{
    const float p = x * y, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
    const uint32_t u = lane_bits32(s), away = (e > 0) == (s > 0) ? 1 : UINT32_MAX;
    const bool done = e == 0 || (u & 1) || s == 0 || (u & 0x7f800000u) == 0x7f800000u;

    return lane_float(done ? u : u + away);
}

LANE double
lane_fma_odd64(double x, double y, double z)
{
    const double p = x * y, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
    const uint64_t u = lane_bits64(s), away = (e > 0) == (s > 0) ? 1 : UINT64_MAX;
    const uint64_t inf = 0x7ff0000000000000ull;
    const bool done = e == 0 || (u & 1) || s == 0 || (u & inf) == inf;

    return lane_double(done ? u : u + away);
}

/* A NaN in either gives the one NaN. */
LANE float
lane_min_nan32(float a, float b)
{
    return (a != a) | (b != b) ? lane_float(0x7fffffffu) : lane_min32(a, b);
}

LANE float
lane_max_nan32(float a, float b)
{
    return (a != a) | (b != b) ? lane_float(0x7fffffffu) : lane_max32(a, b);
}

LANE float
lane_relu32(float a)
{
    return a != a ? a : a > 0.0f ? a : 0.0f;
}

/* An f32 holds sums and products of f16 well enough to be rounded again: it has more
 * than twice their digits.  Products of bf16 may be below an f32's normal numbers. */
LANE_PAIR(lane_add_f16x2, F16, float, lane_f32_f16, x + y)
LANE_PAIR(lane_sub_f16x2, F16, float, lane_f32_f16, x - y)
LANE_PAIR(lane_mul_f16x2, F16, float, lane_f32_f16, x *y)
LANE_PAIR(lane_fma_f16x2, F16, float, lane_f32_f16, lane_fma_odd32(x, y, z))
LANE_PAIR(lane_min_f16x2, F16, float, lane_f32_f16, lane_min32(x, y))
LANE_PAIR(lane_max_f16x2, F16, float, lane_f32_f16, lane_max32(x, y))
LANE_PAIR(lane_min_nan_f16x2, F16, float, lane_f32_f16, lane_min_nan32(x, y))
LANE_PAIR(lane_max_nan_f16x2, F16, float, lane_f32_f16, lane_max_nan32(x, y))
LANE_PAIR(lane_sat_f16x2, F16, float, lane_f32_f16, lane_sat32(x))
LANE_PAIR(lane_relu_f16x2, F16, float, lane_f32_f16, lane_relu32(x))
LANE_PAIR(lane_add_bf16x2, BF16, float, lane_round_bf16, x + y)
LANE_PAIR(lane_sub_bf16x2, BF16, float, lane_round_bf16, x - y)
LANE_PAIR(lane_mul_bf16x2, BF16, double, lane_f64_bf16, x *y)
LANE_PAIR(lane_fma_bf16x2, BF16, double, lane_f64_bf16, lane_fma_odd64(x, y, z))
LANE_PAIR(lane_min_bf16x2, BF16, float, lane_round_bf16, lane_min32(x, y))
LANE_PAIR(lane_max_bf16x2, BF16, float, lane_round_bf16, lane_max32(x, y))
LANE_PAIR(lane_min_nan_bf16x2, BF16, float, lane_round_bf16, lane_min_nan32(x, y))
LANE_PAIR(lane_max_nan_bf16x2, BF16, float, lane_round_bf16, lane_max_nan32(x, y))
LANE_PAIR(lane_sat_bf16x2, BF16, float, lane_round_bf16, lane_sat32(x))
LANE_PAIR(lane_relu_bf16x2, BF16, float, lane_round_bf16, lane_relu32(x))

/* The sign has no meaning in a NaN, whose negation is the one NaN.  @inf: above it are
 * the NaNs. */
LANE uint32_t
lane_half_sign(uint32_t a, uint32_t inf, bool negate)
{
    const uint32_t mag = a & 0x7fffu;

    return mag > inf ? 0x7fffu : negate ? (a & 0xffffu) ^ 0x8000u : mag;
}

LANE uint32_t
lane_pair_sign(uint32_t a, uint32_t inf, bool negate)
{
    return lane_half_sign(a, inf, negate) | lane_half_sign(a >> 16, inf, negate) << 16;
}

LANE uint32_t
lane_ftz_f16x2(uint32_t a)
{
    a = (a & 0x7c00u) ? a : a & ~0x03ffu;
    return (a & 0x7c000000u) ? a : a & ~0x03ff0000u;
}

/* ------------------------------------------------- floats of 8, 6 and 4 bits */

/* A code is a sign, an exponent and a mantissa as in IEEE 754; above @last there are
 * only NaN, and @inf is infinite, if it is not 0. */
struct lane_narrow {
    uint32_t bits, mant;
    int emin;
    uint32_t max;  /* code of the largest finite value */
    uint32_t nan;  /* what a NaN becomes */
    uint32_t last; /* max: there are no NaN */
    uint32_t inf;
};

#define LANE_E4M3 ((struct lane_narrow){8, 3, -6, 0x7e, 0x7f, 0x7e, 0})
#define LANE_E5M2 ((struct lane_narrow){8, 2, -14, 0x7b, 0x7f, 0x7c, 0x7c})
#define LANE_E2M3 ((struct lane_narrow){6, 3, 0, 0x1f, 0x1f, 0x1f, 0})
#define LANE_E3M2 ((struct lane_narrow){6, 2, -2, 0x1f, 0x1f, 0x1f, 0})
#define LANE_E2M1 ((struct lane_narrow){4, 1, 0, 0x07, 0x07, 0x07, 0})

/* 2^e */
LANE double
lane_power(int e)
{
    return lane_double((uint64_t)(1023 + e) << 52);
}

LANE double
lane_decode(const struct lane_narrow f, uint32_t raw)
{
    const uint64_t sign = (uint64_t)(raw >> (f.bits - 1) & 1) << 63;
    const uint32_t code = raw & ((1u << (f.bits - 1)) - 1);
    const double tiny = (double)(int32_t)code * lane_power(f.emin - (int)f.mant);
    uint64_t u = ((uint64_t)code << (52 - f.mant)) + ((uint64_t)(1022 + f.emin) << 52);

    u = code >> f.mant ? u : lane_bits64(tiny);
    u = code > f.last ? 0x7ff8000000000000u : u;
    u = f.inf && code == f.inf ? 0x7ff0000000000000u : u;
    return lane_double(u | sign);
}

/* Saturating: PTX has no other conversions to them. */
LANE uint32_t
lane_encode(const struct lane_narrow f, double v)
{
    const uint32_t sign = (uint32_t)(lane_bits64(v) >> 63) << (f.bits - 1);
    const double r = __builtin_fabs(lane_digits(v, f.mant, f.emin));
    const bool tiny = r < lane_power(f.emin);
    const double scaled = tiny ? r * lane_power((int)f.mant - f.emin) : 0.0;
    uint32_t code = (uint32_t)(lane_bits64(r) >> (52 - f.mant)) -
                    ((uint32_t)(1022 + f.emin) << f.mant);

    code = tiny ? (uint32_t)(int32_t)scaled : code;
    code = code > f.max ? f.max : code;
    return v != v ? f.nan : code | sign;
}

/* -------------------------------------------------------------------------- 64 bits */

LANE uint64_t
lane_mulhi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

LANE uint64_t
lane_mulhi_s64(int64_t a, int64_t b)
{
    return (uint64_t)(((__int128)a * b) >> 64);
}

LANE uint32_t
lane_clz64(uint64_t a)
{
    const uint32_t high = (uint32_t)(a >> 32), low = (uint32_t)a;

    return high ? lane_clz(high) : 32 + lane_clz(low);
}

/* Position and length are all of the register for 64 bits, as on a card: the ISA
 * restricts them to 255. */
LANE uint64_t
lane_ones64(uint32_t len)
{
    return len > 63 ? UINT64_MAX : (1ull << (len & 63)) - 1;
}

LANE uint64_t
lane_bfe_u64(uint64_t a, uint32_t pos, uint32_t len)
{
    return (pos > 63 ? 0 : a >> (pos & 63)) & lane_ones64(len);
}

LANE uint64_t
lane_bfi_mask64(uint32_t pos, uint32_t len)
{
    return pos > 63 ? 0 : lane_ones64(len) << (pos & 63);
}

/* --------------------------------------------------------------------- conversions */

/* Towards zero, saturating.  NaN gives the top bit. */
LANE uint64_t
lane_f64_s64(double v)
{
    const bool in = v >= -0x1p63 && v < 0x1p63;
    const uint64_t r = (uint64_t)(int64_t)(in ? v : 0.0);

    return v >= 0x1p63 ? INT64_MAX : in ? r : 1ull << 63;
}

LANE uint64_t
lane_f64_u64(double v)
{
    const double in = v > 0.0 && v < 0x1p64 ? v : 0.0;
    const bool top = in >= 0x1p63;
    const uint64_t r = (uint64_t)(int64_t)(top ? in - 0x1p63 : in);

    return v != v ? 1ull << 63 : v >= 0x1p64 ? UINT64_MAX : r ^ (uint64_t)top << 63;
}

LANE uint32_t
lane_f64_s32(double v)
{
    const double low = v < -0x1p31 ? -0x1p31 : v;
    const double in = low > 0x1.fffffffcp30 ? 0x1.fffffffcp30 : low;

    return v != v ? 1u << 31 : (uint32_t)(int32_t)in;
}

LANE uint32_t
lane_f64_u32(double v)
{
    const double low = v > 0.0 ? v : 0.0;
    const double in = low > 0x1.fffffffep31 ? 0x1.fffffffep31 : low;

    return v != v ? 1u << 31 : (uint32_t)(int64_t)in;
}

/* The one NaN of narrower floats, in an f64. */
LANE double
lane_flt_nan(double a, double r)
{
    return a != a ? (double)lane_float(0x7fffffffu) : r;
}

LANE double
lane_sat64(double v)
{
    return v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0; /* NaN and -0 give +0 */
}

/* ------------------------------------------------------------------ approximations */

/* div.approx gives 0 for divisors beyond 2^126, NaN when the dividend is infinite. */
LANE float
lane_div_approx(float x, float y)
{
    const uint32_t ux = lane_bits32(x), uy = lane_bits32(y), mag = uy & 0x7fffffffu;
    const float zero = lane_float((ux ^ uy) & 0x80000000u);
    const bool none = (ux & 0x7f800000u) == 0x7f800000u;

    return mag > 0x7e800000u && mag < 0x7f800000u
               ? none ? lane_float(0x7fffffffu) : zero
               : lane_nan32(x / y);
}

LANE float
lane_rsqrt(float a)
{
    return lane_nan32((float)(1.0 / lane_sqrt64((double)a)));
}

/* log2(m) = 2 / ln 2 * atanh((m - 1) / (m + 1)): the series of atanh(s) / s in s^2, for
 * m between the roots of a half and of two. */
static const double lane_lg2_series[] = {
    0x1.d8be0817f5ffep-4, 0x1.00ecd7e080215p-3, 0x1.1964ec6fc9491p-3,
    0x1.3703c1f4d0ffep-3, 0x1.5b9ac9b743f0dp-3, 0x1.89f3b1694cffep-3,
    0x1.c68f568d31760p-3, 0x1.0c9a84994022dp-2, 0x1.484b13d7c02a9p-2,
    0x1.a61762a7aded9p-2, 0x1.2776c50ef9bfep-1, 0x1.ec709dc3a03fdp-1,
    0x1.71547652b82fep+1};

LANE float
lane_lg2(float a)
{
    const uint64_t u = lane_bits64((double)a), ones = (1ull << 52) - 1;
    const bool upper = (u & ones) > 0x6a09e667f3bcdull; /* above the root of two */
    const uint64_t bias = upper ? 1022 : 1023;
    const double m = lane_double((u & ones) | bias << 52);
    const double e = (double)(int32_t)((uint32_t)(u >> 52 & 0x7ff) - (uint32_t)bias);
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    const float none = lane_float(a == 0 ? 0xff800000u : 0x7fffffffu);
    double p;

    LANE_POLYNOMIAL(p, z, lane_lg2_series);
    return a > 0 ? a < __builtin_inff() ? (float)(e + s * p) : a : none;
}

/* The series of sin(x) / x and of cos(x) in x^2, for up to pi / 4. */
static const double lane_sin_series[] = {
    0x1.952c77030ad4ap-49,  -0x1.ae7f3e733b81fp-41, 0x1.6124613a86d09p-33,
    -0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19,  -0x1.a01a01a01a01ap-13,
    0x1.1111111111111p-7,   -0x1.5555555555555p-3,  0x1.0000000000000p+0};
static const double lane_cos_series[] = {
    0x1.ae7f3e733b81fp-45,  -0x1.93974a8c07c9dp-37, 0x1.1eed8eff8d898p-29,
    -0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16,  -0x1.6c16c16c16c17p-10,
    0x1.5555555555555p-5,   -0x1.0000000000000p-1,  0x1.0000000000000p+0};

/* Angles for lane_sin() and lane_cos(); the others need more of pi. */
LANE bool
lane_angle_fits(float a)
{
    return (lane_bits32(a) & 0x7fffffffu) <= 0x49800000u; /* 2^20 */
}

/* The sine, or after @more quarters of a turn the sine.  Pi / 2 has three parts, of
 * which up to 2^20 times the first two are exact. */
LANE float
lane_sine(float a, int32_t more)
{
    const double x = (double)a, n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    const double r = ((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) -
                     n * 0x1.3198a2e037073p-69;
    const int32_t quarter = (int32_t)n + more;
    const double z = r * r;
    double s, c, v;

    LANE_POLYNOMIAL(s, z, lane_sin_series);
    LANE_POLYNOMIAL(c, z, lane_cos_series);
    v = (quarter & 1) ? c : r * s;
    v = (quarter & 2) ? -v : v;
    return (float)v;
}

LANE float
lane_sin(float a)
{
    return a == 0 ? a : lane_sine(a, 0);
}

LANE float
lane_cos(float a)
{
    return lane_sine(a, 1);
}

/* The series of (e^y - 1) / y, for up to a half. */
static const double lane_expm1_series[] = {
    0x1.ae7f3e733b81fp-41, 0x1.93974a8c07c9dp-37, 0x1.6124613a86d09p-33,
    0x1.1eed8eff8d898p-29, 0x1.ae64567f544e4p-26, 0x1.27e4fb7789f5cp-22,
    0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-13,
    0x1.6c16c16c16c17p-10, 0x1.1111111111111p-7,  0x1.5555555555555p-5,
    0x1.5555555555555p-3,  0x1.0000000000000p-1,  0x1.0000000000000p+0};

/* By q = e^2a - 1, which near zero has a series of its own. */
LANE float
lane_tanh(float a)
{
    const uint32_t u = lane_bits32(a), mag = u & 0x7fffffffu;
    const double x = (double)lane_float(mag), y = x > 20.0 ? 40.0 : 2.0 * x;
    const double turns = y * 0x1.71547652b82fep+0, n = __builtin_rint(turns);
    const uint64_t exponent = (uint64_t)(uint32_t)((int32_t)n + 1023) << 52;
    const double f = turns - n;
    double big, small, q;

    LANE_POLYNOMIAL(big, f, lane_ex2_series);
    LANE_POLYNOMIAL(small, y, lane_expm1_series);
    q = y < 0.5 ? y * small : big * lane_double(exponent) - 1.0;
    return a != a ? lane_float(0x7fffffffu)
                  : lane_float(lane_bits32((float)(q / (q + 2.0))) | (u & 0x80000000u));
}

#endif
