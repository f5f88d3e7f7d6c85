/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dependency graph of operations and the threads of its queues.
 *
 * Threads start when the first operation needs them and live as long as the
 * process.  Host callbacks may block for ever on purpose, so each running one
 * has a thread; copies share two, like the copy engines of a card.
 */
#include "sg_work.h"

#include "sg_core.h"
#include "sg_ctx.h"

#include "gp_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    COPY_THREADS = 2,
    /* Callbacks that block at the same time; more wait for a thread. */
    HOST_THREADS = 256,
    POLL_NS = 50 * 1000,
};

struct queue {
    struct sg_work *head, **tail;
    pthread_cond_t cond;
    unsigned n_threads, n_idle, n_queued, max_threads;
};

static struct queue copy_queue = {
    NULL, &copy_queue.head, PTHREAD_COND_INITIALIZER, 0, 0, 0, COPY_THREADS};
static struct queue host_queue = {
    NULL, &host_queue.head, PTHREAD_COND_INITIALIZER, 0, 0, 0, HOST_THREADS};
static struct queue poll_queue = {
    NULL, &poll_queue.head, PTHREAD_COND_INITIALIZER, 0, 0, 0, 1};

/* Operations that became ready while another one was finished: a list and not
 * recursion, a chain of thousands of event records is legal. */
static struct sg_work *ready_head, **ready_tail = &ready_head;
static bool draining;

/* Operations of all contexts that were submitted and are not done. */
static unsigned n_pending;

static void dispatch(struct sg_work *work);

void
sg_work_init(struct sg_work *work, const struct sg_work_class *class,
             struct sg_ctx *ctx)
{
    work->class = class;
    work->ctx = sg_ctx_ref(ctx);
    work->refs = 1;
    work->state = SG_WORK_NEW;
}

struct sg_work *
sg_work_ref(struct sg_work *work)
{
    if (work)
        work->refs++;
    return work;
}

void
sg_work_unref(struct sg_work *work)
{
    if (!work || --work->refs)
        return;
    if (work->class->fini)
        work->class->fini(work);
    for (unsigned i = 0; i < work->n_succ; i++) /* never submitted: never released */
        sg_work_unref(work->succ[i]);
    sg_ctx_unref(work->ctx);
    free(work->succ);
    free(work);
}

int
sg_work_after(struct sg_work *work, struct sg_work *dep)
{
    struct sg_work **p;
    unsigned cap;

    if (sg_work_is_done(dep))
        return 0;
    if (dep->n_succ == dep->cap_succ) {
        cap = dep->cap_succ ? dep->cap_succ * 2 : 4;
        p = realloc(dep->succ, cap * sizeof(*p));
        if (!p)
            return -ENOMEM;
        dep->succ = p;
        dep->cap_succ = cap;
    }
    /* The edge keeps @work alive: it may never be submitted. */
    dep->succ[dep->n_succ++] = sg_work_ref(work);
    work->n_deps++;
    return 0;
}

static void
ready_push(struct sg_work *work)
{
    work->next = NULL;
    *ready_tail = work;
    ready_tail = &work->next;
}

static void
ready_drain(void)
{
    struct sg_work *work;

    if (draining)
        return;
    draining = true;
    while ((work = ready_head)) {
        ready_head = work->next;
        if (!ready_head)
            ready_tail = &ready_head;
        dispatch(work);
    }
    draining = false;
}

void
sg_work_submit(struct sg_work *work)
{
    sg_work_ref(work);
    work->ctx->n_work++;
    n_pending++;
    work->state = SG_WORK_WAITING;
    if (work->n_deps == 0) {
        ready_push(work);
        ready_drain();
    }
}

static void
release_successors(struct sg_work *work)
{
    struct sg_work **succ = work->succ;
    unsigned n = work->n_succ;

    work->succ = NULL;
    work->n_succ = work->cap_succ = 0;
    for (unsigned i = 0; i < n; i++) {
        if (--succ[i]->n_deps == 0 && succ[i]->state == SG_WORK_WAITING)
            ready_push(succ[i]);
        sg_work_unref(succ[i]);
    }
    free(succ);
}

void
sg_work_finish(struct sg_work *work, CUresult result)
{
    work->state = SG_WORK_DONE;
    work->result = result;
    work->done_ns = gp_now_ns();
    if (result != CUDA_SUCCESS)
        sg_ctx_fail(work->ctx, result);
    release_successors(work);
    if (work->ended)
        work->ended(work);
    work->ctx->n_work--;
    n_pending--;
    sg_work_unref(work);
    sg_wake_all();
    ready_drain();
}

CUresult
sg_enter_work(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter(ret_ctx);

    while (rc == CUDA_SUCCESS && n_pending >= SG_WORK_MAX) {
        sg_wait();
        sg_leave(CUDA_SUCCESS);
        rc = sg_enter(ret_ctx); /* another one, or none, may be current by now */
    }
    return rc;
}

void
sg_work_wait(struct sg_work *work)
{
    while (!sg_work_is_done(work))
        sg_wait();
}

static struct sg_work *
queue_pop(struct queue *queue)
{
    struct sg_work *work = queue->head;

    queue->head = work->next;
    if (!queue->head)
        queue->tail = &queue->head;
    queue->n_queued--;
    return work;
}

static void *
queue_thread(void *arg)
{
    struct queue *queue = arg;
    struct sg_work *work;
    CUresult rc;

    sg_lock();
    for (;;) {
        while (!queue->head) {
            queue->n_idle++;
            sg_wait_on(&queue->cond);
            queue->n_idle--;
        }
        work = queue_pop(queue);
        rc = work->ctx->error;
        if (rc == CUDA_SUCCESS || work->class->always) {
            sg_unlock();
            rc = work->class->run(work);
            sg_lock();
        }
        sg_work_finish(work, rc);
    }
    return NULL;
}

/* One pass over all polled operations. */
static void
poll_pass(struct queue *queue)
{
    struct sg_work *work, *todo = queue->head;
    CUresult rc;

    queue->head = NULL;
    queue->tail = &queue->head;
    while ((work = todo)) {
        todo = work->next;
        work->next = NULL;
        rc = work->ctx->error ? work->ctx->error : work->class->run(work);
        if (rc != SG_NOT_YET) {
            sg_work_finish(work, rc);
            continue;
        }
        *queue->tail = work;
        queue->tail = &work->next;
    }
}

static void *
poll_thread(void *arg)
{
    static const struct timespec pause = {0, POLL_NS};
    struct queue *queue = arg;

    /* By name, for who looks for the threads that work: this one is busy while all
     * others wait. */
    prctl(PR_SET_NAME, "softgpu-poll", 0, 0, 0);
    sg_lock();
    for (;;) {
        while (!queue->head)
            sg_wait_on(&queue->cond);
        poll_pass(queue);
        sg_unlock();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        sg_lock();
    }
    return NULL;
}

static int
queue_start_thread(struct queue *queue)
{
    int r = sg_thread_start(queue == &poll_queue ? poll_thread : queue_thread, queue);

    if (r == 0)
        queue->n_threads++;
    return r;
}

static void
queue_push(struct queue *queue, struct sg_work *work)
{
    work->next = NULL;
    *queue->tail = work;
    queue->tail = &work->next;
    queue->n_queued++;
    if (queue->n_idle < queue->n_queued && queue->n_threads < queue->max_threads &&
        queue_start_thread(queue) < 0 && queue->n_threads == 0) {
        queue->head = NULL; /* no thread at all: this operation cannot run */
        queue->tail = &queue->head;
        queue->n_queued = 0;
        sg_work_finish(work, CUDA_ERROR_OPERATING_SYSTEM);
        return;
    }
    pthread_cond_signal(&queue->cond);
}

static void
dispatch(struct sg_work *work)
{
    CUresult error = work->ctx->error;

    work->state = SG_WORK_READY;
    if (error != CUDA_SUCCESS && !work->class->always) {
        sg_work_finish(work, error);
        return;
    }
    switch (work->class->queue) {
    case SG_QUEUE_INLINE:
        sg_work_finish(work, work->class->run ? work->class->run(work) : CUDA_SUCCESS);
        break;
    case SG_QUEUE_COPY:
        queue_push(&copy_queue, work);
        break;
    case SG_QUEUE_HOST:
        queue_push(&host_queue, work);
        break;
    case SG_QUEUE_POLL:
        queue_push(&poll_queue, work);
        break;
    case SG_QUEUE_OTHER:
        work->class->submit(work);
        break;
    }
}
