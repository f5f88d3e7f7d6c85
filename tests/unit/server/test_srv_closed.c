/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of closed sessions on a disk that is full for a while, and after a crash. */
#include "ut.h"

#include "gp_file.h"
#include "srv_closed.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static char folder[64], file[96];

static int
setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ut-closed.XXXXXX");
    snprintf(file, sizeof(file), "%s/closed-sessions", mkdtemp(folder));
    signal(SIGXFSZ, SIG_IGN);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

/* A file may grow to @bytes, as if the disk had no more. */
static void
room(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* What a server that is started now knows of the sessions 1 to @n. */
static unsigned
known(unsigned n)
{
    struct srv_closed closed;
    unsigned found = 0;

    assert_int_equal(srv_closed_init(&closed, folder, NULL), 0);
    for (unsigned i = 1; i <= n; i++)
        found += srv_closed_has(&closed, i);
    srv_closed_fini(&closed);
    return found;
}

static void
full_disk_costs_no_id_once_there_is_room(void **state)
{
    struct srv_closed closed;

    (void)state;
    assert_int_equal(srv_closed_init(&closed, folder, NULL), 0);
    srv_closed_add(&closed, 1, "");
    room(17 + 5); /* within the second line */
    srv_closed_add(&closed, 2, "");
    srv_closed_add(&closed, 3, "");
    srv_closed_retry(&closed);
    assert_int_equal(known(3), 1);
    room(RLIM_INFINITY);
    srv_closed_retry(&closed);
    assert_int_equal(known(3), 3);
    srv_closed_add(&closed, 4, "");
    assert_int_equal(known(4), 4);
    srv_closed_fini(&closed);
}

static void
id_after_one_that_a_crash_cut_short_is_kept(void **state)
{
    struct srv_closed closed;

    (void)state;
    assert_int_equal(
        gp_file_replace(file, "0000000000000001\n00000000", 25, 0600, NULL), 0);
    assert_int_equal(srv_closed_init(&closed, folder, NULL), 0);
    srv_closed_add(&closed, 2, "");
    srv_closed_fini(&closed);
    assert_int_equal(known(2), 2);
}

static void
first_reason_of_a_session_stays_until_its_place_is_needed(void **state)
{
    char lengthy[SRV_CLOSED_WORDS + 9];
    struct srv_closed closed;

    (void)state;
    memset(lengthy, 'x', sizeof(lengthy));
    lengthy[sizeof(lengthy) - 1] = 0;
    assert_int_equal(srv_closed_init(&closed, "", NULL), 0);
    srv_closed_add(&closed, 1, "closed by an administrator");
    srv_closed_add(&closed, 1, "it had ended before");
    srv_closed_add(&closed, 2, "");
    srv_closed_add(&closed, 3, lengthy);
    assert_string_equal(srv_closed_why(&closed, 1), "closed by an administrator");
    assert_string_equal(srv_closed_why(&closed, 2), "");
    assert_int_equal(strlen(srv_closed_why(&closed, 3)), SRV_CLOSED_WORDS - 1);
    assert_string_equal(srv_closed_why(&closed, 4), "");
    assert_string_equal(srv_closed_why(&closed, 0), "");
    for (unsigned i = 0; i < SRV_CLOSED_IDS; i++)
        srv_closed_add(&closed, 10 + i, "");
    assert_false(srv_closed_has(&closed, 1));
    assert_string_equal(srv_closed_why(&closed, 1), "");
    srv_closed_fini(&closed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(full_disk_costs_no_id_once_there_is_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(id_after_one_that_a_crash_cut_short_is_kept,
                                        setup, teardown),
        cmocka_unit_test(first_reason_of_a_session_stays_until_its_place_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
