/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that come with messages: as many as may, and none is left of others. */
#include "ut.h"

#include "gp_fds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static unsigned
open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int
fresh(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int
gone(void **state)
{
    (void)state;
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static void
send_n(unsigned n)
{
    int fds[GP_FDS_MAX];

    for (unsigned i = 0; i < n; i++)
        fds[i] = pair[0];
    assert_int_equal(gp_fds_send(pair[0], "word", 4, fds, n, 0), 4);
}

static void
as_many_as_may_come_and_are_closed_on_exec(void **state)
{
    static const unsigned numbers[] = {0, 1, 2, 3, GP_FDS_MAX};
    int fds[GP_FDS_MAX];
    unsigned n;
    char text[4];

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        send_n(numbers[i]);
        assert_int_equal(
            gp_fds_recv(pair[1], text, 4, fds, numbers[i], &n, MSG_DONTWAIT), 4);
        assert_int_equal(n, numbers[i]);
        for (unsigned at = 0; at < n; at++)
            assert_int_equal(fcntl(fds[at], F_GETFD), FD_CLOEXEC);
        gp_fds_close(fds, n);
    }
    assert_int_equal(gp_fds_recv(pair[1], text, 4, fds, 1, &n, MSG_DONTWAIT), -EAGAIN);
}

static void
surplus_is_closed_and_named(void **state)
{
    int fds[GP_FDS_MAX];
    char text[4];
    unsigned n, before;

    (void)state;
    before = open_descriptors();
    /* CMSG_SPACE() has room for one more than was asked for at every other number. */
    for (unsigned max = 0; max < 6; max++)
        for (unsigned more = 1; more < 6; more++) {
            send_n(max + more);
            assert_int_equal(gp_fds_recv(pair[1], text, 4, fds, max, &n, MSG_DONTWAIT),
                             -EPROTO);
            assert_int_equal(n, 0);
            assert_int_equal(open_descriptors(), before);
        }
}

static void
lack_of_room_is_named_and_keeps_the_message(void **state)
{
    struct rlimit files, few;
    int fds[GP_FDS_MAX];
    char text[4] = "";
    unsigned n, before = open_descriptors();

    (void)state;
    send_n(4);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    fds[0] = dup(pair[0]); /* the lowest that is free */
    assert_true(fds[0] >= 0);
    close(fds[0]);
    few = files;
    few.rlim_cur = (rlim_t)fds[0] + 2; /* two of the four */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(gp_fds_recv(pair[1], text, 4, fds, 4, &n, MSG_DONTWAIT), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(n, 0);
    assert_memory_equal(text, "word", 4);
    assert_int_equal(open_descriptors(), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_many_as_may_come_and_are_closed_on_exec,
                                        fresh, gone),
        cmocka_unit_test_setup_teardown(surplus_is_closed_and_named, fresh, gone),
        cmocka_unit_test_setup_teardown(lack_of_room_is_named_and_keeps_the_message,
                                        fresh, gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
