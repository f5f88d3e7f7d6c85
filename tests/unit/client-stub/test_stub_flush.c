/* SPDX-License-Identifier: Apache-2.0 */
/* The flusher on a real connection: what it sends, and when it sleeps. */
#include "ut_stub.h"

#include "gp_net.h"
#include "stub_call.h"
#include "stub_flush.h"
#include "stub_send_overflow.h"
#include "wire_api.h"

#include <pthread.h>
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

/* Do @act again and again for 200 ms and see that the flusher is awake.  It may sleep
 * when nothing was done for a millisecond, so turns in which this thread was switched
 * away, and those behind them, do not count; nor does one sleep in 50 ms of the others,
 * which it had decided on before and was itself switched away.  One that sleeps wrongly
 * does so every 10 ms at least, because it is woken each time. */
static void
assert_stays_awake(void (*act)(void))
{
    uint64_t last = gp_now_ns(), end = last + 200 * GP_NS_PER_MS;
    uint64_t turn_ns = 0, counted_ns = 0, slept = 0;

    while (last < end) {
        uint64_t before_ns = turn_ns;
        const void *frame;
        uint32_t size;
        bool slept_now;

        act();
        pass(20000);
        slept_now = asleep();
        while (xport_recv(worker, &frame, &size, 0) == 0)
            ;
        if (slept_now)
            post();
        turn_ns = gp_now_ns() - last;
        last += turn_ns;
        if (gp_max(before_ns, turn_ns) < GP_NS_PER_MS / 2) {
            counted_ns += turn_ns;
            slept += slept_now;
        }
    }
    assert_true(slept <= 1 + counted_ns / (50 * GP_NS_PER_MS));
}

static void
post_and_send(void)
{
    post();
    send_at_once();
}

/* Who queues frames again and again would have to wake it again and again. */
static void
queued_frames_keep_it_awake(void **state)
{
    (void)state;
    assert_stays_awake(post_and_send);
}

/* The bytes of a copy to the host come when the card is done with it, and somebody has
 * to read them then. */
static void
copy_to_the_host_keeps_it_awake(void **state)
{
    (void)state;
    atomic_store(&the_link->d2h_in_flight, 1);
    post();
    assert_stays_awake(send_at_once);
    atomic_store(&the_link->d2h_in_flight, 0);
}

struct sender {
    uint64_t holds_ns;
    atomic_bool holds;
};

static void *
hold_the_lock(void *arg)
{
    struct sender *sender = arg;

    gp_lock_take(&the_link->send);
    atomic_store(&sender->holds, true);
    gp_sleep_ns(sender->holds_ns);
    gp_lock_release(&the_link->send);
    return NULL;
}

static bool
may_send_last(uint64_t holds_ns)
{
    struct sender sender = {.holds_ns = holds_ns};
    pthread_t thread;
    bool taken;

    assert_int_equal(pthread_create(&thread, NULL, hold_the_lock, &sender), 0);
    while (!atomic_load(&sender.holds))
        gp_sleep_ns(GP_NS_PER_MS);
    taken = stub_send_last(the_link);
    if (taken)
        gp_lock_release(&the_link->send);
    pthread_join(thread, NULL);
    return taken;
}

/* The last words of a process were lost when another thread sent just then. */
static void
end_of_the_process_waits_for_a_sender_and_not_for_ever(void **state)
{
    (void)state;
    assert_true(may_send_last(5 * GP_NS_PER_MS));
    assert_false(may_send_last(2 * GP_NS_PER_S));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_send_themselves_let_it_sleep),
        cmocka_unit_test(frame_that_nobody_sends_is_sent),
        cmocka_unit_test(queued_frames_keep_it_awake),
        cmocka_unit_test(copy_to_the_host_keeps_it_awake),
        cmocka_unit_test(end_of_the_process_waits_for_a_sender_and_not_for_ever),
    };

    return cmocka_run_group_tests_name("stub_flush", tests, connect_and_start, NULL);
}
