/* SPDX-License-Identifier: Apache-2.0 */
/* f32 and f64 instructions in every rounding mode, against integer arithmetic. */
#include "sg_ref.h"
#include "ut_builds.h"
#include "ut_golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REF(name)                                                                      \
    static uint64_t want_##name(const struct golden_arg *arg, uint64_t a, uint64_t b,  \
                                uint64_t c)

static const struct ref_fmt *
fmt_of(const struct golden_arg *arg)
{
    return arg->bits == 64 ? &ref_f64 : &ref_f32;
}

static uint64_t
flushed(const struct golden_arg *arg, uint64_t v)
{
    return arg->ftz ? ref_flush(fmt_of(arg), v) : v;
}

static struct ref_num
load(const struct golden_arg *arg, uint64_t v)
{
    return ref_unpack(fmt_of(arg), flushed(arg, v));
}

static uint64_t
finish(const struct golden_arg *arg, struct ref_num num)
{
    uint64_t v = ref_pack(fmt_of(arg), num, (enum ref_round)arg->round);

    v = flushed(arg, v);
    return arg->sat ? ref_saturate(fmt_of(arg), v) : v;
}

REF(add)
{
    return finish(arg, ref_add(load(arg, a), load(arg, b), (enum ref_round)arg->round));
}

REF(sub)
{
    return finish(
        arg, ref_add(load(arg, a), ref_neg(load(arg, b)), (enum ref_round)arg->round));
}

REF(mul)
{
    return finish(arg, ref_mul(load(arg, a), load(arg, b)));
}

REF(fma)
{
    return finish(arg, ref_add(ref_mul(load(arg, a), load(arg, b)), load(arg, c),
                               (enum ref_round)arg->round));
}

REF(div)
{
    return finish(arg, ref_div(load(arg, a), load(arg, b)));
}

REF(rcp)
{
    return finish(arg, ref_div(ref_from_int(1), load(arg, a)));
}

REF(sqrt)
{
    return finish(arg, ref_sqrt(load(arg, a)));
}

/* ---- every mode of one operation ---- */

#define MAX_FORMS 200

struct forms {
    struct golden list[MAX_FORMS];
    char texts[MAX_FORMS][80];
    size_t n;
};

static void
add_form(struct forms *forms, const char *op, const char *mode, const char *operands,
         golden_ref *ref, struct golden_arg arg)
{
    char *text = forms->texts[forms->n];
    uint8_t bits = (uint8_t)arg.bits;

    assert_true(forms->n < MAX_FORMS);
    snprintf(text, sizeof(forms->texts[0]), "%s%s%s%s.f%d %%d, %s;", op, mode,
             arg.ftz ? ".ftz" : "", arg.sat ? ".sat" : "", bits, operands);
    forms->list[forms->n++] = (struct golden){
        .insn = text,
        .in = {bits, bits, bits},
        .out = bits,
        .ref = ref,
        .arg = arg,
        .match = bits == 64 ? GOLDEN_NAN : GOLDEN_EXACT,
        .kind = 'f',
    };
}

static void
all_modes(struct forms *forms, const char *op, const char *operands, golden_ref *ref,
          bool may_omit, bool may_saturate)
{
    static const char *const modes[] = {".rn", ".rz", ".rm", ".rp"};

    for (int m = -may_omit; m < 4; m++) {
        const char *mode = m < 0 ? "" : modes[m];
        int round = m < 0 ? REF_RN : m;

        for (int ftz = 0; ftz < 2; ftz++) {
            for (int sat = 0; sat <= may_saturate; sat++)
                add_form(forms, op, mode, operands, ref,
                         (struct golden_arg){
                             .round = round, .ftz = ftz, .sat = sat, .bits = 32});
        }
        add_form(forms, op, mode, operands, ref,
                 (struct golden_arg){.round = round, .bits = 64});
    }
}

static void
arithmetic_rounds_as_asked(void **state)
{
    static struct forms forms;

    all_modes(&forms, "add", "%a, %b", want_add, true, true);
    all_modes(&forms, "sub", "%a, %b", want_sub, true, true);
    all_modes(&forms, "mul", "%a, %b", want_mul, true, true);
    all_modes(&forms, "fma", "%a, %b, %c", want_fma, false, true);
    golden_run(forms.list, forms.n);
}

static void
quotients_and_roots_round_as_asked(void **state)
{
    static struct forms forms;

    all_modes(&forms, "div", "%a, %b", want_div, false, false);
    all_modes(&forms, "rcp", "%a", want_rcp, false, false);
    all_modes(&forms, "sqrt", "%a", want_sqrt, false, false);
    golden_run(forms.list, forms.n);
}

/* a * b rounded, then + c rounded: what ptxas may fuse, softgpu never does */
REF(mul_then_add)
{
    return want_add(arg, want_mul(arg, a, b, 0), c, 0);
}

static void
mul_and_add_are_never_fused(void **state)
{
    static const struct golden list[] = {
        {"mul.f32 %t0, %a, %b; add.f32 %d, %t0, %c;",
         {32, 32, 32},
         32,
         want_mul_then_add,
         {.bits = 32},
         GOLDEN_EXACT,
         'f'},
        {"mul.f64 %d, %a, %b; add.f64 %d, %d, %c;",
         {64, 64, 64},
         64,
         want_mul_then_add,
         {.bits = 64},
         GOLDEN_NAN,
         'f'},
    };

    GOLDEN_RUN(list);
}

/* ---- minimum, maximum, signs ---- */

#define CANONICAL UINT64_C(0x7fffffff)

/* round: 0 min, 1 max */
static uint64_t
lesser(const struct golden_arg *arg, uint64_t a, uint64_t b)
{
    int order = ref_compare(load(arg, a), load(arg, b));
    uint64_t sign = UINT64_C(1) << (arg->bits - 1);

    a = flushed(arg, a);
    b = flushed(arg, b);
    if (order == 0 && (a & sign) != (b & sign)) /* -0 is less than +0 */
        order = a & sign ? -1 : 1;
    return (order <= 0) == (arg->round == 0) ? a : b;
}

REF(min_max)
{
    const struct ref_fmt *fmt = fmt_of(arg);

    if (ref_is_nan(fmt, a) && ref_is_nan(fmt, b))
        return fmt->nan;
    if (ref_is_nan(fmt, a))
        return flushed(arg, b);
    if (ref_is_nan(fmt, b))
        return flushed(arg, a);
    return lesser(arg, a, b);
}

REF(min_max_nan)
{
    const struct ref_fmt *fmt = fmt_of(arg);

    if (ref_is_nan(fmt, a) || ref_is_nan(fmt, b))
        return fmt->nan;
    return lesser(arg, a, b);
}

/* the smaller magnitude under the product's sign */
REF(min_max_xorsign)
{
    uint64_t sign = (a ^ b) & 0x80000000;
    uint64_t v = want_min_max(arg, a & 0x7fffffff, b & 0x7fffffff, 0);

    return ref_is_nan(&ref_f32, v) ? v : v | sign;
}

/* A NaN of f32 becomes the one NaN, and that of f64 quiet. */
static uint64_t
signed_by(const struct golden_arg *arg, uint64_t a, uint64_t v)
{
    if (!ref_is_nan(fmt_of(arg), a))
        return v;
    return arg->bits == 64 ? a | UINT64_C(1) << 51 : 0x7fffffff;
}

REF(neg)
{
    uint64_t v = flushed(arg, a);

    return signed_by(arg, a, v ^ UINT64_C(1) << (arg->bits - 1));
}

REF(abs)
{
    uint64_t v = flushed(arg, a);

    return signed_by(arg, a, v & ~(UINT64_C(1) << (arg->bits - 1)));
}

/* the sign of a on b */
REF(copysign)
{
    uint64_t sign = UINT64_C(1) << (arg->bits - 1);

    return (b & ~sign) | (a & sign);
}

#define F32 {32, 32, 32}, 32
#define F64 {64, 64, 64}, 64
#define A32(r)                                                                         \
    {                                                                                  \
        .bits = 32, .round = r                                                         \
    }
#define A32F(r)                                                                        \
    {                                                                                  \
        .bits = 32, .round = r, .ftz = true                                            \
    }
#define A64(r)                                                                         \
    {                                                                                  \
        .bits = 64, .round = r                                                         \
    }

static void
minimum_maximum_and_signs(void **state)
{
    static const struct golden list[] = {
        {"min.f32 %d, %a, %b;", F32, want_min_max, A32(0), GOLDEN_EXACT, 'f'},
        {"max.f32 %d, %a, %b;", F32, want_min_max, A32(1), GOLDEN_EXACT, 'f'},
        {"min.ftz.f32 %d, %a, %b;", F32, want_min_max, A32F(0), GOLDEN_EXACT, 'f'},
        {"max.ftz.f32 %d, %a, %b;", F32, want_min_max, A32F(1), GOLDEN_EXACT, 'f'},
        {"min.NaN.f32 %d, %a, %b;", F32, want_min_max_nan, A32(0), GOLDEN_EXACT, 'f'},
        {"max.NaN.f32 %d, %a, %b;", F32, want_min_max_nan, A32(1), GOLDEN_EXACT, 'f'},
        {"max.ftz.NaN.f32 %d, %a, %b;", F32, want_min_max_nan, A32F(1), GOLDEN_EXACT,
         'f'},
        {"min.xorsign.abs.f32 %d, %a, %b;", F32, want_min_max_xorsign, A32(0),
         GOLDEN_NAN, 'f'},
        {"max.xorsign.abs.f32 %d, %a, %b;", F32, want_min_max_xorsign, A32(1),
         GOLDEN_NAN, 'f'},
        {"min.f64 %d, %a, %b;", F64, want_min_max, A64(0), GOLDEN_NAN, 'f'},
        {"max.f64 %d, %a, %b;", F64, want_min_max, A64(1), GOLDEN_NAN, 'f'},
        {"neg.f32 %d, %a;", F32, want_neg, A32(0), GOLDEN_EXACT, 'f'},
        {"neg.ftz.f32 %d, %a;", F32, want_neg, A32F(0), GOLDEN_EXACT, 'f'},
        {"neg.f64 %d, %a;", F64, want_neg, A64(0), GOLDEN_EXACT, 'f'},
        {"abs.f32 %d, %a;", F32, want_abs, A32(0), GOLDEN_EXACT, 'f'},
        {"abs.ftz.f32 %d, %a;", F32, want_abs, A32F(0), GOLDEN_EXACT, 'f'},
        {"abs.f64 %d, %a;", F64, want_abs, A64(0), GOLDEN_EXACT, 'f'},
        {"copysign.f32 %d, %a, %b;", F32, want_copysign, A32(0), GOLDEN_EXACT, 'f'},
        {"copysign.f64 %d, %a, %b;", F64, want_copysign, A64(0), GOLDEN_EXACT, 'f'},
    };

    GOLDEN_RUN(list);
}

/* ---- comparisons ---- */

enum relation { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };

static bool
holds(int order, enum relation rel)
{
    if (rel == NUM || rel == NAN_)
        return (order == 2) == (rel == NAN_);
    if (order == 2)
        return rel >= EQU;
    switch (rel >= EQU ? rel - EQU + EQ : rel) {
    case EQ:
        return order == 0;
    case NE:
        return order != 0;
    case LT:
        return order < 0;
    case LE:
        return order <= 0;
    case GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

REF(setp)
{
    return holds(ref_compare(load(arg, a), load(arg, b)), (enum relation)arg->round);
}

static void
comparisons_know_unordered(void **state)
{
    static const char *const names[] = {"eq",  "ne",  "lt",  "le",  "gt",
                                        "ge",  "equ", "neu", "ltu", "leu",
                                        "gtu", "geu", "num", "nan"};
    static struct forms forms;

    for (int rel = EQ; rel <= NAN_; rel++) {
        for (int kind = 0; kind < 3; kind++) {
            uint8_t bits = kind == 2 ? 64 : 32;
            char *text = forms.texts[forms.n];

            snprintf(text, sizeof(forms.texts[0]),
                     "setp.%s%s.f%d %%q1, %%a, %%b; selp.b32 %%d, 1, 0, %%q1;",
                     names[rel], kind == 1 ? ".ftz" : "", bits);
            forms.list[forms.n++] =
                (struct golden){text,
                                {bits, bits, bits},
                                32,
                                want_setp,
                                {.round = rel, .bits = bits, .ftz = kind == 1},
                                GOLDEN_EXACT,
                                'f'};
        }
    }
    golden_run(forms.list, forms.n);
}

/* setp with two results and a third predicate; set; slct; testp */
REF(setp_pair)
{
    bool lt = holds(ref_compare(load(arg, a), load(arg, b)), LT), q = c & 1;

    return (uint64_t)(lt && q) | (uint64_t)(!lt && q) << 1;
}

REF(set_f32)
{
    return holds(ref_compare(load(arg, a), load(arg, b)), GEU) ? 0x3f800000 : 0;
}

REF(set_u32)
{
    return holds(ref_compare(load(arg, a), load(arg, b)), LE) ? UINT32_MAX : 0;
}

/* a if c >= 0 else b; a NaN selects b, -0 selects a */
REF(slct)
{
    return holds(ref_compare(load(arg, c), ref_from_int(0)), GE) ? a : b;
}

REF(testp)
{
    struct ref_num n = ref_unpack(fmt_of(arg), a);
    bool sub = ref_is_subnormal(fmt_of(arg), a);

    switch (arg->round) {
    case 0:
        return n.class == REF_FINITE || n.class == REF_ZERO;
    case 1:
        return n.class == REF_INF;
    case 2:
        return n.class != REF_NAN;
    case 3:
        return n.class == REF_NAN;
    case 4: /* zeros are normal */
        return n.class == REF_ZERO || (n.class == REF_FINITE && !sub);
    default:
        return sub;
    }
}

#define TESTP(name, number)                                                            \
    {"testp." name ".f32 %q1, %a; selp.b32 %d, 1, 0, %q1;",                            \
     F32,                                                                              \
     want_testp,                                                                       \
     A32(number),                                                                      \
     GOLDEN_EXACT,                                                                     \
     'f'},                                                                             \
    {                                                                                  \
        "testp." name ".f64 %q1, %a; selp.b32 %d, 1, 0, %q1;", {64, 64, 64}, 32,       \
            want_testp, A64(number), GOLDEN_EXACT, 'f'                                 \
    }

static void
selections_and_tests(void **state)
{
    static const struct golden list[] = {
        {"and.b32 %t0, %c, 1; setp.ne.b32 %q0, %t0, 0; "
         "setp.lt.and.f32 %q1|%q2, %a, %b, %q0; selp.b32 %t0, 1, 0, %q1; "
         "selp.b32 %t1, 2, 0, %q2; or.b32 %d, %t0, %t1;",
         F32, want_setp_pair, A32(0), GOLDEN_EXACT, 'f'},
        {"set.geu.f32.f32 %d, %a, %b;", F32, want_set_f32, A32(0), GOLDEN_EXACT, 'f'},
        {"set.le.u32.f32 %d, %a, %b;", F32, want_set_u32, A32(0), GOLDEN_EXACT, 'f'},
        {"set.le.ftz.u32.f32 %d, %a, %b;", F32, want_set_u32, A32F(0), GOLDEN_EXACT,
         'f'},
        {"slct.f32.f32 %d, %a, %b, %c;", F32, want_slct, A32(0), GOLDEN_EXACT, 'f'},
        TESTP("finite", 0),
        TESTP("infinite", 1),
        TESTP("number", 2),
        TESTP("notanumber", 3),
        TESTP("normal", 4),
        TESTP("subnormal", 5),
    };

    GOLDEN_RUN(list);
}

/* ---- approximations: within the documented bounds ---- */

static float
as_float(uint64_t v)
{
    uint32_t low = (uint32_t)v;
    float f;

    memcpy(&f, &low, sizeof(f));
    return f;
}

static uint64_t
rounded(const struct golden_arg *arg, double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    if (isnan(d))
        return CANONICAL;
    return flushed(arg, ref_pack(&ref_f32, ref_unpack(&ref_f64, bits), REF_RN));
}

static double
input(const struct golden_arg *arg, uint64_t a)
{
    return (double)as_float(flushed(arg, a));
}

/* Far arguments of sin and cos have no useful bound: bring them to +-100 pi. */
static double
angle(const struct golden_arg *arg, uint64_t a)
{
    double x = input(arg, a);

    return isfinite(x) && fabs(x) > 314.0 ? 0.0 : x;
}

REF(sin)
{
    return rounded(arg, sin(angle(arg, a)));
}
REF(cos)
{
    return rounded(arg, cos(angle(arg, a)));
}
REF(ex2)
{
    return rounded(arg, exp2(input(arg, a)));
}
REF(lg2)
{
    return rounded(arg, log2(input(arg, a)));
}
REF(tanh)
{
    return rounded(arg, tanh(input(arg, a)));
}
REF(rsqrt)
{
    return rounded(arg, 1.0 / sqrt(input(arg, a)));
}
REF(rcp_approx)
{
    return rounded(arg, 1.0 / input(arg, a));
}
REF(sqrt_approx)
{
    return rounded(arg, sqrt(input(arg, a)));
}

/* out of the range that div.approx promises anything for: x/x */
REF(div_approx)
{
    double x = input(arg, a), y = input(arg, b);
    bool far = isfinite(y) && (fabs(y) > 0x1p126 || (y != 0 && fabs(y) < 0x1p-126));

    return far ? CANONICAL : rounded(arg, x / y);
}

#define NEAR_ANGLE                                                                     \
    "abs.f32 %t0, %a; setp.gt.f32 %q0, %t0, 0f439d0000; "                              \
    "testp.finite.f32 %q1, %a; and.pred %q0, %q0, %q1; "                               \
    "selp.b32 %t1, 0, %a, %q0; "
/* NaN stands for "anything" in the reference of div.approx */
#define FAR_DIVISOR                                                                    \
    "abs.f32 %t0, %b; setp.gt.f32 %q0, %t0, 0f7e800000; "                              \
    "setp.lt.f32 %q1, %t0, 0f00800000; setp.gt.and.f32 %q1, %t0, 0f00000000, %q1; "    \
    "or.pred %q0, %q0, %q1; testp.finite.f32 %q1, %b; "                                \
    "and.pred %q0, %q0, %q1; "

static void
approximations_stay_within_their_bounds(void **state)
{
    static const struct golden list[] = {
        {NEAR_ANGLE "sin.approx.f32 %d, %t1;",
         F32,
         want_sin,
         {.bits = 32, .is_signed = true},
         GOLDEN_APPROX,
         'f',
         0x1p-14},
        {NEAR_ANGLE "cos.approx.f32 %d, %t1;",
         F32,
         want_cos,
         {.bits = 32, .is_signed = true},
         GOLDEN_APPROX,
         'f',
         0x1p-14},
        {"ex2.approx.f32 %d, %a;", F32, want_ex2, A32(0), GOLDEN_APPROX, 'f', 0x1p-22},
        {"ex2.approx.ftz.f32 %d, %a;", F32, want_ex2, A32F(0), GOLDEN_APPROX, 'f',
         0x1p-22},
        {"lg2.approx.f32 %d, %a;",
         F32,
         want_lg2,
         {.bits = 32, .is_signed = true},
         GOLDEN_APPROX,
         'f',
         0x1p-22},
        {"tanh.approx.f32 %d, %a;", F32, want_tanh, A32(0), GOLDEN_APPROX, 'f',
         0x1p-10},
        {"rsqrt.approx.f32 %d, %a;", F32, want_rsqrt, A32(0), GOLDEN_APPROX, 'f',
         0x1p-22},
        {"rsqrt.approx.ftz.f32 %d, %a;", F32, want_rsqrt, A32F(0), GOLDEN_APPROX, 'f',
         0x1p-22},
        {"rcp.approx.f32 %d, %a;", F32, want_rcp_approx, A32(0), GOLDEN_APPROX, 'f',
         0x1p-22},
        {"rcp.approx.ftz.f32 %d, %a;", F32, want_rcp_approx, A32F(0), GOLDEN_APPROX,
         'f', 0x1p-22},
        {"sqrt.approx.f32 %d, %a;", F32, want_sqrt_approx, A32(0), GOLDEN_APPROX, 'f',
         0x1p-22},
        {"sqrt.approx.ftz.f32 %d, %a;", F32, want_sqrt_approx, A32F(0), GOLDEN_APPROX,
         'f', 0x1p-22},
        {FAR_DIVISOR "div.approx.f32 %d, %a, %b; selp.b32 %d, 0x7fffffff, %d, %q0;",
         F32, want_div_approx, A32(0), GOLDEN_APPROX, 'f', 0x1p-21},
        {FAR_DIVISOR "div.full.f32 %d, %a, %b; selp.b32 %d, 0x7fffffff, %d, %q0;", F32,
         want_div_approx, A32(0), GOLDEN_APPROX, 'f', 0x1p-21},
    };

    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_rounds_as_asked),
        cmocka_unit_test(quotients_and_roots_round_as_asked),
        cmocka_unit_test(mul_and_add_are_never_fused),
        cmocka_unit_test(minimum_maximum_and_signs),
        cmocka_unit_test(comparisons_know_unordered),
        cmocka_unit_test(selections_and_tests),
        cmocka_unit_test(approximations_stay_within_their_bounds),
        cmocka_unit_test(ut_builds_lower_agree),
        cmocka_unit_test(ut_builds_machine_code_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
