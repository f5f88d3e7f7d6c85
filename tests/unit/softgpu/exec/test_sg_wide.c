/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit registers, atomics on them, atomics over vectors. */
#include "ut_sgx.h"

#include "ut.h"

#include <string.h>

#define BODY(body)                                                                     \
    ".version 8.6\n.target sm_90\n.address_size 64\n"                                  \
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"                          \
    ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<16>; .reg .b128 %q<4>;\n"        \
    ".reg .f32 %f<8>; .reg .b16 %h<8>;\n"                                              \
    "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;\n" body   \
    "ret;\n}\n"

static void
halves_of_128_bits_keep_their_order(void **state)
{
    static const char text[] =
        BODY("mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3;\n"
             "add.u64 %rd2, %rd2, %rd3; ld.global.b128 %q1, [%rd1];\n"
             "mov.b128 %q2, %q1; mov.b128 {%rd4, %rd5}, %q2;\n"
             "add.u64 %rd4, %rd4, 1; mov.b128 %q3, {%rd5, %rd4};\n"
             "st.global.b128 [%rd2], %q3;\n");
    struct ut_sgx u;
    uint64_t *in, *out;

    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 32 * 16);
    out = ut_sgx_buf(&u, 32 * 16);
    for (unsigned i = 0; i < 64; i++)
        in[i] = i * 0x0101010101010101u;
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(out[2 * i], in[2 * i + 1]);
        assert_int_equal(out[2 * i + 1], in[2 * i] + 1);
    }
    ut_sgx_param(&u, 0, (uintptr_t)in + 8); /* 128 bits want 16-byte addresses */
    ut_sgx_run(&u);
    assert_int_equal(u.launch.fault.code, 716);
    ut_sgx_close(&u);
}

/* Every thread adds 1 to the low and 3 to the high half in one step. */
static void
compare_and_swap_of_128_bits_loses_no_update(void **state)
{
    static const char text[] =
        BODY("mov.u64 %rd6, 0; mov.u64 %rd7, 0; mov.b128 %q1, {%rd6, %rd7};\n"
             "AGAIN: mov.b128 {%rd6, %rd7}, %q1; add.u64 %rd8, %rd6, 1;\n"
             "add.u64 %rd9, %rd7, 3; mov.b128 %q2, {%rd8, %rd9};\n"
             "atom.global.cas.b128 %q3, [%rd2], %q1, %q2;\n"
             "mov.b128 {%rd10, %rd11}, %q3; mov.b128 %q1, %q3;\n"
             "setp.ne.u64 %p1, %rd10, %rd6; @%p1 bra AGAIN;\n"
             "setp.ne.u64 %p1, %rd11, %rd7; @%p1 bra AGAIN;\n"
             "setp.ne.u32 %p2, %r1, 0; @%p2 exit;\n"
             "mov.u64 %rd6, 7; mov.b128 %q1, {%rd6, %rd6};\n"
             "atom.global.exch.b128 %q2, [%rd1], %q1;\n");
    struct ut_sgx u;
    uint64_t *in, *out;

    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 16);
    out = ut_sgx_buf(&u, 16);
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, 12, 64);
    assert_int_equal(ut_sgx_run_threads(&u, 3), SG_CTA_DONE);
    assert_int_equal(out[0], 12 * 64);
    assert_int_equal(out[1], 3 * 12 * 64);
    assert_int_equal(in[0], 7);
    assert_int_equal(in[1], 7);
    ut_sgx_close(&u);
}

static void
vector_atomics_add_each_element(void **state)
{
    static const char text[] =
        BODY("mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f40000000;\n"
             "red.global.add.v4.f32 [%rd2], {%f1, %f2, %f1, %f2};\n"
             "atom.global.add.v2.f32 {%f3, %f4}, [%rd2+16], {%f1, %f2};\n"
             "mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000;\n"
             "red.global.add.noftz.v2.f16 [%rd2+24], {%h1, %h2};\n"
             "mov.b32 %r2, 0x3f804000;\n"
             "red.global.max.noftz.v2.bf16x2 [%rd2+32], {%r2, %r2};\n"
             "cvt.rzi.u32.f32 %r3, %f3; cvt.rzi.u32.f32 %r4, %f4;\n"
             "mul.lo.u32 %r5, %r3, 2; sub.u32 %r5, %r5, %r4;\n"
             "red.global.or.b32 [%rd1], %r5;\n");
    static const float want[6] = {32, 64, 32, 64, 32, 64};
    struct ut_sgx u;
    uint32_t *in;
    char *out;

    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 16);
    out = ut_sgx_buf(&u, 40);
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    assert_memory_equal(out, want, sizeof(want));
    assert_memory_equal(out + 24, "\x00\x50\x00\x54", 4); /* 32, 64 as f16 */
    assert_memory_equal(out + 32, "\x00\x40\x80\x3f\x00\x40\x80\x3f", 8);
    assert_int_equal(in[0], 0); /* what each saw was twice as much in the second */
    ut_sgx_param(&u, 1, (uintptr_t)out + 8); /* four want 16-byte addresses */
    ut_sgx_run(&u);
    assert_int_equal(u.launch.fault.code, 716);
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_of_128_bits_keep_their_order),
        cmocka_unit_test(compare_and_swap_of_128_bits_loses_no_update),
        cmocka_unit_test(vector_atomics_add_each_element),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
