/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOFTGPU_CHECK=races on global memory: accesses of two blocks, or of two warps of one,
 * that nothing puts in order are found with both places, and kernels that keep to the
 * rules are not accused.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdint.h>
#include <string.h>

/* %r1: tid, %r2: block, %r3: number in the grid, %rd1: the buffer, %rd2: the thread's
 * word of it, %rd3: the block's. */
#define HEAD                                                                           \
    UT_SGX_HEAD                                                                        \
    ".file 1 \"a.cu\"\n"                                                               \
    ".visible .entry k(.param .u64 a)\n{\n"                                            \
    ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n"                         \
    "ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\n"            \
    "mov.u32 %r4, %ntid.x; mad.lo.u32 %r3, %r2, %r4, %r1;\n"                           \
    "mad.wide.u32 %rd2, %r3, 4, %rd1; mad.wide.u32 %rd3, %r2, 4, %rd1;\n"
#define KERNEL(body) HEAD body "ret;\n}\n"
#define BY_FIRST "setp.ne.u32 %p1, %r1, 0; @%p1 bra OUT;\n"

static void
run(struct ut_sgx *u, const char *ptx, unsigned grid, unsigned block)
{
    ut_sgx_open_checked(u, ptx, SG_CHECK_RACES);
    ut_sgx_param(u, 0, (uintptr_t)ut_sgx_buf(u, 65536));
    ut_sgx_shape(u, grid, block);
    assert_int_equal(ut_sgx_run(u), SG_CTA_DONE);
}

static void
is_clean(const char *ptx, unsigned grid, unsigned block)
{
    struct ut_sgx u;

    run(&u, ptx, grid, block);
    ut_sgx_is_clean(&u, ptx);
}

static void
has(const char *ptx, unsigned grid, unsigned block, const char *words)
{
    struct ut_sgx u;

    run(&u, ptx, grid, block);
    ut_sgx_has(&u, SG_FINDING_GLOBAL_RACE, words);
}

static void
blocks_that_write_one_word_race(void **state)
{
    const char *two = KERNEL(".loc 1 5 0\nst.global.u32 [%rd1+8], %r2;\n");

    (void)state;
    has(two, 2, 1, "race on global memory: store of 4 bytes at global 0x");
    has(two, 2, 1,
        "at a.cu:5, PTX line 12, block (1,0,0), thread (0,0,0), lane 0, in k");
    has(two, 2, 1, "was written at a.cu:5, PTX line 12, block (0,0,0), thread (0,0,0)");
    /* each its own word, and a flag that all set to the same value */
    is_clean(KERNEL("st.global.u32 [%rd2], %r3; ld.global.u32 %r5, [%rd2];\n"), 4, 64);
    is_clean(KERNEL("st.global.u32 [%rd1+8], 1;\n"), 4, 64);
    /* two lanes of one store */
    has(KERNEL("st.global.u32 [%rd1+8], %r1;\n"), 1, 32,
        "is written with another value at");
}

/* A stencil in place: the neighbour's word is read while its block may write it. */
static void
neighbours_race(void **state)
{
    (void)state;
    has(KERNEL(
            "st.global.u32 [%rd2+8], %r3;\n.loc 1 9 0\nld.global.u32 %r5, [%rd2+4];\n"),
        2, 64, "load of 4 bytes");
    has(KERNEL("ld.global.u32 %r5, [%rd2+4];\nst.global.u32 [%rd2], %r3;\n"), 2, 64,
        "was read at PTX line");
    /* from one buffer into another */
    is_clean(KERNEL("ld.global.u32 %r5, [%rd2+4];\nst.global.u32 [%rd2+16384], %r5;\n"),
             4, 64);
}

static void
neighbouring_bytes_are_no_race(void **state)
{
    (void)state;
    is_clean(KERNEL("cvt.u64.u32 %rd4, %r3; add.u64 %rd4, %rd1, %rd4;\n"
                    "st.global.u8 [%rd4], %r1; ld.global.u8 %r5, [%rd4];\n"),
             4, 33);
    has(KERNEL("cvt.u64.u32 %rd4, %r2; add.u64 %rd4, %rd1, %rd4;\n"
               "st.global.u8 [%rd4+1], %r3; ld.global.u32 %r5, [%rd1];\n"),
        2, 1, "store of 1 bytes");
    /* eight bytes at once are two words, and the second is another's */
    has(KERNEL("mov.u64 %rd5, 7; setp.eq.u32 %p1, %r2, 0;\n"
               "@%p1 st.global.u32 [%rd1+4], 5; @!%p1 st.global.u64 [%rd1], %rd5;\n"),
        2, 1, "store of 8 bytes");
}

static void
atomics_race_with_plain_accesses_only(void **state)
{
    (void)state;
    is_clean(
        KERNEL("red.global.add.u32 [%rd1], 1; atom.global.add.u32 %r5, [%rd1], 1;\n"
               "ld.relaxed.gpu.global.u32 %r6, [%rd1];\n"),
        4, 64);
    has(KERNEL("red.global.add.u32 [%rd1], 1;\n" BY_FIRST
               ".loc 1 7 0\nld.global.u32 %r5, [%rd1];\nOUT:\n"),
        2, 64, "at a.cu:7");
}

/* What the last block to arrive reads: the partial sums of all. */
static void
the_last_block_reads_what_all_wrote(void **state)
{
#define LAST(arrive)                                                                   \
    KERNEL(BY_FIRST "st.global.u32 [%rd3+64], %r2;\n" arrive                           \
                    "setp.ne.u32 %p2, %r5, 3; @%p2 bra OUT;\n"                         \
                    "ld.global.u32 %r6, [%rd1+64]; ld.global.u32 %r7, [%rd1+72];\n"    \
                    "OUT:\n")
    (void)state;
    is_clean(LAST("membar.gl; atom.global.add.u32 %r5, [%rd1], 1;\n"), 4, 64);
    has(LAST("mov.u32 %r5, %r2;\n"), 4, 64, "load of 4 bytes");
}

/* Words are handed on from block to block, by flags. */
static void
flags_put_blocks_in_order(void **state)
{
#define HANDED(read, write)                                                            \
    KERNEL(BY_FIRST "setp.eq.u32 %p2, %r2, 0; @%p2 bra MINE;\n"                        \
                    "SPIN: " read " %r5, [%rd3+-4];\n"                                 \
                    "setp.eq.u32 %p3, %r5, 0; @%p3 bra SPIN;\n"                        \
                    "MINE: ld.global.u32 %r6, [%rd1+512]; add.u32 %r6, %r6, 1;\n"      \
                    "st.global.u32 [%rd1+512], %r6;\n" write " [%rd3], 1;\nOUT:\n")
    (void)state;
    is_clean(HANDED("ld.acquire.gpu.global.u32", "st.release.gpu.global.u32"), 8, 32);
    is_clean(HANDED("ld.volatile.global.u32", "membar.gl; st.volatile.global.u32"), 8,
             32);
    /* the flags themselves, and what they should hand on */
    has(HANDED("ld.global.u32", "st.global.u32"), 8, 32, "load of 4 bytes");
    has(HANDED("ld.relaxed.gpu.global.u32", "st.global.u32"), 8, 32, "load of 4 bytes");
}

/* Who releases has done so before; what comes behind is not handed on. */
static void
what_comes_behind_a_release_races(void **state)
{
    (void)state;
    has(KERNEL("setp.eq.u32 %p1, %r2, 1; @%p1 bra TAKE;\n"
               "st.release.gpu.global.u32 [%rd1], 1;\n"
               ".loc 1 6 0\nst.global.u32 [%rd1+256], 5; bra OUT;\n"
               "TAKE: ld.acquire.gpu.global.u32 %r5, [%rd1];\n"
               ".loc 1 8 0\nld.global.u32 %r6, [%rd1+256];\nOUT:\n"),
        2, 1, "was written at a.cu:6");
    /* another block's release helps nobody */
    has(KERNEL("setp.eq.u32 %p1, %r2, 1; @%p1 bra RELEASE;\n"
               "setp.eq.u32 %p1, %r2, 2; @%p1 bra TAKE;\n"
               "st.global.u32 [%rd1+256], 5; bra OUT;\n"
               "RELEASE: st.release.gpu.global.u32 [%rd1], 1; bra OUT;\n"
               "TAKE: ld.acquire.gpu.global.u32 %r5, [%rd1];\n"
               "ld.global.u32 %r6, [%rd1+256];\nOUT:\n"),
        3, 1, "load of 4 bytes");
}

static void
warps_of_a_block_race(void **state)
{
#define TURNED(sync)                                                                   \
    KERNEL("st.global.u32 [%rd2], %r3;\n" sync "xor.b32 %r5, %r3, 32;\n"               \
           "mad.wide.u32 %rd4, %r5, 4, %rd1; ld.global.u32 %r6, [%rd4];\n")
    (void)state;
    is_clean(TURNED("bar.sync 0;\n"), 2, 64);
    has(TURNED(""), 2, 64, "load of 4 bytes");
    has(TURNED("bar.warp.sync -1;\n"), 2, 64, "load of 4 bytes");
}

/* Twice the same kernel on the same memory: launches are in order. */
static void
launches_are_in_order(void **state)
{
    struct ut_sgx u;

    (void)state;
    run(&u, KERNEL("setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], %r4;\n"), 1, 1);
    ut_sgx_shape(&u, 2, 32);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    assert_int_equal(u.n_found, 0);
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_write_one_word_race),
        cmocka_unit_test(neighbours_race),
        cmocka_unit_test(neighbouring_bytes_are_no_race),
        cmocka_unit_test(atomics_race_with_plain_accesses_only),
        cmocka_unit_test(the_last_block_reads_what_all_wrote),
        cmocka_unit_test(flags_put_blocks_in_order),
        cmocka_unit_test(what_comes_behind_a_release_races),
        cmocka_unit_test(warps_of_a_block_race),
        cmocka_unit_test(launches_are_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
