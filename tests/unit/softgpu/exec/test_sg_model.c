/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of the memory model, each thousands of times: threads that are blocks on
 * processors of their own, blocks in turns on one, warps of a block and lanes of a
 * warp. What the PTX memory model forbids never appears; what it allows is counted and
 * printed.
 *
 * Each instance of a test has variables x, y and z of its own, zero at first.  Threads
 * go through the instances in the same order and wait a little for each other before
 * each round, but never for long: one that has no processor now is left behind.
 */
#include "litmus.h"
#include "ut_builds.h"
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 60
#define POLLS 200
#define FIRST_POLLS 4000 /* other threads start meanwhile */
#define LANES 32
#define INSTANCES (ROUNDS * LANES)
#define INSTANCE_WORDS 64 /* x, y and z in cache lines of their own */
#define VARS_BYTES ((size_t)INSTANCES * INSTANCE_WORDS * 4)
#define OUT_BYTES ((size_t)INSTANCES * MAX_THREADS * 16)

/* ---- the kernel --------------------------------------------------------------------
 */

enum place { BLOCKS, TURNS, WARPS, IN_A_WARP };

/* %t: which thread of the test, %g: which of the instances of a round. */
static const char *const place_text[] = {
    [BLOCKS] = "mov.u32 %t, %ctaid.x; mov.u32 %g, %tid.x; mov.u32 %n, 32;\n",
    [TURNS] = "mov.u32 %t, %ctaid.x; mov.u32 %g, %tid.x; mov.u32 %n, 32;\n",
    [WARPS] = "mov.u32 %t, %tid.x; shr.u32 %t, %t, 5; mov.u32 %g, %laneid; "
              "mov.u32 %n, 32;\n",
    [IN_A_WARP] = "mov.u32 %t, %tid.x; shr.u32 %g, %t, 2; and.b32 %t, %t, 3; "
                  "mov.u32 %n, 8;\n",
};

/* Until nobody is behind this round, or for so many looks. */
static void
add_meeting(FILE *to, unsigned threads)
{
    fprintf(to,
            "add.u32 %%v, %%i, 1; st.volatile.global.u32 [%%mine], %%v;\n"
            "setp.eq.u32 %%p0, %%i, 0; selp.u32 %%c, %u, %u, %%p0;\n"
            "WAIT: sub.u32 %%c, %%c, 1; setp.eq.u32 %%p0, %%c, 0; @%%p0 bra GO;\n",
            FIRST_POLLS, POLLS);
    for (unsigned t = 0; t < threads; t++)
        fprintf(to,
                "ld.volatile.global.u32 %%a, [%%at+%u]; setp.le.u32 %%p0, %%a, %%i;\n"
                "@%%p0 bra WAIT;\n",
                t * 64);
    /* Who waited goes on later than who was waited for: by no fixed time. */
    fputs("GO: mad.lo.u32 %c, %i, 29, %t; mul.lo.u32 %c, %c, 0x9e3779b1;\n"
          "shr.u32 %c, %c, 26;\n"
          "IDLE: setp.eq.u32 %p0, %c, 0; sub.u32 %c, %c, 1; @!%p0 bra IDLE;\n"
          "mov.u32 %a, 0; mov.u32 %b, 0; mov.u32 %c, 0;\n",
          to);
}

static char *
kernel_text(const struct litmus *l, enum place place, const char *scope)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    fprintf(
        to,
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry k(.param .u64 vars, .param .u64 out, .param .u64 at)\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%t, %%g, %%n, %%i, %%k, %%v, %%a, %%b, %%c;\n"
        ".reg .b64 %%vars, %%out, %%at, %%mine, %%x, %%y, %%z, %%o;\n"
        "ld.param.u64 %%vars, [vars]; ld.param.u64 %%out, [out];\n"
        "ld.param.u64 %%at, [at];\n%s"
        "mad.wide.u32 %%mine, %%t, 64, %%at;\n"
        "mov.u32 %%i, 0;\nROUND: mad.lo.u32 %%k, %%i, %%n, %%g;\n"
        "mad.wide.u32 %%x, %%k, 256, %%vars; add.u64 %%y, %%x, 64;\n"
        "add.u64 %%z, %%x, 128;\n",
        place_text[place]);
    add_meeting(to, litmus_threads(l));
    for (unsigned t = 0; t < litmus_threads(l); t++) {
        fprintf(to, "setp.ne.u32 %%p0, %%t, %u; @%%p0 bra NOT%u;\n", t, t);
        litmus_code(to, l->code[t], scope);
        fprintf(to, "bra JOIN;\nNOT%u:\n", t);
    }
    fprintf(
        to,
        "JOIN: mad.lo.u32 %%k, %%k, 4, %%t; mad.wide.u32 %%o, %%k, 16, %%out;\n"
        "st.global.v4.u32 [%%o], {%%a, %%b, %%c, %%t};\n"
        "add.u32 %%i, %%i, 1; setp.lt.u32 %%p1, %%i, %u; @%%p1 bra ROUND;\nret;\n}\n",
        ROUNDS);
    fclose(to);
    return text;
}

/* How often the outcome that the test asks about was there. */
static unsigned
count(const struct litmus *l, const uint32_t *vars, const uint32_t *out, unsigned n)
{
    unsigned seen = 0;

    for (unsigned k = 0; k < n; k++) {
        struct outcome o = {.x = vars[k * INSTANCE_WORDS],
                            .y = vars[k * INSTANCE_WORDS + 16],
                            .z = vars[k * INSTANCE_WORDS + 32]};
        for (unsigned t = 0; t < MAX_THREADS; t++)
            o.r[t] = out + ((size_t)k * MAX_THREADS + t) * 4;
        seen += l->seen(&o);
    }
    return seen;
}

static unsigned
run(const struct litmus *l, enum place place, const char *scope, unsigned os_threads,
    uint64_t seed)
{
    unsigned threads = litmus_threads(l),
             n = place == IN_A_WARP ? ROUNDS * 8 : INSTANCES, seen;
    enum sg_cta_state st;
    struct ut_sgx u;
    CLEANUP_FREE char *text = kernel_text(l, place, scope);
    uint32_t *vars, *out;

    ut_sgx_open(&u, text);
    vars = ut_sgx_buf(&u, VARS_BYTES);
    out = ut_sgx_buf(&u, OUT_BYTES);
    ut_sgx_param(&u, 0, (uintptr_t)vars);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, (uintptr_t)ut_sgx_buf(&u, 64 * MAX_THREADS));
    u.launch.seed = seed;
    memset(vars, 0, VARS_BYTES); /* a page fault drains the buffers of a processor */
    memset(out, 0, OUT_BYTES);
    if (place == BLOCKS || place == TURNS)
        ut_sgx_shape(&u, threads, LANES);
    else
        ut_sgx_shape(&u, 1, place == WARPS ? threads * LANES : LANES);
    st = place == BLOCKS  ? ut_sgx_run_threads(&u, os_threads)
         : place == TURNS ? ut_sgx_run_resident(&u, 3)
                          : ut_sgx_run(&u);
    assert_int_equal(st, SG_CTA_DONE);
    if (ut_builds_short())
        assert_true(ut_builds_is_compiled(u.launch.kernel));
    seen = count(l, vars, out, n);
    ut_sgx_close(&u); /* which keeps buffers mapped: hundreds of runs */
    madvise(vars, VARS_BYTES, MADV_DONTNEED);
    madvise(out, OUT_BYTES, MADV_DONTNEED);
    return seen;
}

/* Compiling a kernel takes longer than running it: in short, each test is compiled
 * once, for one of the places, and runs with one seed. */
static bool
left_out(size_t test, enum place place, unsigned os_threads)
{
    return ut_builds_short() && (test % 4 != (size_t)place || os_threads == 4);
}

static void
check(enum place place, const char *const *scopes, unsigned n_scopes,
      unsigned os_threads)
{
    unsigned wrong = 0, seeds = 2;

    if (ut_builds_short())
        n_scopes = seeds = 1;
    for (size_t i = 0; i < ARRAY_SIZE(litmus_tests); i++) {
        const struct litmus *l = &litmus_tests[i];
        unsigned seen = 0;
        if (left_out(i, place, os_threads))
            continue;
        for (unsigned s = 0; s < n_scopes; s++)
            for (uint64_t seed = 0; seed < seeds; seed++)
                seen += run(l, place, scopes[s], os_threads, seed * (i + 1));
        if (l->allowed)
            print_message("%s: allowed, seen %u times\n", l->name, seen);
        else if (seen)
            print_message("%s: forbidden, seen %u times\n", l->name, seen);
        wrong += !l->allowed && seen;
    }
    assert_int_equal(wrong, 0);
}

static const char *const wide_scopes[] = {"gpu", "sys"};
static const char *const all_scopes[] = {"cta", "gpu"};

static void
blocks_on_one_to_four_processors(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= MAX_THREADS; n *= 2)
        check(BLOCKS, wide_scopes, n == 2 ? 2 : 1, n);
}

static void
blocks_that_take_turns(void **state)
{
    (void)state;
    check(TURNS, wide_scopes, 1, 1);
}

static void
warps_of_a_block(void **state)
{
    (void)state;
    check(WARPS, all_scopes, 2, 1);
}

static void
lanes_of_a_warp(void **state)
{
    (void)state;
    check(IN_A_WARP, all_scopes, 2, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_on_one_to_four_processors),
        cmocka_unit_test(blocks_that_take_turns),
        cmocka_unit_test(warps_of_a_block),
        cmocka_unit_test(lanes_of_a_warp),
        cmocka_unit_test(ut_builds_lower_agree),
        cmocka_unit_test(ut_builds_machine_code_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
