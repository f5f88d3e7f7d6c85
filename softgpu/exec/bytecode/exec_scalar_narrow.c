/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats of 8, 6 and 4 bits, one lane at a time, beyond what is computed over whole
 * warps (exec_lane_fn.h): powers of two (ue8m0), clamps, rounding by random bits.
 */
#include "exec_lane.h"
#include "exec_scalar.h"

#include <math.h>

#define DEF(name) uint64_t sg_fn_##name(uint64_t a, uint64_t b, uint64_t c)

/* 2^(code - 127); the sign does not count. */
DEF(ue8m0_f64)
{
    (void)b, (void)c;
    a &= 0xff;
    return lane_bits64(a == 0xff ? (double)NAN : ldexp(1.0, (int)a - 127));
}

static uint64_t
to_ue8m0(uint64_t a, bool up, bool saturate)
{
    double v = fabs(lane_double(a)), m;
    int e;

    if (v != v)
        return 0xff;
    if (v > 0x1p127 && (v == (double)INFINITY || up))
        return saturate ? 0xfe : 0xff;
    if (v <= 0x1p-127)
        return 0;
    m = frexp(v, &e); /* v = m * 2^e, m in [0.5, 1) */
    return (uint64_t)(e - 1 + 127 + (up && m > 0.5));
}

#define UE8M0(name, up, saturate)                                                      \
    DEF(name)                                                                          \
    {                                                                                  \
        (void)b, (void)c;                                                              \
        return to_ue8m0(a, up, saturate);                                              \
    }
UE8M0(f64_ue8m0_rz, false, false)
UE8M0(f64_ue8m0_rp, true, false)
UE8M0(f64_ue8m0_rz_sat, false, true)
UE8M0(f64_ue8m0_rp_sat, true, true)

/* What .satfinite does before rounding to a format whose largest value this is: every
 * value that would round beyond it becomes it. */
#define CLAMP(name, max)                                                               \
    DEF(name)                                                                          \
    {                                                                                  \
        double v = lane_double(a);                                                     \
        (void)b, (void)c;                                                              \
        return lane_bits64(v > (max) ? (max) : v < -(max) ? -(max) : v);               \
    }
CLAMP(f64_clamp_f16, 65504.0)
CLAMP(f64_clamp_bf16, 0x1.fep127)
CLAMP(f64_clamp_tf32, 0x1.ffcp127)

/* -------------------------------------------------------------- stochastic rounding */

/* The code of |f32| with @n random bits added below the last kept one, then cut. */
static uint32_t
stochastic(uint32_t f, int mant, int emin, int n, uint32_t random)
{
    int exp = (int)(f >> 23 & 0xff), drop;
    uint64_t frac = f & 0x7fffff;

    frac |= exp ? 1u << 23 : 0;
    exp = (exp ? exp : 1) - 127;
    drop = 23 - mant + (exp < emin ? emin - exp : 0);
    if (drop > 40)
        return 0;
    frac += drop >= n ? (uint64_t)random << (drop - n) : random >> (n - drop);
    frac >>= drop;
    return exp < emin ? (uint32_t)frac
                      : ((uint32_t)(exp - emin) << mant) + (uint32_t)frac;
}

struct random_format {
    uint8_t sign, mant; /* where the sign is, bits of the mantissa */
    int16_t emin;
    uint16_t max, inf, nan; /* inf: there is none when it is max */
    uint8_t n_random;
};

static uint32_t
round_random(const struct random_format *f, uint64_t a, uint64_t random, uint64_t flags)
{
    uint32_t bits = (uint32_t)a, sign = bits >> 31, mag = bits & 0x7fffffffu, code;

    if (mag > 0x7f800000u)
        return f->nan;
    if (sign && (flags & SG_RS_RELU))
        return 0;
    code = stochastic(mag, f->mant, f->emin, f->n_random,
                      (uint32_t)random & ((1u << f->n_random) - 1));
    if (mag == 0x7f800000u || code > f->max)
        code = flags & SG_RS_SATFINITE ? f->max : f->inf;
    return code | sign << f->sign;
}

#define RANDOM(name, ...)                                                              \
    DEF(rs_##name)                                                                     \
    {                                                                                  \
        static const struct random_format format = {__VA_ARGS__};                      \
        return round_random(&format, a, b, c);                                         \
    }
RANDOM(f16, 15, 10, -14, 0x7bff, 0x7c00, 0x7fff, 13)
RANDOM(bf16, 15, 7, -126, 0x7f7f, 0x7f80, 0x7fff, 16)
RANDOM(e4m3, 7, 3, -6, 0x7e, 0x7e, 0x7f, 16)
RANDOM(e5m2, 7, 2, -14, 0x7b, 0x7b, 0x7f, 16)
RANDOM(e2m3, 5, 3, 0, 0x1f, 0x1f, 0x1f, 16)
RANDOM(e3m2, 5, 2, -2, 0x1f, 0x1f, 0x1f, 16)
RANDOM(e2m1, 3, 1, 0, 0x07, 0x07, 0x07, 16)
