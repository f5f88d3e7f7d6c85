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

#include "gp_time.h"
#include "xport.h"
#include "xport_block.h"
#include "xport_resume.h"
#include "xport_stripes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_MAX 4096u
#define PAYLOAD_MAX (300u << 10)
#define PAYLOAD_STRIPED (2u << 20) /* where there are stripes, which long ones use */
#define STRIPES 3
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
    int fd[2 + STRIPES][2]; /* the stream, the acknowledgements, stripes */
    unsigned n;
    int64_t left; /* bytes until the cut */
    uint64_t striped;
    bool again; /* not of the first link */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct xport_conn *conn[2];
    bool waits[2], served[2];
    struct xport_resume_have have[2];
    struct xport_resume_link link[2];
    uint32_t seed, most; /* bytes between two cuts */
    uint32_t payload_max;
    uint32_t cuts;
    unsigned n_stripes;
    int stripes[2][STRIPES]; /* of the link in use, for who makes them */
    bool stripes_wait;
    uint64_t striped_again; /* bytes that went over those */
    bool stop;
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool
forward(struct relay *relay, int from, int to)
{
    uint8_t buf[8192];
    size_t most = (size_t)gp_min((int64_t)sizeof(buf), relay->left);
    struct pollfd room = {.fd = to, .events = POLLOUT};
    ssize_t n;

    if (relay->n > 2 && poll(&room, 1, 1) == 0)
        return true; /* its receiver is busy with another stripe */
    n = recv(from, buf, most, MSG_DONTWAIT);
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
    bool good = true;

    while (good && relay->left > 0) {
        struct pollfd fds[2 * (2 + STRIPES)];

        for (unsigned i = 0; i < 2 * relay->n; i++)
            fds[i] = (struct pollfd){relay->fd[i / 2][i % 2], POLLIN, 0};
        poll(fds, 2 * relay->n, 100);
        for (unsigned i = 0; good && i < 2 * relay->n; i++) {
            int64_t left = relay->left;

            good = !fds[i].revents ||
                   forward(relay, relay->fd[i / 2][i % 2], relay->fd[i / 2][!(i % 2)]);
            relay->striped += i >= 4 ? (uint64_t)(left - relay->left) : 0;
        }
    }
    for (unsigned i = 0; i < 2 * relay->n; i++)
        close(relay->fd[i / 2][i % 2]);
    if (relay->again)
        __atomic_fetch_add(&meeting.striped_again, relay->striped, __ATOMIC_SEQ_CST);
    free(relay);
    return NULL;
}

/* A new link for both ends, with its relay, and the first @n_stripes of @stripes. */
static void
link_make(struct xport_resume_link link[2], int stripes[2][STRIPES], unsigned n_stripes)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    pthread_t thread;

    relay->n = 2 + n_stripes;
    for (unsigned i = 0; i < 2 * relay->n; i++) {
        unsigned way = i / 2, end = i % 2;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        *(way == 0   ? &link[end].fd
          : way == 1 ? &link[end].ack_fd
                     : &stripes[end][way - 2]) = pair[0];
        relay->fd[way][end] = pair[1];
    }
    relay->left = 1 + draw(&meeting.seed, meeting.most);
    relay->again = meeting.cuts > 0;
    assert_int_equal(pthread_create(&thread, NULL, relay_main, relay), 0);
    pthread_detach(thread);
}

/* Those that nobody has taken; under the lock. */
static void
stripes_drop(void)
{
    for (unsigned i = 0; meeting.stripes_wait && i < 2 * meeting.n_stripes; i++)
        close(meeting.stripes[i % 2][i / 2]);
    meeting.stripes_wait = false;
}

/* Both are here: give each its link. */
static int
meet(struct xport_conn *conn, const struct xport_resume_have *have,
     struct xport_resume_link *ret)
{
    int me = conn == meeting.conn[1], r = -ECONNABORTED;

    pthread_mutex_lock(&meeting.lock);
    meeting.waits[me] = true;
    meeting.have[me] = *have;
    if (meeting.waits[!me]) {
        stripes_drop();
        meeting.cuts++;
        link_make(meeting.link, meeting.stripes, meeting.n_stripes);
        meeting.stripes_wait = meeting.n_stripes > 0;
        for (int i = 0; i < 2; i++) {
            meeting.link[i].peer = meeting.have[!i];
            meeting.link[i].number = meeting.cuts;
        }
        meeting.served[0] = meeting.served[1] = true;
        meeting.waits[0] = meeting.waits[1] = false;
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
    uint32_t payload = draw(state, 4) == 0 ? draw(state, meeting.payload_max) : 0;
    uint32_t size = (uint32_t)sizeof(struct message) + extra;
    struct message *m = xport_reserve(e->conn, size);
    uint32_t how = draw(state, 4);
    uint64_t ticket = 0; /* of a payload's last part */

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
            xport_bulk_in_parts(e->conn, payload);
            for (uint32_t at = 0, n; at < payload; at += n) {
                n = 1 + draw(state, payload - at);
                xport_send_bulk_start(e->conn, bytes + at, n, &ticket);
            }
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
    static _Thread_local uint8_t wanted[PAYLOAD_STRIPED], bytes[PAYLOAD_STRIPED];
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

/* What a thread of the client's does: the link has its stripes, unless another one has
 * come meanwhile. */
static void
stripes_make(int fds[2][STRIPES], uint32_t link)
{
    int r[2];

    for (int i = 0; i < 2; i++) {
        r[i] = xport_stripes_add(meeting.conn[i], fds[i], NULL, STRIPES, link, NULL);
        assert_true(r[i] == 0 || r[i] == -ESTALE);
        for (unsigned k = 0; r[i] < 0 && k < STRIPES; k++)
            close(fds[i][k]);
    }
    for (int i = 0; r[0] == 0 && r[1] == 0 && i < 2; i++) {
        int used = xport_stripes_use(meeting.conn[i], link);

        assert_true(used == 0 || used == -ESTALE);
    }
}

static void *
stripes_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&meeting.lock);
    while (!meeting.stop) {
        int fds[2][STRIPES];
        uint32_t link = meeting.cuts;

        if (!meeting.stripes_wait) {
            pthread_cond_wait(&meeting.changed, &meeting.lock);
            continue;
        }
        memcpy(fds, meeting.stripes, sizeof(fds));
        meeting.stripes_wait = false;
        pthread_mutex_unlock(&meeting.lock);
        stripes_make(fds, link);
        pthread_mutex_lock(&meeting.lock);
    }
    stripes_drop();
    pthread_mutex_unlock(&meeting.lock);
    return NULL;
}

/* Every long payload goes over the stripes, for as long as they live. */
static void
stripes_add(struct xport_conn *conn, const int fds[STRIPES])
{
    struct xport_stripes *stripes;

    assert_int_equal(xport_stripes_add(conn, fds, NULL, STRIPES, 0, NULL), 0);
    assert_int_equal(xport_stripes_use(conn, 0), 0);
    stripes = atomic_load(&conn->blocks->stripes);
    stripes->use = true;
    stripes->until = UINT64_MAX;
}

static void
talk_over(uint32_t seed, uint32_t most, uint32_t frames, enum xport_pack pack,
          bool blocks, bool confirms, unsigned n_stripes)
{
    struct xport_resume_link link[2];
    int stripes[2][STRIPES];
    struct end end[2] = {{.seed = seed, .frames = frames, .confirms = confirms},
                         {.seed = seed + 1, .frames = frames, .confirms = confirms}};
    uint64_t replayed = 0;
    pthread_t maker;

    meeting.seed = seed;
    meeting.most = most;
    meeting.payload_max = n_stripes ? PAYLOAD_STRIPED : PAYLOAD_MAX;
    meeting.cuts = 0;
    meeting.n_stripes = n_stripes;
    meeting.stripes_wait = false;
    meeting.stop = false;
    memset(meeting.waits, 0, sizeof(meeting.waits));
    memset(meeting.served, 0, sizeof(meeting.served));
    link_make(link, stripes, n_stripes);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(xport_resume_new(link[i].fd, link[i].ack_fd, FRAME_MAX,
                                          &owner[i], &meeting.conn[i], NULL),
                         0);
        end[i].conn = meeting.conn[i];
        if (blocks)
            assert_int_equal(xport_blocks_start(end[i].conn, pack, NULL), 0);
        if (n_stripes)
            stripes_add(end[i].conn, stripes[i]);
    }
    pthread_create(&maker, NULL, stripes_main, NULL);
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
    pthread_join(maker, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(end[i].receiver, NULL);
        replayed += xport_resume_stats(end[i].conn).replayed;
    }
    for (int i = 0; i < 2; i++)
        xport_free(end[i].conn);
    print_message("seed %u: %u cuts, %llu bytes sent again\n", seed, meeting.cuts,
                  (unsigned long long)replayed);
}

static void
talk(uint32_t seed, uint32_t most, uint32_t frames, enum xport_pack pack, bool blocks,
     bool confirms)
{
    talk_over(seed, most, frames, pack, blocks, confirms, 0);
    assert_true(meeting.cuts > 0);
}

/* ---- one end by hand ---------------------------------------------------------------
 */

static int asked; /* for new links */

static int
nobody_comes(struct xport_conn *conn, const struct xport_resume_have *have,
             struct xport_resume_link *ret)
{
    (void)conn, (void)have, (void)ret;
    asked++;
    return -ETIME;
}

/* What the peer claims to have of a stream of 16 bytes. */
static uint64_t claimed;
static uint64_t claimed_striped; /* to have sent, of a connection without stripes */

static int
liar_comes(struct xport_conn *conn, const struct xport_resume_have *have,
           struct xport_resume_link *ret)
{
    int pair[2];

    (void)conn, (void)have;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    *ret = (struct xport_resume_link){.number = 9,
                                      .fd = pair[0],
                                      .ack_fd = -1,
                                      .peer = {claimed, 0, claimed_striped}};
    return asked++ ? -ETIME : 0;
}

static const struct xport_resume_owner alone[2] = {
    {.reconnect = nobody_comes}, {.reconnect = nobody_comes, .knocks = never_knocks}};

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
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    far = end_new(&alone[1], pair[1]);
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
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    far = end_new(&alone[1], pair[1]);
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
    static const uint64_t last = XPORT_LAST_FRAME;
    struct xport_conn *near;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    assert_int_equal(write(pair[1], &last, sizeof(last)), sizeof(last));
    assert_int_equal(xport_recv(near, &frame, &size, GP_FOREVER), -EPROTO);
    xport_free(near);
    close(pair[1]);
}

/* What an end that has sent 16 bytes makes of the claim. */
static int
end_hears(bool stripes)
{
    static const struct xport_resume_owner client = {.reconnect = liar_comes};
    struct xport_conn *near;
    const void *frame;
    uint32_t size;
    int pair[2], r;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&client, pair[0]);
    if (stripes) {
        int stripe[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stripe), 0);
        assert_int_equal(xport_blocks_start(near, XPORT_PACK_NEVER, NULL), 0);
        assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 0, NULL), 0);
    }
    send_frame(near);
    assert_int_equal(xport_flush(near), 0);
    close(pair[1]);
    r = xport_recv(near, &frame, &size, GP_FOREVER);
    xport_free(near);
    return r;
}

/* Less than was acknowledged, or more than was sent, is another stream. */
static void
test_offset_outside_of_the_journal_ends_the_connection(void **state)
{
    (void)state;
    claimed = 16;
    assert_int_equal(end_hears(false), -ETIME);
    claimed = 17;
    assert_int_equal(end_hears(false), -EPROTO);
}

/* A peer makes no end keep more than the window. */
static void
test_claim_of_striped_bytes_is_bounded(void **state)
{
    (void)state;
    claimed = 16;
    claimed_striped = 1;
    assert_int_equal(end_hears(false), -EPROTO);
    claimed_striped = 32u << 20;
    assert_int_equal(end_hears(true), -ETIME);
    claimed_striped++;
    assert_int_equal(end_hears(true), -EPROTO);
    claimed_striped = 0;
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

/* ---- an end that only reads --------------------------------------------------------
 */

/* Two ends and their socket for acknowledgements, without a relay. */
static void
pair_new(uint32_t frame_max, struct xport_conn *ret[2])
{
    int stream[2], acks[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, acks), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            xport_resume_new(stream[i], acks[i], frame_max, &alone[i], &ret[i], NULL),
            0);
}

static void *
reader_main(void *arg)
{
    struct xport_conn *conn = arg;
    const void *frame;
    uint32_t size;

    while (xport_recv(conn, &frame, &size, GP_FOREVER) == 0)
        ;
    return NULL;
}

/* One end sends 8 MiB in frames of @size bytes, @each before a flush, and nothing comes
 * back but acknowledgements: it must never wait for one that is not due. */
static void
flow(int sender, uint32_t size, unsigned each, uint32_t frame_max)
{
    struct xport_conn *conn[2];
    uint64_t sent = 0;
    pthread_t reader;

    pair_new(frame_max, conn);
    xport_confirm(conn[sender], 1); /* as after a first reply */
    assert_int_equal(pthread_create(&reader, NULL, reader_main, conn[!sender]), 0);
    while (sent < 8u << 20) {
        for (unsigned i = 0; i < each; i++) {
            struct message *m = xport_reserve(conn[sender], size);

            assert_non_null(m);
            *m = (struct message){.size = size};
            xport_commit(conn[sender], size);
        }
        assert_int_equal(xport_flush(conn[sender]), 0);
        sent += each * size;
    }
    xport_abort(conn[!sender]);
    pthread_join(reader, NULL);
    xport_free(conn[0]);
    xport_free(conn[1]);
}

static void
test_sender_of_little_at_a_time_never_waits_for_ever(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    for (int sender = 0; sender < 2; sender++) {
        flow(sender, 1040, 4, FRAME_MAX);
        flow(sender, 48, 100, FRAME_MAX);
        flow(sender, 18440, 1, 128u << 10);
    }
    alarm(0);
}

static void
test_sender_of_large_frames_never_waits_for_ever(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    for (int sender = 0; sender < 2; sender++) {
        flow(sender, 40u << 10, 1, 128u << 10);
        flow(sender, 65544, 1, 128u << 10);
        flow(sender, 128u << 10, 1, 128u << 10);
    }
    alarm(0);
}

/* A look, which the worker makes several times a second, acknowledges what nobody
 * expects any more of. */
static void
test_quiet_end_acknowledges_when_it_looks(void **state)
{
    struct xport_conn *conn[2];
    const void *frame;
    uint32_t size;

    (void)state;
    pair_new(128u << 10, conn);
    for (int i = 0; i < 3; i++) {
        struct message *m = xport_reserve(conn[0], 64u << 10);

        assert_non_null(m);
        *m = (struct message){.size = 64u << 10};
        xport_commit(conn[0], m->size);
        assert_int_equal(xport_flush(conn[0]), 0);
        assert_int_equal(xport_recv(conn[1], &frame, &size, GP_FOREVER), 0);
    }
    for (int looks = 0; looks < 3; looks++) {
        struct pollfd p = {.fd = xport_resume_ack_fd(conn[0]), .events = POLLIN};

        assert_int_equal(poll(&p, 1, 0), looks == 2);
        xport_look(conn[1]);
    }
    xport_free(conn[0]);
    xport_free(conn[1]);
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

/* The stripes end with their link and are made again for the next one, beside a
 * conversation that goes on; some cuts come in the middle of that. */
static void
test_cut_within_stripes(void **state)
{
    uint64_t cuts = 0, again;

    __atomic_store_n(&meeting.striped_again, 0, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < 30; i++) {
        talk_over(first_seed() + 500 + i, i % 2 ? 6u << 20 : 1u << 20, 40,
                  XPORT_PACK_NEVER, true, false, STRIPES);
        cuts += meeting.cuts;
    }
    assert_true(cuts >= 30);
    again = __atomic_load_n(&meeting.striped_again, __ATOMIC_SEQ_CST);
    print_message("%llu bytes over stripes of later links\n",
                  (unsigned long long)again);
    assert_true(again > 8u << 20);
}

/* They are of one link, at both ends, and of as many as there were. */
static void
test_stripes_are_those_of_the_link_in_use(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = liar_comes};
    int pair[2], stripe[2], again[2];
    struct xport_conn *near;
    const void *frame;
    uint32_t size;

    (void)state;
    claimed = 16;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stripe), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, again), 0);
    near = end_new(&client, pair[0]);
    assert_int_equal(xport_blocks_start(near, XPORT_PACK_NEVER, NULL), 0);
    assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 1, NULL), -ESTALE);
    assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 0, NULL), 0);
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 0, NULL), -EALREADY);
    assert_true(xport_stripes_here(near));
    send_frame(near);
    assert_int_equal(xport_flush(near), 0);
    close(pair[1]);
    assert_int_equal(xport_recv(near, &frame, &size, gp_now_ns() + GP_NS_PER_S),
                     -ETIME);
    assert_int_equal(xport_stripes_link(near), 9);
    assert_false(xport_stripes_here(near));
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 0, NULL), -ESTALE);
    assert_int_equal(xport_stripes_add(near, again, NULL, 1, 9, NULL), -EINVAL);
    assert_int_equal(xport_stripes_use(near, 0), -ESTALE);
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 9, NULL), 0);
    assert_true(xport_stripes_here(near));
    assert_int_equal(xport_stripes_use(near, 9), 0);
    xport_free(near);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_within_every_frame),
        cmocka_unit_test(test_cut_rarely_with_full_journals),
        cmocka_unit_test(test_cut_where_messages_confirm),
        cmocka_unit_test(test_cut_within_blocks),
        cmocka_unit_test(test_cut_within_stripes),
        cmocka_unit_test(test_stripes_are_those_of_the_link_in_use),
        cmocka_unit_test(test_goodbye_ends_the_other_end),
        cmocka_unit_test(test_goodbye_is_read_although_a_reply_cannot_be_sent),
        cmocka_unit_test(test_server_cannot_say_goodbye),
        cmocka_unit_test(test_acknowledgement_that_is_not_due_is_not_waited_for),
        cmocka_unit_test(test_offset_outside_of_the_journal_ends_the_connection),
        cmocka_unit_test(test_claim_of_striped_bytes_is_bounded),
        cmocka_unit_test(test_sender_of_little_at_a_time_never_waits_for_ever),
        cmocka_unit_test(test_sender_of_large_frames_never_waits_for_ever),
        cmocka_unit_test(test_quiet_end_acknowledges_when_it_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
