/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them. */
#include "ut.h"

#include "gp_size.h"

#include <errno.h>

static void
assert_size(const char *text, uint64_t want)
{
    uint64_t got = 0;

    if (gp_size_parse(text, &got) != 0 || got != want)
        fail_msg("%s is %llu, not %llu", text, (unsigned long long)got,
                 (unsigned long long)want);
}

static void
units_are_powers_of_1024(void **state)
{
    assert_size("0", 0);
    assert_size("17", 17);
    assert_size("17B", 17);
    assert_size("1K", 1024);
    assert_size("512MiB", UINT64_C(512) << 20);
    assert_size("4G", UINT64_C(4) << 30);
    assert_size("4GB", UINT64_C(4) << 30);
    assert_size("4 gib", UINT64_C(4) << 30);
    assert_size("1.5GiB", UINT64_C(3) << 29);
    assert_size("0.25T", UINT64_C(1) << 38);
    assert_size("9223372036854775807", INT64_MAX);
}

static void
what_is_no_size_is_refused(void **state)
{
    static const char *const bad[] = {"",    "G",   "-1",    "+1",  " 1",   "1X",
                                      "1.G", "1.5", "1GiBs", "1 2", "0x10", "1Bi"};
    uint64_t got;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (gp_size_parse(bad[i], &got) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
    assert_int_equal(gp_size_parse("9223372036854775808", &got), -ERANGE);
    assert_int_equal(gp_size_parse("8388608T", &got), -ERANGE);
    assert_int_equal(gp_size_parse("99999999999999999999", &got), -ERANGE);
}

static void
printed_sizes_are_short_and_true(void **state)
{
    char buf[GP_SIZE_TEXT];

    assert_string_equal(gp_size_format(0, buf), "0 B");
    assert_string_equal(gp_size_format(1023, buf), "1023 B");
    assert_string_equal(gp_size_format(1024, buf), "1 KiB");
    assert_string_equal(gp_size_format(UINT64_C(3) << 29, buf), "1.50 GiB");
    assert_string_equal(gp_size_format(UINT64_C(80) << 30, buf), "80 GiB");
    assert_string_equal(gp_size_format(UINT64_C(1) << 62, buf), "4194304 TiB");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_powers_of_1024),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(printed_sizes_are_short_and_true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
