/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_resume.h"

#include "gp_err.h"
#include "gp_lock.h"
#include "gp_net.h"
#include "xport.h"
#include "xport_acks.h"
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

/* How often to ask for the socket for acknowledgements, where nothing can be sent
 * before one has come. */
#define ACK_LINK_MS 1

#define MAX_IOV 4

struct resume_conn {
    struct xport_stream stream;
    const struct xport_resume_owner *owner;
    struct xport_liveness live;
    struct xport_acks acks;
    struct gp_lock tx_lock, rx_lock; /* in a write; in a read */
    struct gp_lock recover;          /* somebody replaces the link */
    _Atomic uint32_t epoch;          /* links before this one; under both locks */
    atomic_bool replaying;           /* replay_at < journal.end; under tx_lock */

    /* Under tx_lock. */
    struct xport_journal journal;
    /* Bytes behind the journal's end that may have left: of the write under way, or of
     * one without waiting, of which a layer keeps sealed ones that it could not send.
     */
    uint64_t writing;
    uint64_t replay_at; /* the next byte to send again */
    uint64_t peer_at;   /* what the peer had when this link began */
    uint64_t trip_ns;   /* the shortest round trip of the link */
    uint64_t replayed, cuts;
    bool left; /* the link is broken, and the reader replaces it */
};

static struct resume_conn *
resume_of(struct xport_conn *conn)
{
    return container_of(xport_stream_of(conn), struct resume_conn, stream);
}

/* The end that is connected to. */
static bool
is_passive(const struct resume_conn *rc)
{
    return rc->owner->knocks != NULL;
}

/* Not what a new link mends. */
static bool
is_fatal(int r)
{
    return r == -EPROTO || r == -ENOMEM || r == -EMSGSIZE;
}

/* ---- acknowledgements -------------------------------------------------------------
 */

static GP_COLD void
ack_send(struct resume_conn *rc)
{
    if (xport_acks_send(&rc->acks, rc->owner, &rc->stream.conn) < 0)
        shutdown(rc->stream.conn.fd, SHUT_RDWR);
}

void
xport_resume_acks_here(struct xport_conn *conn)
{
    ack_send(resume_of(conn));
}

static bool
acks_here(struct resume_conn *rc)
{
    return xport_acks_here(&rc->acks, rc->owner, &rc->stream.conn);
}

/* Under tx_lock.  -ECONNRESET: no more will come over this link. */
static int
acks_read(struct resume_conn *rc)
{
    struct xport_journal *j = &rc->journal;
    uint64_t value = 0;
    int r = acks_here(rc) ? xport_acks_read(&rc->acks, &value) : 0;

    return xport_journal_ack(j, value, j->end + rc->writing) < 0 ? -EPROTO : r;
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
    if (link->ack_fd >= 0)
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
    int r;

    if (link->received < j->acked ||
        xport_journal_ack(j, link->received, j->end + rc->writing) < 0) {
        link_drop(link); /* the peer is not the one that had this stream */
        return -EPROTO;
    }
    gp_wire_free(rc->stream.wire);
    rc->stream.wire = link->wire;
    r = fd_replace(link->fd, conn->fd);
    r = xport_acks_install(&rc->acks, link) < 0 ? -EBADF : r;
    xport_tcp_prepare(conn, conn->fd);
    rc->left = false;
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
        gp_lock_take(&rc->tx_lock);
        gp_lock_take(&rc->rx_lock);
        r = rc->owner->reconnect(conn, atomic_load(&rc->acks.received), &link);
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

/* Under tx_lock: sleep until some acknowledgements may have come.  -ETIMEDOUT;
 * -ECONNRESET: the link broke meanwhile.  What waits to be sent again goes first:
 * nobody else can send it meanwhile, and it may be what is to be acknowledged. */
static int
acks_wait(struct resume_conn *rc, uint64_t deadline_ns)
{
    struct xport_conn *conn = &rc->stream.conn;
    int r = atomic_load(&rc->replaying) ? replay(rc, 0) : 0;

    if (r < 0)
        return is_fatal(r) ? r : -ECONNRESET;
    for (;;) {
        bool here = acks_here(rc);
        struct pollfd fds[] = {{.fd = conn->fd, .events = POLLRDHUP},
                               {.fd = rc->acks.fd, .events = POLLIN}};
        uint64_t now = gp_now_ns();
        int64_t ms = here ? XPORT_CHECK_S * 1000 : ACK_LINK_MS;

        if (here && gp_wire_pending(rc->acks.wire))
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

/* The link is broken; under tx_lock.  At the end that is connected to, a thread always
 * reads: it replaces the link when it has read what had come over it, which may be that
 * the peer has ended.  What is sent until then goes into the journal alone.  False: the
 * sender replaces the link. */
static GP_COLD bool
leave_to_reader(struct resume_conn *rc)
{
    if (!is_passive(rc))
        return false;
    shutdown(rc->stream.conn.fd, SHUT_RDWR);
    rc->left = true;
    rc->writing = 0;
    return true;
}

/* One write, over as many links as it takes; under tx_lock, which is released during a
 * recovery. */
static int
write_through(struct resume_conn *rc, const struct iovec *iov, size_t n_iov,
              size_t total)
{
    uint64_t start = rc->journal.end;
    uint32_t epoch = atomic_load_explicit(&rc->epoch, memory_order_relaxed);
    size_t there;

    while (likely(!rc->left)) {
        struct iovec copy[MAX_IOV], *at = copy;
        size_t n = n_iov;
        int r = unlikely(atomic_load(&rc->replaying)) ? replay(rc, 0) : 0;

        if (already_there(rc, start, total, &there) < 0)
            return -EPROTO;
        memcpy(copy, iov, n_iov * sizeof(*iov));
        xport_iov_advance(&at, &n, there);
        rc->writing = total;
        if (r == 0)
            r = send_all(rc, at, n);
        if (likely(r == 0))
            rc->writing = 0;
        if (likely(r == 0) || is_fatal(r) || leave_to_reader(rc))
            return is_fatal(r) ? r : 0;
        gp_lock_release(&rc->tx_lock);
        r = recover(rc, epoch);
        gp_lock_take(&rc->tx_lock);
        if (r < 0)
            return r;
        epoch = atomic_load(&rc->epoch);
    }
    return 0;
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
    while ((r == 0 || r == -ECONNRESET) && xport_journal_full(&rc->journal)) {
        r = r < 0 ? recover_locked(rc) : acks_wait(rc, GP_FOREVER);
        if (r == 0)
            r = acks_read(rc);
    }
    return r == -ECONNRESET ? 0 : r; /* the write finds the link broken as well */
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
    if (len > COPY_FREE) /* acknowledgements will be waited for */
        acks_here(rc);
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
    ssize_t n = 0;

    if (unlikely(rc->left))
        return (ssize_t)iov.iov_len;
    if (unlikely(atomic_load(&rc->replaying)))
        n = replay(rc, MSG_DONTWAIT);
    if (unlikely(rc->peer_at > rc->journal.end)) {
        rc->writing = 0;
        return (ssize_t)gp_min(rc->peer_at - rc->journal.end, (uint64_t)iov.iov_len);
    }
    if (likely(n == 0))
        n = gp_wire_send(rc->stream.wire, conn->fd, &iov, 1, MSG_DONTWAIT);
    rc->writing = iov.iov_len - (size_t)gp_max(n, (ssize_t)0);
    if (unlikely(n < 0 && n != -EAGAIN && !is_fatal((int)n)) && leave_to_reader(rc))
        return (ssize_t)iov.iov_len;
    return n;
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

/* Is waiting for an acknowledgement cheaper than copying what is lent? */
static bool
lent_is_waited_for(const struct resume_conn *rc, uint64_t until)
{
    uint64_t lent = xport_journal_lent(&rc->journal, until);

    return !rc->left && lent > COPY_FREE && lent > rc->trip_ns * COPY_BYTES_PER_NS;
}

/* Copy what there is room for.  -ECONNRESET: some is left, and no acknowledgement will
 * come over this link. */
static int
lent_keep(struct resume_conn *rc, uint64_t until)
{
    xport_journal_keep(&rc->journal, until);
    if (!xport_journal_lent(&rc->journal, until))
        return 0;
    return rc->left ? -ECONNRESET : acks_wait(rc, GP_FOREVER);
}

/* Nothing sent before @until needs memory that is not ours any more: either the peer
 * has it, or it is copied. */
static int
lent_return(struct resume_conn *rc, uint64_t until)
{
    uint64_t patience = 0;
    int r = 0;

    gp_lock_take(&rc->tx_lock);
    while (r == 0 && xport_journal_lent(&rc->journal, until)) {
        r = acks_read(rc);
        if (r == 0 && lent_is_waited_for(rc, until)) {
            patience = patience ? patience : gp_now_ns() + WAIT_MAX_NS;
            r = acks_wait(rc, patience);
            if (r == 0)
                continue;
        }
        if (r == 0 || r == -ETIMEDOUT || (r == -ECONNRESET && leave_to_reader(rc)))
            r = lent_keep(rc, until);
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
    _Atomic uint64_t *received = &rc->acks.received;
    uint64_t have = atomic_load_explicit(received, memory_order_relaxed);

    atomic_store_explicit(received, have + n, memory_order_relaxed);
    if (unlikely(xport_acks_due(&rc->acks) >= limit))
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

    if (xport_acks_due(&rc->acks) >= ACK_END)
        ack_send(rc);
}

/* The peer's last word.  Only the end that connects has one. */
static int
resume_ended(struct xport_conn *conn)
{
    return is_passive(resume_of(conn)) ? -ECONNRESET : -EPROTO;
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
    bool passive = is_passive(rc), broken;

    if (atomic_load(&rc->replaying))
        replay_some(rc);
    *ret_again = atomic_load(&rc->replaying);
    if (!gp_lock_try(&rc->recover))
        return 0;
    gp_lock_release(&rc->recover);
    if (passive && rc->acks.fd < 0 && xport_acks_due(&rc->acks) >= ACK_END)
        ack_send(rc); /* perhaps their socket has come, and the peer waits for one */
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
    if (rc->acks.fd >= 0)
        shutdown(rc->acks.fd, SHUT_RDWR);
}

static void
resume_free(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    if (conn->fd >= 0)
        close(conn->fd);
    xport_acks_fini(&rc->acks);
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
    .ended = resume_ended,
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
    rc->acks.fd = -1;
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
    rc->acks.fd = ack_fd;
    conn->fd = fd;
    *ret = conn;
    return 0;
}

void
xport_resume_goodbye(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);
    uint64_t last = XPORT_LAST_FRAME;
    struct iovec iov[] = {{conn->tx.base, xport_pending(conn)}, {&last, sizeof(last)}};

    if (!xport_resumes(conn) || xport_error(conn) < 0 || !gp_lock_try(&rc->tx_lock))
        return;
    if (!atomic_load(&rc->replaying))
        gp_wire_send(rc->stream.wire, conn->fd, iov, 2, MSG_DONTWAIT);
    gp_lock_release(&rc->tx_lock);
}

int
xport_resume_ack_fd(struct xport_conn *conn)
{
    return xport_resumes(conn) ? resume_of(conn)->acks.fd : -1;
}

struct xport_resume_stats
xport_resume_stats(struct xport_conn *conn)
{
    struct resume_conn *rc = resume_of(conn);

    return (struct xport_resume_stats){.links = rc->cuts, .replayed = rc->replayed};
}
