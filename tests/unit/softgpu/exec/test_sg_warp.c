/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warp operations against a plain model: shuffles in every mode, width and distance,
 * votes, matches, reductions, tiles with member masks of their own, atomics over
 * threads.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>

#define DECL ".reg .pred %p<8>;.reg .b32 %r<32>;.reg .b64 %rd<16>;\n"
#define OUT                                                                            \
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; mul.wide.u32 %rd2, %r1, 8;\n"        \
    "add.u64 %rd2, %rd1, %rd2;\n"
#define KERNEL(params, body)                                                           \
    UT_SGX_HEAD ".visible .entry k(.param .u64 a" params ")\n{\n" DECL OUT body        \
                "ret;\n}\n"

/* The documented pseudo-code of shfl, one lane. */
static uint32_t
shfl_model(char mode, int lane, uint32_t b, uint32_t c, int *ret_pred)
{
    int bval = b & 0x1f, cval = c & 0x1f, mask = c >> 8 & 0x1f;
    int max = (lane & mask) | (cval & ~mask), min = lane & mask, j;

    switch (mode) {
    case 'u':
        j = lane - bval;
        *ret_pred = j >= max;
        break;
    case 'd':
        j = lane + bval;
        *ret_pred = j <= max;
        break;
    case 'b':
        j = lane ^ bval;
        *ret_pred = j <= max;
        break;
    default:
        j = min | (bval & ~mask);
        *ret_pred = j <= max;
        break;
    }
    return (uint32_t)(*ret_pred ? j : lane);
}

static void
shuffles_follow_the_model(void **state)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};

    (void)state;
    for (int m = 0; m < 4; m++) {
        char text[2048];
        struct ut_sgx u;
        uint32_t *out;
        snprintf(
            text, sizeof(text), "%sshfl.sync.%s.b32 %s",
            UT_SGX_HEAD
            ".visible .entry k(.param .u64 a, .param .u32 b, .param .u32 c)\n{\n" DECL
                OUT
            "ld.param.u32 %r2, [b]; ld.param.u32 %r3, [c]; add.u32 %r4, %r1, 1000;\n",
            modes[m],
            "%r5|%p1, %r4, %r2, %r3, -1; selp.u32 %r6, 1, 0, %p1;\n"
            "st.global.v2.u32 [%rd2], {%r5, %r6}; ret;\n}\n");
        ut_sgx_open(&u, text);
        out = ut_sgx_buf(&u, 256);
        ut_sgx_param(&u, 0, (uintptr_t)out);
        for (uint32_t width = 1; width <= 32; width *= 2) {
            uint32_t c = (32 - width) << 8 | (m == 0 ? 0 : width - 1);
            if (m == 0)
                c = (32 - width) << 8;
            else
                c = (32 - width) << 8 | 31;
            for (uint32_t b = 0; b < 33; b++) {
                ut_sgx_param(&u, 1, b);
                ut_sgx_param(&u, 2, c);
                assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
                for (int lane = 0; lane < 32; lane++) {
                    int pred;
                    uint32_t src = shfl_model(modes[m][0], lane, b, c, &pred);
                    assert_int_equal(out[2 * lane], 1000 + src);
                    assert_int_equal(out[2 * lane + 1], pred);
                }
            }
        }
        ut_sgx_close(&u);
    }
}

/* Tiles of eight lanes shuffle inside themselves while the other tiles are elsewhere.
 */
static void
tiles_with_their_own_members_do_not_wait_for_each_other(void **state)
{
    static const char text[] = KERNEL(
        "", "shr.u32 %r2, %r1, 3; and.b32 %r2, %r2, 3; shl.b32 %r3, %r2, 3; shl.b32 "
            "%r4, 255, %r3;\n"
            "mov.u32 %r5, 0; mov.u32 %r6, %r1;\n"
            "L: setp.ge.u32 %p1, %r5, %r2; @%p1 bra X;\n" /* tile t loops t times */
            "shfl.sync.bfly.b32 %r7, %r6, 1, 31, %r4; add.u32 %r6, %r6, %r7;\n"
            "add.u32 %r5, %r5, 1; bra L;\n"
            "X: vote.sync.ballot.b32 %r8, %p1, %r4; st.global.v2.u32 [%rd2], {%r6, "
            "%r8};\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 256);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    for (uint64_t seed = 0; seed < 20; seed++) {
        u.launch.seed = seed;
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        for (uint32_t lane = 0; lane < 32; lane++) {
            uint32_t v = lane, other = lane ^ 1;
            for (uint32_t i = 0; i < lane / 8; i++) {
                uint32_t t = v;
                v += other;
                other += t;
            }
            assert_int_equal(out[2 * lane], v);
            assert_int_equal(out[2 * lane + 1], 255u << (lane / 8 * 8));
        }
    }
    ut_sgx_close(&u);
}

/* What lane @lane votes in round @inner of round @outer. */
static bool
vote_in_round(uint32_t outer, uint32_t inner, uint32_t lane)
{
    return (inner + 2 * outer + lane / 4) & 2;
}

/* Lane i goes round an inner loop i & 3 times, with those that still do as its members,
 * and round the outer loop five times.  Whoever is through comes to the votes again
 * with all lanes as its members, while others are there with fewer: it waits for them.
 */
static void
members_that_come_with_another_mask_are_waited_for(void **state)
{
    struct ut_sgx u;
    uint64_t *out;

    (void)state;
    ut_sgx_open(&u,
                KERNEL("", "and.b32 %r2, %r1, 3; shr.u32 %r9, %r1, 2;\n"
                           "mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
                           "OUTER: mov.u32 %r5, 0; mov.b32 %r6, 0xffffffff;\n"
                           "INNER: setp.lt.u32 %p1, %r5, %r2;\n"
                           "vote.sync.ballot.b32 %r6, %p1, %r6; @!%p1 bra THROUGH;\n"
                           "mad.lo.u32 %r7, %r3, 2, %r5; add.u32 %r7, %r7, %r9;\n"
                           "and.b32 %r7, %r7, 2; setp.ne.u32 %p3, %r7, 0;\n"
                           "vote.sync.ballot.b32 %r8, %p3, %r6;\n"
                           "mad.lo.u32 %r4, %r4, 31, %r8;\n"
                           "@%p3 bra ODD; add.u32 %r5, %r5, 1; bra INNER;\n"
                           "ODD: add.u32 %r5, %r5, 1; bra INNER;\n"
                           "THROUGH: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5;\n"
                           "@%p2 bra OUTER;\n"
                           "cvt.u64.u32 %rd3, %r4; st.global.u64 [%rd2], %rd3;\n"));
    out = ut_sgx_buf(&u, 32 * 8);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    for (uint64_t seed = 0; seed < 100; seed++) {
        u.launch.seed = seed;
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t want = 0;
            for (uint32_t k = 0; k < 5 * (i & 3); k++) {
                uint32_t outer = k / (i & 3), inner = k % (i & 3), ballot = 0;
                for (uint32_t j = 0; j < 32; j++)
                    ballot |=
                        (uint32_t)((j & 3) > inner && vote_in_round(outer, inner, j))
                        << j;
                want = want * 31 + ballot;
            }
            assert_int_equal(out[i], want);
        }
    }
    ut_sgx_close(&u);
}

static void
votes_matches_and_reductions_follow_the_model(void **state)
{
    static const char text[] = KERNEL(
        ", .param .u32 div, .param .u32 lim, .param .u32 mem",
        "ld.param.u32 %r2, [div]; ld.param.u32 %r3, [lim]; ld.param.u32 %r20, [mem];\n"
        "shr.u32 %r21, %r20, %r1; and.b32 %r21, %r21, 1; setp.eq.u32 %p6, %r21, 0; "
        "@%p6 ret;\n"
        "mul.wide.u32 %rd3, %r1, 40; add.u64 %rd2, %rd1, %rd3;\n"
        "setp.lt.u32 %p1, %r1, %r3; div.u32 %r4, %r1, %r2;\n"
        "vote.sync.all.pred %p2, %p1, %r20; vote.sync.any.pred %p3, !%p1, %r20;\n"
        "vote.sync.uni.pred %p4, %p1, %r20; vote.sync.ballot.b32 %r5, %p1, %r20;\n"
        "match.any.sync.b32 %r6, %r4, %r20; match.all.sync.b32 %r7|%p5, %r4, %r20;\n"
        "redux.sync.add.u32 %r8, %r1, %r20; redux.sync.min.s32 %r9, %r4, %r20;\n"
        "redux.sync.max.u32 %r10, %r4, %r20; redux.sync.xor.b32 %r11, %r1, %r20;\n"
        "selp.u32 %r12, 1, 0, %p2; selp.u32 %r13, 2, 0, %p3; selp.u32 %r14, 4, 0, "
        "%p4;\n"
        "selp.u32 %r15, 8, 0, %p5; add.u32 %r12, %r12, %r13; add.u32 %r12, %r12, "
        "%r14;\n"
        "add.u32 %r12, %r12, %r15; activemask.b32 %r16;\n"
        "st.global.u32 [%rd2], %r12; st.global.u32 [%rd2+4], %r5; st.global.u32 "
        "[%rd2+8], %r6;\n"
        "st.global.u32 [%rd2+12], %r7; st.global.u32 [%rd2+16], %r8; st.global.u32 "
        "[%rd2+20], %r9;\n"
        "st.global.u32 [%rd2+24], %r10; st.global.u32 [%rd2+28], %r11; st.global.u32 "
        "[%rd2+32], %r16;\n");
    static const uint32_t members[] = {UINT32_MAX, 0x0000ffff, 0x80000001, 0x55555555,
                                       2};
    struct ut_sgx u;
    uint32_t(*out)[10];

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 32 * 40);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    for (size_t k = 0; k < 5; k++) {
        for (uint32_t div = 1; div < 40; div += 6) {
            for (uint32_t lim = 0; lim <= 32; lim += 8) {
                uint32_t mem = members[k], ball = 0, sum = 0, min = 99, max = 0, x = 0;
                ut_sgx_param(&u, 1, div);
                ut_sgx_param(&u, 2, lim);
                ut_sgx_param(&u, 3, mem);
                assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
                for (uint32_t i = 0; i < 32; i++) {
                    if (!(mem >> i & 1))
                        continue;
                    ball |= (uint32_t)(i < lim) << i;
                    sum += i;
                    x ^= i;
                    min = i / div < min ? i / div : min;
                    max = i / div > max ? i / div : max;
                }
                for (uint32_t i = 0; i < 32; i++) {
                    uint32_t same = 0, flags;
                    if (!(mem >> i & 1))
                        continue;
                    for (uint32_t j = 0; j < 32; j++)
                        same |= (uint32_t)((mem >> j & 1) && j / div == i / div) << j;
                    flags = (ball == mem) | (ball != mem) << 1 |
                            (ball == mem || ball == 0) << 2 |
                            (uint32_t)(same == mem) << 3;
                    assert_int_equal(out[i][0], flags);
                    assert_int_equal(out[i][1], ball);
                    assert_int_equal(out[i][2], same);
                    assert_int_equal(out[i][3], same == mem ? mem : 0);
                    assert_int_equal(out[i][4], sum);
                    assert_int_equal(out[i][5], min);
                    assert_int_equal(out[i][6], max);
                    assert_int_equal(out[i][7], x);
                    assert_int_equal(out[i][8], mem);
                }
            }
        }
    }
    ut_sgx_close(&u);
}

static void
atomics_are_atomic_over_threads(void **state)
{
    static const char text[] = KERNEL(
        "",
        "mov.u32 %r2, 0;\n"
        "L: atom.global.add.u32 %r3, [%rd1], 1; red.global.add.u64 [%rd1+8], 3;\n"
        "red.global.inc.u32 [%rd1+16], 1000000000; red.global.xor.b32 [%rd1+20], 1;\n"
        "red.global.max.u32 [%rd1+24], %r3; red.global.add.f32 [%rd1+28], 0f3F800000;\n"
        "C: ld.volatile.global.u32 %r4, [%rd1+32]; add.u32 %r5, %r4, 2;\n"
        "atom.global.cas.b32 %r6, [%rd1+32], %r4, %r5; setp.ne.u32 %p1, %r6, %r4; @%p1 "
        "bra C;\n"
        "add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50; @%p2 bra L;\n");
    const uint32_t n = 32 * 64 * 50;
    struct ut_sgx u;
    uint32_t *out;
    float f;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 64);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 32, 64);
    assert_int_equal(ut_sgx_run_threads(&u, 4), SG_CTA_DONE);
    memcpy(&f, &out[7], 4);
    assert_int_equal(out[0], n);
    assert_int_equal(out[2], 3 * n);
    assert_int_equal(out[4], n);
    assert_int_equal(out[5], n & 1);
    assert_int_equal(out[6], n - 1);
    assert_true(f == (float)n);
    assert_int_equal(out[8], 2 * n);
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_follow_the_model),
        cmocka_unit_test(tiles_with_their_own_members_do_not_wait_for_each_other),
        cmocka_unit_test(members_that_come_with_another_mask_are_waited_for),
        cmocka_unit_test(votes_matches_and_reductions_follow_the_model),
        cmocka_unit_test(atomics_are_atomic_over_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
