/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_resume_stripes.h"

#include "gp_time.h"
#include "xport_block.h"
#include "xport_resume_conn.h"
#include "xport_stripes.h"

#include <errno.h>
#include <string.h>

/* So much is received at a time: what is lost by a cut in the middle of it, and how
 * much is acknowledged. */
#define STEP (1u << 20)
/* Copies of what the caller has lent go into blocks of this size. */
#define COPY_BLOCK (128u << 10)

static struct xport_striped *
striped_of(const struct xport_resume_conn *rc)
{
    return atomic_load_explicit(&rc->striped, memory_order_acquire);
}

static struct xport_stripes *
stripes_of(const struct xport_resume_conn *rc)
{
    struct xport_blocks *blocks = rc->stream.conn.blocks;

    return blocks ? atomic_load(&blocks->stripes) : NULL;
}

/* NULL: there are none, or they have ended. */
static struct xport_stripes *
stripes_alive(const struct xport_resume_conn *rc)
{
    struct xport_stripes *stripes = stripes_of(rc);

    return xport_stripes_live(stripes) ? stripes : NULL;
}

/* The same for who sends: the peer may not have added its own yet. */
static struct xport_stripes *
stripes_usable(const struct xport_resume_conn *rc)
{
    struct xport_stripes *stripes = stripes_of(rc);

    return xport_stripes_usable(stripes) ? stripes : NULL;
}

/* ---- life -------------------------------------------------------------------------
 */

static int
striped_prepare(struct xport_resume_conn *rc)
{
    struct xport_striped *s = striped_of(rc);

    if (s)
        return 0;
    s = calloc(1, sizeof(*s));
    if (!s || xport_journal_init(&s->journal, COPY_BLOCK, XPORT_FRAME_MIN) < 0) {
        xport_resume_stripes_free(s);
        return -ENOMEM;
    }
    atomic_store_explicit(&rc->striped, s, memory_order_release);
    return 0;
}

int
xport_resume_stripes_hold(struct xport_conn *conn, uint32_t link)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    int r = 0;

    gp_lock_take(&rc->recover);
    if (atomic_load(&rc->number) != link)
        r = -ESTALE;
    if (r == 0)
        r = striped_prepare(rc);
    if (r < 0)
        gp_lock_release(&rc->recover);
    return r;
}

void
xport_resume_stripes_release(struct xport_conn *conn)
{
    gp_lock_release(&xport_resume_of(conn)->recover);
}

uint32_t
xport_resume_stripes_link(struct xport_conn *conn)
{
    return atomic_load(&xport_resume_of(conn)->number);
}

void
xport_resume_stripes_free(struct xport_striped *striped)
{
    if (!striped)
        return;
    xport_journal_fini(&striped->journal);
    free(striped->early);
    free(striped);
}

bool
xport_resume_stripes_lost(struct xport_resume_conn *rc, bool *ret_again)
{
    struct xport_stripes *stripes = stripes_alive(rc);

    return stripes && xport_stripes_lost(stripes, ret_again);
}

void
xport_resume_stripes_abort(struct xport_resume_conn *rc)
{
    struct xport_stripes *stripes = stripes_alive(rc);

    if (stripes)
        xport_stripes_abort(stripes);
}

/* ---- a new link -------------------------------------------------------------------
 */

void
xport_resume_stripes_have(const struct xport_resume_conn *rc,
                          struct xport_resume_have *ret)
{
    const struct xport_striped *s = striped_of(rc);

    ret->striped = atomic_load(&rc->acks.striped);
    ret->striped_sent = s ? s->journal.end : 0;
}

int
xport_resume_stripes_install(struct xport_resume_conn *rc,
                             const struct xport_resume_link *link)
{
    const struct xport_resume_have *peer = &link->peer;
    struct xport_stripes *stripes = stripes_alive(rc);
    uint64_t received = atomic_load(&rc->acks.striped);
    struct xport_striped *s = striped_of(rc);

    if (!s)
        return peer->striped || peer->striped_sent ? -EPROTO : 0;
    if (peer->striped < s->journal.acked || peer->striped_sent < received ||
        peer->striped_sent - received > XPORT_STRIPED_WINDOW ||
        xport_resume_stripes_acked(s, peer->striped) < 0)
        return -EPROTO;
    s->replay_at = peer->striped;
    s->replay_end = s->journal.end;
    s->inline_until = peer->striped_sent;
    if (stripes)
        xport_stripes_end(stripes);
    return 0;
}

/* ---- sending ----------------------------------------------------------------------
 */

int
xport_resume_stripes_acked(struct xport_striped *striped, uint64_t upto)
{
    unsigned done = 0;
    int r = xport_journal_ack(&striped->journal, upto, striped->journal.end);

    while (done < striped->n_runs && striped->runs[done].striped <= upto)
        done++;
    striped->n_runs -= done;
    memmove(striped->runs, striped->runs + done,
            striped->n_runs * sizeof(striped->runs[0]));
    return r;
}

uint64_t
xport_resume_stripes_until(const struct xport_striped *striped, uint64_t until)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < striped->n_runs && striped->runs[i].stream <= until; i++)
        end = striped->runs[i].striped;
    return end;
}

/* Is there a place for a run of @len bytes? */
static bool
run_fits(const struct xport_striped *s, uint32_t len)
{
    return s->n_runs < XPORT_STRIPED_RUNS && !xport_journal_full(&s->journal) &&
           s->journal.end + len - s->journal.acked <= XPORT_STRIPED_WINDOW;
}

/* Under tx_lock, which may be released meanwhile. */
static int
run_wait(struct xport_resume_conn *rc, struct xport_striped *s, uint32_t len)
{
    int r = 0;

    while (r == 0 && stripes_usable(rc) && !run_fits(s, len)) {
        r = xport_resume_acks_read(rc);
        if (r == 0 && !run_fits(s, len))
            r = xport_resume_acks_wait(rc, GP_FOREVER);
        if (r == -ECONNRESET)
            r = xport_resume_recover_locked(rc);
    }
    return r;
}

/* Its bytes are in the journal before it is announced: whenever the link breaks, the
 * peer is told of all of them. */
static int
run_send(struct xport_resume_conn *rc, struct xport_striped *s,
         struct xport_stripes *stripes, const void *bytes, uint32_t len)
{
    uint64_t at = rc->journal.end + xport_pending(&rc->stream.conn);
    uint32_t epoch = atomic_load(&rc->epoch);
    int r;

    xport_resume_have_acks(rc);
    xport_journal_sent_lent(&s->journal, bytes, len);
    s->runs[s->n_runs++] = (struct xport_striped_run){at, s->journal.end};
    r = xport_resume_send_locked(rc, NULL, 0);
    if (r < 0 || rc->left || epoch != atomic_load(&rc->epoch))
        return r;
    if (xport_stripes_send(stripes, bytes, len) == 0)
        return 0;
    xport_stripes_abort(stripes);
    return xport_resume_leave(rc) ? 0 : xport_resume_recover_locked(rc);
}

int
xport_resume_stripes_send(struct xport_conn *conn, struct xport_block *head,
                          const void *bytes, uint32_t len)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    struct xport_striped *s = striped_of(rc);
    struct xport_stripes *stripes;
    int r;

    gp_lock_take(&rc->tx_lock);
    r = run_wait(rc, s, len);
    stripes = stripes_usable(rc);
    if (r == 0 && stripes) {
        r = run_send(rc, s, stripes, bytes, len);
    } else if (r == 0) {
        *head = xport_block_head(XPORT_BLOCK_RAW, len, len);
        r = xport_resume_send_locked(rc, bytes, len);
    }
    gp_lock_release(&rc->tx_lock);
    return r;
}

/* ---- receiving --------------------------------------------------------------------
 */

bool
xport_resume_stripes_first(const struct xport_resume_conn *rc)
{
    const struct xport_striped *s = striped_of(rc);

    return unlikely(s != NULL) &&
           atomic_load_explicit(&rc->acks.striped, memory_order_relaxed) <
               s->inline_until;
}

/* Under rx_lock. */
static void
got(struct xport_resume_conn *rc, size_t n)
{
    atomic_fetch_add(&rc->acks.striped, n);
    if (xport_acks_striped_due(&rc->acks) >= STEP)
        xport_resume_ack(rc);
}

ssize_t
xport_resume_stripes_early(struct xport_resume_conn *rc, int flags)
{
    struct xport_striped *s = striped_of(rc);
    size_t left = (size_t)(s->inline_until - atomic_load(&rc->acks.striped));
    uint8_t *early = realloc(s->early, s->early_end + left);
    ssize_t n;

    if (!early)
        return -ENOMEM;
    s->early = early;
    n = gp_wire_recv(rc->stream.wire, rc->stream.conn.fd, early + s->early_end, left,
                     flags);
    if (n > 0) {
        s->early_end += (size_t)n;
        got(rc, (size_t)n);
    }
    return n;
}

/* Bytes that came before their run. */
static size_t
early_take(struct xport_striped *s, uint8_t *buf, size_t len)
{
    size_t n = gp_min(len, s->early_end - s->early_at);

    if (!n)
        return 0;
    memcpy(buf, s->early + s->early_at, n);
    s->early_at += n;
    if (s->early_at == s->early_end) {
        free(TAKE_PTR(s->early));
        s->early_at = s->early_end = 0;
    }
    return n;
}

/* Some of the run's bytes, under rx_lock: how many, -EAGAIN: none yet; -ECONNRESET: the
 * link is broken. */
static ssize_t
recv_some(struct xport_resume_conn *rc, struct xport_striped *s, uint64_t at,
          uint8_t *buf, size_t len)
{
    struct xport_stripes *stripes = stripes_alive(rc);
    ssize_t n = (ssize_t)early_take(s, buf, len);

    if (n)
        return n;
    if (xport_resume_stripes_first(rc)) {
        size_t left = (size_t)(s->inline_until - atomic_load(&rc->acks.striped));
        int flags = atomic_load(&rc->replaying) ? MSG_DONTWAIT : 0;

        n = gp_wire_recv(rc->stream.wire, rc->stream.conn.fd, buf, gp_min(len, left),
                         flags);
        n = n == 0 || (n < 0 && n != -EAGAIN) ? -ECONNRESET : n;
    } else {
        n = (ssize_t)gp_min(len, (size_t)STEP);
        if (!stripes || xport_stripes_recv(stripes, at, buf, (uint64_t)n) < 0)
            return -ECONNRESET;
    }
    if (n > 0)
        got(rc, (size_t)n);
    return n;
}

/* Without a link the run's bytes come over the next one; a peer that announces bytes
 * which come over none ends the connection. */
static int
recv_recover(struct xport_resume_conn *rc, struct xport_striped *s, uint32_t epoch)
{
    int r = xport_resume_recover(rc, epoch);

    if (r < 0)
        return r;
    gp_lock_take(&rc->rx_lock); /* the sender may be replacing the link again */
    if (!xport_resume_stripes_first(rc) && s->early_at == s->early_end &&
        !stripes_alive(rc))
        r = -EPROTO;
    gp_lock_release(&rc->rx_lock);
    return r;
}

int
xport_resume_stripes_recv(struct xport_conn *conn, uint64_t at, uint8_t *buf,
                          size_t len)
{
    struct xport_resume_conn *rc = xport_resume_of(conn);
    struct xport_striped *s = striped_of(rc);
    int r = 0;

    conn->stats.rx_bytes += len;
    while (len && r == 0) {
        uint32_t epoch;
        ssize_t n;

        gp_lock_take(&rc->rx_lock);
        epoch = atomic_load(&rc->epoch);
        n = recv_some(rc, s, at, buf, len);
        gp_lock_release(&rc->rx_lock);
        if (n == -ECONNRESET) {
            r = recv_recover(rc, s, epoch);
        } else if (n == -EAGAIN) {
            r = rc->stream.io->wait(&rc->stream, GP_FOREVER);
        } else {
            at += (uint64_t)n;
            buf += n;
            len -= (size_t)n;
        }
    }
    return r;
}
