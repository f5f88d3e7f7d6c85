/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of single accesses: blocks on one, two and four threads of the host, one
 * of which keeps storing a vector of equal elements while the others load it and count
 * how often they differ.  And what needs it: a scan that publishes { status, value } at
 * once.  All of it on every build of the executor.
 */
#include "ut_builds.h"
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>

/* So many loads, and more until CHANGES of them have seen another value than the load
 * before: threads that did not run at once have shown nothing. */
#define READS 20000
#define CHANGES 3000
#define MOST 60000

/* Where the threads of a test are. */
enum place {
    TWO,    /* blocks, on threads of their own */
    MANY,   /* one that writes, three that read */
    TURNS,  /* blocks that take turns on one thread */
    SHARED, /* warps of a block */
};

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

static const char *
compared_type(const struct form *f)
{
    return f->size < 4         ? "u16"
           : f->type[0] == 'f' ? f->type
           : f->size == 8      ? "u64"
                               : "u32";
}

/* The reader goes on, or reports and stops the writer. */
#define UNTIL_ENOUGH                                                                   \
    "add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, " TEXT(                                \
        READS) "; @%p2 bra READ;\n"                                                    \
               "setp.lt.u32 %p2, %r8, " TEXT(                                          \
                   CHANGES) ";\n"                                                      \
                            "setp.lt.and.u32 %p2, %r3, " TEXT(                         \
                                MOST) ", %p2; @%p2 bra READ;\n"                        \
                                      "mul.lo.u64 %rd5, %rd5, 4; add.u64 %rd4, %rd4, " \
                                      "%rd5;\n"                                        \
                                      "red.add.u32 [%rd4], %r4; mov.u32 %r7, 1; "      \
                                      "st.volatile.u32 [%rd3], %r7; ret;\n}\n"
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

/* Parameters: the vectors, their distance, a word to stop the writer, the count of
 * differences by lane.  Block 0, or warp 0, writes. */
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
        ".reg .pred %%p<4>; .reg .b32 %%r<16>; .reg .b64 %%rd<16>; .reg .%s %%e<8>, "
        "%%was;\n"
        ".shared .align 32 .b8 sh[1024];\n"
        "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [d]; ld.param.u64 %%rd3, [s];\n"
        "ld.param.u64 %%rd4, [o]; %s\n"
        "mov.u32 %%r2, %%laneid; cvt.u64.u32 %%rd5, %%r2; mov.u32 %%r3, 0;\n"
        "mad.lo.u64 %%rd6, %%rd5, %%rd2, %%rd1; mov.u32 %%r4, 0; "
        "mov.u32 %%r8, 0;\n"
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
    n = (int)strlen(text);
    snprintf(text + n, size - (size_t)n,
             "setp.ne.%s %%p3, %%e0, %%was; @%%p3 add.u32 %%r8, %%r8, 1;\n"
             "mov.%s %%was, %%e0;\n",
             compared_type(f), register_type(f));
    for (unsigned k = 0; k < f->n; k++) {
        char cmp[96];
        if (k % per == 0)
            continue;
        snprintf(cmp, sizeof(cmp), "setp.ne.%s %%%%p3, %%%%e%u, %%%%e%%u;",
                 compared_type(f), k / per * per);
        add(text, size, cmp, f, " @%p3 add.u32 %r4, %r4, 1;\n", k);
    }
    n = (int)strlen(text);
    snprintf(text + n, size - (size_t)n, "%s", UNTIL_ENOUGH);
}

static enum sg_cta_state
run(struct ut_sgx *u, enum place place, unsigned lanes)
{
    switch (place) {
    case SHARED:
        ut_sgx_shape(u, 1, 64);
        return ut_sgx_run(u);
    case TURNS:
        ut_sgx_shape(u, 2, lanes);
        return ut_sgx_run_resident(u, 3);
    case MANY:
        ut_sgx_shape(u, 4, lanes);
        return ut_sgx_run_threads(u, 4);
    default:
        ut_sgx_shape(u, 2, lanes);
        return ut_sgx_run_threads(u, 2);
    }
}

/* How many loads of @lanes saw a part of a store. */
static unsigned
torn(const char *text, unsigned distance, unsigned lanes, enum place place)
{
    struct ut_sgx u;
    unsigned sum = 0;
    uint32_t *out;

    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 32 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)ut_sgx_buf(&u, 32 * 32));
    ut_sgx_param(&u, 1, distance);
    ut_sgx_param(&u, 2, (uintptr_t)ut_sgx_buf(&u, 4));
    ut_sgx_param(&u, 3, (uintptr_t)out);
    assert_int_equal(run(&u, place, lanes), SG_CTA_DONE);
    if (ut_builds_short())
        assert_true(ut_builds_is_compiled(u.launch.kernel));
    for (unsigned i = 0; i < 32; i++)
        sum += out[i];
    ut_sgx_close(&u);
    return sum;
}

/* The shapes that a warp's addresses have, and where its threads are. */
static const struct {
    bool apart;    /* 32 bytes from lane to lane; else the vector's size */
    bool together; /* all lanes at one address */
    unsigned lanes;
    enum place place;
} cases[] = {
    {.lanes = 32},
    {.apart = true, .lanes = 32},
    {.together = true, .lanes = 32},
    {.lanes = 31}, /* lane by lane */
    {.together = true, .lanes = 1},
    {.lanes = 32, .place = MANY},
    {.lanes = 32, .place = TURNS},
};

static void
aligned_vectors_in_global_memory_are_never_torn(void **state)
{
    unsigned wrong = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        const struct form *f = &forms[i];
        char text[4096];
        litmus_text(text, sizeof(text), f, "", "%ctaid.x");
        for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
            unsigned n, step = cases[k].together ? 0
                               : cases[k].apart  ? 32
                                                 : f->n * f->size;
            if (ut_builds_short() && k != i % ARRAY_SIZE(cases))
                continue;
            n = torn(text, step, cases[k].lanes, cases[k].place);
            if (n)
                print_message("ld%s.v%u.%s, case %zu: %u elements torn\n", f->words,
                              f->n, f->type, k, n);
            wrong += n;
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
        assert_int_equal(torn(text, f.n * f.size, 32, SHARED), 0);
        if (!ut_builds_short())
            assert_int_equal(torn(text, 0, 32, SHARED), 0);
    }
}

/* Two equal halves of @half bits in one register of @whole. */
#define HALVES(whole, half, words)                                                     \
    ".version 8.8\n.target sm_100\n.address_size 64\n"                                 \
    ".visible .entry k(.param .u64 a, .param .u64 d, .param .u64 s, .param .u64 o)\n"  \
    "{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<16>; .reg .b" whole " %q;\n"   \
    "  .reg .b" half " %h<4>;\n"                                                       \
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [d]; ld.param.u64 %rd3, [s];\n"        \
    "ld.param.u64 %rd4, [o]; mov.u32 %r2, %laneid; cvt.u64.u32 %rd5, %r2;\n"           \
    "mad.lo.u64 %rd6, %rd5, %rd2, %rd1; mov.u32 %r3, 0; mov.u32 %r4, 0;\n"             \
    "mov.u" half " %h0, 0; mov.u32 %r8, 0;\n"                                          \
    "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READ;\n"                 \
    "WRITE: add.u" half " %h0, %h0, 1; mov.b" whole " %q, {%h0, %h0};\n"               \
    "st" words ".b" whole " [%rd6], %q; ld.volatile.u32 %r6, [%rd3];\n"                \
    "setp.eq.u32 %p2, %r6, 0; @%p2 bra WRITE; ret;\n"                                  \
    "READ: ld" words ".b" whole " %q, [%rd6]; mov.b" whole " {%h1, %h2}, %q;\n"        \
    "setp.ne.u" half " %p3, %h1, %h2; @%p3 add.u32 %r4, %r4, 1;\n"                     \
    "setp.ne.u" half " %p3, %h1, %h3; @%p3 add.u32 %r8, %r8, 1; mov.b" half            \
    " %h3, %h1;\n" UNTIL_ENOUGH

static void
halves(const char *text, unsigned bytes)
{
    for (enum place place = TWO; place <= TURNS; place++)
        assert_int_equal(torn(text, bytes, 32, place), 0);
    assert_int_equal(torn(text, 32, 32, TWO), 0);
    assert_int_equal(torn(text, 0, 32, TWO), 0);
    assert_int_equal(torn(text, bytes, 7, TWO), 0);
}

static void
loads_and_stores_of_128_bits_are_never_torn(void **state)
{
    (void)state;
    halves(HALVES("128", "64", ".relaxed.gpu.global"), 16);
}

static void
scalars_are_never_torn(void **state)
{
    (void)state;
    halves(HALVES("64", "32", ".global"), 8);
    halves(HALVES("64", "32", ".relaxed.gpu"), 8);
    halves(HALVES("32", "16", ".global"), 4);
    halves(HALVES("32", "16", ".volatile.global"), 4);
}

/* ---- decoupled look-back with { status, value } in one access: 1 = this block's sum,
 * 2 = the sum up to here.  Who sees a new status with an old value adds wrongly. ----
 */

#define BLOCKS 1500
#define ROUNDS 4

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
scan(const char *text, unsigned bytes, unsigned threads)
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
        assert_int_equal(ut_sgx_run_threads(&u, threads), SG_CTA_DONE);
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
    for (unsigned threads = 1; threads <= 4; threads *= 2) {
        scan(SCAN("u32", "b32", "8"), 8, threads);
        scan(SCAN("u64", "b64", "16"), 16, threads);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_vectors_in_global_memory_are_never_torn),
        cmocka_unit_test(aligned_vectors_in_shared_memory_are_never_torn),
        cmocka_unit_test(loads_and_stores_of_128_bits_are_never_torn),
        cmocka_unit_test(scalars_are_never_torn),
        cmocka_unit_test(scans_publish_status_and_value_at_once),
        cmocka_unit_test(ut_builds_lower_agree),
        cmocka_unit_test(ut_builds_machine_code_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
