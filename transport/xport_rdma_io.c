/* SPDX-License-Identifier: Apache-2.0 */
/* The byte stream over the rings, and how either side waits. */
#include "xport_rdma.h"

#include "gp_copy.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Counters come by RDMA WRITE, which wakes nobody: look, then sleep for a small part of
 * the time waited so far, so that what is slept too long stays a small part as well. */
#define IDLE_SLEEP_MIN_NS 2000
#define IDLE_SLEEP_MAX_NS                                                              \
    (20 * GP_NS_PER_MS) /* waiting for a stuck card costs nothing */
#define IDLE_SLEEP_PART 64
/* How often a sleeping side looks whether the way to the peer is open. */
#define PROBE_NS (2 * GP_NS_PER_S)
#define EVENTS_AT_ONCE 64 /* acknowledged together: that takes a lock */
/* Looks at an empty queue, some memory accesses each, for one at the clock, which costs
 * as much and stands between what arrived and who waits for it. */
#define LOOKS 8
#define GLANCES                                                                        \
    4 /* at the ring's memory for one at the queue, if eager messages may come */
#define WORDS_MAX 192

int
rdma_liveness(struct rdma_conn *rdma)
{
    struct xport_conn *conn = &rdma->stream.conn;
    char byte;
    ssize_t n;
    int r = __atomic_load_n(&conn->error, __ATOMIC_RELAXED);

    if (r < 0)
        return r;
    n = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n >= 0) /* end of stream, or bytes where none may be sent */
        return n ? -EPROTO : -ECONNRESET;
    if (errno != EAGAIN && errno != EINTR)
        return -ECONNRESET; /* keepalives go unanswered */
    return rdma_reap_sends(rdma);
}

int
rdma_wait_counter_slow(struct rdma_conn *rdma, const uint64_t *word, uint64_t at_least)
{
    uint64_t begun = gp_now_ns(), look = begun + RDMA_LIVENESS_NS;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < at_least) {
        uint64_t now = gp_now_ns(), waited = now - begun;
        uint64_t sleep = gp_min(waited / IDLE_SLEEP_PART + IDLE_SLEEP_MIN_NS,
                                (uint64_t)IDLE_SLEEP_MAX_NS);
        int r = now > look ? rdma_liveness(rdma) : rdma_reap_sends(rdma);

        if (r == 0)
            r = xport_error(&rdma->stream.conn);
        if (r < 0)
            return r;
        if (now > look)
            look = now + RDMA_LIVENESS_NS;
        if (waited > RDMA_SPIN_NS)
            nanosleep(&(struct timespec){0, (long)sleep}, NULL);
    }
    return 0;
}

/* How much goes at a time: at most a quarter of the ring, and no wrap. */
static inline size_t
ring_piece(const struct rdma_conn *rdma, size_t want)
{
    size_t to_end = RDMA_RING_SIZE - rdma->head % RDMA_RING_SIZE;

    return gp_min(gp_min(want, to_end), (size_t)RDMA_RING_SIZE / 4);
}

int
rdma_ring_room(struct rdma_conn *rdma, size_t want, size_t *ret_room)
{
    const struct rdma_credit *credit = &rdma->region->credit;
    size_t n = ring_piece(rdma, want);
    int r = 0;

    if (rdma->head + n > RDMA_RING_SIZE)
        r = rdma_wait_counter(rdma, &credit->bytes, rdma->head + n - RDMA_RING_SIZE);
    /* One receive is kept back: a credit is never waited for with all of them used. */
    if (!r && rdma->writes + 1 >= RDMA_RECV_DEPTH)
        r = rdma_wait_counter(rdma, &credit->writes,
                              rdma->writes + 2 - RDMA_RECV_DEPTH);
    *ret_room = n;
    return r;
}

int
rdma_send_data(struct rdma_conn *rdma, const uint8_t *data, size_t len)
{
    while (len) {
        size_t n;
        int r = rdma_ring_room(rdma, len, &n);

        if (!r)
            r = rdma_write_ring(rdma, RDMA_DATA, data, n);
        if (r < 0)
            return r;
        data += n;
        len -= n;
    }
    return 0;
}

int
rdma_send_payload(struct rdma_conn *rdma, const void *data, size_t len,
                  uint64_t *ret_ticket)
{
    int r = -EAGAIN;

    *ret_ticket = 0;
    if (len >= RDMA_OFFER_MIN)
        r = rdma_offer_start(rdma, data, len, ret_ticket);
    return r == -EAGAIN ? rdma_send_data(rdma, data, len) : r;
}

/* What waits in the send buffer, and a payload behind it. */
static int
write_all(struct rdma_conn *rdma, const void *bulk, size_t len, uint64_t *ret_ticket)
{
    struct xport_conn *conn = &rdma->stream.conn;
    size_t pending = xport_pending(conn);
    int r;

    conn->tx.pos = conn->tx.base;
    r = rdma_send_data(rdma, conn->tx.base, pending);
    return r < 0 || !len ? r : rdma_send_payload(rdma, bulk, len, ret_ticket);
}

static int
rdma_send_direct(struct xport_conn *conn, uint64_t addr, size_t len,
                 uint64_t *ret_ticket)
{
    int r = write_all(rdma_of(conn), NULL, 0, ret_ticket);

    return r < 0 ? r : rdma_offer_window(rdma_of(conn), addr, len, ret_ticket);
}

static int
rdma_send_start(struct xport_conn *conn, const void *bulk, size_t len,
                uint64_t *ret_ticket)
{
    return write_all(rdma_of(conn), bulk, len, ret_ticket);
}

static int
rdma_send_wait(struct xport_conn *conn, uint64_t ticket)
{
    return rdma_offer_wait(rdma_of(conn), ticket);
}

/* Room for one piece at the head, as rdma_ring_room(), but without waiting for the
 * peer: 0 when there is none. */
GP_HOT static inline size_t
ring_room_now(const struct rdma_conn *rdma, size_t want)
{
    const struct rdma_credit *credit = &rdma->region->credit;
    uint64_t bytes = __atomic_load_n(&credit->bytes, __ATOMIC_ACQUIRE);
    uint64_t writes = __atomic_load_n(&credit->writes, __ATOMIC_ACQUIRE);
    size_t n = ring_piece(rdma, want);

    if (unlikely(rdma->writes - writes + 1 >= RDMA_RECV_DEPTH))
        return 0;
    return likely(rdma->head - bytes + n <= RDMA_RING_SIZE) ? n : 0;
}

/* A place in the send queue may be waited for: the device empties that, whatever the
 * peer does. */
GP_HOT int
rdma_send_now(struct rdma_conn *rdma, const uint8_t *data, size_t len, size_t *ret_n)
{
    int r = rdma_eager_put(rdma, data, len);
    size_t n, done = 0;

    if (likely(r != -EAGAIN)) {
        *ret_n = len;
        return r;
    }
    r = 0;
    n = ring_room_now(rdma, len);
    while (likely(n && !r)) {
        r = rdma_write_ring(rdma, RDMA_DATA, data + done, n);
        done += n;
        n = done < len ? ring_room_now(rdma, len - done) : 0;
    }
    *ret_n = done;
    return r;
}

GP_HOT static int
rdma_flush_now(struct xport_conn *conn)
{
    size_t pending = xport_pending(conn), n;
    int r = rdma_send_now(rdma_of(conn), conn->tx.base, pending, &n);

    if (unlikely(n != pending))
        memmove(conn->tx.base, conn->tx.base + n, pending - n);
    conn->tx.pos = conn->tx.base + (pending - n);
    return likely(n == pending) || r < 0 ? r : -EAGAIN;
}

static int
flush_waiting(struct xport_conn *conn, const void *bulk, size_t len)
{
    uint64_t ticket = 0;
    int r = write_all(rdma_of(conn), bulk, len, &ticket);

    return r < 0 || !ticket ? r : rdma_offer_wait(rdma_of(conn), ticket);
}

/* Calls and answers find room nearly always. */
GP_HOT static int
rdma_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    int r = len ? -EAGAIN : rdma_flush_now(conn);

    return likely(r != -EAGAIN) ? r : flush_waiting(conn, bulk, len);
}

static int
rdma_recv_start(struct xport_conn *conn, void *buf, size_t len, uint64_t *ret_ticket)
{
    size_t n;

    return rdma_fetch_start(rdma_of(conn), buf, len, GP_FOREVER, ret_ticket, &n);
}

static int
rdma_recv_wait(struct xport_conn *conn, uint64_t ticket)
{
    return rdma_fetch_wait(rdma_of(conn), ticket);
}

static void
rdma_abort(struct xport_conn *conn)
{
    /* Sleepers poll this socket too. */
    shutdown(conn->fd, SHUT_RDWR);
}

GP_HOT void
rdma_segment_done(struct rdma_conn *rdma)
{
    rdma->seg_first = (rdma->seg_first + 1) % RDMA_RECV_DEPTH;
    rdma->seg_count--;
}

/* A call or an answer is a few words: not worth a call to the C library. */
static inline void
copy(uint8_t *to, const uint8_t *from, size_t n)
{
    uint64_t word;

    if (unlikely(n > WORDS_MAX || n % 8)) {
        gp_copy(to, from, n);
        return;
    }
    for (size_t i = 0; i < n; i += sizeof(word)) {
        memcpy(&word, from + i, sizeof(word));
        memcpy(to + i, &word, sizeof(word));
    }
}

/* Of the piece in front, which has a note. */
GP_HOT static size_t
take_noted(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    struct rdma_segment *seg = &rdma->segments[rdma->seg_first];
    size_t at = rdma->tail % RDMA_RING_SIZE;
    size_t n = gp_min(gp_min(len, (size_t)seg->len), RDMA_RING_SIZE - at);

    if (seg->kind == RDMA_OFFER)
        return 0;
    copy(buf, rdma->region->ring + at, n);
    rdma->tail += n;
    seg->start += n;
    seg->len -= (uint32_t)n;
    if (!seg->len)
        rdma_segment_done(rdma);
    return n;
}

/* A write has been placed when a later one is noted: in front of a piece with a note
 * there are whole eager messages or nothing. */
GP_HOT static size_t
take_front(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    const struct rdma_segment *seg = &rdma->segments[rdma->seg_first];
    bool spilled = rdma->spill_at != rdma->spill_end;
    bool noted = rdma->seg_count && seg->start == rdma->tail && !spilled;
    size_t n;

    if (likely(!noted)) {
        n = rdma_eager_take(rdma, buf, len);
        if (unlikely(!n && rdma->seg_count))
            rdma->recv_error = -EPROTO;
        return n;
    }
    if (likely(seg->kind != RDMA_PAD))
        return take_noted(rdma, buf, len);
    rdma->tail += seg->len;
    rdma_segment_done(rdma);
    return take_front(rdma, buf, len);
}

GP_HOT size_t
rdma_take_data(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    size_t total = 0, n;

    do {
        n = take_front(rdma, buf + total, len - total);
        total += n;
    } while (n && total < len);
    rdma->got += total;
    return total;
}

/* -EAGAIN: nothing; 0: there may be something. */
GP_HOT static int
look(struct rdma_conn *rdma)
{
    int r = -EAGAIN;

    for (unsigned i = 0; i < LOOKS && r == -EAGAIN; i++) {
        for (unsigned j = 0; j < GLANCES && rdma->region->out.awake; j++)
            if (rdma_eager_there(rdma))
                return 0;
        r = rdma_reap_recvs(rdma);
    }
    return r;
}

GP_HOT static int
io_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    struct rdma_conn *rdma = container_of(stream, struct rdma_conn, stream);
    int r = look(rdma);

    stream->conn.stats.rx_reads++;
    *ret_n = rdma_take_data(rdma, buf, len);
    if (*ret_n)
        return rdma->recv_error ? 0 : rdma_credit(rdma, false);
    if (rdma->recv_error || (r < 0 && r != -EAGAIN))
        return rdma->recv_error ? rdma->recv_error : r;
    /* Only a payload is offered, and whoever waits for a frame wants none. */
    r = rdma->seg_count ? -EPROTO : rdma_credit(rdma, false);
    return r < 0 ? r : -EAGAIN;
}

GP_HOT int
rdma_read(struct rdma_conn *rdma, void *buf, size_t len, size_t *ret_n,
          uint64_t deadline_ns)
{
    int r = io_read(&rdma->stream, buf, len, ret_n);

    if (r == -EAGAIN)
        r = xport_stream_read_later(&rdma->stream, buf, len, ret_n, deadline_ns);
    if (unlikely(!r && !rdma->region->out.awake))
        r = rdma_eager_awake(rdma);
    return r;
}

GP_HOT static int
rdma_fill(struct xport_conn *conn, uint64_t deadline_ns)
{
    size_t n = 0;
    int r;

    xport_stream_make_room(xport_stream_of(conn));
    r = rdma_read(rdma_of(conn), conn->rx.end, XPORT_STREAM_READ, &n, deadline_ns);
    conn->rx.end += n;
    conn->stats.rx_bytes += n;
    return r;
}

static void
take_event(struct rdma_conn *rdma)
{
    struct ibv_cq *cq;
    void *cookie;
    unsigned *n;

    if (rdma->v->get_cq_event(rdma->channel, &cq, &cookie))
        return;
    n = cq == rdma->recv_cq ? &rdma->recv_events : &rdma->send_events;
    if (++*n < EVENTS_AT_ONCE)
        return;
    rdma->v->ack_cq_events(cq, *n);
    *n = 0;
}

/* Nothing happened for a while: is the way to the peer still open?  The control socket
 * may take another one, so a small READ has to come back; a way that is closed ends it
 * with an error when its retries are used up. */
static int
probe(struct rdma_conn *rdma)
{
    int r = rdma_liveness(rdma);

    if (r < 0 || __atomic_load_n(&rdma->reads_done, __ATOMIC_RELAXED) < rdma->probed)
        return r;
    return rdma_echo(rdma, RDMA_ECHO_LIVENESS, 0, &rdma->probed);
}

/* Asleep on: completions, the control socket (the peer's end), cm events. */
static int
wait_arrival(struct rdma_conn *rdma, uint64_t deadline_ns)
{
    struct pollfd p[] = {{.fd = rdma->channel->fd, .events = POLLIN},
                         {.fd = rdma->stream.conn.fd, .events = POLLIN | POLLRDHUP},
                         {.fd = rdma->cm_channel->fd, .events = POLLIN}};
    uint64_t look = gp_min(deadline_ns, gp_now_ns() + PROBE_NS);
    int n = poll(p, ARRAY_SIZE(p), gp_poll_ms(look));

    if (n == 0)
        return look == deadline_ns ? -ETIMEDOUT : probe(rdma);
    if (p[0].revents)
        take_event(rdma);
    /* The queue pair's own end (disconnect, device removed) or the socket's. */
    if (p[1].revents || p[2].revents)
        return rdma_liveness(rdma) < 0 || p[2].revents ? -ECONNRESET : 0;
    return 0;
}

static int
sleep_noted(struct rdma_conn *rdma, uint64_t deadline_ns)
{
    int r;

    if (ibv_req_notify_cq(rdma->recv_cq, 0) ||
        (rdma->fetch_count && ibv_req_notify_cq(rdma->send_cq, 0)))
        return -EIO;
    /* What arrived between the last look and the arming raises no event. */
    r = rdma_reap_recvs(rdma);
    if (r == -EAGAIN) {
        r = rdma_fetch_complete(rdma);
        if (r > 0)
            return 0;
        if (r == 0)
            r = wait_arrival(rdma, deadline_ns);
    }
    /* What the peer sent before it left is still to be read. */
    if (r == -ECONNRESET && rdma_reap_recvs(rdma) == 0)
        return 0;
    return r;
}

int
rdma_sleep(struct rdma_conn *rdma, uint64_t deadline_ns)
{
    int r = rdma_eager_asleep(rdma);

    /* The peer's last words are still to be read. */
    if (r < 0 && (rdma_eager_whole(rdma) || rdma_reap_recvs(rdma) == 0))
        return 0;
    if (r != 0)
        return gp_min(r, 0);
    return sleep_noted(rdma, deadline_ns);
}

int
rdma_sleep_fetching(struct rdma_conn *rdma)
{
    return sleep_noted(rdma, GP_FOREVER);
}

bool
rdma_last_words(struct rdma_conn *rdma)
{
    char byte;

    return recv(rdma->stream.conn.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 &&
           (rdma->seg_count || rdma_eager_whole(rdma) || rdma_reap_recvs(rdma) == 0);
}

static int
io_wait(struct xport_stream *stream, uint64_t deadline_ns)
{
    return rdma_sleep(container_of(stream, struct rdma_conn, stream), deadline_ns);
}

const struct xport_stream_io xport_rdma_io = {
    .read = io_read,
    .wait = io_wait,
};

const struct xport_ops xport_rdma_ops = {
    .name = "rdma",
    .kind = XPORT_KIND_RDMA,
    .can = XPORT_CAN_WINDOWS,
    .reserve = xport_stream_reserve,
    .flush = rdma_flush,
    .flush_now = rdma_flush_now,
    .fill = rdma_fill,
    .recv_bulk = rdma_recv_bulk,
    .send_start = rdma_send_start,
    .send_wait = rdma_send_wait,
    .recv_start = rdma_recv_start,
    .recv_wait = rdma_recv_wait,
    .send_direct = rdma_send_direct,
    .recv_direct = rdma_recv_direct,
    .realign = xport_stream_to_start,
    .abort = rdma_abort,
    .free = rdma_conn_free,
};
