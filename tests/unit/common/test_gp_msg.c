/* SPDX-License-Identifier: Apache-2.0 */
/* Length-prefixed messages, blocking and on a loop. */
#include "ut.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_loop.h"
#include "gp_msg.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static uint64_t
soon(void)
{
    return gp_now_ns() + 5 * GP_NS_PER_S;
}

static void
message_arrives_whole(void **state)
{
    int fd[2];
    void *msg;
    size_t len;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(gp_msg_send(fd[0], "hello", 5, soon(), NULL), 0);
    assert_int_equal(gp_msg_send(fd[0], "", 0, soon(), NULL), 0);
    assert_int_equal(gp_msg_recv(fd[1], 5, soon(), &msg, &len, NULL), 0);
    assert_int_equal(len, 5);
    assert_memory_equal(msg, "hello", 5);
    free(msg);
    assert_int_equal(gp_msg_recv(fd[1], 5, soon(), &msg, &len, NULL), 0);
    assert_int_equal(len, 0);
    free(msg);
    close(fd[0]);
    close(fd[1]);
}

static void
oversize_close_and_silence_are_told_apart(void **state)
{
    struct gp_err err = {0};
    int fd[2];
    void *msg;
    size_t len;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(gp_msg_recv(fd[1], 9, gp_now_ns(), &msg, &len, NULL), -ETIMEDOUT);
    assert_int_equal(gp_msg_send(fd[0], "0123456789", 10, soon(), NULL), 0);
    assert_int_equal(gp_msg_recv(fd[1], 9, soon(), &msg, &len, &err), -EMSGSIZE);
    assert_string_equal(err.msg, "a message of 10 bytes, over the limit of 9");
    close(fd[0]);
    assert_int_equal(recv(fd[1], (char[16]){0}, 10, 0), 10);
    assert_int_equal(gp_msg_recv(fd[1], 9, soon(), &msg, &len, NULL), -ECONNRESET);
    close(fd[1]);
}

struct peer {
    struct gp_msg_conn conn;
    struct gp_loop *loop;
    unsigned n_msgs;
    int closed; /* 1 + -code */
    char last[32];
};

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct peer *peer = container_of(conn, struct peer, conn);

    peer->n_msgs++;
    memcpy(peer->last, data, len);
    peer->last[len] = 0;
    if (!strcmp(peer->last, "echo"))
        assert_int_equal(gp_msg_conn_send(conn, "echoed", 6), 0);
    if (!strcmp(peer->last, "fini"))
        gp_msg_conn_fini(conn);
    if (!strcmp(peer->last, "stop") || !strcmp(peer->last, "fini"))
        gp_loop_stop(peer->loop, 0);
}

static void
on_close(struct gp_msg_conn *conn, int code)
{
    struct peer *peer = container_of(conn, struct peer, conn);

    peer->closed = 1 - code;
    gp_loop_stop(peer->loop, 0);
}

static void
peer_make(struct peer *peer, int *ret_fd)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    *peer = (struct peer){0};
    assert_int_equal(gp_loop_new(&peer->loop, NULL), 0);
    assert_int_equal(
        gp_msg_conn_init(&peer->conn, peer->loop, fd[0], 16, 64, on_msg, on_close), 0);
    *ret_fd = fd[1];
}

static void
peer_end(struct peer *peer, int fd)
{
    gp_msg_conn_fini(&peer->conn);
    gp_loop_free(peer->loop);
    close(fd);
}

static void
loop_delivers_several_messages_of_one_read(void **state)
{
    struct peer peer;
    void *msg;
    size_t len;
    int fd;

    peer_make(&peer, &fd);
    gp_msg_send(fd, "one", 3, soon(), NULL);
    gp_msg_send(fd, "echo", 4, soon(), NULL);
    gp_msg_send(fd, "stop", 4, soon(), NULL);
    assert_int_equal(gp_loop_run(peer.loop), 0);
    assert_int_equal(peer.n_msgs, 3);
    assert_int_equal(gp_msg_recv(fd, 16, soon(), &msg, &len, NULL), 0);
    assert_int_equal(len, 6);
    free(msg);
    peer_end(&peer, fd);
}

static void
loop_ends_a_connection_that_sends_too_much(void **state)
{
    struct peer peer;
    int fd;

    peer_make(&peer, &fd);
    gp_msg_send(fd, "0123456789abcdefg", 17, soon(), NULL);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.closed, 1 + EMSGSIZE);
    assert_int_equal(peer.n_msgs, 0);
    peer_end(&peer, fd);
}

static void
callback_may_end_its_own_connection(void **state)
{
    struct peer peer;
    int fd;

    peer_make(&peer, &fd);
    gp_msg_send(fd, "fini", 4, soon(), NULL);
    gp_msg_send(fd, "late", 4, soon(), NULL);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.n_msgs, 1);
    assert_int_equal(peer.closed, 0);
    peer_end(&peer, fd);
}

static void
slow_reader_meets_the_queue_limit(void **state)
{
    struct peer peer;
    int fd, r = 0, n = 0, small = 1;

    peer_make(&peer, &fd);
    setsockopt(peer.conn.src.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    while (!r && n++ < 100000)
        r = gp_msg_conn_send(&peer.conn, "0123456789abcdef", 16);
    assert_int_equal(r, -ENOBUFS);
    peer_end(&peer, fd);
}

static void
reader_that_lags_behind_costs_no_more_than_the_queue(void **state)
{
    char block[4096] = {0};
    struct peer peer;
    int fd, small = 4096;

    peer_make(&peer, &fd);
    setsockopt(peer.conn.src.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    peer.conn.max_queue = 256 * 1024;
    while (gp_msg_conn_unsent(&peer.conn) < 128 * 1024)
        assert_int_equal(gp_msg_conn_send(&peer.conn, block, sizeof(block)), 0);
    /* Many times the queue, which never runs empty. */
    for (int i = 0; i < 2000; i++) {
        ssize_t n = recv(fd, block, sizeof(block), MSG_DONTWAIT);

        assert_true(n > 4);
        assert_int_equal(gp_msg_conn_send(&peer.conn, block, (size_t)n - 4), 0);
        assert_true(gp_msg_conn_unsent(&peer.conn) > 0);
        assert_true(peer.conn.out_cap <= peer.conn.max_queue);
    }
    peer_end(&peer, fd);
}

/* Everything that is ready is handled when the loop comes to its timers. */
static struct gp_loop *turning;

static void
on_turned(struct gp_loop_timer *timer)
{
    gp_loop_stop(turning, 0);
}

static void
turn(struct peer *peer)
{
    struct gp_loop_timer timer = {0};

    turning = peer->loop;
    gp_loop_timer_set(peer->loop, &timer, gp_now_ns() + 20 * GP_NS_PER_MS, on_turned);
    gp_loop_run(peer->loop);
    gp_loop_timer_del(&timer);
}

static void
peer_that_reads_no_answers_is_not_read_either(void **state)
{
    struct peer peer;
    unsigned before;
    int fd, small = 1;

    peer_make(&peer, &fd);
    setsockopt(peer.conn.src.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    peer.conn.max_queue = 64 * 1024;
    peer.conn.busy_mark = 1000;
    for (int i = 0; i < 5000; i++)
        if (gp_msg_send(fd, "echo", 4, gp_now_ns() + 50 * GP_NS_PER_MS, NULL) < 0)
            break;
    turn(&peer);
    assert_in_range(gp_msg_conn_unsent(&peer.conn), 900, 1100);
    before = peer.n_msgs;
    turn(&peer);
    assert_int_equal(peer.n_msgs, before);
    /* It reads: its requests go on by themselves, in order and without loss. */
    for (int i = 0; i < 200; i++) {
        char buf[8192];

        while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
            ;
        turn(&peer);
        if (peer.n_msgs > before + 100)
            break;
    }
    assert_true(peer.n_msgs > before + 100);
    assert_int_equal(peer.closed, 0);
    peer_end(&peer, fd);
}

static void
held_connection_delivers_later(void **state)
{
    struct peer peer;
    int fd;

    peer_make(&peer, &fd);
    gp_msg_conn_hold(&peer.conn, true);
    gp_msg_send(fd, "stop", 4, soon(), NULL);
    turn(&peer);
    assert_int_equal(peer.n_msgs, 0);
    gp_msg_conn_hold(&peer.conn, false);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.n_msgs, 1);
    peer_end(&peer, fd);
}

static void
on_msg_hold(struct gp_msg_conn *conn, const void *data, size_t len)
{
    on_msg(conn, data, len);
    gp_msg_conn_hold(conn, true);
}

/* As many as the socket takes; bytes of a message that it does not take whole come
 * next. */
static size_t
flood(int fd, size_t sent)
{
    static const char one[] = {4, 0, 0, 0, 'e', 'a', 'c', 'h'};
    char many[64 * 1024 + sizeof(one)];
    ssize_t n;

    for (size_t i = 0; i < sizeof(many); i += sizeof(one))
        memcpy(many + i, one, sizeof(one));
    while ((n = send(fd, many + sent % sizeof(one), 64 * 1024, MSG_DONTWAIT)) > 0)
        sent += (size_t)n;
    return sent;
}

static void
peer_that_is_held_at_each_message_fills_no_memory(void **state)
{
    enum { TIMES = 50 };
    struct peer peer;
    size_t sent = 0;
    int fd;

    peer_make(&peer, &fd);
    peer.conn.on_msg = on_msg_hold;
    for (unsigned i = 1; i <= TIMES; i++) {
        sent = flood(fd, sent);
        gp_msg_conn_hold(&peer.conn, false);
        turn(&peer);
        assert_int_equal(peer.n_msgs, i);
        assert_in_range(peer.conn.in_cap, 0, 8192);
    }
    assert_int_equal(peer.closed, 0);
    /* What waits in the buffer and in the socket comes once it is not held any more. */
    peer.conn.on_msg = on_msg;
    gp_msg_conn_hold(&peer.conn, false);
    for (int i = 0; peer.n_msgs < sent / 8 && i < 1000; i++)
        turn(&peer);
    assert_int_equal(peer.n_msgs, sent / 8);
    peer_end(&peer, fd);
}

static bool
only_good_ones(struct gp_msg_conn *conn, const void *data, size_t len, size_t total)
{
    assert_int_equal(len, gp_min(total, (size_t)GP_MSG_PEEK));
    conn->max_msg = total;
    return !memcmp(data, "good", 4);
}

static void
large_message_is_judged_by_its_first_bytes(void **state)
{
    struct peer peer;
    int fd;

    peer_make(&peer, &fd);
    peer.conn.on_large = only_good_ones;
    gp_msg_send(fd, "good and longer than 16", 23, soon(), NULL);
    gp_msg_send(fd, "stop", 4, soon(), NULL);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.n_msgs, 2);
    peer.conn.max_msg = 16;
    gp_msg_send(fd, "evil and longer than 16", 23, soon(), NULL);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.closed, 1 + EMSGSIZE);
    peer_end(&peer, fd);
}

static void
end_of_the_other_side_is_reported_once(void **state)
{
    struct peer peer;
    int fd;

    peer_make(&peer, &fd);
    close(fd);
    gp_loop_run(peer.loop);
    assert_int_equal(peer.closed, 1);
    peer_end(&peer, -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_arrives_whole),
        cmocka_unit_test(oversize_close_and_silence_are_told_apart),
        cmocka_unit_test(loop_delivers_several_messages_of_one_read),
        cmocka_unit_test(loop_ends_a_connection_that_sends_too_much),
        cmocka_unit_test(callback_may_end_its_own_connection),
        cmocka_unit_test(slow_reader_meets_the_queue_limit),
        cmocka_unit_test(reader_that_lags_behind_costs_no_more_than_the_queue),
        cmocka_unit_test(peer_that_reads_no_answers_is_not_read_either),
        cmocka_unit_test(held_connection_delivers_later),
        cmocka_unit_test(peer_that_is_held_at_each_message_fills_no_memory),
        cmocka_unit_test(large_message_is_judged_by_its_first_bytes),
        cmocka_unit_test(end_of_the_other_side_is_reported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
