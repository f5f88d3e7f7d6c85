/* SPDX-License-Identifier: Apache-2.0 */
/* f16, bf16 and their pairs, against integer arithmetic. */
#include "sg_ref.h"
#include "ut_builds.h"
#include "ut_golden.h"

#include <stdio.h>

/* One 16-bit lane; arg.bits says which format. */
enum { HALF, BRAIN };

typedef uint64_t lane_ref(const struct ref_fmt *fmt, const struct golden_arg *arg,
                          uint64_t a, uint64_t b, uint64_t c);

static const struct ref_fmt *
fmt_of(const struct golden_arg *arg)
{
    return arg->bits == BRAIN ? &ref_bf16 : &ref_f16;
}

static uint64_t
finish(const struct ref_fmt *fmt, const struct golden_arg *arg, struct ref_num num)
{
    uint64_t v = ref_pack(fmt, num, REF_RN);

    if (arg->ftz)
        v = ref_flush(fmt, v);
    if (arg->sat)
        v = ref_saturate(fmt, v);
    if (arg->is_signed && !ref_is_nan(fmt, v) && (v & 0x8000)) /* .relu */
        v = 0;
    return v;
}

static struct ref_num
load(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t v)
{
    return ref_unpack(fmt, arg->ftz ? ref_flush(fmt, v) : v);
}

static uint64_t
lane_add(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t a,
         uint64_t b, uint64_t c)
{
    return finish(fmt, arg, ref_add(load(fmt, arg, a), load(fmt, arg, b), REF_RN));
}

static uint64_t
lane_sub(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t a,
         uint64_t b, uint64_t c)
{
    return finish(fmt, arg,
                  ref_add(load(fmt, arg, a), ref_neg(load(fmt, arg, b)), REF_RN));
}

static uint64_t
lane_mul(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t a,
         uint64_t b, uint64_t c)
{
    return finish(fmt, arg, ref_mul(load(fmt, arg, a), load(fmt, arg, b)));
}

static uint64_t
lane_fma(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t a,
         uint64_t b, uint64_t c)
{
    return finish(fmt, arg,
                  ref_add(ref_mul(load(fmt, arg, a), load(fmt, arg, b)),
                          load(fmt, arg, c), REF_RN));
}

/* round: bit 0 = max, bit 1 = .NaN */
static uint64_t
lane_min_max(const struct ref_fmt *fmt, const struct golden_arg *arg, uint64_t a,
             uint64_t b, uint64_t c)
{
    bool nan_a, nan_b;
    int order;

    if (arg->ftz) {
        a = ref_flush(fmt, a);
        b = ref_flush(fmt, b);
    }
    nan_a = ref_is_nan(fmt, a);
    nan_b = ref_is_nan(fmt, b);
    if ((nan_a && nan_b) || ((nan_a || nan_b) && (arg->round & 2)))
        return fmt->nan;
    if (nan_a || nan_b)
        return nan_a ? b : a;
    order = ref_compare(ref_unpack(fmt, a), ref_unpack(fmt, b));
    if (order == 0 && ((a ^ b) & 0x8000))
        order = a & 0x8000 ? -1 : 1;
    return (order <= 0) == !(arg->round & 1) ? a : b;
}

/* One or two lanes of it. */
#define LANES(name)                                                                    \
    static uint64_t want_##name(const struct golden_arg *arg, uint64_t a, uint64_t b,  \
                                uint64_t c)                                            \
    {                                                                                  \
        const struct ref_fmt *fmt = fmt_of(arg);                                       \
                                                                                       \
        return lane_##name(fmt, arg, a & 0xffff, b & 0xffff, c & 0xffff) |             \
               lane_##name(fmt, arg, a >> 16 & 0xffff, b >> 16 & 0xffff,               \
                           c >> 16 & 0xffff)                                           \
                   << 16;                                                              \
    }

LANES(add)
LANES(sub)
LANES(mul)
LANES(fma)
LANES(min_max)

#define MAX_FORMS 120

struct forms {
    struct golden list[MAX_FORMS];
    char texts[MAX_FORMS][64];
    size_t n;
};

/* @op, @mode and the type, as one value and as a pair. */
static void
add_forms(struct forms *forms, const char *op, const char *mode, const char *operands,
          golden_ref *ref, struct golden_arg arg)
{
    const char *type = arg.bits == BRAIN ? "bf16" : "f16";

    for (int pair = 0; pair < 2; pair++) {
        char *text = forms->texts[forms->n];
        uint8_t bits = pair ? 32 : 16;

        assert_true(forms->n < MAX_FORMS);
        snprintf(text, sizeof(forms->texts[0]), "%s%s%s%s%s.%s%s %%d, %s;", op, mode,
                 arg.ftz ? ".ftz" : "", arg.sat ? ".sat" : "",
                 arg.is_signed ? ".relu" : "", type, pair ? "x2" : "", operands);
        forms->list[forms->n++] = (struct golden){
            .insn = text,
            .in = {bits, bits, bits},
            .out = bits,
            .ref = ref,
            .arg = arg,
            .match = GOLDEN_EXACT,
            .kind = arg.bits == BRAIN ? 'b' : 'h',
        };
    }
}

static void
f16_arithmetic_rounds_once(void **state)
{
    static struct forms forms;
    static const struct golden_arg args[] = {
        {.bits = HALF},
        {.bits = HALF, .ftz = true},
        {.bits = HALF, .sat = true},
        {.bits = HALF, .ftz = true, .sat = true},
    };

    for (int i = 0; i < 4; i++) {
        add_forms(&forms, "add", i & 1 ? ".rn" : "", "%a, %b", want_add, args[i]);
        add_forms(&forms, "sub", i & 1 ? ".rn" : "", "%a, %b", want_sub, args[i]);
        add_forms(&forms, "mul", i & 1 ? ".rn" : "", "%a, %b", want_mul, args[i]);
        add_forms(&forms, "fma", ".rn", "%a, %b, %c", want_fma, args[i]);
    }
    add_forms(&forms, "fma", ".rn", "%a, %b, %c", want_fma,
              (struct golden_arg){.bits = HALF, .is_signed = true});
    golden_run(forms.list, forms.n);
}

static void
bf16_arithmetic_rounds_once(void **state)
{
    static struct forms forms;
    static const struct golden_arg arg = {.bits = BRAIN};

    add_forms(&forms, "add", ".rn", "%a, %b", want_add, arg);
    add_forms(&forms, "sub", ".rn", "%a, %b", want_sub, arg);
    add_forms(&forms, "mul", ".rn", "%a, %b", want_mul, arg);
    add_forms(&forms, "fma", ".rn", "%a, %b, %c", want_fma, arg);
    add_forms(&forms, "fma", ".rn", "%a, %b, %c", want_fma,
              (struct golden_arg){.bits = BRAIN, .is_signed = true});
    golden_run(forms.list, forms.n);
}

static void
minimum_and_maximum_of_halves(void **state)
{
    static struct forms forms;

    for (int fmt = HALF; fmt <= BRAIN; fmt++) {
        for (int r = 0; r < 4; r++)
            add_forms(&forms, r & 1 ? "max" : "min", r & 2 ? ".NaN" : "", "%a, %b",
                      want_min_max, (struct golden_arg){.bits = fmt, .round = r});
    }
    for (int r = 0; r < 2; r++)
        add_forms(&forms, r ? "max" : "min", "", "%a, %b", want_min_max,
                  (struct golden_arg){.bits = HALF, .round = r, .ftz = true});
    golden_run(forms.list, forms.n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_arithmetic_rounds_once),
        cmocka_unit_test(bf16_arithmetic_rounds_once),
        cmocka_unit_test(minimum_and_maximum_of_halves),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
