/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused, where and in which words; what hostile text can cost. */
#include "ptx_arena.h"
#include "ut_ptx.h"

static void
syntax_errors_name_line_and_column(void **state)
{
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "line 1:1: expected '.version': PTX starts with it, found the end"},
        {"hello", "line 1:1: expected '.version': PTX starts with it, found 'hello'"},
        {".version 9\n.target sm_86",
         "line 1:10: expected a version like 9.0, found '9'"},
        {".version 9.0\n", "line 2:1: the module has no .target"},
        {".version 9.0\n.target volta", "line 2:9: expected a target like sm_86"},
        {".version 9.0\n.version 9.0", "line 2:10: second .version"},
        {PTX_HEAD ".visible", "expected a directive, found the end of the text"},
        {PTX_HEAD "frob", "line 4:1: expected a directive, found 'frob'"},
        {PTX_HEAD ".address_size 16", "address size is 32 or 64"},
        {PTX_HEAD ".reg .b32 %r;", "registers and parameters belong to a function"},
        {PTX_HEAD "/* no end", "line 4:1: comment does not end"},
        {PTX_HEAD ".pragma \"no end\n", "line 4:9: string does not end"},
        {PTX_HEAD ".global .u32 x = 99999999999999999999;",
         "line 4:18: integer does not fit 64 bits"},
        {PTX_HEAD ".global .f32 x = 0f3f80;", "8 digits after 0f"},
        {PTX_HEAD ".global .u32 x = 12q;", "expected the end of a number"},
        {PTX_HEAD "\x01", "line 4:1: no PTX character"},
        {PTX_HEAD ".global .u32 x = 1/0;", "division by zero in a constant"},
        {PTX_HEAD ".global x;", "expected a type"},
        {PTX_HEAD ".align 4 .u32 x;", "expected a state space"},
        {PTX_HEAD ".global .u32 .f32 x;", "second type"},
        {PTX_HEAD ".global .shared .u32 x;", "second state space"},
        {PTX_HEAD ".global .pred x;", ".pred exists only in registers"},
        {PTX_HEAD ".global .e2m1 x;", "'.e2m1' is no type of a variable"},
        {PTX_HEAD ".global .rn .u32 x;", "line 4:9: unexpected '.rn' in a declaration"},
        {PTX_HEAD ".global .align 3 .u32 x;", "alignment 3 is not a power of two"},
        {PTX_HEAD ".global .u32 x[4][];", "only the first dimension may be left out"},
        {PTX_HEAD ".global .u32 x[-1];", "array size is negative"},
        {PTX_HEAD ".global .u32 x;\n.global .u32 x;",
         "line 5:1: 'x' was already defined in line 4"},
        {PTX_HEAD ".extern .global .u32 x;\n.global .f64 x;",
         "'x' was declared differently in line 4"},
        {PTX_HEAD ".entry k(.global .u32 a){}",
         "a parameter is in .param or .reg space"},
        {PTX_HEAD ".func f(.param .u32 a, .param .u32 a){}", "already declared"},
        {PTX_HEAD ".func f(){}\n.func f(){}",
         "line 5:1: 'f' was already defined in line 4"},
        {PTX_HEAD ".func f(.param .u32 a);\n.func f(){}",
         "'f' was declared with other parameters in line 4"},
        {PTX_HEAD ".global .u32 f;\n.func f(){}", "'f' is already declared"},
        {PTX_HEAD ".entry k() .maxntid 1,2,3,4 {}", "more than three dimensions"},
        {PTX_HEAD ".entry k() ret;", "line 4:12: expected '{' or ';', found 'ret'"},
        {PTX_HEAD ".func f(){}\n.alias f, f;", "cannot be an alias"},
        {PTX_HEAD ".alias f, g;", "expected a function's name, found 'f'"},
        {PTX_HEAD ".func f() {", "or '}', found the end of the text"},
        {PTX_HEAD ".section .x { {", "expected '}' of a section"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        ut_refuse(cases[i].text, -EINVAL, cases[i].words);
}

static void
errors_in_bodies_name_line_and_column(void **state)
{
    static const struct {
        const char *body;
        const char *words;
    } cases[] = {
        {".reg .b32 a\nmov.u32 a, a;", "line 7:1: expected ';', found 'mov'"},
        {".reg .b32 a, a;", "'a' is already declared in this scope"},
        {"mov.u32 %r1, 0;", "line 6:9: '%r1' is not declared"},
        {".reg .b32 %r<4>;\nmov.u32 %r4, 0;", "line 7:9: '%r4' is not declared"},
        {".reg .b32 %r<4>;\nmov.u32 %r03, 0;", "'%r03' is not declared"},
        {"bra nowhere;", "line 6:5: 'nowhere' is not declared"},
        {"{ L: ret; }\nbra L;", "line 7:5: 'L' is not declared"},
        {"L: ret;\nL: ret;", "'L' is already declared"},
        {"@p bra L; L:", "expected a predicate register, found 'p'"},
        {".reg .b32 p; @p ret;", "expected a predicate register"},
        {".reg .pred p; @p { ret; }", "expected an instruction, found '{'"},
        {"add.u32 1 2;", "line 6:11: expected ',' or ';', found '2'"},
        {"add.u32 ;;", NULL},
        {"add.u32 1,;", "expected an operand, found ';'"},
        {"ld.global.u32 1, [;", "expected a constant, found ';'"},
        {"ld.global.u32 1, [nobody+4];", "'nobody' is not declared"},
        {".reg .b64 a, b; ld.u32 1, [a+b];", "an address has one register"},
        {"mov.u32 {1, 2;", "expected '}', found ';'"},
        {"mov.u32 1, 1.5+0f3f800000;", "cannot be part of an expression"},
        {"mov.u32 %tid.q, 1;", "expected a component like .x, found '.q'"},
        {"mov.u32 1, ~1.5;", "does not apply to floating-point"},
        {".unknown", "expected a declaration or an instruction"},
        {".shared .u32 s = 4;", "only .global and .const variables have initialisers"},
        {"x: .calltargets x;", "a call target is not a function"},
        {"x: .branchtargets y;", "'y' is not declared"},
        {"call (1, 2;", "expected ')'"},
        {"frob.u32 1 2", "expected ';', found the end of the text"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (cases[i].words)
            ut_refuse_body(cases[i].body, -EINVAL, cases[i].words);
        else
            ptx_module_free(ut_body(cases[i].body));
    }
}

/* @n times @item between @front and @back. */
static char *
repeat(const char *front, const char *item, unsigned n, const char *back)
{
    size_t len = strlen(item), size = strlen(front) + n * len + strlen(back) + 1;
    char *text = malloc(size), *at;

    assert_non_null(text);
    at = text + snprintf(text, size, "%s", front);
    for (unsigned i = 0; i < n; i++, at += len)
        memcpy(at, item, len);
    snprintf(at, size - (size_t)(at - text), "%s", back);
    return text;
}

static void
refuse_repeated(const char *front, const char *item, unsigned n, const char *back,
                int code, const char *words)
{
    char *text = repeat(front, item, n, back);

    ut_refuse_body(text, code, words);
    free(text);
}

static void
deep_nesting_is_refused_not_crashed(void **state)
{
    refuse_repeated("", "{", 1000000, "", -E2BIG, "blocks nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "(", 1000000, "", -E2BIG, "nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "{", 1000000, "", -E2BIG, "nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "1?", 1000000, "", -E2BIG, "nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "- ", 1000000, "1;", -E2BIG, "64 signs in front");
    refuse_repeated("mov.u32 1, [1,", "[1,", 1000000, "", -E2BIG,
                    "nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "_|", 1000000, "_;", -EINVAL, "expected ',' or ';'");
    refuse_repeated("call ", "(", 1000000, "_;", -E2BIG, "nested deeper than 64");
    refuse_repeated("mov.u32 1, ", "(.s64)", 1000000, "1;", -E2BIG, "deeper than 64");
}

static void
long_lists_are_refused(void **state)
{
    refuse_repeated("add ", "1,", 1000, "1;", -E2BIG, "more than 255 operands");
    refuse_repeated("mov {", "1,", 1000, "1};", -E2BIG, "more than 512 elements");
    refuse_repeated("add", ".x", 1000, " 1;", -E2BIG, "more than 32 modifiers");
    refuse_repeated(".shared .u8 x", "[1]", 20, ";", -E2BIG,
                    "more than 8 array dimensions");
}

static void
too_many_parameters_are_refused(void **state)
{
    char *text = repeat(PTX_HEAD ".func f(", ".param .u8 _,", 5000, ".param .u8 _);");

    ut_refuse(text, -E2BIG, "more than 4096 parameters");
    free(text);
    ut_refuse(PTX_HEAD ".entry k(.param .b8 a[32764], .param .u8 b){}", -E2BIG,
              "kernel parameters take 32765 bytes, the limit is 32764");
}

static void
unknown_words_are_counted(void **state)
{
    char *text = malloc(2000000);
    size_t n = 0;

    assert_non_null(text);
    text[0] = 0;
    for (unsigned i = 0; i < PTX_MAX_WORDS + 1; i++)
        n += (size_t)snprintf(text + n, 20, "w%u;\n", i);
    ut_refuse_body(text, -E2BIG, "more than 60000 unknown words");
    free(text);
}

static void
huge_declarations_cost_nothing_or_are_refused(void **state)
{
    struct ptx_module *mod;

    ut_refuse_body(
        ".reg .b32 %r<1000000000>;", -E2BIG,
        "line 6:14: number of registers is 1000000000, the limit is 1048576");
    ut_refuse(PTX_HEAD ".global .b8 x[1 << 41];", -E2BIG, "array size is");
    ut_refuse(PTX_HEAD ".global .b64 x[1 << 39];", -E2BIG, "larger than 2^40 bytes");
    ut_refuse(PTX_HEAD ".global .b64 x[1 << 30][1 << 30];", -E2BIG, "larger than 2^40");
    ut_refuse(PTX_HEAD ".global .align 1048576 .b8 x;", -E2BIG, "alignment is 1048576");
    ut_refuse(PTX_HEAD ".global .b8 x[2][1 << 30] = {{1}, {2}};", -E2BIG,
              "initialisers larger than");
    mod = ut_parse(PTX_HEAD ".global .b8 x[1 << 40] = {1, 2};");
    assert_true(ptx_module_var(mod, "x")->size == (uint64_t)1 << 40);
    assert_int_equal(ptx_module_var(mod, "x")->init_len, 2);
    ptx_module_free(mod);
}

/* However the text is cut, there is an answer, and words with a line. */
static void
text_cut_anywhere_is_survived(void **state)
{
    static const char text[] = PTX_HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".global .align 8 .u64 g[2][2] = {{1, generic(g)+8}, {g}};\n"
        ".const .f32 c[] = {0f3f800000, 1.5e3, -2};\n"
        ".visible .entry k(.param .u64 .ptr .global .align 4 p) .maxntid 1,2 {\n"
        ".reg .pred %p<3>; .reg .b64 %rd<4>; .shared .b8 s[16]; .loc 1 2 3\n"
        "L: @!%p1 ld.global.v2.u32 {%rd1, _}, [%rd2+-8].unified; { .param .b64 q;\n"
        "P: .callprototype (.param .b32 _) _ (.param .b64 _);\n"
        "call (q), %rd1, (q), P; }\n"
        "T: .branchtargets L, M; brx.idx %rd1, T;\n"
        "tex.2d.v4.f32.f32 {%rd1,%rd1,%rd1,%rd1}, [%rd1, {%rd2,%rd3}];\n"
        "setp.eq.u32 %p1|%p2, s[3], 0x7f; M: ret; }\n";

    for (size_t n = 0; n < sizeof(text); n++) {
        struct ptx_module *mod = NULL;
        struct gp_err err = {0};
        int r = ptx_parse(text, n, &mod, &err);

        assert_true((r == 0) == (mod != NULL));
        if (r < 0) {
            assert_int_equal(r, -EINVAL);
            assert_int_equal(strncmp(err.msg, "line ", 5), 0);
        }
        ptx_module_free(mod);
    }
}

/* What a module may take is bounded, whatever its pieces' sizes. */
static void
an_arena_keeps_to_its_limit(void **state)
{
    for (size_t piece = 8; piece <= 1 << 19; piece *= 4) {
        struct ptx_arena arena = {.limit = 1 << 20};
        size_t got = 0;

        while (ptx_arena_alloc(&arena, piece))
            got += piece;
        assert_in_range(got, 1 << 18, 1 << 20);
        assert_in_range(arena.total, got, 1 << 20);
        assert_null(ptx_arena_alloc(&arena, SIZE_MAX));
        ptx_arena_reset(&arena);
        assert_non_null(ptx_arena_alloc(&arena, 8));
        ptx_arena_fini(&arena);
        assert_int_equal(arena.total, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax_errors_name_line_and_column),
        cmocka_unit_test(errors_in_bodies_name_line_and_column),
        cmocka_unit_test(deep_nesting_is_refused_not_crashed),
        cmocka_unit_test(long_lists_are_refused),
        cmocka_unit_test(too_many_parameters_are_refused),
        cmocka_unit_test(unknown_words_are_counted),
        cmocka_unit_test(huge_declarations_cost_nothing_or_are_refused),
        cmocka_unit_test(text_cut_anywhere_is_survived),
        cmocka_unit_test(an_arena_keeps_to_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
