/* SPDX-License-Identifier: Apache-2.0 */
/* What all transports share: frames received, payloads, descriptors, liveness. */
#include "xport.h"

#include "gp_copy.h"
#include "xport_block.h"
#include "xport_stream.h"
#include "xport_stripes.h"

#include <errno.h>
#include <string.h>

/* A round trip below which who sends a long payload waits until it has been received.
 */
#define CLOSE_US 100

int
xport_send_bulk(struct xport_conn *conn, const void *buf, size_t len)
{
    int r = xport_error(conn);

    if (r < 0)
        return r;
    r = conn->blocks ? xport_blocks_send(conn, buf, len)
                     : conn->ops->flush(conn, buf, len);
    if (r == 0 && conn->ops->bulk_done)
        r = conn->ops->bulk_done(conn);
    return r < 0 ? xport_fail(conn, r) : 0;
}

void
xport_bulk_in_parts(struct xport_conn *conn, uint64_t total)
{
    if (conn->blocks)
        conn->blocks->tx.total = total;
}

bool
xport_bulk_from_source(struct xport_conn *conn, uint64_t total,
                       struct xport_source *source)
{
    struct xport_blocks *b = conn->blocks;

    xport_bulk_in_parts(conn, total);
    if (!b || !b->tx.rereads || !conn->ops->flush_source)
        return false;
    b->tx.tail = xport_blocks_tail(conn);
    if (total < 2 * b->tx.tail)
        return false;
    b->tx.length = total;
    b->tx.source = source;
    return true;
}

int
xport_bulk_source_done(struct xport_conn *conn)
{
    int r = xport_error(conn);

    if (!conn->blocks || !conn->blocks->tx.source)
        return 0;
    if (r == 0)
        r = conn->ops->source_done(conn);
    conn->blocks->tx.source = NULL;
    return r < 0 ? xport_fail(conn, r) : 0;
}

bool
xport_pieces_matter(const struct xport_conn *conn)
{
    return xport_link_kind(conn) == XPORT_KIND_TCP && xport_is_near(conn) &&
           !(conn->blocks && atomic_load(&conn->blocks->stripes)) &&
           xport_tcp_trip_us(conn->fd) < CLOSE_US;
}

static GP_COLD int
frame_bad(struct xport_conn *conn, uint32_t size)
{
    return size == XPORT_LAST_FRAME && conn->ops->ended ? conn->ops->ended(conn)
                                                        : -EPROTO;
}

/* Is the next frame here, as a whole?  -EPROTO: a length that no frame may have. */
static GP_INLINE int
frame_here(struct xport_conn *conn, uint32_t *ret_size)
{
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);
    uint32_t size;

    if (have < XPORT_FRAME_MIN)
        return 0;
    memcpy(&size, conn->rx.pos, sizeof(size));
    *ret_size = size;
    if (unlikely(size < XPORT_FRAME_MIN || size > conn->frame_max || size % 8))
        return frame_bad(conn, size);
    return have >= size;
}

GP_HOT int
xport_recv(struct xport_conn *conn, const void **ret_frame, uint32_t *ret_size,
           uint64_t deadline_ns)
{
    uint32_t size;
    int r = xport_error(conn);

    if (unlikely(r < 0))
        return r;
    if (unlikely(conn->blocks) && !xport_blocks_done(conn->blocks))
        return xport_fail(conn, -EPROTO); /* a block longer than its payload */
    /* Frames are multiples of 8, but payloads are not. */
    if (unlikely((uintptr_t)conn->rx.pos & 7))
        conn->ops->realign(conn);
    while ((r = frame_here(conn, &size)) == 0) {
        r = conn->ops->fill(conn, deadline_ns);
        if (unlikely(r < 0))
            return r == -EAGAIN ? r : xport_fail(conn, r);
    }
    if (unlikely(r < 0))
        return xport_fail(conn, r);
    XPORT_RECEIVED(conn);
    *ret_frame = conn->rx.pos;
    *ret_size = size;
    conn->rx.pos += size;
    return 0;
}

int
xport_recv_bulk(struct xport_conn *conn, void *buf, size_t len)
{
    int r = xport_error(conn);

    if (r < 0)
        return r;
    conn->payload += len;
    r = conn->blocks ? xport_blocks_recv(conn, buf, len)
                     : xport_recv_plain(conn, buf, len);
    return r < 0 ? xport_fail(conn, r) : 0;
}

bool
xport_ring_region(struct xport_conn *conn, struct iovec ret[2])
{
    if (!conn->ops->window)
        return false;
    conn->ops->window(conn, ret);
    return true;
}

int
xport_peek_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                size_t *ret_n)
{
    int r = xport_error(conn);

    if (r == 0)
        r = conn->ops->peek_bulk(conn, ahead, len, ret, ret_n);
    return r < 0 ? xport_fail(conn, r) : 0;
}

void
xport_drop_bulk(struct xport_conn *conn, size_t n)
{
    conn->ops->drop_bulk(conn, n);
}

int
xport_room_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                size_t *ret_n)
{
    int r = xport_flush(conn);

    if (r == 0)
        r = conn->ops->room_bulk(conn, ahead, len, ret, ret_n);
    return r < 0 ? xport_fail(conn, r) : 0;
}

void
xport_push_bulk(struct xport_conn *conn, size_t n, bool more)
{
    conn->ops->push_bulk(conn, n, more);
}

int
xport_send_bulk_start(struct xport_conn *conn, const void *buf, size_t len,
                      uint64_t *ret_ticket)
{
    int r = xport_error(conn);

    *ret_ticket = 0;
    if (r < 0)
        return r;
    if (!conn->ops->send_start)
        return xport_send_bulk(conn, buf, len);
    r = conn->ops->send_start(conn, buf, len, ret_ticket);
    return r < 0 ? xport_fail(conn, r) : 0;
}

int
xport_send_bulk_wait(struct xport_conn *conn, uint64_t ticket)
{
    int r = xport_error(conn);

    if (r < 0 || !ticket)
        return r;
    r = conn->ops->send_wait(conn, ticket);
    return r < 0 ? xport_fail(conn, r) : 0;
}

int
xport_send_bulk_direct(struct xport_conn *conn, uint64_t addr, size_t len,
                       uint64_t *ret_ticket)
{
    int r = xport_error(conn);

    if (r < 0)
        return r;
    if (!conn->ops->send_direct)
        return -EOPNOTSUPP;
    r = conn->ops->send_direct(conn, addr, len, ret_ticket);
    return r < 0 && r != -EOPNOTSUPP ? xport_fail(conn, r) : r;
}

int
xport_recv_bulk_start(struct xport_conn *conn, void *buf, size_t len,
                      uint64_t *ret_ticket)
{
    size_t have = gp_min((size_t)(conn->rx.end - conn->rx.pos), len);
    int r = xport_error(conn);

    *ret_ticket = 0;
    if (r < 0)
        return r;
    if (!conn->ops->recv_start)
        return xport_recv_bulk(conn, buf, len);
    gp_copy(buf, conn->rx.pos, have);
    conn->rx.pos += have;
    if (have == len)
        return 0;
    r = conn->ops->recv_start(conn, (uint8_t *)buf + have, len - have, ret_ticket);
    return r < 0 ? xport_fail(conn, r) : 0;
}

int
xport_recv_bulk_wait(struct xport_conn *conn, uint64_t ticket)
{
    int r = xport_error(conn);

    if (r < 0 || !ticket)
        return r;
    r = conn->ops->recv_wait(conn, ticket);
    return r < 0 ? xport_fail(conn, r) : 0;
}

int
xport_recv_bulk_direct(struct xport_conn *conn, uint64_t addr, size_t len,
                       size_t *ret_n)
{
    int r = xport_error(conn);

    *ret_n = 0;
    if (r < 0 || !conn->ops->recv_direct)
        return r;
    r = conn->ops->recv_direct(conn, addr, len, ret_n);
    return r < 0 ? xport_fail(conn, r) : 0;
}

int
xport_give_fd(struct xport_conn *conn, int fd)
{
    return conn->ops->give_fd ? conn->ops->give_fd(conn, fd) : -EOPNOTSUPP;
}

int
xport_take_fd(struct xport_conn *conn)
{
    return conn->ops->take_fd ? conn->ops->take_fd(conn) : -EOPNOTSUPP;
}

void
xport_watch(struct xport_conn *conn)
{
    if (conn->ops->watch)
        conn->ops->watch(conn);
}

static struct xport_stripes *
stripes_of(const struct xport_conn *conn)
{
    return conn->blocks ? atomic_load(&conn->blocks->stripes) : NULL;
}

static void
abort_with(struct xport_conn *conn, int error)
{
    struct xport_stripes *stripes = stripes_of(conn);

    xport_fail(conn, error);
    conn->ops->abort(conn);
    if (stripes)
        xport_stripes_abort(stripes);
}

bool
xport_look(struct xport_conn *conn)
{
    struct xport_stripes *stripes = stripes_of(conn);
    bool again = false;
    int r = conn->ops->look ? conn->ops->look(conn, &again) : 0;

    if (r == 0 && stripes && !conn->ops->stripes_send &&
        xport_stripes_lost(stripes, &again))
        r = -ETIMEDOUT;
    if (r < 0)
        abort_with(conn, r);
    return again && r == 0;
}

void
xport_abort(struct xport_conn *conn)
{
    abort_with(conn, -ECONNABORTED);
}

void
xport_free(struct xport_conn *conn)
{
    if (!conn)
        return;
    xport_blocks_free(conn->blocks);
    conn->ops->free(conn);
}
