/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between a client process and its worker: frames and bulk payloads,
 * both ways, in order.  TCP, shared memory and RDMA stand behind the same calls.
 *
 * A frame is opaque but for its first four bytes: a little-endian u32 with the length
 * of the whole frame, a multiple of 8, at least 8 and at most the limit given at
 * creation. A bulk payload is raw bytes of a length that the two ends agree on through
 * the frame in front of it; it is not framed, so whoever receives such a frame must
 * take the payload next.
 *
 * Threads: one sender at a time and one receiver at a time; the two may be different
 * threads.  xport_abort() may be called from anywhere.  Errors are sticky: after the
 * first one every call returns it.
 *
 * Not here: what frames mean, authentication, reconnecting.
 */
#ifndef XPORT_H
#define XPORT_H

#include "xport_conn.h"

/* --- payloads to send --- */

/* Everything committed and then @len payload bytes leave together, without a copy where
 * the transport can; returns when @buf may be reused.  May be called again for the next
 * piece of the same payload. */
int xport_send_bulk(struct xport_conn *conn, const void *buf, size_t len);

/* The payload that is sent next has @total bytes and comes in several calls of the
 * functions here, none of which sends a byte of another: a transport may announce it as
 * one.  Not needed for a payload that one call sends. */
void xport_bulk_in_parts(struct xport_conn *conn, uint64_t total);

/* What a payload can be read again from, for as long as it is being sent. */
struct xport_source {
    /* The payload's bytes from @at on, at most @len of them; *ret stays valid until the
     * next call.  How many; -errno: the connection ends.  By the thread that sends. */
    int64_t (*read)(struct xport_source *source, uint64_t at, uint64_t len,
                    const uint8_t **ret);
};

/* xport_bulk_in_parts() of a payload with a source, whose parts need not be kept for a
 * link that breaks: xport_send_bulk_start() has a ticket for few of them.  When all
 * have been started, xport_bulk_source_done() waits until the source is of no use any
 * more.  False: it never is of any. */
bool xport_bulk_from_source(struct xport_conn *conn, uint64_t total,
                            struct xport_source *source);
int xport_bulk_source_done(struct xport_conn *conn);

/* Would xport_send_bulk() of @len bytes wait until the peer has received them?  Then a
 * reply behind them costs no time more.  Any thread. */
static inline bool
xport_bulk_waits(struct xport_conn *conn, size_t len)
{
    return conn->ops->bulk_waits && conn->ops->bulk_waits(conn, len);
}

/* xport_send_bulk(), but @buf is in use until xport_send_bulk_wait() has returned for
 * the ticket (0: not any more).  Pieces end in the order they were started; up to 16
 * help. */
int xport_send_bulk_start(struct xport_conn *conn, const void *buf, size_t len,
                          uint64_t *ret_ticket);
int xport_send_bulk_wait(struct xport_conn *conn, uint64_t ticket);

/* --- receiving --- */

/* The next whole frame; *ret_frame stays valid until the next receive call.  -EAGAIN:
 * none until @deadline_ns (0: do not wait, GP_FOREVER).  -EPROTO: a length no frame may
 * have. -ECONNRESET: the other end is gone.  Spins shortly before it sleeps when that
 * has paid on this connection. */
int xport_recv(struct xport_conn *conn, const void **ret_frame, uint32_t *ret_size,
               uint64_t deadline_ns);

/* A frame of @size bytes behind the one received last, if so many bytes are here; it
 * has been looked at by nobody, its own idea of its size included.  xport_take(): it
 * was received, and stays valid like the one before it. */
static inline const void *
xport_ahead(const struct xport_conn *conn, uint32_t size)
{
    if ((size_t)(conn->rx.end - conn->rx.pos) < size ||
        __atomic_load_n(&conn->error, __ATOMIC_RELAXED))
        return NULL;
    return conn->rx.pos;
}

static inline void
xport_take(struct xport_conn *conn, uint32_t size)
{
    conn->rx.pos += size;
}

/* @len payload bytes straight into @buf; waits for as long as the link lives. */
int xport_recv_bulk(struct xport_conn *conn, void *buf, size_t len);

/* The same, but the bytes are all there only when xport_recv_bulk_wait() has returned
 * for the ticket (0: they are).  The next piece may be started before; no frame may be
 * received before. */
int xport_recv_bulk_start(struct xport_conn *conn, void *buf, size_t len,
                          uint64_t *ret_ticket);
int xport_recv_bulk_wait(struct xport_conn *conn, uint64_t ticket);

/* Where XPORT_CAN_EXCHANGE: the memory that frames are received into becomes the
 * caller's, the frame that was received last included, and @buffer, from
 * xport_exchange_new() or an earlier call, takes its place.  Both have *@ret_size bytes
 * and whole pages, and are free()d by who has them.  NULL: no memory. */
void *xport_exchange(struct xport_conn *conn, void *buffer);
void *xport_exchange_new(const struct xport_conn *conn, size_t *ret_size);

/* Whether xport_recv() would find a byte without asking the kernel. */
static inline bool
xport_buffered(const struct xport_conn *conn)
{
    return conn->rx.pos != conn->rx.end;
}

/* The sender of the payload that is received next waits for a reply, with which it uses
 * xport_confirm(): so it need not be told before, only if that takes long. */
static inline void
xport_answers(struct xport_conn *conn)
{
    conn->answers = true;
}

/* A payload has been received whole.  Only a hint: over some connections the sender of
 * a long one goes on sooner. */
static inline void
xport_acknowledge(struct xport_conn *conn)
{
    uint64_t len = conn->payload;

    conn->payload = 0;
    if (conn->ops->acknowledge)
        conn->ops->acknowledge(conn, len, false);
    conn->answers = false;
}

/* --- payloads where they lie --- */

/*
 * Over shared memory a payload can be read, or made, where it passes, without a copy to
 * or from memory of one's own.  False: not over this connection.  @ret: the memory that
 * payloads come from, and that they go to; the same for the life of the connection.
 */
bool xport_ring_region(struct xport_conn *conn, struct iovec ret[2]);

/* Payload bytes that were received before their turn: xport_recv_bulk() takes them. */
static inline size_t
xport_received(const struct xport_conn *conn)
{
    return (size_t)(conn->rx.end - conn->rx.pos);
}

/* The payload's bytes from @ahead on, as many as lie there together, at most @len.  The
 * peer may still change them.  With @ahead 0 it waits for some; otherwise *ret_n may be
 * 0.  xport_drop_bulk(): the first @n are done with.  Not while xport_received(). */
int xport_peek_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                    size_t *ret_n);
void xport_drop_bulk(struct xport_conn *conn, size_t n);

/* The same for sending: room for bytes of the payload, from @ahead on after those that
 * xport_push_bulk() has sent.  What was committed before is flushed first.
 *
 * @more: the caller will not wait before it pushes the next bytes, or none (@n 0)
 * without
 * @more.  A peer that sleeps on this core is woken then: woken now, it would only
 * interrupt the caller. */
int xport_room_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
                    size_t *ret_n);
void xport_push_bulk(struct xport_conn *conn, size_t n, bool more);

/* --- descriptors --- */

/* Hand @fd (borrowed) to the peer, which takes it when a frame says that it has come;
 * in the order of handing over.  Only over shared memory, else -EOPNOTSUPP.  Taking
 * never waits: the descriptor, or -errno.  -EMFILE and -EPROTO: what came is lost, and
 * the next one is the next.  Any other error ends the connection. */
int xport_give_fd(struct xport_conn *conn, int fd);
int xport_take_fd(struct xport_conn *conn);

/* --- life --- */

/* Look at the system for what TCP connections need to know, which the first one does
 * where a process may make sockets by then. */
void xport_tcp_start(void);

/* A connection over the connected stream socket @fd, which it owns from then on (made
 * blocking).  @frame_max <= XPORT_FRAME_LIMIT. */
int xport_tcp_new(int fd, uint32_t frame_max, struct xport_conn **ret,
                  struct gp_err *err);

/* Shared memory between two processes of one host, over the connected Unix socket
 * @sock_fd (owned from then on): the worker offers, the client accepts.  Whether both
 * will, and with @wakefds to sleep on (faster than without), has been agreed in the
 * handshake before. */
int xport_shm_offer(int sock_fd, bool wakefds, uint32_t frame_max,
                    struct xport_conn **ret, struct gp_err *err);
int xport_shm_accept(int sock_fd, bool wakefds, uint32_t frame_max,
                     uint64_t deadline_ns, struct xport_conn **ret, struct gp_err *err);

/*
 * RDMA: the worker listens at its ports, tells the client where and a cookie on the
 * control connection @ctl_fd, and accepts the one connection that shows the cookie.
 * The control socket is owned from then on; its end is the peer's end.  -EOPNOTSUPP: no
 * verbs library here; the words of any failure say why TCP must do.  Accepting uses the
 * listener up; free it all the same.
 */
#define XPORT_RDMA_COOKIE 16
/* Ports of one host that are looked at: more than any machine has adapters. */
#define XPORT_RDMA_PORTS_MAX 16

/* An address of an RDMA port, as numbers and dots (or colons). */
struct xport_rdma_port {
    char host[46];
    char device[32]; /* "mlx5_0"; empty: not known here */
    unsigned prefix; /* bits that the subnet has in common; 0: not known */
    unsigned port;   /* where something listens */
};

/* Whether this host has an RDMA device and the libraries for it; words when not. */
int xport_rdma_usable(struct gp_err *err);

/* This host's own ports, without loopback and link-local addresses; how many.  0 with
 * words: none. */
size_t xport_rdma_ports(struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX],
                        struct gp_err *err);

/* Addresses with commas between them, as a server is told and tells of its ports; how
 * many. */
size_t xport_rdma_parse_ports(const char *list,
                              struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX]);

/* The @n ports of a server into the order in which a host with those @n_own ports
 * should try them: those on a subnet of its own first, else as they were.  How many
 * those are.
 */
size_t xport_rdma_rank(struct xport_rdma_port *ports, size_t n,
                       const struct xport_rdma_port *own, size_t n_own);

struct xport_rdma_listener;
/* Listen at @n addresses; each that can be listened at gets its port number, the others
 * 0.  -ENODEV: none can. */
int xport_rdma_listen(struct xport_rdma_port *ports, size_t n,
                      struct xport_rdma_listener **ret, struct gp_err *err);
void xport_rdma_listener_free(struct xport_rdma_listener *listener);
int xport_rdma_accept(struct xport_rdma_listener *listener, int ctl_fd,
                      const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                      uint64_t deadline_ns, struct xport_conn **ret,
                      struct gp_err *err);
/* To the first of the server's @n ports that can be reached; they are put into order.
 */
int xport_rdma_connect(int ctl_fd, struct xport_rdma_port *ports, size_t n,
                       const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                       uint64_t deadline_ns, struct xport_conn **ret,
                       struct gp_err *err);

/* Does one of the server's @ports answer?  Nothing need listen there; @ports are put in
 * the order in which they are tried. */
int xport_rdma_probe(struct xport_rdma_port *ports, size_t n, uint64_t deadline_ns,
                     struct gp_err *err);

/* Payloads will come from or go to this range, and its owner calls xport_unpin() before
 * it goes away: RDMA may keep it registered.  Nothing for other transports.  Any
 * thread. */
void xport_pin(struct xport_conn *conn, const void *addr, size_t len);
void xport_unpin(struct xport_conn *conn, const void *addr);

/*
 * Liveness of the peer.  A dead process does not wake a thread that sleeps on shared
 * memory, and a dead host does not wake one that sleeps on a socket.  A thread that
 * promises to call xport_look() often calls xport_watch() once; then sleepers need no
 * timers of their own.  Often means ten times a second for shared memory, or whenever
 * the socket hangs up; and once a second for TCP, for as long as xport_look() returns
 * true, which says that sent bytes are unacknowledged.  xport_look() breaks a
 * connection whose peer is dead: its error is then -ETIMEDOUT for TCP.  Any thread.
 */
void xport_watch(struct xport_conn *conn);
bool xport_look(struct xport_conn *conn);

/*
 * Windows: memory of a card that the RDMA adapter reaches by itself, at the card's own
 * addresses.  With @dmabuf_fd (borrowed) that is what is registered, else the address.
 * A window must not go while a transfer uses it.  Any thread.
 */
int xport_window_add(struct xport_conn *conn, uint64_t addr, size_t len, int dmabuf_fd,
                     struct gp_err *err);
void xport_window_remove(struct xport_conn *conn, uint64_t addr);
/* Whether the adapter takes dma-bufs at all. */
int xport_window_probe(struct xport_conn *conn, struct gp_err *err);

/* Of the payload that comes next, as many of @len bytes as can go straight into a
 * window; waits until they are there.  0: they must be received the usual way (a piece
 * of it, then this may be asked again). */
int xport_recv_bulk_direct(struct xport_conn *conn, uint64_t addr, size_t len,
                           size_t *ret_n);
/* A payload straight from a window; xport_send_bulk_wait() as ever.  -EOPNOTSUPP: not
 * over this link.  One that breaks gives back what the peer has not fetched of such
 * payloads, which are the last ones that were sent then: xport_sent() is less again. */
int xport_send_bulk_direct(struct xport_conn *conn, uint64_t addr, size_t len,
                           uint64_t *ret_ticket);

/* Break the link: calls in progress on any thread return an error soon.  Async-signal
 * unsafe, thread-safe, idempotent. */
void xport_abort(struct xport_conn *conn);

void xport_free(struct xport_conn *conn); /* NULL is a no-op; closes */
DEFINE_CLEANUP(struct xport_conn, xport_free)

static inline const char *
xport_name(const struct xport_conn *conn)
{
    return conn->ops->name;
}

#endif
