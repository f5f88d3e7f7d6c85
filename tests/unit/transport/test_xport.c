/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every transport keeps the same promises: each case runs over each of them.
 *
 * RDMA needs a device: GPUPOOL_TEST_RDMA=address names one of its ports, else its cases
 * are skipped (`make test-rdma` runs them in a guest with Soft-RoCE).
 */
#include "ut_rdma.h"
#include "ut_tls.h"
#include "ut_wire.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"
#include "xport.h"
#include "xport_ring.h"
#include "xport_wakefd.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAX UT_FRAME_MAX

enum kind {
    TCP,
    SHM,
    WAKEFDS /* shared memory, with them */,
    RDMA,
    PACKED /* TCP, all that can be compressed */,
    LANES, /* TCP, payloads in stripes */
    LAYER, /* the same, with a layer between all bytes and their sockets */
    TLS    /* and with that of TLS */
};

struct link {
    struct xport_conn *client, *worker;
    int raw_fd; /* the client's end of the socket where a test wants to write rubbish */
};

static uint64_t
soon(void)
{
    return gp_now_ns() + 10 * GP_NS_PER_S;
}

static void
wires_make(enum kind kind, struct gp_wire **client, struct gp_wire **worker)
{
    if (kind == TLS)
        ut_tls_layers(TLS_SUITE_AES128, client, worker);
    if (kind == LAYER) {
        *client = ut_wire_new();
        *worker = ut_wire_new();
    }
}

static void
lanes_make(struct link *link, enum kind kind)
{
    struct gp_wire *my_wires[3] = {NULL}, *their_wires[3] = {NULL};
    int mine[3], theirs[3], pair[2];

    for (int i = 0; i < 3; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        mine[i] = pair[0];
        theirs[i] = pair[1];
        wires_make(kind, &my_wires[i], &their_wires[i]);
    }
    assert_int_equal(xport_blocks_start(link->client, XPORT_PACK_NEVER, NULL), 0);
    assert_int_equal(xport_blocks_start(link->worker, XPORT_PACK_NEVER, NULL), 0);
    assert_int_equal(xport_stripes_add(link->client, mine, my_wires, 3, 0, NULL), 0);
    assert_int_equal(xport_stripes_add(link->worker, theirs, their_wires, 3, 0, NULL),
                     0);
    assert_int_equal(xport_stripes_use(link->client, 0), 0);
    assert_int_equal(xport_stripes_use(link->worker, 0), 0);
}

static void
link_make(struct link *link, enum kind kind)
{
    bool plain =
        kind == TCP || kind == PACKED || kind == LANES || kind == LAYER || kind == TLS;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    link->raw_fd = fd[0];
    if (plain) {
        assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &link->client, NULL), 0);
        assert_int_equal(xport_tcp_new(fd[1], FRAME_MAX, &link->worker, NULL), 0);
    }
    if (kind == PACKED) {
        assert_int_equal(xport_blocks_start(link->client, XPORT_PACK_ALWAYS, NULL), 0);
        assert_int_equal(xport_blocks_start(link->worker, XPORT_PACK_ALWAYS, NULL), 0);
    }
    if (kind == LAYER || kind == TLS) {
        struct gp_wire *client, *worker;

        wires_make(kind, &client, &worker);
        assert_int_equal(xport_wire_start(link->client, client, NULL), 0);
        assert_int_equal(xport_wire_start(link->worker, worker, NULL), 0);
    }
    if (kind == LANES || kind == LAYER || kind == TLS)
        lanes_make(link, kind);
    if (plain)
        return;
    if (kind == RDMA) {
        ut_rdma_pair(ut_rdma_addr(), fd, &link->client, &link->worker);
        return;
    }
    assert_int_equal(
        xport_shm_offer(fd[1], kind == WAKEFDS, FRAME_MAX, &link->worker, NULL), 0);
    assert_int_equal(xport_shm_accept(fd[0], kind == WAKEFDS, FRAME_MAX, soon(),
                                      &link->client, NULL),
                     0);
    if (kind == WAKEFDS) {
        xport_watch(link->client);
        xport_watch(link->worker);
    }
}

static void
link_end(struct link *link)
{
    xport_free(link->client);
    xport_free(link->worker);
}

static void
send_frame(struct xport_conn *conn, uint32_t size, uint8_t fill)
{
    uint8_t *p = xport_reserve(conn, size);

    assert_non_null(p);
    assert_int_equal((uintptr_t)p & 7, 0);
    memset(p, fill, size);
    memcpy(p, &size, sizeof(size));
    xport_commit(conn, size);
}

static void
expect_frame(struct xport_conn *conn, uint32_t size, uint8_t fill)
{
    const uint8_t *frame;
    uint32_t got;

    assert_int_equal(xport_recv(conn, (const void **)&frame, &got, soon()), 0);
    assert_int_equal(got, size);
    assert_int_equal((uintptr_t)frame & 7, 0);
    for (uint32_t i = sizeof(size); i < size; i++)
        assert_int_equal(frame[i], fill);
}

static void
frames_arrive_in_order_and_aligned(enum kind kind)
{
    struct link link;

    link_make(&link, kind);
    for (int round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < 20; i++)
            send_frame(link.client, 8 + 8 * ((i * 37 + (uint32_t)round) % 500),
                       (uint8_t)i);
        assert_int_equal(xport_flush(link.client), 0);
        for (uint32_t i = 0; i < 20; i++)
            expect_frame(link.worker, 8 + 8 * ((i * 37 + (uint32_t)round) % 500),
                         (uint8_t)i);
    }
    link_end(&link);
}

static void
nothing_leaves_before_a_flush(enum kind kind)
{
    struct link link;
    const void *frame;
    uint32_t size;

    link_make(&link, kind);
    send_frame(link.client, 64, 1);
    assert_int_equal(xport_pending(link.client), 64);
    assert_int_equal(xport_recv(link.worker, &frame, &size, 0), -EAGAIN);
    assert_int_equal(xport_recv(link.worker, &frame, &size, gp_now_ns() + GP_NS_PER_MS),
                     -EAGAIN);
    assert_int_equal(xport_flush(link.client), 0);
    expect_frame(link.worker, 64, 1);
    link_end(&link);
}

/* Frames until a link that nobody reads is full; how many. */
static unsigned
send_until_full(struct xport_conn *conn)
{
    unsigned sent = 0;
    int r = 0;

    while (r == 0) {
        send_frame(conn, 4096, (uint8_t)sent++);
        r = xport_flush_now(conn);
    }
    assert_int_equal(r, -EAGAIN);
    assert_true(xport_pending(conn) > 0);
    return sent;
}

/* Were it to wait, this would never end: one thread has both ends. */
static void
flush_that_must_not_wait_leaves_the_rest_in_order(enum kind kind)
{
    unsigned sent, received = 0;
    struct link link;

    link_make(&link, kind);
    if (!xport_flushes_now(link.client)) {
        link_end(&link);
        skip();
    }
    sent = send_until_full(link.client);
    while (received < sent) {
        if (xport_pending(link.client) && received % 4 == 0)
            xport_flush_now(link.client);
        expect_frame(link.worker, 4096, (uint8_t)received++);
    }
    assert_int_equal(xport_pending(link.client), 0);
    link_end(&link);
}

struct bulk_job {
    struct xport_conn *conn;
    uint8_t *data;
    size_t len;
    int rounds;
};

static void *
bulk_sender(void *arg)
{
    struct bulk_job *job = arg;

    for (int i = 0; i < job->rounds; i++) {
        size_t half = job->len / 2;

        send_frame(job->conn, 32, (uint8_t)i);
        assert_int_equal(xport_send_bulk(job->conn, job->data, half), 0);
        assert_int_equal(xport_send_bulk(job->conn, job->data + half, job->len - half),
                         0);
    }
    send_frame(job->conn, 8, 0);
    assert_int_equal(xport_flush(job->conn), 0);
    return NULL;
}

static void
payloads_of_any_length_keep_their_bytes(enum kind kind)
{
    static const size_t lens[] = {1, 7, 4097, 65536 + 3, 3 * 1024 * 1024 + 5};
    struct link link;

    link_make(&link, kind);
    for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
        struct bulk_job job = {link.client, malloc(lens[l]), lens[l], 3};
        uint8_t *back = malloc(lens[l]);
        pthread_t thread;

        for (size_t i = 0; i < lens[l]; i++)
            job.data[i] = (uint8_t)(i * 131 + (i >> 11));
        pthread_create(&thread, NULL, bulk_sender, &job);
        for (int i = 0; i < job.rounds; i++) {
            expect_frame(link.worker, 32, (uint8_t)i);
            /* Taken in two unequal pieces: pieces need not match the sender's. */
            assert_int_equal(xport_recv_bulk(link.worker, back, lens[l] / 3), 0);
            assert_int_equal(
                xport_recv_bulk(link.worker, back + lens[l] / 3, lens[l] - lens[l] / 3),
                0);
            assert_memory_equal(back, job.data, lens[l]);
        }
        expect_frame(link.worker, 8, 0);
        pthread_join(thread, NULL);
        free(back);
        free(job.data);
    }
    link_end(&link);
}

static void *
echo_thread(void *arg)
{
    struct xport_conn *conn = arg;
    const void *frame;
    uint32_t size;

    while (!xport_recv(conn, &frame, &size, GP_FOREVER)) {
        void *reply = xport_reserve(conn, size);

        memcpy(reply, frame, size);
        xport_commit(conn, size);
        if (xport_flush(conn) < 0)
            break;
    }
    return NULL;
}

static void
ping_pong_goes_on_while_both_ends_sleep_and_wake(enum kind kind)
{
    struct link link;
    pthread_t thread;

    link_make(&link, kind);
    pthread_create(&thread, NULL, echo_thread, link.worker);
    for (int i = 0; i < 3000; i++) {
        send_frame(link.client, 64, (uint8_t)i);
        assert_int_equal(xport_flush(link.client), 0);
        expect_frame(link.client, 64, (uint8_t)i);
    }
    xport_abort(link.client);
    pthread_join(thread, NULL);
    link_end(&link);
}

static void
impossible_length_ends_the_connection_for_good(enum kind kind)
{
    static const uint32_t bad[] = {0, 4, 12, FRAME_MAX + 8, UINT32_MAX & ~7u};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct link link;
        const void *frame;
        uint32_t size;
        uint32_t *p;

        link_make(&link, kind);
        p = xport_reserve(link.client, 16);
        assert_non_null(p);
        p[0] = bad[i];
        p[1] = p[2] = p[3] = 0;
        xport_commit(link.client, 16);
        xport_flush(link.client);
        assert_int_equal(xport_recv(link.worker, &frame, &size, soon()), -EPROTO);
        assert_int_equal(xport_recv(link.worker, &frame, &size, soon()), -EPROTO);
        assert_int_equal(xport_flush(link.worker), -EPROTO);
        link_end(&link);
    }
}

static void
end_of_the_peer_is_seen_after_what_it_sent(enum kind kind)
{
    struct link link;
    const void *frame;
    uint32_t size;

    link_make(&link, kind);
    send_frame(link.client, 24, 5);
    assert_int_equal(xport_flush(link.client), 0);
    xport_free(link.client);
    link.client = NULL;
    expect_frame(link.worker, 24, 5);
    assert_int_equal(xport_recv(link.worker, &frame, &size, soon()), -ECONNRESET);
    link_end(&link);
}

static void *
abort_thread(void *arg)
{
    xport_abort(arg);
    return NULL;
}

static void
abort_wakes_a_sleeping_receiver(enum kind kind)
{
    struct link link;
    const void *frame;
    uint32_t size;
    pthread_t thread;
    int r;

    link_make(&link, kind);
    pthread_create(&thread, NULL, abort_thread, link.worker);
    r = xport_recv(link.worker, &frame, &size, soon());
    assert_true(r == -ECONNABORTED || r == -ECONNRESET);
    pthread_join(thread, NULL);
    link_end(&link);
}

static void *
stuffing_thread(void *arg)
{
    struct xport_conn *conn = arg;
    int r = 0;

    while (!r && xport_reserve(conn, FRAME_MAX)) {
        uint32_t size = FRAME_MAX;

        memcpy(conn->tx.pos, &size, sizeof(size));
        xport_commit(conn, FRAME_MAX);
        r = xport_flush(conn);
    }
    return NULL;
}

static void
writer_blocked_on_a_full_link_ends_with_the_peer(enum kind kind)
{
    struct link link;
    pthread_t thread;
    const void *frame;
    uint32_t size;

    link_make(&link, kind);
    pthread_create(&thread, NULL, stuffing_thread, link.client);
    assert_int_equal(xport_recv(link.worker, &frame, &size, soon()), 0);
    xport_free(link.worker);
    link.worker = NULL;
    pthread_join(thread, NULL);
    link_end(&link);
}

static void
oversize_frame_is_refused_by_the_sender(enum kind kind)
{
    struct link link;

    link_make(&link, kind);
    assert_null(xport_reserve(link.client, FRAME_MAX + 8 + (64u << 10)));
    link_end(&link);
}

/* --- shared memory alone --- */

/* What is read in search of frames is little of the payload behind them, which is then
 * copied once; and one write publishes both, so the reader is woken once. */
static void
payload_in_shared_memory_is_left_in_the_ring(void **state)
{
    enum { PAYLOAD = 64 << 10 };
    CLEANUP_FREE uint8_t *from = malloc(PAYLOAD), *to = calloc(1, PAYLOAD);
    struct link link;

    memset(from, 0x5a, PAYLOAD);
    link_make(&link, SHM);
    send_frame(link.client, 64, 1);
    assert_int_equal(xport_send_bulk(link.client, from, PAYLOAD), 0);
    assert_int_equal(link.client->stats.tx_writes, 1);
    expect_frame(link.worker, 64, 1);
    assert_in_range(xport_received(link.worker), 0, PAYLOAD / 8);
    assert_int_equal(xport_recv_bulk(link.worker, to, PAYLOAD), 0);
    assert_memory_equal(from, to, PAYLOAD);
    /* The rest of a frame comes with the next look. */
    send_frame(link.client, 64, 2);
    send_frame(link.client, FRAME_MAX, 3);
    assert_int_equal(xport_flush(link.client), 0);
    link.worker->stats.rx_reads = 0;
    expect_frame(link.worker, 64, 2);
    expect_frame(link.worker, FRAME_MAX, 3);
    assert_int_equal(link.worker->stats.rx_reads, 2);
    link_end(&link);
}

static void
wake_up_descriptors_wake_both_ends(void **state)
{
    struct link link;
    pthread_t thread;
    const void *frame;
    uint32_t size;

    link_make(&link, WAKEFDS);
    pthread_create(&thread, NULL, echo_thread, link.worker);
    for (int i = 0; i < 3000; i++) {
        send_frame(link.client, 64, (uint8_t)i);
        assert_int_equal(xport_flush(link.client), 0);
        assert_int_equal(xport_recv(link.client, &frame, &size, GP_FOREVER), 0);
    }
    xport_abort(link.worker);
    pthread_join(thread, NULL);
    assert_true(link.client->stats.rx_slept + link.worker->stats.rx_slept > 0);
    link_end(&link);
}

static void
look_ends_a_sleep_on_the_wakefd_of_a_dead_peer(void **state)
{
    struct link link;
    pthread_t thread;

    link_make(&link, WAKEFDS);
    pthread_create(&thread, NULL, echo_thread, link.worker);
    xport_free(link.client);
    link.client = NULL;
    xport_look(link.worker);
    pthread_join(thread, NULL);
    link_end(&link);
}

static void *
ring_thread(void *arg)
{
    xport_wakefd_wake(*(int *)arg);
    return NULL;
}

static void
kick_frees_the_writer_of_a_wakefd_that_the_peer_filled(void **state)
{
    uint64_t most = UINT64_MAX - 1;
    int wakefd = xport_wakefd_new();
    struct pollfd poll_fd = {.fd = wakefd, .events = POLLOUT};
    pthread_t thread;

    assert_true(wakefd >= 0);
    assert_int_equal(write(wakefd, &most, sizeof(most)), sizeof(most));
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    pthread_create(&thread, NULL, ring_thread, &wakefd);
    xport_wakefd_kick(wakefd);
    pthread_join(thread, NULL);
    assert_int_equal(xport_wakefd_wait(wakefd), 0);
    close(wakefd);
}

static void
wait_on_what_is_no_eventfd_fails(void **state)
{
    int fd[2];

    assert_int_equal(pipe(fd), 0);
    close(fd[1]);
    assert_true(xport_wakefd_wait(-1) < 0);
    assert_true(xport_wakefd_wait(fd[0]) < 0); /* its end */
    close(fd[0]);
}

struct waiting {
    struct xport_ring ring;
    atomic_bool waited;
};

static void *
wait_thread(void *arg)
{
    struct waiting *waiting = arg;

    xport_ring_wait_data(&waiting->ring, GP_FOREVER);
    atomic_store_explicit(&waiting->waited, true, memory_order_relaxed);
    return NULL;
}

/* The peer gave something that is no eventfd: the waiter finds that out, while others
 * may kick the ring.  The thread sanitizer judges, so nothing here orders the two. */
static void
ring_that_loses_its_wakefd_can_be_kicked_meanwhile(void **state)
{
    struct xport_ring_shared shared = {0};
    atomic_bool closed = false;
    struct waiting waiting = {{&shared, NULL, 0, 0, &closed, -1}, false};
    pthread_t thread;
    int fd[2];

    assert_int_equal(pipe(fd), 0);
    close(fd[1]);
    waiting.ring.wakefd = fd[0];
    pthread_create(&thread, NULL, wait_thread, &waiting);
    while (!atomic_load_explicit(&waiting.waited, memory_order_relaxed))
        gp_cpu_relax();
    xport_ring_kick(&waiting.ring);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.ring.wakefd, -1);
    close(fd[0]);
}

/* The end of the stream is no reason to wait: the attach fails at once. */
static void
worker_that_is_gone_offers_no_ring(void **state)
{
    struct gp_err err = {0};
    struct xport_conn *conn;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    close(fd[1]);
    errno = EAGAIN;
    assert_int_equal(xport_shm_accept(fd[0], false, FRAME_MAX, soon(), &conn, &err),
                     -ECONNRESET);
    close(fd[0]);
}

static void
unsealed_file_is_refused(void **state)
{
    struct gp_err err = {0};
    struct xport_conn *conn;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(send(fd[1], "x", 1, 0), 1);
    assert_int_equal(xport_shm_accept(fd[0], false, FRAME_MAX, soon(), &conn, &err),
                     -EPROTO);
    close(fd[0]);
    close(fd[1]);
}

static void
pinned_memory_moves_like_any_other(enum kind kind)
{
    struct link link;
    size_t len = 2 * 1024 * 1024;
    uint8_t *from = calloc(1, len), *to = malloc(len);
    struct bulk_job job = {.data = from, .len = len, .rounds = 4};
    pthread_t thread;

    link_make(&link, kind);
    memset(from, 0x5a, len);
    xport_pin(link.client, from, len);
    xport_pin(link.worker, to, len);
    job.conn = link.client;
    pthread_create(&thread, NULL, bulk_sender, &job);
    for (int i = 0; i < job.rounds; i++) {
        memset(to, 0, len);
        expect_frame(link.worker, 32, (uint8_t)i);
        assert_int_equal(xport_recv_bulk(link.worker, to, len), 0);
        assert_memory_equal(to, from, len);
    }
    expect_frame(link.worker, 8, 0);
    pthread_join(thread, NULL);
    xport_unpin(link.client, from);
    xport_unpin(link.worker, to);
    link_end(&link);
    free(from);
    free(to);
}

/* Two pieces at a time, looked at where they lie; the first bytes may have come with
 * the frame. */
static void
peek_payload(struct xport_conn *conn, uint8_t *to, size_t len)
{
    size_t early = gp_min(xport_received(conn), len), at = early, ahead = 0, n;
    void *from;

    assert_int_equal(xport_recv_bulk(conn, to, early), 0);
    while (at < len) {
        assert_int_equal(
            xport_peek_bulk(conn, ahead, gp_min(len - at, 100001ul), &from, &n), 0);
        memcpy(to + at, from, n);
        at += n;
        ahead += n;
        if (ahead > 200000 || n == 0 || at == len) {
            xport_drop_bulk(conn, ahead);
            ahead = 0;
        }
    }
}

static void
payloads_can_be_read_where_they_lie(void **state)
{
    size_t len = 3 * 1024 * 1024 + 5;
    uint8_t *data = malloc(len), *back = malloc(len);
    struct bulk_job job = {.data = data, .len = len, .rounds = 3};
    struct iovec window[2];
    struct link link;
    pthread_t thread;

    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 131 + (i >> 11));
    link_make(&link, SHM);
    assert_true(xport_ring_region(link.worker, window));
    job.conn = link.client;
    pthread_create(&thread, NULL, bulk_sender, &job);
    for (int i = 0; i < job.rounds; i++) {
        expect_frame(link.worker, 32, (uint8_t)i);
        memset(back, 0, len);
        peek_payload(link.worker, back, len);
        assert_memory_equal(back, data, len);
    }
    expect_frame(link.worker, 8, 0);
    pthread_join(thread, NULL);
    link_end(&link);
    free(data);
    free(back);
}

/* Sends the payload of @job by making it where the other end takes it. */
static void *
room_sender(void *arg)
{
    struct bulk_job *job = arg;

    for (int i = 0; i < job->rounds; i++) {
        send_frame(job->conn, 32, (uint8_t)i);
        for (size_t at = 0, ahead = 0, n; at < job->len;) {
            void *to;

            assert_int_equal(xport_room_bulk(job->conn, ahead,
                                             gp_min(job->len - at, 70001ul), &to, &n),
                             0);
            memcpy(to, job->data + at, n);
            at += n;
            ahead += n;
            if (ahead > 140000 || n == 0 || at == job->len) {
                xport_push_bulk(job->conn, ahead, at < job->len);
                ahead = 0;
            }
        }
    }
    send_frame(job->conn, 8, 0);
    assert_int_equal(xport_flush(job->conn), 0);
    return NULL;
}

static void
payloads_can_be_made_where_they_go(void **state)
{
    size_t len = 3 * 1024 * 1024 + 5;
    uint8_t *data = malloc(len), *back = malloc(len);
    struct bulk_job job = {.data = data, .len = len, .rounds = 3};
    struct link link;
    pthread_t thread;

    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 37 + (i >> 9));
    link_make(&link, SHM);
    job.conn = link.worker;
    pthread_create(&thread, NULL, room_sender, &job);
    for (int i = 0; i < job.rounds; i++) {
        expect_frame(link.client, 32, (uint8_t)i);
        assert_int_equal(xport_recv_bulk(link.client, back, len), 0);
        assert_memory_equal(back, data, len);
    }
    expect_frame(link.client, 8, 0);
    pthread_join(thread, NULL);
    link_end(&link);
    free(data);
    free(back);
}

static void *
answer_every_second(void *arg)
{
    struct xport_conn *conn = arg;
    const void *frame;
    uint32_t size;

    for (int i = 0; xport_recv(conn, &frame, &size, soon()) == 0; i++) {
        if (i % 2 == 0)
            continue;
        send_frame(conn, 16, 9);
        assert_int_equal(xport_flush(conn), 0);
    }
    return NULL;
}

/* With Nagle's algorithm the second of two small writes waits until the first is
 * acknowledged, which the other end puts off for 40 ms, but for the first few.  A busy
 * machine makes rounds slow too, but not each. */
static void
small_writes_do_not_wait_for_acknowledgements(void **state)
{
    int listener, fd[2];
    char name[32];
    struct link link;
    pthread_t thread;
    int quick = 0;

    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 1, &listener, NULL), 0);
    snprintf(name, sizeof(name), "127.0.0.1:%u", gp_net_port(listener));
    assert_int_equal(gp_net_connect(name, 0, soon(), true, &fd[0], NULL), 0);
    assert_int_equal(gp_net_wait(listener, POLLIN, soon()), 0);
    assert_int_equal(gp_net_accept(listener, &fd[1]), 0);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &link.client, NULL), 0);
    assert_int_equal(xport_tcp_new(fd[1], FRAME_MAX, &link.worker, NULL), 0);
    pthread_create(&thread, NULL, answer_every_second, link.worker);
    for (int i = 0; i < 100; i++) {
        uint64_t start = gp_now_ns();

        for (int j = 0; j < 2; j++) {
            send_frame(link.client, 64, (uint8_t)i);
            assert_int_equal(xport_flush(link.client), 0);
        }
        expect_frame(link.client, 16, 9);
        quick += i >= 50 && gp_now_ns() - start < 30 * GP_NS_PER_MS;
    }
    assert_true(quick >= 10);
    xport_abort(link.client);
    pthread_join(thread, NULL);
    close(listener);
    link_end(&link);
}

static void
address_without_rdma_is_named(void **state)
{
    struct xport_rdma_listener *l;
    struct gp_err err = {0};
    struct xport_rdma_port port = {.host = "127.0.0.1"};
    int r = xport_rdma_listen(&port, 1, &l, &err);

    assert_true(r < 0);
    assert_true(r == -EOPNOTSUPP ? strstr(err.msg, "no RDMA: ") != NULL
                                 : strstr(err.msg, "127.0.0.1") != NULL);
}

#define OVER_EACH(name)                                                                \
    static void name##_tcp(void **state)                                               \
    {                                                                                  \
        name(TCP);                                                                     \
    }                                                                                  \
    static void name##_packed(void **state)                                            \
    {                                                                                  \
        name(PACKED);                                                                  \
    }                                                                                  \
    static void name##_lanes(void **state)                                             \
    {                                                                                  \
        name(LANES);                                                                   \
    }                                                                                  \
    static void name##_tls(void **state)                                               \
    {                                                                                  \
        name(TLS);                                                                     \
    }                                                                                  \
    static void name##_layer(void **state)                                             \
    {                                                                                  \
        name(LAYER);                                                                   \
    }                                                                                  \
    static void name##_shm(void **state)                                               \
    {                                                                                  \
        name(SHM);                                                                     \
    }                                                                                  \
    static void name##_rdma(void **state)                                              \
    {                                                                                  \
        UT_NEEDS_RDMA();                                                               \
        name(RDMA);                                                                    \
    }
#define EACH(name)                                                                     \
    cmocka_unit_test(name##_tcp), cmocka_unit_test(name##_packed),                     \
        cmocka_unit_test(name##_lanes), cmocka_unit_test(name##_layer),                \
        cmocka_unit_test(name##_tls), cmocka_unit_test(name##_shm),                    \
        cmocka_unit_test(name##_rdma)

OVER_EACH(frames_arrive_in_order_and_aligned)
OVER_EACH(nothing_leaves_before_a_flush)
OVER_EACH(flush_that_must_not_wait_leaves_the_rest_in_order)
OVER_EACH(payloads_of_any_length_keep_their_bytes)
OVER_EACH(ping_pong_goes_on_while_both_ends_sleep_and_wake)
OVER_EACH(impossible_length_ends_the_connection_for_good)
OVER_EACH(end_of_the_peer_is_seen_after_what_it_sent)
OVER_EACH(abort_wakes_a_sleeping_receiver)
OVER_EACH(writer_blocked_on_a_full_link_ends_with_the_peer)
OVER_EACH(oversize_frame_is_refused_by_the_sender)
OVER_EACH(pinned_memory_moves_like_any_other)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(frames_arrive_in_order_and_aligned),
        EACH(nothing_leaves_before_a_flush),
        EACH(flush_that_must_not_wait_leaves_the_rest_in_order),
        EACH(payloads_of_any_length_keep_their_bytes),
        EACH(ping_pong_goes_on_while_both_ends_sleep_and_wake),
        EACH(impossible_length_ends_the_connection_for_good),
        EACH(end_of_the_peer_is_seen_after_what_it_sent),
        EACH(abort_wakes_a_sleeping_receiver),
        EACH(writer_blocked_on_a_full_link_ends_with_the_peer),
        EACH(oversize_frame_is_refused_by_the_sender),
        EACH(pinned_memory_moves_like_any_other),
        cmocka_unit_test(address_without_rdma_is_named),
        cmocka_unit_test(payload_in_shared_memory_is_left_in_the_ring),
        cmocka_unit_test(wake_up_descriptors_wake_both_ends),
        cmocka_unit_test(look_ends_a_sleep_on_the_wakefd_of_a_dead_peer),
        cmocka_unit_test(kick_frees_the_writer_of_a_wakefd_that_the_peer_filled),
        cmocka_unit_test(wait_on_what_is_no_eventfd_fails),
        cmocka_unit_test(ring_that_loses_its_wakefd_can_be_kicked_meanwhile),
        cmocka_unit_test(worker_that_is_gone_offers_no_ring),
        cmocka_unit_test(unsealed_file_is_refused),
        cmocka_unit_test(payloads_can_be_read_where_they_lie),
        cmocka_unit_test(payloads_can_be_made_where_they_go),
        cmocka_unit_test(small_writes_do_not_wait_for_acknowledgements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
