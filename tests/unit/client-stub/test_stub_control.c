/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection's side of the client, over sockets whose other ends are here.
 */
#include "ut.h"

#include "stub_control.c"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#define TOKEN 7
#define TICKET 3

static struct control *c = &controls[0];
static int worker = -1; /* the other end of the connection in use */

static void
connected(void)
{
    struct gp_err err = {0};
    struct xport_conn *conn;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(xport_tcp_new(fds[0], FRAME_MAX, &conn, &err), 0);
    if (worker >= 0)
        close(worker);
    worker = fds[1];
    c->round++;
    control_up(c, conn);
}

static int
start(void **state)
{
    (void)state;
    c->link = &stub_links[0];
    phase_set(c, CONTROL_OPENING);
    connected();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    control_down(c);
    c->n = 0;
    close(worker);
    worker = -1;
    return 0;
}

static bool
nothing_came(void)
{
    struct pollfd fd = {.fd = worker, .events = POLLIN};

    return poll(&fd, 1, 50) == 0;
}

/* The next frame, whose call must be @call. */
static struct wire_req
frame_came(uint16_t call)
{
    char body[FRAME_MAX];
    struct wire_req req;

    assert_int_equal(recv(worker, &req, sizeof(req), MSG_WAITALL), sizeof(req));
    assert_in_range(req.size, sizeof(req), FRAME_MAX);
    assert_int_equal(recv(worker, body, req.size - sizeof(req), MSG_WAITALL),
                     req.size - sizeof(req));
    assert_int_equal(req.call, call);
    return req;
}

static int
fill(uint32_t number, bool last)
{
    return stub_control_fill(&stub_links[0], number, TICKET, TOKEN, 0, "bytes..", 8,
                             last);
}

/* What the connection before has carried may have been lost with it: the copy would be
 * confirmed without its beginning. */
static void
copy_does_not_go_on_over_the_next_connection(void **state)
{
    uint32_t number = stub_control_number(&stub_links[0]);
    char to[8];

    (void)state;
    assert_int_not_equal(number, 0);
    assert_int_equal(fill(number, false), 0);
    frame_came(WIRE_CALL_gp_stage_fill);
    control_down(c);
    connected();
    assert_int_equal(fill(number, false), -ECONNRESET);
    assert_int_equal(fill(number, true), -ECONNRESET);
    assert_int_equal(stub_control_fetch(&stub_links[0], number, TOKEN, 0, to, 8),
                     -ECONNRESET);
    assert_true(nothing_came());
    assert_int_not_equal(stub_control_number(&stub_links[0]), number);
    assert_int_equal(fill(stub_control_number(&stub_links[0]), false), 0);
    frame_came(WIRE_CALL_gp_stage_fill);
}

/* Answers the next frame. */
static void *
answer(void *result)
{
    char body[FRAME_MAX];
    struct wire_req req;
    struct wire_rep rep = {.size = sizeof(rep)};

    if (recv(worker, &req, sizeof(req), MSG_WAITALL) != sizeof(req) ||
        recv(worker, body, req.size - sizeof(req), MSG_WAITALL) < 0)
        return NULL;
    rep.call = req.call;
    rep.seq = req.seq;
    rep.result = *(const int *)result;
    rep.flags = rep.result ? WIRE_F_ERROR : 0;
    reply_came(c, &rep);
    return result;
}

/* A refusal is no broken connection: it would be tried again for ever. */
static void
refusal_is_told_from_a_broken_connection(void **state)
{
    static int results[] = {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE};
    static const int means[] = {0, -EBADMSG};
    pthread_t thread;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, answer, &results[i]), 0);
        assert_int_equal(fill(stub_control_number(&stub_links[0]), true), means[i]);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

/* It is said again over the next connection until it is confirmed. */
static void
function_that_has_returned_is_said_again(void **state)
{
    struct wire_rep rep = {.size = sizeof(rep), .call = WIRE_CALL_gp_host_done};

    (void)state;
    assert_true(stub_control_done(&stub_links[0], TICKET));
    frame_came(WIRE_CALL_gp_host_done);
    control_down(c);
    assert_false(stub_control_done(&stub_links[0], TICKET + 1)); /* nothing is there */
    connected();
    frame_came(WIRE_CALL_gp_host_done);
    rep.seq = frame_came(WIRE_CALL_gp_host_done).seq;
    reply_came(c, &rep);
    assert_int_equal(c->n, 1);
    control_down(c);
    connected();
    frame_came(WIRE_CALL_gp_host_done);
    assert_true(nothing_came());
}

/* Nobody waits for ever for a connection that will not come. */
static void
without_a_connection_there_is_no_number(void **state)
{
    (void)state;
    control_down(c);
    control_never(c);
    assert_int_equal(stub_control_number(&stub_links[0]), 0);
    assert_false(stub_control_done(&stub_links[0], TICKET));
    phase_set(c, CONTROL_OPENING);
    connected();
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        T(copy_does_not_go_on_over_the_next_connection),
        T(refusal_is_told_from_a_broken_connection),
        T(function_that_has_returned_is_said_again),
        T(without_a_connection_there_is_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
