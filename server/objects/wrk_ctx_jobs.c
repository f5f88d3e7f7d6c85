/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_ctx_jobs.h"

#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_waiters.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct queue {
    struct wrk_job serve; /* by one waiter thread, until nothing is left */
    struct queue *next;
    struct wrk_job *first, **last; /* those that have not begun */
    uint64_t running;              /* or the oldest, before the first has begun */
    uint64_t newest;
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of all that is static here */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct queue *queues;
static uint64_t newest;
static atomic_uint count; /* of jobs; only the reader makes it more */

/* The lock is held. */
static struct queue **
queue_of(CUcontext ctx)
{
    struct queue **at = &queues;

    while (*at && (*at)->serve.ctx != ctx)
        at = &(*at)->next;
    return at;
}

static struct wrk_ctx_job *
ctx_job(struct wrk_job *job)
{
    return container_of(job, struct wrk_ctx_job, job);
}

/* The one taken before has ended.  The next one; without one the queue is gone. */
static struct wrk_job *
queue_take(struct queue *queue, bool has_ended)
{
    struct wrk_job *job;

    pthread_mutex_lock(&lock);
    job = queue->first;
    if (job) {
        queue->running = ctx_job(job)->number;
        queue->first = job->next;
        if (!queue->first)
            queue->last = &queue->first;
    } else {
        *queue_of(queue->serve.ctx) = queue->next;
    }
    if (has_ended) {
        atomic_fetch_sub(&count, 1);
        pthread_cond_broadcast(&ended);
    }
    pthread_mutex_unlock(&lock);
    return job;
}

static void
queue_serve(struct wrk *w, struct wrk_job *serve)
{
    struct queue *queue = container_of(serve, struct queue, serve);
    struct wrk_job *job;

    for (job = queue_take(queue, false); job; job = queue_take(queue, true)) {
        wrk_ctx_enter(w, job->ctx); /* it may have died since */
        wrk_capture_relax_thread(w, job->relaxed);
        job->run(w, job);
    }
    free(queue);
}

/* The lock is held. */
static struct queue *
queue_new(CUcontext ctx)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    if (!queue)
        return NULL;
    queue->serve.run = queue_serve;
    queue->serve.ctx = ctx;
    queue->last = &queue->first;
    queue->running = newest + 1;
    queue->next = queues;
    queues = queue;
    return queue;
}

/* *ret_new: a queue to be served. */
static int
queue_add(struct wrk_ctx_job *job, unsigned max, struct queue **ret_new)
{
    struct queue *queue;

    *ret_new = NULL;
    if (atomic_load(&count) >= max)
        return -EDQUOT;
    pthread_mutex_lock(&lock);
    queue = *queue_of(job->job.ctx);
    if (!queue)
        *ret_new = queue = queue_new(job->job.ctx);
    if (queue) {
        queue->newest = job->number = ++newest;
        job->job.next = NULL;
        *queue->last = &job->job;
        queue->last = &job->job.next;
        atomic_fetch_add(&count, 1);
    }
    pthread_mutex_unlock(&lock);
    return queue ? 0 : -EAGAIN;
}

int
wrk_ctx_jobs_add(struct wrk *w, struct wrk_ctx_job *job, unsigned max)
{
    struct queue *started;
    int r;

    job->job.ctx = wrk_ctx_current(w);
    job->job.ctx_index = w->ctx_index;
    job->job.relaxed = wrk_capture_allows(w);
    r = queue_add(job, max, &started);
    if (r < 0 || !started || wrk_waiters_background(w, &started->serve))
        return r;
    /* Only this thread starts queues: nobody else has added to it yet. */
    queue_take(started, false);
    queue_take(started, true); /* the second ends it */
    free(started);
    return -EAGAIN;
}

GP_HOT uint64_t
wrk_ctx_jobs_newest(CUcontext ctx)
{
    const struct queue *queue;
    uint64_t number;

    if (likely(atomic_load_explicit(&count, memory_order_acquire) == 0))
        return 0;
    pthread_mutex_lock(&lock);
    queue = *queue_of(ctx);
    number = queue ? queue->newest : 0;
    pthread_mutex_unlock(&lock);
    return number;
}

GP_HOT uint64_t
wrk_ctx_jobs_newest_of_all(void)
{
    uint64_t number;

    if (likely(atomic_load_explicit(&count, memory_order_acquire) == 0))
        return 0;
    pthread_mutex_lock(&lock);
    number = queues ? newest : 0;
    pthread_mutex_unlock(&lock);
    return number;
}

/* The lock is held. */
static bool
pending(CUcontext ctx, uint64_t number)
{
    const struct queue *queue = *queue_of(ctx);

    return queue && queue->running <= number;
}

/* The lock is held. */
static bool
any_pending(uint64_t number)
{
    for (const struct queue *queue = queues; queue; queue = queue->next)
        if (queue->running <= number)
            return true;
    return false;
}

bool
wrk_ctx_jobs_pending(CUcontext ctx, uint64_t number)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = pending(ctx, number);
    pthread_mutex_unlock(&lock);
    return is;
}

void
wrk_ctx_jobs_await(CUcontext ctx, uint64_t number)
{
    pthread_mutex_lock(&lock);
    while (pending(ctx, number))
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}

void
wrk_ctx_jobs_await_all(uint64_t number)
{
    pthread_mutex_lock(&lock);
    while (any_pending(number))
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}
