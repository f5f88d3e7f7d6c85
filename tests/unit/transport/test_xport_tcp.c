/* SPDX-License-Identifier: Apache-2.0 */
/* How sockets are set that become connections. */
#include "ut.h"

#include "xport.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAX 4096u

/* What the socket of a new connection uses whose system would use @wanted. */
static void
congestion_control_of(const char *wanted, char ret[16])
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
    socklen_t size = sizeof(addr), len = 15;
    struct xport_conn *conn = NULL;

    memset(ret, 0, 16);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, size), 0);
    peer = accept(listener, NULL, NULL);
    close(listener);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted,
                   (socklen_t)strlen(wanted)) == 0) {
        assert_int_equal(xport_tcp_new(fd, FRAME_MAX, &conn, NULL), 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ret, &len), 0);
        xport_free(conn);
    } else {
        close(fd);
    }
    close(peer);
}

static void
link_within_reach_is_not_paced(void **state)
{
    char bbr[16], other[16];

    congestion_control_of("bbr", bbr);
    congestion_control_of("cubic", other);
    if (!*bbr) {
        print_message("no BBR in this kernel, or not allowed\n");
        skip();
    }
    assert_string_equal(bbr, "reno");
    assert_true(!*other || strcmp(other, "cubic") == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_within_reach_is_not_paced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
