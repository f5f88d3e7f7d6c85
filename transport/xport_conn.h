/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every connection is made of, below the calls of xport.h: the type, the table of
 * functions that a transport implements, the send buffer, and the options that a
 * connection is given after it was made.  Users include xport.h, which includes this.
 *
 * Modules that implement transports or payloads (streams, blocks, stripes) include this
 * header and never xport.h, because xport.c stands on top of them.
 */
#ifndef XPORT_CONN_H
#define XPORT_CONN_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

struct gp_err;
struct gp_wire;
struct xport_block;
struct xport_blocks;
struct xport_conn;

#define XPORT_FRAME_MIN 8
/* What begins with this instead of the length of a frame ends the stream, where a
 * transport has such an end. */
#define XPORT_LAST_FRAME UINT64_C(0)
/* Largest frame any connection may be made for: bounds the receive buffer. */
#define XPORT_FRAME_LIMIT (1u << 20)

enum xport_kind {
    XPORT_KIND_TCP = 1,
    XPORT_KIND_SHM,
    XPORT_KIND_RDMA,
};

/* What a transport can do for those above it: they ask for these (xport_can()) and
 * never for its name. */
#define XPORT_CAN_BLOCKS 0x1u /* payloads in blocks: compressed, over stripes */
#define XPORT_CAN_SHARE                                                                \
    0x2u /* both ends are on one host: files can be mapped by both */
#define XPORT_CAN_WINDOWS 0x4u /* an adapter reads and writes registered memory */
#define XPORT_CAN_NAME 0x8u    /* payloads cost enough that naming known ones pays */
#define XPORT_CAN_LEND                                                                 \
    0x10u /* payloads stay lent until the peer has them, or are copied */
#define XPORT_CAN_EXCHANGE 0x20u /* frames can be received into another buffer */

/* What a transport implements; see xport_tcp.c for the plainest one. */
struct xport_ops {
    const char *name; /* "tcp", "shm", "rdma": for people */
    enum xport_kind kind;
    unsigned can; /* XPORT_CAN_* */
    /* Make @n contiguous bytes available at tx.pos, sending what is there if need be.
     */
    int (*reserve)(struct xport_conn *conn, size_t n);
    /* The same if nothing waits to be sent and it can be had at once, else false; NULL:
     * where nothing waits, reserve has nothing to do. */
    bool (*reserve_now)(struct xport_conn *conn, size_t n);
    int (*flush)(struct xport_conn *conn, const void *bulk, size_t len);
    int (*flush_now)(struct xport_conn *conn); /* may be NULL */
    /* More bytes into the receive buffer: up to the whole of the next frame.  -EAGAIN:
     * nothing there and @deadline_ns (gp_now_ns clock; 0: do not wait) has passed. */
    int (*fill)(struct xport_conn *conn, uint64_t deadline_ns);
    int (*recv_bulk)(struct xport_conn *conn, void *buf, size_t len);
    /* Several payloads (pieces) under way; NULL where they go one by one anyway. */
    int (*send_start)(struct xport_conn *conn, const void *bulk, size_t len,
                      uint64_t *ret_ticket);
    int (*send_wait)(struct xport_conn *conn, uint64_t ticket);
    int (*recv_start)(struct xport_conn *conn, void *buf, size_t len,
                      uint64_t *ret_ticket);
    int (*recv_wait)(struct xport_conn *conn, uint64_t ticket);
    /* A piece of a payload whose bytes need not be kept, for they can be read again at
     * @at of conn->blocks->tx.source; and the wait until none of them will be.  NULL:
     * nothing is ever sent again, or what is has to be kept. */
    int (*flush_source)(struct xport_conn *conn, const void *bulk, size_t len,
                        uint64_t at);
    int (*source_done)(struct xport_conn *conn);
    /* The payload that was sent last is its caller's again; NULL where it is at once.
     */
    int (*bulk_done)(struct xport_conn *conn);
    /* Does that wait for the peer, for a payload of @len bytes?  NULL: never. */
    bool (*bulk_waits)(struct xport_conn *conn, size_t len);
    /* A payload of @len bytes has been received whole: its sender may be waiting to
     * hear so.  With @surely it is, for a block that it has kept nothing of. */
    void (*acknowledge)(struct xport_conn *conn, uint64_t len, bool surely);
    /* The peer has received the first @upto bytes.  Any thread.  NULL: of no use. */
    void (*confirm)(struct xport_conn *conn, uint64_t upto);
    /* How many of the bytes received the peer has not heard of; a frame that says the
     * first @upto has been sent; the peer has heard of these.  Any thread.  NULL, all
     * three: of no use. */
    uint64_t (*unheard)(const struct xport_conn *conn, uint64_t *ret_received);
    void (*said)(struct xport_conn *conn, uint64_t upto);
    void (*heard)(struct xport_conn *conn, uint64_t upto);
    /* Where payloads over stripes survive a cut (xport_resume_stripes.h).  Between the
     * first two the link in use is number @link and is not replaced (-ESTALE: it is
     * another one); then a run behind its announcement @head, which waits to be sent;
     * bytes of a run.  NULL: the stripes alone carry them. */
    int (*stripes_hold)(struct xport_conn *conn, uint32_t link);
    void (*stripes_release)(struct xport_conn *conn);
    int (*stripes_send)(struct xport_conn *conn, struct xport_block *head,
                        const void *bytes, uint32_t len);
    int (*stripes_recv)(struct xport_conn *conn, uint64_t at, uint8_t *buf, size_t len);
    uint32_t (*stripes_link)(struct xport_conn *conn); /* the number of the link */
    /* From and to windows; NULL where there are none. */
    int (*send_direct)(struct xport_conn *conn, uint64_t addr, size_t len,
                       uint64_t *ret_ticket);
    int (*recv_direct)(struct xport_conn *conn, uint64_t addr, size_t len,
                       size_t *ret_n);
    /* The connection whose adapter reaches memory for this one; NULL: this one. */
    struct xport_conn *(*below)(struct xport_conn *conn);
    /* What the link in use is, where that changes; NULL: always @kind. */
    enum xport_kind (*link_kind)(const struct xport_conn *conn);
    /* XPORT_LAST_FRAME has come: what the connection ends with; NULL: -EPROTO. */
    int (*ended)(struct xport_conn *conn);
    void (*realign)(struct xport_conn *conn); /* rx.pos to a multiple of 8 */
    void (*abort)(struct xport_conn *conn);
    void (*free)(struct xport_conn *conn);
    /* Where payloads pass through memory that both ends see; NULL elsewhere. */
    void (*window)(struct xport_conn *conn, struct iovec ret[2]);
    int (*peek_bulk)(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                     size_t *ret_n);
    void (*drop_bulk)(struct xport_conn *conn, size_t n);
    int (*room_bulk)(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                     size_t *ret_n);
    void (*push_bulk)(struct xport_conn *conn, size_t n, bool more);
    int (*give_fd)(struct xport_conn *conn, int fd); /* NULL where there is no socket */
    int (*take_fd)(struct xport_conn *conn);         /* that carries descriptors */
    void (*watch)(struct xport_conn *conn);          /* may be NULL, like look */
    /* xport_look(); an error ends the connection. */
    int (*look)(struct xport_conn *conn, bool *ret_again);
};

struct xport_stats {
    uint64_t tx_bytes, rx_bytes;  /* frames and payloads */
    uint64_t tx_writes, rx_reads; /* system calls (or doorbells) */
    uint64_t rx_spun, rx_slept; /* waits that ended while spinning, or after sleeping */
};

/* The part every transport shares; its first fields are the hot path of the sender. */
struct xport_conn {
    _Alignas(64) struct {
        uint8_t *pos, *end; /* room for the next frame */
        uint8_t *base;      /* first byte not sent yet */
        /* Flushes that have left something.  A layer may have sealed it, so what waited
         * then must not be changed any more. */
        uint32_t partial;
    } tx;
    int error; /* sticky, -errno; written by the first thread that sees it */
    const struct xport_ops *ops;
    uint32_t frame_max;
    /* xport_piece(), xport_piece_in(): set by the transport, or xport_pieces(). */
    _Atomic uint32_t piece, piece_in;
    _Atomic uint32_t pieces_chosen; /* the length to send that was set, or 0 */
    int fd;           /* the socket behind it; its end is the peer's end */
    atomic_bool near; /* TCP, and the peer less than a millisecond away */
    /* bytes of it that xport_recv_bulk() has received; the reader's */
    uint64_t payload;
    struct xport_blocks *blocks; /* how payloads travel; NULL: as they are */
    /* The next cache line: the receiver's. */
    struct {
        uint8_t *pos, *end; /* received, not yet consumed */
    } rx;
    struct xport_stats stats;
    bool answers; /* the payload under way has a sender who waits for a reply */
};

static inline bool
xport_can(const struct xport_conn *conn, unsigned what)
{
    return (conn->ops->can & what) == what;
}

/* What the connection goes over now, which may be another transport a moment later. Any
 * thread. */
static inline enum xport_kind
xport_link_kind(const struct xport_conn *conn)
{
    return conn->ops->link_kind ? conn->ops->link_kind(conn) : conn->ops->kind;
}

/* --- pieces of payloads --- */

/*
 * How long pieces of a payload best are depends on the caches and the cores of both
 * ends: short ones stay in a cache between the two copies that each end makes of them,
 * long ones are fewer turns between sender and receiver.  So both lengths are tried
 * where it may be worth it, by who sees when a copy has ended.
 */

/* Is it worth trying?  Over TCP without further connections, to a peer so near that a
 * long payload has been received when its call ends.  Any thread. */
bool xport_pieces_matter(const struct xport_conn *conn);

/* The length to try besides 0. */
uint32_t xport_piece_short(void);

/* From now on, also over the links that replace this one, pieces of @out bytes are sent
 * and pieces of @in bytes received; 0: what this end takes without being told.  Any
 * thread. */
void xport_pieces(struct xport_conn *conn, uint32_t out, uint32_t in);

static inline bool
xport_is_near(const struct xport_conn *conn)
{
    return atomic_load_explicit(&conn->near, memory_order_relaxed);
}

/* How long the pieces best are in which a payload is sent, and received; 0: as the user
 * likes.  Any thread. */
static inline uint32_t
xport_piece(const struct xport_conn *conn)
{
    return xport_link_kind(conn) == XPORT_KIND_TCP
               ? atomic_load_explicit(&conn->piece, memory_order_relaxed)
               : 0;
}

static inline uint32_t
xport_piece_in(const struct xport_conn *conn)
{
    return xport_link_kind(conn) == XPORT_KIND_TCP
               ? atomic_load_explicit(&conn->piece_in, memory_order_relaxed)
               : 0;
}

/* --- frames to send --- */

/* Contiguous, 8-aligned space for a frame of @n bytes (a multiple of 8, <= frame_max);
 * NULL when the connection is dead.  Nothing is sent by it unless the buffer is full.
 */
static inline void *
xport_reserve(struct xport_conn *conn, size_t n)
{
    if (likely((size_t)(conn->tx.end - conn->tx.pos) >= n))
        return conn->tx.pos;
    return conn->ops->reserve(conn, n) < 0 ? NULL : conn->tx.pos;
}

/* Is there room for a frame of @n bytes, or is some made without sending or waiting? */
static inline bool
xport_reserve_now(struct xport_conn *conn, size_t n)
{
    if (likely((size_t)(conn->tx.end - conn->tx.pos) >= n))
        return true;
    return conn->ops->reserve_now && conn->ops->reserve_now(conn, n);
}

/* The frame at the reserved place is complete: it goes out with the next flush. */
static inline void
xport_commit(struct xport_conn *conn, size_t n)
{
    conn->tx.pos += n;
}

/* Bytes that wait for a flush. */
static inline size_t
xport_pending(const struct xport_conn *conn)
{
    return (size_t)(conn->tx.pos - conn->tx.base);
}

/* How many bytes of the stream have been sent.  Of the sender. */
static inline uint64_t
xport_sent(const struct xport_conn *conn)
{
    return conn->stats.tx_bytes;
}

/* A reply shows that the peer has received the first @upto bytes, xport_sent() when the
 * request had been flushed: what was kept of them may be forgotten.  Any thread. */
static inline void
xport_confirm(struct xport_conn *conn, uint64_t upto)
{
    if (conn->ops->confirm)
        conn->ops->confirm(conn, upto);
}

/* Is that of use?  Then who waits for a reply anyway need not wait for the
 * acknowledgement of a payload in front of it: xport_send_bulk_start(). */
static inline bool
xport_confirms(const struct xport_conn *conn)
{
    return conn->ops->confirm != NULL;
}

/* The other direction, for who says it in a frame: how many of the bytes received the
 * peer has not heard of (0: it need not); that a frame which says the first @upto is on
 * its way, so that the reply to it is not acknowledged at once; and that the peer has
 * heard it.  Any thread. */
static inline uint64_t
xport_unheard(const struct xport_conn *conn, uint64_t *ret_received)
{
    *ret_received = 0;
    return conn->ops->unheard ? conn->ops->unheard(conn, ret_received) : 0;
}

static inline void
xport_said(struct xport_conn *conn, uint64_t upto)
{
    if (conn->ops->said)
        conn->ops->said(conn, upto);
}

static inline void
xport_heard(struct xport_conn *conn, uint64_t upto)
{
    if (conn->ops->heard)
        conn->ops->heard(conn, upto);
}

/* Everything committed leaves, in one write where the transport can. */
int xport_flush(struct xport_conn *conn);

/* What there is room for leaves: -EAGAIN when some still waits for a flush.  For those
 * who must not wait, because it may be they whom the peer waits for.  Where
 * xport_flushes_now() only. */
int xport_flush_now(struct xport_conn *conn);

static inline bool
xport_flushes_now(const struct xport_conn *conn)
{
    return conn->ops->flush_now != NULL;
}

/* What one thread sends happens before what another then receives: the answer came from
 * a peer who had seen it.  The thread sanitizer knows that of a socket, but not of the
 * one that replaces it, nor of rings (xport_ring.h). */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define XPORT_SENT(conn) __tsan_release(conn)
#define XPORT_RECEIVED(conn) __tsan_acquire(conn)
#else
#define XPORT_SENT(conn) ((void)0)
#define XPORT_RECEIVED(conn) ((void)0)
#endif

/* The first error of a connection is its error for ever; returns @r. */
int xport_fail(struct xport_conn *conn, int r);

static inline int
xport_error(const struct xport_conn *conn)
{
    return __atomic_load_n(&conn->error, __ATOMIC_RELAXED);
}

/* @len payload bytes as they came, without regard to blocks: what is buffered, then
 * from the transport. */
int xport_recv_plain(struct xport_conn *conn, void *buf, size_t len);

/* --- the stream below --- */

/* From now on the bytes of the TCP connection @conn pass through @wire (gp_wire.h),
 * both ways; it is the connection's on success.  Before the first frame, once. */
int xport_wire_start(struct xport_conn *conn, struct gp_wire *wire, struct gp_err *err);

/* --- payloads in blocks --- */

enum xport_pack {
    XPORT_PACK_NEVER,
    XPORT_PACK_AUTO,   /* where it is faster, as measured */
    XPORT_PACK_ALWAYS, /* wherever it makes less */
};

/* Can this process compress at all? */
bool xport_pack_usable(void);

/* From now on payloads of the TCP connection @conn travel in blocks, both ways, and
 * @pack says when this end compresses one; the other end does the same call.  What was
 * agreed before; nothing of a payload is under way.  -ENOENT: no libzstd. */
int xport_blocks_start(struct xport_conn *conn, enum xport_pack pack,
                       struct gp_err *err);

/* The peer of @conn, whose payloads travel in blocks, knows XPORT_BLOCK_REREAD. */
void xport_blocks_peer_rereads(struct xport_conn *conn);

/* Count there what was compressed, of both directions: bytes before and after. */
void xport_blocks_count(struct xport_conn *conn, _Atomic uint64_t *raw,
                        _Atomic uint64_t *wire);

/*
 * More connections for long lines.  Each end adds its sockets of the same connections
 * in the same order, which it owns from then on, each with its layer of @wires (NULL:
 * none of them has one), and takes stripes at once; it sends
 * some when xport_stripes_use() says that the other end has added its own, and when
 * measuring says that it is faster.  Only with blocks, and once for each link: number
 * @link, which is 0 where the connection has one link for ever.
 *
 * -ESTALE: another link is in use by now.  -EALREADY: this one has its stripes.
 */
#define XPORT_STRIPES_MAX 8
int xport_stripes_add(struct xport_conn *conn, const int *fds,
                      struct gp_wire *const *wires, unsigned n, uint32_t link,
                      struct gp_err *err);
int xport_stripes_use(struct xport_conn *conn, uint32_t link);

/* The number of the link in use, which may be another one a moment later, and whether
 * it has stripes.  Any thread. */
uint32_t xport_stripes_link(struct xport_conn *conn);
bool xport_stripes_here(const struct xport_conn *conn);

/* --- liveness --- */

/* After how many seconds without an acknowledgement a TCP connection of this process
 * is broken.  For connections made after the call.  The default bridges a restarting
 * switch; the least is what retransmission needs to mean anything. */
#define XPORT_LINK_TIMEOUT_S 15
#define XPORT_LINK_TIMEOUT_MIN_S 3
#define XPORT_LINK_TIMEOUT_MAX_S 3600
/* For how many seconds a broken link may stay broken (xport_resume.h). */
#define XPORT_RESUME_S 60
#define XPORT_RESUME_MAX_S 86400
void xport_set_link_timeout(uint32_t seconds);
uint32_t xport_link_timeout(void);

#endif
