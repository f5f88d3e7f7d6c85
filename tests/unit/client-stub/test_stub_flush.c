/* SPDX-License-Identifier: Apache-2.0 */
/* The flusher on a real connection: what it sends, and when it sleeps. */
#include "ut_stub.h"

#include "gp_net.h"
#include "stub_call.h"
#include "stub_flush.h"
#include "wire_api.h"

#include <time.h>

#define CALL WIRE_CALL_cuStreamSynchronize
#define DEADLINE_NS (20 * (uint64_t)GP_NS_PER_S)

static struct stub_link *const the_link = &stub_links[0];
static struct xport_conn *worker;

static int
connect_and_start(void **state)
{
    (void)state;
    ut_stub_attach(NULL);
    worker = ut_stub_connect();
    atomic_store(&stub_tls.ctx->alive, true);
    return stub_flush_start(the_link);
}

static void
post(void)
{
    struct stub_call c;

    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    memset(c.body, 0, 8);
    assert_int_equal(stub_call_post(&c), CUDA_SUCCESS);
}

/* As a call that its own thread sends: what was queued leaves, if anything was. */
static void
send_at_once(void)
{
    gp_lock_take(&the_link->send);
    assert_int_equal(xport_flush(the_link->conn), 0);
    atomic_store(&the_link->queued, 0);
    atomic_fetch_add(&the_link->flushes, 1);
    gp_lock_release(&the_link->send);
}

static bool
asleep(void)
{
    return atomic_load(&the_link->flush_asleep);
}

static void
pass(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Calls that wait, and copies, are sent by who makes them.  While nothing else is done
 * nobody looks every 0.4 ms, which takes the core from the program for as long as 50
 * calls take. */
static void
calls_that_send_themselves_let_it_sleep(void **state)
{
    uint64_t end = gp_now_ns() + DEADLINE_NS;

    (void)state;
    while (!asleep() && gp_now_ns() < end) {
        send_at_once();
        pass(20000);
    }
    assert_true(asleep());
    for (int i = 0; i < 1000; i++) {
        send_at_once();
        assert_true(asleep());
    }
}

static void
frame_that_nobody_sends_is_sent(void **state)
{
    uint64_t end = gp_now_ns() + DEADLINE_NS;

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct wire_req *req = NULL;

        while (!asleep() && gp_now_ns() < end)
            pass(100000);
        assert_true(asleep());
        post();
        while (!req && gp_now_ns() < end)
            req = ut_stub_sent(worker);
        assert_non_null(req);
        assert_int_equal(req->call, CALL);
    }
}

/* Who queues frames again and again would have to wake it again and again. */
static void
queued_frames_keep_it_awake(void **state)
{
    uint64_t begin = gp_now_ns();

    (void)state;
    post();
    while (gp_now_ns() - begin < 200 * GP_NS_PER_MS) {
        uint64_t posted = gp_now_ns();

        post();
        send_at_once();
        while (ut_stub_sent(worker))
            ;
        /* Switched away for long, this thread has queued nothing for long. */
        assert_true(!asleep() || gp_now_ns() - posted > 5 * GP_NS_PER_MS);
    }
}

/* The bytes of a copy to the host come when the card is done with it, and somebody has
 * to read them then. */
static void
copy_to_the_host_keeps_it_awake(void **state)
{
    uint64_t begin;

    (void)state;
    atomic_store(&the_link->d2h_in_flight, 1);
    post();
    begin = gp_now_ns();
    while (gp_now_ns() - begin < 100 * GP_NS_PER_MS) {
        uint64_t sent = gp_now_ns();

        send_at_once();
        pass(20000);
        assert_true(!asleep() || gp_now_ns() - sent > 5 * GP_NS_PER_MS);
    }
    atomic_store(&the_link->d2h_in_flight, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_send_themselves_let_it_sleep),
        cmocka_unit_test(frame_that_nobody_sends_is_sent),
        cmocka_unit_test(queued_frames_keep_it_awake),
        cmocka_unit_test(copy_to_the_host_keeps_it_awake),
    };

    return cmocka_run_group_tests_name("stub_flush", tests, connect_and_start, NULL);
}
