/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and payloads into the journal and over the link, over as many links as it
 * takes; and where the next frames are written. */
#include "xport_resume_conn.h"

#include "gp_time.h"
#include "xport.h"
#include "xport_block.h"
#include "xport_resume_rdma.h"

#include <string.h>
#include <sys/socket.h>

/* Where replies confirm what was sent, frames go back to the start of their block,
 * which is still in the first-level cache, once they have used so much of it. */
#define REWIND_MIN (4u << 10)
/* Room for frames to be worth going on in the same block.  More would leave blocks
 * nearly empty where little is gathered for each write, and all of them would be in use
 * before the peer has received what it acknowledges. */
#define ROOM_MIN (8u << 10)
/* Acknowledgements that nobody needs are read after so much, or their socket fills. */
#define UNREAD_MAX (4u << 20)

/* So much is copied without a look at what has been acknowledged. */
#define COPY_SHORT (8u << 10)
/* So much, when no more than that is unacknowledged. */
#define COPY_UNSEEN (192u << 10)
/* Beyond it waiting is cheaper where a round trip takes less than copying: 10 GB/s. */
#define COPY_BYTES_PER_NS 10u
#define WAIT_MAX_NS GP_NS_PER_MS
/* Never up to here, which the second-level cache holds. */
#define COPY_WARM XPORT_ACK_SHORT
/* Who waits longer for room for frames takes more memory instead: the peer is slow, or
 * the socket for acknowledgements is not here yet. */
#define WAIT_ROOM_NS (4 * GP_NS_PER_MS)

#define MAX_IOV 4
#define NO_SOURCE UINT64_MAX

/* ---- sending ----------------------------------------------------------------------
 */

/* All of @iov, or what of it the peer does not have yet. */
static int
send_all(struct xport_resume_conn *rc, struct iovec *iov, size_t n_iov)
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
already_there(const struct xport_resume_conn *rc, uint64_t start, size_t total,
              size_t *ret)
{
    *ret = rc->peer_at > start ? (size_t)(rc->peer_at - start) : 0;
    return *ret > total ? -EPROTO : 0;
}

/* The link is broken; under tx_lock.  At the end that is connected to, a thread always
 * reads: it replaces the link when it has read what had come over it, which may be that
 * the peer has ended.  What is sent until then goes into the journal alone.  False: the
 * sender replaces the link. */
GP_COLD bool
xport_resume_leave(struct xport_resume_conn *rc)
{
    if (!xport_resume_passive(rc))
        return false;
    shutdown(rc->stream.conn.fd, SHUT_RDWR);
    rc->left = true;
    rc->writing = 0;
    return true;
}

/* One write, over as many links as it takes; under tx_lock, which is released during a
 * recovery. */
static int
write_through(struct xport_resume_conn *rc, const struct iovec *iov, size_t n_iov,
              size_t total, const void *bulk)
{
    uint64_t start = rc->journal.end;
    uint32_t epoch = atomic_load_explicit(&rc->epoch, memory_order_relaxed);
    size_t there;

    while (likely(!rc->left)) {
        struct iovec copy[MAX_IOV], *at = copy;
        size_t n = n_iov;
        int r = unlikely(atomic_load(&rc->replaying)) ? xport_resume_replay(rc, 0) : 0;

        if (already_there(rc, start, total, &there) < 0)
            return -EPROTO;
        memcpy(copy, iov, n_iov * sizeof(*iov));
        xport_iov_advance(&at, &n, there);
        rc->writing = total;
        if (likely(r == 0))
            r = unlikely(xport_resume_over_rdma(rc))
                    ? xport_resume_rdma_send(rc, at, n, start + there, bulk)
                    : send_all(rc, at, n);
        if (likely(r == 0))
            rc->writing = 0;
        if (likely(r == 0) || xport_resume_fatal(r) || xport_resume_leave(rc))
            return xport_resume_fatal(r) ? r : 0;
        gp_lock_release(&rc->tx_lock);
        r = xport_resume_recover(rc, epoch);
        gp_lock_take(&rc->tx_lock);
        if (r < 0)
            return r;
        epoch = atomic_load(&rc->epoch);
    }
    return 0;
}

/* The link is broken, and the lock is held: what is it when it is mended? */
int
xport_resume_recover_locked(struct xport_resume_conn *rc)
{
    uint32_t epoch = atomic_load(&rc->epoch);
    int r;

    gp_lock_release(&rc->tx_lock);
    r = xport_resume_recover(rc, epoch);
    gp_lock_take(&rc->tx_lock);
    return r;
}

/* Places for the parts of a write. */
static int
parts_make_room(struct xport_resume_conn *rc)
{
    int r = xport_resume_acks_read(rc);

    xport_journal_compact(&rc->journal);
    while ((r == 0 || r == -ECONNRESET) && xport_journal_full(&rc->journal)) {
        r = r < 0 ? xport_resume_recover_locked(rc)
                  : xport_resume_acks_wait(rc, GP_FOREVER);
        if (r == 0)
            r = xport_resume_acks_read(rc);
    }
    return r == -ECONNRESET ? 0 : r; /* the write finds the link broken as well */
}

/* Look for acknowledgements only when no block is free, for that is a system call: near
 * the peer when all blocks are in use that frames may have, and over a long line, where
 * that would be all of the memory, as soon as some may have come. */
static bool
look_pays(const struct xport_resume_conn *rc)
{
    const struct xport_journal_blocks *blocks = &rc->journal.blocks;

    return !blocks->n_idle &&
           (blocks->made >= blocks->wanted ||
            (blocks->wanted == blocks->most &&
             rc->journal.end - rc->looked_at >= xport_resume_acks_every(rc)));
}

static GP_INLINE void
room_take(struct xport_resume_conn *rc)
{
    struct xport_conn *conn = &rc->stream.conn;

    conn->tx.base = conn->tx.pos = rc->journal.frames.room;
    conn->tx.end = xport_journal_room_end(&rc->journal);
}

/* Nothing waits to be sent: the next frame asks for room, and xport_resume_reserve()
 * chooses the best there is by then. */
static GP_INLINE void
room_close(struct xport_resume_conn *rc)
{
    struct xport_conn *conn = &rc->stream.conn;

    if (atomic_load_explicit(&rc->confirmed, memory_order_relaxed) &&
        xport_journal_used(&rc->journal) >= REWIND_MIN)
        conn->tx.end = conn->tx.pos;
}

/* The same after a write for which nobody waits, so that no reply to it can confirm
 * anything soon: the next block at once, which saves the next frame the general path,
 * if that needs neither a look at the socket nor a wait. */
static GP_INLINE void
room_renew(struct xport_resume_conn *rc)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct xport_journal *j = &rc->journal;

    if ((size_t)(conn->tx.end - conn->tx.pos) >= ROOM_MIN) {
        room_close(rc);
        return;
    }
    if (look_pays(rc) || xport_journal_next_block(j, 0) < 0) {
        conn->tx.end = conn->tx.pos;
        return;
    }
    room_take(rc);
}

/* @place: in the source that @bulk need not be kept for, or NO_SOURCE. */
static GP_INLINE int
send_locked(struct xport_resume_conn *rc, const void *bulk, size_t len, uint64_t place)
{
    struct xport_conn *conn = &rc->stream.conn;
    size_t frames = xport_pending(conn), n = 0;
    struct iovec iov[2];
    int r = 0;

    if (frames)
        iov[n++] = (struct iovec){conn->tx.base, frames};
    if (len)
        iov[n++] = (struct iovec){(void *)(uintptr_t)bulk, len};
    if (unlikely(xport_journal_full(&rc->journal)))
        r = parts_make_room(rc);
    if (len > XPORT_ACK_END) /* acknowledgements will be waited for */
        xport_resume_have_acks(rc);
    if (likely(r == 0))
        r = write_through(rc, iov, n, frames + len, bulk);
    if (likely(r == 0)) {
        xport_journal_sent(&rc->journal, frames);
        if (place == NO_SOURCE)
            xport_journal_sent_lent(&rc->journal, bulk, len);
        else
            xport_journal_sent_source(&rc->journal, place, len);
        conn->tx.base = conn->tx.pos;
        conn->stats.tx_bytes += frames + len;
        if (len)
            room_close(rc);
        else
            room_renew(rc);
    }
    return r;
}

int
xport_resume_send_locked(struct xport_resume_conn *rc, const void *bulk, size_t len)
{
    return send_locked(rc, bulk, len, NO_SOURCE);
}

GP_HOT int
xport_resume_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r;

    gp_lock_take(&rc->tx_lock);
    r = send_locked(rc, bulk, len, NO_SOURCE);
    gp_lock_release(&rc->tx_lock);
    return r;
}

int
xport_resume_flush_source(struct xport_conn *conn, const void *bulk, size_t len,
                          uint64_t at)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r;

    gp_lock_take(&rc->tx_lock);
    r = send_locked(rc, bulk, len, at);
    gp_lock_release(&rc->tx_lock);
    return r;
}

/* Under tx_lock: what goes without waiting. */
static ssize_t
send_now(struct xport_resume_conn *rc)
{
    struct xport_conn *conn = &rc->stream.conn;
    struct iovec iov = {conn->tx.base, xport_pending(conn)};
    ssize_t n = 0;

    if (unlikely(rc->left))
        return (ssize_t)iov.iov_len;
    if (unlikely(atomic_load(&rc->replaying)))
        n = xport_resume_replay(rc, MSG_DONTWAIT);
    if (unlikely(rc->peer_at > rc->journal.end)) {
        rc->writing = 0;
        return (ssize_t)gp_min(rc->peer_at - rc->journal.end, (uint64_t)iov.iov_len);
    }
    if (likely(n == 0))
        n = unlikely(xport_resume_over_rdma(rc))
                ? xport_resume_rdma_send_now(rc, &iov)
                : gp_wire_send(rc->stream.wire, conn->fd, &iov, 1, MSG_DONTWAIT);
    rc->writing = iov.iov_len - (size_t)gp_max(n, (ssize_t)0);
    if (unlikely(n < 0 && n != -EAGAIN && !xport_resume_fatal((int)n)) &&
        xport_resume_leave(rc))
        return (ssize_t)iov.iov_len;
    return n;
}

GP_HOT int
xport_resume_flush_now(struct xport_conn *conn)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    ssize_t n = -EAGAIN;
    int r = 0;

    gp_lock_take(&rc->tx_lock);
    if (likely(!xport_journal_full(&rc->journal)))
        n = send_now(rc);
    while (unlikely(n < 0 && n != -EAGAIN && r == 0)) {
        r = xport_resume_fatal((int)n) ? (int)n : xport_resume_recover_locked(rc);
        if (r == 0)
            n = send_now(rc);
    }
    if (likely(n > 0)) {
        xport_journal_sent(&rc->journal, (size_t)n);
        conn->tx.base += n;
        conn->stats.tx_writes++;
        conn->stats.tx_bytes += (size_t)n;
        if (likely(conn->tx.base == conn->tx.pos))
            room_close(rc);
    }
    gp_lock_release(&rc->tx_lock);
    return r < 0 ? r : conn->tx.base == conn->tx.pos ? 0 : -EAGAIN;
}

/* Sleep until some acknowledgements may have come, or it is better not to wait. */
static int
room_wait(struct xport_resume_conn *rc, uint64_t *patience)
{
    struct xport_journal_blocks *blocks = &rc->journal.blocks;
    int r;

    if (!*patience)
        *patience = gp_now_ns() + WAIT_ROOM_NS;
    r = xport_resume_acks_wait(rc,
                               blocks->wanted < blocks->most ? *patience : GP_FOREVER);
    if (r != -ETIMEDOUT)
        return r;
    *patience = 0;
    xport_journal_grow(&rc->journal);
    return 0;
}

/* Another block to write frames to; there is always one where the peer acknowledges. */
static int
block_wait(struct xport_resume_conn *rc, size_t n)
{
    uint64_t patience = 0;

    for (;;) {
        int r = look_pays(rc) ? xport_resume_acks_read(rc) : 0;

        if (r == 0)
            r = xport_journal_next_block(&rc->journal, n);
        if (r != -EAGAIN && r != -ECONNRESET)
            return r;
        if (r == -EAGAIN)
            r = room_wait(rc, &patience);
        if (r == 0)
            r = xport_resume_acks_read(rc);
        if (r == -ECONNRESET)
            r = xport_resume_recover_locked(rc);
        if (r < 0)
            return r;
    }
}

/* Is there room in the block in use: where frames were before, if the peer has those,
 * or behind them? */
static GP_INLINE bool
room_here(struct xport_resume_conn *rc, size_t n)
{
    struct xport_journal *j = &rc->journal;

    xport_resume_confirmed_take(rc);
    xport_journal_rewind(j);
    return (size_t)(xport_journal_room_end(j) - j->frames.room) >=
           gp_max(n, (size_t)ROOM_MIN);
}

static bool
acks_are_many(const struct xport_resume_conn *rc)
{
    return rc->journal.end - rc->looked_at > UNREAD_MAX;
}

/* The warmest room for frames: in the block in use, or in another one. */
static int
room_find(struct xport_resume_conn *rc, size_t n)
{
    int r = acks_are_many(rc) ? xport_resume_acks_read(rc) : 0;

    if (r == -EPROTO)
        return r; /* the next write finds a broken link as well */
    return room_here(rc, n) ? 0 : block_wait(rc, n);
}

int
xport_resume_reserve(struct xport_conn *conn, size_t n)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r = n > conn->frame_max ? -EMSGSIZE : xport_flush(conn);

    if (r < 0)
        return r;
    gp_lock_take(&rc->tx_lock);
    r = room_find(rc, n);
    gp_lock_release(&rc->tx_lock);
    if (r < 0)
        return xport_fail(conn, r);
    room_take(rc);
    return 0;
}

/* Behind a call that was waited for there usually is, and much is about to be posted.
 */
bool
xport_resume_reserve_now(struct xport_conn *conn, size_t n)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    bool there = false;

    if (xport_pending(conn) || xport_error(conn) < 0)
        return false;
    gp_lock_take(&rc->tx_lock);
    if (!acks_are_many(rc) && room_here(rc, n)) {
        room_take(rc);
        there = true;
    }
    gp_lock_release(&rc->tx_lock);
    return there;
}

void
xport_resume_confirm(struct xport_conn *conn, uint64_t upto)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint64_t have = atomic_load_explicit(&rc->confirmed, memory_order_relaxed);

    while (have < upto && !atomic_compare_exchange_weak(&rc->confirmed, &have, upto))
        ;
}

/* ---- payloads ---------------------------------------------------------------------
 */

/* Is waiting until the peer has @len bytes cheaper than copying them? */
static bool
wait_is_cheaper(const struct xport_resume_conn *rc, uint64_t len)
{
    return !rc->left && len > COPY_WARM && len > rc->trip_ns * COPY_BYTES_PER_NS;
}

/* The same for what is lent.  An acknowledgement comes only at the end of a payload, or
 * when so much is under way that the peer sends one. */
static bool
lent_is_waited_for(const struct xport_resume_conn *rc, uint64_t until)
{
    const struct xport_journal *j = &rc->journal;
    uint64_t lent = xport_journal_lent(j, until);
    uint64_t covered = until >= j->end ? j->end
                                       : j->acked + (j->end - j->acked) /
                                                        XPORT_ACK_BULK * XPORT_ACK_BULK;

    return gp_min(until, j->end) <= covered && wait_is_cheaper(rc, lent);
}

/* Lent bytes of runs that went over the stripes: their journal, and which of them. */
static struct xport_journal *
striped_lent(struct xport_resume_conn *rc, uint64_t *until)
{
    struct xport_striped *s = atomic_load_explicit(&rc->striped, memory_order_acquire);

    if (likely(!s))
        return NULL;
    *until = xport_resume_stripes_until(s, *until);
    return xport_journal_lent(&s->journal, *until) ? &s->journal : NULL;
}

static bool
lent_any(struct xport_resume_conn *rc, uint64_t until)
{
    return xport_journal_lent(&rc->journal, until) || striped_lent(rc, &until);
}

/* Copy what there is room for.  -ECONNRESET: some is left, and no acknowledgement will
 * come over this link. */
static int
lent_keep(struct xport_resume_conn *rc, uint64_t until)
{
    uint64_t striped_until = until;
    struct xport_journal *striped = striped_lent(rc, &striped_until);

    xport_journal_keep(&rc->journal, until);
    if (striped)
        xport_journal_keep(striped, striped_until);
    if (!lent_any(rc, until))
        return 0;
    return rc->left ? -ECONNRESET : xport_resume_acks_wait(rc, GP_FOREVER);
}

/* What is short is copied, whatever has been acknowledged: looking for that is a system
 * call.  So is more of it while the peer confirms as much as it gets. */
static bool
lent_needs_no_look(const struct xport_resume_conn *rc, uint64_t until)
{
    const struct xport_journal *j = &rc->journal;

    return xport_journal_lent(j, until) <= COPY_SHORT ||
           (j->end - j->acked <= COPY_UNSEEN && j->end >= j->acked);
}

/* Nothing sent before @until needs memory that is not ours any more: either the peer
 * has it, or it is copied. */
static int
lent_return(struct xport_resume_conn *rc, uint64_t until)
{
    uint64_t patience = 0;
    int r;

    gp_lock_take(&rc->tx_lock);
    r = xport_resume_rdma_offers_wait(rc, until);
    xport_resume_confirmed_take(rc);
    if (lent_needs_no_look(rc, until))
        xport_journal_keep(&rc->journal, until);
    while (r == 0 && lent_any(rc, until)) {
        r = xport_resume_acks_read(rc);
        if (r == 0 && lent_is_waited_for(rc, until)) {
            patience = patience ? patience : gp_now_ns() + WAIT_MAX_NS;
            r = xport_resume_acks_wait(rc, patience);
            if (r == 0)
                continue;
        }
        if (r == 0 || r == -ETIMEDOUT || (r == -ECONNRESET && xport_resume_leave(rc)))
            r = lent_keep(rc, until);
        if (r == -ECONNRESET)
            r = xport_resume_recover_locked(rc);
    }
    gp_lock_release(&rc->tx_lock);
    return r;
}

int
xport_resume_bulk_done(struct xport_conn *conn)
{
    return lent_return(xport_resume_of(conn), UINT64_MAX);
}

/* Something is lent, on the stream or the stripes: not only a source's bytes were sent.
 */
static bool
bulk_is_lent(struct xport_resume_conn *rc)
{
    struct xport_blocks *b = rc->stream.conn.blocks;
    bool lent = true;

    if (b && b->tx.source) {
        gp_lock_take(&rc->tx_lock);
        lent = lent_any(rc, UINT64_MAX);
        gp_lock_release(&rc->tx_lock);
    }
    return lent;
}

bool
xport_resume_bulk_waits(struct xport_conn *conn, size_t len)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    bool waits;

    gp_lock_take(&rc->tx_lock);
    waits = !xport_resume_over_rdma(rc) && wait_is_cheaper(rc, len);
    gp_lock_release(&rc->tx_lock);
    return waits;
}

int
xport_resume_send_start(struct xport_conn *conn, const void *bulk, size_t len,
                        uint64_t *ret_ticket)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r = conn->blocks ? xport_blocks_send(conn, bulk, len)
                         : xport_resume_flush(conn, bulk, len);

    *ret_ticket = r < 0 || !bulk_is_lent(rc) ? 0 : rc->journal.end;
    return r;
}

int
xport_resume_send_wait(struct xport_conn *conn, uint64_t ticket)
{
    return lent_return(xport_resume_of(conn), ticket);
}

/* The end of the payload is on its way, behind which the peer acknowledges everything
 * before it.  A link that breaks is replaced here, for the source can be read for no
 * longer than this. */
int
xport_resume_source_done(struct xport_conn *conn)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r = 0;

    gp_lock_take(&rc->tx_lock);
    while (r == 0 && xport_journal_has_source(&rc->journal)) {
        r = xport_resume_acks_read(rc);
        if (r == 0 && xport_journal_has_source(&rc->journal))
            r = xport_resume_acks_wait(rc, GP_FOREVER);
        if (r == -ECONNRESET)
            r = xport_resume_recover_locked(rc);
    }
    gp_lock_release(&rc->tx_lock);
    return r;
}
