/* SPDX-License-Identifier: Apache-2.0 */
/* What gpupool-server understands of its command line and its file. */
#include "ut.h"

#include "gp_err.h"
#include "gp_file.h"
#include "srv_conf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int
parse(struct srv_conf *conf, struct gp_err *err, const char *const *args)
{
    char *argv[16] = {(char *)(uintptr_t) "gpupool-server"};
    int argc = 1;

    while (args[argc - 1]) {
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
        argc++;
    }
    *err = (struct gp_err){0};
    return srv_conf_parse(conf, argc, argv, err);
}

static void
flags_are_read_in_both_forms(void **state)
{
    const char *args[] = {
        "--listen",       "127.0.0.1:0", "--listen", "unix:/run/x.sock",
        "--driver=null",  "--cards",     "3",        "--name=n",
        "--max-sessions", "7",           NULL};
    struct srv_conf conf;
    struct gp_err err;

    (void)state;
    assert_int_equal(parse(&conf, &err, args), 0);
    assert_string_equal(conf.listen, "127.0.0.1:0");
    assert_string_equal(conf.local, "unix:/run/x.sock");
    assert_string_equal(conf.driver, "null");
    assert_string_equal(conf.name, "n");
    assert_int_equal(conf.cards, 3);
    assert_int_equal(conf.max_sessions, 7);
    assert_int_equal(conf.max_attachments, 1024);
}

/* 0 is not "as by default": no client's link is replaced. */
static void
resuming_is_switched_off_by_zero(void **state)
{
    const char *none[] = {NULL}, *off[] = {"--resume", "0", NULL};
    struct srv_conf conf;
    struct gp_err err;

    (void)state;
    assert_int_equal(parse(&conf, &err, none), 0);
    assert_int_equal(conf.resume_s, 60);
    assert_int_equal(parse(&conf, &err, off), 0);
    assert_int_equal(conf.resume_s, 0);
}

static void
memory_is_kept_back_per_card(void **state)
{
    const char *one[] = {"--memory-scaling=0.5", NULL};
    const char *list[] = {"--deviceMemoryScaling", "1,0.25", NULL};
    const char *none[] = {NULL};
    struct srv_conf conf;
    struct gp_err err;

    (void)state;
    assert_int_equal(parse(&conf, &err, none), 0);
    assert_int_equal(srv_conf_scaled(&conf, 0, 1001), 1001);
    assert_int_equal(parse(&conf, &err, one), 0);
    assert_int_equal(srv_conf_scaled(&conf, 0, 1000), 500);
    assert_int_equal(srv_conf_scaled(&conf, 7, 1000), 500);
    assert_int_equal(parse(&conf, &err, list), 0);
    assert_int_equal(srv_conf_scaled(&conf, 0, 1001), 1001);
    assert_int_equal(srv_conf_scaled(&conf, 1, 1000), 250);
    assert_int_equal(srv_conf_scaled(&conf, 2, 1000), 250);
}

static void
owner_and_address_have_half_of_what_the_server_has(void **state)
{
    const char *none[] = {NULL};
    const char *more[] = {"--max-attachments=4096", NULL};
    const char *less[] = {"--max-attachments=4", NULL};
    const char *own[] = {"--owner-attachments=7", "--max-attachments=4096", NULL};
    struct srv_conf conf;
    struct gp_err err;

    (void)state;
    assert_int_equal(parse(&conf, &err, none), 0);
    assert_int_equal(srv_conf_share(&conf, conf.owner_attachments), 512);
    assert_int_equal(parse(&conf, &err, more), 0);
    assert_int_equal(srv_conf_share(&conf, conf.owner_attachments), 2048);
    assert_int_equal(srv_conf_share(&conf, conf.address_attachments), 2048);
    assert_int_equal(parse(&conf, &err, less), 0);
    assert_int_equal(srv_conf_share(&conf, conf.address_attachments), 512);
    assert_int_equal(parse(&conf, &err, own), 0);
    assert_int_equal(srv_conf_share(&conf, conf.owner_attachments), 7);
}

static void
wrong_flags_are_refused_in_words(void **state)
{
    static const struct {
        const char *args[3];
        const char *word;
    } cases[] = {
        {{"--nonsense", "1", NULL}, "unknown option --nonsense"},
        {{"listen", NULL, NULL}, "listen: unexpected argument"},
        {{"--listen", NULL, NULL}, "needs a value"},
        {{"--max-sesions", "1", NULL}, "did you mean --max-sessions?"},
        {{"--memory", "4", NULL}, "Say 4MiB or 4GiB"},
        {{"--image-cache", "1000", NULL}, "in which unit?"},
        {{"--gpudirect", "on", NULL}, "auto, dmabuf, peermem or off"},
        {{"--cards", "0", NULL}, "a number from 1 to 64"},
        {{"--cards", "x", NULL}, "a number from 1 to 64"},
        {{"--memory-scaling=0", NULL, NULL}, "above 0 and up to 1"},
        {{"--memory-scaling=1.5", NULL, NULL}, "above 0 and up to 1"},
        {{"--memory-scaling=0.5;1", NULL, NULL}, "above 0 and up to 1"},
        {{"--memory-scaling=0.5,", NULL, NULL}, "above 0 and up to 1"},
        {{"--max-attachments=-1", NULL, NULL}, "a number from 1"},
        {{"--config", "/nonexistent/file", NULL}, "/nonexistent/file"},
    };
    struct srv_conf conf;
    struct gp_err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_true(parse(&conf, &err, cases[i].args) < 0);
        assert_non_null(strstr(err.msg, cases[i].word));
    }
}

static void
file_gives_the_same_as_flags_and_names_its_bad_line(void **state)
{
    char path[] = "/tmp/test-srv-conf-XXXXXX";
    const char *args[] = {"--config", path, "--name", "later", NULL};
    const char good[] =
        "# a server\n\n  driver = softgpu \nname=file # ours\nmemory = 4GiB\n";
    const char bad[] = "driver = softgpu\nnonsense\n";
    struct srv_conf conf;
    struct gp_err err;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gp_file_replace(path, good, sizeof(good) - 1, 0600, NULL), 0);
    assert_int_equal(parse(&conf, &err, args), 0);
    assert_string_equal(conf.driver, "softgpu");
    assert_string_equal(conf.memory, "4GiB");
    assert_string_equal(conf.name, "later");
    assert_int_equal(gp_file_replace(path, bad, sizeof(bad) - 1, 0600, NULL), 0);
    assert_true(parse(&conf, &err, args) < 0);
    assert_non_null(strstr(err.msg, ":2"));
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_read_in_both_forms),
        cmocka_unit_test(resuming_is_switched_off_by_zero),
        cmocka_unit_test(memory_is_kept_back_per_card),
        cmocka_unit_test(owner_and_address_have_half_of_what_the_server_has),
        cmocka_unit_test(wrong_flags_are_refused_in_words),
        cmocka_unit_test(file_gives_the_same_as_flags_and_names_its_bad_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
