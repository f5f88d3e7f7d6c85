/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options: flags, letters, environment, file, help, completion. */
#include "ut.h"

#include "gp_err.h"
#include "gp_option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct target {
    const char *name;
    char copy[8];
    uint32_t number, core;
    uint64_t memory;
    bool loud;
    const char *policy;
    uint32_t choice;
    uint64_t ms;
    uint32_t seconds;
    unsigned n_words;
    const char *wait;
};

static const char *const POLICIES[] = {"binpack", "spread", NULL};

static int
count_word(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    (void)option;
    (void)value;
    (void)err;
    ((struct target *)target)->n_words++;
    return 0;
}

#define FIELD(field) .offset = offsetof(struct target, field)
static const struct gp_option OPTIONS[] = {
    {.name = "name",
     .value = "NAME",
     .help = "a name",
     .set = gp_option_text,
     FIELD(name),
     .letter = 'n'},
    {.name = "copy",
     .value = "FILE",
     .help = "a copy",
     .set = gp_option_copy,
     FIELD(copy),
     .size = 8},
    {.name = "number",
     .value = "N",
     .help = "a number",
     .set = gp_option_u32,
     FIELD(number),
     .min = 1,
     .max = 9},
    {.name = "core",
     .value = "N",
     .help = "percent",
     .set = gp_option_percent,
     FIELD(core),
     .min = 1,
     .max = 1600,
     .env = "UT_CORE"},
    {.name = "memory",
     .value = "SIZE",
     .help = "a size",
     .set = gp_option_size,
     FIELD(memory),
     .max = UINT64_C(1) << 40},
    {.name = "loud",
     .help = "say more",
     .set = gp_option_yes,
     FIELD(loud),
     .letter = 'l'},
    {.name = "policy",
     .value = "P",
     .help = "where",
     .set = gp_option_word,
     FIELD(policy),
     .words = POLICIES},
    {.name = "choice",
     .value = "C",
     .help = "which",
     .set = gp_option_choice,
     FIELD(choice),
     .words = POLICIES,
     .min = 7},
    {.name = "time",
     .value = "TIME",
     .help = "how long",
     .set = gp_option_time,
     FIELD(ms),
     .min = 1,
     .max = 7200000},
    {.name = "word",
     .value = "WORD",
     .help = "one more",
     .set = count_word,
     FIELD(n_words),
     .size = sizeof(unsigned),
     .several = true},
    {.name = "patience",
     .value = "TIME",
     .help = "how long at most",
     .set = gp_option_seconds,
     FIELD(seconds),
     .min = 3,
     .max = 86400},
    {.name = "wait",
     .value = "TIME",
     .optional = true,
     .help = "whether, and how long",
     .set = gp_option_text,
     FIELD(wait)},
};

static int
parse(struct target *target, struct gp_err *err, bool first_ends, int *ret_first,
      int argc, char **argv)
{
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), target};
    const struct gp_options options = {.program = "ut",
                                       .arguments = first_ends ? "PROGRAM" : NULL,
                                       .about = "Test.",
                                       .env = "UT_",
                                       .config = true,
                                       .first_ends = first_ends,
                                       .sets = &set,
                                       .n_sets = 1};

    memset(target, 0, sizeof(*target));
    memset(err, 0, sizeof(*err));
    return gp_options_parse(&options, argc, argv, ret_first, err);
}

#define PARSE(target, err, ...)                                                        \
    parse(target, err, false, &(int){0},                                               \
          (int)ARRAY_SIZE(((const char *[]){"ut", __VA_ARGS__})),                      \
          (char **)(uintptr_t)(const char *[]){"ut", __VA_ARGS__, NULL})

static void
every_form_of_a_flag_is_taken(void **state)
{
    struct target t;
    struct gp_err err;

    assert_int_equal(PARSE(&t, &err, "--name", "a", "--number=7", "-l"), 0);
    assert_string_equal(t.name, "a");
    assert_int_equal(t.number, 7);
    assert_true(t.loud);
    assert_int_equal(PARSE(&t, &err, "-ln", "b", "--loud=no", "--pol", "spread"), 0);
    assert_string_equal(t.name, "b");
    assert_false(t.loud);
    assert_string_equal(t.policy, "spread");
    assert_int_equal(PARSE(&t, &err, "-nc", "--core", "30%", "--memory", "1.5GiB"), 0);
    assert_string_equal(t.name, "c");
    assert_int_equal(t.core, 30);
    assert_int_equal(t.memory, UINT64_C(3) << 29);
}

static void
choices_times_and_values_that_may_be_left_out(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } times[] = {{"30s", 30000}, {"10m", 600000}, {"2h", 7200000}, {"7", 7000}};
    struct target t;
    struct gp_err err;

    assert_int_equal(PARSE(&t, &err, "--choice", "spread"), 0);
    assert_int_equal(t.choice, 8);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        assert_int_equal(PARSE(&t, &err, "--time", times[i].text), 0);
        assert_int_equal(t.ms, times[i].ms);
    }
    assert_int_equal(PARSE(&t, &err, "--wait", "--loud"), 0);
    assert_string_equal(t.wait, "");
    assert_true(t.loud);
    assert_int_equal(PARSE(&t, &err, "--wait=5m"), 0);
    assert_string_equal(t.wait, "5m");
    assert_true(PARSE(&t, &err, "--wait", "5m") < 0); /* an argument */
}

static void
wrong_options_are_refused_with_the_remedy(void **state)
{
    static const struct {
        const char *flag, *value, *words;
    } cases[] = {
        {"--numbr", "1",
         "unknown option --numbr; did you mean --number? (see ut --help)"},
        {"--nonsense", "1", "unknown option --nonsense (see ut --help)"},
        {"-x", "1", "unknown option -x (see ut --help)"},
        {"extra", "1", "extra: unexpected argument (see ut --help)"},
        {"--memory", "1000",
         "--memory 1000: in which unit? Say 1000MiB or 1000GiB, or "
         "1000B for bytes"},
        {"--memory", "4Gb", "--memory 4Gb: a size like 512MiB or 4GiB is wanted"},
        {"--memory", "2TiB", "--memory 2TiB: at most 1 TiB is possible"},
        {"--core", "0.5",
         "--core 0.5: whole percents of a card, such as 30 or 30%, from "
         "1 to 1600, are wanted"},
        {"--number", "10", "--number 10: a number from 1 to 9 is wanted"},
        {"--policy", "best", "--policy best: binpack or spread is wanted"},
        {"--choice", "best", "--choice best: binpack or spread is wanted"},
        {"--time", "3d", "--time 3d: a time like 30s, 10m or 2h is wanted"},
        {"--time", "3h", "--time 3h: a time like 30s, 10m or 2h is wanted"},
        {"--time", "0", "--time 0: a time like 30s, 10m or 2h is wanted"},
        {"--number=", "", "--number is empty: a number from 1 to 9 is wanted"},
        {"--copy", "12345678", "--copy 12345678: longer than 7 bytes"},
        {"--loud=maybe", "", "--loud maybe: yes or no is wanted"},
    };
    struct target t;
    struct gp_err err;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_true(PARSE(&t, &err, cases[i].flag, cases[i].value) < 0);
        assert_string_equal(err.msg, cases[i].words);
    }
    assert_true(PARSE(&t, &err, "--name") < 0);
    assert_string_equal(err.msg, "--name needs a value: NAME (see ut --help)");
}

static void
flags_decide_over_environment_and_that_over_the_file(void **state)
{
    char path[] = "/tmp/ut-option-XXXXXX";
    int fd = mkstemp(path);
    struct target t;
    struct gp_err err;

    dprintf(fd, "# all three\nname = file\nnumber = 1\ncore=10%%\nloud = yes\n");
    setenv("UT_NUMBER", "2", 1);
    setenv("UT_CORE", "20", 1);
    assert_int_equal(PARSE(&t, &err, "--core", "30", "--config", path), 0);
    assert_string_equal(t.name, "file");
    assert_int_equal(t.number, 2);
    assert_int_equal(t.core, 30);
    assert_true(t.loud);
    setenv("UT_NUMBER", "x", 1);
    assert_true(PARSE(&t, &err, "-l") < 0);
    assert_non_null(strstr(err.msg, "UT_NUMBER=x: a number from 1 to 9"));
    unsetenv("UT_NUMBER");
    unsetenv("UT_CORE");
    dprintf(fd, "numbr = 1\n");
    assert_true(PARSE(&t, &err, "--config", path) < 0);
    assert_non_null(
        strstr(err.msg, ":6: unknown option --numbr; did you mean --number?"));
    assert_non_null(strstr(err.msg, path));
    close(fd);
    unlink(path);
}

static void
options_of_the_program_after_it_stay_its_own(void **state)
{
    const char *argv[] = {"ut", "-l", "prog", "--number", "3", NULL};
    const char *dashes[] = {"ut", "-l", "--", "--number", NULL};
    struct target t;
    struct gp_err err;
    int first;

    assert_int_equal(parse(&t, &err, true, &first, 5, (char **)(uintptr_t)argv), 0);
    assert_int_equal(first, 2);
    assert_int_equal(t.number, 0);
    assert_int_equal(parse(&t, &err, true, &first, 4, (char **)(uintptr_t)dashes), 0);
    assert_int_equal(first, 3);
}

static void
help_and_completions_name_every_option(void **state)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), NULL};
    const struct gp_options options = {
        .program = "ut", .about = "Test.", .sets = &set, .n_sets = 1};

    for (size_t i = 0; i <= ARRAY_SIZE(shells); i++) {
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        if (i < ARRAY_SIZE(shells))
            assert_int_equal(gp_options_complete(&options, shells[i], out), 0);
        else
            gp_options_help(&options, out);
        fclose(out);
        for (size_t k = 0; k < ARRAY_SIZE(OPTIONS); k++)
            assert_non_null(strstr(text, OPTIONS[k].name));
        assert_non_null(strstr(text, "help"));
        free(text);
    }
    assert_true(gp_options_complete(&options, "csh", stdout) < 0);
}

static void
values_are_compared_and_taken_by_their_kind(void **state)
{
    char name[] = "x"; /* another place, the same text */
    struct target a = {.name = "x", .number = 1, .memory = 2, .ms = 3, .policy = "p"};
    struct target b = a;

    (void)state;
    b.name = name;
    memcpy(b.copy, "other", 6);
    for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++)
        assert_int_equal(gp_option_same(&OPTIONS[i], &a, &b),
                         strcmp(OPTIONS[i].name, "copy") != 0);
    b = (struct target){.name = NULL,
                        .number = 2,
                        .core = 1,
                        .memory = UINT64_C(2) << 32,
                        .loud = true,
                        .policy = "q",
                        .choice = 1,
                        .ms = 4,
                        .seconds = 5,
                        .n_words = 6,
                        .wait = ""};
    memcpy(b.copy, "other", 6);
    for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++) {
        assert_false(gp_option_same(&OPTIONS[i], &a, &b));
        gp_option_take(&OPTIONS[i], &a, &b);
        assert_true(gp_option_same(&OPTIONS[i], &a, &b));
    }
    assert_memory_equal(a.copy, b.copy, sizeof(a.copy));
}

static void
items_of_a_manual_page_are_mdoc(void **state)
{
    static const char *const off[] = {"off", NULL};
    static const struct gp_option made[] = {
        {.name = "to",
         .value = "HOST:PORT",
         .help = "where; see `ut run --to`.  Else C:\\"},
        {.name = "env", .value = "NAME=VALUE", .help = "a pair"},
        {.name = "over", .value = "auto|off|ADDRESS", .help = "way"},
        {.name = "cache", .value = "SIZE", .words = off, .help = "'s size"},
    };
    const struct gp_option_set_of sets[] = {{OPTIONS, ARRAY_SIZE(OPTIONS), NULL},
                                            {made, ARRAY_SIZE(made), NULL}};
    const struct gp_options options = {
        .program = "ut", .about = "Test.", .sets = sets, .n_sets = 2};
    static const char *const items[] = {
        ".It Fl n , Fl -name Ar name\nA name.\n",
        ".It Fl l , Fl -loud\nSay more.\n",
        ".It Fl -policy Cm binpack | spread\nWhere.\n",
        ".It Fl -wait Ns Op = Ns Ar time\nWhether, and how long.\n",
        ".It Fl -to Ar host:port\nWhere; see \\(lqut run \\-\\-to\\(rq.\nElse C:\\e.\n",
        ".It Fl -env Ar name Ns Cm = Ns Ar value\n",
        ".It Fl -over Cm auto | off | Ar address\n",
        ".It Fl -cache Ar size | Cm off\n\\&'s size.\n",
    };
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    gp_options_man(&options, out);
    fclose(out);
    for (size_t i = 0; i < ARRAY_SIZE(items); i++)
        if (!strstr(text, items[i]))
            fail_msg("%s is not in\n%s", items[i], text);
    free(text);
}

static void
seconds_are_taken_with_a_unit_and_without(void **state)
{
    static const struct {
        const char *text;
        uint32_t seconds;
    } good[] = {{"3", 3}, {"30s", 30}, {"5m", 300}, {"24h", 86400}, {"86400", 86400}};
    static const char *const bad[] = {"2",
                                      "0s",
                                      "25h",
                                      "1441m",
                                      "5 m",
                                      "5M",
                                      "m",
                                      "1.5m",
                                      "-5",
                                      "5mm",
                                      "1d",
                                      "",
                                      "99999999999999999999h"};
    struct target target = {0};
    struct gp_err err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(PARSE(&target, &err, "--patience", good[i].text), 0);
        assert_int_equal(target.seconds, good[i].seconds);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(PARSE(&target, &err, "--patience", bad[i]), -EINVAL);
        assert_non_null(strstr(err.msg, "a number of seconds, or a time like 30s, 10m "
                                        "or 2h, from 3 to 86400 seconds"));
    }
}

static int
parse_file(const char *text, struct target *target, struct gp_err *err)
{
    char path[] = "/tmp/ut-option-XXXXXX";
    int fd = mkstemp(path), r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    r = PARSE(target, err, "--config", path);
    unlink(path);
    return r;
}

static void
option_that_is_twice_in_a_file_is_refused_with_both_lines(void **state)
{
    struct target target;
    struct gp_err err;

    (void)state;
    assert_int_equal(
        parse_file("number = 1\n# number = 3\nname = a\n number=1\n", &target, &err),
        -EINVAL);
    assert_non_null(strstr(err.msg, ":4: number is in line 1 already"));
    /* Each of these counts. */
    assert_int_equal(parse_file("word = a\nword = b\n", &target, &err), 0);
    assert_int_equal(target.n_words, 2);
}

static void
byte_order_mark_of_utf8_is_no_part_of_a_file(void **state)
{
    struct target target;
    struct gp_err err;

    (void)state;
    assert_int_equal(parse_file("\xef\xbb\xbfnumber = 4\r\n", &target, &err), 0);
    assert_int_equal(target.number, 4);
    assert_int_equal(parse_file("\xef\xbb\xbf# words\nname = a\n", &target, &err), 0);
    /* Anywhere else it is a fault like another. */
    assert_int_equal(parse_file("loud = yes\n\xef\xbb\xbfnumber = 4\n", &target, &err),
                     -EINVAL);
    assert_non_null(strstr(err.msg, ":2: unknown option --"));
}

struct addresses {
    const char *listen, *list;
    char copy[32];
};

#define ADDRESSES_FIELD(field) .offset = offsetof(struct addresses, field)
static const struct gp_option ADDRESSES[] = {
    {.name = "listen",
     .value = "HOST:PORT",
     .set = gp_option_text,
     .check = gp_option_check_address,
     ADDRESSES_FIELD(listen)},
    {.name = "list",
     .value = "HOST:PORT",
     .set = gp_option_text,
     .check = gp_option_check_addresses,
     .min = 7480,
     ADDRESSES_FIELD(list)},
    {.name = "copy",
     .value = "HOST:PORT",
     .set = gp_option_copy,
     .check = gp_option_check_address,
     .size = 32,
     .env = "UT_COPY",
     ADDRESSES_FIELD(copy)},
};

static int
parse_address(const char *flag, struct gp_err *err)
{
    struct addresses target = {0};
    const struct gp_option_set_of set = {ADDRESSES, ARRAY_SIZE(ADDRESSES), &target};
    const struct gp_options options = {.program = "ut", .sets = &set, .n_sets = 1};
    char *argv[] = {(char *)(uintptr_t) "ut", (char *)(uintptr_t)flag, NULL};
    int first;

    *err = (struct gp_err){0};
    return gp_options_parse(&options, flag ? 2 : 1, argv, &first, err);
}

static void
addresses_are_checked_before_anybody_connects(void **state)
{
    static const char *const right[] = {"--listen=127.0.0.1:0",
                                        "--listen=:9400",
                                        "--listen=[::1]:1",
                                        "--listen=unix:/run/x",
                                        "--list=a,b:7,[::1]:9",
                                        "--list=srv:example.org,a:1",
                                        "--list=unix:/run/x,a:1",
                                        "--copy=",
                                        "--copy=a:1"};
    static const struct {
        const char *flag, *words;
    } wrong[] = {
        {"--listen=a", "--listen a: HOST:PORT is wanted, with a port from 0 to 65535"},
        {"--listen=",
         "--listen is empty: HOST:PORT is wanted, with a port from 0 to 65535"},
        {"--listen=a:99999",
         "--listen a:99999: HOST:PORT is wanted, with a port from 0 to 65535"},
        {"--listen=unix:", "--listen unix:: unix:PATH is wanted"},
        {"--copy=a b:1",
         "--copy a b:1: HOST:PORT is wanted, with a port from 0 to 65535"},
        {"--list=a:1,",
         "--list a:1,: HOST or HOST:PORT is wanted, with a port from 1 to "
         "65535"},
        {"--list=a:1,b:x", "--list a:1,b:x: HOST or HOST:PORT is wanted, with a port "
                           "from 1 to 65535"},
        {"--list=a:0", "--list a:0: HOST or HOST:PORT is wanted, with a port from 1 to "
                       "65535"},
        {"--list=srv:",
         "--list srv:: HOST or HOST:PORT is wanted, with a port from 1 to "
         "65535"},
    };
    struct gp_err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(right); i++)
        if (parse_address(right[i], &err) < 0)
            fail_msg("%s: %s", right[i], err.msg);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        assert_true(parse_address(wrong[i].flag, &err) < 0);
        assert_string_equal(err.msg, wrong[i].words);
    }
    setenv("UT_COPY", "x:y", 1);
    assert_true(parse_address(NULL, &err) < 0);
    assert_string_equal(err.msg,
                        "UT_COPY=x:y: HOST:PORT is wanted, with a port from 0 to "
                        "65535");
    unsetenv("UT_COPY");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_checked_before_anybody_connects),
        cmocka_unit_test(every_form_of_a_flag_is_taken),
        cmocka_unit_test(choices_times_and_values_that_may_be_left_out),
        cmocka_unit_test(wrong_options_are_refused_with_the_remedy),
        cmocka_unit_test(flags_decide_over_environment_and_that_over_the_file),
        cmocka_unit_test(options_of_the_program_after_it_stay_its_own),
        cmocka_unit_test(help_and_completions_name_every_option),
        cmocka_unit_test(values_are_compared_and_taken_by_their_kind),
        cmocka_unit_test(items_of_a_manual_page_are_mdoc),
        cmocka_unit_test(seconds_are_taken_with_a_unit_and_without),
        cmocka_unit_test(option_that_is_twice_in_a_file_is_refused_with_both_lines),
        cmocka_unit_test(byte_order_mark_of_utf8_is_no_part_of_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
