/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling: programs that hang under simpler policies finish, barriers count what
 * they should, everything can be killed, and no choice of fragment changes a result.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#define ENTRY(params, body)                                                            \
    UT_SGX_HEAD                                                                        \
    ".visible .entry k(" params ")\n{\n"                                               \
    ".reg .pred %p<8>;.reg .b32 %r<32>;.reg .b64 %rd<16>;.reg .f32 %f<8>;\n" body      \
    "}\n"
#define ONE ".param .u64 a"
#define TWO ".param .u64 a, .param .u64 b"
#define GLOBAL_TID                                                                     \
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"              \
    "mad.lo.u32 %r4, %r2, %r3, %r1;\n"
#define OUT_ADDR                                                                       \
    "mul.wide.u32 %rd2, %r4, 4; ld.param.u64 %rd1, [a]; add.u64 %rd2, %rd1, %rd2;\n"

/* while (atomicCAS(lock, 0, 1)); count++; lock = 0; */
static const char spin_lock[] =
    ENTRY(TWO, "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];\n"
               "L: atom.global.cas.b32 %r1, [%rd1], 0, 1;\n"
               "setp.ne.s32 %p1, %r1, 0; @%p1 bra L;\n"
               "ld.volatile.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, 1;\n"
               "st.volatile.global.u32 [%rd2], %r2; membar.gl;\n"
               "atom.global.exch.b32 %r3, [%rd1], 0; ret;\n");

static void
spin_lock_inside_a_warp_finishes(void **state)
{
    struct ut_sgx u;
    uint32_t *lock, *count;

    (void)state;
    ut_sgx_open(&u, spin_lock);
    lock = ut_sgx_buf(&u, 4);
    count = ut_sgx_buf(&u, 4);
    ut_sgx_param(&u, 0, (uintptr_t)lock);
    ut_sgx_param(&u, 1, (uintptr_t)count);
    ut_sgx_shape(&u, 3, 100);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    assert_int_equal(*count, 300);
    *count = 0;
    ut_sgx_shape(&u, 16, 64);
    assert_int_equal(ut_sgx_run_threads(&u, 4), SG_CTA_DONE);
    assert_int_equal(*count, 1024);
    ut_sgx_close(&u);
}

/* One thread stores a flag, all others of the CTA spin on it. */
static const char flag[] = ENTRY(
    TWO ", .param .u32 n",
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x;\n"
    "ld.param.u32 %r5, [n]; setp.eq.u32 %p1, %r1, %r5; @%p1 bra P;\n"
    "W: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;\n"
    "bra D;\n"
    "P: st.volatile.global.u32 [%rd1], 42;\n"
    "D: ld.volatile.global.u32 %r3, [%rd1]; mul.wide.u32 %rd3, %r1, 4;\n"
    "add.u64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], %r3; ret;\n");

static void
flag_from(unsigned producer, unsigned threads)
{
    struct ut_sgx u;
    uint32_t *word, *out;

    ut_sgx_open(&u, flag);
    word = ut_sgx_buf(&u, 4);
    out = ut_sgx_buf(&u, threads * 4);
    ut_sgx_param(&u, 0, (uintptr_t)word);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, producer);
    ut_sgx_shape(&u, 1, threads);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(out[i], 42);
    ut_sgx_close(&u);
}

static void
producers_and_consumers_meet_in_both_directions(void **state)
{
    (void)state;
    flag_from(31, 32);
    flag_from(0, 32);
    flag_from(255, 256); /* the last warp produces, the others spin first */
    flag_from(0, 200);
}

/* if (tid >= n) return; s[tid] = tid; barrier; out[tid] = s[n - 1 - tid] */
static void
exited_threads_count_as_arrived(void **state)
{
    static const char text[] =
        ENTRY(ONE ", .param .u32 n",
              ".shared .align 4 .b8 s[1024];\n"
              "mov.u32 %r4, %tid.x; ld.param.u32 %r5, [n];\n"
              "setp.ge.u32 %p1, %r4, %r5; @%p1 ret;\n"
              "mov.u32 %r6, s; shl.b32 %r7, %r4, 2; add.u32 %r8, %r6, %r7;\n"
              "st.shared.u32 [%r8], %r4; bar.sync 0;\n"
              "sub.u32 %r9, %r5, %r4; shl.b32 %r9, %r9, 2; add.u32 %r9, %r6, %r9;\n"
              "ld.shared.u32 %r10, [%r9+-4];\n" OUT_ADDR
              "st.global.u32 [%rd2], %r10; ret;\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 1024);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 256);
    for (unsigned n = 1; n <= 256; n += 51) {
        ut_sgx_param(&u, 1, n);
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(out[i], n - 1 - i);
    }
    ut_sgx_close(&u);
}

/* Each parity of lanes reaches the same barrier from its own side of a branch. */
static void
diverged_lanes_meet_at_a_barrier(void **state)
{
    static const char text[] =
        ENTRY(ONE, ".shared .align 4 .b8 s[8];\n" GLOBAL_TID
                   "mov.u32 %r5, s; and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0;\n"
                   "@%p1 bra E;\n"
                   "atom.shared.add.u32 %r7, [%r5+4], 1; bar.sync 0; bra J;\n"
                   "E: atom.shared.add.u32 %r7, [%r5], 1; bar.sync 0;\n"
                   "J: ld.shared.u32 %r8, [%r5]; ld.shared.u32 %r9, [%r5+4]; add.u32 "
                   "%r8, %r8, %r9;\n" OUT_ADDR "st.global.u32 [%rd2], %r8; ret;\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 96 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 96);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 96; i++)
        assert_int_equal(out[i], 96);
    ut_sgx_close(&u);
}

/* Warp 0 arrives and goes on, warp 1 waits for 64; bar.red over all. */
static void
barriers_count_arrivals_and_reduce(void **state)
{
    static const char text[] = ENTRY(
        ONE, ".shared .align 4 .b8 s[4];\n" GLOBAL_TID
             "mov.u32 %r5, s; setp.ge.u32 %p1, %r1, 32; @%p1 bra C;\n"
             "st.shared.u32 [%r5], 7; bar.arrive 3, 64; bra J;\n"
             "C: bar.sync 3, 64; ld.shared.u32 %r6, [%r5];\n"
             "J: setp.lt.u32 %p2, %r1, 40; bar.red.popc.u32 %r7, 1, %p2;\n"
             "bar.red.and.pred %p3, 1, %p2; bar.red.or.pred %p4, 1, %p2;\n"
             "bar.red.popc.u32 %r12, 2, !%p2;\n"
             "selp.u32 %r8, 100, 0, %p3; selp.u32 %r9, 1000, 0, %p4;\n"
             "add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; mad.lo.u32 %r7, %r12, "
             "10000, %r7;\n"
             "selp.u32 %r6, %r6, 7, %p1; mad.lo.u32 %r7, %r6, 1000000, %r7;\n" OUT_ADDR
             "st.global.u32 [%rd2], %r7; ret;\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 64 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], 7000000 + 24 * 10000 + 1000 + 40);
    ut_sgx_close(&u);
}

static void
a_barrier_nobody_can_complete_is_reported(void **state)
{
    static const char text[] = ENTRY(
        ONE, GLOBAL_TID "setp.eq.u32 %p1, %r1, 0; @%p1 bra O; bar.sync 0; bra J;\n"
                        "O: bar.sync 1; J: ret;\n");
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, text);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, SG_FAULT_LAUNCH_FAILED);
    assert_non_null(strstr(u.launch.fault.what, "deadlock"));
    ut_sgx_close(&u);
}

/* Every lane takes as much as its number says, in a function that is called again and
 * again: what it took is given back when it returns, or by stackrestore. */
static void
memory_taken_from_the_stack_is_given_back(void **state)
{
    static const char text[] = UT_SGX_HEAD
        ".func (.param .b32 r) sum(.param .b32 n)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
        "ld.param.u32 %r1, [n]; cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 2;\n"
        "alloca.u64 %rd2, %rd1, 16; mov.u64 %rd3, %rd2; mov.u32 %r2, %r1;\n"
        "FILL: st.local.u32 [%rd3], %r2; add.u64 %rd3, %rd3, 4; sub.u32 %r2, %r2, 1;\n"
        "setp.ne.u32 %p1, %r2, 0; @%p1 bra FILL;\n"
        "stacksave.u64 %rd4; mov.u64 %rd6, 64; alloca.u64 %rd5, %rd6;\n"
        "st.local.u32 [%rd5+60], %r1; stackrestore.u64 %rd4;\n"
        "alloca.u64 %rd7, %rd6; sub.u64 %rd7, %rd7, %rd5; cvt.u32.u64 %r4, %rd7;\n"
        "and.b64 %rd6, %rd2, 15; cvt.u32.u64 %r5, %rd6; or.b32 %r2, %r4, %r5;\n"
        "ADD: ld.local.u32 %r3, [%rd2]; add.u32 %r2, %r2, %r3; add.u64 %rd2, %rd2, 4;\n"
        "sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra ADD;\n"
        "st.param.b32 [r], %r2; ret;\n}\n"
        ".visible .entry k(.param .u64 a)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
        "mov.u32 %r4, %tid.x; add.u32 %r1, %r4, 1; mov.u32 %r3, 0; mov.u32 %r5, 0;\n"
        "AGAIN: { .param .b32 a0; .param .b32 v0; st.param.b32 [a0], %r1; call.uni "
        "(v0), "
        "sum, (a0);\nld.param.b32 %r2, [v0]; }\n"
        "add.u32 %r5, %r5, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 40;\n"
        "@%p1 bra AGAIN; mov.u32 %r2, %r5;\n" OUT_ADDR
        "st.global.u32 [%rd2], %r2; ret;\n}\n";
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    assert_true(u.launch.kernel->uses_dyn_stack);
    out = ut_sgx_buf(&u, 70 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 70);
    u.launch.stack_bytes = 512;
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 70; i++)
        assert_int_equal(out[i], 40 * (i + 1) * (i + 2) / 2);
    u.launch.stack_bytes = 256;
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, SG_FAULT_HW_STACK);
    ut_sgx_close(&u);
}

/* fib by recursion, every lane to its own depth. */
static void
recursion_diverges_by_lane(void **state)
{
    static const char text[] = UT_SGX_HEAD
        ".func (.param .b32 r) fib(.param .b32 n)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<8>;\n"
        "ld.param.u32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; @%p1 bra B;\n"
        "sub.u32 %r2, %r1, 1;\n"
        "{ .param .b32 a0; .param .b32 v0; st.param.b32 [a0], %r2; call.uni (v0), fib, "
        "(a0);\n"
        "ld.param.b32 %r3, [v0]; }\n"
        "sub.u32 %r4, %r1, 2;\n"
        "{ .param .b32 a0; .param .b32 v0; st.param.b32 [a0], %r4; call.uni (v0), fib, "
        "(a0);\n"
        "ld.param.b32 %r5, [v0]; }\n"
        "add.u32 %r1, %r3, %r5;\n"
        "B: st.param.b32 [r], %r1; ret;\n}\n"
        ".visible .entry k(.param .u64 a)\n{\n"
        ".reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
        "mov.u32 %r4, %tid.x; rem.u32 %r1, %r4, 14;\n"
        "{ .param .b32 a0; .param .b32 v0; st.param.b32 [a0], %r1; call.uni (v0), fib, "
        "(a0);\n"
        "ld.param.b32 %r2, [v0]; }\n" OUT_ADDR "st.global.u32 [%rd2], %r2; ret;\n}\n";
    struct ut_sgx u;
    uint32_t *out, fib[14] = {0, 1};

    (void)state;
    for (int i = 2; i < 14; i++)
        fib[i] = fib[i - 1] + fib[i - 2];
    ut_sgx_open(&u, text);
    assert_true(u.launch.kernel->uses_dyn_stack);
    out = ut_sgx_buf(&u, 70 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 70);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 70; i++)
        assert_int_equal(out[i], fib[i % 14]);
    u.launch.stack_bytes = 64;
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, SG_FAULT_HW_STACK);
    ut_sgx_close(&u);
}

/* Lanes call three functions through a table of addresses. */
static const char indirect[] = UT_SGX_HEAD
    ".func (.param .b32 r) f0(.param .b32 n)\n{\n.reg .b32 %r<4>;\n"
    "ld.param.u32 %r1, [n]; add.u32 %r1, %r1, 100; st.param.b32 [r], %r1; ret;\n}\n"
    ".func (.param .b32 r) f1(.param .b32 n)\n{\n.reg .b32 %r<4>;\n"
    "ld.param.u32 %r1, [n]; mul.lo.u32 %r1, %r1, 3; st.param.b32 [r], %r1; ret;\n}\n"
    ".func (.param .b32 r) f2(.param .b32 n)\n{\n.reg .b32 %r<4>;\n"
    "ld.param.u32 %r1, [n]; not.b32 %r1, %r1; st.param.b32 [r], %r1; ret;\n}\n"
    ".global .align 8 .u64 tab[3] = {f0, f1, f2};\n"
    ".visible .entry k(.param .u64 a)\n{\n"
    ".reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
    "mov.u32 %r4, %tid.x; rem.u32 %r1, %r4, 3;\n"
    "mov.u64 %rd3, tab; mul.wide.u32 %rd4, %r1, 8; add.u64 %rd3, %rd3, %rd4;\n"
    "ld.global.u64 %rd5, [%rd3];\n"
    "{ .param .b32 a0; .param .b32 v0; st.param.b32 [a0], %r4;\n"
    "P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "call (v0), %rd5, (a0), P; ld.param.b32 %r2, [v0]; }\n" OUT_ADDR
    "st.global.u32 [%rd2], %r2; ret;\n}\n";

static void
indirect_calls_diverge_and_come_back(void **state)
{
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, indirect);
    out = ut_sgx_buf(&u, 64 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], i % 3 == 0 ? i + 100 : i % 3 == 1 ? i * 3 : ~i);
    ut_sgx_close(&u);
}

/* Parameters and results in .reg and .param space, called by name and through a table;
 * a call that returns early; one that calls itself. */
static const char registers[] = UT_SGX_HEAD
    ".func (.reg .u32 r, .reg .f64 s) f0(.reg .u16 n, .param .b32 m, .reg .s8 e, .reg "
    ".u64 w)\n"
    "{\n.reg .b32 %r<4>; .reg .pred %p;\n"
    "cvt.u32.u16 r, n; ld.param.u32 %r1, [m]; add.u32 r, r, %r1;\n"
    "cvt.s32.s8 %r1, e; add.u32 r, r, %r1; cvt.rn.f64.u64 s, w;\n"
    "setp.gt.u16 %p, n, 9; @%p ret; add.u32 r, r, 1000; neg.f64 s, s;\n}\n"
    ".func (.param .b32 r) f1(.reg .u64 base, .param .b32 n)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %rd;\n"
    "ld.param.u32 %r1, [n]; mad.wide.u32 %rd, %r1, 4, base; ld.global.u32 %r2, [%rd];\n"
    "st.param.b32 [r], %r2; ret;\n}\n"
    ".func (.reg .u32 r) f2(.reg .u32 n)\n{\n"
    ".reg .b32 %r<4>; .reg .pred %p;\n"
    "mov.u32 r, n; setp.eq.u32 %p, n, 0; @%p ret;\n"
    "sub.u32 %r1, n, 1; call (%r2), f2, (%r1); add.u32 r, n, %r2; ret;\n}\n"
    ".global .align 8 .u64 tab[1] = {f1};\n"
    ".visible .entry k(.param .u64 a)\n{\n"
    ".reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .b16 %h<2>; .reg .f64 %d; .reg .s8 %e;\n"
    "mov.u32 %r4, %tid.x; cvt.u16.u32 %h0, %r4; mov.u16 %h1, -3; cvt.s8.s16 %e, %h1;\n"
    "ld.param.u64 %rd1, [a]; mul.wide.u32 %rd2, %r4, 16; add.u64 %rd2, %rd1, %rd2;\n"
    "st.global.u32 [%rd2+12], %r4; mov.u64 %rd3, 0x100000000;\n"
    "{ .param .b32 m; mov.u32 %r5, 50000; st.param.b32 [m], %r5;\n"
    "call (%r6, %d), f0, (%h0, m, %e, %rd3); }\n"
    "st.global.u32 [%rd2], %r6; cvt.rzi.s64.f64 %rd4, %d; shr.s64 %rd4, %rd4, 32;\n"
    "st.global.u32 [%rd2+4], %rd4;\n"
    "mov.u64 %rd5, tab; ld.global.u64 %rd5, [%rd5];\n"
    "{ .param .b32 n; .param .b32 v; mad.lo.u32 %r7, %r4, 4, 3; st.param.b32 [n], "
    "%r7;\n"
    "P: .callprototype (.param .b32 _) _ (.reg .u64 base, .param .b32 _);\n"
    "call (v), %rd5, (%rd1, n), P; ld.param.b32 %r8, [v]; }\n"
    "call (%r9), f2, (%r8); st.global.u32 [%rd2+8], %r9; ret;\n}\n";

static void
functions_take_and_return_registers(void **state)
{
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, registers);
    out = ut_sgx_buf(&u, 64 * 16);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(out[4 * i], i + 50000 - 3 + (i > 9 ? 0 : 1000));
        assert_int_equal(out[4 * i + 1], i > 9 ? 1 : UINT32_MAX);
        assert_int_equal(out[4 * i + 2], i * (i + 1) / 2);
    }
    ut_sgx_close(&u);
}

static void
vectors_of_registers_are_no_parameters(void **state)
{
    static const char text[] =
        UT_SGX_HEAD ".func f(.reg .v2 .u32 n)\n{ ret; }\n"
                    ".visible .entry k()\n{ .reg .v2 .u32 %v; call f, (%v); ret; }\n";
    char words[256];

    (void)state;
    assert_int_equal(ut_sgx_prepare_error(text, words, sizeof(words)), -ENOSYS);
    assert_non_null(strstr(words, "not carried"));
}

static void
a_call_to_no_function_faults(void **state)
{
    static const char text[] =
        UT_SGX_HEAD ".visible .entry k(.param .u64 a)\n{\n.reg .b64 %rd<4>;\n"
                    "ld.param.u64 %rd1, [a];\n{ P: .callprototype _ ();\ncall %rd1, "
                    "(), P; }\nret;\n}\n";
    static const uint64_t bad[] = {
        0, 1, SG_WIN_CODE, SG_WIN_CODE + 8, SG_WIN_CODE + 16 * 1000000, UINT64_MAX};
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ut_sgx_param(&u, 0, bad[i]);
        assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
        assert_int_equal(u.launch.fault.code, SG_FAULT_INVALID_PC);
    }
    ut_sgx_close(&u);
}

struct canceller {
    uint32_t *started;
    int *cancel;
};

static void *
cancel_when_started(void *arg)
{
    struct canceller *c = arg;

    while (!__atomic_load_n(c->started, __ATOMIC_RELAXED))
        sched_yield();
    __atomic_store_n(c->cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void
endless_loops_are_cancelled(void **state)
{
#define STARTED "ld.param.u64 %rd1, [a]; st.volatile.global.u32 [%rd1], 1;\n"
    static const char *const texts[] = {
        ENTRY(ONE, STARTED "L: bra L; ret;\n"),
        ENTRY(ONE, STARTED "L: nanosleep.u32 100; bra L; ret;\n"),
        ENTRY(ONE, STARTED GLOBAL_TID "and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0;\n"
                                      "L: @%p1 bra L; M: @!%p1 bra M; ret;\n"),
        ENTRY(ONE, STARTED "L: bar.sync 0; bra L; ret;\n"),
        ENTRY(ONE, ".shared .align 8 .b64 bar;\n" STARTED
                   "mbarrier.init.shared.b64 [bar], 100;\n"
                   "L: mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra L;"
                   "ret;\n"),
        ENTRY(ONE, ".shared .align 8 .b64 bar;\n" STARTED
                   "mbarrier.init.shared.b64 [bar], 100;\n"
                   "L: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra L;"
                   "ret;\n"),
    };
    pthread_t thread;
    struct ut_sgx u;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct canceller c = {NULL, &u.cancel};
        ut_sgx_open(&u, texts[i]);
        ut_sgx_shape(&u, 1, 64);
        c.started = ut_sgx_buf(&u, 4);
        ut_sgx_param(&u, 0, (uintptr_t)c.started);
        assert_int_equal(pthread_create(&thread, NULL, cancel_when_started, &c), 0);
        assert_int_equal(ut_sgx_run(&u), SG_CTA_CANCELLED);
        pthread_join(thread, NULL);
        ut_sgx_close(&u);
    }
}

/* Instructions of one block of @threads. */
static uint64_t
instructions(struct ut_sgx *u, unsigned threads)
{
    enum sg_cta_state st = SG_CTA_YIELD;
    struct sg_cta *cta;
    uint64_t n;

    ut_sgx_shape(u, 1, threads);
    assert_int_equal(sg_launch_init(&u->launch, NULL), 0);
    assert_int_equal(sg_cta_new(&cta), 0);
    assert_int_equal(sg_cta_start(cta, &u->launch, 0, 0), 0);
    while (st == SG_CTA_YIELD || st == SG_CTA_STALLED)
        st = sg_cta_run(cta, 1000000);
    assert_int_equal(st, SG_CTA_DONE);
    n = sg_cta_instructions(cta);
    sg_cta_free(cta);
    return n;
}

#define PHASES 1000

/* All threads meet in every phase.  @who: the predicate of those that wait at the
 * mbarrier, the rest at the next instruction that wants the whole warp. */
#define MEET(who, wait)                                                                \
    ENTRY(ONE, ".shared .align 8 .b64 bar;\n" GLOBAL_TID                               \
               "setp.ne.u32 %p1, %r1, 0; mov.u32 %r5, 0; and.b32 %r8, %r1, 31;\n"      \
               "@!%p1 mbarrier.init.shared.b64 [bar], %r3; bar.sync 0;\n"              \
               "STEP: mbarrier.arrive.shared.b64 %rd4, [bar]; and.b32 %r6, %r5, 1;\n"  \
               "setp.lt.u32 %p5, %r8, " who "; @!%p5 bra MET;\n"                       \
               "WAIT: " wait " @!%p2 bra WAIT;\n"                                      \
               "MET: bar.warp.sync 0xffffffff; add.u32 %r5, %r5, 1;\n"                 \
               "setp.lt.u32 %p3, %r5, 1000; @%p3 bra STEP;\n" OUT_ADDR                 \
               "st.global.u32 [%rd2], %r5; ret;\n")

static void
waiting_on_an_mbarrier_costs_less_than_the_work(void **state)
{
    static const char *const texts[] = {
        MEET("32", "mbarrier.test_wait.shared.b64 %p2, [bar], %rd4;"),
        MEET("32", "mbarrier.try_wait.shared.b64 %p2, [bar], %rd4;"),
        MEET("32", "mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r6;"),
        MEET("1", "mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r6;"),
        MEET("1", "mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r6;"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        const unsigned warps = 8;
        struct ut_sgx u;
        uint32_t *out;
        uint64_t n;
        ut_sgx_open(&u, texts[i]);
        out = ut_sgx_buf(&u, warps * 32 * 4);
        ut_sgx_param(&u, 0, (uintptr_t)out);
        n = instructions(&u, warps * 32);
        for (unsigned k = 0; k < warps * 32; k++)
            assert_int_equal(out[k], PHASES);
        /* Ten instructions a phase and warp are the work, four more each waking up. */
        assert_in_range(n, 10 * PHASES * warps, 25 * PHASES * warps);
        ut_sgx_close(&u);
    }
}

/* Warp 0 waits for an mbarrier that never comes, or for a word of warp 1, which in turn
 * goes round without a sign that it waits. */
static void
who_sleeps_on_an_mbarrier_still_sees_other_memory(void **state)
{
    static const char text[] = ENTRY(
        ONE,
        ".shared .align 8 .b64 bar; .shared .align 4 .b32 word[2];\n" GLOBAL_TID
        "setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared.b64 [bar], 100;\n"
        "@!%p1 st.shared.u32 [word], %r1; @!%p1 st.shared.u32 [word+4], %r1;\n"
        "bar.sync 0; mov.u32 %r5, 1; setp.ge.u32 %p2, %r1, 32; @%p2 bra OTHER;\n"
        "WAIT: mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0; @%p3 bra END;\n"
        "ld.volatile.shared.u32 %r6, [word]; setp.eq.u32 %p4, %r6, 0; @%p4 bra WAIT;\n"
        "st.shared.u32 [word+4], %r5; bra END;\n"
        "OTHER: mov.u32 %r7, 0;\n"
        "COUNT: add.u32 %r7, %r7, 1; setp.lt.u32 %p5, %r7, 5000; @%p5 bra COUNT;\n"
        "st.shared.u32 [word], %r5;\n"
        "ROUND: ld.shared.u32 %r6, [word+4]; setp.eq.u32 %p4, %r6, 0;\n"
        "@%p4 bra ROUND;\n"
        "END: " OUT_ADDR "st.global.u32 [%rd2], %r6; ret;\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 64 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    instructions(&u, 64);
    for (unsigned k = 0; k < 64; k++)
        assert_int_equal(out[k], 1);
    ut_sgx_close(&u);
}

/* It belongs in shared memory; in memory that may be freed nobody sleeps on it. */
static void
an_mbarrier_in_global_memory_is_only_asked(void **state)
{
    static const char text[] = ENTRY(
        TWO, GLOBAL_TID
        "ld.param.u64 %rd5, [b]; setp.ne.u32 %p1, %r1, 0;\n"
        "@!%p1 mbarrier.init.b64 [%rd5], 64; bar.sync 0;\n"
        "mbarrier.arrive.b64 %rd4, [%rd5];\n"
        "WAIT: mbarrier.test_wait.b64 %p2, [%rd5], %rd4; @!%p2 bra WAIT;\n" OUT_ADDR
        "st.global.u32 [%rd2], 7; ret;\n");
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 64 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_param(&u, 1, (uintptr_t)ut_sgx_buf(&u, 8));
    instructions(&u, 64);
    for (unsigned k = 0; k < 64; k++)
        assert_int_equal(out[k], 7);
    ut_sgx_close(&u);
}

static void
a_budget_interrupts_and_goes_on(void **state)
{
    static const char text[] = ENTRY(
        ONE, GLOBAL_TID
        "mov.u32 %r5, 0;\n"
        "L: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 100000; @%p1 bra L;\n" OUT_ADDR
        "st.global.u32 [%rd2], %r5; ret;\n");
    struct sg_cta *cta;
    struct ut_sgx u;
    unsigned slices = 0;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 128);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    assert_int_equal(sg_launch_init(&u.launch, NULL), 0);
    assert_int_equal(sg_cta_new(&cta), 0);
    assert_int_equal(sg_cta_start(cta, &u.launch, 0, 0), 0);
    while (sg_cta_run(cta, 1000) == SG_CTA_YIELD)
        slices++;
    assert_in_range(slices, 200, 500); /* 300,000 operations and more by 1,000 */
    assert_in_range(sg_cta_instructions(cta), 300000, 500000);
    assert_int_equal(out[31], 100000);
    sg_cta_free(cta);
    ut_sgx_close(&u);
}

/* All CTAs count into a word and spin until all have come. */
static void
resident_ctas_synchronise_through_memory(void **state)
{
    static const char text[] =
        ENTRY(TWO ", .param .u32 n",
              GLOBAL_TID "ld.param.u64 %rd3, [b]; ld.param.u32 %r6, [n];\n"
                         "bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra J;\n"
                         "atom.global.add.release.gpu.u32 %r5, [%rd3], 1;\n"
                         "L: ld.acquire.gpu.global.u32 %r5, [%rd3]; setp.lt.u32 %p2, "
                         "%r5, %r6; @%p2 bra L;\n"
                         "J: bar.sync 0; ld.global.u32 %r7, [%rd3];\n" OUT_ADDR
                         "st.global.u32 [%rd2], %r7; ret;\n");
    struct ut_sgx u;
    uint32_t *out, *count;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 8 * 64 * 4);
    count = ut_sgx_buf(&u, 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_param(&u, 1, (uintptr_t)count);
    ut_sgx_param(&u, 2, 8);
    ut_sgx_shape(&u, 8, 64);
    assert_int_equal(ut_sgx_run_resident(&u, 500), SG_CTA_DONE);
    for (unsigned i = 0; i < 8 * 64; i++)
        assert_int_equal(out[i], 8);
    ut_sgx_close(&u);
}

/* A race-free kernel with divergence, shuffles after it and a barrier. */
static const char race_free[] = ENTRY(
    ONE,
    ".shared .align 4 .b8 s[512];\n" GLOBAL_TID "mov.u32 %r5, %r4; mov.u32 %r6, 0;\n"
    "L: setp.le.u32 %p1, %r5, 1; @%p1 bra X;\n"
    "and.b32 %r7, %r5, 1; setp.eq.u32 %p2, %r7, 0; @%p2 bra E;\n"
    "mad.lo.u32 %r5, %r5, 3, 1; bra N;\n"
    "E: shr.u32 %r5, %r5, 1;\n"
    "N: add.u32 %r6, %r6, 1; bra L;\n"
    "X: shfl.sync.bfly.b32 %r8, %r6, 5, 31, -1; mad.lo.u32 %r6, %r8, 7, %r6;\n"
    "mov.u32 %r9, s; shl.b32 %r10, %r1, 2; add.u32 %r10, %r9, %r10;\n"
    "st.shared.u32 [%r10], %r6; bar.sync 0; xor.b32 %r11, %r10, 256;\n"
    "ld.shared.u32 %r12, [%r11]; add.u32 %r6, %r6, %r12;\n" OUT_ADDR
    "st.global.u32 [%rd2], %r6; ret;\n");

static void
no_choice_of_fragments_changes_the_result(void **state)
{
    uint32_t want[512], *out;
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, race_free);
    out = ut_sgx_buf(&u, sizeof(want));
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 4, 128);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    memcpy(want, out, sizeof(want));
    for (uint64_t seed = 1; seed <= 100; seed++) {
        memset(out, 0, sizeof(want));
        u.launch.seed = seed;
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        assert_memory_equal(out, want, sizeof(want));
    }
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spin_lock_inside_a_warp_finishes),
        cmocka_unit_test(producers_and_consumers_meet_in_both_directions),
        cmocka_unit_test(exited_threads_count_as_arrived),
        cmocka_unit_test(diverged_lanes_meet_at_a_barrier),
        cmocka_unit_test(barriers_count_arrivals_and_reduce),
        cmocka_unit_test(a_barrier_nobody_can_complete_is_reported),
        cmocka_unit_test(memory_taken_from_the_stack_is_given_back),
        cmocka_unit_test(recursion_diverges_by_lane),
        cmocka_unit_test(indirect_calls_diverge_and_come_back),
        cmocka_unit_test(functions_take_and_return_registers),
        cmocka_unit_test(vectors_of_registers_are_no_parameters),
        cmocka_unit_test(a_call_to_no_function_faults),
        cmocka_unit_test(endless_loops_are_cancelled),
        cmocka_unit_test(waiting_on_an_mbarrier_costs_less_than_the_work),
        cmocka_unit_test(who_sleeps_on_an_mbarrier_still_sees_other_memory),
        cmocka_unit_test(an_mbarrier_in_global_memory_is_only_asked),
        cmocka_unit_test(a_budget_interrupts_and_goes_on),
        cmocka_unit_test(resident_ctas_synchronise_through_memory),
        cmocka_unit_test(no_choice_of_fragments_changes_the_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
