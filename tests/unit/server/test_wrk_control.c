/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection's dispatch: what it executes, what it replies, and that any
 * other frame ends it without having done anything.  Stages and host functions are
 * stubs.
 */
#include "ut.h"

#include "wire_api.h"
#include "wrk.h"
#include "wrk_control.h"
#include "wrk_graph_hostmem.h"
#include "wrk_hostfn.h"
#include "xport.h"

#include <string.h>
#include <sys/socket.h>

#define STAGE 100u

static struct wrk_priv priv;
static struct wrk worker = {.priv = &priv};
static struct xport_conn *ours, *theirs;

/* What reached the rest of the worker. */
static uint64_t done_ticket, fill_ticket;
static unsigned n_done, n_fill;
static uint8_t stage[STAGE];

void
wrk_hostfn_done(struct wrk *w, uint64_t ticket)
{
    done_ticket = ticket;
    n_done++;
}

void
wrk_hostfns_see(struct wrk_hostfns *hosts)
{
}

bool
wrk_graph_hostmem_fill(struct wrk *w, uint64_t ticket, uint64_t token, uint64_t offset,
                       const void *from, uint64_t n)
{
    if (offset > STAGE || n > STAGE - offset)
        return false;
    fill_ticket = ticket;
    memcpy(stage + offset, from, n);
    n_fill++;
    return true;
}

bool
wrk_graph_hostmem_read(uint64_t token, uint64_t offset, void *to, uint64_t n)
{
    if (offset > STAGE || n > STAGE - offset)
        return false;
    memcpy(to, stage + offset, n);
    return true;
}

static int
setup(void **state)
{
    int pair[2];

    done_ticket = fill_ticket = n_done = n_fill = 0;
    memset(stage, 0, sizeof(stage));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(xport_tcp_new(pair[0], WRK_CONTROL_FRAME_MAX, &ours, NULL), 0);
    assert_int_equal(xport_tcp_new(pair[1], WRK_CONTROL_FRAME_MAX, &theirs, NULL), 0);
    return 0;
}

static int
teardown(void **state)
{
    xport_free(ours);
    xport_free(theirs);
    return 0;
}

/* A frame of @call, whose body is what the caller stores there. */
static struct {
    struct wire_req req;
    union {
        struct wire_gp_host_done_req done;
        struct wire_gp_stage_fill_req fill;
        struct wire_gp_stage_read_req read;
        uint8_t bytes[1024];
    } body;
} frame;

static void
frame_make(uint16_t call, uint16_t flags, uint32_t body_size)
{
    memset(&frame, 0, sizeof(frame));
    frame.req = (struct wire_req){.size = (uint32_t)sizeof(frame.req) + body_size,
                                  .call = call,
                                  .flags = flags,
                                  .seq = 1};
}

static const char *
execute(void)
{
    return wrk_control_execute(&worker, ours, &frame, frame.req.size, 1);
}

/* NULL: there is no reply. */
static const struct wire_rep *
reply(void)
{
    const void *rep;
    uint32_t size;

    return xport_recv(theirs, &rep, &size, 0) == 0 ? rep : NULL;
}

static void
done_releases_and_is_confirmed_when_asked(void **state)
{
    frame_make(WIRE_CALL_gp_host_done, 0, sizeof(frame.body.done));
    frame.body.done.ticket = 7;
    assert_null(execute());
    assert_int_equal(done_ticket, 7);
    assert_null(reply());
    frame.req.flags = WIRE_F_REPLY;
    assert_null(execute());
    assert_int_equal(n_done, 2);
    assert_int_equal(reply()->seq, 1);
}

static void
fill_make(uint64_t offset, uint32_t n, uint16_t flags)
{
    struct wire_gp_stage_fill_req head = {
        .ticket = 3, .token = 4, .offset = offset, .n = n};
    struct wire_gp_stage_fill_req_room room;

    frame_make(WIRE_CALL_gp_stage_fill, flags, wire_gp_stage_fill_req_size(&head));
    frame.body.fill = head;
    wire_gp_stage_fill_req_place(&room, &frame.body);
    memset(room.data, 0x5a, n);
}

static void
fill_and_read_move_bytes_of_a_stage(void **state)
{
    struct wire_gp_stage_read_rep_view view = {0};
    const struct wire_rep *rep;

    fill_make(10, 5, WIRE_F_REPLY);
    assert_null(execute());
    assert_int_equal(fill_ticket, 3);
    assert_int_equal(reply()->result, CUDA_SUCCESS);
    frame_make(WIRE_CALL_gp_stage_read, 0, sizeof(frame.body.read));
    frame.body.read = (struct wire_gp_stage_read_req){.token = 4, .offset = 9, .n = 3};
    assert_null(execute());
    rep = reply();
    assert_non_null(rep);
    assert_true(wire_gp_stage_read_rep_open(&view, rep + 1, rep->size - sizeof(*rep),
                                            rep->flags));
    assert_int_equal(view.f->len, 3);
    assert_memory_equal(view.data, "\0\x5a\x5a", 3);
}

static void
bytes_outside_of_the_stage_end_it_or_fail(void **state)
{
    fill_make(STAGE - 4, 5, 0);
    assert_string_equal(execute(), "gp_stage_fill: outside of the stage");
    fill_make(UINT64_MAX, 5, 0);
    assert_non_null(execute());
    assert_int_equal(n_fill, 0);
    frame_make(WIRE_CALL_gp_stage_read, 0, sizeof(frame.body.read));
    frame.body.read = (struct wire_gp_stage_read_req){.offset = 1, .n = STAGE};
    assert_null(execute());
    assert_int_equal(reply()->result, CUDA_ERROR_INVALID_VALUE);
    frame.body.read = (struct wire_gp_stage_read_req){.n = UINT32_MAX};
    assert_null(execute());
    assert_true(reply()->flags & WIRE_F_ERROR);
}

static void
hostile_frames_do_nothing(void **state)
{
    frame_make(WIRE_CALL_cuMemAlloc_v2, 0, 16);
    assert_string_equal(execute(), "a call that does not belong on this connection");
    frame_make(WIRE_CALL_gp_stage_write, 0, 64);
    assert_non_null(execute());
    for (unsigned bit = 0; bit < 16; bit++) {
        frame_make(WIRE_CALL_gp_host_done, (uint16_t)(1u << bit),
                   sizeof(frame.body.done));
        if (frame.req.flags != WIRE_F_REPLY)
            assert_string_equal(execute(), "unknown flags");
    }
    frame_make(WIRE_CALL_gp_host_done, 0, sizeof(frame.body.done));
    frame.req.seq = 2;
    assert_string_equal(execute(), "out of order");
    frame_make(WIRE_CALL_gp_host_done, 0, 0);
    assert_string_equal(execute(), "gp_host_done: malformed body");
    assert_non_null(wrk_control_execute(&worker, ours, &frame, 8, 1));
    assert_int_equal(n_done, 0);
}

/* Every length but the right one, and a count that says more than there is. */
static void
truncated_fills_do_nothing(void **state)
{
    uint32_t size;

    fill_make(0, 21, 0);
    size = frame.req.size;
    for (uint32_t n = sizeof(frame.req); n <= size + 64; n += 8)
        if (n != size)
            assert_non_null(wrk_control_execute(&worker, ours, &frame, n, 1));
    for (unsigned bit = 3; bit < 32; bit++) {
        fill_make(0, 21, 0);
        frame.body.fill.n ^= 1u << bit;
        assert_non_null(execute());
    }
    assert_int_equal(n_fill, 0);
    assert_null(reply());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(done_releases_and_is_confirmed_when_asked),
        TEST(fill_and_read_move_bytes_of_a_stage),
        TEST(bytes_outside_of_the_stage_end_it_or_fail),
        TEST(hostile_frames_do_nothing),
        TEST(truncated_fills_do_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
