/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection over any ordered byte stream: the buffers and waits that TCP and shared
 * memory have in common.  Private to transport/.
 *
 * The send buffer is filled by the application threads and leaves in one write; a
 * payload rides in the same gathered write.  The receive buffer takes what is there, at
 * most 68 KiB a time: little enough that a payload mostly goes straight to its place.
 * What comes from shared memory is copied before it is looked at, so a peer that
 * scribbles over it later changes nothing.
 */
#ifndef XPORT_STREAM_H
#define XPORT_STREAM_H

#include "gp_wire.h"
#include "xport_buffer.h"
#include "xport_conn.h"
#include "xport_spin.h"

#include <string.h>

struct xport_stream;

/* The byte stream itself. */
struct xport_stream_io {
    /* All of @iov, waiting for room as long as the link lives; uses @iov up. */
    int (*write)(struct xport_stream *stream, struct iovec *iov, size_t n_iov);
    /* What is there, at most @len bytes; -EAGAIN: nothing; -ECONNRESET: the end. */
    int (*read)(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n);
    /* Whether read finds something, or an error; NULL: only reading tells. */
    bool (*readable)(struct xport_stream *stream);
    /* Sleep until there may be something to read; -ETIMEDOUT. */
    int (*wait)(struct xport_stream *stream, uint64_t deadline_ns);
    /* Like read, but sleeps for as long as the link lives; NULL when sleeping and
     * reading are two steps anyway.  One system call instead of three where it counts.
     */
    int (*read_asleep)(struct xport_stream *stream, void *buf, size_t len,
                       size_t *ret_n);
};

struct xport_stream {
    struct xport_conn conn;
    const struct xport_stream_io *io; /* a cache line from here */
    struct gp_wire *wire; /* between the bytes and the socket; NULL: nothing */
    struct xport_spin spin;
    uint8_t *rx_buf;
    size_t rx_cap, tx_cap;
    uint8_t *tx_buf;
};

static inline struct xport_stream *
xport_stream_of(struct xport_conn *conn)
{
    return container_of(conn, struct xport_stream, conn);
}

/* The socket @fd carries the stream of @conn from now on (xport_tcp.c). */
void xport_tcp_prepare(struct xport_conn *conn, int fd);

/* Where the system's congestion control paces what it sends (BBR) and the peer is less
 * than a millisecond away, another one is set: pacing knows too little of links where
 * data comes in bursts and costs a timer for every few segments (docs/transfers.md). An
 * administrator forbids that with a route's "congctl lock". */
void xport_tcp_unpace(int fd);

/* The shortest round trip of a connected socket so far, in microseconds; UINT32_MAX:
 * the kernel does not say (before Linux 4.6). */
uint32_t xport_tcp_trip_us(int fd);

/* Zeroed storage for what begins with a connection; free() gives it back. */
static inline void *
xport_stream_alloc(size_t size)
{
    size_t whole = GP_ALIGN_UP(size, _Alignof(struct xport_conn));
    void *p = aligned_alloc(_Alignof(struct xport_conn), whole);

    return p ? memset(p, 0, whole) : NULL;
}

/* Buffers for @stream (zeroed, storage is the caller's).  @ops holds the functions
 * below and the transport's own abort and free. */
int xport_stream_init(struct xport_stream *stream, const struct xport_ops *ops,
                      const struct xport_stream_io *io, uint32_t frame_max,
                      struct gp_err *err);
void xport_stream_fini(struct xport_stream *stream);

int xport_stream_reserve(struct xport_conn *conn, size_t n);
int xport_stream_flush(struct xport_conn *conn, const void *bulk, size_t len);
int xport_stream_fill(struct xport_conn *conn, uint64_t deadline_ns);

int xport_stream_recv_bulk(struct xport_conn *conn, void *buf, size_t len);
/* One read, once there is something; what io returns. */
int xport_stream_read(struct xport_stream *stream, void *buf, size_t len,
                      size_t *ret_n);

/* For a transport's flush_now: the first @n bytes that waited have gone.  Its result:
 * -EAGAIN when some still wait. */
int xport_stream_keep(struct xport_stream *stream, size_t n);

static GP_INLINE int
xport_stream_gone(struct xport_stream *stream, size_t n)
{
    struct xport_conn *conn = &stream->conn;

    conn->stats.tx_writes++;
    conn->stats.tx_bytes += n;
    if (unlikely(n != xport_pending(conn)))
        return xport_stream_keep(stream, n);
    conn->tx.pos = conn->tx.base;
    return 0;
}

/* What was received and not yet consumed moves to the buffer's start. */
void xport_stream_to_start(struct xport_conn *conn);

/* The largest frame that is sent with others, and these, in one read.
 *
 * For a transport's own fill: room for XPORT_STREAM_READ bytes at rx.end, and the wait
 * after a first look that found nothing.  Empty is the chance to go back to the start,
 * where the cache is warm. */
#define XPORT_STREAM_READ (68u << 10)
static GP_INLINE void
xport_stream_make_room(struct xport_stream *stream)
{
    struct xport_conn *conn = &stream->conn;

    if (likely(conn->rx.pos == conn->rx.end))
        conn->rx.pos = conn->rx.end = stream->rx_buf;
    else if (unlikely((size_t)(stream->rx_buf + stream->rx_cap - conn->rx.end) <
                      XPORT_STREAM_READ))
        xport_stream_to_start(conn);
}

int xport_stream_read_later(struct xport_stream *stream, void *buf, size_t len,
                            size_t *ret_n, uint64_t deadline_ns);

/* Use up the first @n bytes of the vector. */
static inline void
xport_iov_advance(struct iovec **iov, size_t *n_iov, size_t n)
{
    while (*n_iov && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        ++*iov;
        --*n_iov;
    }
    if (*n_iov) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

#endif
