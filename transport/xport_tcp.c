/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a connected stream socket: TCP, or a Unix socket. */
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "xport.h"
#include "xport_liveness.h"
#include "xport_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Within a host a piece of a payload is as long as half the second-level cache, so that
 * it is still there when it is copied out, and the other side's queue has room for
 * several of them: with less, sender and receiver take turns more often
 * (docs/performance.md has what other sizes did). */
#define LOCAL_PIECE_MIN (128 * 1024)
#define LOCAL_PIECE_MAX (512 * 1024)
#define LOCAL_PIECES 8

/* A round trip below which a link is not paced, and small uploads are part of frames.
 */
#define NEAR_US 1000

/* tcpi_min_rtt of linux/tcp.h, Linux 4.6; the C library's header does not have it.  The
 * smallest one says how long the line is; the mean says how busy both hosts are. */
#define TCP_INFO_MIN_RTT 148u

struct tcp_conn {
    struct xport_stream stream;
    struct xport_liveness live;
};

static struct tcp_conn *
tcp_of(struct xport_conn *conn)
{
    return container_of(xport_stream_of(conn), struct tcp_conn, stream);
}

GP_HOT static int
tcp_write(struct xport_stream *stream, struct iovec *iov, size_t n_iov)
{
    struct xport_conn *conn = &stream->conn;

    while (n_iov) {
        ssize_t n = gp_wire_send(stream->wire, conn->fd, iov, n_iov, 0);

        conn->stats.tx_writes++;
        if (n == -EAGAIN) { /* blocked for XPORT_CHECK_S, or interrupted */
            if (xport_liveness_lost(&tcp_of(conn)->live, conn->fd, NULL))
                return -ETIMEDOUT;
        } else if (n < 0) {
            return (int)n;
        }
        conn->stats.tx_bytes += (size_t)gp_max(n, (ssize_t)0);
        xport_iov_advance(&iov, &n_iov, (size_t)gp_max(n, (ssize_t)0));
    }
    return 0;
}

GP_HOT static int
tcp_flush_now(struct xport_conn *conn)
{
    struct xport_stream *stream = xport_stream_of(conn);
    struct iovec iov = {conn->tx.base, xport_pending(conn)};
    ssize_t n = gp_wire_send(stream->wire, conn->fd, &iov, 1, MSG_DONTWAIT);

    if (n < 0 && n != -EAGAIN)
        return (int)n;
    return xport_stream_gone(stream, (size_t)gp_max(n, (ssize_t)0));
}

GP_HOT static int
read_with(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n, int flags)
{
    ssize_t n = gp_wire_recv(stream->wire, stream->conn.fd, buf, len, flags);

    stream->conn.stats.rx_reads++;
    if (n < 0)
        return (int)n;
    if (n == 0)
        return -ECONNRESET;
    *ret_n = (size_t)n;
    return 0;
}

GP_HOT static int
tcp_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    return read_with(stream, buf, len, ret_n, MSG_DONTWAIT);
}

GP_HOT static int
tcp_read_asleep(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    return read_with(stream, buf, len, ret_n, 0);
}

static int
tcp_wait(struct xport_stream *stream, uint64_t deadline_ns)
{
    if (gp_wire_pending(stream->wire))
        return 0;
    return gp_net_wait(stream->conn.fd, POLLIN, deadline_ns);
}

static void
tcp_abort(struct xport_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
}

static int
tcp_look(struct xport_conn *conn, bool *ret_again)
{
    return xport_liveness_lost(&tcp_of(conn)->live, conn->fd, ret_again) ? -ETIMEDOUT
                                                                         : 0;
}

static void
tcp_free(struct xport_conn *conn)
{
    struct tcp_conn *tcp = tcp_of(conn);

    if (conn->fd >= 0)
        close(conn->fd);
    xport_stream_fini(&tcp->stream);
    free(tcp);
}

static const struct xport_ops tcp_ops = {
    .name = "tcp",
    .kind = XPORT_KIND_TCP,
    .can = XPORT_CAN_BLOCKS | XPORT_CAN_NAME | XPORT_CAN_EXCHANGE,
    .reserve = xport_stream_reserve,
    .flush = xport_stream_flush,
    .flush_now = tcp_flush_now,
    .fill = xport_stream_fill,
    .recv_bulk = xport_stream_recv_bulk,
    .realign = xport_stream_to_start,
    .abort = tcp_abort,
    .look = tcp_look,
    .free = tcp_free,
};

static const struct xport_stream_io tcp_io = {
    .write = tcp_write,
    .read = tcp_read,
    .wait = tcp_wait,
    .read_asleep = tcp_read_asleep,
};

static int
local_piece(void)
{
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE); /* 0 or -1: not known */

    return (int)gp_min(gp_max(cache / 2, (long)LOCAL_PIECE_MIN), (long)LOCAL_PIECE_MAX);
}

/* The longest queues of a socket that the system allows (net.core.wmem_max, rmem_max).
 * A longer one would be cut to that, which may be a twentieth, and for good, where the
 * queue that the kernel chooses itself grows to more. */
static struct {
    pthread_once_t once;
    int send, receive; /* 0: not known */
    int grows;         /* what the kernel lets a queue to send grow to; 0: not known */
} queues = {.once = PTHREAD_ONCE_INIT};

static int
queue_most(int fd, int which)
{
    int most = LOCAL_PIECES * LOCAL_PIECE_MAX;
    socklen_t len = sizeof(most);

    if (setsockopt(fd, SOL_SOCKET, which, &most, sizeof(most)) < 0 ||
        getsockopt(fd, SOL_SOCKET, which, &most, &len) < 0)
        return 0;
    return most / 2; /* the kernel adds as much for its own needs */
}

static int
queue_grows(void)
{
    CLEANUP_FREE char *text = NULL;
    struct gp_err err = {0};
    size_t len;
    int most;

    return gp_file_read("/proc/sys/net/ipv4/tcp_wmem", 256, &text, &len, &err) == 0 &&
                   sscanf(text, "%*d %*d %d", &most) == 1
               ? most
               : 0;
}

static void
queues_look(void)
{
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return;
    queues.send = queue_most(fd, SO_SNDBUF);
    queues.receive = queue_most(fd, SO_RCVBUF);
    queues.grows = queue_grows();
}

void
xport_tcp_start(void)
{
    pthread_once(&queues.once, queues_look);
}

static void
queue_set(int fd, int which, uint32_t len)
{
    int value = (int)len;

    setsockopt(fd, SOL_SOCKET, which, &value, sizeof(value));
}

/* There is no line to keep full. */
static void
stay_local(struct xport_conn *conn, int fd)
{
    int piece = local_piece(), receive = LOCAL_PIECES * piece;

    xport_tcp_start();
    if (queues.send >= piece)
        queue_set(fd, SO_SNDBUF, (uint32_t)piece);
    if (queues.receive >= receive)
        queue_set(fd, SO_RCVBUF, (uint32_t)receive);
    conn->piece = (uint32_t)piece;
}

/* The queue to send holds a piece of @out bytes.  It does so only where it can be made
 * again what it would be without: on another host the kernel lets it grow. */
static void
queue_follow(int fd, uint32_t out)
{
    int whole = gp_net_same_host(fd) ? local_piece() : queues.grows;

    if (whole && queues.send >= whole)
        queue_set(fd, SO_SNDBUF, out ? out : (uint32_t)whole);
}

uint32_t
xport_piece_short(void)
{
    return (uint32_t)gp_max(local_piece() / 2, LOCAL_PIECE_MIN);
}

void
xport_pieces(struct xport_conn *conn, uint32_t out, uint32_t in)
{
    bool local = gp_net_same_host(conn->fd);

    if (xport_link_kind(conn) != XPORT_KIND_TCP)
        return;
    xport_tcp_start();
    queue_follow(conn->fd, out);
    conn->pieces_chosen = out;
    conn->piece = out || !local ? out : (uint32_t)local_piece();
    conn->piece_in = in;
}

uint32_t
xport_tcp_trip_us(int fd)
{
    uint32_t info[TCP_INFO_MIN_RTT / sizeof(uint32_t) + 1];
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0 && len == sizeof(info)
               ? info[TCP_INFO_MIN_RTT / sizeof(uint32_t)]
               : UINT32_MAX;
}

static bool
is_near(int fd)
{
    return xport_tcp_trip_us(fd) < NEAR_US;
}

void
xport_tcp_unpace(int fd)
{
    static const char unpaced[] = "reno"; /* the one that every kernel has */
    char name[16] = "";
    socklen_t len = sizeof(name) - 1;

    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 &&
        strncmp(name, "bbr", 3) == 0 && is_near(fd))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1);
}

void
xport_tcp_prepare(struct xport_conn *conn, int fd)
{
    /* Blocking: who must not sleep says so at each call. */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    xport_liveness_start(fd);
    xport_tcp_unpace(fd);
    atomic_store_explicit(&conn->near, is_near(fd), memory_order_relaxed);
    if (gp_net_same_host(fd))
        stay_local(conn, fd);
    if (conn->pieces_chosen)
        xport_pieces(conn, conn->pieces_chosen, conn->piece_in);
}

int
xport_tcp_new(int fd, uint32_t frame_max, struct xport_conn **ret, struct gp_err *err)
{
    struct tcp_conn *tcp = xport_stream_alloc(sizeof(*tcp));
    int r;

    if (!tcp)
        return gp_err_set(err, -ENOMEM, "out of memory");
    r = xport_stream_init(&tcp->stream, &tcp_ops, &tcp_io, frame_max, err);
    if (r < 0) {
        tcp_free(&tcp->stream.conn);
        return r;
    }
    xport_tcp_prepare(&tcp->stream.conn, fd);
    tcp->stream.conn.fd = fd; /* from here on it is ours */
    *ret = &tcp->stream.conn;
    return 0;
}

int
xport_wire_start(struct xport_conn *conn, struct gp_wire *wire, struct gp_err *err)
{
    if (conn->ops->kind != XPORT_KIND_TCP || xport_stream_of(conn)->wire)
        return gp_err_set(err, -EINVAL, "no place for a layer below %s",
                          conn->ops->name);
    xport_stream_of(conn)->wire = wire;
    return 0;
}
