/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of single accesses: two blocks on two threads of the host, one of which
 * keeps storing a vector of equal elements while the other loads it and counts how
 * often they differ.  And what needs it: a scan that publishes { status, value } at
 * once.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>

#define READS 20000

struct form {
    const char *words; /* between ld or st and the count */
    unsigned n;        /* elements */
    const char *type;
    unsigned size;
};

/* What a card does at once, and 2 and 4 bytes as well. */
static const struct form forms[] = {
    {".global", 2, "u32", 4},
    {".relaxed.gpu.global", 2, "u32", 4},
    {".volatile.global", 2, "s32", 4},
    {"", 2, "f32", 4},
    {".relaxed.sys", 2, "b32", 4},
    {".global", 4, "u32", 4},
    {".relaxed.gpu.global", 4, "f32", 4},
    {"", 4, "b32", 4},
    {".volatile", 4, "u32", 4},
    {".global", 2, "u64", 8},
    {".relaxed.gpu", 2, "f64", 8},
    {".global", 8, "b32", 4},
    {".global", 4, "b64", 8},
    {".global", 4, "u16", 2},
    {".relaxed.gpu", 2, "u16", 2},
    {".global", 4, "u8", 1},
    {"", 2, "s8", 1},
    {".global", 4, "s8", 1},
    {".global", 2, "s16", 2},
};

static void
add(char *text, size_t size, const char *what, const struct form *f, const char *sep,
    unsigned k)
{
    size_t n = strlen(text);

    (void)f;
    snprintf(text + n, size - n, what, k);
    n = strlen(text);
    snprintf(text + n, size - n, "%s", sep);
}

/* { %e0, %e1, ... } */
static void
add_list(char *text, size_t size, const struct form *f)
{
    add(text, size, "{", f, "", 0);
    for (unsigned k = 0; k < f->n; k++)
        add(text, size, "%%e%u", f, k + 1 < f->n ? ", " : "}", k);
}

static const char *
register_type(const struct form *f)
{
    return f->size == 8        ? (f->type[0] == 'f' ? "f64" : "b64")
           : f->size == 4      ? (f->type[0] == 'f' ? "f32" : "b32")
           : f->type[0] == 's' ? "s16"
                               : "b16";
}

/* Parameters: the vectors, their distance, a word to stop the writer, the count of
 * differences by lane.  Block 0 of two, or warp 0, writes. */
static void
litmus_text(char *text, size_t size, const struct form *f, const char *data,
            const char *who)
{
    unsigned per = gp_min(f->n, 16 / f->size);
    int n = snprintf(
        text, size,
        ".version 8.8\n.target sm_100\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u64 d, .param .u64 s, .param .u64 "
        "o)\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%r<16>; .reg .b64 %%rd<16>; .reg .%s %%e<8>;\n"
        ".shared .align 32 .b8 sh[1024];\n"
        "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [d]; ld.param.u64 %%rd3, [s];\n"
        "ld.param.u64 %%rd4, [o]; %s\n"
        "mov.u32 %%r2, %%laneid; cvt.u64.u32 %%rd5, %%r2; mov.u32 %%r3, 0;\n"
        "mad.lo.u64 %%rd6, %%rd5, %%rd2, %%rd1; mov.u32 %%r4, 0;\n"
        "mov.u32 %%r1, %s; setp.ne.u32 %%p1, %%r1, 0; @%%p1 bra READ;\n"
        "WRITE: add.u32 %%r3, %%r3, 1; and.b32 %%r5, %%r3, 127;\n"
        "cvt.rn.f64.u32 %%rd9, %%r5; cvt.u64.u32 %%rd10, %%r5;\n",
        register_type(f), data, who);
    (void)n;
    for (unsigned k = 0; k < f->n; k++)
        add(text, size,
            f->size == 8   ? "mov.b64 %%e%u, %%rd10;"
            : f->size == 4 ? "mov.b32 %%e%u, %%r5;"
                           : "cvt.u16.u32 %%e%u, %%r5;",
            f, "\n", k);
    n = (int)strlen(text);
    snprintf(text + n, size - (size_t)n, "st%s.v%u.%s [%%rd6], ", f->words, f->n,
             f->type);
    add_list(text, size, f);
    add(text, size, ";", f,
        "\nld.volatile.u32 %r6, [%rd3]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WRITE; ret;\n"
        "READ: ",
        0);
    n = (int)strlen(text);
    snprintf(text + n, size - (size_t)n, "ld%s.v%u.%s ", f->words, f->n, f->type);
    add_list(text, size, f);
    add(text, size, ", [%%rd6];", f, "\n", 0);
    for (unsigned k = 0; k < f->n; k++) {
        char cmp[96];
        if (k % per == 0)
            continue;
        snprintf(cmp, sizeof(cmp), "setp.ne.%s %%%%p3, %%%%e%u, %%%%e%%u;",
                 f->size < 4         ? "u16"
                 : f->type[0] == 'f' ? f->type
                 : f->size == 8      ? "u64"
                                     : "u32",
                 k / per * per);
        add(text, size, cmp, f, " @%p3 add.u32 %r4, %r4, 1;\n", k);
    }
    n = (int)strlen(text);
    snprintf(text + n, size - (size_t)n,
             "add.u32 %%r3, %%r3, 1; setp.lt.u32 %%p2, %%r3, %u; @%%p2 bra READ;\n"
             "mul.lo.u64 %%rd5, %%rd5, 4; add.u64 %%rd4, %%rd4, %%rd5;\n"
             "st.u32 [%%rd4], %%r4; mov.u32 %%r7, 1; st.volatile.u32 [%%rd3], %%r7; "
             "ret;\n}\n",
             READS);
}

/* How many loads of @lanes saw a part of a store. */
static unsigned
torn(const char *text, unsigned distance, unsigned lanes, bool in_shared)
{
    enum sg_cta_state st;
    struct ut_sgx u;
    unsigned sum = 0;
    uint32_t *out;

    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 32 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 32 * 32));
    ut_sgx_param(&u, 1, distance);
    ut_sgx_param(&u, 2, (uintptr_t)ut_sgx_buf(&u, 4));
    ut_sgx_param(&u, 3, (uintptr_t)out);
    if (in_shared)
        ut_sgx_shape(&u, 1, 64);
    else
        ut_sgx_shape(&u, 2, lanes);
    st = in_shared ? ut_sgx_run(&u) : ut_sgx_run_threads(&u, 2);
    assert_int_equal(st, SG_CTA_DONE);
    for (unsigned i = 0; i < 32; i++)
        sum += out[i];
    ut_sgx_close(&u);
    return sum;
}

static void
aligned_vectors_in_global_memory_are_never_torn(void **state)
{
    unsigned wrong = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        const struct form *f = &forms[i];
        unsigned bytes = f->n * f->size, n[5];
        char text[4096];
        litmus_text(text, sizeof(text), f, "", "%ctaid.x");
        n[0] = torn(text, bytes, 32, false); /* side by side */
        n[1] = torn(text, 32, 32, false);
        n[2] = torn(text, 0, 32, false);     /* all lanes at one address */
        n[3] = torn(text, bytes, 31, false); /* and lane by lane */
        n[4] = torn(text, 0, 1, false);
        for (int k = 0; k < 5; k++) {
            if (n[k])
                print_message("ld%s.v%u.%s, case %d: %u elements torn in %u loads\n",
                              f->words, f->n, f->type, k, n[k], READS * 32);
            wrong += n[k];
        }
    }
    assert_int_equal(wrong, 0);
}

static void
aligned_vectors_in_shared_memory_are_never_torn(void **state)
{
    static const char *const where[] = {".shared", ".relaxed.cta.shared", "",
                                        ".volatile"};
    static const struct form shapes[] = {{NULL, 2, "u32", 4},
                                         {NULL, 4, "f32", 4},
                                         {NULL, 2, "u64", 8},
                                         {NULL, 4, "u16", 2}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(shapes) * ARRAY_SIZE(where); i++) {
        struct form f = shapes[i / ARRAY_SIZE(where)];
        char text[4096];
        f.words = where[i % ARRAY_SIZE(where)];
        litmus_text(text, sizeof(text), &f,
                    strstr(f.words, "shared")
                        ? "mov.u64 %rd1, sh;"
                        : "mov.u64 %rd1, sh; cvta.shared.u64 %rd1, %rd1;",
                    "%warpid");
        assert_int_equal(torn(text, f.n * f.size, 32, true), 0);
        assert_int_equal(torn(text, 0, 32, true), 0);
    }
}

/* A pair of 64-bit halves in a 128-bit register. */
static void
loads_and_stores_of_128_bits_are_never_torn(void **state)
{
    static const char text[] =
        ".version 8.8\n.target sm_100\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u64 d, .param .u64 s, .param .u64 "
        "o)\n{\n"
        ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<16>; .reg .b128 %q;\n"
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [d]; ld.param.u64 %rd3, [s];\n"
        "ld.param.u64 %rd4, [o]; mov.u32 %r2, %laneid; cvt.u64.u32 %rd5, %r2;\n"
        "mad.lo.u64 %rd6, %rd5, %rd2, %rd1; mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
        "mov.u64 %rd7, 0;\n"
        "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READ;\n"
        "WRITE: add.u64 %rd7, %rd7, 1; mov.b128 %q, {%rd7, %rd7};\n"
        "st.relaxed.gpu.global.b128 [%rd6], %q; ld.volatile.u32 %r6, [%rd3];\n"
        "setp.eq.u32 %p2, %r6, 0; @%p2 bra WRITE; ret;\n"
        "READ: ld.relaxed.gpu.global.b128 %q, [%rd6]; mov.b128 {%rd8, %rd9}, %q;\n"
        "setp.ne.u64 %p3, %rd8, %rd9; @%p3 add.u32 %r4, %r4, 1;\n"
        "add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 20000; @%p2 bra READ;\n"
        "mul.lo.u64 %rd5, %rd5, 4; add.u64 %rd4, %rd4, %rd5;\n"
        "st.u32 [%rd4], %r4; mov.u32 %r7, 1; st.volatile.u32 [%rd3], %r7; ret;\n}\n";

    (void)state;
    assert_int_equal(torn(text, 16, 32, false), 0);
    assert_int_equal(torn(text, 0, 32, false), 0);
    assert_int_equal(torn(text, 16, 7, false), 0);
}

/* ---- decoupled look-back with { status, value } in one access: 1 = this block's sum,
 * 2 = the sum up to here.  Who sees a new status with an old value adds wrongly. ----
 */

#define BLOCKS 1500
#define ROUNDS 12

#define SCAN(type, reg, one)                                                           \
    ".version 7.0\n.target sm_70\n.address_size 64\n"                                  \
    ".visible .entry k(.param .u64 slots, .param .u64 out)\n{\n"                       \
    ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg ." reg " %e<12>;\n"     \
    "ld.param.u64 %rd1, [slots]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %ctaid.x;\n"   \
    "mul.wide.u32 %rd3, %r1, " one "; add.u64 %rd3, %rd1, %rd3;\n"                     \
    "cvt.u64.u32 %rd5, %r1; cvt.u32.u64 %r2, %rd5;\n"                                  \
    "cvt." type ".u32 %e1, %r1; add." type " %e1, %e1, 1; mov." reg " %e2, 1;\n"       \
    "st.relaxed.gpu.global.v2." type " [%rd3], {%e2, %e1};\n"                          \
    "mov.u64 %rd4, %rd3; mov.u32 %r3, %r1; mov." reg " %e3, %e1;\n"                    \
    "BACK: setp.eq.u32 %p1, %r3, 0; @%p1 bra DONE; sub.u64 %rd4, %rd4, " one ";\n"     \
    "SPIN: ld.relaxed.gpu.global.v2." type " {%e4, %e5}, [%rd4];\n"                    \
    "setp.eq." type " %p2, %e4, 0; @%p2 bra SPIN; add." type " %e3, %e3, %e5;\n"       \
    "setp.eq." type " %p3, %e4, 2; @%p3 bra DONE; sub.u32 %r3, %r3, 1; bra BACK;\n"    \
    "DONE: mov." reg " %e6, 2; st.relaxed.gpu.global.v2." type                         \
    " [%rd3], {%e6, %e3};\n"                                                           \
    "mul.wide.u32 %rd5, %r1, 8; add.u64 %rd5, %rd2, %rd5; st.global." type             \
    " [%rd5], %e3;\n"                                                                  \
    "ret;\n}\n"

static void
scan(const char *text, unsigned bytes)
{
    unsigned wrong = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct ut_sgx u;
        uint64_t *out;
        ut_sgx_open(&u, text);
        ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, BLOCKS * bytes));
        out = ut_sgx_buf(&u, BLOCKS * 8);
        ut_sgx_param(&u, 1, (uintptr_t)out);
        ut_sgx_shape(&u, BLOCKS, 1);
        assert_int_equal(ut_sgx_run_threads(&u, 2), SG_CTA_DONE);
        for (uint64_t i = 0; i < BLOCKS; i++)
            wrong += out[i] != (i + 1) * (i + 2) / 2;
        ut_sgx_close(&u);
    }
    assert_int_equal(wrong, 0);
}

static void
scans_publish_status_and_value_at_once(void **state)
{
    (void)state;
    scan(SCAN("u32", "b32", "8"), 8);
    scan(SCAN("u64", "b64", "16"), 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_vectors_in_global_memory_are_never_torn),
        cmocka_unit_test(aligned_vectors_in_shared_memory_are_never_torn),
        cmocka_unit_test(loads_and_stores_of_128_bits_are_never_torn),
        cmocka_unit_test(scans_publish_status_and_value_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
