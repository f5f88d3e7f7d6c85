/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a connection whose link is cut at random bytes: what either end sends
 * arrives at the other exactly once.
 *
 * Between the ends stands a relay that forwards a drawn number of bytes and then closes
 * both of its sockets, with whatever it and the kernel hold.  The two ends meet again
 * in meet(), which is the supervisor's and the handshake's part.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_time.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_MAX 4096u
#define PAYLOAD_MAX (300u << 10)
#define PATIENCE_S 60

static uint32_t
draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * below >> 24);
}

/* ---- the way between the ends ------------------------------------------------------
 */

struct relay {
    int stream[2], acks[2];
    int64_t left; /* bytes until the cut */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct xport_conn *conn[2];
    bool waits[2], served[2];
    uint64_t received[2];
    struct xport_resume_link link[2];
    uint32_t seed, most; /* bytes between two cuts */
    uint32_t cuts;
    bool stop;
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool
forward(struct relay *relay, int from, int to)
{
    uint8_t buf[8192];
    size_t most = (size_t)gp_min((int64_t)sizeof(buf), relay->left);
    ssize_t n = recv(from, buf, most, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    relay->left -= n;
    for (ssize_t at = 0; at < n;) {
        ssize_t m = send(to, buf + at, (size_t)(n - at), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (m < 0 && errno != EAGAIN)
            return false;
        if (m < 0 && relay->left < 0)
            return false;
        if (m < 0) { /* full: drop the link, which is a cut like any other */
            struct pollfd p = {.fd = to, .events = POLLOUT};

            if (poll(&p, 1, 20) == 0)
                return false;
        }
        at += gp_max(m, (ssize_t)0);
    }
    return true;
}

static void *
relay_main(void *arg)
{
    struct relay *relay = arg;
    int *s = relay->stream, *a = relay->acks;
    bool good = true;

    while (good && relay->left > 0) {
        struct pollfd fds[] = {
            {s[0], POLLIN, 0}, {s[1], POLLIN, 0}, {a[0], POLLIN, 0}, {a[1], POLLIN, 0}};

        poll(fds, 4, 100);
        good = (!fds[0].revents || forward(relay, s[0], s[1])) &&
               (!fds[1].revents || forward(relay, s[1], s[0])) &&
               (!fds[2].revents || forward(relay, a[0], a[1])) &&
               (!fds[3].revents || forward(relay, a[1], a[0]));
    }
    for (int i = 0; i < 2; i++) {
        close(s[i]);
        close(a[i]);
    }
    free(relay);
    return NULL;
}

/* A new link for both ends, with its relay. */
static void
link_make(struct xport_resume_link link[2])
{
    struct relay *relay = calloc(1, sizeof(*relay));
    pthread_t thread;

    for (int i = 0; i < 2; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        link[i].fd = pair[0];
        relay->stream[i] = pair[1];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        link[i].ack_fd = pair[0];
        relay->acks[i] = pair[1];
    }
    relay->left = 1 + draw(&meeting.seed, meeting.most);
    assert_int_equal(pthread_create(&thread, NULL, relay_main, relay), 0);
    pthread_detach(thread);
}

/* Both are here: give each its link. */
static int
meet(struct xport_conn *conn, uint64_t received, struct xport_resume_link *ret)
{
    int me = conn == meeting.conn[1], r = -ECONNABORTED;

    pthread_mutex_lock(&meeting.lock);
    meeting.waits[me] = true;
    meeting.received[me] = received;
    if (meeting.waits[!me]) {
        link_make(meeting.link);
        meeting.link[0].received = meeting.received[1];
        meeting.link[1].received = meeting.received[0];
        meeting.served[0] = meeting.served[1] = true;
        meeting.waits[0] = meeting.waits[1] = false;
        meeting.cuts++;
        pthread_cond_broadcast(&meeting.changed);
    }
    while (!meeting.served[me] && !meeting.stop)
        pthread_cond_wait(&meeting.changed, &meeting.lock);
    if (meeting.served[me]) {
        meeting.served[me] = false;
        *ret = meeting.link[me];
        r = 0;
    }
    pthread_mutex_unlock(&meeting.lock);
    return r;
}

static bool
never_knocks(struct xport_conn *conn)
{
    (void)conn;
    return false;
}

/* The second one is connected to: there the reader replaces the link. */
static const struct xport_resume_owner owner[2] = {
    {.reconnect = meet}, {.reconnect = meet, .knocks = never_knocks}};

/* ---- what they say -----------------------------------------------------------------
 */

struct end {
    struct xport_conn *conn;
    uint32_t seed;
    uint32_t frames;
    pthread_t sender, receiver;
    uint64_t got;
    bool confirms;     /* a message says how many bytes its sender has received */
    uint64_t received; /* in messages that are here as a whole */
};

struct message {
    uint32_t size, number;
    uint32_t payload, received;
};

static void
fill(uint8_t *to, uint32_t n, uint32_t number)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

static void
message_send(struct end *e, uint32_t number, uint32_t *state)
{
    uint32_t extra =
        8 * draw(state, (FRAME_MAX - (uint32_t)sizeof(struct message)) / 8);
    uint32_t payload = draw(state, 4) == 0 ? draw(state, PAYLOAD_MAX) : 0;
    uint32_t size = (uint32_t)sizeof(struct message) + extra;
    struct message *m = xport_reserve(e->conn, size);
    uint32_t how = draw(state, 4);

    assert_non_null(m);
    *m = (struct message){
        .size = size,
        .number = number,
        .payload = payload,
        .received = (uint32_t)__atomic_load_n(&e->received, __ATOMIC_SEQ_CST)};
    fill((uint8_t *)(m + 1), extra, number);
    xport_commit(e->conn, size);
    if (payload) {
        uint8_t *bytes = malloc(payload);

        fill(bytes, payload, number + 1);
        if (how == 0) {
            uint64_t ticket;

            assert_int_equal(xport_send_bulk_start(e->conn, bytes, payload, &ticket),
                             0);
            assert_int_equal(xport_send_bulk_wait(e->conn, ticket), 0);
        } else {
            assert_int_equal(xport_send_bulk(e->conn, bytes, payload), 0);
        }
        memset(bytes, 0xdd, payload);
        free(bytes);
    } else if (how == 0) {
        assert_int_equal(xport_flush(e->conn), 0);
    } else if (how == 1) {
        int r = xport_flush_now(e->conn);

        assert_true(r == 0 || r == -EAGAIN);
    }
}

static void *
sender_main(void *arg)
{
    struct end *e = arg;
    uint32_t state = e->seed;

    for (uint32_t i = 0; i < e->frames; i++)
        message_send(e, i, &state);
    assert_int_equal(xport_flush(e->conn), 0);
    return NULL;
}

static void
message_check(struct end *e, uint32_t number)
{
    static _Thread_local uint8_t wanted[PAYLOAD_MAX], bytes[PAYLOAD_MAX];
    struct message m;
    const void *frame;
    uint32_t size;
    int r = xport_recv(e->conn, &frame, &size, gp_now_ns() + PATIENCE_S * GP_NS_PER_S);

    assert_int_equal(r, 0);
    memcpy(&m, frame, sizeof(m));
    assert_int_equal(m.number, number);
    fill(wanted, size - (uint32_t)sizeof(m), number);
    assert_memory_equal((const uint8_t *)frame + sizeof(m), wanted, size - sizeof(m));
    if (e->confirms)
        xport_confirm(e->conn, m.received);
    if (m.payload) {
        assert_int_equal(xport_recv_bulk(e->conn, bytes, m.payload), 0);
        fill(wanted, m.payload, number + 1);
        assert_memory_equal(bytes, wanted, m.payload);
        xport_acknowledge(e->conn);
    }
    __atomic_fetch_add(&e->received, size + m.payload, __ATOMIC_SEQ_CST);
}

/* Reads to the end, and on: a reader is what sends again what the peer has missed. */
static void *
receiver_main(void *arg)
{
    struct end *e = arg;
    const void *frame;
    uint32_t size;

    for (uint32_t i = 0; i < e->frames; i++)
        message_check(e, i);
    __atomic_store_n(&e->got, 1, __ATOMIC_SEQ_CST);
    while (xport_recv(e->conn, &frame, &size, GP_FOREVER) == 0)
        fail_msg("a frame too many");
    return NULL;
}

static void
talk(uint32_t seed, uint32_t most, uint32_t frames, enum xport_pack pack, bool blocks,
     bool confirms)
{
    struct xport_resume_link link[2];
    struct end end[2] = {{.seed = seed, .frames = frames, .confirms = confirms},
                         {.seed = seed + 1, .frames = frames, .confirms = confirms}};
    uint64_t replayed = 0;

    meeting.seed = seed;
    meeting.most = most;
    meeting.cuts = 0;
    meeting.stop = false;
    memset(meeting.waits, 0, sizeof(meeting.waits));
    memset(meeting.served, 0, sizeof(meeting.served));
    link_make(link);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(xport_resume_new(link[i].fd, link[i].ack_fd, FRAME_MAX,
                                          &owner[i], &meeting.conn[i], NULL),
                         0);
        end[i].conn = meeting.conn[i];
        if (blocks)
            assert_int_equal(xport_blocks_start(end[i].conn, pack, NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_create(&end[i].receiver, NULL, receiver_main, &end[i]);
        pthread_create(&end[i].sender, NULL, sender_main, &end[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(end[i].sender, NULL);
    while (!__atomic_load_n(&end[0].got, __ATOMIC_SEQ_CST) ||
           !__atomic_load_n(&end[1].got, __ATOMIC_SEQ_CST))
        usleep(1000);
    pthread_mutex_lock(&meeting.lock);
    meeting.stop = true;
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
    for (int i = 0; i < 2; i++)
        xport_abort(end[i].conn);
    for (int i = 0; i < 2; i++) {
        pthread_join(end[i].receiver, NULL);
        replayed += xport_resume_stats(end[i].conn).replayed;
    }
    for (int i = 0; i < 2; i++)
        xport_free(end[i].conn);
    print_message("seed %u: %u cuts, %llu bytes sent again\n", seed, meeting.cuts,
                  (unsigned long long)replayed);
    assert_true(meeting.cuts > 0);
}

/* ---- one end by hand ---------------------------------------------------------------
 */

static int asked; /* for new links */

static int
nobody_comes(struct xport_conn *conn, uint64_t received, struct xport_resume_link *ret)
{
    (void)conn, (void)received, (void)ret;
    asked++;
    return -ETIME;
}

/* What the peer claims to have of a stream of 16 bytes. */
static uint64_t claimed;

static int
liar_comes(struct xport_conn *conn, uint64_t received, struct xport_resume_link *ret)
{
    int pair[2];

    (void)conn, (void)received;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    *ret = (struct xport_resume_link){.fd = pair[0], .ack_fd = -1, .received = claimed};
    return asked++ ? -ETIME : 0;
}

static struct xport_conn *
end_new(const struct xport_resume_owner *of, int fd)
{
    struct xport_conn *conn;

    asked = 0;
    assert_int_equal(xport_resume_new(fd, -1, FRAME_MAX, of, &conn, NULL), 0);
    return conn;
}

static void
send_frame(struct xport_conn *conn)
{
    struct message *m = xport_reserve(conn, sizeof(*m));

    assert_non_null(m);
    *m = (struct message){.size = sizeof(*m)};
    xport_commit(conn, sizeof(*m));
}

/* Frames that wait for a flush leave with it; who is connected to asks for no link. */
static void
test_goodbye_ends_the_other_end(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = nobody_comes},
                                           worker = {.reconnect = nobody_comes,
                                                     .knocks = never_knocks};
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&client, pair[0]);
    far = end_new(&worker, pair[1]);
    send_frame(near);
    xport_resume_goodbye(near);
    xport_free(near);
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), 0);
    assert_int_equal(size, sizeof(struct message));
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), -ECONNRESET);
    assert_int_equal(asked, 0);
    xport_free(far);
}

/* A sender there does not wait for a new link before somebody has read to the end. */
static void
test_goodbye_is_read_although_a_reply_cannot_be_sent(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = nobody_comes},
                                           worker = {.reconnect = nobody_comes,
                                                     .knocks = never_knocks};
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&client, pair[0]);
    far = end_new(&worker, pair[1]);
    xport_resume_goodbye(near);
    xport_free(near);
    for (int i = 0; i < 3; i++) {
        send_frame(far);
        assert_int_equal(xport_flush(far), 0);
    }
    send_frame(far);
    assert_int_equal(xport_flush_now(far), 0);
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), -ECONNRESET);
    assert_int_equal(asked, 0);
    xport_free(far);
}

static void
test_server_cannot_say_goodbye(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = nobody_comes};
    static const uint64_t last = XPORT_LAST_FRAME;
    struct xport_conn *near;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&client, pair[0]);
    assert_int_equal(write(pair[1], &last, sizeof(last)), sizeof(last));
    assert_int_equal(xport_recv(near, &frame, &size, GP_FOREVER), -EPROTO);
    xport_free(near);
    close(pair[1]);
}

/* Less than was acknowledged, or more than was sent, is another stream. */
static void
test_offset_outside_of_the_journal_ends_the_connection(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = liar_comes};
    const void *frame;
    uint32_t size;

    (void)state;
    for (claimed = 16; claimed <= 17; claimed++) {
        struct xport_conn *near;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        near = end_new(&client, pair[0]);
        send_frame(near);
        assert_int_equal(xport_flush(near), 0);
        close(pair[1]);
        assert_int_equal(xport_recv(near, &frame, &size, GP_FOREVER),
                         claimed > 16 ? -EPROTO : -ETIME);
        xport_free(near);
    }
}

static int looked; /* for acknowledgements */

static int
no_acks(struct xport_conn *conn, struct xport_resume_link *ret)
{
    (void)conn, (void)ret;
    looked++;
    return -EAGAIN;
}

/* In the middle of a payload the peer acknowledges once in a while: a part whose
 * acknowledgement is not due is copied, however short the round trip is. */
static void
test_acknowledgement_that_is_not_due_is_not_waited_for(void **state)
{
    static const struct xport_resume_owner worker = {
        .reconnect = nobody_comes, .ack_link = no_acks, .knocks = never_knocks};
    static uint8_t bytes[2][72u << 10];
    struct xport_conn *conn;
    uint64_t ticket[2];
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    conn = end_new(&worker, pair[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            xport_send_bulk_start(conn, bytes[i], sizeof(bytes[i]), &ticket[i]), 0);
    looked = 0;
    assert_int_equal(xport_send_bulk_wait(conn, ticket[0]), 0);
    assert_int_equal(looked, 1);
    xport_free(conn);
    close(pair[1]);
}

static uint32_t
first_seed(void)
{
    const char *text = getenv("GPUPOOL_SEED");

    return text ? (uint32_t)strtoul(text, NULL, 10) : 1;
}

static void
test_cut_within_every_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        talk(first_seed() + i, 20000, 300, 0, false, false);
}

static void
test_cut_rarely_with_full_journals(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        talk(first_seed() + 100 + i, 8u << 20, 1500, 0, false, false);
}

/* Messages confirm what came the other way, as replies do: room is used again sooner.
 */
static void
test_cut_where_messages_confirm(void **state)
{
    (void)state;
    talk(first_seed() + 400, 20000, 100, 0, false, true);
    talk(first_seed() + 401, 8u << 20, 500, 0, false, true);
}

static void
test_cut_within_blocks(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        talk(first_seed() + 200 + i, 1u << 20, 400, XPORT_PACK_NEVER, true, false);
    if (xport_pack_usable())
        talk(first_seed() + 300, 1u << 18, 300, XPORT_PACK_ALWAYS, true, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_within_every_frame),
        cmocka_unit_test(test_cut_rarely_with_full_journals),
        cmocka_unit_test(test_cut_where_messages_confirm),
        cmocka_unit_test(test_cut_within_blocks),
        cmocka_unit_test(test_goodbye_ends_the_other_end),
        cmocka_unit_test(test_goodbye_is_read_although_a_reply_cannot_be_sent),
        cmocka_unit_test(test_server_cannot_say_goodbye),
        cmocka_unit_test(test_acknowledgement_that_is_not_due_is_not_waited_for),
        cmocka_unit_test(test_offset_outside_of_the_journal_ends_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
