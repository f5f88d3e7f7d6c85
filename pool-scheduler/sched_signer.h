/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that sign.
 *
 * A signature takes longer than the decision that it is made for, so the event loop
 * hands jobs over and goes on.  Jobs of one turn of the loop are handed over together,
 * at the end of the turn, and results come back the same way, so that many jobs cost
 * few wake-ups.  They may end in another order than they were added in.
 *
 * Owned by struct sched.  Its functions, and done(), run on the event loop's thread;
 * run() runs on any of the threads.
 */
#ifndef SCHED_SIGNER_H
#define SCHED_SIGNER_H

#include "gp_base.h"

struct gp_err;
struct gp_loop;
struct sched_signer;

/* Embedded in its owner, which keeps it until done(). */
struct sched_signer_job {
    /* Touches nothing but the job's owner, which the event loop leaves alone
     * meanwhile. */
    void (*run)(struct sched_signer_job *job);
    /* It has run; the owner may free it. */
    void (*done)(struct sched_signer_job *job);
    struct sched_signer_job *next;
};

/* As many threads as there are processors beside those of the event loop and the
 * store's writer, one to four: four make more signatures than one event loop can
 * answer with.  -errno of pthread_create(). */
int sched_signer_new(struct gp_loop *loop, struct sched_signer **ret_signer,
                     struct gp_err *err);
/* Jobs that were added are run and done before this returns. */
void sched_signer_free(struct sched_signer *signer); /* NULL is a no-op */

void sched_signer_add(struct sched_signer *signer, struct sched_signer_job *job);
/* Wait until every job is done. */
void sched_signer_wait(struct sched_signer *signer);

#endif
