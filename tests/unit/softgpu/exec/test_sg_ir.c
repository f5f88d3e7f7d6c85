/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes over the executor's IR: what a launch fixes is computed once and is right
 * in the next launch too, addresses of a form reach what they should and fault where
 * they must, and the verifier refuses what no pass may leave behind.
 */
#include "ut_builds.h"
#include "ut_sgx.h"

#include "gp_err.h"
#include "sg_cta.h"
#include "sg_ir.h"
#include "ut.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                           \
    UT_SGX_HEAD                                                                        \
    ".visible .entry k(.param .u64 a, .param .u64 o, .param .s32 n)\n{\n"              \
    ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>;\n"        \
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [o]; ld.param.s32 %r1, [n];\n"         \
    "mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x;\n"              \
    "mad.lo.s32 %r5, %r4, %r3, %r2;\n"

/* ---- launch constants ---- */

static void
run_on(struct sg_cta *cta, struct ut_sgx *u)
{
    assert_int_equal(sg_launch_init(&u->launch, NULL), 0);
    for (uint64_t i = 0; i < u->launch.n_ctas; i++) {
        assert_int_equal(sg_cta_start(cta, &u->launch, i, 0), 0);
        assert_int_equal(sg_cta_run(cta, UINT64_MAX), SG_CTA_DONE);
    }
}

/* The same CTA object serves launches with other parameters and other blocks. */
static void
constants_are_those_of_the_launch_that_runs(void **state)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    assert_int_equal(sg_cta_new(&cta), 0);
    ut_sgx_open(&u, HEAD "add.s32 %r6, %r1, %r2; mul.lo.s32 %r6, %r6, %r3;\n"
                         "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd3, %rd2, %rd3;\n"
                         "st.global.u32 [%rd3], %r6; ret;\n}\n");
    out = ut_sgx_buf(&u, 4096 * 4);
    for (unsigned block = 1; block <= 1024; block = block * 3 + 5) {
        for (uint64_t n = 0; n < 3; n++) {
            unsigned grid = 4096 / block > 7 ? 7 : 4096 / block;
            memset(out, 0xee, 4096 * 4);
            ut_sgx_param(&u, 1, (uintptr_t)out);
            ut_sgx_param(&u, 2, n);
            ut_sgx_shape(&u, grid, block);
            run_on(cta, &u);
            for (unsigned i = 0; i < grid * block; i++)
                assert_int_equal(out[i], ((uint32_t)n + i % block) * block);
        }
    }
    ut_sgx_close(&u);
}

/* One of two writes is constant, the other not; a loop adds to what began as one. */
static void
registers_written_again_are_no_constants(void **state)
{
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, HEAD "mov.u32 %r6, %r1; mov.u32 %r7, 0; setp.eq.u32 %p1, %r4, 1;\n"
                         "@%p1 mov.u32 %r6, 100;\n"
                         "L: add.u32 %r6, %r6, %r2; add.u32 %r7, %r7, 1;\n"
                         "setp.lt.u32 %p2, %r7, 3; @%p2 bra L;\n"
                         "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd3, %rd2, %rd3;\n"
                         "st.global.u32 [%rd3], %r6; ret;\n}\n");
    out = ut_sgx_buf(&u, 4 * 64 * 4);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, 7);
    ut_sgx_shape(&u, 4, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 4 * 64; i++)
        assert_int_equal(out[i], (i / 64 == 1 ? 100 : 7) + 3 * (i % 64));
    ut_sgx_close(&u);
}

/* ---- parameters ---- */

/* The kernel of the two tests below: %rd5 holds the address of a parameter of 64 bytes,
 * and each thread writes eight numbers. */
#define BLOB(body)                                                                     \
    UT_SGX_HEAD                                                                        \
    ".visible .entry k(.param .u64 o, .param .align 16 .b8 p[64])\n{\n"                \
    ".reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b16 %h<8>;\n"        \
    "ld.param.u64 %rd2, [o]; mov.b64 %rd5, p;\n"                                       \
    "mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x;\n"              \
    "mad.lo.s32 %r5, %r4, %r3, %r2; setp.gt.u32 %p1, %r2, 20;\n"                       \
    "mul.wide.u32 %rd3, %r5, 32; add.u64 %rd3, %rd2, %rd3;\n" body                     \
    "st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};\n"                             \
    "st.global.v4.u32 [%rd3+16], {%r14, %r15, %r16, %r17}; ret;\n}\n"

#define WORD(at) (0x01000193u * ((at) + 7))

static void
blob_fill(struct ut_sgx *u)
{
    const struct sg_param *p = &u->launch.kernel->params[1];

    for (uint32_t i = 0; i < 16; i++)
        memcpy((char *)u->params + p->offset + 4 * (size_t)i, &(uint32_t){WORD(i)}, 4);
}

/* Word, half, byte and vectors of @i of a thread @t. */
static uint32_t
blob_word(unsigned i, unsigned t)
{
    switch (i) {
    case 0:
        return WORD(1);
    case 1: /* the halves of a 64-bit one, exclusive or */
        return WORD(2) ^ WORD(3);
    case 2:
        return (uint32_t)(int32_t)(int8_t)(WORD(4) >> 8) + (uint16_t)(WORD(5) >> 16);
    case 3:
        return WORD(8) + WORD(9) + WORD(10) + WORD(11);
    case 4:
        return WORD(12) ^ WORD(13) ^ WORD(14) ^ WORD(15);
    case 5: /* under a guard, what was there stays */
        return t > 20 ? WORD(6) - WORD(7) : 12;
    case 6: /* at a place that each thread chooses */
        return WORD(t % 16);
    default: /* from a register that is written again */
        return WORD(t > 20 ? 2 : 1);
    }
}

static void
parameters_may_be_read_through_a_register(void **state)
{
    static const unsigned blocks[] = {32, 27, 96};
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(
        &u,
        BLOB("ld.param.u32 %r10, [%rd5+4];\n"
             "add.s64 %rd6, %rd5, 8; ld.param.u64 %rd7, [%rd6];\n"
             "mov.b64 {%r18, %r19}, %rd7; xor.b32 %r11, %r18, %r19;\n"
             "cvta.param.u64 %rd8, %rd5; ld.s8 %r12, [%rd8+17]; ld.u16 %r18, "
             "[%rd8+22];\n"
             "add.u32 %r12, %r12, %r18;\n"
             "ld.param.v4.u32 {%r18, %r19, %r20, %r21}, [%rd6+24];\n"
             "add.u32 %r18, %r18, %r19; add.u32 %r20, %r20, %r21;\n"
             "add.u32 %r13, %r18, %r20;\n"
             "ld.v2.u64 {%rd9, %rd10}, [%rd8+48]; xor.b64 %rd9, %rd9, %rd10;\n"
             "mov.b64 {%r18, %r19}, %rd9; xor.b32 %r14, %r18, %r19;\n"
             "mov.u32 %r18, 12; mov.u32 %r19, 0;\n"
             "@%p1 ld.param.v2.u32 {%r18, %r19}, [%rd5+24]; sub.u32 %r15, %r18, %r19;\n"
             "and.b32 %r18, %r2, 15; mul.wide.u32 %rd11, %r18, 4;\n"
             "add.u64 %rd11, %rd5, %rd11; ld.param.u32 %r16, [%rd11];\n"
             "mov.b64 %rd12, %rd5; @%p1 add.u64 %rd12, %rd12, 4;\n"
             "ld.param.u32 %r17, [%rd12+4];\n"));
    out = ut_sgx_buf(&u, 3 * 96 * 32);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    blob_fill(&u);
    for (size_t b = 0; b < ARRAY_SIZE(blocks); b++) {
        memset(out, 0xee, 3 * 96 * 32);
        ut_sgx_shape(&u, 3, blocks[b]);
        assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
        for (unsigned i = 0; i < 3 * blocks[b] * 8; i++)
            assert_int_equal(out[i], blob_word(i % 8, i / 8 % blocks[b]));
    }
    ut_sgx_close(&u);
}

static uint32_t
registers_of(const char *ptx)
{
    struct ut_sgx u;
    uint32_t regs;

    ut_sgx_open(&u, ptx);
    regs = u.launch.kernel->regs;
    ut_sgx_close(&u);
    return regs;
}

/* Sixteen words, all of them wanted at once. */
#define ALL_WORDS(from)                                                                \
    ".reg .b32 %q<16>; ld.param.v4.u32 {%q0, %q1, %q2, %q3}, [" from "];\n"            \
    "ld.param.v4.u32 {%q4, %q5, %q6, %q7}, [" from "+16];\n"                           \
    "ld.param.v4.u32 {%q8, %q9, %q10, %q11}, [" from "+32];\n"                         \
    "ld.param.v4.u32 {%q12, %q13, %q14, %q15}, [" from "+48];\n"                       \
    "add.u32 %r10, %q0, %q15; add.u32 %r11, %q1, %q14; add.u32 %r12, %q2, %q13;\n"     \
    "add.u32 %r13, %q3, %q12; add.u32 %r14, %q4, %q11; add.u32 %r15, %q5, %q10;\n"     \
    "add.u32 %r16, %q6, %q9; add.u32 %r17, %q7, %q8;\n"

/* Such a read is worth what one by the parameter's name is, and faults as any other. */
static void
parameters_read_through_a_register_take_no_registers(void **state)
{
    static const struct {
        const char *ptx;
        int fault;
    } wrong[] = {
        {BLOB("ld.param.u32 %r10, [%rd5+64];\n"), 700},
        {BLOB("ld.param.v2.u32 {%r10, %r11}, [%rd5+60];\n"), 716},
        {BLOB("ld.param.u32 %r10, [%rd5+62];\n"), 716},
        {BLOB("add.u64 %rd6, %rd5, -4096; ld.param.u32 %r10, [%rd6];\n"), 700}};

    (void)state;
    assert_int_equal(registers_of(BLOB(ALL_WORDS("%rd5"))),
                     registers_of(BLOB(ALL_WORDS("p"))));
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct ut_sgx u;
        ut_sgx_open(&u, wrong[i].ptx);
        ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 4096));
        ut_sgx_shape(&u, 1, 32);
        ut_sgx_run(&u);
        assert_int_equal(u.launch.fault.code, wrong[i].fault);
        ut_sgx_close(&u);
    }
}

/* ---- base + index * scale ---- */

#define N 256u

struct index_case {
    const char *index; /* %r6 of %r5 (thread in the grid) and %r2 (in the block) */
    const char *wide;  /* the multiplication: mul.wide.u32 or .s32 */
    unsigned scale;
    int64_t (*at)(unsigned i); /* the same in C */
};

static int64_t
at_forward(unsigned i)
{
    return i;
}

static int64_t
at_backward(unsigned i)
{
    return (int64_t)N - 1 - i;
}

static int64_t
at_negative(unsigned i)
{
    return (int64_t)i - (int64_t)N;
}

static int64_t
at_one(unsigned i)
{
    return i / 64;
}

static int64_t
at_mixed(unsigned i)
{
    return (i * 7) % N;
}

static const struct index_case index_cases[] = {
    {"mov.u32 %r6, %r5;", "mul.wide.s32", 4, at_forward},
    {"mov.u32 %r6, %r5;", "mul.wide.u32", 4, at_forward},
    {"sub.s32 %r6, 255, %r5;", "mul.wide.s32", 4, at_backward},
    {"sub.s32 %r6, %r5, 256;", "mul.wide.s32", 4, at_negative},
    {"mov.u32 %r6, %r4;", "mul.wide.u32", 4, at_one},
    {"mul.lo.u32 %r6, %r5, 7; rem.u32 %r6, %r6, 256;", "mul.wide.u32", 4, at_mixed},
    {"mov.u32 %r6, %r5;", "mul.wide.s32", 8, at_forward},
    {"mov.u32 %r6, %r5;", "mul.wide.s32", 12, at_forward},
};

static void
run_index_case(const struct index_case *c, bool partial)
{
    char text[4096];
    struct ut_sgx u;
    uint32_t *in, *out, *mid;

    snprintf(text, sizeof(text),
             "%s%s\nand.b32 %%r8, %%r5, %u; setp.ne.u32 %%p1, %%r8, 0;\n"
             "@%%p1 bra OUT;\n"
             "%s %%rd6, %%r6, %u; add.s64 %%rd7, %%rd6, %%rd1;\n"
             "ld.global.u32 %%r7, [%%rd7+4]; add.u32 %%r7, %%r7, 1;\n"
             "%s %%rd8, %%r6, %u; add.s64 %%rd9, %%rd2, %%rd8;\n"
             "st.global.u32 [%%rd9+4], %%r7; OUT: ret;\n}\n",
             HEAD, c->index, partial ? 1u : 0u, c->wide, c->scale, c->wide, c->scale);
    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 8 * N * 4 + 64);
    out = ut_sgx_buf(&u, 8 * N * 4 + 64);
    mid = out + 4 * N;
    for (unsigned i = 0; i < 8 * N + 16; i++)
        in[i] = i * 3;
    ut_sgx_param(&u, 0, (uintptr_t)(in + 4 * N));
    ut_sgx_param(&u, 1, (uintptr_t)mid);
    ut_sgx_shape(&u, N / 64, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < N; i++) {
        int64_t word = c->at(i) * (int64_t)c->scale / 4 + 1;
        if (!partial || !(i & 1))
            assert_int_equal(mid[word], (uint32_t)((4 * N + word) * 3 + 1));
    }
    ut_sgx_close(&u);
}

static void
indexed_accesses_reach_what_they_name(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(index_cases); k++)
        for (int partial = 0; partial < 2; partial++)
            run_index_case(&index_cases[k], partial);
}

/* The last threads' indexes leave the buffer, or wrap around: a fault with the lane and
 * the address that was meant. */
static void
indexed_accesses_fault_at_the_lane_that_leaves(void **state)
{
    struct ut_sgx u;
    uint8_t *in, *out;

    (void)state;
    ut_sgx_open(&u, HEAD "add.s32 %r6, %r5, %r1; mul.wide.s32 %rd3, %r6, 4;\n"
                         "add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r7, [%rd4];\n"
                         "mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd2, %rd5;\n"
                         "st.global.u32 [%rd6], %r7; ret;\n}\n");
    in = ut_sgx_buf(&u, 4096);
    out = ut_sgx_buf(&u, 4096);
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 64);
    ut_sgx_param(&u, 2, 1024 - 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    ut_sgx_param(&u, 2, 1024 - 40);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, 700);
    assert_int_equal(u.launch.fault.thread[0], 40);
    assert_int_equal(u.launch.fault.address, (uintptr_t)in + 4096);
    ut_sgx_param(&u, 2, (uint64_t)(uint32_t)(INT32_MAX - 20));
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.thread[0], 0);
    ut_sgx_close(&u);
}

/* ---- sums of products from shared memory ---- */

#define SUMS 64u
#define TERMS 7

/* The factors: what they are and where thread @i finds the one of term @t. */
static float
left_factor(unsigned i, unsigned t)
{
    return t == 5 && i / 8 == 3 ? NAN : (float)(i / 8 * 3 + t) * 0.37f - 2;
}

static float
right_factor(unsigned i, unsigned t)
{
    return t == 6 && i % 8 == 1 ? INFINITY : (float)(i % 8) * 1.25f - (float)t;
}

/* A tile of 8 by 8: rows are the same in 8 neighbours, columns follow each other. */
static void
sums_from_shared_memory_are_exact(void **state)
{
    static const char text[] = HEAD
        ".shared .align 16 .b8 at[512]; .shared .align 16 .b8 bt[512];\n"
        "mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3;\n"
        "mov.u64 %rd5, at; mov.u64 %rd6, bt; add.s64 %rd7, %rd5, %rd3;\n"
        "add.s64 %rd8, %rd6, %rd3; ld.global.u32 %r6, [%rd4]; st.shared.u32 [%rd7], "
        "%r6;\n"
        "ld.global.u32 %r7, [%rd4+256]; st.shared.u32 [%rd8], %r7; bar.sync 0;\n"
        "shr.u32 %r8, %r2, 3; mul.wide.u32 %rd9, %r8, 32; add.s64 %rd10, %rd5, %rd9;\n"
        "and.b32 %r9, %r2, 7; mul.wide.u32 %rd11, %r9, 4; add.s64 %rd12, %rd6, %rd11;\n"
        "mov.f32 %f3, 0f3f800000;\n"
        "ld.shared.f32 %f1, [%rd10]; ld.shared.f32 %f2, [%rd12]; fma.rn.f32 %f3, %f1, "
        "%f2, %f3;\n"
        "ld.shared.f32 %f1, [%rd10+4]; ld.shared.f32 %f2, [%rd12+32]; fma.rn.f32 %f3, "
        "%f1, %f2, %f3;\n"
        "ld.shared.f32 %f1, [%rd10+8]; ld.shared.f32 %f2, [%rd12+64]; fma.rn.f32 %f3, "
        "%f1, %f2, %f3;\n"
        "ld.shared.f32 %f1, [%rd10+12]; ld.shared.f32 %f2, [%rd12+96]; fma.rn.f32 %f4, "
        "%f1, %f2, %f3;\n"
        "ld.shared.f32 %f3, [%rd10+16]; ld.shared.f32 %f2, [%rd12+128]; fma.rn.f32 "
        "%f3, %f3, %f2, %f4;\n"
        "ld.shared.f32 %f1, [%rd10+20]; ld.shared.f32 %f2, [%rd12+160]; fma.rn.f32 "
        "%f3, %f1, %f2, %f3;\n"
        "ld.shared.f32 %f1, [%rd10+24]; ld.shared.f32 %f2, [%rd12+192]; fma.rn.f32 "
        "%f3, %f1, %f2, %f3;\n"
        "mul.wide.u32 %rd13, %r5, 4; add.s64 %rd14, %rd2, %rd13; st.global.f32 "
        "[%rd14], %f3;\n"
        "ret;\n}\n";
    struct ut_sgx u;
    float *in, *out;

    (void)state;
    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 2 * SUMS * 4);
    out = ut_sgx_buf(&u, 3 * SUMS * 4);
    for (unsigned k = 0; k < 8; k++) {
        for (unsigned t = 0; t < 8; t++) {
            in[k * 8 + t] = left_factor(k * 8, t);
            in[SUMS + t * 8 + k] = right_factor(k, t);
        }
    }
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, 3, SUMS);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 3 * SUMS; i++) {
        float sum = 1;
        uint32_t want, got;
        for (unsigned t = 0; t < TERMS; t++)
            sum = fmaf(left_factor(i % SUMS, t), right_factor(i % SUMS, t), sum);
        memcpy(&want, &sum, 4);
        memcpy(&got, &out[i], 4);
        assert_int_equal(got, isnan(sum) ? 0x7fffffffu : want);
    }
    ut_sgx_close(&u);
}

/* ---- the verifier and the printer ---- */

static struct sg_ir
op_of(unsigned code, int32_t d, int32_t a, int32_t b)
{
    return (struct sg_ir){.code = (uint16_t)code,
                          .guard = SG_NOREG,
                          .d = d,
                          .e = SG_NOREG,
                          .a = a,
                          .b = b,
                          .c = SG_NOREG,
                          .f = SG_NOREG};
}

static void
the_verifier_refuses_what_no_pass_may_leave(void **state)
{
    struct sg_vreg regs[] = {{.cls = SG_W, .konst = -1, .slot = 0, .kept = true},
                             {.cls = SG_W, .konst = -1, .slot = 1},
                             {.cls = SG_D, .konst = -1, .slot = 0},
                             {.cls = SG_W, .konst = -1, .slot = -1}};
    struct sg_ir good[] = {op_of(SG_OP_LDP_32, 0, SG_NOREG, SG_NOREG),
                           op_of(SG_OP_READY, SG_NOREG, SG_NOREG, SG_NOREG),
                           op_of(SG_OP_JOIN, SG_NOREG, SG_NOREG, SG_NOREG),
                           op_of(SG_OP_ADD_U32, 1, 0, 0),
                           op_of(SG_OP_BRA, SG_NOREG, SG_NOREG, SG_NOREG)};
    static const struct {
        unsigned at;
        struct sg_ir op;
    } bad[] = {
        {3, {.code = SG_OP_ADD_U32, .d = 2, .a = 0, .b = 0}},  /* class of the result */
        {3, {.code = SG_OP_ADD_U32, .d = 1, .a = 2, .b = 0}},  /* of an operand */
        {3, {.code = SG_OP_ADD_U32, .d = 1, .a = 3, .b = 0}},  /* no slot */
        {3, {.code = SG_OP_ADD_U32, .d = 1, .a = 99, .b = 0}}, /* no register */
        {3, {.code = SG_OP_ADD_U32, .d = 0, .a = 1, .b = 1}},  /* a launch constant */
        {0, {.code = SG_OP_LDG_32, .d = 0, .a = 2, .b = SG_NOREG}}, /* may fault */
        {1,
         {.code = SG_OP_LDP_32, .d = 0, .a = SG_NOREG, .b = SG_NOREG}}, /* no READY */
        {4, {.code = SG_OP_BRA, .d = SG_NOREG, .a = SG_NOREG, .b = SG_NOREG, .x = 1}},
    };
    struct sg_ir_func f = {.code = good,
                           .n_code = ARRAY_SIZE(good),
                           .n_first = 2,
                           .vregs = regs,
                           .n_vregs = ARRAY_SIZE(regs),
                           .n_labels = 1};

    (void)state;
    assert_int_equal(sg_ir_verify(&f, NULL), 0);
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
        struct sg_ir was = good[bad[k].at];
        struct gp_err err = {0};
        good[bad[k].at] = bad[k].op;
        good[bad[k].at].guard = good[bad[k].at].e = SG_NOREG;
        good[bad[k].at].c = good[bad[k].at].f = SG_NOREG;
        assert_int_equal(sg_ir_verify(&f, &err), -EINVAL);
        assert_true(err.msg[0]);
        good[bad[k].at] = was;
    }
    assert_int_equal(sg_ir_verify(&f, NULL), 0);
}

static void
ir_prints_with_its_constants(void **state)
{
    struct sg_vreg regs[] = {{.cls = SG_W, .konst = -1, .kept = true},
                             {.cls = SG_W, .konst = 0},
                             {.cls = SG_W, .konst = -1}};
    struct sg_const consts[] = {{.cls = SG_W, .value = 42}};
    struct sg_ir code[] = {op_of(SG_OP_LDP_32, 0, SG_NOREG, SG_NOREG),
                           op_of(SG_OP_READY, SG_NOREG, SG_NOREG, SG_NOREG),
                           op_of(SG_OP_ADD_U32, 2, 0, 1)};
    struct sg_ir_func func = {.code = code,
                              .n_code = ARRAY_SIZE(code),
                              .n_first = 2,
                              .vregs = regs,
                              .n_vregs = ARRAY_SIZE(regs),
                              .consts = consts,
                              .n_consts = ARRAY_SIZE(consts)};
    CLEANUP_FREE char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    (void)state;
    assert_non_null(f);
    sg_ir_print(&func, f);
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(text, "body:"));
    assert_non_null(strstr(text, "ADD_U32        w2 = w0! 0x2a"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_those_of_the_launch_that_runs),
        cmocka_unit_test(registers_written_again_are_no_constants),
        cmocka_unit_test(parameters_may_be_read_through_a_register),
        cmocka_unit_test(parameters_read_through_a_register_take_no_registers),
        cmocka_unit_test(indexed_accesses_reach_what_they_name),
        cmocka_unit_test(indexed_accesses_fault_at_the_lane_that_leaves),
        cmocka_unit_test(the_verifier_refuses_what_no_pass_may_leave),
        cmocka_unit_test(ir_prints_with_its_constants),
        cmocka_unit_test(sums_from_shared_memory_are_exact),
        cmocka_unit_test(ut_builds_lower_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
