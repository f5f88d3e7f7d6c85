/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection that outlives its sockets, or one that begins over RDMA and goes on
 * over TCP and RDMA as either can be had.
 *
 * Both ends count the bytes of the stream, and each keeps what the other has not
 * acknowledged (xport_journal.h).  When the link breaks, whichever thread notices first
 * asks its owner for a new one; the two ends tell each other how many bytes they have,
 * and what is missing is sent again.  Nothing above sees it: frames, payloads and
 * blocks go on in the middle of a byte.
 *
 * A link is the socket that carries the stream, without a byte that the stream would
 * not have otherwise, and, from when one of the ends needs it, one for
 * acknowledgements, 8 bytes each: how many bytes have been received.  They have a
 * socket of their own because whoever waits for one must not have to read what is meant
 * for another thread. A connection that carries little never has one.
 *
 * Threads: one sender and one receiver, as ever.  tx_lock is held during a write,
 * rx_lock during a read, the sleep in it included; who replaces the sockets shuts them
 * down, which ends both, and takes both locks.  Order: recover, tx_lock, rx_lock,
 * acks.lock, which is for the socket of acknowledgements.
 *
 * Not here: how the ends find each other again and prove who they are (stub_resume.c,
 * wrk_resume.c), stripes (xport_resume_stripes.h), what is different over RDMA
 * (xport_resume_rdma.h), shared memory.
 */
#ifndef XPORT_RESUME_H
#define XPORT_RESUME_H

#include "xport.h"
#include "xport_conn.h"

/* What one end tells the other when a link is replaced, in bytes: of the stream and, of
 * payloads over stripes, how many it has received and sent. */
struct xport_resume_have {
    uint64_t received, striped, striped_sent;
};

struct xport_resume_link {
    uint32_t number;                 /* both ends know it by that; 0 was the first */
    bool rdma;                       /* fd is its control connection; see below */
    int fd, ack_fd;                  /* ack_fd -1: it comes later */
    struct gp_wire *wire, *ack_wire; /* NULL: none */
    struct xport_resume_have peer;
};

/* What the owner of a connection does for it. */
struct xport_resume_owner {
    /* A new link, for a connection of which this end has @have.  Waits, for as long as
     * the owner sees fit and xport_error() of @conn is 0.  -errno: there will be none.
     */
    int (*reconnect)(struct xport_conn *conn, const struct xport_resume_have *have,
                     struct xport_resume_link *ret);
    /* The socket for acknowledgements of the link in use, wanted now.  -EAGAIN: not
     * here yet.  Does not wait.  May be NULL, where links come with one. */
    int (*ack_link)(struct xport_conn *conn, struct xport_resume_link *ret);
    /* The peer has a new link for us, although ours seems whole.  NULL at the end that
     * connects. */
    bool (*knocks)(struct xport_conn *conn);
    /* Another link is in use.  Neither sends nor receives.  May be NULL. */
    void (*replaced)(struct xport_conn *conn);
};

/* Like xport_tcp_new().  @ack_fd (owned as well): -1 when it comes later. */
int xport_resume_new(int fd, int ack_fd, uint32_t frame_max,
                     const struct xport_resume_owner *owner, struct xport_conn **ret,
                     struct gp_err *err);

/* The same for the RDMA connection @rdma, over which nothing has gone yet; it is owned
 * on success. */
int xport_resume_new_rdma(struct xport_conn *rdma,
                          const struct xport_resume_owner *owner,
                          struct xport_conn **ret, struct gp_err *err);

/* By reconnect(), of a connection that began over RDMA: as xport_rdma_connect() and
 * xport_rdma_accept(), for a link that is RDMA again.  @ctl_fd stays the caller's.
 * After an error the link can be TCP. */
int xport_resume_rdma_connect(struct xport_conn *conn, int ctl_fd,
                              struct xport_rdma_port *ports, size_t n,
                              const uint8_t cookie[XPORT_RDMA_COOKIE],
                              uint64_t deadline_ns, struct gp_err *err);
int xport_resume_rdma_accept(struct xport_conn *conn,
                             struct xport_rdma_listener *listener, int ctl_fd,
                             const uint8_t cookie[XPORT_RDMA_COOKIE],
                             uint64_t deadline_ns, struct gp_err *err);

/* Replace a link over TCP that is whole, by the end that connects: reconnect() is asked
 * for another one, at a moment when nothing is under way, or within @patience_ns at any
 * moment.  0: also when somebody else has replaced it. */
int xport_resume_move(struct xport_conn *conn, uint64_t patience_ns);

/* The process ends, and its peer need not wait for it: of the end that connects, who is
 * the sender.  Whatever else fails, the peer waits in vain for as long as it would. */
void xport_resume_goodbye(struct xport_conn *conn);

/* To be called when ack_link() has said -EAGAIN and would not say so any more, by the
 * end that connects: the peer may wait for an acknowledgement. */
void xport_resume_acks_here(struct xport_conn *conn);

/* Whether a broken link of @conn can be replaced, over TCP or RDMA. */
bool xport_resumes(const struct xport_conn *conn);

/* The socket for acknowledgements, for the child of a fork() to close; -1: none. */
int xport_resume_ack_fd(struct xport_conn *conn);

/* Bytes that were sent again over other links.  Any thread. */
uint64_t xport_resume_replayed(struct xport_conn *conn);

#endif
