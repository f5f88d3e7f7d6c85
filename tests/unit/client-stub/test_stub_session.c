/* SPDX-License-Identifier: Apache-2.0 */
/* Where the stub looks for its server. */
#include "ut.h"

#include "gp_err.h"
#include "stub_session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void
write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int
fresh(void **state)
{
    int fd;

    snprintf(path, sizeof(path), "/tmp/ut-stub-session-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    unsetenv("GPUPOOL_SERVER");
    unsetenv("GPUPOOL_TICKET");
    setenv("GPUPOOL_SESSION_FILE", path, 1);
    return 0;
}

static int
clean(void **state)
{
    return unlink(path);
}

static void
session_file_names_server_and_ticket(void **state)
{
    struct stub_session s;
    struct gp_err err = {0};

    write_file("gpupool-session 1\nsession s7\nfuture thing\nserver [::1]:7481\n"
               "ticket abc.def\nticket another\n");
    assert_int_equal(stub_session_read(&s, &err), 0);
    assert_string_equal(s.name, "s7");
    assert_int_equal(s.n_servers, 1);
    assert_string_equal(s.servers[0].address, "[::1]:7481");
    assert_string_equal(s.servers[0].ticket, "abc.def");
    assert_null(s.servers[0].local);
    stub_session_fini(&s);
}

static void
session_file_names_several_servers_in_order(void **state)
{
    struct stub_session s;
    struct gp_err err = {0};

    write_file("gpupool-session 1\nsession s7\nserver a:1\nlocal unix:/a\nticket ta\n"
               "server b:2\nticket tb\n");
    assert_int_equal(stub_session_read(&s, &err), 0);
    assert_int_equal(s.n_servers, 2);
    assert_string_equal(s.servers[0].local, "unix:/a");
    assert_string_equal(s.servers[1].address, "b:2");
    assert_null(s.servers[1].local);
    assert_string_equal(s.servers[1].ticket, "tb");
    stub_session_fini(&s);
}

static void
more_servers_than_a_handle_can_name_are_refused(void **state)
{
    char text[2048] = "gpupool-session 1\n";
    struct stub_session s;
    struct gp_err err = {0};

    for (unsigned i = 0; i <= WIRE_LINKS_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "server h%u:1\nticket t\n", i);
    write_file(text);
    assert_int_equal(stub_session_read(&s, &err), -E2BIG);
    assert_non_null(strstr(err.msg, "at most 16 servers"));
}

static void
broken_session_file_is_refused_in_words(void **state)
{
    struct stub_session s;
    struct gp_err err = {0};

    write_file("something else\n");
    assert_int_equal(stub_session_read(&s, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "not a gpupool session file"));
    write_file("gpupool-session 1\nticket t\n");
    assert_int_equal(stub_session_read(&s, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "names no server"));
    write_file("gpupool-session 1\nserver a:1\nticket \n");
    assert_int_equal(stub_session_read(&s, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "names no ticket for a:1"));
    write_file("gpupool-session 1\nserver a:1\nticket t\nserver b:2\n");
    assert_int_equal(stub_session_read(&s, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "names no ticket for b:2"));
    setenv("GPUPOOL_SESSION_FILE", "/nonexistent/session", 1);
    assert_int_equal(stub_session_read(&s, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/session"));
}

static void
environment_serves_where_there_is_no_file(void **state)
{
    struct stub_session s;
    struct gp_err err = {0};

    unsetenv("GPUPOOL_SESSION_FILE");
    assert_int_equal(stub_session_read(&s, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "GPUPOOL_SERVER"));
    setenv("GPUPOOL_SERVER", "host:99", 1);
    setenv("GPUPOOL_TICKET", "tt", 1);
    assert_int_equal(stub_session_read(&s, &err), 0);
    assert_string_equal(s.servers[0].address, "host:99");
    assert_string_equal(s.servers[0].ticket, "tt");
    stub_session_fini(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(session_file_names_server_and_ticket, fresh,
                                        clean),
        cmocka_unit_test_setup_teardown(session_file_names_several_servers_in_order,
                                        fresh, clean),
        cmocka_unit_test_setup_teardown(more_servers_than_a_handle_can_name_are_refused,
                                        fresh, clean),
        cmocka_unit_test_setup_teardown(broken_session_file_is_refused_in_words, fresh,
                                        clean),
        cmocka_unit_test_setup_teardown(environment_serves_where_there_is_no_file,
                                        fresh, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
