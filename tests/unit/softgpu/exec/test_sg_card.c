/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a card gave (an H200, driver 580.159.04), where the executor once gave something
 * else: operands and results of kernelfuzz --driver, see docs/fuzzing.md.
 */
#include "ut_builds.h"
#include "ut_sgx.h"

#include "ut.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* %d1, %d2 and %d3 are 64 bits, %r1 to %r3 and %h1 to %h3 the lower ones of the same;
 * the result is %d4, %r4, %h4 or %p4.  %own is memory of the thread. */
static const struct {
    const char *insn;
    uint64_t in[3], want;
} rows[] = {
    /* A NaN of f64 gives an integer its top bit. */
    {"cvt.rzi.s32.f64 %r4, %d1;", {0xfffffffffffffe12}, 0x80000000},
    {"cvt.rmi.s16.f64 %h4, %d1;", {0xfffffffffffffc6d}, 0x8000},
    {"cvt.rzi.u16.f64 %h4, %d1;", {0xfffffffffffffff6}, 0x8000},
    /* Narrower floats get its sign and what there is room for of its payload. */
    {"cvt.rn.f32.f64 %r4, %d1;", {0x7ff8000000000005}, 0x7fc00000},
    {"cvt.rm.f32.f64 %r4, %d1;", {0xfff0000000000001}, 0xffc00000},
    {"cvt.rm.f16.f64 %h4, %d1;", {0xfff8000000000001}, 0xfe00},
    {"cvt.rp.bf16.f64 %h4, %d1;", {0x7ff8000000000005}, 0x7fc0},
    {"cvt.f64.f16 %d4, %h1;", {0x7c01}, 0x7ff8040000000000},
    {"cvt.f64.f16 %d4, %h1;", {0x7f33}, 0x7ffccc0000000000},
    {"cvt.rz.f32.f64 %r4, %d1;", {0xfffffffffffffca1}, 0xffffffff},
    {"cvt.rn.f16.f64 %h4, %d1;", {0xfffffffffffffd01}, 0xffff},
    {"cvt.rn.f16.f64 %h4, %d1;", {0xffffffffffffff87}, 0xffff},
    /* .ftz makes the one NaN. */
    {"cvt.ftz.f64.f32 %d4, %r1;", {0xffffffff}, 0x7fffffffe0000000},
    {"cvt.ftz.f32.bf16 %r4, %h1;", {0xff9a}, 0x7fffffff},
    /* Of f32 and halves, neg and abs do, too; f64 keeps its sign. */
    {"neg.f32 %r4, %r1;", {0x7fc00005}, 0x7fffffff},
    {"abs.f32 %r4, %r1;", {0xff800001}, 0x7fffffff},
    {"neg.ftz.f32 %r4, %r1;", {0xff800001}, 0x7fffffff},
    {"neg.f16 %h4, %h1;", {0xfccd}, 0x7fff},
    {"abs.f16x2 %r4, %r1;", {0x7e05fe01}, 0x7fff7fff},
    {"neg.bf16x2 %r4, %r1;", {0x0040ffc1}, 0x80407fff},
    {"abs.bf16 %h4, %h1;", {0x7f81}, 0x7fff},
    {"neg.f64 %d4, %d1;", {0x7ff8000000000005}, 0x7ff8000000000005},
    {"abs.f64 %d4, %d1;", {0xfff0000000000001}, 0xfff8000000000001},
    /* Of two NaN, the second is kept, and that of b before that of c before a. */
    {"add.f64 %d4, %d1, %d2;",
     {0xfff8000000000001, 0x7ff8000000000005},
     0x7ff8000000000005},
    {"sub.rm.f64 %d4, %d1, %d2;",
     {0x7ff0000000000003, 0xfff8000000000001},
     0xfff8000000000001},
    {"fma.rn.f64 %d4, %d1, %d2, %d3;",
     {0, 0xfff8000000000001, 0x7ff8000000000005},
     0xfff8000000000001},
    {"fma.rn.f64 %d4, %d1, %d2, %d3;",
     {0x7ff0000000000003, 0, 0x7ff8000000000005},
     0x7ff8000000000005},
    {"div.rn.f64 %d4, %d1, %d2;",
     {0xfff8000000000001, 0x7ff8000000000005},
     0xfff8000000000001},
    {"min.f64 %d4, %d1, %d2;",
     {0x7ff0000000000003, 0xfff0000000000001},
     0xfff8000000000001},
    {"st.global.b64 [%own], %d1; atom.global.add.f64 %d4, [%own], %d2; "
     "ld.global.b64 %d4, [%own];",
     {0x7ff0000000000003, 0},
     0x7ff0000000000003},
    /* tf32 keeps the bits that it has, to nearest away from zero even of a NaN. */
    {"cvt.rn.tf32.f32 %r4, %r1;", {0xff800001}, 0x7fffe000},
    {"cvt.rz.tf32.f32 %r4, %r1;", {0x7fc00005}, 0x7fffe000},
    {"cvt.rna.tf32.f32 %r4, %r1;", {0x7f800003}, 0x7f800000},
    {"cvt.rna.tf32.f32 %r4, %r1;", {0xffffffff}, 0xffffe000},
    {"cvt.rna.satfinite.tf32.f32 %r4, %r1;", {0x7f98cb87}, 0x7f98a000},
    {"cvt.rna.satfinite.tf32.f32 %r4, %r1;", {0xff7fffff}, 0xff7fe000},
    /* What .ftz flushes and what not. */
    {"cvt.rp.ftz.f16.f32 %h4, %r1;", {1}, 1},
    {"cvt.rm.ftz.f16.f32 %h4, %r1;", {0x807fffff}, 0x8001},
    {"set.eq.ftz.f16.f16 %h4, %h1, %h2;", {1, 0}, 0x3c00},
    {"set.lt.ftz.u32.f16 %r4, %h1, %h2;", {0x83ff, 0}, 0},
    {"setp.gt.ftz.f16x2 %p4|%p3, %r1, %r2;", {0x1c200, 0xbc00}, 0},
    /* Divisors above 2^126, with .ftz and without. */
    {"div.approx.f32 %r4, %r1, %r2;", {0x7f7fffff, 0x7f7fffff}, 0},
    {"div.approx.f32 %r4, %r1, %r2;", {0xff800000, 0x7f7fffff}, 0x7fffffff},
    {"rcp.approx.ftz.f64 %d4, %d1;", {0x7fefffffffffffff}, 0},
    {"rcp.approx.ftz.f64 %d4, %d1;", {0x800fffffffffffff}, 0xfff0000000000000},
    {"rsqrt.approx.ftz.f64 %d4, %d1;", {0xbff0000000000000}, 0x7fffffff00000000},
    /* Zeros are normal numbers. */
    {"testp.normal.f64 %p4, %d1;", {0}, 1},
    {"testp.normal.f32 %p4, %r1;", {0}, 1},
    /* Fields of 64 bits take positions and lengths of 32 bits. */
    {"bfe.u64 %d4, %d1, %r2, %r3;", {0xc2ee160696d7e5b1, 0x7fc00000, 0xba}, 0},
    {"bfe.u64 %d4, %d1, %r2, %r3;", {0x45, 0x77a17306, 0x4b}, 0},
    {"bfe.u64 %d4, %d1, %r2, %r3;", {0xa6d5acad431699eb, 0xfffffc30, 0xc141a19d}, 0},
    {"bfe.u64 %d4, %d1, %r2, %r3;",
     {0x6cf3093fc145e90d, 0xc, 0xfffffc14},
     0x6cf3093fc145e},
    {"bfe.s64 %d4, %d1, %r2, %r3;", {0xc1febbc6, 0x80000000, 0x80}, 0},
    {"bfe.s64 %d4, %d1, %r2, %r3;",
     {0x43dce5e566ca04f9, 0xc, 0x9db0a901},
     0x43dce5e566ca0},
    {"bfe.s64 %d4, %d1, %r2, %r3;", {0xc1dc8f76, 0x3c003c00, 4}, 0},
    {"bfe.s64 %d4, %d1, %r2, %r3;",
     {0xfffffffffffffdff, 0x7fc00000, 0xe06613f5},
     0xffffffffffffffff},
    {"mov.b64 %d4, %d2; bfi.b64 %d4, %d1, %d4, %r3, 8;",
     {0x13fc367a20447024, 0xc2f851b481261b88, 0x85c3a828},
     0xc2f851b481261b88},
    {"mov.b64 %d4, %d2; bfi.b64 %d4, %d1, %d4, 6, %r3;",
     {0xc6c38537, 0x7ff0000000000000, 0xc00cc301},
     0x31b0e14dc0},
    {"mov.b64 %d4, %d2; bfi.b64 %d4, %d1, %d4, %r3, %r3;",
     {0xfffffffffffffd79, 0xfffffffffffffd79, 0xfffffc18},
     0xfffffffffffffd79},
    {"mov.b64 %d4, %d2; bfi.b64 %d4, %d1, %d4, 3, %r3;",
     {0x06aeb6ab382eb411, 0xc52b29d2, 0x4db86d28},
     0x3575b559c175a08a},
};

static const char *
store_of(const char *insn)
{
    return strstr(insn, "%p4")   ? "selp.b32 %r4, 1, 0, %p4; cvt.u64.u32 %d4, %r4;"
           : strstr(insn, "%h4") ? "cvt.u64.u16 %d4, %h4;"
           : strstr(insn, "%r4") ? "cvt.u64.u32 %d4, %r4;"
                                 : "";
}

static char *
kernel_of_all(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    fputs(".version 8.0\n.target sm_90\n.address_size 64\n"
          ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 own)\n{\n"
          ".reg .b64 %d<5>, %in, %out, %own; .reg .b32 %r<5>; .reg .b16 %h<5>;\n"
          ".reg .pred %p<5>;\nld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n"
          "ld.param.u64 %own, [own]; mov.u32 %r1, %tid.x; "
          "mad.wide.u32 %own, %r1, 8, %own;\n",
          f);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        for (int k = 0; k < 3; k++)
            fprintf(f,
                    "ld.global.u64 %%d%d, [%%in+%zu]; cvt.u32.u64 %%r%d, %%d%d; "
                    "cvt.u16.u64 %%h%d, %%d%d;\n",
                    k + 1, (i * 3 + (size_t)k) * 8, k + 1, k + 1, k + 1, k + 1);
        fprintf(f, "%s\n%s st.global.u64 [%%out+%zu], %%d4;\n", rows[i].insn,
                store_of(rows[i].insn), i * 8);
    }
    fputs("ret;\n}\n", f);
    fclose(f);
    return text;
}

static void
results_are_those_of_a_card(void **state)
{
    char *text = kernel_of_all();
    struct ut_sgx u;
    uint64_t *in, *out;
    int wrong = 0;

    (void)state;
    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, sizeof(rows[0].in) * ARRAY_SIZE(rows));
    out = ut_sgx_buf(&u, sizeof(uint64_t) * ARRAY_SIZE(rows));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        memcpy(in + i * 3, rows[i].in, sizeof(rows[i].in));
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, (uintptr_t)ut_sgx_buf(&u, 32 * 8));
    ut_sgx_shape(&u, 1, 32);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (out[i] == rows[i].want)
            continue;
        print_error("%s %" PRIx64 " %" PRIx64 " %" PRIx64 ": %" PRIx64
                    ", the card %" PRIx64 "\n",
                    rows[i].insn, rows[i].in[0], rows[i].in[1], rows[i].in[2], out[i],
                    rows[i].want);
        wrong++;
    }
    assert_int_equal(wrong, 0);
    ut_sgx_close(&u);
    free(text);
}

/* By ptxas 13.0 on the same card, which says why in other words. */
static void
what_ptxas_refuses_is_refused(void **state)
{
    static const struct {
        const char *insn, *words; /* words: NULL where it is taken */
    } forms[] = {
        {"add.u16x2 %r4, %r1, 0xfffffcec;", "lanes"},
        {"min.s16x2 %r4, %r1, 0x28367b17;", "lanes"},
        {"add.u16x2 %r4, %r1, %r2;", NULL},
        {"bfe.s64 %d4, %d1, %r2, 0x800000;", "255"},
        {"bfe.u32 %r4, %r1, 256, %r2;", "255"},
        {"bfe.u32 %r4, %r1, 255, 255;", NULL},
        {"bfi.b32 %r4, %r1, %r2, %r3, 0x7fff;", "255"},
        {"bfi.b64 %d4, %d1, %d2, 255, 0;", NULL},
        {"cvt.rni.s8.bf16 %h4, %h1;", "8 bits"},
        {"cvt.rn.bf16.u8 %h4, %h1;", "8 bits"},
        {"cvt.rn.bf16.u16 %h4, %h1;", NULL},
        {"cvt.rn.sat.bf16.f32 %h4, %r1;", ".sat"},
        {"cvt.sat.f32.bf16 %r4, %h1;", ".sat"},
        {"cvt.sat.f32.f16 %r4, %h1;", NULL},
        {"cvt.sat.s64.u32 %d4, %r1;", ".sat"},
        {"cvt.sat.u64.s32 %d4, %r1;", NULL},
        {"cvt.rn.relu.f16.f64 %h4, %d1;", ".relu"},
        {"cvt.rp.relu.f16.f32 %h4, %r1;", ".relu"},
        {"cvt.rz.relu.f16.f32 %h4, %r1;", NULL},
        {"cvt.rn.ftz.satfinite.f16.f32 %h4, %r1;", ".satfinite"},
        {"cvt.rn.satfinite.f16.f32 %h4, %r1;", NULL},
        {"cvt.rna.relu.tf32.f32 %r4, %r1;", ".rna"},
        {"cvt.rn.s32.s64 %r4, %d1;", "rounded"},
        {"cvt.rn.f64.f32 %d4, %r1;", "rounded"},
        {"cvt.rn.f32.bf16 %r4, %h1;", NULL},
        {"slct.ftz.f32.s32 %r4, %r1, %r2, %r3;", "slct"},
        {"vmad.s32.s32.s32 %r4, -%r1, %r2, -%r3;", "negated"},
        {"vmad.s32.s32.s32 %r4, -%r1, -%r2, -%r3;", NULL},
        {"atom.global.add.s64 %d4, [%d1], %d2;", "not carried"},
        {"red.shared.add.s64 [%d1], %d2;", "not carried"},
        {"atom.global.add.u64 %d4, [%d1], %d2;", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        char text[512], words[512] = "";
        snprintf(
            text, sizeof(text),
            ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k()\n"
            "{\n.reg .b64 %%d<5>; .reg .b32 %%r<5>; .reg .b16 %%h<5>;\n%s\nret;\n}\n",
            forms[i].insn);
        if ((ut_sgx_prepare_error(text, words, sizeof(words)) < 0) ==
                (forms[i].words != NULL) &&
            (!forms[i].words || strstr(words, forms[i].words)))
            continue;
        fail_msg("%s: %s", forms[i].insn, words);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_a_card),
        cmocka_unit_test(what_ptxas_refuses_is_refused),
        cmocka_unit_test(ut_builds_lower_agree),
        cmocka_unit_test(ut_builds_machine_code_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
