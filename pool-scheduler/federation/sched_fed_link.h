/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that asks the scheduler of one other pool, or the scheduler of this pool
 * that leads (sched_relay.h).
 *
 * It keeps its connection, goes where the pool's schedulers say that the leader is, and
 * asks one request after the other, so that a pool that does not answer holds nobody up
 * but those who ask it.  Counted references; its functions, and done(), run on the
 * event loop's thread.  It knows nothing of placement or clients (sched_fed.h does).
 */
#ifndef SCHED_FED_LINK_H
#define SCHED_FED_LINK_H

#include "control.pb-c.h"
#include "ctl_limits.h"
#include "ctl_link.h"
#include "gp_base.h"
#include "gp_err.h"
#include "gp_net.h"

struct gp_loop;
struct sched_fed_link;

struct sched_fed_config {
    char name[CTL_NAME_MAX];
    char scheduler[GP_NET_NAME_MAX]; /* host:port, with commas between */
    char token[CTL_TOKEN_MAX];       /* secret */
    struct ctl_pins pins;
    bool clear; /* without TLS, by choice */
    /* Each request goes to @scheduler once: one that does not lead is not followed to
     * another, and one that refuses for a time is not asked again. */
    bool once;
};

/* Requests that wait for the thread: more would wait longer than their clients do. */
#define SCHED_FED_JOBS_MAX 256

/* One request; embedded in its owner, which keeps it until done(). */
struct sched_fed_job {
    Gpupool__Ctl__CtlRequest req; /* the owner leaves what it points to alone */
    uint64_t deadline_ns;
    void (*done)(struct sched_fed_job *job);
    /* Then: as ctl_call() returns it.  The reply is the owner's to free. */
    int r;
    Gpupool__Ctl__CtlReply *reply;
    struct gp_err err;
    struct sched_fed_job *next;
};

/* Since the scheduler was started, or the pool's entry changed. */
struct sched_fed_stats {
    uint64_t asked, granted, refused, failed;
    uint64_t last_ns; /* of the last answer or failure; 0: none yet */
    bool answers;
    char words[256];
};

int sched_fed_link_new(struct gp_loop *loop, const struct sched_fed_config *config,
                       struct sched_fed_link **ret, struct gp_err *err);
struct sched_fed_link *sched_fed_link_ref(struct sched_fed_link *link);
/* NULL is a no-op.  The last reference ends the thread: at once when it has nothing to
 * do, else after its jobs. */
void sched_fed_link_unref(struct sched_fed_link *link);
/* The scheduler ends: what waits is done with -ECANCELED, in this call. */
void sched_fed_link_cancel(struct sched_fed_link *link);

/* Both live as long as @link. */
const struct sched_fed_config *sched_fed_link_config(const struct sched_fed_link *link);
struct sched_fed_stats *sched_fed_link_stats(struct sched_fed_link *link);

/* -EBUSY: too many wait already. */
int sched_fed_link_add(struct sched_fed_link *link, struct sched_fed_job *job);

#endif
