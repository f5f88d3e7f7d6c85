/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_resume_rdma.h"

#include "gp_err.h"
#include "gp_time.h"
#include "xport.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Between two looks at what the peer has, which comes by RDMA WRITE and wakes nobody.
 */
#define ACKS_SLEEP_NS 20000
/* For how long a reader waits between two attempts to send again what waits for that.
 */
#define REPLAY_NS GP_NS_PER_MS
/* How long the last words may take. */
#define GOODBYE_NS GP_NS_PER_S

struct xport_resume_rdma *
xport_resume_rdma_new(struct xport_conn *rdma)
{
    struct xport_resume_rdma *first = calloc(1, sizeof(*first));

    if (!first)
        return NULL;
    first->rdma = rdma_of(rdma);
    atomic_store(&first->on, true);
    return first;
}

bool
xport_resume_rdma_is_on(const struct xport_resume_rdma *rdma)
{
    return atomic_load_explicit(&rdma->on, memory_order_acquire);
}

static struct rdma_conn *
rdma_in(const struct xport_resume_conn *rc)
{
    return rc->rdma->rdma;
}

/* ---- sending ----------------------------------------------------------------------
 */

static int
send_frames(struct rdma_conn *rdma, const uint8_t *data, size_t len)
{
    size_t n;
    int r = rdma_send_now(rdma, data, len, &n);

    return likely(r < 0 || n == len) ? r : rdma_send_data(rdma, data + n, len - n);
}

int
xport_resume_rdma_send(struct xport_resume_conn *rc, const struct iovec *iov,
                       size_t n_iov, uint64_t at, const void *bulk)
{
    struct rdma_conn *rdma = rdma_in(rc);
    uint64_t ticket;
    int r = 0;

    for (size_t i = 0; i < n_iov && r == 0; i++) {
        const void *data = iov[i].iov_base;

        at += iov[i].iov_len;
        if (data != bulk) {
            r = send_frames(rdma, data, iov[i].iov_len);
            continue;
        }
        r = rdma_send_payload(rdma, data, iov[i].iov_len, &ticket);
        if (r == 0 && ticket)
            rdma_offer_ends_at(rdma, at);
    }
    return r;
}

ssize_t
xport_resume_rdma_replay(struct xport_resume_conn *rc, const struct iovec *iov,
                         int flags)
{
    int r;

    if (flags & MSG_DONTWAIT)
        return xport_resume_rdma_send_now(rc, iov);
    r = send_frames(rdma_in(rc), iov->iov_base, iov->iov_len);
    return r < 0 ? r : (ssize_t)iov->iov_len;
}

ssize_t
xport_resume_rdma_send_now(struct xport_resume_conn *rc, const struct iovec *iov)
{
    size_t n;
    int r = rdma_send_now(rdma_in(rc), iov->iov_base, iov->iov_len, &n);

    return r < 0 ? r : n ? (ssize_t)n : -EAGAIN;
}

uint64_t
xport_resume_rdma_peer_has(struct xport_resume_conn *rc)
{
    return rdma_peer_has(rdma_in(rc));
}

int
xport_resume_rdma_acks_wait(struct xport_resume_conn *rc, uint64_t deadline_ns)
{
    struct rdma_conn *rdma = rdma_in(rc);
    uint64_t had = rc->journal.acked;

    while (rdma_peer_has(rdma) <= had) {
        if (rdma_liveness(rdma) < 0)
            return xport_error(&rc->stream.conn) < 0 ? xport_error(&rc->stream.conn)
                                                     : -ECONNRESET;
        if (gp_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        nanosleep(&(struct timespec){0, ACKS_SLEEP_NS}, NULL);
    }
    return 0;
}

int
xport_resume_rdma_offers_wait(struct xport_resume_conn *rc, uint64_t until)
{
    int r = 0;

    while (r == 0 && xport_resume_over_rdma(rc)) {
        r = rdma_offers_wait(rdma_in(rc), until);
        if (r == 0)
            return 0;
        if (!xport_resume_fatal(r))
            r = xport_resume_recover_locked(rc);
    }
    return r;
}

void
xport_resume_rdma_goodbye(struct xport_resume_conn *rc, const struct iovec *iov,
                          size_t n_iov)
{
    int r = 0;

    for (size_t i = 0; i < n_iov && r == 0; i++) {
        size_t n;

        r = rdma_send_now(rdma_in(rc), iov[i].iov_base, iov[i].iov_len, &n);
        if (n < iov[i].iov_len)
            return;
    }
    rdma_conn_drain(rdma_in(rc), GOODBYE_NS);
}

/* Under tx_lock: is the way to a window open? */
static bool
direct_usable(const struct xport_resume_conn *rc)
{
    return xport_resume_over_rdma(rc) && !rc->left;
}

/* Under tx_lock, so it stays until its owner takes it back: it was opened for another
 * link otherwise. */
static bool
window_is_there(const struct xport_resume_conn *rc, uint64_t addr, size_t len)
{
    struct rdma_mr *m = rdma_mr_window(rdma_in(rc), addr, len);

    rdma_mr_put(rdma_in(rc), m);
    return m != NULL;
}

static int
send_direct_locked(struct xport_resume_conn *rc, uint64_t addr, size_t len)
{
    struct xport_journal *j = &rc->journal;
    uint64_t offer;
    int r = xport_resume_send_locked(rc, NULL, 0);

    if (r < 0 || !direct_usable(rc) || !window_is_there(rc, addr, len))
        return r < 0 ? r : -EOPNOTSUPP;
    if (xport_journal_full(j)) {
        r = xport_resume_acks_read(rc);
        xport_journal_compact(j);
    }
    if (r < 0 || xport_journal_full(j))
        return r == -EPROTO ? r : -EOPNOTSUPP;
    xport_journal_sent_card(j, addr, len);
    rc->stream.conn.stats.tx_bytes += len;
    r = rdma_offer_window(rdma_in(rc), addr, len, &offer);
    if (r == 0)
        rdma_offer_ends_at(rdma_in(rc), j->end);
    if (r == 0 || xport_resume_fatal(r))
        return r;
    r = xport_resume_recover_locked(rc);
    return r < 0 ? r : -EOPNOTSUPP;
}

static int
send_direct(struct xport_conn *conn, uint64_t addr, size_t len, uint64_t *ret_ticket)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r = -EOPNOTSUPP;

    if (!xport_resume_over_rdma(rc))
        return r;
    gp_lock_take(&rc->tx_lock);
    if (direct_usable(rc))
        r = send_direct_locked(rc, addr, len);
    *ret_ticket = r < 0 ? 0 : rc->journal.end;
    gp_lock_release(&rc->tx_lock);
    return r;
}

/* ---- receiving --------------------------------------------------------------------
 */

static int recv_bulk(struct xport_conn *conn, void *buf, size_t len);

/* What was being fetched when the link broke comes first over the next one, over which
 * some of it may be under way when that one breaks. */
static int
pending_fill(struct xport_resume_conn *rc)
{
    struct xport_resume_rdma *first = rc->rdma;
    struct xport_resume_rdma_pending pending[RDMA_READS_MAX];
    struct xport_conn *conn = &rc->stream.conn;
    unsigned n = first->n_pending;
    int r = 0;

    memcpy(pending, first->pending, n * sizeof(*pending));
    first->n_pending = 0;
    for (unsigned i = 0; i < n && r == 0; i++) {
        conn->stats.rx_bytes -= pending[i].len; /* counted when it was asked for */
        r = recv_bulk(conn, pending[i].buf, pending[i].len);
    }
    return r;
}

/* The lock is taken while the link is RDMA; what another one left behind is there. */
static int
rdma_begin(struct xport_resume_conn *rc, bool *ret_on, uint32_t *ret_epoch)
{
    int r = 0;

    for (;;) {
        gp_lock_take(&rc->rx_lock);
        *ret_epoch = atomic_load(&rc->epoch);
        *ret_on = xport_resume_over_rdma(rc);
        if (likely(*ret_on && !rc->rdma->n_pending))
            return 0;
        gp_lock_release(&rc->rx_lock);
        if (!rc->rdma->n_pending)
            return 0;
        r = pending_fill(rc);
        if (r < 0) {
            *ret_on = false;
            return r;
        }
    }
}

/* @r is what came of it.  0: go on, perhaps over another link. */
static int
rdma_finish(struct xport_resume_conn *rc, uint32_t epoch, int r)
{
    atomic_store_explicit(&rc->acks.received, rdma_in(rc)->got, memory_order_relaxed);
    gp_lock_release(&rc->rx_lock);
    if (likely(r >= 0 || r == -EAGAIN || r == -ETIMEDOUT) || xport_resume_fatal(r))
        return r;
    return xport_resume_recover(rc, epoch);
}

/* Until when to wait for what the peer sends.  While bytes wait to be sent again, the
 * reader sends them: nobody else may. */
static uint64_t
patience_of(struct xport_resume_conn *rc, uint64_t deadline_ns)
{
    if (likely(!atomic_load(&rc->replaying)))
        return deadline_ns;
    xport_resume_replay_some(rc);
    return gp_min(deadline_ns, gp_now_ns() + REPLAY_NS);
}

/* Over TCP; the link may be RDMA by now. */
static int
fill_stream(struct xport_conn *conn, uint64_t deadline_ns)
{
    int r = xport_stream_fill(conn, deadline_ns);

    return r == -ESTALE ? 0 : r;
}

static int
fill(struct xport_conn *conn, uint64_t deadline_ns)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint64_t until;
    uint32_t epoch;
    size_t n = 0;
    bool on;
    int r;

    if (!xport_resume_over_rdma(rc) && !rc->rdma->n_pending)
        return fill_stream(conn, deadline_ns);
    until = patience_of(rc, deadline_ns);
    r = rdma_begin(rc, &on, &epoch);
    if (!on)
        return r < 0 ? r : fill_stream(conn, deadline_ns);
    xport_stream_make_room(&rc->stream);
    r = rdma_read(rdma_in(rc), conn->rx.end, XPORT_STREAM_READ, &n, until);
    conn->rx.end += n;
    conn->stats.rx_bytes += n;
    conn->stats.rx_reads++;
    r = rdma_finish(rc, epoch, r);
    return unlikely(until != deadline_ns && (r == -ETIMEDOUT || r == -EAGAIN)) ? 0 : r;
}

static int
recv_start(struct xport_conn *conn, void *buf, size_t len, uint64_t *ret_ticket)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint8_t *p = buf;

    *ret_ticket = 0;
    while (len) {
        uint64_t until = patience_of(rc, GP_FOREVER);
        uint32_t epoch;
        size_t n = 0;
        bool on;
        int r = rdma_begin(rc, &on, &epoch);

        if (on) {
            r = rdma_fetch_start(rdma_in(rc), p, len, until, ret_ticket, &n);
            r = rdma_finish(rc, epoch, r);
        } else if (r == 0) {
            r = xport_stream_read(&rc->stream, p, len, &n);
        }
        if (r < 0 && r != -ETIMEDOUT && r != -ESTALE)
            return r;
        p += n;
        len -= n;
        conn->stats.rx_bytes += n;
    }
    return 0;
}

/* Tickets count on over links, and what a link left behind has been received when the
 * lock is ours. */
static int
recv_wait(struct xport_conn *conn, uint64_t ticket)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint32_t epoch;
    bool on;
    int r = rdma_begin(rc, &on, &epoch);

    if (!on)
        return r;
    r = rdma_fetch_wait(rdma_in(rc), ticket);
    r = rdma_finish(rc, epoch, r);
    return r < 0 || atomic_load(&rc->epoch) == epoch ? r : recv_wait(conn, ticket);
}

static int
recv_bulk(struct xport_conn *conn, void *buf, size_t len)
{
    uint64_t ticket;
    int r = recv_start(conn, buf, len, &ticket);

    return r < 0 ? r : recv_wait(conn, ticket);
}

static int
recv_direct(struct xport_conn *conn, uint64_t addr, size_t len, size_t *ret_n)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    uint32_t epoch;
    bool on;
    int r;

    *ret_n = 0;
    if (xport_buffered(conn) || atomic_load(&rc->replaying))
        return 0;
    r = rdma_begin(rc, &on, &epoch);
    if (!on)
        return r;
    r = rdma_recv_direct(&rdma_in(rc)->stream.conn, addr, len, ret_n);
    conn->stats.rx_bytes += *ret_n;
    if (r == -ENOENT) /* it was opened for another link */
        r = 0;
    return rdma_finish(rc, epoch, r);
}

/* ---- the link ---------------------------------------------------------------------
 */

void
xport_resume_rdma_break(struct xport_resume_conn *rc)
{
    xport_fail(&rdma_in(rc)->stream.conn, -ECONNRESET);
}

/* Fetches into windows are those of a call that is told how much has come. */
static void
pending_note(struct xport_resume_conn *rc)
{
    struct xport_resume_rdma *first = rc->rdma;
    const struct rdma_conn *rdma = rdma_in(rc);

    for (unsigned i = 0; i < rdma->fetch_count; i++) {
        const struct rdma_fetch *f =
            &rdma->fetches[(rdma->fetch_first + i) % RDMA_READS_MAX];

        if (f->buf)
            first->pending[first->n_pending++] =
                (struct xport_resume_rdma_pending){f->buf, f->len};
    }
}

void
xport_resume_rdma_end(struct xport_resume_conn *rc)
{
    struct rdma_conn *rdma = rdma_in(rc);

    pending_note(rc);
    rdma_conn_end(rdma);
    atomic_store(&rc->acks.received, rdma->got);
    rdma->stream.conn.fd = -1;
    atomic_store_explicit(&rc->rdma->on, false, memory_order_release);
}

void
xport_resume_rdma_begin(struct xport_resume_conn *rc)
{
    struct rdma_conn *rdma = rdma_in(rc);

    rdma->stream.conn.fd = rc->stream.conn.fd;
    rdma->got = atomic_load(&rc->acks.received);
    rc->rdma->echo = rc->rdma->asked = 0;
    atomic_store_explicit(&rc->rdma->on, true, memory_order_release);
}

void
xport_resume_rdma_drop(struct xport_resume_conn *rc)
{
    rdma_conn_end(rdma_in(rc));
    rdma_in(rc)->stream.conn.fd = -1;
}

int
xport_resume_rdma_connect(struct xport_conn *conn, int ctl_fd,
                          struct xport_rdma_port *ports, size_t n,
                          const uint8_t cookie[XPORT_RDMA_COOKIE], uint64_t deadline_ns,
                          struct gp_err *err)
{
    return rdma_connect_again(rdma_in(xport_resume_of(conn)), ctl_fd, ports, n, cookie,
                              deadline_ns, err);
}

int
xport_resume_rdma_accept(struct xport_conn *conn, struct xport_rdma_listener *listener,
                         int ctl_fd, const uint8_t cookie[XPORT_RDMA_COOKIE],
                         uint64_t deadline_ns, struct gp_err *err)
{
    return rdma_accept_again(rdma_in(xport_resume_of(conn)), listener, ctl_fd, cookie,
                             deadline_ns, err);
}

/* A queue pair finds out that its peer is gone when it sends, so what was sent since
 * the last look is followed by a READ.  The end that always reads sends one of its own.
 */
int
xport_resume_rdma_look(struct xport_resume_conn *rc, bool *ret_again)
{
    struct rdma_conn *rdma = rdma_in(rc);
    struct xport_resume_rdma *first = rc->rdma;
    int r = rdma_liveness(rdma);
    bool answered = __atomic_load_n(&rdma->reads_done, __ATOMIC_ACQUIRE) >= first->echo;

    if (r < 0 || xport_resume_passive(rc))
        return r;
    if (answered && rdma_posted(rdma) != first->asked) {
        r = rdma_echo(rdma, RDMA_ECHO_LIVENESS, 0, &first->echo);
        first->asked = rdma_posted(rdma);
        answered = false;
    }
    *ret_again = !answered;
    return r;
}

bool
xport_resume_rdma_last_words(struct xport_resume_conn *rc)
{
    bool any;

    if (!gp_lock_try(&rc->rx_lock))
        return false; /* somebody reads */
    any = xport_resume_over_rdma(rc) && rdma_last_words(rdma_in(rc));
    gp_lock_release(&rc->rx_lock);
    return any;
}

void
xport_resume_rdma_free(struct xport_resume_conn *rc)
{
    struct xport_conn *inner;

    if (!rc->rdma)
        return;
    inner = &rdma_in(rc)->stream.conn;
    if (xport_resume_over_rdma(rc) && xport_error(&rc->stream.conn) == 0)
        rdma_conn_drain(rdma_in(rc), GOODBYE_NS);
    inner->fd = -1; /* it is the outer connection's */
    rdma_conn_free(inner);
    free(TAKE_PTR(rc->rdma));
}

static struct xport_conn *
below(struct xport_conn *conn)
{
    return &rdma_in(xport_resume_of(conn))->stream.conn;
}

static enum xport_kind
link_kind(const struct xport_conn *conn)
{
    /* Nothing is written through it. */
    struct xport_conn *c = (struct xport_conn *)(uintptr_t)conn;

    return xport_resume_over_rdma(xport_resume_of(c)) ? XPORT_KIND_RDMA
                                                      : XPORT_KIND_TCP;
}

const struct xport_ops xport_resume_rdma_ops = {
    .name = "rdma",
    .kind = XPORT_KIND_RDMA,
    .can = XPORT_CAN_WINDOWS,
    .reserve = xport_resume_reserve,
    .reserve_now = xport_resume_reserve_now,
    .flush = xport_resume_flush,
    .flush_now = xport_resume_flush_now,
    .fill = fill,
    .recv_bulk = recv_bulk,
    .send_start = xport_resume_send_start,
    .send_wait = xport_resume_send_wait,
    .recv_start = recv_start,
    .recv_wait = recv_wait,
    .bulk_done = xport_resume_bulk_done,
    .acknowledge = xport_resume_acknowledge,
    .confirm = xport_resume_confirm,
    .stripes_hold = xport_resume_stripes_hold,
    .stripes_release = xport_resume_stripes_release,
    .stripes_send = xport_resume_stripes_send,
    .stripes_recv = xport_resume_stripes_recv,
    .stripes_link = xport_resume_stripes_link,
    .send_direct = send_direct,
    .recv_direct = recv_direct,
    .below = below,
    .link_kind = link_kind,
    .ended = xport_resume_ended,
    .realign = xport_stream_to_start,
    .abort = xport_resume_abort,
    .look = xport_resume_look,
    .free = xport_resume_free,
};
