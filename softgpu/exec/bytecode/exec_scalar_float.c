/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar float operations: directed rounding, approximations, halves, conversions.
 *
 * Approximations are evaluated in double and rounded once, which is inside every
 * documented bound.  Directed rounding to f32 begins with a sum or product that is
 * exact in two doubles; elsewhere it switches the thread's mode around one volatile
 * operation, because compilers move arithmetic across fesetround().
 */
#include "exec_scalar.h"

#include "exec_lane.h"

#include <fenv.h>
#include <math.h>

#define DEF(name) uint64_t sg_fn_##name(uint64_t a, uint64_t b, uint64_t c)
#define F32(x) lane_float((uint32_t)(x))
#define F64(x) lane_double(x)
#define B32(f) ((uint64_t)lane_bits32(lane_nan32(f)))
#define B64(f) lane_bits64(f)

/* ------------------------------------------------------------ directed rounding */

#define ROUNDED(T, expr)                                                               \
    volatile T r_;                                                                     \
    fesetround(mode);                                                                  \
    r_ = (expr);                                                                       \
    fesetround(FE_TONEAREST);                                                          \
    return r_

#define OP2(name, T, op)                                                               \
    static T name(int mode, T x, T y)                                                  \
    {                                                                                  \
        volatile T vx = x, vy = y;                                                     \
        ROUNDED(T, vx op vy);                                                          \
    }
OP2(div32, float, /)
OP2(add64, double, +)
OP2(sub64, double, -)
OP2(mul64, double, *)
OP2(div64, double, /)

/* hi + lo, of which lo is less than half a place of hi, in the direction @mode: the
 * nearest float, or its neighbour. */
static float
directed(int mode, double hi, double lo)
{
    float f = (float)hi;
    uint32_t bits = lane_bits32(f), sign = bits >> 31;
    bool above = f > hi || (f == hi && lo < 0), below = f < hi || (f == hi && lo > 0);
    bool down = mode == FE_DOWNWARD || (mode == FE_TOWARDZERO && !sign);

    if (down ? above : below)
        bits += down == sign ? 1 : UINT32_MAX;
    return lane_float(bits);
}

/* The sum of two products of floats, or of floats. */
static float
sum32(int mode, double x, double y)
{
    double hi = x + y, part = hi - x, lo = (x - (hi - part)) + (y - part);

    if (hi == 0 && mode == FE_DOWNWARD)
        return signbit(x) || signbit(y) ? -0.0f : 0.0f;
    return directed(mode, hi, lo);
}

static float
add32(int mode, float x, float y)
{
    return sum32(mode, x, y);
}

static float
sub32(int mode, float x, float y)
{
    return sum32(mode, x, -(double)y);
}

static float
mul32(int mode, float x, float y)
{
    return directed(mode, (double)x * y, 0);
}

static float
fma32(int mode, float x, float y, float z)
{
    return sum32(mode, (double)x * y, z);
}

static double
fma64(int mode, double x, double y, double z)
{
    volatile double vx = x, vy = y, vz = z;
    ROUNDED(double, fma(vx, vy, vz));
}

static float
sqrt32(int mode, float x)
{
    volatile float vx = x;
    ROUNDED(float, sqrtf(vx));
}

static double
sqrt64(int mode, double x)
{
    volatile double vx = x;
    ROUNDED(double, sqrt(vx));
}

static float
narrow(int mode, double x)
{
    return directed(mode, x, 0);
}

/* f64 results keep a NaN operand as those of exec_alu.def do. */
#define N64(r) lane_bits64(lane_nan64(r, F64(a), F64(b), F64(c)))
#define N64_2(r) lane_bits64(lane_nan64(r, F64(b), F64(a), F64(a)))
#define N64_3(r) lane_bits64(lane_nan64(r, F64(b), F64(c), F64(a)))

#define DIRECTED(sfx, mode)                                                            \
    DEF(add_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)c;                                                                       \
        return B32(add32(mode, F32(a), F32(b)));                                       \
    }                                                                                  \
    DEF(sub_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)c;                                                                       \
        return B32(sub32(mode, F32(a), F32(b)));                                       \
    }                                                                                  \
    DEF(mul_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)c;                                                                       \
        return B32(mul32(mode, F32(a), F32(b)));                                       \
    }                                                                                  \
    DEF(div_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)c;                                                                       \
        return B32(div32(mode, F32(a), F32(b)));                                       \
    }                                                                                  \
    DEF(fma_f32_##sfx)                                                                 \
    {                                                                                  \
        return B32(fma32(mode, F32(a), F32(b), F32(c)));                               \
    }                                                                                  \
    DEF(rcp_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return B32(div32(mode, 1.0f, F32(a)));                                         \
    }                                                                                  \
    DEF(sqrt_f32_##sfx)                                                                \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return B32(sqrt32(mode, F32(a)));                                              \
    }                                                                                  \
    DEF(add_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64_2(add64(mode, F64(a), F64(b)));                                     \
    }                                                                                  \
    DEF(sub_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64_2(sub64(mode, F64(a), F64(b)));                                     \
    }                                                                                  \
    DEF(mul_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64_2(mul64(mode, F64(a), F64(b)));                                     \
    }                                                                                  \
    DEF(div_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64(div64(mode, F64(a), F64(b)));                                       \
    }                                                                                  \
    DEF(fma_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64_3(fma64(mode, F64(a), F64(b), F64(c)));                             \
    }                                                                                  \
    DEF(rcp_f64_##sfx)                                                                 \
    {                                                                                  \
        return N64(div64(mode, 1.0, F64(a)));                                          \
    }                                                                                  \
    DEF(sqrt_f64_##sfx)                                                                \
    {                                                                                  \
        return N64(sqrt64(mode, F64(a)));                                              \
    }                                                                                  \
    DEF(f64_f32_##sfx)                                                                 \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return lane_bits32(narrow(mode, F64(a)));                                      \
    }
DIRECTED(rz, FE_TOWARDZERO)
DIRECTED(rm, FE_DOWNWARD)
DIRECTED(rp, FE_UPWARD)

/* ---------------------------------------------------------------- approximations */

#define UNI(name, expr)                                                                \
    DEF(name)                                                                          \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return (expr);                                                                 \
    }
#define BIN(name, expr)                                                                \
    DEF(name)                                                                          \
    {                                                                                  \
        (void)c;                                                                       \
        return (expr);                                                                 \
    }

/* The f64 approximations see the high word and deliver a high word.  Subnormal numbers
 * are zeros, and there is one NaN. */
static uint64_t
high_approx(uint64_t a, bool root)
{
    double v = F64(a & 0xffffffff00000000u);

    if (!(a & 0x7ff0000000000000u))
        v = copysign(0.0, v);
    v = 1.0 / (root ? sqrt(v) : v);
    if (v != v)
        return 0x7fffffff00000000u;
    return B64(fabs(v) < 0x1p-1022 ? copysign(0.0, v) : v) & 0xffffffff00000000u;
}
UNI(rcp_approx_f64, high_approx(a, false))
UNI(rsqrt_approx_f64, high_approx(a, true))

/* --------------------------------------------------------------- float odds and ends
 */

UNI(neg_f32, lane_neg32((uint32_t)a))
UNI(abs_f32, lane_abs32((uint32_t)a))
BIN(min_f32, lane_bits32(lane_min32(F32(a), F32(b))))
BIN(max_f32, lane_bits32(lane_max32(F32(a), F32(b))))

static bool
nan32(uint64_t a)
{
    return ((uint32_t)a & 0x7fffffffu) > 0x7f800000u;
}

/* The sign is the product's, the magnitude the smaller or greater one. */
static uint64_t
xorsign(sg_fn *fn, uint64_t a, uint64_t b)
{
    uint64_t r = fn(a & 0x7fffffffu, b & 0x7fffffffu, 0);

    return nan32(r) ? r : (r | ((a ^ b) & 0x80000000u));
}
BIN(min_xorsign_f32, xorsign(sg_fn_min_f32, a, b))
BIN(max_xorsign_f32, xorsign(sg_fn_max_f32, a, b))
BIN(min_nan_xorsign_f32, xorsign(sg_fn_min_nan_f32, a, b))
BIN(max_nan_xorsign_f32, xorsign(sg_fn_max_nan_f32, a, b))

/* Zeros are normal numbers. */
#define TESTP(test, sfx, F, fn) UNI(testp_##test##_##sfx, fn)
TESTP(finite, f32, F32, isfinite(F32(a)))
TESTP(infinite, f32, F32, !!isinf(F32(a)))
TESTP(number, f32, F32, !isnan(F32(a)))
TESTP(notanumber, f32, F32, !!isnan(F32(a)))
TESTP(normal, f32, F32, isnormal(F32(a)) || F32(a) == 0.0f)
TESTP(subnormal, f32, F32, fpclassify(F32(a)) == FP_SUBNORMAL)
TESTP(finite, f64, F64, isfinite(F64(a)))
TESTP(infinite, f64, F64, !!isinf(F64(a)))
TESTP(number, f64, F64, !isnan(F64(a)))
TESTP(notanumber, f64, F64, !!isnan(F64(a)))
TESTP(normal, f64, F64, isnormal(F64(a)) || F64(a) == 0.0)
TESTP(subnormal, f64, F64, fpclassify(F64(a)) == FP_SUBNORMAL)

/* ------------------------------------------------------------------- float <-> int */

/* Towards zero, saturating.  NaN gives the top bit. */
static uint64_t
to_signed(double v, int bits)
{
    double top = ldexp(1.0, bits - 1);

    if (v != v)
        return 1ull << (bits - 1);
    if (v >= top)
        return (1ull << (bits - 1)) - 1;
    if (v < -top)
        return (uint64_t) - (1ll << (bits - 1));
    return (uint64_t)(int64_t)v;
}

static uint64_t
to_unsigned(double v, int bits)
{
    if (v != v)
        return 1ull << (bits - 1);
    if (v >= ldexp(1.0, bits))
        return (1ull << bits) - 1;
    return v <= 0.0 ? 0 : (uint64_t)v;
}
UNI(f64_s8, to_signed(F64(a), 8))
UNI(f64_s16, to_signed(F64(a), 16))
UNI(f64_u8, to_unsigned(F64(a), 8))
UNI(f64_u16, to_unsigned(F64(a), 16))

/* Of narrower floats, whose NaN gives 0 in up to 32 bits. */
#define NUMBER(v) (F64(a) != F64(a) ? 0 : (v))
UNI(flt_s8, NUMBER(to_signed(F64(a), 8)))
UNI(flt_s16, NUMBER(to_signed(F64(a), 16)))
UNI(flt_u8, NUMBER(to_unsigned(F64(a), 8)))
UNI(flt_u16, NUMBER(to_unsigned(F64(a), 16)))

#define FROM_INT(sfx, mode)                                                            \
    static double s64_to_f64_##sfx(int64_t v)                                          \
    {                                                                                  \
        volatile int64_t x = v;                                                        \
        volatile double r;                                                             \
        fesetround(mode);                                                              \
        r = (double)x;                                                                 \
        fesetround(FE_TONEAREST);                                                      \
        return r;                                                                      \
    }                                                                                  \
    static double u64_to_f64_##sfx(uint64_t v)                                         \
    {                                                                                  \
        volatile uint64_t x = v;                                                       \
        volatile double r;                                                             \
        fesetround(mode);                                                              \
        r = (double)x;                                                                 \
        fesetround(FE_TONEAREST);                                                      \
        return r;                                                                      \
    }                                                                                  \
    static float s64_to_f32_##sfx(int64_t v)                                           \
    {                                                                                  \
        volatile int64_t x = v;                                                        \
        volatile float r;                                                              \
        fesetround(mode);                                                              \
        r = (float)x;                                                                  \
        fesetround(FE_TONEAREST);                                                      \
        return r;                                                                      \
    }                                                                                  \
    static float u64_to_f32_##sfx(uint64_t v)                                          \
    {                                                                                  \
        volatile uint64_t x = v;                                                       \
        volatile float r;                                                              \
        fesetround(mode);                                                              \
        r = (float)x;                                                                  \
        fesetround(FE_TONEAREST);                                                      \
        return r;                                                                      \
    }                                                                                  \
    UNI(s64_f64_##sfx, B64(s64_to_f64_##sfx((int64_t)a)))                              \
    UNI(u64_f64_##sfx, B64(u64_to_f64_##sfx(a)))                                       \
    UNI(s64_f32_##sfx, B32(s64_to_f32_##sfx((int64_t)a)))                              \
    UNI(u64_f32_##sfx, B32(u64_to_f32_##sfx(a)))
FROM_INT(rz, FE_TOWARDZERO)
FROM_INT(rm, FE_DOWNWARD)
FROM_INT(rp, FE_UPWARD)

/* Rounded to odd: whoever rounds further to fewer bits, in any direction, rounds once.
 */
static uint64_t
odd(double towards_zero, bool exact)
{
    return lane_bits64(towards_zero) | !exact;
}
UNI(s64_f64_odd,
    odd(s64_to_f64_rz((int64_t)a), (int64_t)s64_to_f64_rz((int64_t)a) == (int64_t)a))
UNI(u64_f64_odd, odd(u64_to_f64_rz(a), (uint64_t)u64_to_f64_rz(a) == a))
