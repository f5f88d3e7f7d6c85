/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numerics of the software GPU, measured: the largest error of every approximate
 * operation against the host's long double, and every value of the two half formats
 * through what must be exact, against the integer arithmetic of sg_ref.h.
 *
 * Prints the table that docs/softgpu.md shows; fails where a documented bound of the
 * PTX ISA is left.  NUMERICS_SAMPLES=N: arguments of each operation (65,536).
 */
#include "sg_ref.h"
#include "ut_sgx.h"

#include "gp_base.h"
#include "ut.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256u
#define PI 3.14159265358979323846L

/* Two 64-bit inputs per thread, one 64-bit result. */
static const char head[] = UT_SGX_HEAD
    ".visible .entry k(.param .u64 a, .param .u64 o)\n{\n"
    ".reg .b16 %h<5>;.reg .b32 %r<8>;.reg .b64 %rd<10>;.reg .f32 %f<5>;"
    ".reg .f64 %d<5>;\n"
    "mov.u32 %r5, %tid.x; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r5, %r6, 256, %r5;\n"
    "ld.param.u64 %rd5, [a]; ld.param.u64 %rd6, [o];\n"
    "mul.wide.u32 %rd7, %r5, 16; add.u64 %rd5, %rd5, %rd7;\n"
    "mul.wide.u32 %rd8, %r5, 8; add.u64 %rd6, %rd6, %rd8;\n"
    "ld.global.u64 %rd1, [%rd5]; ld.global.u64 %rd2, [%rd5+8];\n"
    "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; mov.b32 %f1, %r1; mov.b32 %f2, "
    "%r2;\n"
    "cvt.u16.u64 %h1, %rd1; cvt.u16.u64 %h2, %rd2; mov.b64 %d1, %rd1;\n";
static const char *const tails[] = {
    [16] = "cvt.u64.u16 %rd4, %h4; st.global.u64 [%rd6], %rd4; ret;\n}\n",
    [32] = "mov.b32 %r4, %f4; cvt.u64.u32 %rd4, %r4; st.global.u64 [%rd6], %rd4; ret;\n"
           "}\n",
    [64] = "mov.b64 %rd4, %d4; st.global.u64 [%rd6], %rd4; ret;\n}\n",
};

static uint32_t
samples(void)
{
    const char *ask = getenv("NUMERICS_SAMPLES");
    unsigned long n = ask ? strtoul(ask, NULL, 10) : 65536;

    return (uint32_t)GP_ALIGN_UP(gp_min(gp_max(n, 256ul), 1ul << 26), 65536ul);
}

static void
evaluate(const char *insn, int bits, const uint64_t *in, uint64_t *out, uint32_t n)
{
    char text[4096];
    struct ut_sgx u;
    uint64_t *a, *o;

    snprintf(text, sizeof(text), "%s%s\n%s", head, insn, tails[bits]);
    ut_sgx_open(&u, text);
    a = ut_sgx_buf(&u, (size_t)n * 16);
    o = ut_sgx_buf(&u, (size_t)n * 8);
    memcpy(a, in, (size_t)n * 16);
    ut_sgx_param(&u, 0, (uintptr_t)a);
    ut_sgx_param(&u, 1, (uintptr_t)o);
    ut_sgx_shape(&u, n / BLOCK, BLOCK);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    memcpy(out, o, (size_t)n * 8);
    ut_sgx_close(&u);
}

static long double
value_of(const struct ref_fmt *fmt, uint64_t bits)
{
    struct ref_num num = ref_unpack(fmt, bits);
    long double v = num.class == REF_NAN   ? (long double)NAN
                    : num.class == REF_INF ? (long double)INFINITY
                                           : ldexpl((long double)num.m, num.e);

    return num.neg ? -v : v;
}

/* ------------------------------------------------------------- approximations */

enum bound_kind { BOUND_ULP, BOUND_REL, BOUND_ABS };

struct approx {
    const char *name, *insn;
    const struct ref_fmt *fmt;
    long double lo, hi; /* arguments; hi 0: every positive normal number */
    long double (*fn)(long double a, long double b);
    enum bound_kind kind;
    long double bound;
    const char *words; /* how the PTX ISA says it */
};

#define FN1(name, expr)                                                                \
    static long double name(long double a, long double b)                              \
    {                                                                                  \
        (void)b;                                                                       \
        return expr;                                                                   \
    }
FN1(do_ex2, exp2l(a))
FN1(do_lg2, log2l(a))
FN1(do_sin, sinl(a))
FN1(do_cos, cosl(a))
FN1(do_tanh, tanhl(a))
FN1(do_rcp, 1 / a)
FN1(do_sqrt, sqrtl(a))
FN1(do_rsqrt, 1 / sqrtl(a))
FN1(do_div, a / b)

#define F32(op) #op ".f32 %f4, %f1;"
#define F16(op) #op ".f16 %h4, %h1;"
#define BF16(op) #op ".bf16 %h4, %h1;"
#define F64(op) #op ".f64 %d4, %d1;"

static const struct approx table[] = {
    {"ex2.approx.f32", F32(ex2.approx), &ref_f32, -126, 128, do_ex2, BOUND_ULP, 2,
     "2 ulp"},
    {"lg2.approx.f32, (1/2, 2)", F32(lg2.approx), &ref_f32, 0.5L, 2, do_lg2, BOUND_ABS,
     0x1p-22L, "2^-22 absolute"},
    {"lg2.approx.f32, above 2", F32(lg2.approx), &ref_f32, 2, 1e6L, do_lg2, BOUND_REL,
     0x1p-22L, "2^-22 relative"},
    {"lg2.approx.f32", F32(lg2.approx), &ref_f32, 0, 0, do_lg2, BOUND_ULP, 4, ""},
    {"sin.approx.f32, 2 pi", F32(sin.approx), &ref_f32, -2 * PI, 2 * PI, do_sin,
     BOUND_ABS, 0x1.6ap-21L, "2^-20.5 absolute"},
    {"sin.approx.f32, 100 pi", F32(sin.approx), &ref_f32, -100 * PI, 100 * PI, do_sin,
     BOUND_ABS, 0x1.3bp-15L, "2^-14.7 absolute"},
    {"cos.approx.f32, 2 pi", F32(cos.approx), &ref_f32, -2 * PI, 2 * PI, do_cos,
     BOUND_ABS, 0x1.6ap-21L, "2^-20.5 absolute"},
    {"cos.approx.f32, 100 pi", F32(cos.approx), &ref_f32, -100 * PI, 100 * PI, do_cos,
     BOUND_ABS, 0x1.3bp-15L, "2^-14.7 absolute"},
    {"tanh.approx.f32", F32(tanh.approx), &ref_f32, -10, 10, do_tanh, BOUND_REL,
     0x1p-11L, "2^-11 relative"},
    {"rcp.approx.f32", F32(rcp.approx), &ref_f32, -1e6L, 1e6L, do_rcp, BOUND_ULP, 1,
     "1 ulp"},
    {"sqrt.approx.f32", F32(sqrt.approx), &ref_f32, 0, 0, do_sqrt, BOUND_REL, 0x1p-23L,
     "2^-23 relative"},
    {"rsqrt.approx.f32", F32(rsqrt.approx), &ref_f32, 0, 0, do_rsqrt, BOUND_REL,
     0x1.12p-23L, "2^-22.9 relative"},
    {"div.approx.f32", "div.approx.f32 %f4, %f1, %f2;", &ref_f32, -1e6L, 1e6L, do_div,
     BOUND_ULP, 2, "2 ulp"},
    {"div.full.f32", "div.full.f32 %f4, %f1, %f2;", &ref_f32, -1e6L, 1e6L, do_div,
     BOUND_ULP, 2, "2 ulp"},
    {"ex2.approx.f16", F16(ex2.approx), &ref_f16, -14, 15.9L, do_ex2, BOUND_REL,
     0x1.12p-10L, "2^-9.9 relative"},
    {"tanh.approx.f16", F16(tanh.approx), &ref_f16, -65504, 65504, do_tanh, BOUND_ABS,
     0x1.02p-11L, "2^-10.987 absolute"},
    {"ex2.approx.ftz.bf16", BF16(ex2.approx.ftz), &ref_bf16, -126, 127.9L, do_ex2,
     BOUND_REL, 0x1p-7L, "2^-7 relative"},
    {"tanh.approx.bf16", BF16(tanh.approx), &ref_bf16, -1e30L, 1e30L, do_tanh,
     BOUND_ABS, 0x1p-8L, "2^-8 absolute"},
    {"rcp.approx.ftz.f64", F64(rcp.approx.ftz), &ref_f64, -1e6L, 1e6L, do_rcp,
     BOUND_REL, 0x1p-20L, "20 bits of fraction"},
    {"rsqrt.approx.ftz.f64", F64(rsqrt.approx.ftz), &ref_f64, 0, 0, do_rsqrt, BOUND_REL,
     0x1p-20L, "20 bits of fraction"},
    {"rsqrt.approx.f64", F64(rsqrt.approx), &ref_f64, 0, 0, do_rsqrt, BOUND_ULP, 2, ""},
};

static uint64_t
noise(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* An argument: halves one after the other, the wider formats at random. */
static uint64_t
argument(const struct approx *a, uint32_t i, uint64_t *seed)
{
    uint64_t z = noise(seed);
    long double x;
    double d;
    float f;

    if (a->fmt->bits == 16)
        return i & 0xffff;
    if (a->hi == 0 && a->fmt->bits == 32)
        return 0x00800000u + z % (0x7f800000u - 0x00800000u);
    if (a->hi == 0)
        return (1ull << 52) + z % ((0x7ffull - 1) << 52);
    x = a->lo + (a->hi - a->lo) * ((long double)(z >> 11) * 0x1p-53L);
    f = (float)x;
    d = (double)x;
    if (a->fmt->bits == 64)
        memcpy(&z, &d, 8);
    else
        memcpy(&z, &f, 4), z &= UINT32_MAX;
    return z;
}

static long double
ulp_of(const struct ref_fmt *fmt, long double want)
{
    int e = want == 0 ? fmt->emin : ilogbl(want);

    return ldexpl(1, gp_max(e, fmt->emin) - (fmt->precision - 1));
}

struct errors {
    long double ulp, rel, abs;
    uint32_t n;
};

static void
note_error(const struct approx *a, uint64_t x, uint64_t y, uint64_t got,
           struct errors *e)
{
    long double vx = value_of(a->fmt, x), vy = value_of(a->fmt, y), want, off;

    if (!(vx >= a->lo && vx <= a->hi) && a->hi != 0)
        return;
    want = a->fn(vx, vy);
    if (!isfinite(want) || fabsl(want) > ldexpl(1, a->fmt->emax) ||
        (want != 0 && fabsl(want) < ldexpl(1, a->fmt->emin)))
        return; /* overflows, or is subnormal, which some forms flush */
    off = fabsl(value_of(a->fmt, got) - want);
    e->n++;
    if (!(off <= 1e300L)) /* NaN or infinite: wrong by any measure */
        off = 1e300L;
    e->ulp = fmaxl(e->ulp, off / ulp_of(a->fmt, want));
    e->rel = want == 0 ? e->rel : fmaxl(e->rel, off / fabsl(want));
    e->abs = fmaxl(e->abs, off);
}

static bool
measure(const struct approx *a)
{
    uint32_t n = a->fmt->bits == 16 ? 65536 : samples();
    uint64_t *in = calloc(n, 16), *out = calloc(n, 8), seed = 7;
    struct errors e = {0};
    long double found;

    assert_true(in && out);
    for (uint32_t i = 0; i < n; i++) {
        in[2 * i] = argument(a, i, &seed);
        in[2 * i + 1] = argument(a, i, &seed);
    }
    evaluate(a->insn, a->fmt->bits, in, out, n);
    for (uint32_t i = 0; i < n; i++)
        note_error(a, in[2 * i], in[2 * i + 1], out[i], &e);
    free(in);
    free(out);
    found = a->kind == BOUND_ULP ? e.ulp : a->kind == BOUND_REL ? e.rel : e.abs;
    printf("| %-24s | %8u | %8.4Lf | 2^%-7.2Lf | 2^%-7.2Lf | %-19s |%s\n", a->name, e.n,
           e.ulp, log2l(e.rel), log2l(e.abs), a->words,
           found <= a->bound && e.n ? "" : " LEFT");
    return found <= a->bound && e.n;
}

static void
approximations_stay_within_the_documented_bounds(void **state)
{
    unsigned bad = 0;

    (void)state;
    printf("| %-24s | %8s | %8s | %9s | %9s | %-19s |\n", "operation", "values", "ulp",
           "relative", "absolute", "documented bound");
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        bad += !measure(&table[i]);
    assert_int_equal(bad, 0);
}

/* ------------------------------------------------------ every value of a half */

struct exact {
    const char *insn;
    const struct ref_fmt *from, *to;
    enum ref_round round;
};

#define TO_F32(t) "cvt.f32." t " %f4, %h1;"
#define FROM_F32(r, t) "cvt." r "." t ".f32 %h4, %f1;"

static const struct exact conversions[] = {
    {TO_F32("f16"), &ref_f16, &ref_f32, REF_RN},
    {TO_F32("bf16"), &ref_bf16, &ref_f32, REF_RN},
    {FROM_F32("rn", "f16"), &ref_f32, &ref_f16, REF_RN},
    {FROM_F32("rz", "f16"), &ref_f32, &ref_f16, REF_RZ},
    {FROM_F32("rn", "bf16"), &ref_f32, &ref_bf16, REF_RN},
    {FROM_F32("rz", "bf16"), &ref_f32, &ref_bf16, REF_RZ},
};

/* From f32: all 65,536 high halves, each with a low half that puts it near a tie. */
static uint64_t
exact_input(const struct exact *x, uint32_t i)
{
    static const uint16_t low[] = {0,      1,      0x7fff, 0x8000,
                                   0x8001, 0xffff, 0x1000, 0x1001};

    if (x->from->bits == 16)
        return i & 0xffff;
    return (uint64_t)(i & 0xffff) << 16 | low[i >> 16 & 7];
}

static void
every_half_converts_exactly(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(conversions); k++) {
        const struct exact *x = &conversions[k];
        uint32_t n = x->from->bits == 16 ? 65536 : 8 * 65536;
        uint64_t *in = calloc(n, 16), *out = calloc(n, 8);
        assert_true(in && out);
        for (uint32_t i = 0; i < n; i++)
            in[2 * i] = exact_input(x, i);
        evaluate(x->insn, x->to->bits, in, out, n);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t want = ref_pack(x->to, ref_unpack(x->from, in[2 * i]), x->round);
            bool nan = ref_is_nan(x->to, want) && ref_is_nan(x->to, out[i]);
            if (out[i] != want && !nan)
                fail_msg("%s of 0x%llx: 0x%llx, not 0x%llx", x->insn,
                         (unsigned long long)in[2 * i], (unsigned long long)out[i],
                         (unsigned long long)want);
        }
        free(in);
        free(out);
    }
}

struct binary {
    const char *insn;
    const struct ref_fmt *fmt;
    char op;
};

static const struct binary binaries[] = {
    {"add.rn.f16 %h4, %h1, %h2;", &ref_f16, '+'},
    {"sub.rn.f16 %h4, %h1, %h2;", &ref_f16, '-'},
    {"mul.rn.f16 %h4, %h1, %h2;", &ref_f16, '*'},
    {"fma.rn.f16 %h4, %h1, %h2, %h1;", &ref_f16, 'f'},
    {"add.rn.bf16 %h4, %h1, %h2;", &ref_bf16, '+'},
    {"sub.rn.bf16 %h4, %h1, %h2;", &ref_bf16, '-'},
    {"mul.rn.bf16 %h4, %h1, %h2;", &ref_bf16, '*'},
    {"fma.rn.bf16 %h4, %h1, %h2, %h1;", &ref_bf16, 'f'},
};

static uint64_t
binary_want(const struct binary *b, uint64_t x, uint64_t y)
{
    struct ref_num nx = ref_unpack(b->fmt, x), ny = ref_unpack(b->fmt, y), r;

    if (b->op == '-')
        ny.neg = !ny.neg;
    if (b->op == '*')
        r = ref_mul(nx, ny);
    else if (b->op == 'f')
        r = ref_add(ref_mul(nx, ny), nx, REF_RN);
    else
        r = ref_add(nx, ny, REF_RN);
    return ref_pack(b->fmt, r, REF_RN);
}

/* Every value with partners that make ties, cancel, overflow and go subnormal. */
static void
every_half_computes_exactly(void **state)
{
    static const uint16_t partners[] = {0x0000, 0x8000, 0x0001, 0x3c00, 0x3c01, 0x3555,
                                        0xbbff, 0x7bff, 0x0400, 0x7c00, 0x7e01, 0x3f80,
                                        0x3f81, 0x7f7f, 0x0080, 0xc2ab};
    const uint32_t n = 65536 * ARRAY_SIZE(partners);
    uint64_t *in = calloc(n, 16), *out = calloc(n, 8);

    (void)state;
    assert_true(in && out);
    for (uint32_t i = 0; i < n; i++) {
        in[2 * i] = i & 0xffff;
        in[2 * i + 1] = partners[i >> 16];
    }
    for (size_t k = 0; k < ARRAY_SIZE(binaries); k++) {
        evaluate(binaries[k].insn, 16, in, out, n);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t want = binary_want(&binaries[k], in[2 * i], in[2 * i + 1]);
            if (out[i] != want)
                fail_msg("%s of 0x%llx, 0x%llx: 0x%llx, not 0x%llx", binaries[k].insn,
                         (unsigned long long)in[2 * i],
                         (unsigned long long)in[2 * i + 1], (unsigned long long)out[i],
                         (unsigned long long)want);
        }
    }
    free(in);
    free(out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approximations_stay_within_the_documented_bounds),
        cmocka_unit_test(every_half_converts_exactly),
        cmocka_unit_test(every_half_computes_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
