/* SPDX-License-Identifier: Apache-2.0 */
/* Video instructions, and moves of vector registers, against plain C. */
#include "ut_builds.h"
#include "ut_golden.h"

#include <string.h>

#define REF(name)                                                                      \
    static uint64_t want_##name(const struct golden_arg *arg, uint64_t a, uint64_t b,  \
                                uint64_t c)

#define W32 {32, 32, 32}, 32

static int64_t
s32(uint64_t v)
{
    return (int32_t)(uint32_t)v;
}

static int64_t
clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static int64_t
u32(uint64_t v)
{
    return (int64_t)(v & UINT32_MAX);
}

static int64_t
distance(int64_t a, int64_t b)
{
    return a < b ? b - a : a - b;
}

REF(uu_add)
{
    return a + b;
}
REF(add_then_add)
{
    return a + b + c;
}
REF(sub_then_add)
{
    return a - b + c;
}
REF(su_add_sat_s)
{
    return (uint64_t)clamp(s32(a) + u32(b), INT32_MIN, INT32_MAX);
}
REF(us_sub_sat_u)
{
    return (uint64_t)clamp(u32(a) - s32(b), 0, UINT32_MAX);
}
REF(ss_diff)
{
    return (uint64_t)distance(s32(a), s32(b));
}
REF(us_min)
{
    return u32(a) < s32(b) ? a : b;
}

REF(uu_max_min)
{
    uint64_t top = u32(a) > u32(b) ? a : b;

    return u32(top) < u32(c) ? top : c;
}

REF(ss_min_max)
{
    int64_t low = s32(a) < s32(b) ? s32(a) : s32(b);

    return (uint64_t)(low > s32(c) ? low : s32(c));
}

/* parts: byte 1 of a, signed, plus upper half of b, unsigned */
REF(parts)
{
    return (uint64_t)((int8_t)(a >> 8) + (int64_t)(b >> 16 & 0xffff));
}
/* ... saturated into byte 2 of c */
REF(part_of_d)
{
    int64_t sum = clamp((int8_t)(a >> 8) + (int64_t)(b >> 16 & 0xffff), 0, 255);

    return (c & ~UINT64_C(0xff0000)) | (uint64_t)sum << 16;
}

REF(shl_clamp)
{
    return u32(b) > 31 ? 0 : a << b;
}
REF(shl_wrap)
{
    return a << (b & 31);
}
REF(shr_s_clamp)
{
    return (uint64_t)(s32(a) >> (u32(b) > 31 ? 31 : b));
}
REF(shr_u_wrap_add)
{
    return ((a & UINT32_MAX) >> (b & 31)) + c;
}
REF(set_lt)
{
    return s32(a) < u32(b);
}
REF(set_ge_add)
{
    return (u32(a) >= u32(b)) + c;
}
REF(mad)
{
    return a * b + c;
}
REF(mad_po)
{
    return a * b + c + 1;
}
REF(mad_shr7)
{
    return (uint64_t)((s32(a) * s32(b) + s32(c)) >> 7);
}
REF(mad_neg)
{
    return (uint64_t)(-s32(a) * s32(b) + s32(c));
}
REF(mad_sat_u)
{
    unsigned __int128 v =
        (unsigned __int128)u32(a) * (uint64_t)u32(b) + (uint64_t)u32(c);

    return v > UINT32_MAX ? UINT32_MAX : (uint64_t)v;
}

static void
scalar_video_instructions(void **state)
{
    static const struct golden list[] = {
        {"vadd.u32.u32.u32 %d, %a, %b;", W32, want_uu_add},
        {"vadd.u32.u32.u32.add %d, %a, %b, %c;", W32, want_add_then_add},
        {"vsub.u32.u32.u32.add %d, %a, %b, %c;", W32, want_sub_then_add},
        {"vadd.s32.s32.u32.sat %d, %a, %b;", W32, want_su_add_sat_s},
        {"vsub.u32.u32.s32.sat %d, %a, %b;", W32, want_us_sub_sat_u},
        {"vabsdiff.u32.s32.s32 %d, %a, %b;", W32, want_ss_diff},
        {"vmin.s32.u32.s32 %d, %a, %b;", W32, want_us_min},
        {"vmax.u32.u32.u32.min %d, %a, %b, %c;", W32, want_uu_max_min},
        {"vmin.s32.s32.s32.max %d, %a, %b, %c;", W32, want_ss_min_max},
        {"vadd.s32.s32.u32 %d, %a.b1, %b.h1;", W32, want_parts},
        {"vadd.u32.s32.u32.sat %d.b2, %a.b1, %b.h1, %c;", W32, want_part_of_d},
        {"vshl.u32.u32.u32.clamp %d, %a, %b;", W32, want_shl_clamp},
        {"vshl.u32.u32.u32.wrap %d, %a, %b;", W32, want_shl_wrap},
        {"vshr.s32.s32.u32.clamp %d, %a, %b;", W32, want_shr_s_clamp},
        {"vshr.u32.u32.u32.wrap.add %d, %a, %b, %c;", W32, want_shr_u_wrap_add},
        {"vset.s32.u32.lt %d, %a, %b;", W32, want_set_lt},
        {"vset.u32.u32.ge.add %d, %a, %b, %c;", W32, want_set_ge_add},
        {"vmad.u32.u32.u32 %d, %a, %b, %c;", W32, want_mad},
        {"vmad.u32.u32.u32.po %d, %a, %b, %c;", W32, want_mad_po},
        {"vmad.s32.s32.s32.shr7 %d, %a, %b, %c;", W32, want_mad_shr7},
        {"vmad.s32.s32.s32 %d, -%a, %b, %c;", W32, want_mad_neg},
        {"vmad.u32.u32.u32.sat %d, %a, %b, %c;", W32, want_mad_sat_u},
    };

    GOLDEN_RUN(list);
}

/* ---- lanes: memory order makes the reference obvious ---- */

union word {
    uint32_t w;
    uint8_t u8[4];
    int8_t s8[4];
    uint16_t u16[2];
    int16_t s16[2];
};

static union word
word(uint64_t v)
{
    return (union word){.w = (uint32_t)v};
}

REF(absdiff4)
{
    for (int i = 0; i < 4; i++)
        c += (uint64_t)distance(word(a).u8[i], word(b).u8[i]);
    return c;
}

REF(add4)
{
    union word d;

    for (int i = 0; i < 4; i++)
        d.u8[i] = (uint8_t)(word(a).u8[i] + word(b).u8[i]);
    return d.w;
}

REF(add4_sat)
{
    union word d;

    for (int i = 0; i < 4; i++)
        d.s8[i] = (int8_t)clamp(word(a).s8[i] + word(b).s8[i], -128, 127);
    return d.w;
}

REF(sub2_sat)
{
    union word d;

    for (int i = 0; i < 2; i++)
        d.u16[i] = (uint16_t)clamp(word(a).u16[i] - word(b).u16[i], 0, 65535);
    return d.w;
}

REF(max2)
{
    union word d;

    for (int i = 0; i < 2; i++)
        d.s16[i] = word(a).s16[i] > word(b).s16[i] ? word(a).s16[i] : word(b).s16[i];
    return d.w;
}

REF(set4)
{
    union word d;

    for (int i = 0; i < 4; i++)
        d.u8[i] = word(a).u8[i] < word(b).u8[i];
    return d.w;
}

/* lanes chosen across both sources, and only the upper half written */
REF(chosen2)
{
    union word d = word(c);

    d.u16[1] = (uint16_t)(word(b).u16[1] + word(a).u16[0]);
    return d.w;
}

static void
lanes_of_a_word(void **state)
{
    static const struct golden list[] = {
        {"vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", W32, want_absdiff4},
        {"vadd4.u32.u32.u32 %d, %a, %b, %c;", W32, want_add4},
        {"vadd4.s32.s32.s32.sat %d, %a, %b, %c;", W32, want_add4_sat},
        {"vsub2.u32.u32.u32.sat %d, %a, %b, %c;", W32, want_sub2_sat},
        {"vmax2.s32.s32.s32 %d, %a, %b, %c;", W32, want_max2},
        {"vset4.u32.u32.lt %d, %a, %b, %c;", W32, want_set4},
        {"vadd2.u32.u32.u32 %d.h1, %a.h30, %b.h02, %c;", W32, want_chosen2},
    };

    GOLDEN_RUN(list);
}

/* ---- vector registers ---- */

REF(swap)
{
    return b << 32 | (a & UINT32_MAX);
}
REF(sum_of_parts)
{
    return (a & UINT32_MAX) + (a >> 32);
}

static void
vector_registers_move_as_their_components(void **state)
{
    static const struct golden list[] = {
        {"{ .reg .v2 .b32 %v; mov.v2.b32 %v, {%b, %a}; mov.v2.b32 %v, {%v.y, %v.x}; "
         "mov.b64 %d, %v; }",
         {32, 32, 32},
         64,
         want_swap},
        {"{ .reg .v2 .u32 %v; mov.b64 %v, %a; add.u32 %d, %v.x, %v.y; }",
         {64, 64, 64},
         32,
         want_sum_of_parts},
    };

    GOLDEN_RUN(list);
}

REF(low_half)
{
    return a & UINT16_MAX;
}
REF(first)
{
    return a;
}

/* As Triton writes its loads and stores. */
static void
lone_registers_may_stand_in_braces(void **state)
{
    static const struct golden list[] = {
        {"{ .local .b32 m; st.local.b32 [m], { %a }; ld.local.b32 { %d }, [ m + 0 ]; }",
         {32, 32, 32},
         32,
         want_first},
        {"{ .local .b64 m; st.local.b64 [m], {%a}; ld.local.b64 {%d}, [m]; }",
         {64, 64, 64},
         64,
         want_first},
        {"{ .local .b16 m; .reg .b16 %h; cvt.u16.u32 %h, %a; st.local.b16 [m], {%h}; "
         "ld.local.s16 {%h}, [m]; cvt.u32.u16 %d, {%h}; }",
         {32, 32, 32},
         32,
         want_low_half},
    };

    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_video_instructions),
        cmocka_unit_test(lanes_of_a_word),
        cmocka_unit_test(vector_registers_move_as_their_components),
        cmocka_unit_test(lone_registers_may_stand_in_braces),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
