/* SPDX-License-Identifier: Apache-2.0 */
/* How sockets are set that become connections. */
#include "ut.h"
#include "ut_loopback.h"

#include "gp_time.h"
#include "xport.h"
#include "xport_stream.h"

#include <netinet/tcp.h>
#include <string.h>

#define FRAME_MAX 4096u

/* What the socket of a new connection uses whose system would use @wanted. */
static void
congestion_control_of(const char *wanted, char ret[16])
{
    struct xport_conn *conn = NULL;
    socklen_t len = 15;
    int fd[2];

    memset(ret, 0, 16);
    loopback(fd);
    if (setsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, wanted,
                   (socklen_t)strlen(wanted)) == 0) {
        assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
        assert_int_equal(getsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, ret, &len), 0);
        xport_free(conn);
    } else {
        close(fd[0]);
    }
    close(fd[1]);
}

static int
queue_of(int fd, int which)
{
    socklen_t len = sizeof(which);
    int bytes;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, which, &bytes, &len), 0);
    return bytes;
}

/* Longer than the system allows would be what it allows, and shorter than what the
 * kernel chooses where nobody asks. */
static void
queues_are_as_long_as_wanted_or_the_kernels(void **state)
{
    static const int which[] = {SO_SNDBUF, SO_RCVBUF};
    struct xport_conn *conn;
    int fd[2];

    (void)state;
    loopback(fd);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
    assert_true(conn->piece >= 128 << 10);
    for (unsigned i = 0; i < 2; i++) {
        int wanted = (int)conn->piece * (i ? 8 : 1), got = queue_of(conn->fd, which[i]);

        assert_true(got == 2 * wanted || got == queue_of(fd[1], which[i]));
    }
    xport_free(conn);
    close(fd[1]);
}

/* The queue to send follows the length of pieces, and goes back, where the system lets
 * it; and what was set is set again when the socket is another one. */
static void
queue_follows_the_pieces(void **state)
{
    struct xport_conn *conn;
    uint32_t piece;
    bool may;
    int fd[2];

    (void)state;
    loopback(fd);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
    piece = xport_piece(conn);
    may = queue_of(conn->fd, SO_SNDBUF) == 2 * (int)piece;
    assert_int_equal(xport_piece_in(conn), 0);
    xport_pieces(conn, 64u << 10, 128u << 10);
    assert_int_equal(xport_piece(conn), 64u << 10);
    assert_int_equal(xport_piece_in(conn), 128u << 10);
    assert_true(!may || queue_of(conn->fd, SO_SNDBUF) == 128 << 10);
    xport_tcp_prepare(conn, conn->fd);
    assert_int_equal(xport_piece(conn), 64u << 10);
    assert_int_equal(xport_piece_in(conn), 128u << 10);
    assert_true(!may || queue_of(conn->fd, SO_SNDBUF) == 128 << 10);
    xport_pieces(conn, 0, 0);
    assert_int_equal(xport_piece(conn), piece);
    assert_int_equal(xport_piece_in(conn), 0);
    assert_true(!may || queue_of(conn->fd, SO_SNDBUF) == 2 * (int)piece);
    xport_free(conn);
    close(fd[1]);
}

static bool
is_near(int fd)
{
    struct xport_conn *conn;
    bool near;

    assert_int_equal(xport_tcp_new(fd, FRAME_MAX, &conn, NULL), 0);
    near = conn->near;
    xport_free(conn);
    return near;
}

/* Which small copies ride in frames: a Unix socket has no round trip to go by. */
static void
short_line_is_known_as_one(void **state)
{
    int fd[2];

    loopback(fd);
    assert_true(is_near(fd[0]));
    assert_true(is_near(fd[1]));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_false(is_near(fd[0]));
    close(fd[1]);
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

/* A frame stays as it is in the buffer that is exchanged, and what was received behind
 * it, a part of the third, is found in the other one. */
static void
frames_go_on_in_the_buffer_that_was_exchanged(void **state)
{
    struct xport_conn *conn;
    const uint32_t *frame;
    uint8_t *buffer, *full;
    uint32_t words[3][16];
    uint32_t size;
    size_t bytes;
    int fd[2];

    (void)state;
    loopback(fd);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
    assert_true(xport_can(conn, XPORT_CAN_EXCHANGE));
    buffer = xport_exchange_new(conn, &bytes);
    assert_non_null(buffer);
    for (uint32_t turn = 0; turn < 4; turn++) {
        for (uint32_t i = 0; i < 48; i++)
            words[i / 16][i % 16] = i % 16 ? turn * 100 + i : sizeof(words[0]);
        assert_int_equal(send(fd[1], words, sizeof(words) - 8, 0), sizeof(words) - 8);
        assert_int_equal(xport_recv(conn, (const void **)&frame, &size, GP_FOREVER), 0);
        full = xport_exchange(conn, buffer);
        assert_true((const uint8_t *)frame >= full &&
                    (const uint8_t *)frame + size <= full + bytes);
        assert_memory_equal(frame, words[0], size);
        assert_int_equal(send(fd[1], &words[2][14], 8, 0), 8);
        for (uint32_t i = 1; i < 3; i++) {
            const void *next;

            assert_int_equal(xport_recv(conn, &next, &size, GP_FOREVER), 0);
            assert_true((const uint8_t *)next >= buffer &&
                        (const uint8_t *)next + size <= buffer + bytes);
            assert_memory_equal(next, words[i], size);
        }
        assert_memory_equal(frame, words[0], sizeof(words[0]));
        buffer = full;
    }
    free(buffer);
    xport_free(conn);
    close(fd[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_go_on_in_the_buffer_that_was_exchanged),
        cmocka_unit_test(queues_are_as_long_as_wanted_or_the_kernels),
        cmocka_unit_test(queue_follows_the_pieces),
        cmocka_unit_test(link_within_reach_is_not_paced),
        cmocka_unit_test(short_line_is_known_as_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
