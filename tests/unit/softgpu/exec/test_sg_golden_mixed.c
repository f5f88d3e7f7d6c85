/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f32 arithmetic in other shapes: two to a register, halves among the sources, min and
 * max of three; conversions that round by random bits or pack integers; averages.
 */
#include "sg_ref.h"
#include "ut_builds.h"
#include "ut_golden.h"

#include <string.h>

static uint32_t
rounded(const struct golden_arg *arg, struct ref_num num)
{
    uint64_t v = ref_pack(&ref_f32, num, (enum ref_round)arg->round);

    if (arg->ftz)
        v = ref_flush(&ref_f32, v);
    return (uint32_t)(arg->sat ? ref_saturate(&ref_f32, v) : v);
}

static struct ref_num
f32(const struct golden_arg *arg, uint64_t v)
{
    v &= UINT32_MAX;
    return ref_unpack(&ref_f32, arg->ftz ? ref_flush(&ref_f32, v) : v);
}

/* bits: the operation */
enum { ADD, SUB, MUL, FMA };

static uint32_t
arith(const struct golden_arg *arg, struct ref_num a, struct ref_num b,
      struct ref_num c)
{
    enum ref_round round = (enum ref_round)arg->round;

    switch (arg->bits) {
    case ADD:
        return rounded(arg, ref_add(a, b, round));
    case SUB:
        return rounded(arg, ref_add(a, ref_neg(b), round));
    case MUL:
        return rounded(arg, ref_mul(a, b));
    default:
        return rounded(arg, ref_add(ref_mul(a, b), c, round));
    }
}

static uint64_t
want_pair(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t r = 0;

    for (int k = 0; k < 64; k += 32)
        r |= (uint64_t)arith(arg, f32(arg, a >> k), f32(arg, b >> k), f32(arg, c >> k))
             << k;
    return r;
}

#define PAIR(name, op, rnd)                                                            \
    {name ".f32x2 %d, %a, %b;",  {64, 64, 64}, 64, want_pair,                          \
     {.bits = op, .round = rnd}, .kind = 'i'},                                         \
    {                                                                                  \
        name ".ftz.f32x2 %d, %a, %b;", {64, 64, 64}, 64, want_pair,                    \
            {.bits = op, .round = rnd, .ftz = true}, .kind = 'i'                       \
    }
#define PAIRS(op, OP)                                                                  \
    PAIR(op ".rn", OP, REF_RN), PAIR(op ".rz", OP, REF_RZ),                            \
        PAIR(op ".rm", OP, REF_RM), PAIR(op ".rp", OP, REF_RP)
#define FMA_PAIR(rnd, RND)                                                             \
    {                                                                                  \
        "fma." rnd ".f32x2 %d, %a, %b, %c;", {64, 64, 64}, 64, want_pair,              \
            {.bits = FMA, .round = RND}, .kind = 'i'                                   \
    }

static void
two_floats_of_a_register_are_two_operations(void **state)
{
    static const struct golden list[] = {
        PAIRS("add", ADD),      PAIRS("sub", SUB),      PAIRS("mul", MUL),
        FMA_PAIR("rn", REF_RN), FMA_PAIR("rz", REF_RZ), FMA_PAIR("rm", REF_RM),
        FMA_PAIR("rp", REF_RP),
    };

    (void)state;
    GOLDEN_RUN(list);
}

static uint64_t
want_mixed_f16(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    struct ref_num x = ref_unpack(&ref_f16, a & 0xffff), y = f32(arg, b);

    if (arg->bits == FMA)
        return arith(arg, x, ref_unpack(&ref_f16, b & 0xffff), f32(arg, c));
    return arith(arg, x, y, y);
}

static uint64_t
want_mixed_bf16(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    struct ref_num x = ref_unpack(&ref_bf16, a & 0xffff), y = f32(arg, b);

    if (arg->bits == FMA)
        return arith(arg, x, ref_unpack(&ref_bf16, b & 0xffff), f32(arg, c));
    return arith(arg, x, y, y);
}

#define MIXED(op, OP, rnd, RND)                                                        \
    {op "." rnd ".f32.f16 %d, %a, %b;", {16, 32, 32}, 32, want_mixed_f16,              \
     {.bits = OP, .round = RND},        .kind = 'i'},                                  \
    {                                                                                  \
        op "." rnd ".sat.f32.bf16 %d, %a, %b;", {16, 32, 32}, 32, want_mixed_bf16,     \
            {.bits = OP, .round = RND, .sat = true}, .kind = 'i'                       \
    }
#define MIXED_FMA(rnd, RND)                                                            \
    {"fma." rnd ".f32.f16 %d, %a, %b, %c;", {16, 16, 32}, 32, want_mixed_f16,          \
     {.bits = FMA, .round = RND},           .kind = 'i'},                              \
    {                                                                                  \
        "fma." rnd ".f32.bf16 %d, %a, %b, %c;", {16, 16, 32}, 32, want_mixed_bf16,     \
            {.bits = FMA, .round = RND}, .kind = 'i'                                   \
    }

static void
halves_join_floats_without_a_rounding(void **state)
{
    static const struct golden list[] = {
        MIXED("add", ADD, "rn", REF_RN), MIXED("add", ADD, "rz", REF_RZ),
        MIXED("sub", SUB, "rm", REF_RM), MIXED("sub", SUB, "rp", REF_RP),
        MIXED_FMA("rn", REF_RN),         MIXED_FMA("rz", REF_RZ),
    };

    (void)state;
    GOLDEN_RUN(list);
}

/* bits: 1 max, 2 .NaN, 4 .abs */
static uint64_t
want_three(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t in[3] = {a, b, c}, best = 0;
    bool some = false, nan = false;

    for (int i = 0; i < 3; i++) {
        uint64_t v = in[i] & (arg->bits & 4 ? 0x7fffffffu : UINT32_MAX);
        int cmp;
        if (arg->ftz)
            v = ref_flush(&ref_f32, v);
        if (ref_is_nan(&ref_f32, v)) {
            nan = true;
            continue;
        }
        cmp = some ? ref_compare(f32(arg, v), f32(arg, best)) : 0;
        if (cmp == 0 && some) /* -0 is below +0 */
            cmp = (int)(best >> 31) - (int)(v >> 31);
        if (!some || (arg->bits & 1 ? cmp > 0 : cmp < 0))
            best = v;
        some = true;
    }
    return !some || (nan && (arg->bits & 2)) ? 0x7fffffffu : best;
}

#define THREE(name, b)                                                                 \
    {                                                                                  \
        name ".f32 %d, %a, %b, %c;", {32, 32, 32}, 32, want_three, {.bits = b},        \
            .kind = 'f'                                                                \
    }

static void
the_least_of_three(void **state)
{
    static const struct golden list[] = {
        THREE("min", 0),
        THREE("max", 1),
        THREE("min.NaN", 2),
        THREE("max.NaN", 3),
        THREE("min.abs", 4),
        THREE("max.abs", 5),
        THREE("min.NaN.abs", 6),
        THREE("max.NaN.abs", 7),
        {"min.ftz.f32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_three,
         {.ftz = true},
         .kind = 'f'},
    };

    (void)state;
    GOLDEN_RUN(list);
}

/* -------------------------------------------------------------------- conversions */

struct narrow {
    int mant, emin, bits, n_random;
    uint32_t max, inf, nan;
};

/* The fraction that is cut is kept as a number of 2^-n_random steps; it rounds up where
 * random bits and it make a whole. */
static uint32_t
by_chance(const struct narrow *f, uint32_t v, uint32_t random, bool satfinite,
          bool relu)
{
    uint32_t mag = v & 0x7fffffff, sign = v >> 31, code;
    int exp = (int)(mag >> 23), drop;
    unsigned __int128 frac = (mag & 0x7fffff) | (exp ? 0x800000 : 0), chance;

    if (mag > 0x7f800000)
        return f->nan;
    if (relu && sign)
        return 0;
    exp = (exp ? exp : 1) - 127;
    drop = 23 - f->mant + (exp < f->emin ? f->emin - exp : 0);
    chance = random & ((1u << f->n_random) - 1);
    if (drop > 40) {
        code = 0;
    } else { /* both in units of 2^-(23 + n_random) */
        unsigned __int128 sum = (frac << f->n_random) + (chance << drop);
        uint32_t kept = (uint32_t)(sum >> f->n_random >> drop);
        code = exp < f->emin ? kept : ((uint32_t)(exp - f->emin) << f->mant) + kept;
    }
    if (mag == 0x7f800000 || code > f->max)
        code = satfinite ? f->max : f->inf;
    return code | sign << (f->bits - 1);
}

static const struct narrow half = {10, -14, 16, 13, 0x7bff, 0x7c00, 0x7fff};
static const struct narrow brain = {7, -126, 16, 16, 0x7f7f, 0x7f80, 0x7fff};
static const struct narrow e4m3 = {3, -6, 8, 16, 0x7e, 0x7e, 0x7f};
static const struct narrow e2m1 = {1, 0, 4, 16, 7, 7, 7};

/* round: relu; sat: satfinite; bits: is it bf16 */
static uint64_t
want_two_by_chance(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    const struct narrow *f = arg->bits ? &brain : &half;

    return by_chance(f, (uint32_t)b, (uint32_t)c & 0xffff, arg->sat, arg->round) |
           by_chance(f, (uint32_t)a, (uint32_t)c >> 16, arg->sat, arg->round) << 16;
}

/* {a, b, a, b}: the upper pair has the upper random bits */
static uint64_t
want_four_by_chance(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t r = (uint32_t)c, out = 0;

    for (int k = 3; k >= 0; k--) {
        uint32_t v = (uint32_t)(k & 1 ? a : b);
        if (arg->bits == 4)
            out = out << 4 | by_chance(&e2m1, v,
                                       k >= 2 ? (r >> 16 & 0xff00) | (r >> 8 & 0xff)
                                              : (r >> 8 & 0xff00) | (r & 0xff),
                                       true, false);
        else
            out = out << 8 |
                  by_chance(&e4m3, v, k >= 2 ? r >> 16 : r & 0xffff, true, false);
    }
    return out;
}

/* bits: of one result; is_signed */
static uint64_t
want_packed(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    int64_t top = (1ll << (arg->bits - arg->is_signed)) - 1;
    int64_t low = arg->is_signed ? -top - 1 : 0, in[2] = {(int32_t)b, (int32_t)a};
    uint64_t r = arg->bits == 16 ? 0 : c << 2 * arg->bits;

    for (int k = 0; k < 2; k++) {
        int64_t v = in[k] > top ? top : in[k] < low ? low : in[k];
        r |= ((uint64_t)v & ((1ull << arg->bits) - 1)) << k * arg->bits;
    }
    return r & UINT32_MAX;
}

#define PACK(type, b, s)                                                               \
    {                                                                                  \
        "cvt.pack.sat." type ".s32.b32 %d, %a, %b, %c;", {32, 32, 32}, 32,             \
            want_packed, {.bits = b, .is_signed = s}, .kind = 'i'                      \
    }

static void
conversions_by_chance_and_packed(void **state)
{
    static const struct golden list[] = {
        {"cvt.rs.f16x2.f32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_two_by_chance,
         {.bits = 0},
         .kind = 'f'},
        {"cvt.rs.satfinite.f16x2.f32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_two_by_chance,
         {.sat = true},
         .kind = 'f'},
        {"cvt.rs.relu.bf16x2.f32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_two_by_chance,
         {.bits = 1, .round = 1},
         .kind = 'f'},
        {"cvt.rs.satfinite.e4m3x4.f32 %d, {%a, %b, %a, %b}, %c;",
         {32, 32, 32},
         32,
         want_four_by_chance,
         {.bits = 8},
         .kind = 'f'},
        {"cvt.rs.satfinite.e2m1x4.f32 %d, {%a, %b, %a, %b}, %c;",
         {32, 32, 32},
         16,
         want_four_by_chance,
         {.bits = 4},
         .kind = 'f'},
        {"cvt.pack.sat.s16.s32 %d, %a, %b;",
         {32, 32, 32},
         32,
         want_packed,
         {.bits = 16, .is_signed = true},
         .kind = 'i'},
        {"cvt.pack.sat.u16.s32 %d, %a, %b;",
         {32, 32, 32},
         32,
         want_packed,
         {.bits = 16},
         .kind = 'i'},
        PACK("s8", 8, true),
        PACK("u8", 8, false),
        PACK("s4", 4, true),
        PACK("u4", 4, false),
        PACK("s2", 2, true),
        PACK("u2", 2, false),
    };

    (void)state;
    GOLDEN_RUN(list);
}

/* bits of the source; is_signed */
static uint64_t
want_bfloat(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    struct ref_num v = arg->is_signed ? ref_from_int((int64_t)a) : ref_from_uint(a);

    return ref_pack(&ref_bf16, v, (enum ref_round)arg->round);
}

#define BRAIN(rnd, RND)                                                                \
    {"cvt." rnd ".bf16.u64 %d, %a;",                                                   \
     {64, 64, 64},                                                                     \
     16,                                                                               \
     want_bfloat,                                                                      \
     {.round = RND},                                                                   \
     .kind = 'i'},                                                                     \
    {                                                                                  \
        "cvt." rnd ".bf16.s64 %d, %a;", {64, 64, 64}, 16, want_bfloat,                 \
            {.round = RND, .is_signed = true}, .kind = 'i'                             \
    }

static uint64_t
near_ties(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    /* what the instruction makes of %a: eight bits, a tie behind them, and a last one
     */
    return want_bfloat(arg, (0x80 | (a & 0x7f)) << 56 | 1ull << 55 | (a >> 8 & 1), 0,
                       0);
}

static void
wide_integers_round_once_to_bfloats(void **state)
{
    static const struct golden list[] = {
        BRAIN("rn", REF_RN),
        BRAIN("rz", REF_RZ),
        BRAIN("rm", REF_RM),
        BRAIN("rp", REF_RP),
        {"and.b64 %a, %a, 0x17f; shr.u64 %b, %a, 8; or.b64 %a, %a, 0x80; "
         "shl.b64 %a, %a, 56; or.b64 %a, %a, %b; or.b64 %a, %a, 0x80000000000000; "
         "cvt.rn.bf16.u64 %d, %a;",
         {64, 64, 64},
         16,
         near_ties,
         {.round = REF_RN},
         .kind = 'i'},
    };

    (void)state;
    GOLDEN_RUN(list);
}

/* bits: of a lane; is_signed; sat: add */
static uint64_t
want_average(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t mask = (1ull << arg->bits) - 1, r = 0, sum = c;

    for (int at = 0; at < 32; at += arg->bits) {
        int64_t x = (int64_t)(a >> at & mask), y = (int64_t)(b >> at & mask), t;
        if (arg->is_signed) {
            x = (int64_t)((uint64_t)x << (64 - arg->bits)) >> (64 - arg->bits);
            y = (int64_t)((uint64_t)y << (64 - arg->bits)) >> (64 - arg->bits);
        }
        t = x + y >= 0 ? (x + y + 1) / 2 : -((-(x + y) + 1) / 2);
        r |= ((uint64_t)t & mask) << at;
        sum += (uint64_t)t;
    }
    return (arg->sat ? sum : r) & UINT32_MAX;
}

static void
averages_of_lanes_round_away_from_zero(void **state)
{
    static const struct golden list[] = {
        {"vavrg4.u32.u32.u32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_average,
         {.bits = 8},
         .kind = 'i'},
        {"vavrg4.s32.s32.s32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_average,
         {.bits = 8, .is_signed = true},
         .kind = 'i'},
        {"vavrg2.u32.u32.u32.add %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_average,
         {.bits = 16, .sat = true},
         .kind = 'i'},
        {"vavrg2.s32.s32.s32 %d, %a, %b, %c;",
         {32, 32, 32},
         32,
         want_average,
         {.bits = 16, .is_signed = true},
         .kind = 'i'},
    };

    (void)state;
    GOLDEN_RUN(list);
}

/* bits: of a lane, and 0x100 for a difference; is_signed, sat */
static uint64_t
want_lanes(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    int bits = arg->bits & 0xff;
    int64_t middle = 1ll << (bits - 1), all = 1ll << bits;
    uint64_t r = 0;

    for (int at = 0; at < 32; at += bits) {
        int64_t x = (int64_t)(a >> at) & (all - 1), y = (int64_t)(b >> at) & (all - 1),
                v;
        if (arg->is_signed) {
            x -= x >= middle ? all : 0;
            y -= y >= middle ? all : 0;
        }
        v = arg->bits & 0x100 ? x - y : x + y;
        if (arg->sat) {
            int64_t low = arg->is_signed ? -middle : 0;
            int64_t top = arg->is_signed ? middle - 1 : all - 1;
            v = v < low ? low : v > top ? top : v;
        }
        r |= ((uint64_t)v & (uint64_t)(all - 1)) << at;
    }
    return r;
}

static uint64_t
want_least(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t r = 0;

    for (int at = 0; at < 32; at += 8) {
        int x = (int)(a >> at & 0xff), y = (int)(b >> at & 0xff);
        int kx = arg->is_signed ? x ^ 0x80 : x, ky = arg->is_signed ? y ^ 0x80 : y;
        bool first = arg->bits ? kx > ky : kx < ky;
        r |= (uint64_t)(first ? x : y) << at;
    }
    return r;
}

static uint64_t
want_negated(const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    return want_lanes(arg, 0, a, 0);
}

#define LANES(name, ...)                                                               \
    {                                                                                  \
        name " %d, %a, %b;", {32, 32, 32}, 32, want_lanes, {__VA_ARGS__}, .kind = 'i'  \
    }
#define LEAST(name, ...)                                                               \
    {                                                                                  \
        name " %d, %a, %b;", {32, 32, 32}, 32, want_least, {__VA_ARGS__}, .kind = 'i'  \
    }

static void
lanes_of_bytes_and_halves(void **state)
{
    static const struct golden list[] = {
        LANES("add.u8x4", .bits = 8),
        LANES("sub.s8x4", .bits = 0x108),
        LANES("sub.u16x2", .bits = 0x110),
        LANES("add.sat.u8x4", .bits = 8, .sat = true),
        LANES("add.sat.s8x4", .bits = 8, .sat = true, .is_signed = true),
        LANES("sub.sat.u8x4", .bits = 0x108, .sat = true),
        LANES("sub.sat.s8x4", .bits = 0x108, .sat = true, .is_signed = true),
        LANES("add.sat.u16x2", .bits = 16, .sat = true),
        LANES("sub.sat.s16x2", .bits = 0x110, .sat = true, .is_signed = true),
        LANES("add.sat.s16x2", .bits = 16, .sat = true, .is_signed = true),
        LANES("sub.sat.u16x2", .bits = 0x110, .sat = true),
        LANES("add.sat.u32", .bits = 32, .sat = true),
        LANES("sub.sat.u32", .bits = 0x120, .sat = true),
        LEAST("min.u8x4", .bits = 0),
        LEAST("max.u8x4", .bits = 1),
        LEAST("min.s8x4", .bits = 0, .is_signed = true),
        LEAST("max.s8x4", .bits = 1, .is_signed = true),
        {"neg.s8x4 %d, %a;",
         {32, 32, 32},
         32,
         want_negated,
         {.bits = 0x108},
         .kind = 'i'},
        {"neg.s16x2 %d, %a;",
         {32, 32, 32},
         32,
         want_negated,
         {.bits = 0x110},
         .kind = 'i'},
    };

    (void)state;
    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_floats_of_a_register_are_two_operations),
        cmocka_unit_test(halves_join_floats_without_a_rounding),
        cmocka_unit_test(the_least_of_three),
        cmocka_unit_test(conversions_by_chance_and_packed),
        cmocka_unit_test(wide_integers_round_once_to_bfloats),
        cmocka_unit_test(averages_of_lanes_round_away_from_zero),
        cmocka_unit_test(lanes_of_bytes_and_halves),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
