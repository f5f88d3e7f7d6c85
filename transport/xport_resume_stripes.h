/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stripes of a connection that resumes (xport_stripes.h, xport_resume.h).
 *
 * The payload bytes that go over stripes are a stream of their own, the striped stream,
 * with a journal and acknowledgements of its own; a run's place in it is where the runs
 * before it end.  Runs are announced in the connection's stream as ever, so who
 * receives takes them in the order of the striped stream.
 *
 * Stripes live as long as the link that they were made for.  When that, or one of them,
 * breaks, all of them end; both ends tell each other how many striped bytes they have
 * received and how many they have sent.  What the receiver lacks comes over the new
 * link before anything else: whole runs, because a run is in its sender's journal
 * before it is announced.  Bytes that come so before the announcement of their run are
 * kept in memory, XPORT_STRIPED_WINDOW at most.  Later payloads go over the one
 * connection until both ends have stripes of that link, which begin with a new run.
 *
 * Threads: the sending half under the connection's tx_lock, the receiving half under
 * its rx_lock.  Private to transport/.
 */
#ifndef XPORT_RESUME_STRIPES_H
#define XPORT_RESUME_STRIPES_H

#include "gp_base.h"
#include "xport_journal.h"

#include <sys/types.h>

struct xport_block;
struct xport_conn;
struct xport_resume_conn;
struct xport_resume_have;
struct xport_resume_link;

/* Striped bytes that are not acknowledged: what four sockets with the kernel's largest
 * buffers hold.  It bounds what a peer can make us keep after a cut. */
#define XPORT_STRIPED_WINDOW (32u << 20)
/* One run: several are under way, so that none waits for the acknowledgement of
 * another. */
#define XPORT_STRIPED_RUN (4u << 20)
#define XPORT_STRIPED_RUNS (2 * XPORT_STRIPED_WINDOW / (256u << 10))

struct xport_striped {
    /* The sender's. */
    struct xport_journal journal;
    uint64_t replay_at, replay_end; /* striped bytes to send again */
    /* Runs that are not acknowledged: their ends, in the stream and the striped one. */
    struct xport_striped_run {
        uint64_t stream, striped;
    } runs[XPORT_STRIPED_RUNS];
    unsigned n_runs;

    /* The receiver's.  How much has been received is acks.striped. */
    uint64_t inline_until; /* before this they come over the link */
    uint8_t *early;        /* received before their run was announced */
    size_t early_at, early_end;
};

/* The link is number @link, and stays that until the release: stripes of it may be
 * added and used; see struct xport_ops.  Not within calls that may replace the link. */
int xport_resume_stripes_hold(struct xport_conn *conn, uint32_t link);
void xport_resume_stripes_release(struct xport_conn *conn);
uint32_t xport_resume_stripes_link(struct xport_conn *conn);

/* A run of @len bytes behind its announcement @head, which waits to be sent; where the
 * stripes have ended, it is announced, and goes, as a raw block. */
int xport_resume_stripes_send(struct xport_conn *conn, struct xport_block *head,
                              const void *bytes, uint32_t len);
/* @len bytes of the run that was announced last, from its byte @at on. */
int xport_resume_stripes_recv(struct xport_conn *conn, uint64_t at, uint8_t *buf,
                              size_t len);

/* True: a stripe's peer is dead.  *ret_again as in xport_stripes_lost(). */
bool xport_resume_stripes_lost(struct xport_resume_conn *rc, bool *ret_again);

/* Wake those who sleep on a stripe. */
void xport_resume_stripes_abort(struct xport_resume_conn *rc);

/* Under both locks: what this end has, and then a new link of a peer that has what
 * @link says.  -EPROTO: it is not the peer that had these streams.  -ENOMEM. */
void xport_resume_stripes_have(const struct xport_resume_conn *rc,
                               struct xport_resume_have *ret);
int xport_resume_stripes_install(struct xport_resume_conn *rc,
                                 const struct xport_resume_link *link);

/* Where the striped bytes end that were announced before @until of the stream. */
uint64_t xport_resume_stripes_until(const struct xport_striped *striped,
                                    uint64_t until);

/* The peer has @upto striped bytes.  -EPROTO: more than were sent. */
int xport_resume_stripes_acked(struct xport_striped *striped, uint64_t upto);

/* Under rx_lock: the link carries striped bytes before those of the stream. */
bool xport_resume_stripes_first(const struct xport_resume_conn *rc);
/* Receive some of them, for a run that is not announced yet: as recv(2). */
ssize_t xport_resume_stripes_early(struct xport_resume_conn *rc, int flags);

void xport_resume_stripes_free(struct xport_striped *striped); /* NULL is a no-op */

#endif
