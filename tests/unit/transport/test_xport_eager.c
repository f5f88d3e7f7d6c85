/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the RDMA transport: short frames that the reader finds in memory, without
 * a receive or a completion (transport/xport_rdma_eager.c).
 */
#include "ut_rdma.h"

#include "gp_time.h"
#include "xport_rdma.h"

#include <errno.h>
#include <string.h>

/* Frames until the worker asks for eager messages; false: this device has none. */
static bool
awaken(struct pair *pair)
{
    const struct rdma_conn *worker = rdma_of(pair->worker),
                           *client = rdma_of(pair->client);

    if (!client->eager_max)
        return false;
    for (int i = 0; i < 100000 && !client->region->credit.awake; i++) {
        put_frame(pair->client, 64, 1);
        want_frame(pair->worker, 64, 1);
    }
    assert_int_equal(worker->region->out.awake, 1);
    assert_int_equal(client->region->credit.awake, 1);
    return true;
}

static void
records_need_no_receives(void **state)
{
    struct pair pair;
    uint64_t writes;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    if (!awaken(&pair)) {
        pair_close(&pair);
        print_message("skip: this device has no eager messages\n");
        skip();
    }
    writes = rdma_of(pair.client)->writes;
    for (int i = 0; i < 20000 && rdma_of(pair.worker)->region->out.awake; i++) {
        put_frame(pair.client, 64, (uint8_t)i);
        want_frame(pair.worker, 64, (uint8_t)i);
    }
    /* A few do, where the ring ends. */
    assert_in_range(rdma_of(pair.client)->writes - writes, 0, 20);
    pair_close(&pair);
}

/* Pieces with a note and without one, of all lengths, keep their order. */
static void
records_keep_their_place_among_other_pieces(void **state)
{
    static const uint32_t sizes[] = {8, 200, 208, 4096, 24, 192, 70000, 16};
    uint8_t odd[5] = {1, 2, 3, 4, 5}, back[5];
    struct pair pair;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    awaken(&pair);
    for (unsigned i = 0; i < 2000; i++) {
        /* Several wait to be read, so that they stand behind each other. */
        for (unsigned j = 0; j < 6; j++)
            put_frame(pair.client, sizes[(i + j * j) % 6], (uint8_t)(i + j));
        if (i % 5 == 0)
            assert_int_equal(xport_send_bulk(pair.client, odd, i % 3 + 1), 0);
        for (unsigned j = 0; j < 6; j++)
            want_frame(pair.worker, sizes[(i + j * j) % 6], (uint8_t)(i + j));
        if (i % 5 == 0) {
            assert_int_equal(xport_recv_bulk(pair.worker, back, i % 3 + 1), 0);
            assert_memory_equal(back, odd, i % 3 + 1);
        }
    }
    pair_close(&pair);
}

static void
record_can_be_taken_in_parts(void **state)
{
    uint8_t parts[64];
    struct pair pair;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    awaken(&pair);
    put_frame(pair.client, 64, 9);
    put_frame(pair.client, 4096, 8);
    for (size_t at = 0; at < sizeof(parts); at += 16)
        assert_int_equal(xport_recv_bulk(pair.worker, parts + at, 16), 0);
    assert_int_equal(parts[0], 64);
    assert_int_equal(parts[63], 9);
    want_frame(pair.worker, 4096, 8);
    pair_close(&pair);
}

#define PAUSES 3000

static void *
answer_all(void *arg)
{
    struct xport_conn *conn = arg;

    for (int i = 0; i < PAUSES; i++) {
        want_frame(conn, 64, (uint8_t)i);
        put_frame(conn, 64, (uint8_t)i);
    }
    return NULL;
}

/* Writers that come when the reader is just about to sleep. */
static void
reader_that_falls_asleep_misses_nothing(void **state)
{
    struct pair pair;
    pthread_t thread;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    pthread_create(&thread, NULL, answer_all, pair.worker);
    for (int i = 0; i < PAUSES; i++) {
        uint64_t until = gp_now_ns();

        /* Long enough without for eager messages to be asked for, then around a spin's
         * end. */
        if (i % 100 > 80)
            until += RDMA_SPIN_NS / 2 + RDMA_SPIN_NS / 7 * (unsigned)(i % 13);
        while (gp_now_ns() < until)
            ;
        put_frame(pair.client, 64, (uint8_t)i);
        want_frame(pair.client, 64, (uint8_t)i);
    }
    pthread_join(thread, NULL);
    pair_close(&pair);
}

/* What @len bytes at @data make as an eager message that is not what it says. */
static void
put_false_record(struct rdma_conn *rdma, uint64_t len, uint64_t sum)
{
    uint64_t words[4] = {RDMA_EAGER_HEAD(rdma->head, len), 1, 2, sum};

    assert_int_equal(
        rdma_write_plain(rdma, rdma->head % RDMA_RING_SIZE, words, sizeof(words)), 0);
    rdma->head += sizeof(words);
}

static void
record_that_is_not_whole_is_not_taken(void **state)
{
    static const uint64_t lens[] = {16, 8, 0, 12, 4096, UINT32_MAX};

    UT_NEEDS_RDMA();
    for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
        struct pair pair;
        const void *frame;
        uint32_t size;
        int r;

        pair_open(&pair, ut_rdma_addr());
        if (!awaken(&pair)) {
            pair_close(&pair);
            print_message("skip: this device has no eager messages\n");
            skip();
        }
        put_false_record(rdma_of(pair.client), lens[i], 12345);
        r = xport_recv(pair.worker, &frame, &size, 0);
        assert_int_equal(r, -EAGAIN);
        /* What has a note stands behind whole eager messages only. */
        put_frame(pair.client, 4096, 1);
        assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), -EPROTO);
        pair_close(&pair);
    }
}

/* The last words of a peer may be an eager message, and the reader may hear of the end
 * first.
 */
static void
record_in_front_of_the_end_is_read(void **state)
{
    const void *frame;
    struct pair pair;
    uint32_t size;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    awaken(&pair);
    put_frame(pair.client, 64, 7);
    xport_free(pair.client);
    want_frame(pair.worker, 64, 7);
    assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), -ECONNRESET);
    xport_free(pair.worker);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_need_no_receives),
        cmocka_unit_test(records_keep_their_place_among_other_pieces),
        cmocka_unit_test(record_can_be_taken_in_parts),
        cmocka_unit_test(reader_that_falls_asleep_misses_nothing),
        cmocka_unit_test(record_that_is_not_whole_is_not_taken),
        cmocka_unit_test(record_in_front_of_the_end_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
