/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log on a disk that is full. */
#include "ut.h"

#include "gp_audit.h"
#include "gp_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The file may grow to @bytes, as if the disk had no more. */
static void
room(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* One line for each "whole" event; how many other lines there are. */
static unsigned
others(const char *path, unsigned *ret_whole, char *last, size_t size)
{
    char line[512];
    unsigned n = 0;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    *ret_whole = 0;
    while (fgets(line, sizeof(line), f)) {
        size_t len = strlen(line);
        bool whole = strncmp(line, "{\"time\":\"", 9) == 0 && len > 2 &&
                     strcmp(line + len - 2, "}\n") == 0 && !strstr(line + 1, "{");

        *ret_whole += whole;
        n += !whole;
        snprintf(last, size, "%s", line);
    }
    fclose(f);
    return n;
}

static void
full_disk_costs_lines_and_no_other(void **state)
{
    char path[] = "/tmp/ut-audit.XXXXXX", last[512];
    int fd = mkstemp(path);
    unsigned whole;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(gp_audit_open(path, NULL), 0);
    gp_audit("grant", "who", "ada", NULL);
    room(100); /* within the second line */
    for (int i = 0; i < 3; i++)
        gp_audit("grant", "who", "bob", NULL);
    room(RLIM_INFINITY);
    gp_audit("end", "who", "ada", NULL);
    assert_int_equal(others(path, &whole, last, sizeof(last)), 1);
    assert_int_equal(whole, 2);
    assert_non_null(strstr(last, "\"event\":\"end\""));
    assert_non_null(strstr(last, "\"lines_lost\":3"));
    gp_audit("end", "who", "eve", NULL);
    others(path, &whole, last, sizeof(last));
    assert_int_equal(whole, 3);
    assert_null(strstr(last, "lines_lost"));
    unlink(path);
}

/* As a process leaves it that ended on a full disk. */
static void
log_that_ends_within_a_line_goes_on_with_the_next(void **state)
{
    char path[] = "/tmp/ut-audit.XXXXXX", last[512];
    int fd = mkstemp(path);
    unsigned whole;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(gp_file_write_all(fd, "{\"time\":\"2026", 13), 0);
    close(fd);
    assert_int_equal(gp_audit_open(path, NULL), 0);
    gp_audit("end", "who", "ada", NULL);
    assert_int_equal(others(path, &whole, last, sizeof(last)), 1);
    assert_int_equal(whole, 1);
    unlink(path);
}

static void
names_of_every_script_stay_readable(void **state)
{
    char path[] = "/tmp/ut-audit.XXXXXX", last[512];
    int fd = mkstemp(path);
    unsigned whole;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gp_audit_open(path, NULL), 0);
    gp_audit("grant", "who", "J\u00fc\U0001f980\xff\n\"", NULL);
    assert_int_equal(others(path, &whole, last, sizeof(last)), 0);
    assert_non_null(strstr(last, "\"J\\u00fc\\ud83e\\udd80\\u00ff\\u000a\\\"\""));
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk_costs_lines_and_no_other),
        cmocka_unit_test(log_that_ends_within_a_line_goes_on_with_the_next),
        cmocka_unit_test(names_of_every_script_stay_readable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
