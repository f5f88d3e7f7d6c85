/* SPDX-License-Identifier: Apache-2.0 */
/* Images: where they end, which PTX suits a card, what broken ones get. */
#include "ut_fat.h"
#include "ut_ptx.h"

#include "gp_image.h"
#include "sg_image.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

/* PTX whose only kernel names the architecture it came from. */
static size_t
ptx_for(char *text, size_t size, const char *target)
{
    return (size_t)snprintf(text, size,
                            ".version 9.0\n.target sm_%s\n.address_size 64\n"
                            ".visible .entry k_%s() { ret; }\n",
                            target, target);
}

static void
fat_ptx(struct fat *fat, unsigned sm, unsigned flags, const char *target)
{
    char text[300];

    fat_add(fat, GP_FATBIN_PTX, sm, flags, text, ptx_for(text, sizeof(text), target));
}

static void
fat_elf(struct fat *fat, unsigned sm)
{
    fat_entry(fat, GP_FATBIN_ELF, sm, 0,
              "\x7f"
              "ELF....",
              8, 8);
}

static void
check_choice(const struct fat *fat, unsigned sm, const char *kernel)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    int r = sg_image_parse(fat->data, fat->len, sm, &mod, &err);

    if (r < 0)
        print_error("sm_%u: %s\n", sm, err.msg);
    assert_int_equal(r, 0);
    if (!ptx_module_func(mod, kernel))
        print_error("sm_%u: not %s\n", sm, kernel);
    assert_non_null(ptx_module_func(mod, kernel));
    ptx_module_free(mod);
}

static void
check_refused(const void *data, size_t len, unsigned sm, int code, const char *words)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    int r = sg_image_parse(data, len, sm, &mod, &err);

    if (!strstr(err.msg, words))
        print_error("got: %s\nwanted: %s\n", err.msg, words);
    assert_non_null(strstr(err.msg, words));
    assert_int_equal(r, code);
    assert_null(mod);
}

static void
highest_ptx_that_fits_is_chosen(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_elf(&fat, 86);
    fat_ptx(&fat, 75, FLAG_ZSTD, "75");
    fat_ptx(&fat, 90, 0, "90");
    fat_ptx(&fat, 80, FLAG_LZ4, "80");
    fat_end(&fat);
    check_choice(&fat, 75, "k_75");
    check_choice(&fat, 79, "k_75");
    check_choice(&fat, 86, "k_80");
    check_choice(&fat, 90, "k_90");
    check_choice(&fat, 120, "k_90");
    check_refused(
        fat.data, fat.len, 70, -ENOEXEC,
        "has PTX for compute_75, compute_90, compute_80, but this card is sm_70");
}

static void
architecture_and_family_specific_ptx_must_match(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_ptx(&fat, 90, FLAG_ARCH, "90a");
    fat_ptx(&fat, 100, FLAG_FAMILY, "100f");
    fat_ptx(&fat, 70, 0, "70");
    fat_end(&fat);
    check_choice(&fat, 90, "k_90a");
    check_choice(&fat, 86, "k_70");
    check_choice(&fat, 100, "k_100f");
    check_choice(&fat, 103, "k_100f");
    check_choice(&fat, 120, "k_70");
}

static void
plain_ptx_is_preferred_to_specific_of_the_same_level(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_ptx(&fat, 90, FLAG_ARCH, "90a");
    fat_ptx(&fat, 90, 0, "90");
    fat_end(&fat);
    check_choice(&fat, 90, "k_90");
}

static void
machine_code_only_says_what_to_do(void **state)
{
    Elf64_Ehdr elf = {.e_ident = "\x7f"
                                 "ELF\2\1\1\x41\x08",
                      .e_flags = 120u << 8};
    struct fat fat;

    fat_begin(&fat);
    fat_elf(&fat, 75);
    fat_elf(&fat, 86);
    fat_end(&fat);
    check_refused(
        fat.data, fat.len, 86, -ENOEXEC,
        "holds only machine code for sm_75, sm_86 and a software GPU runs PTX: "
        "recompile with -gencode arch=compute_86,code=compute_86");
    check_refused(fat.data, fat.len, 86, -ENOEXEC, "--keep-ptx");
    check_refused(fat.data, fat.len, 86, -ENOEXEC, "uninstall nvjitlink");
    check_refused(&elf, sizeof(elf), 86, -ENOEXEC, "only machine code for sm_120 and");
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_LTO, 75, 0, "12345678", 8, 8);
    fat_end(&fat);
    check_refused(fat.data, fat.len, 86, -ENOEXEC, "holds only LTO code");
}

static void
text_for_a_newer_card_is_refused(void **state)
{
    char text[300];
    size_t n = ptx_for(text, sizeof(text), "90");

    check_refused(text, n, 86, -ENOEXEC,
                  "has PTX for compute_90, but this card is sm_86");
    n = ptx_for(text, sizeof(text), "80a");
    check_refused(text, n, 86, -ENOEXEC, "compute_80a");
}

static void
padded_text_in_an_entry_ends_at_its_nul(void **state)
{
    char text[304] = {0};
    struct fat fat;
    size_t len;
    char *ptx;

    ptx_for(text, sizeof(text), "75");
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_PTX, 75, 0, text, sizeof(text), sizeof(text));
    fat_end(&fat);
    assert_int_equal(sg_image_ptx(fat.data, fat.len, 86, &ptx, &len, NULL), 0);
    assert_int_equal(len, strlen(text));
    assert_string_equal(ptx, text);
    free(ptx);
}

static void
bombs_and_lies_are_refused(void **state)
{
    struct fat fat;

    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_PTX, 75, FLAG_ZSTD, "12345678", 8, 1u << 29);
    fat_end(&fat);
    check_refused(fat.data, fat.len, 86, -E2BIG,
                  "8 bytes claims to unpack to 536870912");
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_PTX, 75, FLAG_LZ4, "\xff\xff\xff\xff\xff\xff\xff\xff", 8,
              800);
    fat_end(&fat);
    check_refused(fat.data, fat.len, 86, -EINVAL, "broken LZ4 data");
    fat_begin(&fat);
    fat_entry(&fat, GP_FATBIN_PTX, 75, FLAG_ZSTD, "12345678", 8, 800);
    fat_end(&fat);
    check_refused(fat.data, fat.len, 86, -EINVAL, "broken zstd data");
    fat.data[8] = 0xff; /* the header claims more than there is */
    check_refused(fat.data, fat.len, 86, -E2BIG, "fat binary claims");
}

static void
unpacked_size_must_be_what_was_claimed(void **state)
{
    char text[300], packed[600];
    size_t n = ptx_for(text, sizeof(text), "75");
    size_t len = ZSTD_compress(packed, sizeof(packed), text, n, 3);
    struct fat fat;

    for (int d = -1; d <= 1; d += 2) {
        fat_begin(&fat);
        fat_entry(&fat, GP_FATBIN_PTX, 75, FLAG_ZSTD, packed, len, n + (size_t)d);
        fat_end(&fat);
        check_refused(fat.data, fat.len, 86, -EINVAL, "broken zstd data");
    }
}

/* Cut or flipped anywhere: an answer, never a read beyond (the sanitizer's
 * business: the copy has exactly that size). */
static void
broken_fat_binaries_are_survived(void **state)
{
    struct ptx_module *mod;
    struct fat fat;

    fat_begin(&fat);
    fat_elf(&fat, 86);
    fat_ptx(&fat, 75, FLAG_ZSTD, "75");
    fat_ptx(&fat, 80, FLAG_LZ4, "80");
    fat_end(&fat);
    for (size_t n = 0; n < fat.len; n++) {
        uint8_t *copy = malloc(n ? n : 1);

        memcpy(copy, fat.data, n);
        mod = NULL;
        assert_true(sg_image_parse(copy, n, 86, &mod, NULL) < 0);
        assert_null(mod);
        free(copy);
    }
    for (size_t at = 0; at < fat.len; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            mod = NULL;
            fat.data[at] ^= (uint8_t)(1u << bit);
            if (sg_image_parse(fat.data, fat.len, 86, &mod, NULL) == 0)
                ptx_module_free(mod);
            fat.data[at] ^= (uint8_t)(1u << bit);
        }
    }
}

static void
kinds_are_recognised_and_measured(void **state)
{
    struct gp_image image;
    struct fat fat;

    fat_begin(&fat);
    fat_ptx(&fat, 75, 0, "75");
    fat_end(&fat);
    assert_int_equal(gp_image_measure(fat.data, sizeof(fat.data), &image, NULL), 0);
    assert_int_equal(image.kind, GP_IMAGE_FATBIN);
    assert_int_equal(image.len, fat.len);
    assert_int_equal(gp_image_measure(fat.data, GP_IMAGE_UNBOUNDED, &image, NULL), 0);
    assert_int_equal(image.len, fat.len);
    assert_int_equal(gp_image_measure(fat.data, fat.len - 1, &image, NULL), -E2BIG);
    assert_int_equal(gp_image_measure(" .version", GP_IMAGE_UNBOUNDED, &image, NULL),
                     0);
    assert_int_equal(image.kind, GP_IMAGE_PTX);
    assert_int_equal(image.len, 9);
    assert_int_equal(gp_image_measure("//", 2, &image, NULL), 0);
    assert_int_equal(image.len, 2);
    assert_int_equal(gp_image_measure("", GP_IMAGE_UNBOUNDED, &image, NULL), -EINVAL);
    assert_int_equal(gp_image_measure("\x7f", GP_IMAGE_UNBOUNDED, &image, NULL),
                     -EINVAL);
    assert_int_equal(gp_image_measure("\xb1", 2, &image, NULL), -EINVAL);
    assert_int_equal(gp_image_measure("BC\xc0\xde", 4, &image, NULL), -EINVAL);
    assert_int_equal(gp_image_measure(NULL, 4, &image, NULL), -EINVAL);
}

static void
elf_ends_where_its_last_part_ends(void **state)
{
    struct {
        Elf64_Ehdr head;
        uint8_t body[100];
        Elf64_Shdr sections[3];
        uint8_t tail[64];
    } elf = {.head = {.e_ident = "\x7f"
                                 "ELF\2\1",
                      .e_shnum = 3,
                      .e_shentsize = sizeof(Elf64_Shdr)}};
    struct gp_image image;
    size_t end_of_table;

    elf.head.e_shoff = (uint64_t)((uint8_t *)elf.sections - (uint8_t *)&elf);
    end_of_table = elf.head.e_shoff + sizeof(elf.sections);
    elf.sections[1] =
        (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 90};
    elf.sections[2] =
        (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_offset = 64, .sh_size = 1 << 20};
    assert_int_equal(gp_image_measure(&elf, sizeof(elf), &image, NULL), 0);
    assert_int_equal(image.kind, GP_IMAGE_ELF);
    assert_int_equal(image.len, end_of_table);
    for (unsigned type = 0x70000007; type <= 0x7000000a; type++) { /* still to link */
        elf.sections[2].sh_type = type;
        assert_int_equal(gp_image_measure(&elf, sizeof(elf), &image, NULL),
                         type == 0x70000007 || type == 0x7000000a ? 0 : -E2BIG);
        assert_int_equal(image.len, end_of_table);
    }
    elf.sections[2].sh_type = SHT_NOBITS;
    elf.sections[1].sh_size = 60 + end_of_table - 64;
    assert_int_equal(gp_image_measure(&elf, GP_IMAGE_UNBOUNDED, &image, NULL), 0);
    assert_int_equal(image.len, end_of_table + 60);
    assert_int_equal(gp_image_measure(&elf, end_of_table + 59, &image, NULL), -E2BIG);
    elf.sections[1].sh_offset = UINT64_MAX;
    assert_int_equal(gp_image_measure(&elf, GP_IMAGE_UNBOUNDED, &image, NULL), -E2BIG);
    elf.sections[1].sh_offset = 0;
    elf.head.e_shnum = 0; /* the number is in section 0 */
    elf.sections[0].sh_size = 3;
    assert_int_equal(gp_image_measure(&elf, sizeof(elf), &image, NULL), 0);
    elf.sections[0].sh_size = UINT64_MAX / 8;
    assert_int_equal(gp_image_measure(&elf, sizeof(elf), &image, NULL), -E2BIG);
    elf.head.e_shoff = UINT64_MAX - 8;
    assert_int_equal(gp_image_measure(&elf, GP_IMAGE_UNBOUNDED, &image, NULL), -E2BIG);
    elf.head.e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(gp_image_measure(&elf, sizeof(elf), &image, NULL), -EINVAL);
}

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *const *parts;
};

static void
wrapper_is_followed_in_our_own_memory_only(void **state)
{
    char text[300];
    struct wrapper wrapper = {GP_IMAGE_WRAPPER_MAGIC, 1, text, NULL};
    struct gp_image_wrapper found;
    struct ptx_module *mod = NULL;

    ptx_for(text, sizeof(text), "75");
    assert_int_equal(sg_image_parse(&wrapper, GP_IMAGE_UNBOUNDED, 86, &mod, NULL), 0);
    assert_non_null(ptx_module_func(mod, "k_75"));
    ptx_module_free(mod);
    check_refused(&wrapper, sizeof(wrapper), 86, -EINVAL, "a wrapper of pointers");
    assert_int_equal(gp_image_unwrap(&wrapper, &found, NULL), 0);
    assert_ptr_equal(found.image.data, text);
    assert_int_equal(found.n_parts, 0);
    wrapper.version = 3;
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -EINVAL, "unknown version 3");
    wrapper.version = 1;
    wrapper.data = NULL;
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -EINVAL, "in a wrapper: no image");
    wrapper.data = &wrapper;
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -EINVAL, "a wrapper in a wrapper");
}

static void
units_of_a_device_link_are_linked(void **state)
{
    static const char one[] =
        PTX_HEAD ".extern .func (.param .b32 r) f(.param .b32 a);\n"
                 ".visible .entry k() { .param .b32 x; call (x), f, (x);"
                 " }";
    static const char two[] =
        PTX_HEAD ".visible .func (.param .b32 r) f(.param .b32 a) { ret; "
                 "}";
    const void *parts[] = {one, two, NULL};
    struct wrapper wrapper = {GP_IMAGE_WRAPPER_MAGIC, 2, one, parts};
    struct ptx_module *mod = NULL;

    assert_int_equal(sg_image_parse(&wrapper, GP_IMAGE_UNBOUNDED, 86, &mod, NULL), 0);
    assert_ptr_equal(ut_insn(mod, 0)->opds[1].func, ptx_module_func(mod, "f"));
    assert_true(ptx_module_func(mod, "f")->has_body);
    ptx_module_free(mod);
    parts[1] = "not PTX";
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -EINVAL, "unit 1 of a device link");
}

static void
units_without_ptx_for_the_card_are_left_out(void **state)
{
    static const char one[] = PTX_HEAD ".visible .entry k() { ret; }";
    static const char needs[] = PTX_HEAD ".extern .func f();\n"
                                         ".visible .entry k() { call f; }";
    static const char newer[] = ".version 9.0\n.target sm_121\n.address_size 64\n"
                                ".visible .func f() { ret; }";
    const void *parts[] = {one, newer, NULL};
    struct wrapper wrapper = {GP_IMAGE_WRAPPER_MAGIC, 2, one, parts};
    struct ptx_module *mod = NULL;

    assert_int_equal(sg_image_parse(&wrapper, GP_IMAGE_UNBOUNDED, 86, &mod, NULL), 0);
    assert_int_equal(mod->n_funcs, 1);
    ptx_module_free(mod);
    parts[0] = needs;
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -ENOEXEC,
                  "'f', which input 0 needs");
    check_refused(
        &wrapper, GP_IMAGE_UNBOUNDED, 86, -ENOEXEC,
        "unit 1 of a device link is left out: the image has PTX for compute_121");
    parts[0] = newer;
    check_refused(&wrapper, GP_IMAGE_UNBOUNDED, 86, -ENOEXEC,
                  "unit 1 of a device link");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(highest_ptx_that_fits_is_chosen),
        cmocka_unit_test(architecture_and_family_specific_ptx_must_match),
        cmocka_unit_test(plain_ptx_is_preferred_to_specific_of_the_same_level),
        cmocka_unit_test(machine_code_only_says_what_to_do),
        cmocka_unit_test(text_for_a_newer_card_is_refused),
        cmocka_unit_test(padded_text_in_an_entry_ends_at_its_nul),
        cmocka_unit_test(bombs_and_lies_are_refused),
        cmocka_unit_test(unpacked_size_must_be_what_was_claimed),
        cmocka_unit_test(broken_fat_binaries_are_survived),
        cmocka_unit_test(kinds_are_recognised_and_measured),
        cmocka_unit_test(elf_ends_where_its_last_part_ends),
        cmocka_unit_test(wrapper_is_followed_in_our_own_memory_only),
        cmocka_unit_test(units_of_a_device_link_are_linked),
        cmocka_unit_test(units_without_ptx_for_the_card_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
