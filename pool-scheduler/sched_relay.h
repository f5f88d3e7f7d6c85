/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At a scheduler that follows: what only the one that leads knows is asked there.
 *
 * The queue and what servers, cards and sessions use now are in the leader's memory.  A
 * follower checks who asks, as for its own answers, and hands the request to a thread
 * that keeps one connection to the leader (sched_fed_link.h).  The leader's answer,
 * with its age, becomes the follower's.  The event loop never waits: a leader that
 * hangs costs those who asked two seconds at most, and while it is known not to answer
 * nothing is relayed: a question of the follower's own, once a second, finds out when
 * it does again (sched_copy.h).
 *
 * How much can be out at a time is bounded, in all and for each address.  Rates are
 * counted twice, here and by the leader (sched_asker.h), for the one who asks.
 *
 * Owned by struct sched.  Event loop thread only.
 */
#ifndef SCHED_RELAY_H
#define SCHED_RELAY_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "sched_types.h"

struct gp_err;
struct sched_relay;
struct sched_relay_ask;

/* A page of a large pool is some 100 KiB, and one question takes a millisecond. */
#define SCHED_RELAY_MAX 128
/* Of them from one address (or user of the host). */
#define SCHED_RELAY_PEER_MAX 16

/* With @reply, the leader's, which is gone afterwards; NULL: it gave none. */
typedef void sched_relay_done(void *arg, Gpupool__Ctl__CtlReply *reply);

int sched_relay_new(struct sched_relay **ret);
/* The scheduler ends: what is out is done, without an answer. */
void sched_relay_cancel(struct sched_relay *relay); /* NULL is a no-op */
void sched_relay_free(struct sched_relay *relay);   /* NULL is a no-op */

/* Is @req, which @who may read, for the leader to answer, and can it be asked now? */
bool sched_relay_can(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req);
/* Ask it.  @done is called once, later.  -EBUSY: too much is out.  -ENOMEM. */
int sched_relay_ask(const struct sched_conn *who, int fd,
                    const Gpupool__Ctl__CtlRequest *req, sched_relay_done *done,
                    void *arg, struct sched_relay_ask **ret);

/* A question of this scheduler's own, also while the leader is known not to answer. */
int sched_relay_ask_own(struct sched *sched, const Gpupool__Ctl__CtlRequest *req,
                        sched_relay_done *done, void *arg);

/* A request of a peer.  True: it is relayed, or has been refused; else it is to be
 * answered here. */
bool sched_relay_request(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req);
/* The peer is gone. */
void sched_relay_end(struct sched_conn *conn);

struct sched_relay_stats {
    uint64_t answered, failed, refused; /* by the leader, by nobody, as too many */
};
const struct sched_relay_stats *sched_relay_stats(const struct sched_relay *relay);

#endif
