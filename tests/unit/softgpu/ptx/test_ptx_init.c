/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisers: numbers to bytes, addresses to relocations. */
#include "ut_ptx.h"

static struct ptx_module *
parse_var(const char *decl)
{
    char text[1000];

    snprintf(text, sizeof(text), PTX_HEAD ".func f(){ret;}\n.global .u32 other;\n%s\n",
             decl);
    return ut_parse(text);
}

static void
check_bytes(const char *decl, const void *bytes, size_t n, uint64_t size)
{
    struct ptx_module *mod = parse_var(decl);
    const struct ptx_var *v = ptx_module_var(mod, "v");

    assert_true(v->has_init);
    assert_true(v->size == size);
    assert_int_equal(v->init_len, n);
    assert_memory_equal(v->init, bytes, n);
    assert_int_equal(v->n_relocs, 0);
    ptx_module_free(mod);
}

static void
numbers_become_little_endian_bytes(void **state)
{
    static const uint32_t one = 1, minus = UINT32_MAX, quarter = 0x3e800000;
    static const uint64_t half = 0x3fe0000000000000;
    static const uint16_t shorts[] = {1, 0xffff, 0x1234};
    static const float floats[] = {1.0f, 2.0f, -3.0f};
    static const double doubles[] = {1.0, 1.5, 7.0};

    check_bytes(".global .u32 v = 1;", &one, 4, 4);
    check_bytes(".const .s32 v = -1;", &minus, 4, 4);
    check_bytes(".global .f64 v = 0.5;", &half, 8, 8);
    check_bytes(".global .b64 v = 0d3fe0000000000000;", &half, 8, 8);
    check_bytes(".global .b32 v = 0f3e800000;", &quarter, 4, 4);
    check_bytes(".global .u16 v[3] = {1, -1, 0x1234};", shorts, 6, 6);
    check_bytes(".global .f32 v[3] = {0f3f800000, 2, -3.0};", floats, 12, 12);
    check_bytes(".global .f64 v[3] = {0f3f800000, 1.5, 7};", doubles, 24, 24);
}

static void
signalling_nan_stays_signalling(void **state)
{
    static const uint32_t snan = 0x7fa00001;

    check_bytes(".global .f32 v = 0f7fa00001;", &snan, 4, 4);
}

static void
braces_follow_the_dimensions(void **state)
{
    static const uint8_t rows[] = {1, 0, 0, 2, 3, 0, 4};
    static const uint8_t cube[] = {1, 2, 0, 0, 3};
    static const uint8_t vectors[] = {1, 2, 3, 4, 5, 6};

    check_bytes(".global .u8 v[4][3] = {{1}, {2, 3}, {4}};", rows, 7, 12);
    check_bytes(".global .u8 v[2][2][2] = {{{1, 2}}, {{3}}};", cube, 5, 8);
    check_bytes(".global .u8 v[2][2] = {1, 2, {3, 4}};", (uint8_t[]){1, 2, 3, 4}, 4, 4);
    check_bytes(".global .v2 .u8 v[3] = {{1, 2}, {3, 4}, {5, 6}};", vectors, 6, 6);
    check_bytes(".global .v4 .u8 v = {1, 2, 3, 4};", vectors, 4, 4);
    check_bytes(".global .u8 v[4] = {};", vectors, 0, 4);
}

static void
open_arrays_get_their_size(void **state)
{
    static const uint8_t six[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t five[] = {1, 2, 3, 4, 5};

    check_bytes(".global .u8 v[] = {1, 2, 3, 4, 5, 6};", six, 6, 6);
    check_bytes(".global .u8 v[][2] = {{1, 2}, {3, 4}, {5}};", five, 5, 6);
    check_bytes(".global .v2 .u8 v[] = {{1, 2}, {3, 4}, {5, 6}};", six, 6, 6);
}

static void
addresses_become_relocations(void **state)
{
    struct ptx_module *mod = parse_var(
        ".global .u64 v[6] = {other, generic(other)+4, generic(other+4), f, 7, "
        "generic(v)-8};");
    const struct ptx_var *v = ptx_module_var(mod, "v");
    const struct ptx_reloc *rel = v->relocs;

    assert_int_equal(v->n_relocs, 5);
    assert_int_equal(rel[0].kind, PTX_RELOC_VAR);
    assert_string_equal(rel[0].var->name->name, "other");
    assert_false(rel[0].generic);
    assert_int_equal(rel[0].size, 8);
    assert_true(rel[1].generic);
    assert_int_equal(rel[1].offset, 8);
    assert_int_equal(rel[1].addend, 4);
    assert_true(rel[2].generic);
    assert_int_equal(rel[2].addend, 4);
    assert_int_equal(rel[3].kind, PTX_RELOC_FUNC);
    assert_ptr_equal(rel[3].func, ptx_module_func(mod, "f"));
    assert_int_equal(v->init[32], 7);
    assert_int_equal(rel[4].offset, 40);
    assert_int_equal(rel[4].addend, -8);
    assert_ptr_equal(rel[4].var, v);
    ptx_module_free(mod);
}

static void
masks_select_bytes_of_an_address(void **state)
{
    struct ptx_module *mod =
        parse_var(".global .u8 v[3] = {0xff(other), 0xff00(generic(other)+2), "
                  "0xff00000000000000(f)};");
    const struct ptx_reloc *rel = ptx_module_var(mod, "v")->relocs;

    assert_int_equal(ptx_module_var(mod, "v")->n_relocs, 3);
    assert_int_equal(rel[0].shift_bytes, 0);
    assert_int_equal(rel[0].size, 1);
    assert_int_equal(rel[1].shift_bytes, 1);
    assert_true(rel[1].generic);
    assert_int_equal(rel[1].addend, 2);
    assert_int_equal(rel[2].shift_bytes, 7);
    assert_int_equal(rel[2].offset, 2);
    ptx_module_free(mod);
}

static void
wrong_initialisers_are_refused(void **state)
{
    static const char *const cases[][2] = {
        {".global .u8 v[2] = {1, 2, 3};", "too many values for 'v'"},
        {".global .u8 v[2][2] = {{1, 2, 3}};", "too many values in braces"},
        {".global .u8 v[2] = {{1}};", "more braces than 'v' has dimensions"},
        {".global .u8 v = {1};", "expected a value, found '{'"},
        {".global .u8 v[2] = 1;", "expected '{', found '1'"},
        {".global .u8 v[2] = {1,};", "expected a value, found '}'"},
        {".global .u8 v[2] = {1 2};", "expected ',', found '2'"},
        {".global .u32 v = 1.5;", "a floating-point value for a variable of type .u32"},
        {".global .u64 v = nobody;", "'nobody' is not declared"},
        {".global .u64 v = generic(generic(other));", "'generic' is not declared"},
        {".global .u8 v = 0xf0(other);",
         "mask 0xf0 does not select a value of 1 bytes"},
        {".extern .global .u8 v = 1;", "an .extern variable has no initialiser"},
        {".shared .u8 v = 1;", "only .global and .const variables"},
    };
    char text[500];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        snprintf(text, sizeof(text), PTX_HEAD ".global .u32 other;\n%s", cases[i][0]);
        ut_refuse(text, -EINVAL, cases[i][1]);
    }
}

static void
samplers_keep_their_fields(void **state)
{
    struct ptx_module *mod = parse_var(
        ".global .samplerref v = {addr_mode_0 = clamp_to_border, filter_mode = "
        "linear, force_unnormalized_coords = 1}; .global .texref t; .tex .u32 u;");
    const struct ptx_field *field = ptx_module_var(mod, "v")->fields;

    assert_string_equal(field->name->name, "force_unnormalized_coords");
    assert_int_equal(field->number, 1);
    assert_string_equal(field->next->word->name, "linear");
    assert_string_equal(field->next->next->name->name, "addr_mode_0");
    assert_null(field->next->next->next);
    assert_int_equal(ptx_module_var(mod, "t")->type, PTX_W_texref);
    assert_int_equal(ptx_module_var(mod, "u")->space, PTX_SPACE_TEX);
    ptx_module_free(mod);
}

static void
managed_variables_are_marked(void **state)
{
    struct ptx_module *mod =
        parse_var(".visible .global .attribute(.managed) .align 4 .u32 v;\n"
                  ".visible .global .attribute(.unified(0x12, 19)) .align 4 .u32 w;");

    assert_true(ptx_module_var(mod, "v")->managed);
    assert_false(ptx_module_var(mod, "w")->managed);
    ptx_module_free(mod);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_become_little_endian_bytes),
        cmocka_unit_test(signalling_nan_stays_signalling),
        cmocka_unit_test(braces_follow_the_dimensions),
        cmocka_unit_test(open_arrays_get_their_size),
        cmocka_unit_test(addresses_become_relocations),
        cmocka_unit_test(masks_select_bytes_of_an_address),
        cmocka_unit_test(wrong_initialisers_are_refused),
        cmocka_unit_test(samplers_keep_their_fields),
        cmocka_unit_test(managed_variables_are_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
