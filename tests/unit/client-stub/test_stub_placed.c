/* SPDX-License-Identifier: Apache-2.0 */
/* A feature that counts the places of frames hears of the place that a frame has in the
 * end, also when it had to give up another one first. */
#include "ut_stub.h"

#include "gp_time.h"
#include "stub_call.h"
#include "stub_hooks.h"
#include "stub_send_overflow.h"
#include "wire_api.h"
#include "xport.h"

#include <pthread.h>
#include <sched.h>

#define CALL WIRE_CALL_cuStreamSynchronize

static struct stub_link *const the_link = &stub_links[0];
static struct xport_conn *worker;
static __thread uint32_t place;

static void
note_place(struct stub_link *link, uint32_t seq)
{
    (void)link;
    place = seq;
}

static const struct stub_feature counts = {.name = "counts", .placed = note_place};
const struct stub_feature *const stub_features[] = {&counts, NULL};

static int
connect_both_ends(void **state)
{
    (void)state;
    ut_stub_attach(NULL);
    worker = ut_stub_connect();
    stub_link_attend(the_link, STUB_ATTEND_CALL, true);
    return 0;
}

/* The worker: takes two frames and replies to the second one. */
static void *
worker_replies(void *arg)
{
    uint32_t *seq = arg, size;
    const void *frame = NULL;
    struct wire_rep *rep;

    for (int i = 0; i < 2; i++)
        if (xport_recv(worker, &frame, &size, GP_FOREVER) < 0)
            return NULL;
    *seq = ((const struct wire_req *)frame)->seq;
    rep = xport_reserve(worker, sizeof(*rep));
    *rep = (struct wire_rep){.size = sizeof(*rep), .call = CALL, .seq = *seq};
    xport_commit(worker, sizeof(*rep));
    xport_flush_now(worker);
    return NULL;
}

/* Returns the place that the feature has heard of. */
static void *
call_waits(void *arg)
{
    struct stub_call c;

    (void)arg;
    if (stub_call_begin(&c, CALL, 8) != CUDA_SUCCESS)
        return NULL;
    memset(c.body, 0, 8);
    stub_call_wait(&c);
    stub_call_end(&c);
    return (void *)(uintptr_t)place;
}

static void
frame_that_gives_its_place_up_is_placed_again(void **state)
{
    pthread_t other, replies;
    struct stub_call c;
    uint32_t seq = 0;
    void *heard;

    (void)state;
    pthread_create(&replies, NULL, worker_replies, &seq);
    gp_lock_take(&the_link->send);
    stub_send_overflow_begin(the_link); /* a thread sends a payload */
    pthread_create(&other, NULL, call_waits, NULL);
    while (atomic_load(&the_link->overflow.busy) != 2)
        sched_yield(); /* until the other one waits behind it */
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    memset(c.body, 0, 8);
    assert_int_equal(stub_call_post(&c), CUDA_SUCCESS);
    stub_send_overflow_end(the_link);
    gp_lock_release(&the_link->send);
    pthread_join(other, &heard);
    pthread_join(replies, NULL);
    assert_int_equal(seq, place + 1);
    assert_int_equal((uintptr_t)heard, seq);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_that_gives_its_place_up_is_placed_again),
    };

    return cmocka_run_group_tests(tests, connect_both_ends, NULL);
}
