/* SPDX-License-Identifier: Apache-2.0 */
/* One ring of shared memory, both sides of it in one thread, and what is made of two.
 */
#include "ut.h"

#include "gp_time.h"
#include "xport.h"
#include "xport_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void
ring_index_out_of_bounds_is_an_error(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring ring = {&shared, bytes, 0, 0, &closed, -1};
    uint8_t buf[16];

    shared.head = XPORT_RING_SIZE + 1;
    assert_int_equal(xport_ring_get(&ring, buf, sizeof(buf)), -EPROTO);
    shared.head = UINT64_MAX;
    assert_int_equal(xport_ring_get(&ring, buf, sizeof(buf)), -EPROTO);
    /* A producer looks at the tail when what it knows of it leaves no room. */
    ring.index = XPORT_RING_SIZE;
    shared.tail = XPORT_RING_SIZE + 1;
    assert_int_equal(xport_ring_put(&ring, buf, sizeof(buf)), -EPROTO);
    shared.tail = UINT64_MAX;
    assert_int_equal(xport_ring_put(&ring, buf, sizeof(buf)), -EPROTO);
}

/* Calls one behind the other: the consumer writes its tail once in many of them, and
 * the producer, who waits until half of the ring is free, never waits for more. */
static void
tail_of_an_empty_ring_is_published_once_in_many_frames(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    CLEANUP_FREE uint8_t *half = calloc(1, XPORT_RING_SIZE / 2);
    atomic_bool closed = false;
    struct xport_ring tx = {&shared, bytes, 0, 0, &closed, -1}, rx = tx;
    uint64_t seen = 0, published = 0;
    uint8_t frame[32] = {1};

    for (size_t i = 0; i < 4 * XPORT_RING_SIZE / sizeof(frame); i++) {
        assert_int_equal(xport_ring_put(&tx, frame, sizeof(frame)), sizeof(frame));
        assert_int_equal(xport_ring_get(&rx, frame, sizeof(frame)), sizeof(frame));
        published += shared.tail != seen;
        seen = shared.tail;
        assert_true(rx.index - shared.tail < XPORT_RING_LAG);
        assert_true(xport_ring_used_by_producer(&tx) <= XPORT_RING_SIZE / 2);
    }
    assert_true(published <= 4 * XPORT_RING_SIZE / XPORT_RING_LAG);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(xport_ring_put(&tx, half, XPORT_RING_SIZE / 2),
                         XPORT_RING_SIZE / 2);
        assert_int_equal(xport_ring_get(&rx, half, XPORT_RING_SIZE / 2),
                         XPORT_RING_SIZE / 2);
        assert_int_equal(shared.tail, rx.index);
    }
}

/* All pieces go into the ring, as far as there is room, and become visible at once. */
static void
pieces_are_published_together(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    CLEANUP_FREE uint8_t *big = malloc(XPORT_RING_SIZE), *got = malloc(XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring tx = {&shared, bytes, 0, 0, &closed, -1}, rx = tx;
    struct iovec iov[] = {{(void *)(uintptr_t) "frame...", 8}, {NULL, 0}, {big, 0}};

    for (size_t i = 0; i < XPORT_RING_SIZE; i++)
        big[i] = (uint8_t)(i * 7 + (i >> 9));
    for (size_t n = 1; n < XPORT_RING_SIZE - 8; n += 9973) {
        iov[2].iov_len = n;
        assert_int_equal(xport_ring_put_all(&tx, iov, 3), n + 8);
        assert_int_equal(xport_ring_get(&rx, got, XPORT_RING_SIZE), n + 8);
        assert_memory_equal(got, "frame...", 8);
        assert_memory_equal(got + 8, big, n);
    }
    iov[2].iov_len = XPORT_RING_SIZE;
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), XPORT_RING_SIZE);
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), 0);
    assert_int_equal(xport_ring_get(&rx, got, 16), 16);
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), 16);
    shared.tail = tx.index + 1;
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), -EPROTO);
}

/* A consumer that sleeps on the producer's core is woken for the last part of a payload
 * and not for each; one on another core for each. */
static void
part_of_a_payload_wakes_no_sleeper_on_the_same_core(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring tx = {&shared, bytes, 0, 0, &closed, -1};
    cpu_set_t here, all;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&here);
    CPU_SET((unsigned)sched_getcpu(), &here);
    assert_int_equal(sched_setaffinity(0, sizeof(here), &here), 0);
    for (uint32_t away = 0; away < 2; away++) {
        shared.data_wanted = XPORT_RING_ON_FUTEX;
        shared.data_core = (uint32_t)sched_getcpu() + 1 + away;
        xport_ring_push_bulk(&tx, 4096, true);
        assert_int_equal(shared.head, tx.index);
        assert_int_equal(shared.data_wanted,
                         away ? XPORT_RING_AWAKE : XPORT_RING_ON_FUTEX);
        shared.data_wanted = XPORT_RING_ON_FUTEX;
        xport_ring_push_bulk(&tx, 4096, false);
        assert_int_equal(shared.head, tx.index);
        assert_int_equal(shared.data_wanted, XPORT_RING_AWAKE);
    }
    shared.data_wanted = XPORT_RING_ON_FUTEX;
    shared.data_core = 0; /* a peer of an earlier version does not say */
    xport_ring_push_bulk(&tx, 4096, true);
    assert_int_equal(shared.data_wanted, XPORT_RING_AWAKE);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* A frame of a few words is taken from the head's cache line if it is all that there
 * is, and from the ring if others are there, one is being written beside the head, or
 * the producer is of an earlier version and writes none there. */
static void
short_frame_is_taken_from_beside_the_head(void **state)
{
    static const uint64_t one[] = {11, 12, 13, 14, 15}, two[] = {21, 22, 23};
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring tx = {&shared, bytes, 0, 0, &closed, -1}, rx = tx;
    uint64_t got[8] = {0};

    static_assert(sizeof(one) == XPORT_RING_INLINE, "the most words");
    assert_int_equal(xport_ring_put(&tx, one, sizeof(one)), sizeof(one));
    memset(bytes, 0xff, XPORT_RING_SIZE);
    assert_int_equal(xport_ring_get(&rx, got, sizeof(got)), sizeof(one));
    assert_memory_equal(got, one, sizeof(one));

    assert_int_equal(xport_ring_put(&tx, one, sizeof(one)), sizeof(one));
    assert_int_equal(xport_ring_put(&tx, two, sizeof(two)), sizeof(two));
    assert_int_equal(xport_ring_get(&rx, got, sizeof(one)), sizeof(one));
    assert_memory_equal(got, one, sizeof(one));
    assert_int_equal(xport_ring_get(&rx, got, sizeof(got)), sizeof(two));
    assert_memory_equal(got, two, sizeof(two));

    assert_int_equal(xport_ring_put(&tx, one, 8), 8);
    memcpy(bytes + tx.index, two, 8);
    xport_ring_push_bulk(&tx, 8, false);
    assert_int_equal(xport_ring_get(&rx, got, sizeof(got)), 16);
    assert_true(got[0] == one[0] && got[1] == two[0]);

    for (uint64_t at = 0; at <= tx.index; at += tx.index) {
        assert_int_equal(xport_ring_put(&tx, two, sizeof(two)), sizeof(two));
        shared.inline_is = at;
        memset(shared.inline_words, 0xee, sizeof(shared.inline_words));
        assert_int_equal(xport_ring_get(&rx, got, sizeof(got)), sizeof(two));
        assert_memory_equal(got, two, sizeof(two));
    }
}

#define SHORT_FRAMES 2000000

struct sender {
    struct xport_ring ring;
    atomic_bool closed;
};

/* The words of a frame say where in the stream they are. */
static void *
send_short_frames(void *argument)
{
    struct sender *sender = argument;
    uint64_t word = 0, frame[8];

    for (uint32_t i = 0; i < SHORT_FRAMES; i++) {
        size_t n = 1 + (i * 2654435761u >> 16) % ARRAY_SIZE(frame);

        for (size_t k = 0; k < n; k++)
            frame[k] = word++;
        for (size_t sent = 0; sent < 8 * n;) {
            int64_t put =
                xport_ring_put(&sender->ring, (uint8_t *)frame + sent, 8 * n - sent);

            if (put == 0)
                xport_ring_wait_room(&sender->ring, gp_now_ns() + GP_NS_PER_MS);
            sent += (size_t)put;
        }
    }
    atomic_store(&sender->closed, true);
    return NULL;
}

/* Frames that overtake each other beside the head while the consumer reads there. */
static void
short_frames_arrive_whole_and_in_order(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct sender sender = {.ring = {&shared, bytes, 0, 0, &closed, -1}};
    struct xport_ring rx = sender.ring;
    uint64_t got[64], word = 0;
    bool ended = false;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, send_short_frames, &sender), 0);
    while (!ended || !xport_ring_empty(&rx)) {
        int64_t n = xport_ring_get(&rx, got, sizeof(got));

        assert_true(n >= 0 && n % 8 == 0);
        for (int64_t i = 0; i < n / 8; i++)
            assert_int_equal(got[i], word++);
        ended = atomic_load(&sender.closed);
        for (int i = 0; n == 0 && i < 200 && xport_ring_empty(&rx); i++)
            gp_cpu_relax();
        if (n == 0 && xport_ring_empty(&rx))
            sched_yield();
    }
    pthread_join(thread, NULL);
    assert_int_equal(8 * word, sender.ring.index);
}

/* --- a connection over two of them --- */

#define FRAME_MAX 4096

static void *
receive_thread(void *conn)
{
    const void *frame;
    uint32_t size;

    return (void *)(intptr_t)xport_recv(conn, &frame, &size, GP_FOREVER);
}

/* As a program that becomes a daemon does.  Another thread may sleep in poll() on the
 * socket meanwhile, which keeps it open: here a copy of it does. */
static void
wait_ends_when_the_program_has_closed_all_descriptors(void **state)
{
    struct timespec soon = {.tv_sec = (time_t)(gp_wall_ns() / GP_NS_PER_S) + 20};
    struct xport_conn *client, *worker;
    int fd[2], first = dup(STDERR_FILENO), kept;
    pthread_t thread;
    void *r;

    (void)state;
    close(first);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(xport_shm_offer(fd[1], true, FRAME_MAX, &worker, NULL), 0);
    assert_int_equal(xport_shm_accept(fd[0], true, FRAME_MAX,
                                      gp_now_ns() + 10 * GP_NS_PER_S, &client, NULL),
                     0);
    xport_watch(client);
    kept = fcntl(client->fd, F_DUPFD_CLOEXEC, 200);
    assert_true(kept >= 200);
    assert_int_equal(close_range((unsigned)first, 199, 0), 0);
    pthread_create(&thread, NULL, receive_thread, client);
    assert_int_equal(pthread_timedjoin_np(thread, &r, &soon), 0);
    assert_int_equal((intptr_t)r, -ECONNRESET);
    xport_free(client);
    xport_free(worker);
    close(kept);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_index_out_of_bounds_is_an_error),
        cmocka_unit_test(tail_of_an_empty_ring_is_published_once_in_many_frames),
        cmocka_unit_test(pieces_are_published_together),
        cmocka_unit_test(part_of_a_payload_wakes_no_sleeper_on_the_same_core),
        cmocka_unit_test(short_frame_is_taken_from_beside_the_head),
        cmocka_unit_test(short_frames_arrive_whole_and_in_order),
        cmocka_unit_test(wait_ends_when_the_program_has_closed_all_descriptors),
    };

    return cmocka_run_group_tests_name("xport_ring", tests, NULL, NULL);
}
