/* SPDX-License-Identifier: Apache-2.0 */
/* The byte stream over the rings, and how either side waits. */
#include "xport_rdma.h"

#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Counters come by RDMA WRITE, which wakes nobody: look, then nap, longer each time. */
#define NAP_MIN_NS 5000
#define NAP_MAX_NS 200000
/* How often a napping side looks whether the peer is alive. */
#define LIVENESS_NS (100 * GP_NS_PER_MS)

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
    if (n >= 0) /* its end, or words where nothing may be said any more */
        return n ? -EPROTO : -ECONNRESET;
    if (errno != EAGAIN && errno != EINTR)
        return -ECONNRESET; /* keepalives go unanswered */
    return rdma_reap_sends(rdma);
}

int
rdma_wait_counter(struct rdma_conn *rdma, const uint64_t *word, uint64_t at_least)
{
    uint64_t nap = NAP_MIN_NS, begun = gp_now_ns(), look = begun + LIVENESS_NS;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < at_least) {
        uint64_t now = gp_now_ns();
        int r = now > look ? rdma_liveness(rdma) : rdma_reap_sends(rdma);

        if (r < 0)
            return r;
        if (now > look)
            look = now + LIVENESS_NS;
        if (now - begun > XPORT_SPIN_NS) {
            nanosleep(&(struct timespec){0, (long)nap}, NULL);
            nap = gp_min(2 * nap, (uint64_t)NAP_MAX_NS);
        }
    }
    return 0;
}

int
rdma_ring_room(struct rdma_conn *rdma, size_t want, size_t *ret_room)
{
    const struct rdma_credit *credit = &rdma->region->credit;
    size_t to_end = RDMA_RING_SIZE - rdma->head % RDMA_RING_SIZE;
    size_t n = gp_min(gp_min(want, to_end), (size_t)RDMA_RING_SIZE / 4);
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

static int
write_data(struct rdma_conn *rdma, const uint8_t *data, size_t len)
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

static int
io_write(struct xport_stream *stream, struct iovec *iov, size_t n_iov)
{
    struct rdma_conn *rdma = container_of(stream, struct rdma_conn, stream);
    int r = 0;

    for (size_t i = 0; i < n_iov && !r; i++) {
        r = -EAGAIN;
        if (iov[i].iov_len >= RDMA_OFFER_MIN && iov[i].iov_base != stream->tx_buf)
            r = rdma_offer_bulk(rdma, iov[i].iov_base, iov[i].iov_len);
        if (r == -EAGAIN)
            r = write_data(rdma, iov[i].iov_base, iov[i].iov_len);
    }
    return r;
}

static void
segment_done(struct rdma_conn *rdma)
{
    rdma->seg_first = (rdma->seg_first + 1) % RDMA_RECV_DEPTH;
    rdma->seg_count--;
}

/* Copy out stream bytes that stand in front. */
static size_t
take_data(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    size_t total = 0;

    while (rdma->seg_count && len) {
        struct rdma_segment *seg = &rdma->segments[rdma->seg_first];
        size_t at = rdma->tail % RDMA_RING_SIZE;
        size_t n = gp_min(gp_min(len, (size_t)seg->len), RDMA_RING_SIZE - at);

        if (seg->kind == RDMA_OFFER)
            break;
        if (seg->kind == RDMA_PAD) {
            rdma->tail += seg->len;
            segment_done(rdma);
            continue;
        }
        memcpy(buf + total, rdma->region->ring + at, n);
        rdma->tail += n;
        seg->len -= (uint32_t)n;
        total += n;
        len -= n;
        if (!seg->len)
            segment_done(rdma);
    }
    return total;
}

static int
io_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    struct rdma_conn *rdma = container_of(stream, struct rdma_conn, stream);
    int r = rdma_reap_recvs(rdma);

    stream->conn.stats.rx_reads++;
    if (r < 0 && r != -EAGAIN)
        return r;
    *ret_n = take_data(rdma, buf, len);
    if (!*ret_n && rdma->seg_count) {
        /* Only a payload is offered, so only whoever takes one may meet an offer. */
        uint8_t *p = buf, *rx = stream->rx_buf;

        r = p >= rx && p < rx + stream->rx_cap ? -EPROTO
                                               : rdma_fetch_bulk(rdma, p, len, ret_n);
    } else {
        r = rdma_credit(rdma, false);
    }
    return r < 0 ? r : *ret_n ? 0 : -EAGAIN;
}

/* Asleep on: completions, the control socket (the peer's end), cm events. */
int
rdma_wait_arrival(struct rdma_conn *rdma, uint64_t deadline_ns)
{
    struct pollfd p[] = {{.fd = rdma->channel->fd, .events = POLLIN},
                         {.fd = rdma->stream.conn.fd, .events = POLLIN | POLLRDHUP},
                         {.fd = rdma->cm_channel->fd, .events = POLLIN}};
    struct ibv_cq *cq;
    void *cookie;
    int n;

    n = poll(p, ARRAY_SIZE(p), gp_poll_ms(deadline_ns));
    if (n == 0)
        return -ETIMEDOUT;
    if (p[0].revents && !rdma->v->get_cq_event(rdma->channel, &cq, &cookie) &&
        ++rdma->unarmed_events == 64) {
        rdma->v->ack_cq_events(rdma->recv_cq, rdma->unarmed_events);
        rdma->unarmed_events = 0;
    }
    /* The queue pair's own end (disconnect, device removed) or the socket's. */
    if (p[1].revents || p[2].revents)
        return rdma_liveness(rdma) < 0 || p[2].revents ? -ECONNRESET : 0;
    return 0;
}

static int
io_wait(struct xport_stream *stream, uint64_t deadline_ns)
{
    struct rdma_conn *rdma = container_of(stream, struct rdma_conn, stream);
    int r = rdma_credit(rdma, true);

    if (r < 0)
        return r;
    if (ibv_req_notify_cq(rdma->recv_cq, 0))
        return -EIO;
    /* What arrived between the last look and the arming raises no event. */
    r = rdma_reap_recvs(rdma);
    if (r != -EAGAIN)
        return r;
    r = rdma_wait_arrival(rdma, deadline_ns);
    /* What the peer sent before it left is still to be read. */
    if (r == -ECONNRESET && rdma_reap_recvs(rdma) == 0)
        return 0;
    return r;
}

const struct xport_stream_io xport_rdma_io = {
    .write = io_write,
    .read = io_read,
    .wait = io_wait,
};
