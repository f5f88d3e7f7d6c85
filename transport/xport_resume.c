/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_resume.h"

#include "gp_err.h"
#include "gp_lock.h"
#include "gp_net.h"
#include "xport.h"
#include "xport_block.h"
#include "xport_journal.h"
#include "xport_liveness.h"
#include "xport_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Received bytes that are not acknowledged yet, at most: of frames, whose sender has
 * their blocks in its cache, and of payloads, where an acknowledgement costs as much as
 * 4 KiB of them.  Both well below XPORT_JOURNAL_MAX, or a sender could wait for ever.
 */
#define ACK_FRAMES (256u << 10)
#define ACK_BULK (1u << 20)
/* What the end of a payload has acknowledged at once (xport_acknowledge()). */
#define ACK_END (64u << 10)

/* Of a lent payload so much is copied without waiting for its acknowledgement. */
#define COPY_FREE (64u << 10)
/* Beyond it waiting is cheaper where a round trip takes less than copying: 10 GB/s. */
#define COPY_BYTES_PER_NS 10u
#define WAIT_MAX_NS (5 * GP_NS_PER_MS)

#define MAX_IOV 4
#define GOODBYE UINT64_MAX

struct resume_conn {
    struct xport_stream stream;
    const struct xport_resume_owner *owner;
    struct xport_liveness live;
    int ack_fd;               /* -1: not here yet; keeps its number, like conn.fd */
    struct gp_wire *ack_wire; /* between it and the socket; NULL: nothing */
    struct gp_lock ack_first; /* somebody takes the first one */
    struct gp_lock tx_lock, rx_lock; /* in a write; in a read */
    struct gp_lock recover;          /* somebody replaces the link */
    _Atomic uint32_t epoch;          /* links before this one; under both locks */
    atomic_bool replaying;           /* replay_at < journal.end; under tx_lock */
    atomic_bool goodbye;             /* the peer's */

    /* Under tx_lock. */
    struct xport_journal journal;
    uint64_t writing;   /* bytes of the write under way, behind the journal's end */
    uint64_t replay_at; /* the next byte to send again */
    uint64_t peer_at;   /* what the peer had when this link began */
    uint64_t trip_ns;   /* the shortest round trip of the link */
    uint8_t ack_part[8];
    size_t ack_part_len;
    uint64_t replayed, cuts;

    /* Under rx_lock. */
    uint64_t received, ack_sent;
};

static struct resume_conn *
resume_of(struct xport_conn *conn)
{
    return container_of(xport_stream_of(conn), struct resume_conn, stream);
}

/* Not what a new link mends. */
static bool
is_fatal(int r)
{
    return r == -EPROTO || r == -ENOMEM || r == -EMSGSIZE;
}

/* ---- acknowledgements -------------------------------------------------------------
 */

/* The first link's may come later than the link. */
static bool
ack_link_here(struct resume_conn *rc)
{
    struct xport_resume_link link = {.ack_fd = -1};

    if (likely(__atomic_load_n(&rc->ack_fd, __ATOMIC_ACQUIRE) >= 0))
        return true;
    gp_lock_take(&rc->ack_first);
    if (rc->ack_fd < 0 && rc->owner->ack_link &&
        rc->owner->ack_link(&rc->stream.conn, &link) == 0) {
        rc->ack_wire = link.ack_wire;
        __atomic_store_n(&rc->ack_fd, link.ack_fd, __ATOMIC_RELEASE);
    }
    gp_lock_release(&rc->ack_first);
    return rc->ack_fd >= 0;
}

static ssize_t
ack_write(struct resume_conn *rc, uint64_t value)
{
    struct iovec iov = {&value, sizeof(value)};

    return gp_wire_send(rc->ack_wire, rc->ack_fd, &iov, 1, MSG_DONTWAIT);
}

/* Under rx_lock.  A peer whose socket is full has enough of them to read; a part of one
 * would shift all that follow, so such a link is replaced. */
static GP_COLD void
ack_send(struct resume_conn *rc)
{
    ssize_t n;

    if (!ack_link_here(rc))
        return;
    n = ack_write(rc, rc->received);
    if (n == sizeof(uint64_t))
        rc->ack_sent = rc->received;
    else if (n != -EAGAIN)
        shutdown(rc->stream.conn.fd, SHUT_RDWR);
}

static int
ack_take(struct resume_conn *rc, uint64_t value)
{
    struct xport_journal *j = &rc->journal;

    if (value != GOODBYE)
        return xport_journal_ack(j, value, j->end + rc->writing);
    atomic_store(&rc->goodbye, true);
    return 0;
}

/* Under tx_lock.  Each says all that those before it say.  -ECONNRESET: no more will
 * come over this link. */
static int
acks_read(struct resume_conn *rc)
{
    uint8_t buf[8 * 64];
    ssize_t n;

    if (!ack_link_here(rc))
        return 0;
    do {
        size_t have = rc->ack_part_len;
        uint64_t value;

        memcpy(buf, rc->ack_part, have);
        n = gp_wire_recv(rc->ack_wire, rc->ack_fd, buf + have, sizeof(buf) - have,
                         MSG_DONTWAIT);
        if (n <= 0)
            return n == -EAGAIN ? 0 : -ECONNRESET;
        have += (size_t)n;
        for (size_t at = 0; at + 8 <= have; at += 8) {
            memcpy(&value, buf + at, 8);
            if (ack_take(rc, value) < 0)
                return -EPROTO;
        }
        rc->ack_part_len = have % 8;
        memcpy(rc->ack_part, buf + have - have % 8, have % 8);
    } while (n > 256);
    return 0;
}

/* Under tx_lock: sleep until some may have come.  -ETIMEDOUT; -ECONNRESET: the link
 * broke meanwhile. */
static int
acks_wait(struct resume_conn *rc, uint64_t deadline_ns)
{
    struct xport_conn *conn = &rc->stream.conn;

    for (;;) {
        bool here = ack_link_here(rc);
        struct pollfd fds[] = {{.fd = conn->fd, .events = POLLRDHUP},
                               {.fd = rc->ack_fd, .events = POLLIN}};
        uint64_t now = gp_now_ns();
        int64_t ms = here ? XPORT_CHECK_S * 1000 : 10;

        if (here && gp_wire_pending(rc->ack_wire))
            return 0;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        if (deadline_ns != GP_FOREVER)
            ms = gp_min(ms, (int64_t)((deadline_ns - now) / GP_NS_PER_MS + 1));
        if (poll(fds, here ? 2 : 1, (int)ms) < 0 && errno != EINTR)
            return -errno;
        if (here && fds[1].revents)
            return 0;
        if (fds[0].revents || xport_liveness_lost(&rc->live, conn->fd, NULL))
            return -ECONNRESET;
        if (xport_error(conn) < 0)
            return xport_error(conn);
    }
}

/* ---- a new link --------------------------------------------------------------------
 */

static uint64_t
trip_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0
               ? 0
               : (uint64_t)info.tcpi_rtt * 1000;
}

/* @fd takes the place of @at, whose number others use.  It is gone in any case. */
static int
fd_replace(int fd, int at)
{
    int r = dup3(fd, at, O_CLOEXEC) < 0 ? -errno : 0;

    close(fd);
    return r;
}

static void
link_drop(struct xport_resume_link *link)
{
    close(link->fd);
    close(link->ack_fd);
    gp_wire_free(link->wire);
    gp_wire_free(link->ack_wire);
}

/* Under both locks. */
static int
link_install(struct resume_conn *rc, struct xport_resume_link *link)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct xport_journal *j = &rc->journal;
    int r = 0;

    if (link->received < j->acked ||
        xport_journal_ack(j, link->received, j->end + rc->writing) < 0) {
        link_drop(link); /* the peer is not the one that had this stream */
        return -EPROTO;
    }
    gp_wire_free(rc->stream.wire);
    gp_wire_free(rc->ack_wire);
    rc->stream.wire = link->wire;
    rc->ack_wire = link->ack_wire;
    r = fd_replace(link->fd, conn->fd);
    if (rc->ack_fd < 0)
        rc->ack_fd = link->ack_fd;
    else if (r == 0)
        r = fd_replace(link->ack_fd, rc->ack_fd);
    xport_tcp_prepare(conn, conn->fd);
    rc->ack_part_len = 0;
    rc->ack_sent = rc->received;
    rc->peer_at = link->received;
    rc->replay_at = gp_min(link->received, j->end);
    atomic_store(&rc->replaying, rc->replay_at < j->end);
    rc->trip_ns = trip_of(conn->fd);
    rc->cuts++;
    atomic_fetch_add(&rc->epoch, 1);
    return r;
}

/* The link that was number @epoch is broken: 0 when there is another one. */
static GP_COLD int
recover(struct resume_conn *rc, uint32_t epoch)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct xport_resume_link link = {.fd = -1, .ack_fd = -1};
    int r;

    gp_lock_take(&rc->recover);
    r = xport_error(conn);
    if (r == 0 && atomic_load(&rc->epoch) == epoch) {
        shutdown(conn->fd, SHUT_RDWR);
        if (rc->ack_fd >= 0)
            shutdown(rc->ack_fd, SHUT_WR);
        gp_lock_take(&rc->tx_lock);
        gp_lock_take(&rc->rx_lock);
        acks_read(rc); /* perhaps the peer has said goodbye */
        r = rc->owner->reconnect(conn, rc->received, &link);
        if (r == 0)
            r = link_install(rc, &link);
        if (r < 0)
            xport_fail(conn, r);
        gp_lock_release(&rc->rx_lock);
        gp_lock_release(&rc->tx_lock);
        r = xport_error(conn);
        if (r < 0) /* somebody who sleeps must see it */
            shutdown(conn->fd, SHUT_RDWR);
    }
    gp_lock_release(&rc->recover);
    return r;
}

/* Send again what the peer did not get, under tx_lock.  With MSG_DONTWAIT as @flags
 * -EAGAIN: not all of it yet. */
static GP_COLD int
replay(struct resume_conn *rc, int flags)
{
    struct xport_conn *conn = &rc->stream.conn;

    while (rc->replay_at < rc->journal.end) {
        const uint8_t *bytes;
        int64_t len = xport_journal_at(&rc->journal, rc->replay_at, &bytes);
        struct iovec iov = {(void *)(uintptr_t)bytes, (size_t)len};
        ssize_t n;

        if (len <= 0)
            return -EPROTO;
        n = gp_wire_send(rc->stream.wire, conn->fd, &iov, 1, flags);
        if (n == -EAGAIN && flags)
            return -EAGAIN;
        if (n == -EAGAIN && xport_liveness_lost(&rc->live, conn->fd, NULL))
            return -ETIMEDOUT;
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        rc->replay_at += (uint64_t)gp_max(n, (ssize_t)0);
        rc->replayed += (uint64_t)gp_max(n, (ssize_t)0);
    }
    atomic_store(&rc->replaying, false);
    return 0;
}

/* By those who read: nobody may be sending.  What fails here fails for the next who
 * sends or reads. */
static void
replay_some(struct resume_conn *rc)
{
    if (!gp_lock_try(&rc->tx_lock))
        return;
    if (atomic_load(&rc->replaying) && replay(rc, MSG_DONTWAIT) == -EPROTO)
        xport_fail(&rc->stream.conn, -EPROTO);
    gp_lock_release(&rc->tx_lock);
}

/* ---- sending ----------------------------------------------------------------------
 */

/* All of @iov, or what of it the peer does not have yet. */
static int
send_all(struct resume_conn *rc, struct iovec *iov, size_t n_iov)
{
    struct xport_conn *conn = &rc->stream.conn;

    while (n_iov) {
        ssize_t n = gp_wire_send(rc->stream.wire, conn->fd, iov, n_iov, 0);

        conn->stats.tx_writes++;
        if (n == -EAGAIN) { /* blocked for XPORT_CHECK_S, or interrupted */
            if (xport_liveness_lost(&rc->live, conn->fd, NULL))
                return -ETIMEDOUT;
            continue;
        }
        if (n < 0)
            return (int)n;
        xport_iov_advance(&iov, &n_iov, (size_t)n);
    }
    return 0;
}

/* How much of the write that began at @start and has @total bytes the peer has. */
static int
already_there(const struct resume_conn *rc, uint64_t start, size_t total, size_t *ret)
{
    *ret = rc->peer_at > start ? (size_t)(rc->peer_at - start) : 0;
    return *ret > total ? -EPROTO : 0;
}

/* One write, over as many links as it takes; under tx_lock, which is released during a
 * recovery. */
static int
write_through(struct resume_conn *rc, const struct iovec *iov, size_t n_iov,
              size_t total)
{
    uint64_t start = rc->journal.end;
    uint32_t epoch = atomic_load_explicit(&rc->epoch, memory_order_relaxed);
    size_t there = 0;

    for (;;) {
        struct iovec copy[MAX_IOV], *at = copy;
        size_t n = n_iov;
        int r = unlikely(atomic_load(&rc->replaying)) ? replay(rc, 0) : 0;

        memcpy(copy, iov, n_iov * sizeof(*iov));
        xport_iov_advance(&at, &n, there);
        rc->writing = total;
        if (r == 0)
            r = send_all(rc, at, n);
        if (likely(r == 0)) {
            rc->writing = 0;
            return 0;
        }
        if (is_fatal(r))
            return r;
        gp_lock_release(&rc->tx_lock);
        r = recover(rc, epoch);
        gp_lock_take(&rc->tx_lock);
        if (r == 0)
            r = already_there(rc, start, total, &there);
        if (r < 0)
            return r;
        epoch = atomic_load(&rc->epoch);
    }
}

/* The link is broken, and the lock is held: what is it when it is mended? */
static int
recover_locked(struct resume_conn *rc)
{
    uint32_t epoch = atomic_load(&rc->epoch);
    int r;

    gp_lock_release(&rc->tx_lock);
    r = recover(rc, epoch);
    gp_lock_take(&rc->tx_lock);
    return r;
}

/* Places for the parts of a write. */
static int
parts_make_room(struct resume_conn *rc)
{
    int r = acks_read(rc);

    xport_journal_compact(&rc->journal);
    while (r == 0 && xport_journal_full(&rc->journal)) {
        r = acks_wait(rc, GP_FOREVER);
        if (r == 0)
            r = acks_read(rc);
        if (r == -ECONNRESET)
            r = recover_locked(rc);
    }
    return r;
}

GP_HOT static int
resume_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    struct resume_conn *rc = resume_of(conn);
    size_t frames = xport_pending(conn), n = 0;
    struct iovec iov[2];
    int r = 0;

    if (frames)
        iov[n++] = (struct iovec){conn->tx.base, frames};
    if (len)
        iov[n++] = (struct iovec){(void *)(uintptr_t)bulk, len};
    gp_lock_take(&rc->tx_lock);
    if (unlikely(xport_journal_full(&rc->journal)))
        r = parts_make_room(rc);
    if (likely(r == 0))
        r = write_through(rc, iov, n, frames + len);
    if (likely(r == 0)) {
        xport_journal_sent(&rc->journal, frames);
        xport_journal_sent_lent(&rc->journal, bulk, len);
        conn->tx.base = conn->tx.pos;
        conn->stats.tx_bytes += frames + len;
    }
    gp_lock_release(&rc->tx_lock);
    return r;
}

/* Under tx_lock: what goes without waiting. */
static ssize_t
send_now(struct resume_conn *rc)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct iovec iov = {conn->tx.base, xport_pending(conn)};
    int r = unlikely(atomic_load(&rc->replaying)) ? replay(rc, MSG_DONTWAIT) : 0;

    return r < 0 ? r : gp_wire_send(rc->stream.wire, conn->fd, &iov, 1, MSG_DONTWAIT);
}

GP_HOT static int
resume_flush_now(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);
    ssize_t n = -EAGAIN;
    int r = 0;

    gp_lock_take(&rc->tx_lock);
    if (likely(!xport_journal_full(&rc->journal)))
        n = send_now(rc);
    while (unlikely(n < 0 && n != -EAGAIN && r == 0)) {
        r = is_fatal((int)n) ? (int)n : recover_locked(rc);
        if (r == 0)
            n = send_now(rc);
    }
    if (likely(n > 0)) {
        xport_journal_sent(&rc->journal, (size_t)n);
        conn->tx.base += n;
        conn->stats.tx_writes++;
        conn->stats.tx_bytes += (size_t)n;
    }
    gp_lock_release(&rc->tx_lock);
    return r < 0 ? r : conn->tx.base == conn->tx.pos ? 0 : -EAGAIN;
}

/* Another block to write frames to; there is always one where the peer acknowledges. */
static int
block_wait(struct resume_conn *rc)
{
    for (;;) {
        int r = acks_read(rc);

        if (r == 0) {
            r = xport_journal_next_block(&rc->journal);
            if (r != -EAGAIN)
                return r;
            r = acks_wait(rc, GP_FOREVER);
        }
        if (r == -ECONNRESET)
            r = recover_locked(rc);
        if (r < 0)
            return r;
    }
}

static int
resume_reserve(struct xport_conn *conn, size_t n)
{
    struct resume_conn *rc = resume_of(conn);
    int r = n > conn->frame_max ? -EMSGSIZE : xport_flush(conn);

    if (r < 0 || (size_t)(conn->tx.end - conn->tx.pos) >= n)
        return r;
    gp_lock_take(&rc->tx_lock);
    r = block_wait(rc);
    gp_lock_release(&rc->tx_lock);
    if (r < 0)
        return xport_fail(conn, r);
    conn->tx.base = conn->tx.pos = rc->journal.frames.room;
    conn->tx.end = xport_journal_room_end(&rc->journal);
    return 0;
}

/* ---- payloads ---------------------------------------------------------------------
 */

/* Nothing sent before @until needs memory that is not ours any more: either the peer
 * has it, or it is copied. */
static int
lent_return(struct resume_conn *rc, uint64_t until)
{
    uint64_t patience = 0, lent;
    int r = 0;

    gp_lock_take(&rc->tx_lock);
    while (r == 0 && xport_journal_lent(&rc->journal, until)) {
        r = acks_read(rc);
        lent = xport_journal_lent(&rc->journal, until);
        if (r == 0 && lent > COPY_FREE && lent > rc->trip_ns * COPY_BYTES_PER_NS) {
            patience = patience ? patience : gp_now_ns() + WAIT_MAX_NS;
            r = acks_wait(rc, patience);
            if (r == 0)
                continue;
        }
        if (r == 0 || r == -ETIMEDOUT) {
            xport_journal_keep(&rc->journal, until);
            r = xport_journal_lent(&rc->journal, until) ? acks_wait(rc, GP_FOREVER) : 0;
        }
        if (r == -ECONNRESET)
            r = recover_locked(rc);
    }
    gp_lock_release(&rc->tx_lock);
    return r;
}

static int
resume_bulk_done(struct xport_conn *conn)
{
    return lent_return(resume_of(conn), UINT64_MAX);
}

static int
resume_send_start(struct xport_conn *conn, const void *bulk, size_t len,
                  uint64_t *ret_ticket)
{
    int r = conn->blocks ? xport_blocks_send(conn, bulk, len)
                         : resume_flush(conn, bulk, len);

    *ret_ticket = r < 0 ? 0 : resume_of(conn)->journal.end;
    return r;
}

static int
resume_send_wait(struct xport_conn *conn, uint64_t ticket)
{
    return lent_return(resume_of(conn), ticket);
}

/* ---- receiving --------------------------------------------------------------------
 */

/* Under rx_lock. */
static GP_INLINE void
got(struct resume_conn *rc, size_t n, size_t wanted)
{
    uint64_t limit = wanted > XPORT_STREAM_READ ? ACK_BULK : ACK_FRAMES;

    rc->received += n;
    if (unlikely(rc->received - rc->ack_sent >= limit))
        ack_send(rc);
}

GP_HOT static int
read_with(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n, int flags)
{
    struct resume_conn *rc = container_of(stream, struct resume_conn, stream);
    uint32_t epoch;
    ssize_t n;
    int r;

    gp_lock_take(&rc->rx_lock);
    epoch = atomic_load_explicit(&rc->epoch, memory_order_relaxed);
    if (unlikely(atomic_load(&rc->replaying)))
        flags = MSG_DONTWAIT;
    n = gp_wire_recv(stream->wire, stream->conn.fd, buf, len, flags);
    stream->conn.stats.rx_reads++;
    if (likely(n > 0))
        got(rc, (size_t)n, len);
    gp_lock_release(&rc->rx_lock);
    if (likely(n > 0)) {
        *ret_n = (size_t)n;
        return 0;
    }
    if (n == -EAGAIN)
        return -EAGAIN;
    r = recover(rc, epoch);
    return r < 0 ? r : -EAGAIN;
}

GP_HOT static int
resume_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    return read_with(stream, buf, len, ret_n, MSG_DONTWAIT);
}

/* While bytes wait to be sent again, the reader sends them. */
static int
resume_wait(struct xport_stream *stream, uint64_t deadline_ns)
{
    struct resume_conn *rc = container_of(stream, struct resume_conn, stream);
    bool again;
    int r;

    gp_lock_take(&rc->rx_lock);
    again = atomic_load(&rc->replaying);
    r = gp_wire_pending(stream->wire)
            ? 0
            : gp_net_wait(stream->conn.fd, again ? POLLIN | POLLOUT : POLLIN,
                          deadline_ns);
    gp_lock_release(&rc->rx_lock);
    if (again)
        replay_some(rc);
    return r < 0 && xport_error(&stream->conn) < 0 ? xport_error(&stream->conn) : r;
}

GP_HOT static int
resume_read_asleep(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    struct resume_conn *rc = container_of(stream, struct resume_conn, stream);
    int r;

    if (unlikely(atomic_load(&rc->replaying))) {
        r = resume_wait(stream, GP_FOREVER);
        if (r < 0)
            return r;
    }
    r = read_with(stream, buf, len, ret_n, 0);
    return r == -EAGAIN && xport_error(&stream->conn) < 0 ? xport_error(&stream->conn)
                                                          : r;
}

static void
resume_acknowledge(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    gp_lock_take(&rc->rx_lock);
    if (rc->received - rc->ack_sent >= ACK_END)
        ack_send(rc);
    gp_lock_release(&rc->rx_lock);
}

/* ---- life -------------------------------------------------------------------------
 */

static bool
is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    int unread = 0;

    if (poll(&p, 1, 0) <= 0)
        return false;
    /* What the peer said last is read before the link is given up. */
    return (p.revents & (POLLERR | POLLHUP | POLLNVAL)) ||
           ioctl(fd, FIONREAD, &unread) < 0 || unread == 0;
}

/* The one that is connected to has a thread that always reads; it is only woken. */
static int
resume_look(struct xport_conn *conn, bool *ret_again)
{
    struct resume_conn *rc = resume_of(conn);
    uint32_t epoch = atomic_load(&rc->epoch);
    bool passive = rc->owner->knocks != NULL, broken;

    if (atomic_load(&rc->replaying))
        replay_some(rc);
    *ret_again = atomic_load(&rc->replaying);
    if (!gp_lock_try(&rc->recover))
        return 0;
    gp_lock_release(&rc->recover);
    if (passive && rc->owner->knocks(conn))
        return recover(rc, epoch);
    broken = xport_liveness_lost(&rc->live, conn->fd, ret_again);
    if (passive && broken)
        shutdown(conn->fd, SHUT_RDWR);
    if (passive || !(broken || is_closed(conn->fd)))
        return 0;
    *ret_again = true;
    return recover(rc, epoch);
}

static void
resume_abort(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    shutdown(conn->fd, SHUT_RDWR);
    if (rc->ack_fd >= 0)
        shutdown(rc->ack_fd, SHUT_RDWR);
}

static void
resume_free(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    if (conn->fd >= 0)
        close(conn->fd);
    if (rc->ack_fd >= 0)
        close(rc->ack_fd);
    gp_wire_free(rc->ack_wire);
    xport_journal_fini(&rc->journal);
    xport_stream_fini(&rc->stream);
    free(rc);
}

static const struct xport_ops resume_ops = {
    .name = "tcp",
    .kind = XPORT_KIND_TCP,
    .can = XPORT_CAN_BLOCKS | XPORT_CAN_NAME,
    .reserve = resume_reserve,
    .flush = resume_flush,
    .flush_now = resume_flush_now,
    .fill = xport_stream_fill,
    .recv_bulk = xport_stream_recv_bulk,
    .send_start = resume_send_start,
    .send_wait = resume_send_wait,
    .bulk_done = resume_bulk_done,
    .acknowledge = resume_acknowledge,
    .realign = xport_stream_to_start,
    .abort = resume_abort,
    .look = resume_look,
    .free = resume_free,
};

static const struct xport_stream_io resume_io = {
    .read = resume_read,
    .wait = resume_wait,
    .read_asleep = resume_read_asleep,
};

bool
xport_resumes(const struct xport_conn *conn)
{
    return conn->ops == &resume_ops;
}

int
xport_resume_new(int fd, int ack_fd, uint32_t frame_max,
                 const struct xport_resume_owner *owner, struct xport_conn **ret,
                 struct gp_err *err)
{
    struct resume_conn *rc = xport_stream_alloc(sizeof(*rc));
    struct xport_conn *conn;
    int r;

    if (!rc)
        return gp_err_set(err, -ENOMEM, "out of memory");
    conn = &rc->stream.conn;
    rc->owner = owner;
    rc->ack_fd = -1;
    r = xport_stream_init(&rc->stream, &resume_ops, &resume_io, frame_max, err);
    if (r == 0)
        r = xport_journal_init(&rc->journal, rc->stream.tx_cap);
    if (r < 0) {
        resume_free(conn);
        return gp_err_set(err, r, "no memory for a journal");
    }
    conn->tx.base = conn->tx.pos = rc->journal.frames.room;
    conn->tx.end = xport_journal_room_end(&rc->journal);
    xport_tcp_prepare(conn, fd);
    rc->trip_ns = trip_of(fd);
    rc->ack_fd = ack_fd;
    conn->fd = fd;
    *ret = conn;
    return 0;
}

void
xport_resume_goodbye(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    if (xport_resumes(conn) && rc->ack_fd >= 0)
        ack_write(rc, GOODBYE);
}

bool
xport_resume_peer_gone(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    acks_read(rc);
    return atomic_load(&rc->goodbye);
}

int
xport_resume_ack_fd(struct xport_conn *conn)
{
    return xport_resumes(conn) ? resume_of(conn)->ack_fd : -1;
}

struct xport_resume_stats
xport_resume_stats(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    return (struct xport_resume_stats){.links = rc->cuts, .replayed = rc->replayed};
}
