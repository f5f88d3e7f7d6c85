/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builds of the interpreter for x86-64-v2, -v3 and -v4 give the same bits: every
 * vector operation on edge cases and noise, with full and partial masks.  Each build
 * runs in a child of its own and answers with a hash of all results.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define N 4096 /* inputs of each instruction */

static const char *const insns[] = {
    "add.u32 %r4, %r1, %r2",
    "sub.u32 %r4, %r1, %r2",
    "mul.lo.u32 %r4, %r1, %r2",
    "mad.lo.u32 %r4, %r1, %r2, %r3",
    "mul.hi.u32 %r4, %r1, %r2",
    "mul.hi.s32 %r4, %r1, %r2",
    "mul.wide.u32 %rd4, %r1, %r2",
    "mul.wide.s32 %rd4, %r1, %r2",
    "mad.wide.s32 %rd4, %r1, %r2, %rd3",
    "and.b32 %r4, %r1, %r2",
    "or.b32 %r4, %r1, %r2",
    "xor.b32 %r4, %r1, %r2",
    "not.b32 %r4, %r1",
    "shl.b32 %r4, %r1, %r2",
    "shr.u32 %r4, %r1, %r2",
    "shr.s32 %r4, %r1, %r2",
    "min.u32 %r4, %r1, %r2",
    "max.s32 %r4, %r1, %r2",
    "neg.s32 %r4, %r1",
    "abs.s32 %r4, %r1",
    "lop3.b32 %r4, %r1, %r2, %r3, 0x5b",
    "lop3.b32 %r4, %r1, %r2, %r3, 0xca",
    "add.u64 %rd4, %rd1, %rd2",
    "sub.u64 %rd4, %rd1, %rd2",
    "mul.lo.u64 %rd4, %rd1, %rd2",
    "mad.lo.u64 %rd4, %rd1, %rd2, %rd3",
    "and.b64 %rd4, %rd1, %rd2",
    "not.b64 %rd4, %rd1",
    "shl.b64 %rd4, %rd1, %r2",
    "shr.u64 %rd4, %rd1, %r2",
    "shr.s64 %rd4, %rd1, %r2",
    "min.s64 %rd4, %rd1, %rd2",
    "max.u64 %rd4, %rd1, %rd2",
    "neg.s64 %rd4, %rd1",
    "abs.s64 %rd4, %rd1",
    "cvt.s64.s32 %rd4, %r1",
    "cvt.u64.u32 %rd4, %r1",
    "cvt.u32.u64 %r4, %rd1",
    "cvt.s32.s16 %r4, %h1",
    "cvt.u32.u8 %r4, %r1",
    "add.f32 %f4, %f1, %f2",
    "sub.f32 %f4, %f1, %f2",
    "mul.f32 %f4, %f1, %f2",
    "fma.rn.f32 %f4, %f1, %f2, %f3",
    "div.rn.f32 %f4, %f1, %f2",
    "sqrt.rn.f32 %f4, %f1",
    "rcp.rn.f32 %f4, %f1",
    "add.ftz.f32 %f4, %f1, %f2",
    "mul.ftz.f32 %f4, %f1, %f2",
    "fma.rn.ftz.f32 %f4, %f1, %f2, %f3",
    "add.sat.f32 %f4, %f1, %f2",
    "min.f32 %f4, %f1, %f2",
    "max.f32 %f4, %f1, %f2",
    "neg.f32 %f4, %f1",
    "abs.f32 %f4, %f1",
    "add.f64 %d4, %d1, %d2",
    "sub.f64 %d4, %d1, %d2",
    "mul.f64 %d4, %d1, %d2",
    "fma.rn.f64 %d4, %d1, %d2, %d3",
    "div.rn.f64 %d4, %d1, %d2",
    "sqrt.rn.f64 %d4, %d1",
    "min.f64 %d4, %d1, %d2",
    "max.f64 %d4, %d1, %d2",
    "cvt.rn.f32.s32 %f4, %r1",
    "cvt.rn.f32.u32 %f4, %r1",
    "cvt.rn.f64.s32 %d4, %r1",
    "cvt.rn.f64.u32 %d4, %r1",
    "cvt.f64.f32 %d4, %f1",
    "cvt.rn.f32.f64 %f4, %d1",
    "cvt.rzi.s32.f32 %r4, %f1",
    "cvt.rzi.u32.f32 %r4, %f1",
    "cvt.f32.f16 %f4, %h1",
    "setp.lt.s32 %p2, %r1, %r2; selp.b32 %r4, %r1, %r3, %p2",
    "setp.hi.u32 %p2, %r1, %r2; selp.b64 %rd4, %rd1, %rd3, %p2",
    "setp.ge.u64 %p2, %rd1, %rd2; selp.b32 %r4, 1, 0, %p2",
    "setp.lt.f32 %p2, %f1, %f2; selp.b32 %r4, 1, 0, %p2",
    "setp.neu.f32 %p2, %f1, %f2; selp.b32 %r4, 1, 0, %p2",
    "setp.leu.f64 %p2, %d1, %d2; selp.b32 %r4, 1, 0, %p2",
    "setp.nan.f64 %p2, %d1, %d2; selp.b32 %r4, 1, 0, %p2",
};

/* Three 64-bit inputs per thread; half of the lanes take part when bit 0 of m is set.
 */
static const char head[] = UT_SGX_HEAD
    ".visible .entry k(.param .u64 a, .param .u64 o, .param .u32 m)\n{\n"
    ".reg .pred %p<4>;.reg .b16 %h<4>;.reg .b32 %r<10>;.reg .b64 %rd<10>;.reg .f32 "
    "%f<8>;"
    ".reg .f64 %d<8>;\n"
    "mov.u32 %r5, %tid.x; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r5, %r6, 256, %r5;\n"
    "ld.param.u64 %rd5, [a]; ld.param.u64 %rd6, [o]; ld.param.u32 %r7, [m];\n"
    "mul.wide.u32 %rd7, %r5, 32; add.u64 %rd5, %rd5, %rd7; add.u64 %rd6, %rd6, %rd7;\n"
    "ld.global.u64 %rd1, [%rd5]; ld.global.u64 %rd2, [%rd5+8]; ld.global.u64 %rd3, "
    "[%rd5+16];\n"
    "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3;\n"
    "cvt.u16.u32 %h1, %r1; mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n"
    "mov.b64 %d1, %rd1; mov.b64 %d2, %rd2; mov.b64 %d3, %rd3;\n"
    "mov.u32 %r4, 0; mov.u64 %rd4, 0; mov.f32 %f4, 0f00000000; mov.f64 %d4, "
    "0d0000000000000000;\n"
    "and.b32 %r8, %r5, %r7; setp.ne.u32 %p1, %r8, 0; @%p1 bra OUT;\n";
static const char tail[] = ";\n"
                           "OUT: st.global.u32 [%rd6], %r4; st.global.f32 [%rd6+4], "
                           "%f4; st.global.u64 [%rd6+8], %rd4;\n"
                           "st.global.f64 [%rd6+16], %d4; ret;\n}\n";

static uint64_t
input(uint64_t *seed, int k)
{
    static const uint64_t edges[] = {
        0,
        1,
        UINT64_MAX,
        0x8000000080000000u,
        0x7fffffff7fffffffu,
        0x3ff000003f800000u,
        0xbff00000bf800000u,
        0x7ff000007f800000u,
        0xfff00000ff800000u,
        0x7ff800007fc00000u,
        0x7ff000017f800001u,
        0x0000000100000001u,
        0x0010000000800000u,
        0x000fffff007fffffu,
        0x7fefffffff7fffffu,
        31,
        32,
        33,
        255,
        0x41dfffff4f000000u,
        0xc1e00000cf000000u,
        0x3fe000003f000000u,
        0x0000000000007bffu,
        0x0000000000008001u,
    };

    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    if (k < (int)(sizeof(edges) / sizeof(edges[0])) * 24)
        return edges[(*seed >> 40) % (sizeof(edges) / sizeof(edges[0]))];
    return *seed ^ *seed >> 29 << 7;
}

static uint64_t
hash_instruction(const char *insn, uint64_t h)
{
    char text[4096];
    struct ut_sgx u;
    uint64_t *in, *out, seed = 1;

    snprintf(text, sizeof(text), "%s%s%s", head, insn, tail);
    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, N * 32);
    out = ut_sgx_buf(&u, N * 32);
    for (int i = 0; i < N * 4; i++)
        in[i] = input(&seed, i / 8);
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, N / 256, 256);
    for (uint64_t m = 0; m < 2; m++) {
        ut_sgx_param(&u, 2, m);
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        for (int i = 0; i < N * 4; i++)
            h = (h ^ out[i]) * 0x100000001b3u;
    }
    ut_sgx_close(&u);
    return h;
}

struct answer {
    char isa[8];
    uint64_t hash[sizeof(insns) / sizeof(insns[0])];
};

static void
child(const char *isa, int fd)
{
    struct answer a = {0};

    setenv("SOFTGPU_ISA", isa, 1);
    for (size_t i = 0; i < sizeof(insns) / sizeof(insns[0]); i++)
        a.hash[i] = hash_instruction(insns[i], 0xcbf29ce484222325u);
    snprintf(a.isa, sizeof(a.isa), "%s", sg_exec_isa());
    _exit(write(fd, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : 1);
}

static struct answer
ask(const char *isa)
{
    struct answer a = {0};
    int fds[2], status;
    size_t got = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(isa, fds[1]);
    close(fds[1]);
    while (got < sizeof(a) && (n = read(fds[0], (char *)&a + got, sizeof(a) - got)) > 0)
        got += (size_t)n;
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(got, sizeof(a));
    return a;
}

static void
builds_are_bit_equal(void **state)
{
    struct answer low = ask("v2");
    static const char *const others[] = {"v3", "v4"};
    bool differ = false;

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct answer a = ask(others[k]);
        if (strcmp(a.isa, others[k]) != 0)
            continue; /* this processor lacks it */
        for (size_t i = 0; i < sizeof(insns) / sizeof(insns[0]); i++) {
            if (a.hash[i] == low.hash[i])
                continue;
            print_error("%s: %s differs from v2\n", insns[i], others[k]);
            differ = true;
        }
    }
    assert_false(differ);
    for (size_t i = 1; i < sizeof(insns) / sizeof(insns[0]); i++)
        assert_true(low.hash[i] != low.hash[0] || i == 0); /* results do depend */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_are_bit_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
