/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_block.h"

#include "gp_err.h"
#include "xport_buffer.h"
#include "xport_resume_stripes.h"
#include "xport_stripes.h"
#include "xport_zstd.h"

#include <errno.h>
#include <string.h>

/* Below this a payload goes as it is, and is not measured: the look would cost more. */
#define PLAIN_MAX (32u * 1024)

/* How much to send before looking at the link again: little at first, because what the
 * peer's queue takes says nothing, more and more while it is fast. */
#define RUN_MIN (256u * 1024)
#define RUN_MAX (16u << 20)
/* A link that takes a byte in less is fast: both ends' work would eat what is won. */
#define SLOW_NS 3.0
/* One that took a send at less a byte is not measured for so many bytes: fewer than
 * what a slow one would take before a queue of some MiB is full. */
#define FAST_NS 1.0
#define FAST_RUN (1u << 20)
/* After so many packed blocks the link is measured again. */
#define MEASURE_AGAIN 128u

/* Blocks between two trials when none pays: a fraction of a percent of the time. */
#define BACKOFF_MAX 64u

#define LEVEL 1

/* Until one was packed: what level 1 does on one core, ns a byte. */
#define PACK_NS_GUESS 1.5

/* Packing must win by this, because the other end has its part of the work too. */
#define WIN 0.9

#define WIRE_MASK ((1u << XPORT_BLOCK_KIND_SHIFT) - 1)

/* ---- life -------------------------------------------------------------------------
 */

void
xport_blocks_free(struct xport_blocks *b)
{
    if (!b)
        return;
    if (b->tx.cctx)
        b->zstd->cctx_free(b->tx.cctx);
    if (b->rx.dctx)
        b->zstd->dctx_free(b->rx.dctx);
    xport_stripes_free(atomic_load(&b->stripes));
    free(b->tx.out);
    free(b->rx.in);
    free(b->rx.out);
    free(b);
}

int
xport_blocks_start(struct xport_conn *conn, enum xport_pack pack, struct gp_err *err)
{
    struct xport_blocks *b = calloc(1, sizeof(*b));

    if (!b)
        return gp_err_set(err, -ENOMEM, "out of memory");
    b->pack = pack;
    b->zstd = xport_zstd_get();
    b->tx.pack_ns = PACK_NS_GUESS;
    b->count_raw = &b->own_counts[0];
    b->count_wire = &b->own_counts[1];
    if (pack != XPORT_PACK_NEVER && !b->zstd) {
        free(b);
        return gp_err_set(err, -ENOENT, "no libzstd.so.1 here");
    }
    conn->blocks = b;
    return 0;
}

void
xport_blocks_peer_rereads(struct xport_conn *conn)
{
    conn->blocks->tx.rereads = true;
}

void
xport_blocks_count(struct xport_conn *conn, _Atomic uint64_t *raw,
                   _Atomic uint64_t *wire)
{
    conn->blocks->count_raw = raw;
    conn->blocks->count_wire = wire;
}

static void
count(struct xport_blocks *b, uint32_t raw, uint32_t wire)
{
    atomic_fetch_add_explicit(b->count_raw, raw, memory_order_relaxed);
    atomic_fetch_add_explicit(b->count_wire, wire, memory_order_relaxed);
}

/* ---- sending ----------------------------------------------------------------------
 */

static struct xport_block *
put_head(struct xport_conn *conn, enum xport_block_kind kind, uint32_t raw,
         uint32_t wire)
{
    struct xport_block *head = xport_reserve(conn, sizeof(*head));

    if (!head)
        return NULL;
    *head = xport_block_head(kind, raw, wire);
    xport_commit(conn, sizeof(*head));
    return head;
}

/* Of a link that has just been fast, not each short payload: the two looks at the queue
 * would be a part of what it takes. */
static bool
measure_now(struct xport_blocks_tx *tx, uint32_t len)
{
    bool now = tx->fast < len;

    tx->fast = now ? 0 : tx->fast - len;
    return now;
}

/* The link is measured, but not with packed blocks: they are so small that the calls
 * count and not the link. */
static int
send_measured(struct xport_conn *conn, const void *bytes, uint32_t len)
{
    struct xport_blocks_tx *tx = &conn->blocks->tx;
    bool measure = len >= PLAIN_MAX && measure_now(tx, len);
    int r;

    if (measure)
        xport_rate_begin(&tx->link, &conn->fd, 1);
    r = tx->reread ? conn->ops->flush_source(conn, bytes, len, tx->length - tx->total)
                   : conn->ops->flush(conn, bytes, len);
    if (measure) {
        xport_rate_end(&tx->link, &conn->fd, 1, len);
        if (xport_rate_took(&tx->link) < len * FAST_NS)
            tx->fast = FAST_RUN;
    }
    return r;
}

static int
send_packed(struct xport_conn *conn, uint32_t raw, const void *bytes, uint32_t wire)
{
    return put_head(conn, XPORT_BLOCK_ZSTD, raw, wire)
               ? conn->ops->flush(conn, bytes, wire)
               : -ECONNRESET;
}

static int
send_striped(struct xport_conn *conn, const void *bytes, uint32_t len)
{
    struct xport_block *head = put_head(conn, XPORT_BLOCK_STRIPED, len, len);
    int r;

    if (!head)
        return -ECONNRESET;
    if (conn->ops->stripes_send)
        return conn->ops->stripes_send(conn, head, bytes, len);
    r = conn->ops->flush(conn, NULL, 0);
    return r == 0 ? xport_stripes_send(atomic_load(&conn->blocks->stripes), bytes, len)
                  : r;
}

/* The length of what comes out, 0 if that is no less or there is no memory. */
static uint32_t
pack(struct xport_blocks *b, const uint8_t *bytes, uint32_t len)
{
    size_t n;

    if (!b->tx.cctx)
        b->tx.cctx = b->zstd->cctx_new();
    if (!b->tx.out)
        b->tx.out = malloc(XPORT_BLOCK_BOUND);
    if (!b->tx.cctx || !b->tx.out)
        return 0;
    n = b->zstd->compress(b->tx.cctx, b->tx.out, XPORT_BLOCK_BOUND, bytes, len, LEVEL);
    return b->zstd->is_error(n) || n >= len ? 0 : (uint32_t)n;
}

/* Sending goes on in the kernel while the next block is packed, but not for nothing:
 * both want the processor. */
static double
side_by_side(double pack_ns, double send_ns)
{
    return gp_max(pack_ns, send_ns) + gp_min(pack_ns, send_ns) / 4;
}

/* What a byte costs as it is, the way it would go now. */
static double
raw_cost(struct xport_blocks *b)
{
    struct xport_stripes *stripes =
        atomic_load_explicit(&b->stripes, memory_order_acquire);

    return xport_rate_best(
        xport_stripes_usable(stripes) && stripes->use ? &stripes->rate : &b->tx.link);
}

/* Pack and see whether it is the faster way; 0: it is not. */
static uint32_t
try_pack(struct xport_blocks *b, const uint8_t *bytes, uint32_t len)
{
    uint64_t start = gp_now_ns();
    uint32_t n = pack(b, bytes, len);
    double cost = xport_rate_best(&b->tx.link);
    double took = (double)(gp_now_ns() - start);

    if (b->pack == XPORT_PACK_ALWAYS)
        return n;
    b->tx.pack_ns += (took / len - b->tx.pack_ns) / 8;
    if (n && side_by_side(took, n * cost) < WIN * raw_cost(b) * len) {
        b->tx.backoff = 0;
        return n;
    }
    b->tx.backoff = gp_min(2 * b->tx.backoff + 1, BACKOFF_MAX);
    b->tx.skip = b->tx.backoff;
    return 0;
}

/* How many bytes to send as they are; 0: try to pack a block. */
static uint64_t
raw_run(struct xport_blocks *b, uint64_t len)
{
    double cost = raw_cost(b);

    if (b->pack == XPORT_PACK_ALWAYS)
        return 0;
    if (b->pack == XPORT_PACK_NEVER)
        return XPORT_BLOCK_RAW_MAX;
    if (len < PLAIN_MAX)
        return len;
    if (cost == 0)
        return RUN_MIN;
    if (WIN * cost <= gp_max(b->tx.pack_ns, SLOW_NS)) {
        /* It was slow to pack once; that may have been somebody else's load. */
        b->tx.pack_ns += (PACK_NS_GUESS - b->tx.pack_ns) / 64;
        b->tx.run = gp_min(gp_max(2 * b->tx.run, RUN_MIN), RUN_MAX);
        return b->tx.run;
    }
    b->tx.run = 0;
    if (b->tx.packed >= MEASURE_AGAIN) {
        b->tx.packed = 0;
        return RUN_MIN;
    }
    return (uint64_t)b->tx.skip * XPORT_BLOCK_PACKED;
}

/* How much of the payload is yet to come that need not be kept.  Its end is: the sender
 * waits for the rest until the peer has it, which that usually has by then. */
static uint64_t
source_left(const struct xport_blocks *b)
{
    return b->tx.source && b->tx.total > b->tx.tail ? b->tx.total - b->tx.tail : 0;
}

/* Send the first bytes of a run of @run as they are, at most @here, over the stripes if
 * there are any and they are faster; *ret_sent: how many. */
static int
send_raw(struct xport_conn *conn, const uint8_t *bytes, uint32_t run, uint32_t here,
         uint32_t *ret_sent)
{
    struct xport_blocks *b = conn->blocks;
    struct xport_stripes *stripes =
        atomic_load_explicit(&b->stripes, memory_order_acquire);

    *ret_sent = here;
    if (stripes && here >= XPORT_STRIPED_MIN) {
        if (xport_stripes_pay(stripes, &b->tx.link, ret_sent)) {
            if (conn->ops->stripes_send)
                *ret_sent = gp_min(*ret_sent, XPORT_STRIPED_RUN);
            return send_striped(conn, bytes, *ret_sent);
        }
        run = *ret_sent; /* the next part may go over them */
    }
    b->tx.reread = source_left(b) != 0;
    if (!put_head(conn, b->tx.reread ? XPORT_BLOCK_REREAD : XPORT_BLOCK_RAW, run, run))
        return -ECONNRESET;
    b->tx.open = run - *ret_sent;
    return send_measured(conn, bytes, *ret_sent);
}

/* Of a raw block that began in a part before. */
static int
send_open(struct xport_conn *conn, const uint8_t *bytes, size_t len, uint32_t *ret_sent)
{
    struct xport_blocks *b = conn->blocks;

    *ret_sent = (uint32_t)gp_min(len, (size_t)b->tx.open);
    b->tx.open -= *ret_sent;
    return send_measured(conn, bytes, *ret_sent);
}

/* The first piece of a payload with a source, @first bytes, is here: a little less than
 * the others have, which are whole pages.  Its blocks end where pieces do, so that none
 * is sent in two writes; more of its end is kept for that. */
static void
source_cut(struct xport_blocks *b, size_t first)
{
    uint64_t body = source_left(b), piece = GP_ALIGN_UP(first, XPORT_BUFFER_PAGE);

    if (body > first && b->tx.total == b->tx.length)
        b->tx.tail = b->tx.total - first - (body - first) / piece * piece;
}

/* Begin a block, as long as the whole payload where that pays; at most @len of it is
 * here. */
static int
send_new(struct xport_conn *conn, const uint8_t *bytes, size_t len, uint32_t *ret_sent)
{
    struct xport_blocks *b = conn->blocks;
    uint64_t body, whole, run;
    uint32_t here, packed;
    int r;

    source_cut(b, len);
    body = source_left(b);
    whole = body ? body : gp_max((uint64_t)len, b->tx.total);
    run = gp_min(raw_run(b, whole), whole);
    here = (uint32_t)gp_min(run ? run : XPORT_BLOCK_PACKED, (uint64_t)len);
    packed = run ? 0 : try_pack(b, bytes, here);
    if (!packed) {
        r = send_raw(conn, bytes, run ? (uint32_t)run : here, here, ret_sent);
        if (run)
            b->tx.skip -=
                gp_min(b->tx.skip, (*ret_sent + b->tx.open) / XPORT_BLOCK_PACKED + 1);
        return r;
    }
    *ret_sent = here;
    count(b, here, packed);
    b->tx.packed++;
    r = send_packed(conn, here, b->tx.out, packed);
    if (r == 0 && conn->ops->bulk_done) /* the next one goes to the same place */
        r = conn->ops->bulk_done(conn);
    return r;
}

int
xport_blocks_send(struct xport_conn *conn, const uint8_t *buf, size_t len)
{
    struct xport_blocks *b = conn->blocks;
    int r = len ? 0 : conn->ops->flush(conn, NULL, 0);

    while (len && r == 0) {
        uint32_t sent = 0;

        r = b->tx.open ? send_open(conn, buf, len, &sent)
                       : send_new(conn, buf, len, &sent);
        b->tx.total -= gp_min(b->tx.total, (uint64_t)sent);
        buf += sent;
        len -= sent;
    }
    return r;
}

/* ---- receiving --------------------------------------------------------------------
 */

/* The next block begins: raw bytes are counted, packed ones taken. */
static int
recv_head(struct xport_conn *conn, struct xport_block *head)
{
    struct xport_blocks *b = conn->blocks;
    enum xport_block_kind kind;
    int r = xport_recv_plain(conn, head, sizeof(*head));

    if (r < 0)
        return r;
    kind = head->wire >> XPORT_BLOCK_KIND_SHIFT;
    head->wire &= WIRE_MASK;
    if (head->raw == 0)
        return -EPROTO;
    b->rx.striped = kind == XPORT_BLOCK_STRIPED;
    b->rx.reread = kind == XPORT_BLOCK_REREAD;
    if (kind == XPORT_BLOCK_RAW || b->rx.striped || b->rx.reread) {
        b->rx.raw = head->raw;
        b->rx.at = 0;
        if (b->rx.striped && !atomic_load_explicit(&b->stripes, memory_order_acquire))
            return -EPROTO;
        return head->wire == head->raw ? 0 : -EPROTO;
    }
    if (kind != XPORT_BLOCK_ZSTD || !b->zstd || b->pack == XPORT_PACK_NEVER ||
        head->raw > XPORT_BLOCK_PACKED || head->wire == 0 ||
        head->wire > XPORT_BLOCK_BOUND)
        return -EPROTO;
    if (!b->rx.in)
        b->rx.in = malloc(XPORT_BLOCK_BOUND);
    if (!b->rx.dctx)
        b->rx.dctx = b->zstd->dctx_new();
    if (!b->rx.in || !b->rx.dctx)
        return -ENOMEM;
    r = xport_recv_plain(conn, b->rx.in, head->wire);
    return r < 0 ? r : 1;
}

static int
unpack(struct xport_blocks *b, const struct xport_block *head, void *to)
{
    size_t n = b->zstd->decompress(b->rx.dctx, to, head->raw, b->rx.in, head->wire);

    count(b, head->raw, head->wire);
    return n == head->raw ? 0 : -EPROTO; /* an error is a number beyond all lengths */
}

/* Straight to its place if all of it is wanted there. */
static int
recv_block(struct xport_conn *conn, uint8_t *buf, size_t len, size_t *ret_n)
{
    struct xport_blocks *b = conn->blocks;
    struct xport_block head;
    int r = recv_head(conn, &head);

    *ret_n = 0;
    if (r <= 0)
        return r;
    if (head.raw <= len) {
        *ret_n = head.raw;
        return unpack(b, &head, buf);
    }
    if (!b->rx.out)
        b->rx.out = malloc(XPORT_BLOCK_PACKED);
    if (!b->rx.out)
        return -ENOMEM;
    r = unpack(b, &head, b->rx.out);
    b->rx.pos = 0;
    b->rx.end = r == 0 ? head.raw : 0;
    return r;
}

static int
recv_raw(struct xport_conn *conn, uint8_t *buf, size_t len)
{
    struct xport_blocks *b = conn->blocks;
    uint32_t at = b->rx.at;

    if (!b->rx.striped)
        return xport_recv_plain(conn, buf, len);
    b->rx.at += (uint32_t)len;
    if (conn->ops->stripes_recv)
        return conn->ops->stripes_recv(conn, at, buf, len);
    return xport_stripes_recv(atomic_load(&b->stripes), at, buf, len);
}

int
xport_blocks_recv(struct xport_conn *conn, uint8_t *buf, size_t len)
{
    struct xport_blocks *b = conn->blocks;

    while (len) {
        size_t n;
        int r = 0;

        if (b->rx.pos < b->rx.end) {
            n = gp_min((size_t)(b->rx.end - b->rx.pos), len);
            memcpy(buf, b->rx.out + b->rx.pos, n);
            b->rx.pos += (uint32_t)n;
        } else if (b->rx.raw) {
            n = gp_min((size_t)b->rx.raw, len);
            r = recv_raw(conn, buf, n);
            b->rx.raw -= (uint32_t)n;
            if (!b->rx.raw && b->rx.reread && r == 0 && conn->ops->acknowledge) {
                conn->ops->acknowledge(conn, UINT64_MAX, true);
                conn->payload = len - n; /* what of it the peer has not heard of */
            }
        } else {
            r = recv_block(conn, buf, len, &n);
        }
        if (r < 0)
            return r;
        buf += n;
        len -= n;
    }
    return 0;
}

/* --- stripes over further connections --- */

static int
link_hold(struct xport_conn *conn, uint32_t link)
{
    if (conn->ops->stripes_hold)
        return conn->ops->stripes_hold(conn, link);
    return link ? -ESTALE : 0;
}

static void
link_release(struct xport_conn *conn)
{
    if (conn->ops->stripes_release)
        conn->ops->stripes_release(conn);
}

/* The link is held. */
static int
stripes_put(struct xport_blocks *b, const int *fds, struct gp_wire *const *wires,
            unsigned n)
{
    struct xport_stripes *stripes = atomic_load(&b->stripes);

    if (xport_stripes_live(stripes))
        return -EALREADY;
    if (stripes)
        return stripes->n == n ? xport_stripes_renew(stripes, fds, wires) : -EINVAL;
    stripes = xport_stripes_new(fds, wires, n);
    if (!stripes)
        return -ENOMEM;
    atomic_store_explicit(&b->stripes, stripes, memory_order_release);
    return 0;
}

int
xport_stripes_add(struct xport_conn *conn, const int *fds, struct gp_wire *const *wires,
                  unsigned n, uint32_t link, struct gp_err *err)
{
    int r =
        conn->blocks && n && n <= XPORT_STRIPES_MAX ? link_hold(conn, link) : -EINVAL;

    if (r == 0) {
        r = stripes_put(conn->blocks, fds, wires, n);
        link_release(conn);
    }
    if (r < 0)
        return gp_err_set(err, r, "no place for %u more connections: %s", n,
                          strerror(-r));
    /* Not within this host, whatever the addresses say: somebody relays. */
    if (atomic_load_explicit(&conn->pieces_chosen, memory_order_relaxed))
        xport_pieces(conn, 0, 0);
    atomic_store_explicit(&conn->piece, 0, memory_order_relaxed);
    return 0;
}

int
xport_stripes_use(struct xport_conn *conn, uint32_t link)
{
    struct xport_stripes *stripes = atomic_load(&conn->blocks->stripes);
    int r = link_hold(conn, link);

    if (r < 0)
        return r;
    if (xport_stripes_live(stripes))
        atomic_store_explicit(&stripes->send, true, memory_order_release);
    link_release(conn);
    return 0;
}

uint32_t
xport_stripes_link(struct xport_conn *conn)
{
    return conn->ops->stripes_link ? conn->ops->stripes_link(conn) : 0;
}

bool
xport_stripes_here(const struct xport_conn *conn)
{
    return conn->blocks && xport_stripes_live(atomic_load(&conn->blocks->stripes));
}
