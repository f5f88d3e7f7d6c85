/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_resume.h"

#include "gp_err.h"
#include "gp_net.h"
#include "xport.h"
#include "xport_block.h"
#include "xport_resume_conn.h"
#include "xport_resume_rdma.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

/* How often to ask for the socket for acknowledgements, where nothing can be sent
 * before one has come. */
#define ACK_LINK_MS 1

/* ---- acknowledgements -------------------------------------------------------------
 */

GP_COLD void
xport_resume_ack(struct xport_resume_conn *rc)
{
    if (xport_resume_over_rdma(rc)) /* they come with the credits */
        return;
    if (xport_acks_send(&rc->acks, rc->owner, &rc->stream.conn) < 0)
        shutdown(rc->stream.conn.fd, SHUT_RDWR);
}

void
xport_resume_acks_here(struct xport_conn *conn)
{
    xport_resume_ack(xport_resume_of(conn));
}

bool
xport_resume_have_acks(struct xport_resume_conn *rc)
{
    return !xport_resume_over_rdma(rc) &&
           xport_acks_here(&rc->acks, rc->owner, &rc->stream.conn);
}

/* Under tx_lock: forget what replies have confirmed.  A client's calls confirm again
 * and again; what a worker hears is of copies down, and says nothing of later replies.
 */
void
xport_resume_confirmed_take(struct xport_resume_conn *rc)
{
    struct xport_journal *j = &rc->journal;
    uint64_t upto = atomic_load_explicit(&rc->confirmed, memory_order_relaxed);

    if (!upto)
        return;
    xport_journal_ack(j, gp_min(upto, j->end), j->end);
    if (xport_resume_passive(rc))
        atomic_compare_exchange_strong(&rc->confirmed, &upto, 0);
}

/* Under tx_lock: what @read finds. */
static int
acks_read_with(struct xport_resume_conn *rc,
               int (*read)(struct xport_acks *acks, uint64_t *value, uint64_t *striped))
{
    struct xport_journal *j = &rc->journal;
    struct xport_striped *s = atomic_load_explicit(&rc->striped, memory_order_acquire);
    uint64_t value = 0, striped = 0;
    int r = xport_resume_have_acks(rc) ? read(&rc->acks, &value, &striped) : 0;

    if (xport_resume_over_rdma(rc))
        value = xport_resume_rdma_peer_has(rc);
    xport_resume_confirmed_take(rc);
    rc->looked_at = j->end;
    if (unlikely(striped) && (!s || xport_resume_stripes_acked(s, striped) < 0))
        return -EPROTO;
    return xport_journal_ack(j, value, j->end + rc->writing) < 0 ? -EPROTO : r;
}

/* Under tx_lock.  -ECONNRESET: no more will come over this link. */
int
xport_resume_acks_read(struct xport_resume_conn *rc)
{
    return acks_read_with(rc, xport_acks_read);
}

/* ---- a new link --------------------------------------------------------------------
 */

/* The shortest round trip that TCP has measured, in ns.  The kernel's mean includes the
 * time that the server took to answer the first frames, which within one host is many
 * times the network's. */
static uint64_t
trip_of(int fd)
{
    return (uint64_t)xport_tcp_trip_us(fd) * 1000;
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
link_drop(struct xport_resume_conn *rc, struct xport_resume_link *link)
{
    if (link->rdma)
        xport_resume_rdma_drop(rc);
    close(link->fd);
    if (link->ack_fd >= 0)
        close(link->ack_fd);
    gp_wire_free(link->wire);
    gp_wire_free(link->ack_wire);
}

/* Striped bytes are to be sent again. */
static bool
striped_waits(const struct xport_resume_conn *rc)
{
    const struct xport_striped *s = atomic_load(&rc->striped);

    return s && s->replay_at < s->replay_end;
}

/* The peer has what @link says, and no more: what cannot be sent again was not sent. */
static int
journal_install(struct xport_resume_conn *rc, const struct xport_resume_link *link)
{
    struct xport_journal *j = &rc->journal;
    int64_t given_back;
    int r;

    if (link->peer.received < j->acked)
        return -EPROTO; /* the peer is not the one that had this stream */
    r = xport_journal_ack(j, link->peer.received, j->end + rc->writing);
    if (r < 0)
        return r;
    given_back = xport_journal_give_back(j);
    if (given_back > 0)
        rc->stream.conn.stats.tx_bytes -= (uint64_t)given_back;
    return given_back < 0 ? -EPROTO : 0;
}

/* Under both locks. */
static int
link_install(struct xport_resume_conn *rc, struct xport_resume_link *link)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct xport_journal *j = &rc->journal;
    int r = journal_install(rc, link);

    if (r == 0)
        r = xport_resume_stripes_install(rc, link);
    if (r < 0) {
        link_drop(rc, link);
        return r;
    }
    gp_wire_free(rc->stream.wire);
    rc->stream.wire = link->wire;
    r = fd_replace(link->fd, conn->fd);
    r = xport_acks_install(&rc->acks, link) < 0 ? -EBADF : r;
    if (link->rdma)
        xport_resume_rdma_begin(rc);
    else
        xport_tcp_prepare(conn, conn->fd);
    if (!xport_is_near(conn)) /* over a long line waiting is worse than memory */
        xport_journal_use_all(j);
    rc->left = false;
    rc->peer_at = link->peer.received;
    rc->replay_at = gp_min(link->peer.received, j->end);
    atomic_store(&rc->replaying, rc->replay_at < j->end || striped_waits(rc));
    rc->trip_ns = link->rdma ? XPORT_TRIP_RDMA_NS : trip_of(conn->fd);
    atomic_store(&rc->number, link->number);
    atomic_fetch_add(&rc->epoch, 1);
    return r;
}

/* The link that was number @epoch is broken: 0 when there is another one. */
GP_COLD int
xport_resume_recover(struct xport_resume_conn *rc, uint32_t epoch)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct xport_resume_link link = {.fd = -1, .ack_fd = -1};
    int r;

    gp_lock_take(&rc->recover);
    r = xport_error(conn);
    if (r == 0 && atomic_load(&rc->epoch) == epoch) {
        struct xport_resume_have have;

        if (xport_resume_over_rdma(rc))
            xport_resume_rdma_break(rc);
        shutdown(conn->fd, SHUT_RDWR);
        xport_resume_stripes_abort(rc);
        gp_lock_take(&rc->tx_lock);
        gp_lock_take(&rc->rx_lock);
        if (xport_resume_over_rdma(rc))
            xport_resume_rdma_end(rc);
        have.received = atomic_load(&rc->acks.received);
        xport_resume_stripes_have(rc, &have);
        r = rc->owner->reconnect(conn, &have, &link);
        if (r == 0)
            r = link_install(rc, &link);
        if (r < 0)
            xport_fail(conn, r);
        gp_lock_release(&rc->rx_lock);
        gp_lock_release(&rc->tx_lock);
        r = xport_error(conn);
        if (r < 0) /* somebody who sleeps must see it */
            shutdown(conn->fd, SHUT_RDWR);
        else if (rc->owner->replaced)
            rc->owner->replaced(conn);
    }
    gp_lock_release(&rc->recover);
    return r;
}

/* Of a source's bytes that begin at @place.  Without the lock, which others need for a
 * new link: who sends is this thread, which has the source, and nobody else. */
static int64_t
source_read(struct xport_resume_conn *rc, uint64_t place, uint64_t len,
            const uint8_t **ret)
{
    struct xport_source *source = rc->stream.conn.blocks->tx.source;
    uint32_t epoch = atomic_load(&rc->epoch);
    int64_t n;

    if (!source)
        return -EPROTO;
    gp_lock_release(&rc->tx_lock);
    n = source->read(source, place, len, ret);
    gp_lock_take(&rc->tx_lock);
    if (n <= 0)
        return -EPROTO;
    return atomic_load(&rc->epoch) == epoch ? n : 0;
}

/* What is to be sent from @at on; 0: look again, the link is another one. */
static int64_t
replay_next(struct xport_resume_conn *rc, const struct xport_journal *j, uint64_t at,
            int flags, const uint8_t **ret)
{
    uint64_t place, len = xport_journal_source(j, at, &place);
    int64_t n;

    if (len)
        return flags ? -EAGAIN : source_read(rc, place, len, ret);
    n = xport_journal_at(j, at, ret);
    return n > 0 ? n : -EPROTO;
}

/* The same for one of the streams. */
static int
replay_stream(struct xport_resume_conn *rc, const struct xport_journal *j, uint64_t *at,
              uint64_t end, int flags)
{
    struct xport_conn *conn = &rc->stream.conn;

    while (*at < end) {
        const uint8_t *bytes = NULL;
        int64_t len = replay_next(rc, j, *at, flags, &bytes);
        struct iovec iov = {(void *)(uintptr_t)bytes, (size_t)len};
        ssize_t n;

        if (len < 0)
            return (int)len;
        if (len == 0)
            continue;
        n = unlikely(xport_resume_over_rdma(rc))
                ? xport_resume_rdma_replay(rc, &iov, flags)
                : gp_wire_send(rc->stream.wire, conn->fd, &iov, 1, flags);
        if (n == -EAGAIN && flags)
            return -EAGAIN;
        if (n == -EAGAIN && xport_liveness_lost(&rc->live, conn->fd, NULL))
            return -ETIMEDOUT;
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        *at += (uint64_t)gp_max(n, (ssize_t)0);
        rc->replayed += (uint64_t)gp_max(n, (ssize_t)0);
    }
    return 0;
}

/* Send again what the peer did not get, under tx_lock, striped bytes first.  With
 * MSG_DONTWAIT as @flags -EAGAIN: not all of it yet. */
GP_COLD int
xport_resume_replay(struct xport_resume_conn *rc, int flags)
{
    struct xport_striped *s = atomic_load(&rc->striped);
    int r = s ? replay_stream(rc, &s->journal, &s->replay_at, s->replay_end, flags) : 0;

    if (r == 0)
        r = replay_stream(rc, &rc->journal, &rc->replay_at, rc->journal.end, flags);
    if (r == 0)
        atomic_store(&rc->replaying, false);
    return r;
}

/* Under tx_lock: sleep until some acknowledgements may have come.  -ETIMEDOUT;
 * -ECONNRESET: the link broke meanwhile.  What waits to be sent again goes first:
 * nobody else can send it meanwhile, and it may be what is to be acknowledged. */
int
xport_resume_acks_wait(struct xport_resume_conn *rc, uint64_t deadline_ns)
{
    struct xport_conn *conn = &rc->stream.conn;
    int r = atomic_load(&rc->replaying) ? xport_resume_replay(rc, 0) : 0;

    if (r < 0)
        return xport_resume_fatal(r) ? r : -ECONNRESET;
    if (xport_resume_over_rdma(rc))
        return xport_resume_rdma_acks_wait(rc, deadline_ns);
    if (rc->acks.unread) /* the socket would be readable for what is known already */
        return acks_read_with(rc, xport_acks_take);
    for (;;) {
        bool here = xport_resume_have_acks(rc);
        struct pollfd fds[] = {{.fd = conn->fd, .events = POLLRDHUP},
                               {.fd = xport_acks_fd(&rc->acks), .events = POLLIN}};
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

void
xport_resume_replay_some(struct xport_resume_conn *rc)
{
    if (!gp_lock_try(&rc->tx_lock))
        return;
    if (atomic_load(&rc->replaying) && xport_resume_replay(rc, MSG_DONTWAIT) == -EPROTO)
        xport_fail(&rc->stream.conn, -EPROTO);
    gp_lock_release(&rc->tx_lock);
}
/* ---- receiving --------------------------------------------------------------------
 */

/* How much of a payload may be unacknowledged.  What a client lends is its caller's
 * memory, and the call cannot end before all of it has been sent, so nothing waits for
 * the acknowledgements of a long upload but for the last ones.  A block that is not
 * compressed was lent as a whole.  Over a long line the call ends sooner with more.
 * What the sender can read again it does not keep. */
static uint64_t
bulk_limit(const struct xport_resume_conn *rc)
{
    const struct xport_conn *conn = &rc->stream.conn;
    const struct xport_blocks *b = conn->blocks;

    if (b && b->rx.reread)
        return XPORT_ACK_SELDOM;
    if (xport_resume_passive(rc) && b && !b->rx.striped && b->rx.raw > XPORT_ACK_TAIL &&
        xport_is_near(conn))
        return XPORT_ACK_SELDOM;
    return conn->answers ? XPORT_ACK_TAIL : XPORT_ACK_BULK;
}

/* Under rx_lock. */
static GP_INLINE void
got(struct xport_resume_conn *rc, size_t n, size_t wanted)
{
    bool answers = rc->stream.conn.answers;
    bool payload = answers || wanted > XPORT_STREAM_READ;
    uint64_t limit = payload ? bulk_limit(rc) : rc->ack_after;
    _Atomic uint64_t *received = &rc->acks.received;
    uint64_t have = atomic_load_explicit(received, memory_order_relaxed);

    atomic_store_explicit(received, have + n, memory_order_relaxed);
    if (unlikely((payload && !answers ? xport_acks_due(&rc->acks)
                                      : xport_acks_unsaid(&rc->acks)) >= limit))
        xport_resume_ack(rc);
}

/* -ESTALE: the link is RDMA by now. */
GP_HOT static int
read_with(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n, int flags)
{
    struct xport_resume_conn *rc =
        container_of(stream, struct xport_resume_conn, stream);
    uint32_t epoch;
    bool early;
    ssize_t n;
    int r;

    gp_lock_take(&rc->rx_lock);
    if (unlikely(xport_resume_over_rdma(rc))) {
        gp_lock_release(&rc->rx_lock);
        return -ESTALE;
    }
    epoch = atomic_load_explicit(&rc->epoch, memory_order_relaxed);
    if (unlikely(atomic_load(&rc->replaying)))
        flags = MSG_DONTWAIT;
    early = unlikely(xport_resume_stripes_first(rc));
    n = early ? xport_resume_stripes_early(rc, flags)
              : gp_wire_recv(stream->wire, stream->conn.fd, buf, len, flags);
    stream->conn.stats.rx_reads++;
    if (likely(n > 0 && !early))
        got(rc, (size_t)n, len);
    gp_lock_release(&rc->rx_lock);
    if (unlikely(early && n > 0))
        return -EAGAIN;
    if (n == -ENOMEM)
        return -ENOMEM;
    if (likely(n > 0)) {
        *ret_n = (size_t)n;
        return 0;
    }
    if (n == -EAGAIN)
        return -EAGAIN;
    r = xport_resume_recover(rc, epoch);
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
    struct xport_resume_conn *rc =
        container_of(stream, struct xport_resume_conn, stream);
    bool again;
    int r;

    gp_lock_take(&rc->rx_lock);
    again = atomic_load(&rc->replaying);
    r = gp_wire_pending(stream->wire) ? 0
        : xport_resume_over_rdma(rc)
            ? -ESTALE
            : gp_net_wait(stream->conn.fd, again ? POLLIN | POLLOUT : POLLIN,
                          deadline_ns);
    gp_lock_release(&rc->rx_lock);
    if (again)
        xport_resume_replay_some(rc);
    return r < 0 && xport_error(&stream->conn) < 0 ? xport_error(&stream->conn) : r;
}

GP_HOT static int
resume_read_asleep(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    struct xport_resume_conn *rc =
        container_of(stream, struct xport_resume_conn, stream);
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

/* How much may be due at the end of a payload of @len bytes.  A reply says that it has
 * come, and what was before it; but other threads of the sender may wait for room that
 * their frames take, and not see the reply. */
static uint64_t
end_limit(const struct xport_resume_conn *rc, uint64_t len)
{
    if (xport_resume_over_rdma(rc))
        return XPORT_ACK_END;
    if (rc->stream.conn.answers)
        return gp_min(len, (uint64_t)XPORT_ACK_TAIL) + XPORT_ACK_END;
    return len <= XPORT_ACK_SHORT ? XPORT_ACK_SHORT : XPORT_ACK_END;
}

void
xport_resume_acknowledge(struct xport_conn *conn, uint64_t len, bool surely)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint64_t due =
        conn->answers ? xport_acks_unsaid(&rc->acks) : xport_acks_due(&rc->acks);

    if (due > (surely ? 0 : end_limit(rc, len)) || xport_acks_striped_due(&rc->acks))
        xport_resume_ack(rc);
    else if (conn->answers)
        xport_resume_said(
            conn, atomic_load_explicit(&rc->acks.received, memory_order_relaxed));
}

uint64_t
xport_resume_unheard(const struct xport_conn *conn, uint64_t *ret_received)
{
    const struct xport_acks *acks =
        &xport_resume_of((struct xport_conn *)(uintptr_t)conn)->acks;

    *ret_received = atomic_load_explicit(&acks->received, memory_order_relaxed);
    return *ret_received - atomic_load_explicit(&acks->sent, memory_order_relaxed);
}

void
xport_resume_said(struct xport_conn *conn, uint64_t upto)
{
    atomic_store_explicit(&xport_resume_of(conn)->acks.said, upto,
                          memory_order_relaxed);
}

void
xport_resume_heard(struct xport_conn *conn, uint64_t upto)
{
    xport_acks_heard(&xport_resume_of(conn)->acks, upto);
}

/* The peer's last word.  Only the end that connects has one. */
int
xport_resume_ended(struct xport_conn *conn)
{
    return xport_resume_passive(xport_resume_of(conn)) ? -ECONNRESET : -EPROTO;
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

/* Nothing has come since the last look: perhaps the peer waits for an acknowledgement,
 * or the socket for them has come now. */
static void
ack_quiet(struct xport_resume_conn *rc)
{
    uint64_t have = atomic_load_explicit(&rc->acks.received, memory_order_relaxed);

    bool quiet = atomic_exchange(&rc->seen, have) == have;

    if ((quiet || xport_acks_fd(&rc->acks) < 0) && xport_resume_passive(rc) &&
        (xport_acks_due(&rc->acks) > XPORT_ACK_END ||
         xport_acks_striped_due(&rc->acks)))
        xport_resume_ack(rc);
}

/* The one that is connected to has a thread that always reads; it is only woken. */
int
xport_resume_look(struct xport_conn *conn, bool *ret_again)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint32_t epoch = atomic_load(&rc->epoch);
    bool passive = xport_resume_passive(rc), broken = false;

    if (atomic_load(&rc->replaying))
        xport_resume_replay_some(rc);
    *ret_again = atomic_load(&rc->replaying);
    if (!gp_lock_try(&rc->recover))
        return 0;
    if (xport_resume_over_rdma(rc))
        broken = xport_resume_rdma_look(rc, ret_again) < 0;
    gp_lock_release(&rc->recover);
    ack_quiet(rc);
    if (passive && rc->owner->knocks(conn))
        return xport_resume_recover(rc, epoch);
    if (!xport_resume_over_rdma(rc))
        broken = xport_liveness_lost(&rc->live, conn->fd, ret_again) ||
                 xport_resume_stripes_lost(rc, ret_again);
    if (passive && broken) {
        shutdown(conn->fd, SHUT_RDWR);
        xport_resume_stripes_abort(rc);
    }
    if (passive || !(broken || is_closed(conn->fd)))
        return 0;
    /* As over TCP, what the peer said last is read before the link is given up. */
    if (xport_resume_over_rdma(rc) && xport_resume_rdma_last_words(rc))
        return 0;
    *ret_again = true;
    return xport_resume_recover(rc, epoch);
}

void
xport_resume_abort(struct xport_conn *conn)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);

    if (rc->rdma)
        xport_resume_rdma_break(rc);
    shutdown(conn->fd, SHUT_RDWR);
    if (xport_acks_fd(&rc->acks) >= 0)
        shutdown(xport_acks_fd(&rc->acks), SHUT_RDWR);
}

void
xport_resume_free(struct xport_conn *conn)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);

    xport_resume_rdma_free(rc);
    if (conn->fd >= 0)
        close(conn->fd);
    xport_acks_fini(&rc->acks);
    xport_journal_fini(&rc->journal);
    xport_resume_stripes_free(atomic_load(&rc->striped));
    xport_stream_fini(&rc->stream);
    free(rc);
}

static const struct xport_ops resume_ops = {
    .name = "tcp",
    .kind = XPORT_KIND_TCP,
    .can = XPORT_CAN_BLOCKS | XPORT_CAN_NAME | XPORT_CAN_LEND | XPORT_CAN_EXCHANGE,
    .reserve = xport_resume_reserve,
    .reserve_now = xport_resume_reserve_now,
    .flush = xport_resume_flush,
    .flush_now = xport_resume_flush_now,
    .fill = xport_stream_fill,
    .recv_bulk = xport_stream_recv_bulk,
    .send_start = xport_resume_send_start,
    .send_wait = xport_resume_send_wait,
    .flush_source = xport_resume_flush_source,
    .source_done = xport_resume_source_done,
    .bulk_done = xport_resume_bulk_done,
    .bulk_waits = xport_resume_bulk_waits,
    .acknowledge = xport_resume_acknowledge,
    .confirm = xport_resume_confirm,
    .unheard = xport_resume_unheard,
    .said = xport_resume_said,
    .heard = xport_resume_heard,
    .stripes_hold = xport_resume_stripes_hold,
    .stripes_release = xport_resume_stripes_release,
    .stripes_send = xport_resume_stripes_send,
    .stripes_recv = xport_resume_stripes_recv,
    .stripes_link = xport_resume_stripes_link,
    .ended = xport_resume_ended,
    .realign = xport_stream_to_start,
    .abort = xport_resume_abort,
    .look = xport_resume_look,
    .free = xport_resume_free,
};

static const struct xport_stream_io resume_io = {
    .read = resume_read,
    .wait = resume_wait,
    .read_asleep = resume_read_asleep,
};

bool
xport_resumes(const struct xport_conn *conn)
{
    return conn->ops == &resume_ops || conn->ops == &xport_resume_rdma_ops;
}

/* Without a link. */
static int
resume_new(const struct xport_ops *ops, uint32_t frame_max,
           const struct xport_resume_owner *owner, struct xport_resume_conn **ret,
           struct gp_err *err)
{
    struct xport_resume_conn *rc = xport_stream_alloc(sizeof(*rc));
    struct xport_conn *conn;
    int r;

    if (!rc)
        return gp_err_set(err, -ENOMEM, "out of memory");
    conn = &rc->stream.conn;
    rc->owner = owner;
    rc->ack_after = xport_resume_passive(rc) ? XPORT_ACK_CALLS : XPORT_ACK_REPLIES;
    rc->acks.fd = -1;
    r = xport_stream_init(&rc->stream, ops, &resume_io, frame_max, err);
    if (r == 0)
        r = xport_journal_init(&rc->journal, XPORT_JOURNAL_BLOCK, frame_max);
    if (r < 0) {
        xport_resume_free(conn);
        return gp_err_set(err, r, "no memory for a journal");
    }
    conn->tx.base = conn->tx.pos = rc->journal.frames.room;
    conn->tx.end = xport_journal_room_end(&rc->journal);
    *ret = rc;
    return 0;
}

int
xport_resume_new(int fd, int ack_fd, uint32_t frame_max,
                 const struct xport_resume_owner *owner, struct xport_conn **ret,
                 struct gp_err *err)
{
    struct xport_resume_conn *rc;
    int r = resume_new(&resume_ops, frame_max, owner, &rc, err);

    if (r < 0)
        return r;
    *ret = &rc->stream.conn;
    xport_tcp_prepare(*ret, fd);
    if (!xport_resume_passive(rc) && xport_is_near(*ret))
        xport_journal_stay_small(&rc->journal);
    rc->trip_ns = trip_of(fd);
    rc->acks.fd = ack_fd;
    (*ret)->fd = fd;
    return 0;
}

int
xport_resume_new_rdma(struct xport_conn *rdma, const struct xport_resume_owner *owner,
                      struct xport_conn **ret, struct gp_err *err)
{
    struct xport_resume_rdma *first = xport_resume_rdma_new(rdma);
    struct xport_resume_conn *rc;
    int r = first ? resume_new(&xport_resume_rdma_ops, rdma->frame_max, owner, &rc, err)
                  : gp_err_set(err, -ENOMEM, "out of memory");

    if (r < 0) {
        free(first);
        return r;
    }
    rc->rdma = first;
    rc->trip_ns = XPORT_TRIP_RDMA_NS;
    *ret = &rc->stream.conn;
    (*ret)->fd = rdma->fd;
    return 0;
}

/* Under tx_lock: nothing is on its way, as far as this end can see. */
static bool
is_quiet(const struct xport_resume_conn *rc)
{
    int fd = rc->stream.conn.fd, unsent = 0, unread = 0;

    return !atomic_load(&rc->replaying) && ioctl(fd, SIOCOUTQ, &unsent) == 0 &&
           ioctl(fd, FIONREAD, &unread) == 0 && !unsent && !unread;
}

int
xport_resume_move(struct xport_conn *conn, uint64_t patience_ns)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint32_t epoch = atomic_load(&rc->epoch);
    uint64_t deadline = gp_now_ns() + patience_ns;
    bool quiet = xport_resume_over_rdma(rc);

    if (quiet)
        return 0;
    while (!quiet && gp_now_ns() < deadline && atomic_load(&rc->epoch) == epoch) {
        if (gp_lock_try(&rc->tx_lock)) {
            quiet = is_quiet(rc);
            gp_lock_release(&rc->tx_lock);
        }
        if (!quiet)
            nanosleep(&(struct timespec){.tv_nsec = GP_NS_PER_MS}, NULL);
    }
    return xport_resume_recover(rc, epoch);
}

void
xport_resume_goodbye(struct xport_conn *conn)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint64_t last = XPORT_LAST_FRAME;
    struct iovec iov[] = {{conn->tx.base, xport_pending(conn)}, {&last, sizeof(last)}};

    if (!xport_resumes(conn) || xport_error(conn) < 0 || !gp_lock_try(&rc->tx_lock))
        return;
    if (xport_resume_over_rdma(rc))
        xport_resume_rdma_goodbye(rc, iov, 2);
    else if (!atomic_load(&rc->replaying))
        gp_wire_send(rc->stream.wire, conn->fd, iov, 2, MSG_DONTWAIT);
    gp_lock_release(&rc->tx_lock);
}

int
xport_resume_ack_fd(struct xport_conn *conn)
{
    return xport_resumes(conn) ? xport_acks_fd(&xport_resume_of(conn)->acks) : -1;
}

uint64_t
xport_resume_replayed(struct xport_conn *conn)
{
    return xport_resume_of(conn)->replayed;
}
