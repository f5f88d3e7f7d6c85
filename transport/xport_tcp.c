/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a connected stream socket (TCP, or a Unix socket in tests).
 *
 * The send buffer is filled by the application threads and leaves in one write; a payload
 * rides in the same gathered write.  The receive buffer takes what is there, at most
 * RX_READ bytes a time: little enough that a payload mostly goes straight to its place.
 */
#include "xport.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"
#include "xport_spin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Coalescing limit: beyond this a write costs no less per byte (measured). */
#define TX_BUFFER (64u << 10)
#define RX_READ (64u << 10)

struct tcp_conn {
    struct xport_conn conn;
    struct xport_spin spin;
    uint8_t *tx_buf, *rx_buf;
    size_t tx_cap, rx_cap;
};

static struct tcp_conn *
tcp_of(struct xport_conn *conn)
{
    return container_of(conn, struct tcp_conn, conn);
}

static int
wait_writable(struct xport_conn *conn)
{
    int r = gp_net_wait(conn->fd, POLLOUT, GP_FOREVER);

    return r < 0 ? r : __atomic_load_n(&conn->error, __ATOMIC_RELAXED);
}

/* Write all of @iov; its entries are used up. */
static int
write_all(struct xport_conn *conn, struct iovec *iov, size_t n_iov)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n_iov};

    while (msg.msg_iovlen) {
        ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);

        conn->stats.tx_writes++;
        if (n < 0) {
            int r = errno == EAGAIN ? wait_writable(conn) : errno == EINTR ? 0 : -errno;

            if (r < 0)
                return r == -EPIPE ? -ECONNRESET : r;
            continue;
        }
        conn->stats.tx_bytes += (size_t)n;
        while (msg.msg_iovlen && (size_t)n >= msg.msg_iov->iov_len) {
            n -= (ssize_t)msg.msg_iov->iov_len;
            msg.msg_iov++;
            msg.msg_iovlen--;
        }
        if (msg.msg_iovlen) {
            msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + n;
            msg.msg_iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static int
tcp_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    struct iovec iov[2];
    size_t n = 0;

    if (xport_pending(conn))
        iov[n++] = (struct iovec){conn->tx.base, xport_pending(conn)};
    if (len)
        iov[n++] = (struct iovec){(void *)(uintptr_t)bulk, len};
    conn->tx.pos = conn->tx.base;
    return write_all(conn, iov, n);
}

static int
tcp_reserve(struct xport_conn *conn, size_t n)
{
    int r;

    if (n > conn->frame_max)
        return -EMSGSIZE;
    r = xport_flush(conn);
    if (r < 0)
        return r;
    /* Empty now, and the buffer holds at least one frame of the largest size. */
    return 0;
}

static void
tcp_release(struct xport_conn *conn)
{
    struct tcp_conn *tcp = tcp_of(conn);
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);

    /* Frames are multiples of 8, but payloads are not: realign after an odd one.  Also
     * the chance to go back to the start, where the cache is warm. */
    if (!have || ((uintptr_t)conn->rx.pos & 7)) {
        memmove(tcp->rx_buf, conn->rx.pos, have);
        conn->rx.pos = tcp->rx_buf;
        conn->rx.end = tcp->rx_buf + have;
    }
}

/* Room for at least RX_READ bytes behind what is buffered (never more than a frame). */
static void
make_room(struct tcp_conn *tcp)
{
    struct xport_conn *conn = &tcp->conn;
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);

    if ((size_t)(tcp->rx_buf + tcp->rx_cap - conn->rx.end) >= RX_READ)
        return;
    memmove(tcp->rx_buf, conn->rx.pos, have);
    conn->rx.pos = tcp->rx_buf;
    conn->rx.end = tcp->rx_buf + have;
}

/* One read; 0 bytes is the end of the link. */
static int
read_some(struct xport_conn *conn, void *buf, size_t len, size_t *ret_n)
{
    ssize_t n = recv(conn->fd, buf, len, MSG_DONTWAIT);

    conn->stats.rx_reads++;
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    if (n == 0)
        return -ECONNRESET;
    conn->stats.rx_bytes += (size_t)n;
    *ret_n = (size_t)n;
    return 0;
}

/* Until something is readable: first spinning when that has paid, then asleep. */
static int
read_wait(struct tcp_conn *tcp, void *buf, size_t len, size_t *ret_n, uint64_t deadline_ns)
{
    struct xport_conn *conn = &tcp->conn;
    int r = read_some(conn, buf, len, ret_n);

    if (r != -EAGAIN || !deadline_ns)
        return r;
    if (xport_spin_begin(&tcp->spin)) {
        do
            r = read_some(conn, buf, len, ret_n);
        while (r == -EAGAIN && xport_spin_again(&tcp->spin));
        if (r != -EAGAIN) {
            xport_spin_won(&tcp->spin);
            conn->stats.rx_spun++;
            return r;
        }
    }
    conn->stats.rx_slept++;
    while (r == -EAGAIN) {
        r = gp_net_wait(conn->fd, POLLIN, deadline_ns);
        if (r == -ETIMEDOUT)
            return -EAGAIN;
        if (!r)
            r = read_some(conn, buf, len, ret_n);
    }
    return r;
}

static int
tcp_fill(struct xport_conn *conn, uint64_t deadline_ns)
{
    struct tcp_conn *tcp = tcp_of(conn);
    size_t n = 0;
    int r;

    make_room(tcp);
    r = read_wait(tcp, conn->rx.end, RX_READ, &n, deadline_ns);
    conn->rx.end += n;
    return r;
}

static int
tcp_recv_bulk(struct xport_conn *conn, void *buf, size_t len)
{
    uint8_t *p = buf;

    while (len) {
        size_t n = 0;
        int r = read_wait(tcp_of(conn), p, len, &n, GP_FOREVER);

        if (r < 0)
            return r;
        p += n;
        len -= n;
    }
    return 0;
}

static void
tcp_abort(struct xport_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
}

static void
tcp_free(struct xport_conn *conn)
{
    struct tcp_conn *tcp = tcp_of(conn);

    if (conn->fd >= 0)
        close(conn->fd);
    free(tcp->tx_buf);
    free(tcp->rx_buf);
    free(tcp);
}

static const struct xport_ops tcp_ops = {
    .name = "tcp",
    .reserve = tcp_reserve,
    .flush = tcp_flush,
    .fill = tcp_fill,
    .recv_bulk = tcp_recv_bulk,
    .release = tcp_release,
    .abort = tcp_abort,
    .free = tcp_free,
};

int
xport_tcp_new(int fd, uint32_t frame_max, struct xport_conn **ret, struct gp_err *err)
{
    struct tcp_conn *tcp;

    if (frame_max < XPORT_FRAME_MIN || frame_max > XPORT_FRAME_LIMIT || frame_max % 8)
        return gp_err_set(err, -EINVAL, "frame limit %u out of range", frame_max);
    tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return gp_err_set(err, -ENOMEM, "out of memory");
    tcp->conn.ops = &tcp_ops;
    tcp->conn.frame_max = frame_max;
    tcp->conn.fd = -1; /* the caller's until nothing can fail any more */
    tcp->tx_cap = gp_max(frame_max, TX_BUFFER);
    tcp->rx_cap = frame_max + RX_READ;
    tcp->tx_buf = aligned_alloc(64, GP_ALIGN_UP(tcp->tx_cap, 64));
    tcp->rx_buf = aligned_alloc(64, GP_ALIGN_UP(tcp->rx_cap, 64));
    if (!tcp->tx_buf || !tcp->rx_buf) {
        tcp_free(&tcp->conn);
        return gp_err_set(err, -ENOMEM, "out of memory");
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    tcp->conn.fd = fd;
    tcp->conn.tx.base = tcp->conn.tx.pos = tcp->tx_buf;
    tcp->conn.tx.end = tcp->tx_buf + tcp->tx_cap;
    tcp->conn.rx.pos = tcp->conn.rx.end = tcp->rx_buf;
    *ret = &tcp->conn;
    return 0;
}
