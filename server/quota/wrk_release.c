/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_release.h"

#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- those that wait, oldest first, for allocations that need their memory ---- */

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of all that is static here */
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct wrk_release *first;
static struct wrk_release **last = &first;
static uint64_t newest;
static atomic_uint count; /* only the reader makes it more */

GP_HOT uint64_t
wrk_release_newest(void)
{
    uint64_t number;

    if (likely(atomic_load_explicit(&count, memory_order_acquire) == 0))
        return 0;
    pthread_mutex_lock(&lock);
    number = first ? newest : 0;
    pthread_mutex_unlock(&lock);
    return number;
}

void
wrk_release_await(uint64_t number)
{
    pthread_mutex_lock(&lock);
    while (first && first->number <= number)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void
enlist(struct wrk_release *rel)
{
    rel->number = ++newest;
    rel->later = NULL;
    *last = rel;
    last = &rel->later;
    atomic_fetch_add(&count, 1);
}

/* Those before it are of other contexts, few: each queue is worked off in order. */
static void
delist(struct wrk_release *rel)
{
    struct wrk_release **at;

    pthread_mutex_lock(&lock);
    for (at = &first; *at != rel; at = &(*at)->later)
        ;
    *at = rel->later;
    if (!*at)
        last = at;
    atomic_fetch_sub(&count, 1);
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
}

/* ---- queues, one per context ---- */

struct queue {
    struct wrk_job serve; /* by one waiter thread, until nothing is left */
    struct queue *next;
    struct wrk_job *first, **last;
};

static struct queue *queues;

/* The lock is held. */
static struct queue **
queue_of(CUcontext ctx)
{
    struct queue **at = &queues;

    while (*at && (*at)->serve.ctx != ctx)
        at = &(*at)->next;
    return at;
}

bool
wrk_release_has_queued(CUcontext ctx)
{
    bool some;

    pthread_mutex_lock(&lock);
    some = *queue_of(ctx) != NULL;
    pthread_mutex_unlock(&lock);
    return some;
}

void
wrk_release_await_queued(CUcontext ctx)
{
    pthread_mutex_lock(&lock);
    while (*queue_of(ctx))
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

/* The next one; without one the queue is gone. */
static struct wrk_job *
queue_take(struct queue *queue)
{
    struct wrk_job *job;

    pthread_mutex_lock(&lock);
    job = queue->first;
    if (job) {
        queue->first = job->next;
        if (!queue->first)
            queue->last = &queue->first;
    } else {
        *queue_of(queue->serve.ctx) = queue->next;
        pthread_cond_broadcast(&done);
    }
    pthread_mutex_unlock(&lock);
    return job;
}

static void
queue_serve(struct wrk *w, struct wrk_job *serve)
{
    struct queue *queue = container_of(serve, struct queue, serve);
    struct wrk_job *job;

    while ((job = queue_take(queue))) {
        wrk_ctx_enter(w, job->ctx); /* it may have died since */
        wrk_capture_relax_thread(w, job->relaxed);
        job->run(w, job);
    }
    free(queue);
}

/* Behind those of the same context that wait.  *ret_new: a queue to be served. */
static int
queue_add(struct wrk_release *rel, struct queue **ret_new)
{
    struct queue *queue;
    int r = 0;

    *ret_new = NULL;
    pthread_mutex_lock(&lock);
    queue = *queue_of(rel->job.ctx);
    if (!queue && atomic_load(&count) < WRK_RELEASES_MAX) {
        *ret_new = queue = calloc(1, sizeof(*queue));
        if (queue) {
            queue->serve.run = queue_serve;
            queue->serve.ctx = rel->job.ctx;
            queue->last = &queue->first;
            queue->next = queues;
            queues = queue;
        }
    }
    if (queue && atomic_load(&count) < WRK_RELEASES_MAX) {
        rel->job.next = NULL;
        *queue->last = &rel->job;
        queue->last = &rel->job.next;
        enlist(rel);
    } else {
        r = -EDQUOT;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

GP_HOT bool
wrk_release_must_wait(struct wrk *w)
{
    bool behind = false;

    if (unlikely(atomic_load_explicit(&count, memory_order_acquire) != 0)) {
        pthread_mutex_lock(&lock);
        behind = *queue_of(wrk_ctx_current(w)) != NULL;
        pthread_mutex_unlock(&lock);
    }
    /* Any other answer than "idle": without a current context nobody has been asked,
     * and the object's own may have work.  That functions of the host are registered is
     * no reason to queue: errors of the queue come with a later wait than the next. */
    return behind || wrk_wait_idle(w, NULL) != CUDA_SUCCESS;
}

bool
wrk_release_queue(struct wrk *w, struct wrk_reply *rep, struct wrk_release *rel)
{
    struct queue *started;

    rel->job.req = *rep->req;
    rel->job.ctx = wrk_ctx_current(w);
    rel->job.ctx_index = w->ctx_index;
    rel->job.relaxed = wrk_capture_allows(w);
    rep->taken = true;
    wrk_quota_share(w->priv->quota);
    if (queue_add(rel, &started) < 0) {
        wrk_quota_unshare(w->priv->quota);
        wrk_frame_bad(w, rep->req, "too many releases wait");
        return false;
    }
    /* Only this thread starts queues: nobody else has found it yet. */
    if (!started || wrk_wait_background(w, &started->serve))
        return true;
    queue_take(started);
    queue_take(started); /* the second ends it */
    free(started);
    wrk_release_done(w, rel);
    wrk_frame_bad(w, rep->req, "too many calls wait");
    return false;
}

void
wrk_release_done(struct wrk *w, struct wrk_release *rel)
{
    wrk_quota_unshare(w->priv->quota);
    delist(rel);
}

/* ---- a release that is one call of the driver ---- */

struct call {
    struct wrk_release rel;
    struct wrk_release_what what;
    unsigned epoch; /* of contexts: one that died since may have taken it along */
};

static CUresult
release_now(struct wrk *w, const struct wrk_release_what *what)
{
    CUresult r = what->fn(w, what->obj, what->size);

    if (r == CUDA_SUCCESS && what->key)
        wrk_quota_drop(w->priv->quota, what->key);
    return r;
}

static void
call_run(struct wrk *w, struct wrk_job *job)
{
    struct call *call = container_of(job, struct call, rel.job);
    CUresult r = release_now(w, &call->what);

    wrk_release_done(w, &call->rel);
    if (r != CUDA_SUCCESS && wrk_ctx_epoch() != call->epoch)
        r = CUDA_SUCCESS;
    if (job->req.flags & WIRE_F_REPLY)
        wrk_reply_whole(w, &job->req, r, NULL, 0);
    else if (r != CUDA_SUCCESS)
        wrk_defer(w, &job->req, r);
    free(call);
}

CUresult
wrk_release(struct wrk *w, struct wrk_reply *rep, const struct wrk_release_what *what)
{
    struct call *call;

    if (!wrk_release_must_wait(w) &&
        !(what->device && (wrk_ctx_count() > 1 || !wrk_ctx_current(w))))
        return release_now(w, what);
    call = malloc(sizeof(*call));
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call =
        (struct call){.rel.job.run = call_run, .what = *what, .epoch = wrk_ctx_epoch()};
    if (!wrk_release_queue(w, rep, &call->rel))
        free(call);
    return CUDA_SUCCESS;
}
