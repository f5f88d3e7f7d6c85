/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending and waiting of the client stub, on a real connection whose other end is here:
 * what leaves when, in which order, and what becomes of errors.
 *
 * There is no flusher, so nothing is sent but by the calls.
 */
#include "ut_stub.h"

#include "gp_net.h"
#include "gp_time.h"
#include "stub_call.h"
#include "stub_hooks.h"
#include "stub_manual.h"
#include "stub_post.h"
#include "stub_send_overflow.h"
#include "stub_turn.h"
#include "wire_api.h"
#include "xport.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#define CALL WIRE_CALL_cuStreamSynchronize
#define FRAME ((uint32_t)sizeof(struct wire_req) + 8)

static struct stub_link *const the_link = &stub_links[0];
static struct xport_conn *worker;

static int
connect_both_ends(void **state)
{
    ut_stub_attach(NULL);
    worker = ut_stub_connect();
    atomic_store(&stub_tls.ctx->alive, true);
    return 0;
}

static const struct wire_req *
worker_gets(void)
{
    return ut_stub_sent(worker);
}

static void
post(uint64_t word)
{
    struct stub_call c;

    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    memcpy(c.body, &word, sizeof(word));
    assert_int_equal(stub_call_post(&c), CUDA_SUCCESS);
}

static uint64_t
word_of(const struct wire_req *req)
{
    uint64_t word;

    assert_non_null(req);
    assert_int_equal(req->size, FRAME);
    memcpy(&word, req + 1, sizeof(word));
    return word;
}

/* The worker's part of one call that waits: takes @frames frames, the last of which it
 * replies to with @result. */
struct reply {
    uint32_t frames;
    int32_t result;
    uint32_t first_seq, last_seq;
};

static void *
worker_replies(void *arg)
{
    struct reply *reply = arg;
    const void *frame = NULL;
    struct wire_rep *rep;
    uint32_t size;

    for (uint32_t i = 0; i < reply->frames; i++) {
        if (xport_recv(worker, &frame, &size, GP_FOREVER) < 0)
            return NULL;
        reply->last_seq = ((const struct wire_req *)frame)->seq;
        if (i == 0)
            reply->first_seq = reply->last_seq;
    }
    rep = xport_reserve(worker, sizeof(*rep));
    *rep = (struct wire_rep){.size = sizeof(*rep),
                             .call = CALL,
                             .flags = reply->result ? WIRE_F_ERROR : 0,
                             .seq = reply->last_seq,
                             .result = reply->result};
    xport_commit(worker, sizeof(*rep));
    xport_flush_now(worker);
    return NULL;
}

static CUresult
wait_with_reply(struct reply *reply)
{
    struct stub_call c;
    pthread_t thread;
    CUresult r;

    assert_int_equal(pthread_create(&thread, NULL, worker_replies, reply), 0);
    r = stub_call_begin(&c, CALL, 8);
    assert_int_equal(r, CUDA_SUCCESS);
    memset(c.body, 0, 8);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    pthread_join(thread, NULL);
    return r;
}

static void
posted_calls_leave_with_the_call_that_waits_and_in_order(void **state)
{
    struct reply reply = {.frames = 4};

    for (uint64_t i = 0; i < 3; i++)
        post(i);
    assert_null(worker_gets());
    assert_int_equal(atomic_load(&the_link->queued), 3 * FRAME);
    assert_int_equal(wait_with_reply(&reply), CUDA_SUCCESS);
    assert_int_equal(reply.last_seq, reply.first_seq + 3);
    assert_int_equal(atomic_load(&the_link->queued), 0);
}

static void
full_queue_is_sent_without_a_wait(void **state)
{
    uint32_t n = STUB_SEND_HIGH / FRAME;

    for (uint64_t i = 0; i < n; i++)
        post(i);
    assert_null(worker_gets());
    post(n);
    for (uint64_t i = 0; i <= n; i++)
        assert_int_equal(word_of(worker_gets()), i);
    assert_null(worker_gets());
}

/* The thread that sends holds no lock meanwhile; what others post follows. */
static void
frames_posted_while_another_thread_sends_follow_in_order(void **state)
{
    post(1);
    gp_lock_take(&the_link->send);
    stub_send_overflow_begin(the_link);
    post(2);
    post(3);
    assert_true(stub_send_overflow_busy(&the_link->overflow));
    assert_int_equal(stub_send_overflow_end(the_link), 2 * FRAME);
    gp_lock_release(&the_link->send);
    assert_int_equal(xport_flush_now(the_link->conn), 0);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(word_of(worker_gets()), i);
    atomic_store(&the_link->queued, 0);
}

/* The search for addresses must not read what another call has left between fields. */
static void
frame_that_is_searched_is_clear_before_it_is_written(void **state)
{
    uint32_t rounds = STUB_SEND_HIGH / FRAME + 1;
    struct stub_call c;

    for (uint32_t i = 0; i < 2 * rounds; i++)
        post(UINT64_MAX); /* fills the buffer, which is sent */
    while (worker_gets())
        ;
    stub_link_attend(the_link, STUB_ATTEND_CONTENT, true);
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    stub_link_attend(the_link, STUB_ATTEND_CONTENT, false);
    memset(c.body, 1, 3);
    assert_int_equal(stub_call_post(&c), CUDA_SUCCESS);
    assert_int_equal(xport_flush_now(the_link->conn), 0);
    assert_int_equal(word_of(worker_gets()), 0x010101);
    atomic_store(&the_link->queued, 0);
}

static void *
posts_by_the_general_path(void *arg)
{
    (void)arg;
    post(1);
    return NULL;
}

static void *
posts_by_the_short_path(void *arg)
{
    struct wire_req *req = stub_post_begin(the_link, FRAME);

    (void)arg;
    if (req) {
        *(uint64_t *)stub_post_head(the_link, req, CALL, FRAME) = 1;
        stub_post_end(the_link, FRAME);
    } else {
        post(1);
    }
    return NULL;
}

/* Another thread's call waits for its place while a capture begins in front of it. */
static void
frame_behind_the_beginning_of_a_capture_says_what_that_allows(void **state)
{
    void *(*const posts[])(void *) = {posts_by_the_general_path,
                                      posts_by_the_short_path};
    pthread_t thread;

    for (size_t i = 0; i < ARRAY_SIZE(posts); i++) {
        const struct wire_req *req;

        gp_lock_take(&the_link->send);
        assert_int_equal(pthread_create(&thread, NULL, posts[i], NULL), 0);
        while (atomic_load(&the_link->send.word) != 2) /* until it sleeps there */
            sched_yield();
        stub_link_attend(the_link, STUB_ATTEND_FLAGS, true);
        gp_lock_release(&the_link->send);
        pthread_join(thread, NULL);
        stub_link_attend(the_link, STUB_ATTEND_FLAGS, false);

        assert_int_equal(xport_flush_now(the_link->conn), 0);
        req = worker_gets();
        assert_non_null(req);
        assert_int_equal(req->flags, WIRE_F_RELAXED);
        atomic_store(&the_link->queued, 0);
    }
}

/* Beside another thread's capture, too: with a further flag the worker would end the
 * attachment. */
static void
copy_that_nobody_waits_for_has_that_flag_alone(void **state)
{
    const struct wire_req *req;
    struct stub_call c;

    stub_link_attend(the_link, STUB_ATTEND_FLAGS, true);
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    stub_link_attend(the_link, STUB_ATTEND_FLAGS, false);
    memset(c.body, 0, 8);
    stub_call_mark_d2h_async(&c);
    assert_int_equal(stub_call_post(&c), CUDA_SUCCESS);
    assert_int_equal(xport_flush_now(the_link->conn), 0);
    req = worker_gets();
    assert_non_null(req);
    assert_int_equal(req->flags, WIRE_F_D2H_ASYNC);
    atomic_store(&the_link->queued, 0);
}

/* A frame of one word that may be made longer, by @max bytes at most. */
static void
open_frame(uint64_t word, uint32_t max)
{
    struct wire_req *req = stub_post_begin(the_link, FRAME);

    assert_non_null(req);
    *(uint64_t *)stub_post_head(the_link, req, CALL, FRAME) = word;
    stub_post_open(the_link, req, FRAME, FRAME + max, atomic_load(&the_link->queued),
                   req->seq);
    stub_post_end(the_link, FRAME);
}

/* One more word in it; false: that has to be a frame of its own. */
static bool
grow_frame(uint64_t word)
{
    uint8_t *at;

    assert_true(stub_post_take(the_link));
    at = stub_post_more(the_link, 8);
    if (!at) {
        stub_post_cancel(the_link);
        return false;
    }
    memcpy(at, &word, 8);
    stub_post_grow(the_link, 8);
    stub_post_end(the_link, 8);
    return true;
}

static void
send_all(void)
{
    assert_int_equal(xport_flush(the_link->conn), 0);
    atomic_store(&the_link->queued, 0);
    while (worker_gets())
        ;
}

static void
frame_grows_while_it_is_the_last_and_waits(void **state)
{
    const struct wire_req *req;
    uint32_t seq, first;
    struct stub_call c;

    assert_false(grow_frame(1)); /* there is none */
    open_frame(1, 16);
    first = atomic_load(&the_link->seq);
    assert_true(grow_frame(2));
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    stub_call_cancel(&c); /* nothing has happened */
    assert_true(grow_frame(3));
    assert_false(grow_frame(4)); /* it has as much as it may */
    assert_int_equal(atomic_load(&the_link->queued), FRAME + 16);
    seq = atomic_load(&the_link->seq);
    assert_int_equal(seq, first + 2);
    assert_int_equal(xport_flush(the_link->conn), 0);
    atomic_store(&the_link->queued, 0);
    req = worker_gets();
    assert_non_null(req);
    assert_int_equal(req->size, FRAME + 16);
    assert_int_equal(req->seq, first);
    assert_memory_equal(req + 1, ((uint64_t[]){1, 2, 3}), 24);

    assert_false(grow_frame(5)); /* it has been sent */
    open_frame(1, 64);
    post(2);
    assert_false(grow_frame(3)); /* it is not the last */
    send_all();

    open_frame(1, 64);
    assert_int_equal(wait_with_reply(&(struct reply){.frames = 2}), CUDA_SUCCESS);
    assert_false(grow_frame(3)); /* a call that waits has sent it */
}

/* The room that is left in the buffer, and in what is gathered for one write. */
static void
frame_grows_no_further_than_a_write(void **state)
{
    uint32_t grown = 0;

    open_frame(1, UINT32_MAX / 2);
    while (grow_frame(++grown))
        assert_true(atomic_load(&the_link->queued) < STUB_SEND_HIGH);
    assert_in_range(grown, (STUB_SEND_HIGH - FRAME) / 8 - 2, STUB_SEND_HIGH / 8);
    send_all();
}

/* What a layer below may have sealed must not change, even if nothing has left. */
static void
frame_that_was_tried_to_send_does_not_grow(void **state)
{
    uint64_t partial = the_link->conn->tx.partial;
    unsigned filled = 0;

    do { /* until the socket is full */
        open_frame(++filled, 64);
    } while (xport_flush_now(the_link->conn) == 0 &&
             (atomic_store(&the_link->queued, 0), true));
    assert_true(the_link->conn->tx.partial > partial);
    assert_false(grow_frame(1));
    while (worker_gets()) {
        xport_flush_now(the_link->conn);
        atomic_store(&the_link->queued, 0);
    }
    assert_int_equal(xport_pending(the_link->conn), 0);
    assert_false(grow_frame(1));
}

/* An ordinary error concerns its call alone.  After a sticky one, calls that are posted
 * otherwise are waited for, until the context ends. */
static void
calls_after_a_sticky_error_are_waited_for_until_the_context_ends(void **state)
{
    struct reply plain = {.frames = 1, .result = CUDA_ERROR_INVALID_VALUE};
    struct reply sticky = {.frames = 1, .result = CUDA_ERROR_ILLEGAL_ADDRESS};
    struct stub_call c;
    pthread_t thread;

    assert_int_equal(wait_with_reply(&plain), CUDA_ERROR_INVALID_VALUE);
    assert_false(stub_link_wants_replies(the_link));
    assert_int_equal(wait_with_reply(&sticky), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(stub_link_wants_replies(the_link));

    assert_int_equal(pthread_create(&thread, NULL, worker_replies, &sticky), 0);
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    memset(c.body, 0, 8);
    assert_int_equal(stub_call_post(&c), CUDA_ERROR_ILLEGAL_ADDRESS);
    pthread_join(thread, NULL);

    atomic_store(&stub_tls.ctx->alive, false);
    stub_hooks_ctx_end(stub_tls.ctx);
    atomic_store(&stub_tls.ctx->alive, true);
    assert_false(stub_link_wants_replies(the_link));
    post(1);
    assert_null(worker_gets());
    assert_int_equal(wait_with_reply(&(struct reply){.frames = 2}), CUDA_SUCCESS);
}

/* Copies behind a wait are slow: nothing else makes them so. */
static void
batch_that_only_writes_keeps_no_copy_waiting(void **state)
{
    CUstreamBatchMemOpParams ops[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES}}};
    const CUstream no_stream = (CUstream)(uintptr_t)0x123456; /* nothing is sent */

    (void)state;
    stub_impl_cuStreamBatchMemOp_v2(no_stream, 2, NULL, 0, false);
    stub_impl_cuStreamBatchMemOp_v2(no_stream, 2, ops, 0, false);
    assert_false(stub_turn_matters());
    ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    stub_impl_cuStreamBatchMemOp_v2(no_stream, 2, ops, 0, false);
    assert_true(stub_turn_matters());
}

/* The last case: nothing works on this link any more. */
static void
lost_connection_fails_the_call_and_every_later_one(void **state)
{
    struct stub_call c;

    xport_free(worker);
    assert_int_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    memset(c.body, 0, 8);
    assert_int_not_equal(stub_call_wait(&c), CUDA_SUCCESS);
    stub_call_end(&c);
    assert_true(stub_link_attention(the_link) & STUB_ATTEND_NOT_READY);
    assert_int_not_equal(stub_call_begin(&c, CALL, 8), CUDA_SUCCESS);
    assert_null(stub_post_begin(the_link, FRAME));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_calls_leave_with_the_call_that_waits_and_in_order),
        cmocka_unit_test(full_queue_is_sent_without_a_wait),
        cmocka_unit_test(frame_that_is_searched_is_clear_before_it_is_written),
        cmocka_unit_test(frame_behind_the_beginning_of_a_capture_says_what_that_allows),
        cmocka_unit_test(copy_that_nobody_waits_for_has_that_flag_alone),
        cmocka_unit_test(frames_posted_while_another_thread_sends_follow_in_order),
        cmocka_unit_test(frame_grows_while_it_is_the_last_and_waits),
        cmocka_unit_test(frame_grows_no_further_than_a_write),
        cmocka_unit_test(frame_that_was_tried_to_send_does_not_grow),
        cmocka_unit_test(
            calls_after_a_sticky_error_are_waited_for_until_the_context_ends),
        cmocka_unit_test(batch_that_only_writes_keeps_no_copy_waiting),
        cmocka_unit_test(lost_connection_fails_the_call_and_every_later_one),
    };

    return cmocka_run_group_tests(tests, connect_both_ends, NULL);
}
