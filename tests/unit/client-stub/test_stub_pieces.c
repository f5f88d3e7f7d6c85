/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of pieces are tried where a worker takes them, and the faster one is kept. */
#include "ut_loopback.h"
#include "ut_stub.h"

#include "gp_trial.h"
#include "stub_pieces.h"
#include "wire_api.h"

#include <unistd.h>

#define SIZE (4u << 20)
#define A_TRIAL (4u * GP_TRIAL_TURNS)

static struct xport_conn *worker;

/* So short that a busy machine seldom takes the core away meanwhile. */
static void
busy_us(unsigned us)
{
    uint64_t until = gp_now_ns() + us * UINT64_C(1000);

    while (gp_now_ns() < until)
        ;
}

/* The last lengths that the worker was told since it was asked last; false: none. */
static bool
told(struct wire_gp_pieces_req *ret)
{
    const struct wire_req *head;
    bool any = false;

    assert_int_equal(xport_flush(stub_links[0].conn), 0);
    while ((head = ut_stub_sent(worker))) {
        assert_int_equal(head->call, WIRE_CALL_gp_pieces);
        assert_int_equal(head->flags, 0);
        memcpy(ret, head + 1, sizeof(*ret));
        any = true;
    }
    return any;
}

/* A copy that takes ten times as long with the length that both ends begin with,
 * where @short_wins, or with the other one.  The length it had. */
static uint32_t
copied(enum stub_direction direction, bool short_wins)
{
    struct stub_link *link = &stub_links[0];
    struct stub_pieces_use use;
    uint32_t length;

    stub_pieces_begin(&use, direction, SIZE);
    assert_ptr_equal(use.link, link);
    length = direction == STUB_H2D ? atomic_load(&link->conn->pieces_chosen)
                                   : atomic_load(&link->conn->piece_in);
    busy_us((length != 0) == short_wins ? 40 : 400);
    stub_pieces_end(&use, true);
    return length;
}

static int
connect_once(void **state)
{
    struct stub_link *link = &stub_links[0];
    int fd[2];

    (void)state;
    ut_stub_attach(NULL);
    loopback(fd);
    assert_int_equal(xport_tcp_new(fd[0], WIRE_FRAME_MAX, &link->conn, NULL), 0);
    assert_int_equal(xport_tcp_new(fd[1], WIRE_FRAME_MAX, &worker, NULL), 0);
    stub_link_set_phase(link, STUB_READY);
    assert_int_equal(stub_ctx_push(stub_ctx_primary(0)), 0);
    return 0;
}

static int
disconnect(void **state)
{
    (void)state;
    xport_free(stub_links[0].conn);
    xport_free(worker);
    return 0;
}

static void
test_nothing_is_tried_with_an_older_worker_or_with_short_copies(void **state)
{
    struct stub_link *link = &stub_links[0];
    struct stub_pieces_use use;

    (void)state;
    link->takes_pieces = false;
    stub_pieces_begin(&use, STUB_H2D, SIZE);
    assert_null(use.link);
    stub_pieces_end(&use, true);
    link->takes_pieces = true;
    stub_pieces_begin(&use, STUB_H2D, 512u << 10);
    assert_null(use.link);
    stub_pieces_begin(&use, STUB_D2H, 64u << 10);
    assert_null(use.link);
}

/* What two threads copy at a time is measured once. */
static void
test_one_copy_is_measured_at_a_time(void **state)
{
    struct stub_pieces_use first, second;

    (void)state;
    stub_pieces_begin(&first, STUB_H2D, SIZE);
    stub_pieces_begin(&second, STUB_D2H, SIZE);
    assert_non_null(first.link);
    assert_null(second.link);
    stub_pieces_end(&second, true);
    stub_pieces_end(&first, false);
}

/* The trip over loopback, which a machine that is busy makes longer. */
static void
be_close(void)
{
    const struct stub_link *link = &stub_links[0];

    for (unsigned i = 0; i < 10000 && !xport_pieces_matter(link->conn); i++) {
        char byte = 0;

        assert_int_equal(write(link->conn->fd, "", 1), 1);
        assert_int_equal(read(worker->fd, &byte, 1), 1);
    }
    assert_true(xport_pieces_matter(link->conn));
}

static void
test_faster_length_is_kept_for_each_direction(void **state)
{
    struct wire_gp_pieces_req req;
    uint32_t lengths = 0;

    (void)state;
    be_close();
    assert_false(told(&req));
    for (unsigned i = 0; i < GP_TRIAL_FIRST; i++)
        assert_int_equal(copied(STUB_H2D, true), 0);
    assert_false(told(&req));
    for (unsigned i = 0; i < A_TRIAL; i++)
        lengths += copied(STUB_H2D, true) != 0;
    assert_int_equal(lengths, A_TRIAL / 2);
    assert_int_equal(copied(STUB_H2D, true), xport_piece_short());
    assert_true(told(&req));
    assert_int_equal(req.up, xport_piece_short());
    assert_int_equal(req.down, 0);

    for (unsigned i = 0; i < GP_TRIAL_FIRST + A_TRIAL; i++)
        copied(STUB_D2H, false);
    assert_int_equal(copied(STUB_D2H, false), 0);
    assert_true(told(&req));
    assert_int_equal(req.up, xport_piece_short());
    assert_int_equal(req.down, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_nothing_is_tried_with_an_older_worker_or_with_short_copies),
        cmocka_unit_test(test_one_copy_is_measured_at_a_time),
        cmocka_unit_test(test_faster_length_is_kept_for_each_direction),
    };

    return cmocka_run_group_tests(tests, connect_once, disconnect);
}
