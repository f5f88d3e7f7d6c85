/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads: requests whose answers take the longer the larger the pool is, such as a
 * status, a list, the queue, `explain`.
 *
 * The event loop makes these answers, and everybody's grants and renewals wait for it.
 * So each turn of the loop gives reads SCHED_READS_TURN_NS at most.  A read that comes
 * when the turn has no time left waits for a later one, and its connection is read no
 * further meanwhile.  Those that wait are answered in rounds, one of each peer in a
 * round, so that nobody waits behind a hundred requests of another.
 *
 * What a peer's reads cost is charged, as processor time, to the user whose token it
 * has shown, or else to its address: --rate-reads.  Who has used up his time is told
 * when to ask again.  Not limited, but in turn with the others: administrators, the
 * scheduler's own user, schedulers of other pools, and other schedulers of this one,
 * whose askers are charged.
 *
 * The state is part of struct sched.  Event loop thread only.
 */
#ifndef SCHED_READS_H
#define SCHED_READS_H

#include "control.pb-c.h"
#include "sched_types.h"

/* Two pages of a list: more than a grant waits for the disk. */
#define SCHED_READS_TURN_NS (4 * GP_NS_PER_MS)

/* The default of --rate-reads: a quarter of the loop.  A status of 500,000 sessions is
 * two seconds of it, which is within what may be used at once. */
#define SCHED_RATE_READS 250

bool sched_reads_is(const Gpupool__Ctl__CtlRequest *req);

/* Answer the read @req of @conn, whose packed bytes are @data, now or in a later turn,
 * by sched->reads.answer, or refuse it.  False: it was answered, @conn may be gone. */
bool sched_reads_request(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req,
                         const void *data, size_t size);
/* The read @req is a part of the answer to a request that waited: answered in turn. */
void sched_reads_later(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req);
/* @conn goes. */
void sched_reads_end(struct sched_conn *conn);

/* For reads that come otherwise (the view, metrics), between begin and charge: the
 * nanoseconds after which @who may read again; 0: now. */
uint64_t sched_reads_wait(struct sched *sched, uint64_t who);
uint64_t sched_reads_begin(void);
void sched_reads_charge(struct sched *sched, uint64_t who, uint64_t begin);
/* Who pays for the reads of @conn. */
uint64_t sched_reads_who(const struct sched_conn *conn);

#endif
