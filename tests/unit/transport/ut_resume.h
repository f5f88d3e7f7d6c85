/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a connection whose link is cut at random bytes: what either end sends
 * arrives at the other exactly once.
 *
 * Between the ends stands a relay that forwards a drawn number of bytes and then closes
 * both of its sockets, with whatever it and the kernel hold.  The two ends meet again
 * in meet(), which is the supervisor's and the handshake's part.
 */
#ifndef UT_RESUME_H
#define UT_RESUME_H

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
#define PAYLOAD_SOURCE (3 * XPORT_SOURCE_TAIL) /* where they can be read again */
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
    enum xport_kind kind[2]; /* of the last link */
    bool pieces;             /* payloads are received in pieces, and memory is pinned */
    uint64_t replayed;       /* bytes, by both ends of the last conversation */
    bool sources;            /* some payloads are read again instead of kept */
    uint64_t reread;         /* how often */
    /* May make another kind of link; false: it has not. */
    bool (*other_link)(struct xport_resume_link link[2]);
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
        memset(meeting.link, 0, sizeof(meeting.link));
        if (!meeting.other_link || !meeting.other_link(meeting.link))
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

struct source {
    struct xport_source base;
    const uint8_t *bytes;
};

static int64_t
source_read(struct xport_source *base, uint64_t at, uint64_t len, const uint8_t **ret)
{
    struct source *source = container_of(base, struct source, base);

    *ret = source->bytes + at;
    __atomic_fetch_add(&meeting.reread, 1, __ATOMIC_SEQ_CST);
    return (int64_t)gp_min(len, (uint64_t)100000);
}

/* Parts whose memory is somebody else's as soon as nobody has a ticket for it. */
static void
payload_send_from_source(struct end *e, const uint8_t *bytes, uint32_t len,
                         uint32_t *state)
{
    struct source source = {.base.read = source_read, .bytes = bytes};
    struct {
        uint8_t *bytes;
        uint64_t ticket;
    } part[64];
    unsigned k = 0;

    xport_bulk_from_source(e->conn, len, &source.base);
    for (uint32_t at = 0, n; at < len; at += n, k++) {
        n = k < 63 ? gp_min(1 + draw(state, len / 16), len - at) : len - at;
        part[k].bytes = malloc(n);
        memcpy(part[k].bytes, bytes + at, n);
        xport_send_bulk_start(e->conn, part[k].bytes, n, &part[k].ticket);
        if (!part[k].ticket)
            memset(part[k].bytes, 0xdd, n);
    }
    assert_int_equal(xport_bulk_source_done(e->conn), 0);
    source.bytes = NULL;
    for (unsigned i = 0; i < k; i++) {
        assert_int_equal(xport_send_bulk_wait(e->conn, part[i].ticket), 0);
        free(part[i].bytes);
    }
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
        bool pinned = meeting.pieces && draw(state, 2);

        if (pinned)
            xport_pin(e->conn, bytes, payload);
        fill(bytes, payload, number + 1);
        if (meeting.sources && how < 2) {
            payload_send_from_source(e, bytes, payload, state);
        } else if (how == 0) {
            xport_bulk_in_parts(e->conn, payload);
            for (uint32_t at = 0, n; at < payload; at += n) {
                n = 1 + draw(state, payload - at);
                xport_send_bulk_start(e->conn, bytes + at, n, &ticket);
            }
            assert_int_equal(xport_send_bulk_wait(e->conn, ticket), 0);
        } else {
            assert_int_equal(xport_send_bulk(e->conn, bytes, payload), 0);
        }
        if (pinned)
            xport_unpin(e->conn, bytes);
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

/* Of a receiver: what came, and what should have. */
static _Thread_local uint8_t *receiver_bytes, *receiver_wanted;

/* In one piece, or in several that are under way together. */
static void
payload_receive(struct end *e, uint8_t *bytes, uint32_t len)
{
    uint32_t state = e->seed + len, n;
    uint64_t ticket[16] = {0};
    unsigned k = 0;

    if (!meeting.pieces || draw(&state, 2)) {
        assert_int_equal(xport_recv_bulk(e->conn, bytes, len), 0);
        return;
    }
    for (uint32_t at = 0; at < len; at += n, k++) {
        n = k < 15 ? 1 + draw(&state, gp_min(len - at, len / 4 + 1)) : len - at;
        assert_int_equal(xport_recv_bulk_start(e->conn, bytes + at, n, &ticket[k]), 0);
    }
    for (unsigned i = 0; i < k; i++)
        assert_int_equal(xport_recv_bulk_wait(e->conn, ticket[i]), 0);
}

static void
message_check(struct end *e, uint32_t number)
{
    uint8_t *bytes = receiver_bytes, *wanted = receiver_wanted;
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
        memset(bytes, 0, m.payload);
        payload_receive(e, bytes, m.payload);
        fill(wanted, m.payload, number + 1);
        assert_memory_equal(bytes, wanted, m.payload);
        xport_acknowledge(e->conn);
    }
    __atomic_fetch_add(&e->received, size + m.payload, __ATOMIC_SEQ_CST);
}

/* All has come.  Reads on: a reader is what sends again what the peer has missed. */
static void
read_on(struct end *e)
{
    const void *frame;
    uint32_t size;

    __atomic_store_n(&e->got, 1, __ATOMIC_SEQ_CST);
    while (xport_recv(e->conn, &frame, &size, GP_FOREVER) == 0)
        fail_msg("a frame too many");
}

static void *
receiver_main(void *arg)
{
    struct end *e = arg;

    receiver_bytes = calloc(1, PAYLOAD_SOURCE);
    receiver_wanted = calloc(1, PAYLOAD_SOURCE);
    if (meeting.pieces && e->seed % 3)
        xport_pin(e->conn, receiver_bytes, PAYLOAD_SOURCE);
    for (uint32_t i = 0; i < e->frames; i++)
        message_check(e, i);
    read_on(e);
    if (meeting.pieces)
        xport_unpin(e->conn, receiver_bytes);
    free(receiver_bytes);
    free(receiver_wanted);
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

/* What each end sends and receives with. */
struct parts {
    void *(*send)(void *end);
    void *(*receive)(void *end);
};

/* Both ends are meeting.conn[]: they say to each other what they have to say. */
static void
talk_by(const struct parts parts[2], uint32_t seed, uint32_t frames, bool confirms)
{
    struct end end[2] = {{.seed = seed, .frames = frames, .confirms = confirms},
                         {.seed = seed + 1, .frames = frames, .confirms = confirms}};
    pthread_t maker;

    pthread_create(&maker, NULL, stripes_main, NULL);
    for (int i = 0; i < 2; i++) {
        end[i].conn = meeting.conn[i];
        pthread_create(&end[i].receiver, NULL, parts[i].receive, &end[i]);
        pthread_create(&end[i].sender, NULL, parts[i].send, &end[i]);
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
    meeting.replayed = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(end[i].receiver, NULL);
        meeting.replayed += xport_resume_replayed(end[i].conn);
    }
    for (int i = 0; i < 2; i++) {
        meeting.kind[i] = xport_link_kind(end[i].conn);
        xport_free(end[i].conn);
    }
}

static inline void
talk_through(uint32_t seed, uint32_t frames, bool confirms)
{
    static const struct parts parts[2] = {{sender_main, receiver_main},
                                          {sender_main, receiver_main}};

    talk_by(parts, seed, frames, confirms);
}

/* Before the ends of a conversation are made; @most bytes between two cuts. */
static void
meeting_begin(uint32_t seed, uint32_t most, unsigned n_stripes)
{
    meeting.seed = seed;
    meeting.most = most;
    meeting.payload_max = meeting.sources ? PAYLOAD_SOURCE
                          : n_stripes     ? PAYLOAD_STRIPED
                                          : PAYLOAD_MAX;
    meeting.reread = 0;
    meeting.cuts = 0;
    meeting.n_stripes = n_stripes;
    meeting.stripes_wait = false;
    meeting.stop = false;
    memset(meeting.waits, 0, sizeof(meeting.waits));
    memset(meeting.served, 0, sizeof(meeting.served));
}

static inline uint32_t
first_seed(void)
{
    const char *text = getenv("GPUPOOL_SEED");

    return text ? (uint32_t)strtoul(text, NULL, 10) : 1;
}

#endif
