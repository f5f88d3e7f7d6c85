/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cvt to and from floats of 8, 6 and 4 bits.  The reference lists every code's value
 * and picks the nearest; of two equally near ones the even code.
 */
#include "ut_builds.h"
#include "ut_golden.h"

#include <math.h>
#include <string.h>

enum format { E4M3, E5M2, E2M3, E3M2, E2M1, UE8M0 };

static double
as_double(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, 4);
    return (double)f;
}

/* Of a code without its sign; NAN beyond the last. */
static double
value_of(enum format f, unsigned code)
{
    static const struct {
        int mant, bias, last;
    } of[] = {{3, 7, 0x7e}, {2, 15, 0x7b}, {3, 1, 0x1f}, {2, 3, 0x1f}, {1, 1, 7}};
    int exp = (int)(code >> of[f].mant), step = 1 << of[f].mant;
    double frac = (double)(code & (unsigned)(step - 1)) / step;

    if ((int)code > of[f].last)
        return (double)NAN;
    return exp ? ldexp(1 + frac, exp - of[f].bias) : ldexp(frac, 1 - of[f].bias);
}

static unsigned
sign_bit(enum format f)
{
    return f == E2M1 ? 8 : f >= E2M3 ? 0x20 : 0x80;
}

/* The values of a format's codes, NAN behind the last: looked up for every input. */
static const double *
values_of(enum format f)
{
    static double values[E2M1 + 1][129];

    if (values[f][1] == 0)
        for (unsigned code = 0; code < 129; code++)
            values[f][code] = value_of(f, code);
    return values[f];
}

static unsigned
nearest(enum format f, double v)
{
    static const unsigned of_nan[] = {0x7f, 0x7f, 0x1f, 0x1f, 7};
    const double *values = values_of(f);
    unsigned code = 0, sign = signbit(v) ? sign_bit(f) : 0;
    double mag = fabs(v);

    if (isnan(v))
        return of_nan[f];
    for (; !isnan(values[code + 1]); code++) {
        double mid = (values[code] + values[code + 1]) / 2;

        if (mag < mid || (mag == mid && code % 2 == 0))
            break;
    }
    return code | sign;
}

static unsigned
power(double v, bool up, bool sat)
{
    double mag = fabs(v);
    unsigned code = 0;

    if (isnan(v))
        return 0xff;
    if (mag > ldexp(1, -127))
        code = isinf(mag) ? 0xfe : (unsigned)(ilogb(mag) + 127);
    if (code < 0xfe && ldexp(1, (int)code - 127) < mag)
        code++;
    if (ldexp(1, (int)code - 127) < mag) /* above the largest power */
        return up || isinf(mag) ? (sat ? 0xfe : 0xff) : 0xfe;
    if (!up && ldexp(1, (int)code - 127) > mag && code > 0)
        code--;
    return code;
}

/* bits: format | 16: relu */
static uint64_t
from_two_floats(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    enum format f = arg->bits & 15;
    uint64_t r = 0, in[2] = {b, a};

    for (int k = 0; k < 2; k++) {
        double v = as_double((uint32_t)in[k]);
        unsigned code;
        if (f == UE8M0) {
            code = power(v, arg->round == 3, arg->sat);
        } else {
            if ((arg->bits & 16) && v <= 0)
                v = 0;
            code = nearest(f, v);
        }
        r |= (uint64_t)code << ((f == E2M1 ? 4 : 8) * k);
    }
    return r;
}

static double
half_value(unsigned h)
{
    int exp = (int)(h >> 10 & 31);
    unsigned mant = h & 0x3ff;
    double v = exp == 31 ? (mant ? (double)NAN : (double)INFINITY)
               : exp     ? ldexp(1024 + mant, exp - 25)
                         : ldexp(mant, -24);

    return h & 0x8000 ? -v : v;
}

static uint64_t
from_halves(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    enum format f = arg->bits & 15;
    unsigned width = f == E2M1 ? 4 : 8;

    return nearest(f, half_value(a & 0xffff)) | nearest(f, half_value(a >> 16 & 0xffff))
                                                    << width;
}

/* The half whose value is @v; all are exact. */
static unsigned
half_of(double v)
{
    unsigned sign = signbit(v) ? 0x8000 : 0, low = 0, high = 0x7c01;

    if (isnan(v))
        return 0x7fff;
    while (high - low > 1) {
        unsigned mid = (low + high) / 2;

        if (half_value(mid) <= fabs(v))
            low = mid;
        else
            high = mid;
    }
    return half_value(low) == fabs(v) ? low | sign : 0xffff;
}

static uint64_t
to_halves(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    enum format f = arg->bits & 15;
    uint64_t r = 0;

    for (int k = 0; k < 2; k++) {
        unsigned code =
            (unsigned)(a >> ((f == E2M1 ? 4 : 8) * k)) & (2 * sign_bit(f) - 1);
        unsigned mag = code & (sign_bit(f) - 1);
        double v = f == E5M2 && mag == 0x7c ? (double)INFINITY : value_of(f, mag);
        unsigned h = isnan(v) ? 0x7fff : half_of(code & sign_bit(f) ? -v : v);
        if ((arg->bits & 16) && (h & 0x8000))
            h = 0;
        r |= (uint64_t)h << (16 * k);
    }
    return r;
}

/* All values are exact: a bfloat is the upper half of a float. */
static uint64_t
to_bfloats(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    enum format f = arg->bits & 15;
    uint64_t r = 0;

    for (int k = 0; k < 2; k++) {
        unsigned code =
            (unsigned)(a >> ((f == E2M1 ? 4 : 8) * k)) & (2 * sign_bit(f) - 1);
        unsigned mag = code & (sign_bit(f) - 1);
        float v = f == E5M2 && mag == 0x7c ? INFINITY : (float)value_of(f, mag);
        uint32_t word;
        memcpy(&word, &v, 4);
        word = isnan(v) ? 0x7fff : word >> 16 | (code & sign_bit(f) ? 0x8000 : 0);
        r |= (uint64_t)word << (16 * k);
    }
    return r;
}

static uint64_t
powers_to_bfloats(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t r = 0;

    for (int k = 0; k < 2; k++) {
        unsigned code = (unsigned)(a >> (8 * k)) & 0xff;
        unsigned h = code == 0xff ? 0x7fff : code == 0 ? 0x40 : code << 7;
        r |= (uint64_t)h << (16 * k);
    }
    return r;
}

#define TO(f, name)                                                                    \
    {"cvt.rn.satfinite." name ".f32 %d, %a, %b;",                                      \
     {32, 32, 32},                                                                     \
     16,                                                                               \
     from_two_floats,                                                                  \
     {.bits = f},                                                                      \
     .kind = 'f'},                                                                     \
        {"cvt.rn.satfinite.relu." name ".f32 %d, %a, %b;",                             \
         {32, 32, 32},                                                                 \
         16,                                                                           \
         from_two_floats,                                                              \
         {.bits = (f) | 16},                                                           \
         .kind = 'f'},                                                                 \
        {"cvt.rn.satfinite." name ".f16x2 %d, %a;",                                    \
         {32, 32, 32},                                                                 \
         16,                                                                           \
         from_halves,                                                                  \
         {.bits = f},                                                                  \
         .kind = 'h'},                                                                 \
        {"cvt.rn.f16x2." name " %d, %a;",                                              \
         {16, 16, 16},                                                                 \
         32,                                                                           \
         to_halves,                                                                    \
         {.bits = f},                                                                  \
         .kind = 'i'},                                                                 \
    {                                                                                  \
        "cvt.rn.relu.f16x2." name " %d, %a;", {16, 16, 16}, 32, to_halves,             \
            {.bits = (f) | 16}, .kind = 'i'                                            \
    }

#define WIDE(f, name)                                                                  \
    {                                                                                  \
        "cvt.rn.bf16x2." name " %d, %a;", {16, 16, 16}, 32, to_bfloats, {.bits = f},   \
            .kind = 'i'                                                                \
    }

static void
narrow_floats_widen_to_bfloats(void **state)
{
    static const struct golden list[] = {
        WIDE(E4M3, "e4m3x2"), WIDE(E5M2, "e5m2x2"), WIDE(E2M3, "e2m3x2"),
        WIDE(E3M2, "e3m2x2"), WIDE(E2M1, "e2m1x2"),
    };

    GOLDEN_RUN(list);
}

static void
narrow_floats_round_to_nearest_and_saturate(void **state)
{
    static const struct golden list[] = {
        TO(E4M3, "e4m3x2"), TO(E5M2, "e5m2x2"), TO(E2M3, "e2m3x2"),
        TO(E3M2, "e3m2x2"), TO(E2M1, "e2m1x2"),
    };

    GOLDEN_RUN(list);
}

static void
scales_are_powers_of_two(void **state)
{
    static const struct golden list[] = {
        {"cvt.rz.ue8m0x2.f32 %d, %a, %b;",
         {32, 32, 32},
         16,
         from_two_floats,
         {.bits = UE8M0, .round = 1},
         .kind = 'f'},
        {"cvt.rp.ue8m0x2.f32 %d, %a, %b;",
         {32, 32, 32},
         16,
         from_two_floats,
         {.bits = UE8M0, .round = 3},
         .kind = 'f'},
        {"cvt.rp.satfinite.ue8m0x2.f32 %d, %a, %b;",
         {32, 32, 32},
         16,
         from_two_floats,
         {.bits = UE8M0, .round = 3, .sat = true},
         .kind = 'f'},
        {"cvt.rz.satfinite.ue8m0x2.f32 %d, %a, %b;",
         {32, 32, 32},
         16,
         from_two_floats,
         {.bits = UE8M0, .round = 1, .sat = true},
         .kind = 'f'},
        {"cvt.rn.bf16x2.ue8m0x2 %d, %a;",
         {16, 16, 16},
         32,
         powers_to_bfloats,
         .kind = 'i'},
    };

    GOLDEN_RUN(list);
}

/* To tf32: 13 bits fewer.  To halves: the largest value instead of infinity. */
static uint64_t
to_tf32(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t low = a & 0x1fff, up = a & ~UINT64_C(0x1fff), mag = a & 0x7fffffff;

    if (mag > 0x7f800000)
        return 0x7fffe000;
    if (mag == 0x7f800000)
        return arg->sat ? (a & 0x80000000) | 0x7f7fe000 : a;
    if (arg->round == 0 && (low > 0x1000 || (low == 0x1000 && (up & 0x2000))))
        up += 0x2000;
    if (arg->sat && (up & 0x7fffffff) == 0x7f800000)
        up -= 0x2000;
    return up;
}

static uint64_t
to_finite_half(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    double v = as_double((uint32_t)a), mag = fabs(v);
    unsigned h = 0;

    if (isnan(v))
        return 0x7fff;
    while (h < 0x7bff) {
        double mid = (half_value(h) + half_value(h + 1)) / 2;
        if (mag < mid || (mag == mid && h % 2 == 0))
            break;
        h++;
    }
    return h | (signbit(v) ? 0x8000 : 0);
}

static void
satfinite_gives_the_largest_value(void **state)
{
    static const struct golden list[] = {
        {"cvt.rn.tf32.f32 %d, %a;", {32, 32, 32}, 32, to_tf32, .kind = 'f'},
        {"cvt.rz.tf32.f32 %d, %a;",
         {32, 32, 32},
         32,
         to_tf32,
         {.round = 1},
         .kind = 'f'},
        {"cvt.rn.satfinite.tf32.f32 %d, %a;",
         {32, 32, 32},
         32,
         to_tf32,
         {.sat = true},
         .kind = 'f'},
        {"cvt.rn.satfinite.f16.f32 %d, %a;",
         {32, 32, 32},
         16,
         to_finite_half,
         .kind = 'f'},
    };

    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_floats_round_to_nearest_and_saturate),
        cmocka_unit_test(narrow_floats_widen_to_bfloats),
        cmocka_unit_test(scales_are_powers_of_two),
        cmocka_unit_test(satfinite_gives_the_largest_value),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
