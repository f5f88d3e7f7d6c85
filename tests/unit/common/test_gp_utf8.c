/* SPDX-License-Identifier: Apache-2.0 */
/* Text that others chose, for terminals: what stays, what is masked, how wide it is. */
#include "ut.h"

#include "gp_utf8.h"

#include <stdio.h>
#include <string.h>

static void
assert_masked(const char *text, const char *expected)
{
    char got[256];

    assert_true(gp_utf8_copy(got, sizeof(got), text));
    assert_string_equal(got, expected);
    gp_utf8_mask(got); /* once is enough */
    assert_string_equal(got, expected);
}

static void
letters_of_every_script_stay(void **state)
{
    static const char *const names[] = {
        "",
        "ann@host ~!",
        "J\u00fcrgen",
        "\u0416\u0430\u043d\u043d\u0430",
        "\u738b\u5c0f\u660e",
        "\u05d3\u05d5\u05d3",
        "\u0e2a\u0e21\u0e0a\u0e32\u0e22",
        "e\u0301\u0323",
        "\U0001f980",
        "\ud55c\uae00",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_masked(names[i], names[i]);
}

static void
nothing_reaches_a_terminal_that_is_not_seen(void **state)
{
    static const char *const unseen[] = {
        /* Overrides of directions, isolates, marks. */
        "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c",
        /* Zero width, joiners, hyphens, fillers, selectors, blanks, line ends, tags. */
        "\u200b", "\u200d", "\u00ad", "\u2060", "\ufeff", "\u115f", "\u3164", "\uffa0",
        "\ufe0f", "\u034f", "\u180e", "\u00a0", "\u3000", "\u2003", "\u2800", "\u2028",
        "\u2029", "\ufff9", "\U000e0041", "\U000e0100", "\U0001d173",
        /* Private use, no characters. */
        "\ue000", "\U000f0000", "\U0010ffff", "\uffff", "\ufdd0"};

    /* C0, DEL, C1 in two bytes and in one. */
    assert_masked("a\x1b[2J\r\n\t\x7f", "a?[2J????");
    assert_masked("a\xc2\x9b"
                  "1m\x9b\x85\xc2\x80",
                  "a?1m???");
    for (size_t i = 0; i < ARRAY_SIZE(unseen); i++) {
        char text[16];

        snprintf(text, sizeof(text), "a%sb", unseen[i]);
        assert_masked(text, "a?b");
    }
}

static void
bytes_that_are_no_utf8_are_masked_one_by_one(void **state)
{
    assert_masked("\xff\xfe", "??");
    assert_masked("\xc0\xaf\xe0\x80\xaf", "?????");      /* "/", longer than need be */
    assert_masked("\xed\xa0\x80", "???");                /* half of a pair */
    assert_masked("\xf4\x90\x80\x80\xf5\x80", "??????"); /* behind the last one */
    assert_masked("a\xe2\x82", "a??");                   /* cut short */
    assert_masked("\xc3"
                  "a\xc3\xbc",
                  "?a\u00fc");
}

static void
marks_neither_stand_alone_nor_pile_up(void **state)
{
    assert_masked("\u0301a", "?a");
    assert_masked("a\u0301\u0301\u0301\u0301\u0301", "a\u0301\u0301\u0301?\u0301");
    assert_masked("a\u200b\u0301", "a?\u0301");
}

static void
copy_ends_behind_a_whole_character(void **state)
{
    char text[6];

    assert_true(gp_utf8_copy(text, sizeof(text), "ab\u20ac"));
    assert_string_equal(text, "ab\u20ac");
    assert_false(gp_utf8_copy(text, sizeof(text), "abc\u20ac"));
    assert_string_equal(text, "abc");
    assert_false(gp_utf8_copy(text, 1, "a"));
    assert_string_equal(text, "");
    assert_true(gp_utf8_copy(text, sizeof(text), "\x01\x02\x03\x04\x05"));
    assert_string_equal(text, "?????");
}

static void
width_is_in_columns_of_a_terminal(void **state)
{
    assert_int_equal(gp_utf8_width(""), 0);
    assert_int_equal(gp_utf8_width("ann"), 3);
    assert_int_equal(gp_utf8_width("J\u00fcrgen"), 6);
    assert_int_equal(gp_utf8_width("e\u0301\u0323t"), 2);
    assert_int_equal(gp_utf8_width("\u738b\u5c0f"), 4);
    assert_int_equal(gp_utf8_width("\ud55c"), 2);
    assert_int_equal(gp_utf8_width("\uff21\U0001f980"), 4);
    assert_int_equal(gp_utf8_width("\x80\xff"), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_of_every_script_stay),
        cmocka_unit_test(nothing_reaches_a_terminal_that_is_not_seen),
        cmocka_unit_test(bytes_that_are_no_utf8_are_masked_one_by_one),
        cmocka_unit_test(marks_neither_stand_alone_nor_pile_up),
        cmocka_unit_test(copy_ends_behind_a_whole_character),
        cmocka_unit_test(width_is_in_columns_of_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
