/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_waiters.h"

#include "gp_base.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define WAITER_STACK (256u * 1024)

/* A thread of these, which does not end. */
struct waiter {
    struct waiter *next;
    CUcontext keeps; /* that its job keeps; NULL: none */
};

struct wrk_waiters {
    struct wrk *w;
    pthread_mutex_t lock;
    pthread_cond_t more, kept_no_more;
    struct wrk_job *first, **last; /* queue of jobs */
    unsigned n_jobs;               /* queued or running */
    unsigned n_queued;
    unsigned n_threads, n_idle;
    struct waiter *threads;
    struct wrk_closed_ctx *closed;
};

/* The lock is held, as for all of these. */
static bool
is_closed(const struct wrk_waiters *waiters, const struct wrk_job *job)
{
    const struct wrk_closed_ctx *c = job->keeps_ctx ? waiters->closed : NULL;

    while (c && c->ctx != job->ctx)
        c = c->next;
    return c != NULL;
}

/* The first job that may run; NULL: there is none. */
static struct wrk_job *
job_take(struct wrk_waiters *waiters)
{
    struct wrk_job **at = &waiters->first, *job;

    while (*at && unlikely(is_closed(waiters, *at)))
        at = &(*at)->next;
    job = *at;
    if (!job)
        return NULL;
    *at = job->next;
    if (!*at)
        waiters->last = at;
    waiters->n_queued--;
    return job;
}

static void
keep(struct wrk_waiters *waiters, struct waiter *self, CUcontext ctx)
{
    if (self->keeps && waiters->closed)
        pthread_cond_broadcast(&waiters->kept_no_more);
    self->keeps = ctx;
}

static void *
waiter_main(void *arg)
{
    struct wrk_waiters *waiters = arg;
    struct waiter self = {0};
    struct wrk_job *job;

    pthread_mutex_lock(&waiters->lock);
    self.next = waiters->threads;
    waiters->threads = &self;
    for (;;) {
        while (!(job = job_take(waiters))) {
            waiters->n_idle++;
            pthread_cond_wait(&waiters->more, &waiters->lock);
            waiters->n_idle--;
        }
        keep(waiters, &self, job->keeps_ctx ? job->ctx : NULL);
        pthread_mutex_unlock(&waiters->lock);
        wrk_ctx_enter(waiters->w, job->ctx);
        wrk_capture_relax_thread(waiters->w, job->relaxed);
        job->run(waiters->w, job);
        pthread_mutex_lock(&waiters->lock);
        keep(waiters, &self, NULL);
        waiters->n_jobs--;
    }
    return NULL;
}

/* One more thread; the lock is held. */
static void
waiter_start(struct wrk_waiters *waiters)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
#ifndef GP_SANITIZED
    pthread_attr_setstacksize(&attr, WAITER_STACK);
#endif
    if (pthread_create(&thread, &attr, waiter_main, waiters) == 0)
        waiters->n_threads++;
    pthread_attr_destroy(&attr);
}

static bool
job_queue(struct wrk_waiters *waiters, struct wrk_job *job)
{
    bool ok;

    job->relaxed = wrk_capture_allows(waiters->w);
    pthread_mutex_lock(&waiters->lock);
    /* A thread that was woken for another job and has not reached it counts as idle; a
     * job queued after that one would wait for its end. */
    if (waiters->n_queued >= waiters->n_idle && waiters->n_threads < WRK_WAITERS_MAX)
        waiter_start(waiters);
    /* Without any thread the job stays its caller's, who frees it. */
    ok = waiters->n_jobs < WRK_JOBS_MAX && waiters->n_threads > 0;
    if (ok) {
        job->next = NULL;
        *waiters->last = job;
        waiters->last = &job->next;
        waiters->n_jobs++;
        waiters->n_queued++;
        pthread_cond_signal(&waiters->more);
    }
    pthread_mutex_unlock(&waiters->lock);
    return ok;
}

bool
wrk_waiters_job(struct wrk *w, struct wrk_reply *rep, struct wrk_job *job)
{
    job->req = *rep->req;
    job->ctx = wrk_ctx_current(w);
    job->ctx_index = w->ctx_index;
    rep->taken = true;
    /* Answers given before this one must not wait for it. */
    if (job_queue(w->priv->waiters, job))
        return true;
    wrk_frame_bad(w, rep->req, "too many calls wait");
    return false;
}

bool
wrk_waiters_background(struct wrk *w, struct wrk_job *job)
{
    return job_queue(w->priv->waiters, job);
}

/* ---- contexts that end ------------------------------------------------------------
 */

/* The lock is held. */
static bool
is_kept(const struct wrk_waiters *waiters, CUcontext ctx, bool queued)
{
    for (const struct waiter *t = waiters->threads; t; t = t->next)
        if (t->keeps == ctx)
            return true;
    for (const struct wrk_job *job = queued ? waiters->first : NULL; job;
         job = job->next)
        if (job->keeps_ctx && job->ctx == ctx)
            return true;
    return false;
}

bool
wrk_waiters_keep(struct wrk *w, CUcontext ctx)
{
    struct wrk_waiters *waiters = w->priv->waiters;
    bool is;

    pthread_mutex_lock(&waiters->lock);
    is = is_kept(waiters, ctx, true);
    pthread_mutex_unlock(&waiters->lock);
    return is;
}

void
wrk_waiters_close(struct wrk *w, struct wrk_closed_ctx *closed)
{
    struct wrk_waiters *waiters = w->priv->waiters;

    pthread_mutex_lock(&waiters->lock);
    closed->next = waiters->closed;
    waiters->closed = closed;
    while (is_kept(waiters, closed->ctx, false))
        pthread_cond_wait(&waiters->kept_no_more, &waiters->lock);
    pthread_mutex_unlock(&waiters->lock);
}

void
wrk_waiters_open(struct wrk *w, struct wrk_closed_ctx *closed, bool gone)
{
    struct wrk_waiters *waiters = w->priv->waiters;
    struct wrk_closed_ctx **at = &waiters->closed;

    pthread_mutex_lock(&waiters->lock);
    while (*at != closed)
        at = &(*at)->next;
    *at = closed->next;
    for (struct wrk_job *job = waiters->first; gone && job; job = job->next)
        if (job->keeps_ctx && job->ctx == closed->ctx)
            job->ctx = NULL;
    pthread_cond_broadcast(&waiters->more);
    pthread_mutex_unlock(&waiters->lock);
}

int
wrk_waiters_new(struct wrk *w, struct wrk_waiters **ret)
{
    struct wrk_waiters *waiters = calloc(1, sizeof(*waiters));

    if (!waiters)
        return -ENOMEM;
    waiters->w = w;
    waiters->last = &waiters->first;
    pthread_mutex_init(&waiters->lock, NULL);
    pthread_cond_init(&waiters->more, NULL);
    pthread_cond_init(&waiters->kept_no_more, NULL);
    *ret = waiters;
    return 0;
}
