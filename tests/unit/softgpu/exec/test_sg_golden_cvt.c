/* SPDX-License-Identifier: Apache-2.0 */
/* cvt between every pair of types, in every rounding it allows. */
#include "sg_ref.h"
#include "ut_builds.h"
#include "ut_golden.h"

#include <stdio.h>

enum type { U8, U16, U32, U64, S8, S16, S32, S64, F16, BF16, F32, F64, N_TYPES };

static const struct {
    const char *name;
    uint8_t bits;
    char kind; /* u, s, f */
} types[N_TYPES] = {
    {"u8", 8, 'u'},   {"u16", 16, 'u'},  {"u32", 32, 'u'}, {"u64", 64, 'u'},
    {"s8", 8, 's'},   {"s16", 16, 's'},  {"s32", 32, 's'}, {"s64", 64, 's'},
    {"f16", 16, 'f'}, {"bf16", 16, 'f'}, {"f32", 32, 'f'}, {"f64", 64, 'f'},
};

/* A conversion packed into golden_arg.bits: from | to << 8. */
static int
from_of(const struct golden_arg *arg)
{
    return arg->bits & 0xff;
}

static int
to_of(const struct golden_arg *arg)
{
    return arg->bits >> 8;
}

static const struct ref_fmt *
fmt_of(int type)
{
    return type == F16    ? &ref_f16
           : type == BF16 ? &ref_bf16
           : type == F32  ? &ref_f32
                          : &ref_f64;
}

static uint64_t
width(uint64_t v, int bits)
{
    return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static int64_t
extend(uint64_t v, int bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* The source value, exact. */
static struct ref_num
source(const struct golden_arg *arg, uint64_t a)
{
    int t = from_of(arg);

    if (types[t].kind == 'u')
        return ref_from_uint(width(a, types[t].bits));
    if (types[t].kind == 's')
        return ref_from_int(extend(a, types[t].bits));
    if (arg->ftz && t == F32)
        a = ref_flush(&ref_f32, a);
    return ref_unpack(fmt_of(t), a);
}

/* An integer of a type narrower than its register is extended to 32 bits there. */
static uint64_t
in_register(int type, uint64_t v)
{
    if (types[type].bits >= 32)
        return v;
    return types[type].kind == 's' ? (uint64_t)extend(v, types[type].bits)
                                   : width(v, types[type].bits);
}

static uint64_t
want_to_float(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    const struct ref_fmt *fmt = fmt_of(to_of(arg));
    uint64_t v = ref_pack(fmt, source(arg, a), (enum ref_round)arg->round);

    if (from_of(arg) == F64 && to_of(arg) != F64 && ref_is_nan(&ref_f64, a))
        v = ref_narrow_nan(fmt, a);
    if (arg->ftz && to_of(arg) == F32)
        v = ref_flush(fmt, v);
    return arg->sat ? ref_saturate(fmt, v) : v;
}

/* float -> float of the same type, to an integral value */
static uint64_t
want_integral(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    const struct ref_fmt *fmt = fmt_of(to_of(arg));
    struct ref_num num = ref_integral(source(arg, a), (enum ref_round)arg->round);
    uint64_t v = ref_pack(fmt, num, REF_RN);

    return arg->sat ? ref_saturate(fmt, v) : v;
}

static uint64_t
want_float_to_int(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    int to = to_of(arg), from = from_of(arg);
    struct ref_num num = source(arg, a);

    /* where either side has 64 bits, a NaN gives the top bit */
    if (num.class == REF_NAN && types[to].bits < 64 && types[from].bits < 64)
        return 0;
    return in_register(to, ref_to_int(num, types[to].bits, types[to].kind == 's',
                                      (enum ref_round)arg->round));
}

static uint64_t
want_int_to_int(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    int from = from_of(arg), to = to_of(arg);
    uint64_t v = types[from].kind == 's' ? (uint64_t)extend(a, types[from].bits)
                                         : width(a, types[from].bits);

    if (arg->sat)
        v = ref_to_int(source(arg, a), types[to].bits, types[to].kind == 's', REF_RZ);
    return in_register(to, v);
}

#define MAX_FORMS 700

struct forms {
    struct golden list[MAX_FORMS];
    char texts[MAX_FORMS][48];
    size_t n;
};

static void
add_form(struct forms *forms, const char *mode, int to, int from, golden_ref *ref,
         struct golden_arg arg)
{
    char *text = forms->texts[forms->n];
    uint8_t in = types[from].bits < 16 ? 16 : types[from].bits;
    uint8_t out = types[to].bits;

    if (types[to].kind != 'f' && out < 32)
        out = 32;
    assert_true(forms->n < MAX_FORMS);
    snprintf(text, sizeof(forms->texts[0]), "cvt%s%s%s.%s.%s %%d, %%a;", mode,
             arg.ftz ? ".ftz" : "", arg.sat ? ".sat" : "", types[to].name,
             types[from].name);
    arg.bits = from | to << 8;
    forms->list[forms->n++] = (struct golden){
        .insn = text,
        .in = {in, in, in},
        .out = out,
        .ref = ref,
        .arg = arg,
        /* bf16 -> f32 is a shift on cards that have no instruction for it */
        .match = to == F64 || from == BF16 ? GOLDEN_NAN : GOLDEN_EXACT,
        .kind = from == BF16              ? 'b'
                : types[from].kind == 'f' ? 'f'
                                          : 'i',
    };
}

/* Nothing to saturate, and cvt.sat is refused. */
static bool
holds_all(int to, int from)
{
    bool to_signed = types[to].kind == 's', from_signed = types[from].kind == 's';

    return types[to].bits - to_signed >= types[from].bits - from_signed &&
           (to_signed || !from_signed);
}

static void
integers_to_integers(void **state)
{
    static struct forms forms;

    for (int from = U8; from <= S64; from++) {
        for (int to = U8; to <= S64; to++) {
            for (int sat = 0; sat < (holds_all(to, from) ? 1 : 2); sat++)
                add_form(&forms, "", to, from, want_int_to_int,
                         (struct golden_arg){.sat = sat});
        }
    }
    golden_run(forms.list, forms.n);
}

static const char *const float_modes[] = {".rn", ".rz", ".rm", ".rp"};
static const char *const int_modes[] = {".rni", ".rzi", ".rmi", ".rpi"};

static void
integers_to_floats(void **state)
{
    static struct forms forms;
    static const int floats[] = {F16, F32, F64};

    for (int from = U8; from <= S64; from++) {
        for (int f = 0; f < 3; f++) {
            for (int m = 0; m < 4; m++)
                add_form(&forms, float_modes[m], floats[f], from, want_to_float,
                         (struct golden_arg){.round = m});
        }
    }
    golden_run(forms.list, forms.n);
}

static void
floats_to_integers(void **state)
{
    static struct forms forms;
    static const int floats[] = {F16, F32, F64};

    for (int to = U8; to <= S64; to++) {
        for (int f = 0; f < 3; f++) {
            for (int m = 0; m < 4; m++)
                add_form(&forms, int_modes[m], to, floats[f], want_float_to_int,
                         (struct golden_arg){.round = m});
        }
        add_form(&forms, ".rzi", to, F32, want_float_to_int,
                 (struct golden_arg){.round = REF_RZ, .ftz = true});
        add_form(&forms, ".rpi", to, F32, want_float_to_int,
                 (struct golden_arg){.round = REF_RP, .ftz = true});
    }
    golden_run(forms.list, forms.n);
}

static void
narrower_floats_round_once(void **state)
{
    static struct forms forms;
    static const int pairs[][2] = {{F16, F32}, {F16, F64}, {F32, F64}};

    for (int p = 0; p < 3; p++) {
        for (int m = 0; m < 4; m++) {
            for (int sat = 0; sat < 2; sat++)
                add_form(&forms, float_modes[m], pairs[p][0], pairs[p][1],
                         want_to_float, (struct golden_arg){.round = m, .sat = sat});
        }
    }
    add_form(&forms, ".rn", F32, F64, want_to_float,
             (struct golden_arg){.round = REF_RN, .ftz = true});
    add_form(&forms, ".rn", F16, F32, want_to_float,
             (struct golden_arg){.round = REF_RN, .ftz = true});
    add_form(&forms, ".rn", BF16, F32, want_to_float,
             (struct golden_arg){.round = REF_RN});
    add_form(&forms, ".rz", BF16, F32, want_to_float,
             (struct golden_arg){.round = REF_RZ});
    golden_run(forms.list, forms.n);
}

static void
wider_floats_are_exact(void **state)
{
    static struct forms forms;
    static const int pairs[][2] = {{F32, F16}, {F64, F16}, {F64, F32}, {F32, BF16}};

    for (int p = 0; p < 4; p++)
        add_form(&forms, "", pairs[p][0], pairs[p][1], want_to_float,
                 (struct golden_arg){.round = REF_RN});
    add_form(&forms, "", F32, F16, want_to_float,
             (struct golden_arg){.round = REF_RN, .sat = true});
    add_form(&forms, "", F64, F32, want_to_float,
             (struct golden_arg){.round = REF_RN, .ftz = true});
    golden_run(forms.list, forms.n);
}

static void
floats_to_integral_floats(void **state)
{
    static struct forms forms;
    static const int floats[] = {F16, F32, F64};

    for (int f = 0; f < 3; f++) {
        for (int m = 0; m < 4; m++) {
            for (int sat = 0; sat < 2; sat++)
                add_form(&forms, int_modes[m], floats[f], floats[f], want_integral,
                         (struct golden_arg){.round = m, .sat = sat});
        }
    }
    for (int m = 0; m < 4; m++)
        add_form(&forms, int_modes[m], F32, F32, want_integral,
                 (struct golden_arg){.round = m, .ftz = true});
    golden_run(forms.list, forms.n);
}

/* two f32 into one register: the first source is the high half */
static uint64_t
want_pack(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    const struct ref_fmt *fmt = fmt_of(arg->bits);
    uint64_t hi = ref_pack(fmt, ref_unpack(&ref_f32, a), (enum ref_round)arg->round);
    uint64_t lo = ref_pack(fmt, ref_unpack(&ref_f32, b), (enum ref_round)arg->round);
    uint64_t sign = UINT64_C(1) << 15;

    if (arg->sat) { /* .relu: negatives and NaN to +0 / NaN */
        hi = ref_is_nan(fmt, hi) ? fmt->nan : hi & sign ? 0 : hi;
        lo = ref_is_nan(fmt, lo) ? fmt->nan : lo & sign ? 0 : lo;
    }
    return hi << 16 | lo;
}

#define PACK(mode, name, type, ...)                                                    \
    {                                                                                  \
        "cvt" mode "." name ".f32 %d, %a, %b;", {32, 32, 32}, 32, want_pack,           \
            {.bits = type, __VA_ARGS__}, GOLDEN_EXACT, 'f'                             \
    }

static void
pairs_pack_first_source_high(void **state)
{
    static const struct golden list[] = {
        PACK(".rn", "f16x2", F16, .round = REF_RN),
        PACK(".rz", "f16x2", F16, .round = REF_RZ),
        PACK(".rn", "bf16x2", BF16, .round = REF_RN),
        PACK(".rz", "bf16x2", BF16, .round = REF_RZ),
        PACK(".rn.relu", "f16x2", F16, .round = REF_RN, .sat = true),
        PACK(".rn.relu", "bf16x2", BF16, .round = REF_RN, .sat = true),
    };

    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_to_integers),
        cmocka_unit_test(integers_to_floats),
        cmocka_unit_test(floats_to_integers),
        cmocka_unit_test(narrower_floats_round_once),
        cmocka_unit_test(wider_floats_are_exact),
        cmocka_unit_test(floats_to_integral_floats),
        cmocka_unit_test(pairs_pack_first_source_high),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
