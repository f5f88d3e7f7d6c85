/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a connection that outlives its sockets (xport_resume.h): what replaces
 * its link and reads (xport_resume.c), what sends (xport_resume_send.c), and what a
 * first link over RDMA does otherwise (xport_resume_rdma.c).  Private to these three.
 */
#ifndef XPORT_RESUME_CONN_H
#define XPORT_RESUME_CONN_H

#include "gp_lock.h"
#include "xport_acks.h"
#include "xport_journal.h"
#include "xport_liveness.h"
#include "xport_resume.h"
#include "xport_resume_stripes.h"
#include "xport_stream.h"

#include <errno.h>
#include <stdatomic.h>

/* Received bytes that are not acknowledged yet, at most: in frames, by the end that
 * connects and by the one that is connected to, and in payloads.  Each acknowledgement
 * costs as much as 4 KiB of a payload, and the work of a hundred asynchronous calls,
 * whose frames are most of what the second end receives; what else comes there is
 * confirmed by replies, or is a payload.  All of them below what a journal holds of the
 * least favourable frames (XPORT_JOURNAL_BLOCKS_NEAR), or a sender could wait for ever.
 */
#define XPORT_ACK_REPLIES (512u << 10)
#define XPORT_ACK_CALLS (384u << 10)
#define XPORT_ACK_BULK (1u << 20)
/* Of what nobody waits to have acknowledged: payloads that can be read again, and
 * uploads from nearby until so much of them is left. */
#define XPORT_ACK_SELDOM (8u << 20)
#define XPORT_ACK_TAIL (2u << 20)
/* The end of a payload is acknowledged at once (xport_acknowledge()) when so much is
 * due; what its sender has lent it copies up to here, without waiting.  Copying 128 KiB
 * takes as long as an acknowledgement and its way through both kernels.  Of one that is
 * answered, the payload itself may be due as well, up to XPORT_ACK_TAIL. */
#define XPORT_ACK_END (128u << 10)
/* That of one of up to so many bytes when so much is due: its sender has copied it, and
 * waits only when more than this is lent. */
#define XPORT_ACK_SHORT (576u << 10) /* two pieces, their headers, and some replies */
/* Over RDMA they come with the credits, and looking at them costs nothing. */
#define XPORT_ACK_RDMA (64u << 10)
/* Of a link over RDMA: no acknowledgement is waited for. */
#define XPORT_TRIP_RDMA_NS GP_NS_PER_S

struct xport_resume_rdma;

struct xport_resume_conn {
    struct xport_stream stream;
    const struct xport_resume_owner *owner;
    struct xport_resume_rdma *rdma; /* xport_resume_rdma.h; NULL: it began as TCP */
    struct xport_liveness live;
    struct xport_acks acks;
    struct gp_lock tx_lock, rx_lock; /* in a write; in a read */
    struct gp_lock recover;          /* somebody replaces the link */
    _Atomic uint32_t epoch;          /* links before this one; under both locks */
    _Atomic uint32_t number;         /* of the link, as the owners call it; the same */
    atomic_bool replaying;           /* replay_at < journal.end; under tx_lock */
    uint32_t ack_after;    /* so many bytes of frames; XPORT_ACK_CALLS or _REPLIES */
    _Atomic uint64_t seen; /* acks.received at the last look */
    _Atomic uint64_t confirmed; /* bytes that replies say the peer has; 0: none */

    /* Under tx_lock. */
    struct xport_journal journal;
    /* Bytes behind the journal's end that may have left: of the write under way, or of
     * one without waiting, of which a layer keeps sealed ones that it could not send.
     */
    uint64_t writing;
    uint64_t replay_at; /* the next byte to send again */
    uint64_t peer_at;   /* what the peer had when this link began */
    uint64_t trip_ns;   /* the shortest round trip of the link */
    uint64_t looked_at; /* journal.end when acknowledgements were read last */
    uint64_t replayed;
    bool left; /* the link is broken, and the reader replaces it */
    struct xport_striped *_Atomic striped; /* NULL: there never were stripes */
};

static inline struct xport_resume_conn *
xport_resume_of(struct xport_conn *conn)
{
    return container_of(xport_stream_of(conn), struct xport_resume_conn, stream);
}

/* The end that is connected to. */
static inline bool
xport_resume_passive(const struct xport_resume_conn *rc)
{
    return rc->owner->knocks != NULL;
}

/* Not what a new link mends. */
static inline bool
xport_resume_fatal(int r)
{
    return r == -EPROTO || r == -ENOMEM || r == -EMSGSIZE;
}

/* Is the link RDMA?  Constant for who holds one of the locks. */
bool xport_resume_rdma_is_on(const struct xport_resume_rdma *rdma);

static inline bool
xport_resume_over_rdma(const struct xport_resume_conn *rc)
{
    return unlikely(rc->rdma != NULL) && xport_resume_rdma_is_on(rc->rdma);
}

/* The peer acknowledges after so many bytes of frames. */
static inline uint64_t
xport_resume_acks_every(const struct xport_resume_conn *rc)
{
    if (xport_resume_over_rdma(rc))
        return XPORT_ACK_RDMA;
    return xport_resume_passive(rc) ? XPORT_ACK_REPLIES : XPORT_ACK_CALLS;
}

/* ---- links and acknowledgements (xport_resume.c) ----------------------------------
 */

/* Is the socket for acknowledgements here, perhaps since now? */
bool xport_resume_have_acks(struct xport_resume_conn *rc);

/* Under tx_lock: forget what the peer has acknowledged, or a reply has confirmed.
 * -ECONNRESET: no more will come over this link.  -EPROTO. */
int xport_resume_acks_read(struct xport_resume_conn *rc);
void xport_resume_confirmed_take(struct xport_resume_conn *rc);

/* Under tx_lock: sleep until some acknowledgements may have come.  -ETIMEDOUT;
 * -ECONNRESET: the link broke meanwhile. */
int xport_resume_acks_wait(struct xport_resume_conn *rc, uint64_t deadline_ns);

/* The link that was number @epoch is broken: 0 when there is another one.  Without
 * locks. */
int xport_resume_recover(struct xport_resume_conn *rc, uint32_t epoch);

/* Acknowledge what has been received. */
void xport_resume_ack(struct xport_resume_conn *rc);

/* Send again what the peer did not get, under tx_lock.  With MSG_DONTWAIT as @flags
 * -EAGAIN: not all of it yet.  Without, by the sender, who reads sources. */
int xport_resume_replay(struct xport_resume_conn *rc, int flags);
/* As much of that as goes without waiting, by those who read: nobody may be sending.
 * What fails here fails for the next who sends or reads. */
void xport_resume_replay_some(struct xport_resume_conn *rc);

/* For struct xport_ops. */
void xport_resume_acknowledge(struct xport_conn *conn, uint64_t len, bool surely);
uint64_t xport_resume_unheard(const struct xport_conn *conn, uint64_t *ret_received);
void xport_resume_said(struct xport_conn *conn, uint64_t upto);
void xport_resume_heard(struct xport_conn *conn, uint64_t upto);
int xport_resume_ended(struct xport_conn *conn);
int xport_resume_look(struct xport_conn *conn, bool *ret_again);
void xport_resume_abort(struct xport_conn *conn);
void xport_resume_free(struct xport_conn *conn);
extern const struct xport_ops xport_resume_rdma_ops; /* xport_resume_rdma.c */

/* ---- sending (xport_resume_send.c); see struct xport_ops --------------------------
 */

int xport_resume_reserve(struct xport_conn *conn, size_t n);
bool xport_resume_reserve_now(struct xport_conn *conn, size_t n);
int xport_resume_flush(struct xport_conn *conn, const void *bulk, size_t len);
int xport_resume_flush_source(struct xport_conn *conn, const void *bulk, size_t len,
                              uint64_t at);
int xport_resume_source_done(struct xport_conn *conn);
int xport_resume_flush_now(struct xport_conn *conn);
int xport_resume_bulk_done(struct xport_conn *conn);
bool xport_resume_bulk_waits(struct xport_conn *conn, size_t len);
int xport_resume_send_start(struct xport_conn *conn, const void *bulk, size_t len,
                            uint64_t *ret_ticket);
int xport_resume_send_wait(struct xport_conn *conn, uint64_t ticket);
void xport_resume_confirm(struct xport_conn *conn, uint64_t upto);

/* For xport_resume_stripes.c, under tx_lock.  One write of everything that waits and of
 * @bulk; what has been sent goes into the journal. */
int xport_resume_send_locked(struct xport_resume_conn *rc, const void *bulk,
                             size_t len);
/* The link is broken: the reader replaces it (true), or this end has to. */
bool xport_resume_leave(struct xport_resume_conn *rc);
/* Replace it; the lock is released meanwhile. */
int xport_resume_recover_locked(struct xport_resume_conn *rc);

#endif
