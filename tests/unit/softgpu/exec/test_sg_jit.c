/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for kernels: it leaves, counts and reports what the interpreter does.
 *
 * Each kernel runs in a process without the compiler and in one with it, and what both
 * leave is compared; the arithmetic itself is compared with independent references by
 * the golden tests, which run with the compiler too.
 */
#include "rk_run.h"
#include "sg_native.h"
#include "sg_prog.h"
#include "ut_jit.h"
#include "ut_sgx.h"

#include "gp_err.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define WORDS 512
#define RANDOM_KERNELS 3

/* What a kernel left. */
struct left {
    uint32_t out[WORDS];
    uint64_t executed;
    enum sg_cta_state end;
    struct sg_fault fault;
    uint32_t entries; /* of machine code */
};

struct kernel {
    const char *name, *body;
    unsigned grid, block;
    uint32_t count; /* the kernel's last parameter */
};

#define HEAD                                                                           \
    UT_SGX_HEAD                                                                        \
    ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n"              \
    "{ .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .f32 %f<20>;\n"                        \
    "  .reg .f64 %g<10>; .reg .pred %p<10>;\n"                                         \
    "  .shared .align 8 .b32 tile[256]; .local .align 8 .b32 mine[16];\n"              \
    "  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];\n"                             \
    "  ld.param.u32 %r0, [n];\n"                                                       \
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"            \
    "  mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %d2, %r4, 4;\n"                     \
    "  add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;\n"
#define TAIL "\n ret; }\n"

static const struct kernel kernels[] = {
    {"lanes leave a loop one by one",
     "  mov.u32 %r5, 0; and.b32 %r6, %r4, 31; add.u32 %r6, %r6, %r0;\n"
     "loop: mad.lo.u32 %r5, %r5, 3, %r6; add.u32 %r6, %r6, -1;\n"
     "  setp.ne.u32 %p0, %r6, 0; @%p0 bra loop;\n"
     "  st.global.u32 [%d4], %r5;",
     2, 64, 100},
    {"every NaN is the one NaN, where somebody looks",
     "  ld.global.f32 %f0, [%d3]; mov.f32 %f1, %f0; mov.u32 %r5, 0;\n"
     "loop: fma.rn.f32 %f1, %f1, %f0, 0f3F800000; mul.f32 %f2, %f1, %f0;\n"
     "  setp.lt.f32 %p1, %f2, 0f40000000; selp.f32 %f3, %f1, %f2, %p1;\n"
     "  mov.b32 %r7, %f3; xor.b32 %r8, %r8, %r7; add.u32 %r5, %r5, 1;\n"
     "  setp.lt.u32 %p0, %r5, %r0; @%p0 bra loop;\n"
     "  mov.b32 %r7, %f1; add.u32 %r8, %r8, %r7; st.global.u32 [%d4], %r8;",
     1, 128, 7},
    {"no turn of a loop changes what was loaded",
     "  ld.global.f32 %f1, [%d3]; mov.u32 %r5, 0; and.b32 %r6, %r4, 1;\n"
     "loop: setp.ge.u32 %p0, %r5, %r6; @%p0 bra done;\n"
     "  fma.rn.f32 %f1, %f1, %f1, %f1; add.u32 %r5, %r5, 1; bra loop;\n"
     "done: mov.b32 %r7, %f1; xor.b32 %r8, %r7, %r4; shl.b32 %r9, %r8, 1;\n"
     "  add.u32 %r10, %r9, %r7; st.global.u32 [%d4], %r10;",
     1, 128, 0},
    {"a block that is no whole warp",
     "  setp.gt.u32 %p0, %r1, 40; @%p0 ret; ld.global.u32 %r5, [%d3];\n"
     "  @!%p0 add.u32 %r5, %r5, %r0; and.b32 %r6, %r1, 1;\n"
     "  setp.eq.u32 %p1, %r6, 1; @%p1 mul.lo.u32 %r5, %r5, 7;\n"
     "  @%p1 st.global.u32 [%d4], %r5; @!%p1 st.global.u16 [%d4], %r5;",
     3, 45, 9},
    {"shared memory and a barrier",
     "  mov.u32 %r9, tile; shl.b32 %r10, %r1, 2; add.u32 %r10, %r9, %r10;\n"
     "  mov.u32 %r5, 0;\n"
     "loop: mad.lo.u32 %r11, %r1, %r5, %r4; st.shared.u32 [%r10], %r11;\n"
     "  bar.sync 0; xor.b32 %r12, %r1, 33; and.b32 %r12, %r12, 63;\n"
     "  shl.b32 %r12, %r12, 2; add.u32 %r12, %r12, %r9;\n"
     "  ld.shared.u32 %r13, [%r12]; ld.shared.u8 %r14, [tile+5];\n"
     "  add.u32 %r15, %r13, %r14; add.u32 %r16, %r16, %r15; bar.sync 0;\n"
     "  add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, %r0; @%p0 bra loop;\n"
     "  st.global.u32 [%d4], %r16;",
     2, 64, 20},
    {"scattered addresses, parts of words, local memory, a division",
     "  mul.lo.u32 %r5, %r4, 37; and.b32 %r5, %r5, 127; mul.wide.u32 %d5, %r5, 4;\n"
     "  add.u64 %d6, %d0, %d5; ld.global.u32 %r6, [%d6]; ld.global.s8 %r7, [%d6+1];\n"
     "  ld.global.u16 %r8, [%d6+2]; ld.global.u32 %r9, [%d0+8];\n"
     "  st.local.u32 [mine], %r6; st.local.u8 [mine+1], %r7;\n"
     "  and.b32 %r10, %r4, 3; mul.wide.u32 %d7, %r10, 4; mov.u64 %d8, mine;\n"
     "  add.u64 %d8, %d8, %d7; st.local.u32 [%d8+16], %r8;\n"
     "  ld.local.u32 %r11, [mine]; ld.local.u32 %r12, [mine+16];\n"
     "  add.u32 %r13, %r4, 1; div.u32 %r14, %r11, %r13; rem.s32 %r15, %r14, 13;\n"
     "  add.u32 %r16, %r15, %r12; add.u32 %r16, %r16, %r9;\n"
     "  cvt.f64.s32 %g0, %r16; div.rn.f64 %g1, %g0, 0d4008000000000000;\n"
     "  sqrt.rn.f64 %g2, %g1; cvt.rn.f32.f64 %f0, %g2; st.global.f32 [%d4], %f0;",
     1, 128, 0},
    {"a spin lock within a warp",
     "spin: atom.shared.cas.b32 %r5, [tile], 0, 1; setp.ne.u32 %p0, %r5, 0;\n"
     "  @%p0 bra spin; ld.volatile.shared.u32 %r6, [tile+8]; add.u32 %r6, %r6, 1;\n"
     "  st.volatile.shared.u32 [tile+8], %r6; mov.u32 %r7, 0;\n"
     "  atom.shared.exch.b32 %r8, [tile], %r7; bar.sync 0;\n"
     "  ld.shared.u32 %r9, [tile+8]; st.global.u32 [%d4], %r9;",
     1, 64, 0},
    {"a fault in a loop",
     "  mov.u32 %r5, 0; mov.u64 %d9, %d3;\n"
     "loop: ld.global.u32 %r6, [%d9]; add.u32 %r7, %r7, %r6; add.u64 %d9, %d9, 64;\n"
     "  add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, %r0; @%p0 bra loop;\n"
     "  st.global.u32 [%d4], %r7;",
     1, 64, 1000},
    {"a misaligned store of one lane",
     "  setp.eq.u32 %p0, %r4, 19; selp.u64 %d5, 2, 0, %p0; add.u64 %d4, %d4, %d5;\n"
     "  add.u32 %r5, %r4, %r0; xor.b32 %r5, %r5, 5; st.global.u32 [%d4], %r5;",
     1, 32, 3},
    /* Kernels without a loop, whose warps run straight (exec_straight.h): something in
     * the middle of the grid does not. */
    {"straight, and one warp whose lanes part",
     "  setp.eq.u32 %p0, %r4, %r0; @%p0 bra odd; add.u32 %r5, %r4, 7; bra both;\n"
     "odd: mul.lo.u32 %r5, %r4, 3; both: ld.global.u32 %r6, [%d3];\n"
     "  add.u32 %r5, %r5, %r6; st.global.u32 [%d4], %r5;",
     7, 70, 215},
    {"straight, and blocks that wait at a barrier",
     "  setp.ne.u32 %p0, %r2, %r0; mov.u32 %r9, tile; shl.b32 %r10, %r1, 2;\n"
     "  add.u32 %r10, %r9, %r10; mov.u32 %r11, 5; @%p0 bra out;\n"
     "  st.shared.u32 [%r10], %r4; bar.sync 0; xor.b32 %r12, %r10, 64;\n"
     "  ld.shared.u32 %r11, [%r12]; bar.sync 0;\n"
     "out: add.u32 %r11, %r11, %r1; st.global.u32 [%d4], %r11;",
     5, 96, 3},
    {"straight, and the last warps of a block wait for no other",
     "  setp.gt.u32 %p0, %r1, 63; @!%p0 bra out; setp.ne.u32 %p1, %r2, %r0;\n"
     "  @%p1 bra out; bar.sync 0; add.u32 %r4, %r4, 1000;\n"
     "out: st.global.u32 [%d4], %r4;",
     5, 96, 2},
    {"straight, and a lane of a later block reads what is not there",
     "  setp.eq.u32 %p0, %r4, %r0; selp.u64 %d5, 0x7f00, 0, %p0;\n"
     "  shl.b64 %d5, %d5, 32; add.u64 %d3, %d3, %d5; ld.global.u32 %r5, [%d3];\n"
     "  st.global.u32 [%d4], %r5;",
     6, 64, 330},
    {"straight, and a block with local memory and a vote",
     "  setp.ne.u32 %p0, %r2, %r0; mov.u32 %r5, 1; @%p0 bra out;\n"
     "  st.local.u32 [mine+4], %r4; ld.local.u32 %r5, [mine+4]; vote.sync.ballot.b32 "
     "%r6, 1, -1; add.u32 %r5, %r5, %r6;\n"
     "out: st.global.u32 [%d4], %r5;",
     4, 64, 2},
};

static void
run_here(const struct kernel *k, struct left *left)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    struct gp_err err = {0};
    char text[8192];
    struct ut_sgx u;
    uint32_t *in, *out;
    const struct sg_native *native;

    snprintf(text, sizeof(text), "%s%s%s", HEAD, k->body, TAIL);
    ut_sgx_open(&u, text);
    ut_sgx_shape(&u, k->grid, k->block);
    in = ut_sgx_buf(&u, WORDS * 4);
    out = ut_sgx_buf(&u, WORDS * 4);
    for (uint32_t i = 0; i < WORDS; i++)
        in[i] = i % 5 == 0   ? 0x7fc00000u + i
                : i % 7 == 0 ? 0xff800000u
                             : i * 0x01234567u;
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, k->count);
    assert_int_equal(sg_launch_init(&u.launch, &err), 0);
    assert_int_equal(sg_cta_new(&cta), 0);
    left->end = SG_CTA_DONE;
    for (uint64_t i = 0; i < u.launch.n_ctas && left->end == SG_CTA_DONE; i++) {
        assert_int_equal(sg_cta_start(cta, &u.launch, i, 0), 0);
        do
            left->end = sg_cta_run(cta, 1000);
        while (left->end == SG_CTA_YIELD || left->end == SG_CTA_STALLED);
    }
    left->executed = sg_cta_instructions(cta);
    left->fault = u.launch.fault;
    left->fault.kernel = NULL;
    if (left->end == SG_CTA_FAULT) /* addresses differ from process to process */
        left->fault.address -= (uintptr_t)in < left->fault.address &&
                                       left->fault.address < (uintptr_t)in + 65536
                                   ? (uintptr_t)in
                                   : (uintptr_t)out;
    left->fault.what[24] = '\0';
    memcpy(left->out, out, sizeof(left->out));
    native = sg_kernel_unit(u.launch.kernel)->native;
    left->entries = native ? native->n_entries : 0;
    ut_sgx_close(&u);
}

/* In a process of its own, by SOFTGPU_JIT=@mode. */
static void
run_there(const struct kernel *k, const char *mode, const char *level,
          struct left *left)
{
    struct left *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        setenv("SOFTGPU_JIT", mode, 1);
        setenv("SOFTGPU_ISA", level, 1);
        run_here(k, shared);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("%s, SOFTGPU_JIT=%s: status %x", k->name, mode, (unsigned)status);
    *left = *shared;
    munmap(shared, sizeof(*shared));
}

static void
compare(const struct kernel *k, const char *level)
{
    struct left a, b;

    run_there(k, "0", level, &a);
    run_there(k, "wait", level, &b);
    assert_int_equal(a.entries, 0);
    if (b.entries == 0)
        fail_msg("%s: nothing was compiled", k->name);
    if (memcmp(a.out, b.out, sizeof(a.out)) != 0 || a.end != b.end)
        fail_msg("%s, %s: machine code leaves something else", k->name, level);
    if (a.end == SG_CTA_DONE && a.executed != b.executed)
        fail_msg("%s, %s: %llu instructions, by machine code %llu", k->name, level,
                 (unsigned long long)a.executed, (unsigned long long)b.executed);
    if (memcmp(&a.fault, &b.fault, sizeof(a.fault)) != 0)
        fail_msg("%s, %s: fault \"%s\" of lane %u, line %u, by machine code \"%s\" of "
                 "lane %u, line %u",
                 k->name, level, a.fault.what, a.fault.lane, a.fault.line, b.fault.what,
                 b.fault.lane, b.fault.line);
}

static void
machine_code_leaves_what_the_interpreter_leaves(void **state)
{
    static const char *const levels[] = {"v4", "v3"};

    (void)state;
    for (size_t l = 0; l < ARRAY_SIZE(levels); l++)
        for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
            compare(&kernels[i], levels[l]);
}

/* In a child: the executor reads its settings once. */
static void
in_child(const char *mode, void (*fn)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        setenv("SOFTGPU_JIT", mode, 1);
        fn();
        fflush(stdout);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void
random_kernels(void)
{
    struct rk_run *run = rk_run_new();

    for (uint64_t seed = 1; seed <= RANDOM_KERNELS; seed++) {
        struct rk_kernel *k = rk_kernel_new(seed);
        char words[256];
        if (!rk_run_agrees(run, k, seed & 1 ? seed : 0, words, sizeof(words))) {
            printf("seed %d: %s\n", (int)seed, words);
            exit(1);
        }
        rk_kernel_free(k);
    }
    rk_run_free(run);
}

static void
random_kernels_give_what_the_reference_says(void **state)
{
    (void)state;
    in_child("wait", random_kernels);
}

static const char endless[] =
    UT_SGX_HEAD ".visible .entry k(.param .u64 out)\n"
                "{ .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<2>;\n"
                "  ld.param.u64 %d0, [out]; mov.u32 %r0, 1;\n"
                "loop: mad.lo.u32 %r0, %r0, 5, 3; or.b32 %r0, %r0, 1;\n"
                "  add.u32 %r1, %r1, 1; xor.b32 %r2, %r2, %r0;\n"
                "  setp.ne.u32 %p0, %r0, 0; @%p0 bra loop;\n"
                "  st.global.u32 [%d0], %r2; ret; }\n";

static void
cancel_endless(void)
{
    struct sg_cta *cta = NULL;
    struct gp_err err = {0};
    struct ut_sgx u;

    ut_sgx_open(&u, endless);
    ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 64));
    assert_int_equal(sg_launch_init(&u.launch, &err), 0);
    assert_non_null(sg_kernel_unit(u.launch.kernel)->native);
    assert_int_equal(sg_cta_new(&cta), 0);
    assert_int_equal(sg_cta_start(cta, &u.launch, 0, 0), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = sg_cta_instructions(cta);
        assert_int_equal(sg_cta_run(cta, 10000), SG_CTA_YIELD);
        assert_in_range(sg_cta_instructions(cta) - before, 10000, 30000);
    }
    u.cancel = 1;
    assert_int_equal(sg_cta_run(cta, UINT64_MAX), SG_CTA_CANCELLED);
    sg_cta_free(cta);
    ut_sgx_close(&u);
}

static void
budgets_and_cancelling_hold_for_machine_code(void **state)
{
    (void)state;
    in_child("wait", cancel_endless);
}

/* The same loop, begun by the interpreter, goes on in machine code. */
static void
replace_running(void)
{
    struct sg_cta *cta = NULL;
    struct gp_err err = {0};
    struct ut_sgx u;

    ut_sgx_open(&u, endless);
    ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 64));
    assert_int_equal(sg_launch_init(&u.launch, &err), 0);
    assert_null(sg_kernel_unit(u.launch.kernel)->native);
    assert_int_equal(sg_cta_new(&cta), 0);
    assert_int_equal(sg_cta_start(cta, &u.launch, 0, 0), 0);
    while (!__atomic_load_n(&sg_kernel_unit(u.launch.kernel)->native, __ATOMIC_ACQUIRE))
        assert_int_equal(sg_cta_run(cta, 1000000), SG_CTA_YIELD);
    for (int i = 0; i < 10; i++)
        assert_int_equal(sg_cta_run(cta, 1000000), SG_CTA_YIELD);
    u.cancel = 1;
    assert_int_equal(sg_cta_run(cta, UINT64_MAX), SG_CTA_CANCELLED);
    sg_cta_free(cta);
    ut_sgx_close(&u);
    for (int i = 0; i < 20; i++) { /* units that end while they are compiled */
        ut_sgx_open(&u, endless);
        ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 64));
        assert_int_equal(sg_launch_init(&u.launch, &err), 0);
        assert_int_equal(sg_cta_new(&cta), 0);
        assert_int_equal(sg_cta_start(cta, &u.launch, 0, 0), 0);
        sg_cta_run(cta, 1100000);
        sg_cta_free(cta);
        ut_sgx_close(&u);
    }
}

static void
a_running_kernel_goes_on_in_machine_code(void **state)
{
    (void)state;
    in_child("1", replace_running);
}

static void
run_checked(void)
{
    struct ut_sgx u;
    struct gp_err err = {0};

    ut_sgx_open_checked(&u, endless, SG_CHECK_FAULTS | SG_CHECK_RACES);
    ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 64));
    assert_int_equal(sg_launch_init(&u.launch, &err), 0);
    assert_null(sg_kernel_unit(u.launch.kernel)->native);
    ut_sgx_close(&u);
}

static void
checked_programs_stay_with_the_interpreter(void **state)
{
    (void)state;
    in_child("wait", run_checked);
}

static void
run_without(void)
{
    struct left left = {0};

    setenv("SOFTGPU_JIT_LIB", "/nonexistent/libsoftgpu-jit.so", 1);
    run_here(&kernels[0], &left);
    assert_int_equal(left.end, SG_CTA_DONE);
    assert_int_equal(left.entries, 0);
}

static void
without_the_plugin_the_interpreter_runs(void **state)
{
    (void)state;
    in_child("wait", run_without);
}

/* For the list of what was skipped; the reason is printed before. */
static void
machine_code_cannot_be_tried(void **state)
{
    (void)state;
    skip();
}

/* The executor must not be asked before its settings are made. */
static bool
processor_fits(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_code_leaves_what_the_interpreter_leaves),
        cmocka_unit_test(random_kernels_give_what_the_reference_says),
        cmocka_unit_test(budgets_and_cancelling_hold_for_machine_code),
        cmocka_unit_test(a_running_kernel_goes_on_in_machine_code),
        cmocka_unit_test(checked_programs_stay_with_the_interpreter),
        cmocka_unit_test(without_the_plugin_the_interpreter_runs),
    };
    const struct CMUnitTest fewer[] = {
        cmocka_unit_test(machine_code_cannot_be_tried),
        cmocka_unit_test(without_the_plugin_the_interpreter_runs),
    };

    if (!ut_jit_found() || !processor_fits())
        return cmocka_run_group_tests(fewer, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
