/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_conn.h"

#include "gp_copy.h"

#include <errno.h>
#include <string.h>

GP_COLD int
xport_fail(struct xport_conn *conn, int r)
{
    int none = 0;

    /* Sender and receiver may fail at the same time: the first one names the cause. */
    __atomic_compare_exchange_n(&conn->error, &none, r, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return r;
}

GP_HOT int
xport_flush(struct xport_conn *conn)
{
    int r = xport_error(conn);

    if (r < 0 || !xport_pending(conn))
        return r;
    XPORT_SENT(conn);
    r = conn->ops->flush(conn, NULL, 0);
    return r < 0 ? xport_fail(conn, r) : 0;
}

GP_HOT int
xport_flush_now(struct xport_conn *conn)
{
    int r = xport_error(conn);

    if (r < 0 || !xport_pending(conn))
        return r;
    XPORT_SENT(conn);
    r = conn->ops->flush_now(conn);
    if (unlikely(r == -EAGAIN))
        conn->tx.partial++;
    return r < 0 && r != -EAGAIN ? xport_fail(conn, r) : r;
}

int
xport_recv_plain(struct xport_conn *conn, void *buf, size_t len)
{
    size_t have = gp_min((size_t)(conn->rx.end - conn->rx.pos), len);

    gp_copy(buf, conn->rx.pos, have);
    conn->rx.pos += have;
    if (have == len)
        return 0;
    return conn->ops->recv_bulk(conn, (uint8_t *)buf + have, len - have);
}
