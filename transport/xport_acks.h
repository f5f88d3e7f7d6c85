/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acknowledgements of a connection that resumes (xport_resume.h): 8 bytes each, how
 * many bytes of the stream, or with XPORT_ACK_STRIPED of the striped stream, have been
 * received, on a socket of their own, which comes when one of the ends needs it.
 * Private to transport/.
 *
 * Sending: any thread, under a lock of its own, so that it need not wait for who
 * sleeps in a read.  Reading: one thread at a time.
 */
#ifndef XPORT_ACKS_H
#define XPORT_ACKS_H

#include "gp_lock.h"
#include "xport_resume.h"

#define XPORT_ACK_STRIPED (UINT64_C(1) << 63)

struct xport_acks {
    int fd;               /* -1: not here yet; keeps its number */
    struct gp_wire *wire; /* between it and the socket; NULL: nothing */
    struct gp_lock lock;
    _Atomic uint64_t received; /* by us; written by the receiver of the stream */
    _Atomic uint64_t sent;     /* of that, acknowledged; written under the lock */
    _Atomic uint64_t said;     /* of that, what a frame on its way says */
    _Atomic uint64_t striped, striped_sent; /* the same of the striped stream */
    uint8_t part[8];                        /* of one that has come in pieces */
    size_t part_len;
    bool unread; /* some were looked at and are still in the socket */
};

/* -1: not here yet.  Without the lock, by any thread. */
static inline int
xport_acks_fd(const struct xport_acks *acks)
{
    return __atomic_load_n(&acks->fd, __ATOMIC_ACQUIRE);
}

/* Received and not acknowledged. */
static inline uint64_t
xport_acks_due(const struct xport_acks *acks)
{
    return atomic_load_explicit(&acks->received, memory_order_relaxed) -
           atomic_load_explicit(&acks->sent, memory_order_relaxed);
}

/* The same, less what a frame says that is on its way. */
static inline uint64_t
xport_acks_unsaid(const struct xport_acks *acks)
{
    return atomic_load_explicit(&acks->received, memory_order_relaxed) -
           gp_max(atomic_load_explicit(&acks->sent, memory_order_relaxed),
                  atomic_load_explicit(&acks->said, memory_order_relaxed));
}

static inline uint64_t
xport_acks_striped_due(const struct xport_acks *acks)
{
    return atomic_load_explicit(&acks->striped, memory_order_relaxed) -
           atomic_load_explicit(&acks->striped_sent, memory_order_relaxed);
}

/* Is the socket here, perhaps since now? */
bool xport_acks_here(struct xport_acks *acks, const struct xport_resume_owner *owner,
                     struct xport_conn *conn);

/* The peer has heard of the first @upto bytes in another way. */
void xport_acks_heard(struct xport_acks *acks, uint64_t upto);

/* Acknowledge what has been received; where the socket is not here yet, whoever brings
 * it does so.  -errno: the link is broken. */
int xport_acks_send(struct xport_acks *acks, const struct xport_resume_owner *owner,
                    struct xport_conn *conn);

/* The greatest that have come, if they are more than *value and *striped.  -ECONNRESET:
 * no more will. */
int xport_acks_read(struct xport_acks *acks, uint64_t *value, uint64_t *striped);

/* The same; what has been read is not in the socket any more, so that poll() tells of
 * new ones only. */
int xport_acks_take(struct xport_acks *acks, uint64_t *value, uint64_t *striped);

/* Those of a new link, whose peer knows what has been received: its socket, or none. */
int xport_acks_install(struct xport_acks *acks, const struct xport_resume_link *link);

/* Closes the socket. */
void xport_acks_fini(struct xport_acks *acks);

#endif
