/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_ops_float.h.  The arithmetic is sg_ref.h's. */
#include "rk_ops_float.h"

#include "rk_ops_table.h"
#include "sg_ref.h"

#define REF(name) static uint64_t does_##name(const struct rk_op *op, const uint64_t *x)

static uint64_t
flushed(const struct rk_op *op, const struct ref_fmt *fmt, uint64_t v)
{
    return op->ftz && fmt != &ref_f64 ? ref_flush(fmt, v) : v;
}

static struct ref_num
load(const struct rk_op *op, uint64_t v)
{
    return ref_unpack(op->fmt, flushed(op, op->fmt, v));
}

static uint64_t
finish(const struct rk_op *op, struct ref_num num)
{
    const struct ref_fmt *fmt = op->fmt;
    uint64_t v = flushed(op, fmt, ref_pack(fmt, num, (enum ref_round)op->mode));

    if (op->relu && !ref_is_nan(fmt, v) && v >> (fmt->bits - 1))
        v = 0;
    return op->sat ? ref_saturate(fmt, v) : v;
}

#define ROUND ((enum ref_round)op->mode)
#define X(i) load(op, x[i])

REF(add)
{
    return finish(op, ref_add(X(0), X(1), ROUND));
}

REF(sub)
{
    return finish(op, ref_add(X(0), ref_neg(X(1)), ROUND));
}

REF(mul)
{
    return finish(op, ref_mul(X(0), X(1)));
}

REF(fma)
{
    return finish(op, ref_add(ref_mul(X(0), X(1)), X(2), ROUND));
}

REF(div)
{
    return finish(op, ref_div(X(0), X(1)));
}

REF(rcp)
{
    return finish(op, ref_div(ref_from_int(1), X(0)));
}

REF(sqrt)
{
    return finish(op, ref_sqrt(X(0)));
}

/* mode 'a' or 'n'; a NaN of f32 becomes the one NaN, and that of f64 keeps its sign */
REF(sign)
{
    uint64_t v = flushed(op, op->fmt, x[0]), sign = UINT64_C(1) << (op->bits - 1);

    if (ref_is_nan(op->fmt, v))
        return op->bits == 64 ? v | UINT64_C(1) << 51 : op->fmt->nan;
    return op->mode == 'a' ? v & ~sign : v ^ sign;
}

/* mode '<' or '>'; nan: one NaN is enough */
REF(min_max)
{
    const struct ref_fmt *fmt = op->fmt;
    uint64_t sign = UINT64_C(1) << (fmt->bits - 1);
    uint64_t a = flushed(op, fmt, x[0]), b = flushed(op, fmt, x[1]);
    bool a_nan = ref_is_nan(fmt, a), b_nan = ref_is_nan(fmt, b);
    int order;

    if ((a_nan && b_nan) || (op->nan && (a_nan || b_nan)))
        return fmt->nan;
    if (a_nan || b_nan)
        return a_nan ? b : a;
    order = ref_compare(ref_unpack(fmt, a), ref_unpack(fmt, b));
    if (order == 0 && (a & sign) != (b & sign)) /* -0 is less than +0 */
        order = a & sign ? -1 : 1;
    return (order <= 0) == (op->mode == '<') ? a : b;
}

REF(copysign)
{
    uint64_t sign = UINT64_C(1) << (op->bits - 1);

    return (x[1] & ~sign) | (x[0] & sign);
}

static const char *const relations[] = {"eq",  "ne",  "lt",  "le",  "gt",
                                        "ge",  "equ", "neu", "ltu", "leu",
                                        "gtu", "geu", "num", "nan"};

static bool
relation(const struct rk_op *op, const uint64_t *x)
{
    int order = ref_compare(X(0), X(1));

    if (op->mode >= 12)
        return (order == 2) == (op->mode == 13);
    if (order == 2)
        return op->mode >= 6;
    switch (op->mode % 6) {
    case 0:
        return order == 0;
    case 1:
        return order != 0;
    case 2:
        return order < 0;
    case 3:
        return order <= 0;
    case 4:
        return order > 0;
    default:
        return order >= 0;
    }
}

static bool
combined(const struct rk_op *op, const uint64_t *x)
{
    bool holds = relation(op, x), p = x[2] != 0;

    return op->combine == '&'   ? holds && p
           : op->combine == '|' ? holds || p
           : op->combine == '^' ? holds != p
                                : holds;
}

REF(setp)
{
    return combined(op, x);
}

/* nan: the result is a float */
REF(set)
{
    return !combined(op, x) ? 0 : op->nan ? 0x3f800000 : UINT32_MAX;
}

REF(testp)
{
    struct ref_num n = ref_unpack(op->fmt, x[0]);
    bool sub = ref_is_subnormal(op->fmt, x[0]);

    switch (op->mode) {
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

/* a if c >= 0; a NaN takes b, -0 takes a */
REF(slct)
{
    int order = ref_compare(load(op, x[2]), ref_from_int(0));

    return order == 0 || order == 1 ? x[0] : x[1];
}

/* ---- conversions -------------------------------------------------------------------
 */

static struct ref_num
source(const struct rk_op *op, uint64_t v)
{
    unsigned up = 64u - op->from_bits;

    if (!op->from_fmt)
        return op->from_signed ? ref_from_int((int64_t)(v << up) >> up)
                               : ref_from_uint(v << up >> up);
    return ref_unpack(op->from_fmt,
                      op->from_fmt == &ref_f32 ? flushed(op, op->from_fmt, v) : v);
}

REF(to_float)
{
    uint64_t v = ref_pack(op->fmt, source(op, x[0]), ROUND);

    if (op->from_fmt == &ref_f64 && ref_is_nan(&ref_f64, x[0]))
        v = ref_narrow_nan(op->fmt, x[0]);
    if (op->fmt == &ref_f32)
        v = flushed(op, op->fmt, v);
    return op->sat ? ref_saturate(op->fmt, v) : v;
}

REF(to_integral)
{
    uint64_t v = ref_pack(op->fmt, ref_integral(source(op, x[0]), ROUND), REF_RN);

    return op->sat ? ref_saturate(op->fmt, v) : v;
}

REF(to_int)
{
    struct ref_num num = source(op, x[0]);
    unsigned up = 64u - op->bits;
    uint64_t v;

    /* Where either side has 64 bits, a NaN gives the top bit. */
    if (num.class == REF_NAN && op->bits < 64 && op->from_bits < 64)
        return 0;
    v = ref_to_int(num, op->bits, op->is_signed, ROUND);
    return op->is_signed ? (uint64_t)((int64_t)(v << up) >> up) : v << up >> up;
}

/* ---- the halves' pairs -------------------------------------------------------------
 */

REF(pair)
{
    uint64_t lo[3], hi[3];
    rk_ref *one = op->combine == '+'   ? does_add
                  : op->combine == '-' ? does_sub
                  : op->combine == '*' ? does_mul
                  : op->combine == 'f' ? does_fma
                                       : does_min_max;

    for (unsigned i = 0; i < 3; i++) {
        lo[i] = x[i] & 0xffff;
        hi[i] = x[i] >> 16 & 0xffff;
    }
    return one(op, lo) | one(op, hi) << 16;
}

/* ---- the table ---------------------------------------------------------------------
 */

static const char *const modes[] = {".rn", ".rz", ".rm", ".rp"};

static struct rk_op *
add_float(const char *sig, rk_ref *ref, const char *words, const struct ref_fmt *fmt)
{
    static const struct {
        const struct ref_fmt *fmt;
        const char *name;
    } names[] = {
        {&ref_f32, "f32"}, {&ref_f64, "f64"}, {&ref_f16, "f16"}, {&ref_bf16, "bf16"}};
    struct rk_op *op = NULL;

    for (unsigned i = 0; i < 4; i++)
        if (names[i].fmt == fmt)
            op = rk_add(sig, ref, "%s.%s", words, names[i].name);
    op->fmt = fmt;
    op->bits = (uint8_t)fmt->bits;
    op->is_float = true;
    return op;
}

/* Every rounding, with and without .ftz and .sat, of f32; every rounding of f64. */
static void
add_rounded(const char *name, const char *sources, rk_ref *ref, bool may_saturate)
{
    char words[40], sig[8];

    rk_family();
    for (int i = 0; i < 4 * 5; i++) {
        int m = i % 4, kind = i / 4;
        bool ftz = kind & 1, sat = kind == 2 || kind == 3, is_64 = kind == 4;
        struct rk_op *op;

        if (sat && !may_saturate)
            continue;
        snprintf(words, sizeof(words), "%s%s%s%s", name, modes[m], ftz ? ".ftz" : "",
                 sat ? ".sat" : "");
        snprintf(sig, sizeof(sig), "%s", is_64 ? "DDDD" : "WWWW");
        sig[1 + sources[0] - '0'] = '\0';
        op = add_float(sig, ref, words, is_64 ? &ref_f64 : &ref_f32);
        op->mode = m, op->ftz = ftz, op->sat = sat, op->any_nan = is_64;
    }
}

static void
add_signs(void)
{
    rk_family();
    for (int i = 0; i < 6; i++) {
        char mode = i & 1 ? 'a' : 'n';
        const char *word = i & 1   ? (i & 2 ? "abs.ftz" : "abs")
                           : i & 2 ? "neg.ftz"
                                   : "neg";
        struct rk_op *op =
            i < 4 ? add_float("WW", does_sign, word, &ref_f32)
                  : add_float("DD", does_sign, i & 1 ? "abs" : "neg", &ref_f64);
        op->mode = mode, op->ftz = i < 4 && (i & 2);
    }
    rk_family();
    add_float("WWW", does_copysign, "copysign", &ref_f32);
    add_float("DDD", does_copysign, "copysign", &ref_f64);
    rk_family();
    for (int i = 0; i < 12; i++) {
        static const char *const kinds[] = {"finite",     "infinite", "number",
                                            "notanumber", "normal",   "subnormal"};
        char words[40];
        snprintf(words, sizeof(words), "testp.%s", kinds[i % 6]);
        add_float(i < 6 ? "PW" : "PD", does_testp, words, i < 6 ? &ref_f32 : &ref_f64)
            ->mode = i % 6;
    }
    rk_family();
    for (int i = 0; i < 4; i++) {
        struct rk_op *op = rk_add(i & 1 ? "DDDW" : "WWWW", does_slct, "slct%s.b%d.f32",
                                  i & 2 ? ".ftz" : "", i & 1 ? 64 : 32);
        op->fmt = &ref_f32, op->ftz = i & 2, op->is_float = true;
    }
}

static void
add_min_max(void)
{
    rk_family();
    for (int i = 0; i < 8; i++) {
        char words[40];
        struct rk_op *op;
        snprintf(words, sizeof(words), "%s%s%s", i & 1 ? "max" : "min",
                 i & 2 ? ".ftz" : "", i & 4 ? ".NaN" : "");
        op = add_float("WWW", does_min_max, words, &ref_f32);
        op->mode = i & 1 ? '>' : '<', op->ftz = i & 2, op->nan = i & 4;
    }
    for (int i = 0; i < 2; i++) {
        struct rk_op *op = add_float("DDD", does_min_max, i ? "max" : "min", &ref_f64);
        op->mode = i ? '>' : '<', op->any_nan = true;
    }
}

static void
add_comparisons(void)
{
    static const struct {
        const char *word;
        int combine;
    } with[] = {{"", 0}, {".and", '&'}, {".or", '|'}, {".xor", '^'}};
    static const struct ref_fmt *const fmts[] = {&ref_f32, &ref_f32, &ref_f64,
                                                 &ref_f16};

    for (int is_set = 0; is_set < 2; is_set++) {
        rk_family();
        for (int i = 0; i < 14 * 4 * 4; i++) {
            int rel = i % 14, w = i / 14 % 4, kind = i / 56;
            char class = kind == 3 ? 'H' : kind == 2 ? 'D' : 'W', words[40];
            char sig[6] = {is_set ? 'W' : 'P', class, class, w ? 'P' : 0};
            struct rk_op *op;

            if (is_set && kind == 3)
                continue;
            snprintf(words, sizeof(words), "set%s.%s%s%s%s", is_set ? "" : "p",
                     relations[rel], with[w].word, kind == 1 ? ".ftz" : "",
                     !is_set   ? ""
                     : rel & 1 ? ".f32"
                               : ".u32");
            op = add_float(sig, is_set ? does_set : does_setp, words, fmts[kind]);
            op->mode = rel, op->combine = with[w].combine, op->ftz = kind == 1;
            op->nan = rel & 1;
        }
    }
}

static const struct {
    const char *name;
    uint8_t bits;
    bool is_signed;
    char class;
} ints[] = {{"u8", 8, false, 'H'},   {"s8", 8, true, 'H'},    {"u16", 16, false, 'H'},
            {"s16", 16, true, 'H'},  {"u32", 32, false, 'W'}, {"s32", 32, true, 'W'},
            {"u64", 64, false, 'D'}, {"s64", 64, true, 'D'}};

static const struct {
    const char *name;
    const struct ref_fmt *fmt;
    char class;
} floats[] = {{"f32", &ref_f32, 'W'}, {"f64", &ref_f64, 'D'}, {"f16", &ref_f16, 'H'}};

static void
add_int_conversions(void)
{
    for (int back = 0; back < 2; back++) {
        rk_family();
        for (int i = 0; i < 8 * 3 * 4 * 2; i++) {
            int t = i % 8, f = i / 8 % 3, m = i / 24 % 4;
            bool ftz = i >= 96;
            char sig[3] = {floats[f].class, ints[t].class, 0};
            struct rk_op *op;

            if (ftz && (!back || f != 0))
                continue;
            if (back) {
                sig[0] = ints[t].class, sig[1] = floats[f].class;
                op = rk_add(sig, does_to_int, "cvt%si%s.%s.%s", modes[m],
                            ftz ? ".ftz" : "", ints[t].name, floats[f].name);
                op->from_fmt = floats[f].fmt,
                op->from_bits = (uint8_t)floats[f].fmt->bits;
                op->bits = ints[t].bits, op->is_signed = ints[t].is_signed;
            } else {
                op = rk_add(sig, does_to_float, "cvt%s.%s.%s", modes[m], floats[f].name,
                            ints[t].name);
                op->fmt = floats[f].fmt, op->bits = (uint8_t)floats[f].fmt->bits;
                op->from_bits = ints[t].bits, op->from_signed = ints[t].is_signed;
            }
            op->mode = m, op->ftz = ftz;
        }
    }
}

static void
add_float_conversion(int to, int from, const char *mode, int m, rk_ref *ref, bool sat)
{
    char sig[3] = {floats[to].class, floats[from].class, 0};
    struct rk_op *op = rk_add(sig, ref, "cvt%s%s.%s.%s", mode, sat ? ".sat" : "",
                              floats[to].name, floats[from].name);

    op->fmt = floats[to].fmt, op->bits = (uint8_t)op->fmt->bits;
    op->from_fmt = floats[from].fmt, op->from_bits = (uint8_t)op->from_fmt->bits;
    op->mode = m, op->sat = sat, op->any_nan = to == 1;
}

static void
add_float_conversions(void)
{
    static const int narrower[][2] = {{2, 0}, {2, 1}, {0, 1}};
    static const int wider[][2] = {{0, 2}, {1, 2}, {1, 0}};
    static const char *const integral[] = {".rni", ".rzi", ".rmi", ".rpi"};

    rk_family();
    for (int i = 0; i < 3 * 4 * 2; i++)
        add_float_conversion(narrower[i % 3][0], narrower[i % 3][1], modes[i / 3 % 4],
                             i / 3 % 4, does_to_float, i >= 12);
    for (int i = 0; i < 3; i++)
        add_float_conversion(wider[i][0], wider[i][1], "", REF_RN, does_to_float,
                             false);
    rk_family();
    for (int i = 0; i < 3 * 4 * 2; i++)
        add_float_conversion(i % 3, i % 3, integral[i / 3 % 4], i / 3 % 4,
                             does_to_integral, i >= 12);
}

/* Halves and their pairs. */
static void
add_halves(void)
{
    static const struct {
        const char *name;
        unsigned sources;
        rk_ref *ref;
        int combine;
    } rows[] = {{"add", 2, does_add, '+'},     {"sub", 2, does_sub, '-'},
                {"mul", 2, does_mul, '*'},     {"fma.rn", 3, does_fma, 'f'},
                {"min", 2, does_min_max, '<'}, {"max", 2, does_min_max, '>'}};

    rk_family();
    for (int i = 0; i < 6 * 2 * 8; i++) {
        int row = i % 6,
            variant = i / 12; /* 0: none, then ftz, sat, ftz sat, relu, NaN.. */
        bool pair = i / 6 & 1, minmax = row >= 4, ftz = variant & 1, bf = variant >= 6;
        bool sat = (variant == 2 || variant == 3) && !minmax,
             relu = variant == 4 && row == 3;
        bool nan = (variant == 4 || variant == 5 || variant == 7) && minmax;
        char words[40], sig[6];
        struct rk_op *op;

        if ((!minmax && variant > 4) || (variant == 4 && !relu && !nan))
            if (!(bf && row == 3 && variant == 6))
                continue;
        if (minmax && (variant == 2 || variant == 3))
            continue;
        snprintf(words, sizeof(words), "%s%s%s%s%s.%sf16%s", rows[row].name,
                 ftz && !bf ? ".ftz" : "", sat ? ".sat" : "", relu ? ".relu" : "",
                 nan ? ".NaN" : "", bf ? "b" : "", pair ? "x2" : "");
        snprintf(sig, sizeof(sig), "%.*s", (int)rows[row].sources + 1,
                 pair ? "WWWW" : "HHHH");
        op = rk_add(sig, pair ? does_pair : rows[row].ref, "%s", words);
        op->fmt = bf ? &ref_bf16 : &ref_f16, op->bits = 16, op->is_float = true;
        op->ftz = ftz && !bf, op->sat = sat, op->relu = relu, op->nan = nan;
        op->mode = minmax ? rows[row].combine : REF_RN;
        op->combine = minmax ? 'm' : rows[row].combine;
    }
}

uint64_t
rk_one_nan(unsigned bits, uint64_t v)
{
    const struct ref_fmt *fmt = bits == 64 ? &ref_f64 : &ref_f32;

    return ref_is_nan(fmt, v) ? (bits == 64 ? UINT64_C(0x7ff8000000000000) : 0x7fffffff)
                              : v;
}

void
rk_ops_add_floats(void)
{
    add_rounded("add", "2", does_add, true);
    add_rounded("sub", "2", does_sub, true);
    add_rounded("mul", "2", does_mul, true);
    add_rounded("fma", "3", does_fma, true);
    add_rounded("div", "2", does_div, false);
    add_rounded("rcp", "1", does_rcp, false);
    add_rounded("sqrt", "1", does_sqrt, false);
    add_signs();
    add_min_max();
    add_comparisons();
    add_int_conversions();
    add_float_conversions();
    add_halves();
}
