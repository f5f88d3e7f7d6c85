/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of kernels read from PTX, machine code and fat binaries, good and bad. */
#include "ut_cubin.h"
#include "ut_fat.h"

#include "gp_err.h"
#include "gp_image.h"
#include "kernel_params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

/* "0+8 8+4", "", or "? reason"; "none" without such a kernel.  One text at a time. */
static const char *
told(struct kernel_params_set *all, const char *name)
{
    static char text[400];
    const struct kernel_params *l = kernel_params_find(all, name);
    size_t at = 0;

    if (!l)
        return "none";
    if (l->why) {
        assert_int_equal(l->n_params, 0);
        snprintf(text, sizeof(text), "? %s", l->why);
        return text;
    }
    text[0] = 0;
    for (uint32_t i = 0; i < l->n_params && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u+%u", i ? " " : "",
                               l->params[i].offset, l->params[i].size);
    return text;
}

/* What the kernel "k" of a text tells on a card of @sm. */
static const char *
ptx_on(unsigned sm, const char *text)
{
    struct kernel_params_set all = {0};
    struct gp_err err = {0};
    const char *ret;

    if (kernel_params_ptx(text, strlen(text), sm, &all, &err) < 0)
        ret = "broken";
    else
        ret = told(&all, "k");
    kernel_params_fini(&all);
    return ret;
}

static const char *
ptx(const char *params)
{
    char text[1000];

    snprintf(text, sizeof(text), HEAD ".visible .entry k%s { ret; }\n", params);
    return ptx_on(75, text);
}

/* --- PTX ------------------------------------------------------------------------- */

static void
each_parameter_of_a_text_lies_at_its_own_alignment(void **state)
{
    assert_string_equal(ptx("(.param .u64 a, .param .u32 b)"), "0+8 8+4");
    assert_string_equal(ptx("(.param .u8 a, .param .f64 b, .param .b16 c,\n"
                            "\t.param .s32 d, .param .f16 e, .param .b128 f)"),
                        "0+1 8+8 16+2 20+4 24+2 32+16");
    assert_string_equal(
        ptx("(.param .b8 a[3], .param .align 4 .b8 b[5], .param .u8 c)"),
        "0+3 4+5 9+1");
    assert_string_equal(
        ptx("(.param .b32 a[2][3], .param .b8 b[0x10], .param .b8 c[010],"
            ".param .b8 d[0b11], .param .b8 e[4U])"),
        "0+24 24+16 40+8 48+3 51+4");
    assert_string_equal(ptx("(.param .u8 a, .param .align 1 .u32 b)"), "0+1 4+4");
}

static void
what_a_pointer_points_to_does_not_move_it(void **state)
{
    assert_string_equal(ptx("(.param .u8 a, .param .u64 .ptr .global .align 256 b,"
                            " .param .u32 .ptr .shared c, .param .u64 .ptr d)"),
                        "0+1 8+8 16+4 24+8");
    assert_string_equal(ptx("(.param .u8 a, .param .b8 .align 8 b[3])"), "0+1 1+3");
}

static void
kernels_without_parameters_have_none(void **state)
{
    assert_string_equal(ptx(""), "");
    assert_string_equal(ptx("()"), "");
    assert_string_equal(ptx(".maxntid 32, 1, 1 .minnctapersm 2"), "");
    assert_string_equal(ptx("(.param .u32 a) .maxntid 32 .reqnctapercluster 2"), "0+4");
}

/* The numbers are those of machine code that ptxas 12.9 and 13.0 made for these cards.
 */
static void
wide_alignment_is_counted_from_where_the_card_has_its_constants(void **state)
{
    static const struct {
        unsigned sm;
        const char *at32, *at64, *at256;
    } cards[] = {
        {61, "0+8 8+1 32+8", "0+8 8+1 64+8", "192+8 200+1 448+8"},
        {75, "0+8 8+1 32+8", "32+8 40+1 96+8", "160+8 168+1 416+8"},
        {89, "0+8 8+1 32+8", "32+8 40+1 96+8", "160+8 168+1 416+8"},
        {90, "16+8 24+1 48+8", "48+8 56+1 112+8", "240+8 248+1 496+8"},
        {100, "0+8 8+1 32+8", "0+8 8+1 64+8", "0+8 8+1 256+8"},
        {120, "0+8 8+1 32+8", "0+8 8+1 64+8", "0+8 8+1 256+8"},
    };
    static const unsigned aligns[] = {32, 64, 256};
    char text[300];

    for (size_t i = 0; i < ARRAY_SIZE(cards); i++) {
        const char *want[] = {cards[i].at32, cards[i].at64, cards[i].at256};

        for (size_t a = 0; a < ARRAY_SIZE(aligns); a++) {
            snprintf(text, sizeof(text),
                     HEAD ".entry k(.param .align %u .b8 a[8], .param .u8 b,"
                          " .param .align %u .b8 c[8]) { ret; }\n",
                     aligns[a], aligns[a]);
            assert_string_equal(ptx_on(cards[i].sm, text), want[a]);
        }
    }
}

static void
only_real_entries_count(void **state)
{
    static const char text[] =
        HEAD "// .entry k(.param .u8 a)\n"
             "/* .entry k(.param .u8 a) */\n"
             "# 1 \".entry k(.param .u8 a)\"\n"
             ".file 1 \"/a \\\" .entry k(.param .u8 a)\"\n"
             ".section .debug_str { info: .b8 46,101,110,116,114,121 }\n"
             ".visible .func (.param .b32 r) f(.param .b8 a) { ret; }\n"
             ".extern .entry e(.param .u16 a);\n"
             ".weak .entry // name\nk /* list */ ( .param/**/.u64 a )\n"
             "{ .param .b32 x; ld.param.u64 %rd1, [a]; ret; }\n"
             ".visible .entry $q_9(.param .u32 a) { ret; }\n";
    struct kernel_params_set all = {0};

    assert_int_equal(kernel_params_ptx(text, strlen(text), 75, &all, NULL), 0);
    assert_string_equal(told(&all, "k"), "0+8");
    assert_string_equal(told(&all, "e"), "0+2");
    assert_string_equal(told(&all, "$q_9"), "0+4");
    assert_string_equal(told(&all, "f"), "none");
    assert_int_equal(all.n, 3);
    kernel_params_fini(&all);
}

static void
parameters_that_cannot_be_told_say_why(void **state)
{
    assert_string_equal(ptx("(.param .u8 a, .param .texref t)"),
                        "? a parameter of a type without a known size");
    assert_string_equal(ptx("(.param .v4 .f32 a)"),
                        "? a parameter of a type without a known size");
    assert_string_equal(ptx("(.param .b8 a[2*4])"),
                        "? a parameter list that cannot be read");
    assert_string_equal(ptx("(.param .b8 a[])"),
                        "? the length of an array is no plain number");
    assert_string_equal(ptx("(.param .align 3 .b8 a[4])"),
                        "? an alignment that is no power of two");
    assert_string_equal(ptx("(.param .align 0 .b8 a[4])"),
                        "? an alignment that is no power of two");
    assert_string_equal(ptx("(.param .b8 a[20000], .param .b8 b[20000])"),
                        "? more parameters than a launch can take");
    assert_string_equal(ptx("(.param .b64 a[30000][30000])"),
                        "? more bytes of parameters than a launch can take");
    assert_string_equal(ptx("(.param .b8 a[99999999999999999999])"),
                        "? the length of an array is no plain number");
    assert_string_equal(ptx("(.param a)"),
                        "? a parameter without a type, a name or a length");
    assert_string_equal(ptx("(.param .u32 a; .param .u32 b)"),
                        "? a parameter list that cannot be read");
}

static void
text_that_ends_anywhere_is_read_without_harm(void **state)
{
    static const char text[] =
        HEAD ".file 1 \"a\" /* c */ .entry k(.param .align 8 .b8 "
             "a[16], .param .u64 .ptr b) { ret; } // end";

    for (size_t len = 0; len < sizeof(text); len++) {
        struct kernel_params_set all = {0};
        char *exact = malloc(len ? len : 1); /* so that reading beyond is seen */
        struct gp_err err = {0};
        int r;

        assert_non_null(exact);
        memcpy(exact, text, len);
        r = kernel_params_ptx(exact, len, 75, &all, &err);
        assert_true(r == 0 || (r == -EINVAL && err.msg[0]));
        kernel_params_fini(&all);
        free(exact);
    }
}

/* --- machine code ------------------------------------------------------------------
 */

static const char *
cubin(struct ut_cubin *c, const char *name)
{
    struct kernel_params_set all = {0};
    const char *ret;

    ut_cubin_end(c);
    assert_int_equal(kernel_params_elf(c->data, c->len, &all, NULL), 0);
    ret = told(&all, name);
    kernel_params_fini(&all);
    return ret;
}

/* As the compiler writes it: the last parameter first, other records around. */
static void
make_two_kernels(struct ut_cubin *c)
{
    ut_cubin_begin(c);
    ut_cubin_section(c, ".nv.info");
    ut_cubin_value(c, 0x2f, 7);
    ut_cubin_kernel(c, "_Z1kPfi");
    ut_cubin_value(c, 0x37, 0x82);
    ut_cubin_param(c, 2, 16, 3, false);
    ut_cubin_param(c, 1, 8, 4, false);
    ut_cubin_param(c, 0, 0, 8, false);
    ut_cubin_bytes(c, 19);
    ut_cubin_value(c, 0x1b, 0xff);
    ut_cubin_kernel(c, "wide");
    ut_cubin_param(c, 0, 0, 20000, true);
    ut_cubin_param(c, 1, 20000, 8, true);
    ut_cubin_bytes(c, 20008);
    ut_cubin_kernel(c, "empty");
    ut_cubin_value(c, 0x1b, 0xff);
    ut_cubin_section(c, ".text.empty");
}

static void
records_of_machine_code_are_read(void **state)
{
    struct ut_cubin c;

    make_two_kernels(&c);
    assert_string_equal(cubin(&c, "_Z1kPfi"), "0+8 8+4 16+3");
    make_two_kernels(&c);
    assert_string_equal(cubin(&c, "wide"), "0+20000 20000+8");
    make_two_kernels(&c);
    assert_string_equal(cubin(&c, "empty"), "");
    make_two_kernels(&c);
    assert_string_equal(cubin(&c, "text.empty"), "none");
}

static void
records_that_contradict_each_other_tell_nothing(void **state)
{
    static const struct {
        unsigned ordinal[2], offset[2], size[2], bytes;
        const char *why;
    } cases[] = {
        {{0, 2}, {0, 8}, {8, 8}, 16, "? the records leave a parameter out"},
        {{0, 0}, {0, 8}, {8, 8}, 16, "? one parameter is told twice"},
        {{0, 1}, {0, 4}, {8, 8}, 16, "? parameters overlap"},
        {{1, 0}, {0, 8}, {8, 8}, 16, "? parameters overlap"},
        {{0, 1},
         {0, 8},
         {8, 8},
         12,
         "? the records tell more bytes than the kernel takes"},
        {{0, 5000}, {0, 8}, {8, 8}, 16, "? more parameters than a launch can take"},
        {{0, 1},
         {0, 32760},
         {8, 8},
         65535,
         "? more bytes of parameters than a launch can take"},
    };
    struct ut_cubin c;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ut_cubin_begin(&c);
        ut_cubin_kernel(&c, "k");
        for (unsigned p = 0; p < 2; p++)
            ut_cubin_param(&c, cases[i].ordinal[p], cases[i].offset[p],
                           cases[i].size[p], false);
        ut_cubin_bytes(&c, cases[i].bytes);
        assert_string_equal(cubin(&c, "k"), cases[i].why);
    }
    ut_cubin_begin(&c);
    ut_cubin_kernel(&c, "k");
    ut_cubin_bytes(&c, 16);
    assert_string_equal(cubin(&c, "k"),
                        "? its machine code does not tell its parameters");
}

/* What one kernel's records leave behind must not be another's. */
static void
a_bad_kernel_does_not_spoil_the_next(void **state)
{
    struct ut_cubin c;

    ut_cubin_begin(&c);
    ut_cubin_kernel(&c, "bad");
    ut_cubin_param(&c, 3, 0, 8, false);
    ut_cubin_bytes(&c, 8);
    ut_cubin_kernel(&c, "good");
    ut_cubin_param(&c, 1, 8, 8, false);
    ut_cubin_bytes(&c, 16);
    assert_string_equal(cubin(&c, "good"), "? the records leave a parameter out");
    ut_cubin_begin(&c);
    ut_cubin_kernel(&c, "bad");
    ut_cubin_param(&c, 0, 0, 8, false);
    ut_cubin_param(&c, 0, 0, 8, false);
    ut_cubin_kernel(&c, "good");
    ut_cubin_param(&c, 0, 0, 4, false);
    ut_cubin_bytes(&c, 4);
    assert_string_equal(cubin(&c, "good"), "0+4");
}

static void
more_sections_than_the_header_counts_are_found(void **state)
{
    struct kernel_params_set all = {0};
    struct ut_cubin c;
    Elf64_Shdr first;
    Elf64_Ehdr eh;

    make_two_kernels(&c);
    ut_cubin_end(&c);
    memcpy(&eh, c.data, sizeof(eh));
    memcpy(&first, c.data + eh.e_shoff, sizeof(first));
    first.sh_size = eh.e_shnum;
    first.sh_link = eh.e_shstrndx;
    eh.e_shnum = 0;
    eh.e_shstrndx = SHN_XINDEX;
    memcpy(c.data, &eh, sizeof(eh));
    memcpy(c.data + eh.e_shoff, &first, sizeof(first));
    assert_int_equal(kernel_params_elf(c.data, c.len, &all, NULL), 0);
    assert_string_equal(told(&all, "_Z1kPfi"), "0+8 8+4 16+3");
    kernel_params_fini(&all);
}

/* Whatever one byte says, nothing outside is read, and what is told fits a launch. */
static void
check_harmless(const uint8_t *bytes, size_t len)
{
    struct kernel_params_set all = {0};
    struct gp_err err = {0};
    uint8_t *exact = malloc(len ? len : 1);
    int r;

    assert_non_null(exact);
    memcpy(exact, bytes, len);
    r = kernel_params_elf(exact, len, &all, &err);
    assert_true(r == 0 || err.msg[0]);
    for (size_t i = 0; i < all.n; i++)
        assert_true(all.all[i]->param_bytes <= KERNEL_PARAMS_BYTES_MAX);
    kernel_params_fini(&all);
    free(exact);
}

static void
machine_code_that_ends_or_lies_anywhere_is_read_without_harm(void **state)
{
    struct ut_cubin c;

    make_two_kernels(&c);
    ut_cubin_end(&c);
    for (size_t len = 0; len < c.len; len++)
        check_harmless(c.data, len);
    for (size_t i = 0; i < c.len; i++) {
        uint8_t was = c.data[i];

        for (unsigned v = 0; v < 4; v++) {
            c.data[i] = (uint8_t[]){0, 0xff, was ^ 0x80, was + 1}[v];
            check_harmless(c.data, c.len);
        }
        c.data[i] = was;
    }
}

/* --- fat binaries ------------------------------------------------------------------
 */

static void
fat_text(struct fat *fat, unsigned sm, unsigned flags, const char *params)
{
    char text[400];
    int n = snprintf(text, sizeof(text), HEAD ".entry k(%s) { ret; }\n", params);

    fat_add(fat, GP_FATBIN_PTX, sm, flags, text, (size_t)n);
}

/* A kernel "k" whose one parameter has @bytes. */
static void
fat_code(struct fat *fat, unsigned sm, unsigned flags, unsigned bytes)
{
    struct ut_cubin c;

    ut_cubin_begin(&c);
    ut_cubin_kernel(&c, "k");
    ut_cubin_param(&c, 0, 0, bytes, false);
    ut_cubin_bytes(&c, bytes);
    ut_cubin_end(&c);
    fat_add(fat, GP_FATBIN_ELF, sm, flags, c.data, c.len);
}

static const char *
fat_on(const struct fat *fat, unsigned sm)
{
    static char text[600];
    struct kernel_params_set all = {0};
    struct gp_err err = {0};
    int r = kernel_params_image(fat->data, fat->len, sm, &all, &err);

    if (r < 0)
        snprintf(text, sizeof(text), "%d: %s", r, err.msg);
    else
        snprintf(text, sizeof(text), "%s", told(&all, "k"));
    kernel_params_fini(&all);
    return text;
}

static void
entries_of_every_packing_are_read(void **state)
{
    static const unsigned packings[] = {0, FLAG_LZ4, FLAG_ZSTD};
    struct fat fat;

    for (size_t i = 0; i < ARRAY_SIZE(packings); i++) {
        fat_begin(&fat);
        fat_text(&fat, 75, packings[i], ".param .u64 a");
        fat_end(&fat);
        assert_string_equal(fat_on(&fat, 75), "0+8");
        fat_begin(&fat);
        fat_code(&fat, 75, packings[i], 12);
        fat_end(&fat);
        assert_string_equal(fat_on(&fat, 75), "0+12");
    }
}

/* The entries tell different things here so that the choice can be seen. */
static void
the_cards_own_entry_is_read(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_text(&fat, 70, FLAG_ZSTD, ".param .u8 a");
    fat_code(&fat, 80, FLAG_ZSTD, 2);
    fat_code(&fat, 86, 0, 4);
    fat_code(&fat, 90, FLAG_ARCH, 8);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 80), "0+2");
    assert_string_equal(fat_on(&fat, 86), "0+4");
    assert_string_equal(fat_on(&fat, 89), "0+4");
    assert_string_equal(fat_on(&fat, 90), "0+8");
    assert_string_equal(fat_on(&fat, 75), "0+1");
    assert_string_equal(fat_on(&fat, 100), "0+1");
}

static void
without_an_entry_for_the_card_all_are_read_and_must_agree(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_code(&fat, 80, 0, 4);
    fat_code(&fat, 90, FLAG_ARCH, 4);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 75), "0+4");
    fat_begin(&fat);
    fat_code(&fat, 80, 0, 4);
    fat_code(&fat, 90, FLAG_ARCH, 8);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 75), "? the image tells two kinds of parameters");
}

static void
an_entry_that_cannot_be_read_leaves_the_others(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_ELF, 75, FLAG_ZSTD, "12345678", 8, 800);
    fat_text(&fat, 70, FLAG_LZ4, ".param .u64 a");
    fat_end(&fat);
    /* the reason is kept, in case that a kernel is missing */
    assert_string_equal(fat_on(&fat, 75), "-22: broken zstd data in a fat binary");
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_LTO, 75, 0, "12345678", 8, 8);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 75), "none");
}

static void
bombs_are_refused(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_ELF, 75, FLAG_ZSTD, "12345678", 8, 1u << 29);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 75),
                        "-7: entry of 8 bytes claims to unpack to 536870912 (zstd)");
    fat_begin(&fat);
    for (unsigned i = 0; i < 5; i++)
        fat_entry(&fat, GP_FATBIN_ELF, 75, FLAG_ZSTD, "12345678", 8, 1u << 30);
    fat_end(&fat);
    assert_string_equal(fat_on(&fat, 75),
                        "-7: a fat binary claims to unpack to more than 4096 MiB");
}

/* --- the table ---------------------------------------------------------------------
 */

static void
a_kernel_that_comes_twice_must_tell_the_same(void **state)
{
    static const struct kernel_param four = {0, 4}, eight = {0, 8};
    struct kernel_params_set all = {0};

    assert_int_equal(kernel_params_add(&all, "same", 4, &four, 1, NULL, NULL), 0);
    assert_int_equal(kernel_params_add(&all, "other", 5, &four, 1, NULL, NULL), 0);
    assert_int_equal(kernel_params_add(&all, "bad", 3, NULL, 0, "no reason", NULL), 0);
    assert_int_equal(kernel_params_add(&all, "same", 4, &four, 1, NULL, NULL), 0);
    assert_int_equal(kernel_params_add(&all, "other", 5, &eight, 1, NULL, NULL), 0);
    assert_int_equal(kernel_params_add(&all, "bad", 3, &eight, 1, NULL, NULL), 0);
    assert_string_equal(told(&all, "same"), "0+4");
    assert_string_equal(told(&all, "other"),
                        "? the image tells two kinds of parameters");
    assert_string_equal(told(&all, "bad"), "0+8");
    assert_string_equal(told(&all, "sam"), "none");
    assert_int_equal(all.n, 3);
    kernel_params_fini(&all);
}

static void
kernels_of_one_image_are_counted(void **state)
{
    struct kernel_params_set all = {0};
    struct gp_err err = {0};
    char name[16];

    for (unsigned i = 0; i < KERNEL_PARAMS_KERNELS_MAX; i++) {
        int n = snprintf(name, sizeof(name), "k%u", i);

        assert_int_equal(kernel_params_add(&all, name, (size_t)n, NULL, 0, NULL, NULL),
                         0);
    }
    assert_int_equal(kernel_params_add(&all, "k", 1, NULL, 0, NULL, &err), -E2BIG);
    assert_string_equal(err.msg, "more than 262144 kernels in one image");
    assert_string_equal(told(&all, "k262143"), "");
    kernel_params_fini(&all);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_parameter_of_a_text_lies_at_its_own_alignment),
        cmocka_unit_test(what_a_pointer_points_to_does_not_move_it),
        cmocka_unit_test(kernels_without_parameters_have_none),
        cmocka_unit_test(
            wide_alignment_is_counted_from_where_the_card_has_its_constants),
        cmocka_unit_test(only_real_entries_count),
        cmocka_unit_test(parameters_that_cannot_be_told_say_why),
        cmocka_unit_test(text_that_ends_anywhere_is_read_without_harm),
        cmocka_unit_test(records_of_machine_code_are_read),
        cmocka_unit_test(records_that_contradict_each_other_tell_nothing),
        cmocka_unit_test(a_bad_kernel_does_not_spoil_the_next),
        cmocka_unit_test(more_sections_than_the_header_counts_are_found),
        cmocka_unit_test(machine_code_that_ends_or_lies_anywhere_is_read_without_harm),
        cmocka_unit_test(entries_of_every_packing_are_read),
        cmocka_unit_test(the_cards_own_entry_is_read),
        cmocka_unit_test(without_an_entry_for_the_card_all_are_read_and_must_agree),
        cmocka_unit_test(an_entry_that_cannot_be_read_leaves_the_others),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(a_kernel_that_comes_twice_must_tell_the_same),
        cmocka_unit_test(kernels_of_one_image_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
