/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_stream.h"

#include "gp_err.h"
#include "gp_time.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

/* Coalescing limit: beyond this a write costs no less per byte (measured). */
#define TX_BUFFER (64u << 10)

int
xport_stream_init(struct xport_stream *stream, const struct xport_ops *ops,
                  const struct xport_stream_io *io, uint32_t frame_max,
                  struct gp_err *err)
{
    struct xport_conn *conn = &stream->conn;

    conn->ops = ops;
    conn->frame_max = frame_max;
    conn->fd = -1;
    stream->io = io;
    if (frame_max < XPORT_FRAME_MIN || frame_max > XPORT_FRAME_LIMIT || frame_max % 8)
        return gp_err_set(err, -EINVAL, "frame limit %u out of range", frame_max);
    stream->tx_cap = gp_max(frame_max, TX_BUFFER);
    stream->rx_cap = frame_max + XPORT_STREAM_READ;
    stream->tx_buf = xport_buffer_new(stream->tx_cap, XPORT_BUFFER_OUT);
    stream->rx_buf = xport_buffer_new(stream->rx_cap, 0);
    if (!stream->tx_buf || !stream->rx_buf)
        return gp_err_set(err, -ENOMEM, "out of memory");
    conn->tx.base = conn->tx.pos = stream->tx_buf;
    conn->tx.end = conn->tx.base + stream->tx_cap;
    conn->rx.pos = conn->rx.end = stream->rx_buf;
    return 0;
}

void
xport_stream_fini(struct xport_stream *stream)
{
    gp_wire_free(stream->wire);
    xport_buffer_free(stream->tx_buf, XPORT_BUFFER_OUT);
    xport_buffer_free(stream->rx_buf, 0);
}

GP_HOT int
xport_stream_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    struct xport_stream *stream = xport_stream_of(conn);
    struct iovec iov[2];
    size_t n = 0;

    if (xport_pending(conn))
        iov[n++] = (struct iovec){conn->tx.base, xport_pending(conn)};
    if (len)
        iov[n++] = (struct iovec){(void *)(uintptr_t)bulk, len};
    conn->tx.pos = conn->tx.base;
    return stream->io->write(stream, iov, n);
}

int
xport_stream_keep(struct xport_stream *stream, size_t n)
{
    struct xport_conn *conn = &stream->conn;
    size_t left = xport_pending(conn) - n;

    memmove(conn->tx.base, conn->tx.base + n, left);
    conn->tx.pos = conn->tx.base + left;
    return -EAGAIN;
}

int
xport_stream_reserve(struct xport_conn *conn, size_t n)
{
    /* Once empty the buffer holds a frame of the largest size. */
    return n > conn->frame_max ? -EMSGSIZE : xport_flush(conn);
}

void
xport_stream_to_start(struct xport_conn *conn)
{
    struct xport_stream *stream = xport_stream_of(conn);
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);

    memmove(stream->rx_buf, conn->rx.pos, have);
    conn->rx.pos = stream->rx_buf;
    conn->rx.end = stream->rx_buf + have;
}

void *
xport_exchange_new(const struct xport_conn *conn, size_t *ret_size)
{
    const struct xport_stream *stream =
        container_of(conn, const struct xport_stream, conn);

    *ret_size = GP_ALIGN_UP(stream->rx_cap, XPORT_BUFFER_PAGE);
    return xport_buffer_new(*ret_size, 0);
}

void *
xport_exchange(struct xport_conn *conn, void *buffer)
{
    struct xport_stream *stream = xport_stream_of(conn);
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);
    void *full = stream->rx_buf;

    memcpy(buffer, conn->rx.pos, have);
    stream->rx_buf = buffer;
    conn->rx.pos = stream->rx_buf;
    conn->rx.end = stream->rx_buf + have;
    return full;
}

/* Polls memory a few times without the clock. */
static bool
look_in_memory(struct xport_stream *stream)
{
    for (int i = 0; i < XPORT_SPIN_BATCH; i++) {
        if (stream->io->readable(stream))
            return true;
        gp_cpu_relax();
    }
    return false;
}

/* Nothing there at the first look: again and again while that has paid.  -EAGAIN: now
 * sleep.  Taking out many bytes is no pause in which somebody else ran here, so who can
 * look without taking does. */
static int
read_spinning(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    int r = -EAGAIN;

    xport_spin_begin(&stream->spin);
    while (r == -EAGAIN && xport_spin_again(&stream->spin)) {
        if (stream->io->readable) {
            if (!look_in_memory(stream))
                continue;
            xport_spin_won(&stream->spin);
        }
        r = stream->io->read(stream, buf, len, ret_n);
    }
    if (r != -EAGAIN) {
        if (!stream->io->readable)
            xport_spin_won(&stream->spin);
        stream->conn.stats.rx_spun++;
    }
    return r;
}

GP_HOT static int
read_sleeping(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n,
              uint64_t deadline_ns)
{
    int r = -EAGAIN;

    stream->conn.stats.rx_slept++;
    while (r == -EAGAIN) {
        if (deadline_ns == GP_FOREVER && stream->io->read_asleep) {
            r = stream->io->read_asleep(stream, buf, len, ret_n);
            continue;
        }
        r = stream->io->wait(stream, deadline_ns);
        if (r == -ETIMEDOUT)
            return -EAGAIN;
        if (!r)
            r = stream->io->read(stream, buf, len, ret_n);
    }
    return r;
}

GP_HOT int
xport_stream_read_later(struct xport_stream *stream, void *buf, size_t len,
                        size_t *ret_n, uint64_t deadline_ns)
{
    int r = -EAGAIN;

    if (!deadline_ns)
        return r;
    if (!xport_spin_skips(&stream->spin))
        r = read_spinning(stream, buf, len, ret_n);
    return r == -EAGAIN ? read_sleeping(stream, buf, len, ret_n, deadline_ns) : r;
}

/* Until something was read: first spinning when that has paid, then asleep.  What is
 * there at the first look says nothing about spinning, and costs no look at the clock:
 * we may have been switched away for who sent it. */
GP_HOT static int
read_wait(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n,
          uint64_t deadline_ns)
{
    int r;

    /* The first look is a system call: straight to sleep if no other is to follow. */
    if (deadline_ns && stream->io->read_asleep && xport_spin_skips(&stream->spin))
        return read_sleeping(stream, buf, len, ret_n, deadline_ns);
    r = stream->io->read(stream, buf, len, ret_n);
    if (!deadline_ns || r != -EAGAIN)
        return r;
    if (!stream->io->read_asleep)
        return xport_stream_read_later(stream, buf, len, ret_n, deadline_ns);
    r = read_spinning(stream, buf, len, ret_n);
    return r == -EAGAIN ? read_sleeping(stream, buf, len, ret_n, deadline_ns) : r;
}

GP_HOT int
xport_stream_fill(struct xport_conn *conn, uint64_t deadline_ns)
{
    struct xport_stream *stream = xport_stream_of(conn);
    size_t n = 0;
    int r;

    xport_stream_make_room(stream);
    r = read_wait(stream, conn->rx.end, XPORT_STREAM_READ, &n, deadline_ns);
    conn->rx.end += n;
    conn->stats.rx_bytes += n;
    return r;
}

int
xport_stream_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    *ret_n = 0;
    return read_wait(stream, buf, len, ret_n, GP_FOREVER);
}

int
xport_stream_recv_bulk(struct xport_conn *conn, void *buf, size_t len)
{
    uint8_t *p = buf;

    conn->stats.rx_bytes += len;
    while (len) {
        size_t n = 0;
        int r = read_wait(xport_stream_of(conn), p, len, &n, GP_FOREVER);

        if (r < 0)
            return r;
        p += n;
        len -= n;
    }
    return 0;
}
