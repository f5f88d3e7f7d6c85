/* SPDX-License-Identifier: Apache-2.0 */
/* Several modules become one: who wins, what is refused, what is rewritten. */
#include "ut_ptx.h"

#include "ptx_link.h"

#define F_DECL ".extern .func (.param .b32 r) f(.param .b32 a);\n"
#define F_BODY ".func (.param .b32 r) f(.param .b32 a) { ret; }\n"
#define CALL_F                                                                         \
    ".visible .entry k() { .param .b32 x; .reg .b64 %d; call (x), f, (x); mov.u64 "    \
    "%d, f; }\n"

static int
link_texts(const char *const *texts, uint32_t n, struct ptx_module **ret,
           struct gp_err *err)
{
    struct ptx_module *mods[8] = {0};
    char text[2000];
    int r;

    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof(text), PTX_HEAD "%s", texts[i]);
        mods[i] = ut_parse(text);
    }
    r = ptx_link(mods, n, ret, err);
    for (uint32_t i = 0; i < n; i++) {
        assert_true((mods[i] == NULL) == (r == 0));
        ptx_module_free(mods[i]);
    }
    return r;
}

static struct ptx_module *
link_two(const char *a, const char *b)
{
    const char *texts[] = {a, b};
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    int r = link_texts(texts, 2, &mod, &err);

    if (r < 0)
        print_error("%s\n", err.msg);
    assert_int_equal(r, 0);
    return mod;
}

static void
refuse_two(const char *a, const char *b, int code, const char *words)
{
    const char *texts[] = {a, b};
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};

    assert_int_equal(link_texts(texts, 2, &mod, &err), code);
    if (!strstr(err.msg, words))
        print_error("got: %s\nwanted: %s\n", err.msg, words);
    assert_non_null(strstr(err.msg, words));
    assert_null(mod);
}

static void
extern_function_meets_its_definition(void **state)
{
    const char *texts[][2] = {{F_DECL CALL_F, ".visible " F_BODY},
                              {".visible " F_BODY, F_DECL CALL_F}};

    for (int i = 0; i < 2; i++) {
        struct ptx_module *mod = link_two(texts[i][0], texts[i][1]);
        const struct ptx_func *f = ptx_module_func(mod, "f");

        assert_int_equal(mod->n_funcs, 2);
        assert_true(f->has_body);
        assert_ptr_equal(ut_insn(mod, 0)->opds[1].func, f);
        assert_ptr_equal(ut_insn(mod, 1)->opds[1].func, f);
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(mod->funcs[k]->id, k);
        ptx_module_free(mod);
    }
}

static void
extern_variable_meets_its_definition(void **state)
{
    struct ptx_module *mod =
        link_two(".extern .global .align 4 .b8 v[];\n.global .u64 p = generic(v)+4;\n"
                 ".visible .entry k() { .reg .b64 %d; ld.global.u64 %d, [v+8]; }",
                 ".visible .global .align 4 .b8 v[64] = {1};");
    const struct ptx_var *v = ptx_module_var(mod, "v");

    assert_int_equal(mod->n_vars, 2);
    assert_int_equal(v->size, 64);
    assert_ptr_equal(ut_insn(mod, 0)->opds[1].var, v);
    assert_ptr_equal(mod->vars[0]->relocs[0].var, v);
    ptx_module_free(mod);
}

static void
locals_of_one_name_stay_apart(void **state)
{
    struct ptx_module *mod = link_two(
        ".global .u32 v = 1; .func g() { ret; }\n.visible .entry k() { .reg .b64 "
        "%d; mov.u64 %d, v; call g; }",
        ".global .u32 v = 2; .func g() { exit; }\n.visible .entry other() { .reg .b64 "
        "%d; mov.u64 %d, v; call g; }");
    const struct ptx_func *other = ptx_module_func(mod, "other");

    assert_int_equal(mod->n_vars, 2);
    assert_int_equal(mod->n_funcs, 4);
    assert_int_equal(ut_insn(mod, 0)->opds[1].var->init[0], 1);
    assert_int_equal(other->insns[0].opds[1].var->init[0], 2);
    assert_ptr_not_equal(ut_insn(mod, 1)->opds[0].func, other->insns[1].opds[0].func);
    assert_ptr_equal(mod->vars[0]->name, mod->vars[1]->name);
    ptx_module_free(mod);
}

static void
strong_beats_weak_and_the_first_weak_stays(void **state)
{
    struct ptx_module *mod =
        link_two(".weak .global .u32 v = 1; .weak .global .u32 w = 1;",
                 ".visible .global .u32 v = 2; .weak .global .u32 w = 2;");

    assert_int_equal(mod->n_vars, 2);
    assert_int_equal(ptx_module_var(mod, "v")->init[0], 2);
    assert_int_equal(ptx_module_var(mod, "w")->init[0], 1);
    ptx_module_free(mod);
}

static void
largest_common_wins_unless_there_is_a_definition(void **state)
{
    struct ptx_module *mod =
        link_two(".common .global .b8 v[4]; .common .global .u32 w;",
                 ".common .global .b8 v[8]; .visible .global .u32 w = 7;");

    assert_int_equal(mod->n_vars, 2);
    assert_int_equal(ptx_module_var(mod, "v")->size, 8);
    assert_int_equal(ptx_module_var(mod, "w")->init[0], 7);
    ptx_module_free(mod);
}

static void
two_definitions_are_refused(void **state)
{
    refuse_two(".visible " F_BODY, ".visible " F_BODY, -EEXIST,
               "'f' of input 1 is already defined");
    refuse_two(".visible .global .u32 v;", ".visible .global .u32 v;", -EEXIST, "'v'");
}

static void
different_things_of_one_name_are_refused(void **state)
{
    refuse_two(".extern .global .u32 f;", ".visible " F_BODY, -EINVAL,
               "declared differently");
    refuse_two(F_DECL, ".visible .func f() { ret; }", -EINVAL, "declared differently");
    refuse_two(".extern .global .u32 v;", ".visible .const .u32 v;", -EINVAL,
               "differently");
    refuse_two(".extern .global .u32 v;", ".visible .global .u64 v;", -EINVAL,
               "differently");
}

static void
undefined_names_are_refused(void **state)
{
    refuse_two(F_DECL CALL_F, "", -ENOENT, "'f', which input 0 needs, is not defined");
    refuse_two("", ".extern .global .u32 v;", -ENOENT, "'v', which input 1 needs");
    refuse_two(F_DECL CALL_F, F_BODY, -ENOENT, "'f'"); /* local there */
}

static void
runtime_functions_and_dynamic_shared_may_stay_open(void **state)
{
    struct ptx_module *mod = link_two(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".extern .shared .align 16 .b8 dyn[];",
        ".extern .shared .align 16 .b8 dyn[];");

    assert_false(ptx_module_func(mod, "vprintf")->has_body);
    assert_int_equal(mod->n_vars, 1);
    ptx_module_free(mod);
}

static void
aliases_and_call_tables_are_rewritten(void **state)
{
    struct ptx_module *mod =
        link_two(F_DECL ".visible .entry k() { .reg .b64 %d; T: .calltargets f; ret; }",
                 ".visible .func (.param .b32 r) g(.param .b32 a) { ret; }\n"
                 ".visible .func (.param .b32 r) f(.param .b32 a);\n.alias f, g;");
    const struct ptx_func *f = ptx_module_func(mod, "f");

    assert_ptr_equal(f->alias, ptx_module_func(mod, "g"));
    assert_ptr_equal(ptx_module_func(mod, "k")->labels[0]->funcs[0], f);
    ptx_module_free(mod);
}

static void
unknown_words_get_common_numbers(void **state)
{
    struct ptx_module *mod = link_two(".visible .entry k() { zip.zap; }",
                                      ".visible .entry other() { new; zap.zip; }");
    const struct ptx_insn *a = ut_insn(mod, 0);
    const struct ptx_insn *b = &ptx_module_func(mod, "other")->insns[1];

    assert_string_equal(ptx_word_name(mod, a->op), "zip");
    assert_string_equal(ptx_word_name(mod, b->op), "zap");
    assert_int_equal(a->op, b->mods[0]);
    assert_int_equal(b->op, a->mods[0]);
    ptx_module_free(mod);
}

static void
highest_version_and_target_are_the_result(void **state)
{
    struct ptx_module *mods[2] = {
        ut_parse(".version 7.8\n.target sm_80\n.address_size 64"),
        ut_parse(".version 7.10\n.target sm_75\n.address_size 64")};
    struct ptx_module *odd[2] = {
        ut_parse(".version 7.8\n.target sm_80\n.address_size 64"),
        ut_parse(".version 7.8\n.target sm_80\n.address_size 32")};
    struct ptx_module *mod = NULL;

    assert_int_equal(ptx_link(mods, 2, &mod, NULL), 0);
    assert_int_equal(mod->version_minor, 10);
    assert_int_equal(mod->sm, 80);
    ptx_module_free(mod);
    mod = NULL;
    assert_int_equal(ptx_link(odd, 2, &mod, NULL), -EINVAL);
    assert_null(mod);
    ptx_module_free(odd[0]);
    ptx_module_free(odd[1]);
    assert_int_equal(ptx_link(odd, 0, &mod, NULL), -EINVAL);
}

/* C's void and a linker's view of it: numba declares a result that C does not give. */
static void
a_result_that_nobody_gives_is_no_error(void **state)
{
    struct ptx_module *mod =
        link_two(".extern .func (.param .b64 r) f(.param .b32 a);\n",
                 ".visible .func f(.param .b32 a)\n{\nret;\n}\n");

    assert_int_equal(mod->n_funcs, 1);
    assert_int_equal(mod->funcs[0]->n_rets, 0);
    ptx_module_free(mod);
    refuse_two(".extern .func f(.param .b32 a, .param .b32 b);\n",
               ".visible .func f(.param .b32 a)\n{\nret;\n}\n", -EINVAL,
               "declared differently");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extern_function_meets_its_definition),
        cmocka_unit_test(a_result_that_nobody_gives_is_no_error),
        cmocka_unit_test(extern_variable_meets_its_definition),
        cmocka_unit_test(locals_of_one_name_stay_apart),
        cmocka_unit_test(strong_beats_weak_and_the_first_weak_stays),
        cmocka_unit_test(largest_common_wins_unless_there_is_a_definition),
        cmocka_unit_test(two_definitions_are_refused),
        cmocka_unit_test(different_things_of_one_name_are_refused),
        cmocka_unit_test(undefined_names_are_refused),
        cmocka_unit_test(runtime_functions_and_dynamic_shared_may_stay_open),
        cmocka_unit_test(aliases_and_call_tables_are_rewritten),
        cmocka_unit_test(unknown_words_get_common_numbers),
        cmocka_unit_test(highest_version_and_target_are_the_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
