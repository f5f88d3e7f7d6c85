/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways in which warps and CTAs wait for each other, as programs use them, each under
 * many seeds of the scheduler that picks fragments at random: every one must end, with
 * the same result.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <string.h>

#define SEEDS 20
#define CTAS 12
#define THREADS 96

/* %r1 tid, %r2 ctaid, %r4 global number; %rd1 out, %rd3 a zeroed kilobyte */
#define KERNEL(decl, body)                                                             \
    UT_SGX_HEAD decl                                                                   \
        ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"                         \
        ".reg .pred %p<8>;.reg .b32 %r<32>;.reg .b64 %rd<16>;\n"                       \
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"          \
        "mad.lo.u32 %r4, %r2, %r3, %r1; ld.param.u64 %rd1, [a]; ld.param.u64 %rd3, "   \
        "[b];\n" body "ret;\n}\n"

typedef uint32_t want_fn(unsigned i);

static void
check(const char *text, enum sg_cta_state (*run)(struct ut_sgx *u), unsigned n,
      want_fn *want)
{
    struct ut_sgx u;
    uint32_t *out, *zeros;

    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, CTAS * THREADS * 4);
    zeros = ut_sgx_buf(&u, 1024);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_param(&u, 1, (uintptr_t)zeros);
    ut_sgx_shape(&u, CTAS, THREADS);
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        memset(out, 0xff, CTAS * THREADS * 4);
        memset(zeros, 0, 1024);
        u.launch.seed = seed; /* 0: the usual policy */
        assert_int_equal(run(&u), SG_CTA_DONE);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(out[i], want(i));
    }
    ut_sgx_close(&u);
}

static enum sg_cta_state
in_turns(struct ut_sgx *u)
{
    return ut_sgx_run_resident(u, 100);
}

static enum sg_cta_state
in_threads(struct ut_sgx *u)
{
    return ut_sgx_run_threads(u, 3);
}

/* ---- decoupled look-back: each CTA publishes its sum, walks back over the others',
 * and publishes what it found; it needs those before it to get on ---- */

static const char look_back[] = KERNEL(
    "",
    "setp.ne.u32 %p1, %r1, 0; @%p1 bra OUT;\n"
    "add.u32 %r5, %r2, 1; mul.wide.u32 %rd4, %r2, 4; add.u64 %rd4, %rd3, %rd4;\n"
    "or.b32 %r6, %r5, 0x40000000; st.release.gpu.global.u32 [%rd4], %r6;\n"
    "mov.u64 %rd5, %rd4; mov.u32 %r7, %r5; mov.u32 %r8, %r2;\n"
    "BACK: setp.eq.u32 %p2, %r8, 0; @%p2 bra DONE;\n"
    "SPIN: ld.acquire.gpu.global.u32 %r9, [%rd5-4]; setp.eq.u32 %p3, %r9, 0;\n"
    "@%p3 bra SPIN;\n"
    "and.b32 %r10, %r9, 0x3fffffff; add.u32 %r7, %r7, %r10; setp.lt.s32 %p4, %r9, 0;\n"
    "@%p4 bra DONE; sub.u64 %rd5, %rd5, 4; sub.u32 %r8, %r8, 1; bra BACK;\n"
    "DONE: or.b32 %r11, %r7, 0x80000000; st.release.gpu.global.u32 [%rd4], %r11;\n"
    "mul.wide.u32 %rd6, %r2, 4; add.u64 %rd6, %rd1, %rd6; st.global.u32 [%rd6], %r7;\n"
    "OUT: \n");

static uint32_t
prefix(unsigned i)
{
    return (i + 1) * (i + 2) / 2;
}

static void
scans_look_back_over_earlier_blocks(void **state)
{
    (void)state;
    check(look_back, ut_sgx_run, CTAS, prefix);
    check(look_back, in_turns, CTAS, prefix);
    check(look_back, in_threads, CTAS, prefix);
}

/* ---- the last block to finish adds up what the others left ---- */

static const char last_block[] =
    KERNEL(".shared .align 4 .b32 last;\n",
           "setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT;\n"
           "mul.wide.u32 %rd4, %r2, 4; add.u64 %rd5, %rd1, %rd4; add.u32 %r5, %r2, 7;\n"
           "st.global.u32 [%rd5+128], %r5; membar.gl;\n"
           "mov.u32 %r6, %nctaid.x; sub.u32 %r6, %r6, 1;\n"
           "atom.global.inc.u32 %r7, [%rd3], %r6; setp.eq.u32 %p2, %r7, %r6;\n"
           "selp.u32 %r8, 1, 0, %p2; st.shared.u32 [last], %r8;\n"
           "WAIT: bar.sync 0; ld.shared.u32 %r9, [last]; setp.eq.u32 %p3, %r9, 0;\n"
           "@%p3 exit; @%p1 exit;\n"
           "mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u64 %rd6, %rd1;\n"
           "SUM: ld.volatile.global.u32 %r12, [%rd6+128]; add.u32 %r10, %r10, %r12;\n"
           "add.u64 %rd6, %rd6, 4; add.u32 %r11, %r11, 1; setp.le.u32 %p4, %r11, %r6;\n"
           "@%p4 bra SUM; st.global.u32 [%rd1], %r10;\n");

static uint32_t
total(unsigned i)
{
    return CTAS * 7 + CTAS * (CTAS - 1) / 2 + i;
}

static void
the_last_block_sees_what_all_left(void **state)
{
    (void)state;
    check(last_block, ut_sgx_run, 1, total);
    check(last_block, in_threads, 1, total);
}

/* ---- warp 0 makes, warps 1 and 2 use, over two slots with an mbarrier each way ----
 */

static const char pipeline[] = KERNEL(
    ".shared .align 8 .b64 full[2];\n.shared .align 8 .b64 empty[2];\n"
    ".shared .align 4 .b32 slot[64];\n",
    "mov.u32 %r20, full; mov.u32 %r21, empty; mov.u32 %r22, slot;\n"
    "setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;\n"
    "mbarrier.init.shared.b64 [full], 32; mbarrier.init.shared.b64 [full+8], 32;\n"
    "mbarrier.init.shared.b64 [empty], 64; mbarrier.init.shared.b64 [empty+8], 64;\n"
    "READY: bar.sync 0; and.b32 %r5, %r1, 31; mov.u32 %r6, 0; mov.u32 %r7, 0;\n"
    "setp.ge.u32 %p2, %r1, 32;\n"
    /* step i: slot i % 2, round i / 2 */
    "STEP: and.b32 %r8, %r6, 1; shr.u32 %r9, %r6, 1; and.b32 %r9, %r9, 1;\n"
    "shl.b32 %r10, %r8, 3; shl.b32 %r11, %r8, 7; shl.b32 %r12, %r5, 2;\n"
    "add.u32 %r11, %r11, %r12; add.u32 %r11, %r11, %r22;\n"
    "add.u32 %r13, %r20, %r10; add.u32 %r14, %r21, %r10; @%p2 bra USE;\n"
    "xor.b32 %r15, %r9, 1;\n"
    "FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r14], %r15; @%p3 bra MAKE;\n"
    "nanosleep.u32 20; bra FREE;\n"
    "MAKE: mad.lo.u32 %r16, %r6, 100, %r5; st.shared.u32 [%r11], %r16;\n"
    "mbarrier.arrive.shared.b64 %rd4, [%r13]; bra NEXT;\n"
    "USE: mbarrier.try_wait.parity.shared.b64 %p3, [%r13], %r9; @!%p3 bra USE;\n"
    "ld.shared.u32 %r16, [%r11]; add.u32 %r7, %r7, %r16;\n"
    "mbarrier.arrive.shared.b64 %rd4, [%r14];\n"
    "NEXT: add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 9; @%p4 bra STEP;\n"
    "mul.wide.u32 %rd5, %r4, 4; add.u64 %rd5, %rd1, %rd5; st.global.u32 [%rd5], "
    "%r7;\n");

static uint32_t
used(unsigned i)
{
    return i % THREADS < 32 ? 0 : 100 * 36 + 9 * (i % 32);
}

static void
warps_pass_slots_through_mbarriers(void **state)
{
    (void)state;
    check(pipeline, ut_sgx_run, CTAS * THREADS, used);
}

/* ---- all blocks wait for all, several times over: cooperative launches ---- */

static const char grid_sync[] = KERNEL(
    "",
    "mov.u32 %r5, 0; mov.u32 %r6, %nctaid.x; mov.u32 %r7, 0;\n"
    "ROUND: bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra JOIN;\n"
    "mad.lo.u32 %r8, %r5, %r6, %r6; atom.global.add.acq_rel.gpu.u32 %r9, [%rd3], 1;\n"
    "SPIN: ld.acquire.gpu.global.u32 %r9, [%rd3]; setp.lt.u32 %p2, %r9, %r8;\n"
    "@%p2 bra SPIN;\n"
    "JOIN: bar.sync 0; ld.acquire.gpu.global.u32 %r10, [%rd3]; div.u32 %r10, %r10, "
    "%r6;\n"
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r10, %r5; selp.u32 %r11, 1000, 1, %p4;\n"
    "add.u32 %r7, %r7, %r11; setp.lt.u32 %p3, %r5, 5; @%p3 bra ROUND;\n"
    "mul.wide.u32 %rd5, %r4, 4; add.u64 %rd5, %rd1, %rd5; st.global.u32 [%rd5], "
    "%r7;\n");

static uint32_t
rounds(unsigned i)
{
    (void)i;
    return 5;
}

static void
grids_synchronise_round_after_round(void **state)
{
    (void)state;
    check(grid_sync, in_turns, CTAS * THREADS, rounds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_look_back_over_earlier_blocks),
        cmocka_unit_test(the_last_block_sees_what_all_left),
        cmocka_unit_test(warps_pass_slots_through_mbarriers),
        cmocka_unit_test(grids_synchronise_round_after_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
