/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of variables, read from PTX, machine code and fat binaries, good and bad. */
#include "ut_cubin.h"
#include "ut_fat.h"

#include "image_variables.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"
#define UNKNOWN UINT64_MAX

static uint64_t
ptx_of(const char *text, bool is_unit)
{
    size_t len = strlen(text);
    char *exact = malloc(len ? len : 1); /* so that reading beyond is seen */
    uint64_t ret;

    assert_non_null(exact);
    memcpy(exact, text, len);
    ret = image_variables_ptx(exact, len, is_unit);
    free(exact);
    return ret;
}

static uint64_t
ptx(const char *text)
{
    return ptx_of(text, false);
}

/* --- PTX ------------------------------------------------------------------------- */

static void
each_variable_of_a_text_has_the_size_of_its_type(void **state)
{
    assert_int_equal(ptx(HEAD), 0);
    assert_int_equal(ptx(HEAD ".global .u32 a;"), 4);
    assert_int_equal(ptx(HEAD ".visible .global .align 8 .b8 a[1048576];"), 1048576);
    assert_int_equal(ptx(HEAD ".global .b64 a[3][5];"), 120);
    assert_int_equal(ptx(HEAD ".global .v4 .f32 a[2];"), 32);
    assert_int_equal(ptx(HEAD ".const .f32 c[16]; .const[3] .b8 d[8];"), 72);
    assert_int_equal(ptx(HEAD ".weak .global .b32 a; .common .global .b8 b[12];"), 16);
    assert_int_equal(ptx(HEAD ".global .attribute(.managed) .align 4 .b8 m[40];"), 40);
    assert_int_equal(ptx(HEAD ".global .attribute(.unified(1, 2), .managed) .b64 m;"),
                     8);
    assert_int_equal(ptx(HEAD ".global .b8 a[0x10]; .global .b8 b[010];"
                              ".global .b8 c[0b11]; .global .b8 d[4U];"),
                     31);
    assert_int_equal(ptx(HEAD ".global .b32 a, b[4], c;"), 24);
    assert_int_equal(ptx(HEAD ".global .texref t;"), 64);
}

static void
variables_lie_at_their_alignment(void **state)
{
    assert_int_equal(ptx(HEAD ".global .b8 a; .global .b32 b;"), 8);
    assert_int_equal(ptx(HEAD ".global .b8 a; .global .align 256 .b8 b[2];"), 258);
    assert_int_equal(ptx(HEAD ".global .b8 a; .global .v2 .b64 b;"), 32);
}

static void
a_length_may_be_an_expression_or_follow_from_the_value(void **state)
{
    assert_int_equal(ptx(HEAD ".global .b8 a[2*4+1];"), 9);
    assert_int_equal(ptx(HEAD ".global .b8 a[1 + 2 * (3 + 4)];"), 15);
    assert_int_equal(ptx(HEAD ".global .b8 a[1 << 30];"), 1 << 30);
    assert_int_equal(ptx(HEAD ".global .b8 a[(1024 >> 2) / 3 - 5];"), 80);
    assert_int_equal(ptx(HEAD ".global .b8 a[6 & 12 | 1 ^ 8];"), 13);
    assert_int_equal(ptx(HEAD ".global .b32 a[] = {1, 2, 3};"), 12);
    assert_int_equal(ptx(HEAD ".global .b32 a[][2] = {{1, 2}, {3, 4}};"), 32);
    assert_int_equal(ptx(HEAD ".global .u64 p = generic(a)+4, q = 3;"), 16);
    assert_true(ptx(HEAD ".global .b8 a[] = \"a text\";") >= 6);
    assert_int_equal(ptx(HEAD ".global .b8 a[4] = {1, 2, 3, 4}; .global .b8 b;"), 5);
    assert_int_equal(ptx(HEAD ".global .b8 a<100>;"), 100);
}

static void
a_length_that_nobody_knows_is_more_than_any_limit(void **state)
{
    static const char *const lengths[] = {
        "n",
        "4 ? 1 : 2",
        "99999999999999999999",
        "0xffffffffffffffff",
        "4 / 0",
        "4 % 3",
        "1 - 2",
        "1 << 70",
        "9223372036854775807 + 1",
        "4611686018427387904 * 8",
        "(4",
        "1 < 2",
        "-1",
        ".u32",
        "1.5",
        "((((((((((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))))))"
        ")))",
    };
    char text[300];

    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        snprintf(text, sizeof(text), HEAD ".global .b8 a[%s];", lengths[i]);
        assert_int_equal(ptx(text), UNKNOWN);
    }
    assert_int_equal(ptx(HEAD ".global .b64 a[0x7fffffffffffffff];"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .b8 a[9223372036854775807];"
                              ".global .b8 b[9223372036854775807];"
                              ".global .b8 c[9223372036854775807];"),
                     UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .b8 a[4294967296][4294967296];"), UNKNOWN);
}

static void
only_declarations_count(void **state)
{
    assert_int_equal(ptx(HEAD ".extern .global .b8 a[]; .extern .const .b8 c[];"), 0);
    assert_int_equal(ptx(HEAD "// .global .b8 a[100];\n/* .global .b8 b[100]; */\n"
                              ".file 1 \".global .b8 c[100];\"\n"),
                     0);
    assert_int_equal(
        ptx(HEAD ".visible .entry k(.param .u64 .ptr .global .align 8 p,"
                 " .param .u64 .ptr.const q) {\n"
                 ".reg .b64 %rd<3>; .shared .b8 s[1000]; .local .b8 l[1000];\n"
                 "ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\n"
                 "@%p1 ld.global.u32 %r1, [%rd2+8];\nL: st.volatile.global.u32 [a], 1;"
                 "\natom.global.add.u32 %r2, [a], 1; ld.const.u32 %r2, [c];\n"
                 "prefetch.global.L2 [a]; ret; }\n"),
        0);
}

/* However it is written, what a driver would allocate is seen. */
static void
no_declaration_hides(void **state)
{
    assert_int_equal(ptx(".version 8.0 .target sm_75.global .b8 a[100];"), 100);
    assert_int_equal(ptx(".version 8.0 .address_size 64.global .b8 a[100];"), 100);
    assert_int_equal(ptx(".visible.global.align 4.b8 a[100];"), 100);
    assert_int_equal(ptx(".global\n#line 1\n.b8/**/a/* [1] */[ 100 ] ;"), 100);
    assert_int_equal(ptx(".extern .func f; .global .b8 a[100];"), 100);
    assert_int_equal(ptx(".entry k { .global .b8 a[100]; ret;.global .b8 b[100]; }"),
                     200);
    assert_int_equal(ptx(".global .b8 a[1] = {1}, b[100];"), 101);
    assert_int_equal(ptx(".section .debug { .b8 1 } .global .b8 a[100];"), 100);
    assert_int_equal(ptx("}}} .global .b8 a[100];"), 100);
}

/* Drivers take them in any order. */
static void
words_of_a_declaration_count_in_any_order(void **state)
{
    assert_int_equal(ptx(HEAD ".b8 .global a[100];"), 100);
    assert_int_equal(ptx(HEAD ".v8 .b128 .global a[100];"), 12800);
    assert_int_equal(ptx(HEAD ".global .b8 a; .align 65536 .global .b8 b;"), 65537);
    assert_int_equal(ptx(HEAD ".align (64) .b8 .global a; .global .align 64 .b8 b;"),
                     65);
    assert_int_equal(ptx(HEAD ".extern .global .visible .b8 a[100];"), 100);
    assert_int_equal(ptx(HEAD ".const .ptr .global .b8 a[100];"), 100);
    assert_int_equal(ptx(HEAD ".entry k { .align 8 .b8 .global a[100]; ret; }"), 100);
}

/* A name, a line of a debugger and a directive without a semicolon end where a driver
 * says. */
static void
no_declaration_hides_behind_other_words(void **state)
{
    assert_int_equal(ptx(HEAD ".global .b8%a[100];"), 100);
    assert_int_equal(ptx(HEAD ".b8 .global%a[100];"), 100);
    assert_int_equal(ptx(HEAD
                         ".entry k { .loc 1 2 3, function_name f.global .b8 a[100];"
                         " ret; }"),
                     100);
    assert_int_equal(ptx(HEAD ".entry k { .loc 1 2 3, inlined_at 1 2 3.global .b8 a[9];"
                              " L:.global .b8 b[100]; ret; }"),
                     109);
    assert_int_equal(ptx(HEAD ".entry k { .loc 1 2 3\nld.global.u32 %r1, [%rd1];"
                              ".loc 1 2 3, function_name f + 4, inlined_at 1 2 3\n"
                              "ld .global.u32 %r2, [%rd2]; ret; }"),
                     0);
    assert_int_equal(ptx(HEAD "@ .param\n.global .b8 a[100];"), 100);
    assert_int_equal(ptx(HEAD "@@DWARF .byte 1\n.global .b8 a[100];\n@@DWARF .byte 2"),
                     100);
}

/* What another reader could take for something else is not passed over. */
static void
a_declaration_that_is_not_understood_is_more_than_any_limit(void **state)
{
    assert_int_equal(ptx(HEAD ".global .align 8==8 .b8 a[100];"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .align -(-8) .b8 a[100];"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".align 1 ? 65536 : 8 .global .b8 a;"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .b8 ? a[100];"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .b8 a[4] ? [100];"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".global .b8 a, , b;"), UNKNOWN);
    assert_int_equal(ptx(HEAD "@@ \"\n.global .b8 a[100];\n@@ \"\n"), UNKNOWN);
    assert_int_equal(ptx(HEAD "@@ /*\n.global .b8 a[100];\n@@ */\n"), UNKNOWN);
    assert_int_equal(ptx(HEAD ".file 1 \"\n.global .b8 a[100];\n\""), UNKNOWN);
}

static void
what_nobody_else_defines_is_a_variable_though_external(void **state)
{
    static const char one[] = HEAD ".extern .global .b8 a[100];";
    char text[6000] = HEAD;
    size_t len = strlen(text);

    assert_int_equal(ptx(one), 100);
    assert_int_equal(ptx_of(one, true), 0);
    assert_int_equal(ptx(HEAD ".extern .global .b8 a[100]; .global .b8 a[100];"), 100);
    assert_int_equal(ptx(HEAD ".extern .global .b8 a[100], b[7], a[90];"), 107);
    assert_int_equal(ptx(HEAD ".extern .global .b8 a[100]; .global .b8 aa[10];"), 110);
    /* A function's own is another one. */
    assert_int_equal(ptx(HEAD ".extern .global .b8 a[100];"
                              ".entry k { .global .b8 a[100]; ret; }"),
                     200);
    assert_int_equal(ptx(HEAD ".entry k { .extern .global .b8 a[100]; ret; }"
                              ".global .b8 a[4];"),
                     104);
    for (unsigned i = 0; i < 100; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                ".extern .global .b8 a%u[100];", i);
    assert_int_equal(ptx(text), 10000);
}

static void
text_that_ends_anywhere_is_read_without_harm(void **state)
{
    static const char text[] =
        ".const[2] .attribute(.managed(4)) .align (8) .v2 .b8 a[2*(3+4)]<5> = "
        "{{1,2},{3}, f(4)}, b[] = \"text\" ; .entry k { .global .b8 c[1<<4]; }";

    for (size_t len = 0; len <= strlen(text); len++) {
        char *cut = strndup(text, len);

        assert_non_null(cut);
        ptx(cut);
        free(cut);
    }
}

/* --- machine code ------------------------------------------------------------------
 */

struct part {
    const char *name;
    uint64_t flags;
    uint64_t bytes;
};

/* Sections that have no bytes in the image. */
static uint64_t
cubin(const struct part *parts, unsigned n)
{
    struct ut_cubin c;
    uint64_t table;

    ut_cubin_begin(&c);
    for (unsigned i = 0; i < n; i++)
        ut_cubin_section(&c, parts[i].name);
    ut_cubin_end(&c);
    table = c.len - c.n * sizeof(Elf64_Shdr);
    for (unsigned i = 0; i < n; i++) {
        Elf64_Shdr sh;

        memcpy(&sh, c.data + table + (i + 1) * sizeof(sh), sizeof(sh));
        sh.sh_type = SHT_NOBITS;
        sh.sh_flags = parts[i].flags;
        sh.sh_size = parts[i].bytes;
        memcpy(c.data + table + (i + 1) * sizeof(sh), &sh, sizeof(sh));
    }
    assert_int_equal(image_variables(c.data, c.len, 86, false),
                     image_variables_elf(c.data, c.len));
    return image_variables_elf(c.data, c.len);
}

#define WA (SHF_WRITE | SHF_ALLOC)

/* The names and flags are those that ptxas 13.0 writes. */
static void
sections_of_variables_are_counted(void **state)
{
    static const struct part usual[] = {
        {".nv.info", 0, 100},
        {".nv.constant4", SHF_ALLOC, 40},
        {".nv.constant3", SHF_ALLOC, 4096},
        {".nv.constant0.kernel", SHF_ALLOC | SHF_INFO_LINK, 360},
        {".text.kernel", SHF_ALLOC | SHF_EXECINSTR, 1 << 20},
        {".nv.global.init", WA, 4000},
        {".nv.shared.kernel", WA | SHF_INFO_LINK, 1024},
        {".nv.shared.reserved.0", WA, 1024},
        {".nv.merc.nv.global.init", WA | 0x10000000, 4000},
        {".nv.global", WA, 1 << 30},
    };

    assert_int_equal(cubin(usual, ARRAY_SIZE(usual)),
                     40 + 4096 + 4000 + (UINT64_C(1) << 30));
}

static void
what_no_kernel_can_have_is_counted_under_any_name(void **state)
{
    static const struct part one[] = {{".nv.shared.kernel", WA, 4 << 20}};
    static const struct part two[] = {{".nv.constant3.kernel", SHF_ALLOC, 4 << 20}};
    static const struct part three[] = {{"", WA, 100}, {".bss", WA, 50}};
    static const struct part four[] = {{".nv.global", WA, UINT64_MAX - 10},
                                       {".nv.global.x", WA, 100}};

    assert_int_equal(cubin(one, 1), 4 << 20);
    assert_int_equal(cubin(two, 1), 4 << 20);
    assert_int_equal(cubin(three, 2), 150);
    assert_int_equal(cubin(four, 2), UNKNOWN);
}

static void
machine_code_that_ends_or_lies_anywhere_is_read_without_harm(void **state)
{
    struct ut_cubin c;

    ut_cubin_begin(&c);
    ut_cubin_section(&c, ".nv.global");
    ut_cubin_end(&c);
    for (size_t len = 0; len < c.len; len++) {
        uint8_t *exact = malloc(len ? len : 1);

        assert_non_null(exact);
        memcpy(exact, c.data, len);
        image_variables_elf(exact, len);
        free(exact);
    }
    for (size_t i = 0; i < c.len; i++) {
        uint8_t was = c.data[i];

        for (unsigned v = 0; v < 4; v++) {
            c.data[i] = (uint8_t[]){0, 0xff, was ^ 0x80, was + 1}[v];
            image_variables_elf(c.data, c.len);
        }
        c.data[i] = was;
    }
}

/* --- fat binaries ------------------------------------------------------------------
 */

static void
fat_text(struct fat *fat, unsigned sm, unsigned flags, unsigned bytes)
{
    char text[200];
    int n = snprintf(text, sizeof(text), HEAD ".global .b8 a[%u];\n", bytes);

    fat_add(fat, GP_FATBIN_PTX, sm, flags, text, (size_t)n);
}

static uint64_t
fat_on(struct fat *fat, unsigned sm)
{
    fat_end(fat);
    return image_variables(fat->data, fat->len, sm, false);
}

static void
the_largest_part_for_the_card_counts(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_text(&fat, 75, FLAG_ZSTD, 100);
    fat_text(&fat, 80, FLAG_LZ4, 300);
    fat_text(&fat, 90, 0, 1000);
    fat_text(&fat, 75, FLAG_ARCH, 2000);
    assert_int_equal(fat_on(&fat, 86), 300);
    assert_int_equal(fat_on(&fat, 80), 300);
    assert_int_equal(fat_on(&fat, 100), 1000);
    assert_int_equal(fat_on(&fat, 75), 2000);
    assert_int_equal(fat_on(&fat, 70), 0);
}

/* A driver loads all of them together. */
static void
parts_for_one_target_are_a_sum(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_text(&fat, 80, 0, 100);
    fat_text(&fat, 75, 0, 50);
    fat_text(&fat, 80, FLAG_ZSTD, 200);
    assert_int_equal(fat_on(&fat, 86), 300);
}

static void
machine_code_in_a_fat_binary_is_read(void **state)
{
    struct ut_cubin c;
    struct fat fat;

    ut_cubin_begin(&c);
    ut_cubin_section(&c, ".nv.global.init");
    ut_cubin_put(&c, "12345678", 8);
    ut_cubin_end(&c);
    c.data[c.len - 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_flags)] = WA;
    fat_begin(&fat);
    fat_text(&fat, 75, 0, 5);
    fat_add(&fat, GP_FATBIN_ELF, 86, FLAG_ZSTD, c.data, c.len);
    assert_int_equal(fat_on(&fat, 86), 8);
    assert_int_equal(fat_on(&fat, 75), 5);
}

static void
a_part_that_claims_too_much_is_more_than_any_limit(void **state)
{
    static const char zeros[8];
    struct fat fat;

    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_ELF, 86, FLAG_ZSTD, zeros, sizeof(zeros), 100000);
    assert_int_equal(fat_on(&fat, 86), UNKNOWN);
    assert_int_equal(fat_on(&fat, 75), 0);
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_ELF, 86, FLAG_ZSTD, zeros, sizeof(zeros), 100);
    assert_int_equal(fat_on(&fat, 86), 0); /* no driver can read it */
}

static void
what_is_no_image_has_none(void **state)
{
    assert_int_equal(image_variables("?", 1, 86, false), 0);
    assert_int_equal(
        image_variables("\xb1\x43\x62\x46 and 20 bytes more...", 24, 86, false), 0);
    assert_int_equal(image_variables(".global .b8 a[3];", 17, 86, false), 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_variable_of_a_text_has_the_size_of_its_type),
        cmocka_unit_test(variables_lie_at_their_alignment),
        cmocka_unit_test(a_length_may_be_an_expression_or_follow_from_the_value),
        cmocka_unit_test(a_length_that_nobody_knows_is_more_than_any_limit),
        cmocka_unit_test(only_declarations_count),
        cmocka_unit_test(no_declaration_hides),
        cmocka_unit_test(words_of_a_declaration_count_in_any_order),
        cmocka_unit_test(no_declaration_hides_behind_other_words),
        cmocka_unit_test(a_declaration_that_is_not_understood_is_more_than_any_limit),
        cmocka_unit_test(what_nobody_else_defines_is_a_variable_though_external),
        cmocka_unit_test(text_that_ends_anywhere_is_read_without_harm),
        cmocka_unit_test(sections_of_variables_are_counted),
        cmocka_unit_test(what_no_kernel_can_have_is_counted_under_any_name),
        cmocka_unit_test(machine_code_that_ends_or_lies_anywhere_is_read_without_harm),
        cmocka_unit_test(the_largest_part_for_the_card_counts),
        cmocka_unit_test(parts_for_one_target_are_a_sum),
        cmocka_unit_test(machine_code_in_a_fat_binary_is_read),
        cmocka_unit_test(a_part_that_claims_too_much_is_more_than_any_limit),
        cmocka_unit_test(what_is_no_image_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
