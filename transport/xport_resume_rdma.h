/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that resumes (xport_resume.h) and whose first link is RDMA; every later
 * one is TCP or RDMA, with the same struct rdma_conn, which others know.
 *
 * The stream of bytes, the journal and the offsets are the same over both.  Over RDMA
 * the acknowledgements come with the credits (struct rdma_credit), an offer stands in
 * the stream for the bytes of its payload, and bytes that are being fetched have not
 * been received yet.  What differs from TCP:
 *
 *   - Memory that was offered is the caller's again only when the peer has fetched it,
 *     or when the queue pair is destroyed: a copy in the journal would not keep the
 *     peer from reading the memory itself.
 *   - Fetches that a cut ends are filled from the next link before anything else is
 *     received (xport_resume_rdma_pending).  The queue pair is destroyed before that,
 *     so that no READ overwrites what came over the next link.
 *   - A card's memory that was offered is in no journal.  The stream ends in front of
 * it again, and whoever sent it sees by xport_sent() how much of it has gone.
 *   - What is sent again over RDMA goes through the ring, offers of before as well.
 *     Windows have to be opened again.
 *
 * Private to xport_resume*.c.
 */
#ifndef XPORT_RESUME_RDMA_H
#define XPORT_RESUME_RDMA_H

#include "xport_rdma.h"
#include "xport_resume_conn.h"

struct xport_resume_rdma {
    struct rdma_conn *rdma; /* ended, and without its socket, when the link is TCP */
    atomic_bool on;         /* the link is RDMA; changes under both locks */
    /* Under rx_lock: what was being fetched when the link broke, the end of what was
     * asked for. */
    struct xport_resume_rdma_pending {
        uint8_t *buf;
        size_t len;
    } pending[RDMA_READS_MAX];
    unsigned n_pending;
    /* Of the thread that looks. */
    uint64_t echo;  /* number of the READ behind what was sent */
    uint64_t asked; /* work requests that had been posted then */
};

/* free() gives it back, and with it nothing of @rdma.  NULL: no memory. */
struct xport_resume_rdma *xport_resume_rdma_new(struct xport_conn *rdma);

/* ---- of the sender, under tx_lock, while the link is RDMA --------------------------
 */

/* All of the vector, which begins at byte @at of the stream: frames, and what @bulk
 * points to as a payload. */
int xport_resume_rdma_send(struct xport_resume_conn *rc, const struct iovec *iov,
                           size_t n_iov, uint64_t at, const void *bulk);
/* Bytes of the journal, how many; with MSG_DONTWAIT as @flags perhaps not all. */
ssize_t xport_resume_rdma_replay(struct xport_resume_conn *rc, const struct iovec *iov,
                                 int flags);
/* Frames, as many bytes as go without waiting; -EAGAIN: none. */
ssize_t xport_resume_rdma_send_now(struct xport_resume_conn *rc,
                                   const struct iovec *iov);
uint64_t xport_resume_rdma_peer_has(struct xport_resume_conn *rc);
/* As xport_resume_acks_wait(). */
int xport_resume_rdma_acks_wait(struct xport_resume_conn *rc, uint64_t deadline_ns);
/* Nothing that was offered before @until is being fetched any more, over as many links
 * as that takes. */
int xport_resume_rdma_offers_wait(struct xport_resume_conn *rc, uint64_t until);
/* The last words; waits shortly until they have arrived. */
void xport_resume_rdma_goodbye(struct xport_resume_conn *rc, const struct iovec *iov,
                               size_t n_iov);

/* ---- the link ---------------------------------------------------------------------
 */

/* Those who wait for the peer get an error.  Any thread. */
void xport_resume_rdma_break(struct xport_resume_conn *rc);
/* Under both locks: nothing is read or written by adapters any more, and how much has
 * been received is known. */
void xport_resume_rdma_end(struct xport_resume_conn *rc);
/* Under both locks: the link that xport_resume_rdma_connect() or _accept() has made is
 * in use; or it will not be. */
void xport_resume_rdma_begin(struct xport_resume_conn *rc);
void xport_resume_rdma_drop(struct xport_resume_conn *rc);
/* Under the lock `recover`: -errno: the link is broken.  *ret_again as in xport_look().
 */
int xport_resume_rdma_look(struct xport_resume_conn *rc, bool *ret_again);
/* The peer has ended the link in order, what it said last has not been read, and nobody
 * is reading.  Any thread. */
bool xport_resume_rdma_last_words(struct xport_resume_conn *rc);
void xport_resume_rdma_free(struct xport_resume_conn *rc);

#endif
