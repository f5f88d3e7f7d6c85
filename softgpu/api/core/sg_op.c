/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dependency graph of operations and the threads of its lanes.
 *
 * Threads start when the first operation needs them and live as long as the
 * process.  Host callbacks may block for ever on purpose, so each running one
 * has a thread; copies share two, like the copy engines of a card.
 */
#include "sg_op.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_sm.h"
#include "sg_stream.h"

#include "gp_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    COPY_THREADS = 2,
    /* Callbacks that block at the same time; more wait for a thread. */
    HOST_THREADS = 256,
    POLL_NS = 50 * 1000,
};

struct lane {
    struct sg_op *head, **tail;
    pthread_cond_t cond;
    unsigned n_threads, n_idle, n_queued, max_threads;
};

static struct lane copy_lane = {NULL, &copy_lane.head, PTHREAD_COND_INITIALIZER, 0, 0,
                                0,    COPY_THREADS};
static struct lane host_lane = {NULL, &host_lane.head, PTHREAD_COND_INITIALIZER, 0, 0,
                                0,    HOST_THREADS};
static struct lane poll_lane = {
    NULL, &poll_lane.head, PTHREAD_COND_INITIALIZER, 0, 0, 0, 1};

/* Operations that became ready while another one was finished: a list and not
 * recursion, a chain of thousands of event records is legal. */
static struct sg_op *ready_head, **ready_tail = &ready_head;
static bool draining;

/* Operations of all contexts that were submitted and are not done. */
static unsigned n_pending;

static void dispatch(struct sg_op *op);

void
sg_op_init(struct sg_op *op, const struct sg_op_class *class, struct sg_ctx *ctx)
{
    op->class = class;
    op->ctx = sg_ctx_ref(ctx);
    op->refs = 1;
    op->state = SG_OP_NEW;
}

struct sg_op *
sg_op_ref(struct sg_op *op)
{
    if (op)
        op->refs++;
    return op;
}

void
sg_op_unref(struct sg_op *op)
{
    if (!op || --op->refs)
        return;
    if (op->class->fini)
        op->class->fini(op);
    for (unsigned i = 0; i < op->n_succ; i++) /* never submitted: never released */
        sg_op_unref(op->succ[i]);
    sg_ctx_unref(op->ctx);
    free(op->succ);
    free(op);
}

int
sg_op_after(struct sg_op *op, struct sg_op *dep)
{
    struct sg_op **p;
    unsigned cap;

    if (sg_op_is_done(dep))
        return 0;
    if (dep->n_succ == dep->cap_succ) {
        cap = dep->cap_succ ? dep->cap_succ * 2 : 4;
        p = realloc(dep->succ, cap * sizeof(*p));
        if (!p)
            return -ENOMEM;
        dep->succ = p;
        dep->cap_succ = cap;
    }
    /* The edge keeps @op alive: it may never be submitted. */
    dep->succ[dep->n_succ++] = sg_op_ref(op);
    op->n_deps++;
    return 0;
}

static void
ready_push(struct sg_op *op)
{
    op->next = NULL;
    *ready_tail = op;
    ready_tail = &op->next;
}

static void
ready_drain(void)
{
    struct sg_op *op;

    if (draining)
        return;
    draining = true;
    while ((op = ready_head)) {
        ready_head = op->next;
        if (!ready_head)
            ready_tail = &ready_head;
        dispatch(op);
    }
    draining = false;
}

void
sg_op_submit(struct sg_op *op)
{
    sg_op_ref(op);
    op->ctx->n_ops++;
    n_pending++;
    op->state = SG_OP_WAITING;
    if (op->n_deps == 0) {
        ready_push(op);
        ready_drain();
    }
}

static void
release_successors(struct sg_op *op)
{
    struct sg_op **succ = op->succ;
    unsigned n = op->n_succ;

    op->succ = NULL;
    op->n_succ = op->cap_succ = 0;
    for (unsigned i = 0; i < n; i++) {
        if (--succ[i]->n_deps == 0 && succ[i]->state == SG_OP_WAITING)
            ready_push(succ[i]);
        sg_op_unref(succ[i]);
    }
    free(succ);
}

void
sg_op_finish(struct sg_op *op, CUresult result)
{
    op->state = SG_OP_DONE;
    op->result = result;
    op->done_ns = gp_now_ns();
    if (result != CUDA_SUCCESS)
        sg_ctx_fail(op->ctx, result);
    release_successors(op);
    if (op->stream)
        sg_stream_op_done(op->stream, op);
    op->ctx->n_ops--;
    n_pending--;
    sg_op_unref(op);
    sg_wake_all();
    ready_drain();
}

CUresult
sg_enter_work(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter(ret_ctx);

    while (rc == CUDA_SUCCESS && n_pending >= SG_OPS_MAX) {
        sg_wait();
        sg_leave(CUDA_SUCCESS);
        rc = sg_enter(ret_ctx); /* another one, or none, may be current by now */
    }
    return rc;
}

void
sg_op_wait(struct sg_op *op)
{
    while (!sg_op_is_done(op))
        sg_wait();
}

static struct sg_op *
lane_pop(struct lane *lane)
{
    struct sg_op *op = lane->head;

    lane->head = op->next;
    if (!lane->head)
        lane->tail = &lane->head;
    lane->n_queued--;
    return op;
}

static void *
lane_thread(void *arg)
{
    struct lane *lane = arg;
    struct sg_op *op;
    CUresult rc;

    sg_lock();
    for (;;) {
        while (!lane->head) {
            lane->n_idle++;
            sg_wait_on(&lane->cond);
            lane->n_idle--;
        }
        op = lane_pop(lane);
        rc = op->ctx->error;
        if (rc == CUDA_SUCCESS || op->class->always) {
            sg_unlock();
            rc = op->class->run(op);
            sg_lock();
        }
        sg_op_finish(op, rc);
    }
    return NULL;
}

/* One pass over all polled operations. */
static void
poll_pass(struct lane *lane)
{
    struct sg_op *op, *todo = lane->head;
    CUresult rc;

    lane->head = NULL;
    lane->tail = &lane->head;
    while ((op = todo)) {
        todo = op->next;
        op->next = NULL;
        rc = op->ctx->error ? op->ctx->error : op->class->run(op);
        if (rc != SG_NOT_YET) {
            sg_op_finish(op, rc);
            continue;
        }
        *lane->tail = op;
        lane->tail = &op->next;
    }
}

static void *
poll_thread(void *arg)
{
    static const struct timespec pause = {0, POLL_NS};
    struct lane *lane = arg;

    sg_lock();
    for (;;) {
        while (!lane->head)
            sg_wait_on(&lane->cond);
        poll_pass(lane);
        sg_unlock();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        sg_lock();
    }
    return NULL;
}

static int
lane_start_thread(struct lane *lane)
{
    int r = sg_thread_start(lane == &poll_lane ? poll_thread : lane_thread, lane);

    if (r == 0)
        lane->n_threads++;
    return r;
}

static void
lane_push(struct lane *lane, struct sg_op *op)
{
    op->next = NULL;
    *lane->tail = op;
    lane->tail = &op->next;
    lane->n_queued++;
    if (lane->n_idle < lane->n_queued && lane->n_threads < lane->max_threads &&
        lane_start_thread(lane) < 0 && lane->n_threads == 0) {
        lane->head = NULL; /* no thread at all: this operation cannot run */
        lane->tail = &lane->head;
        lane->n_queued = 0;
        sg_op_finish(op, CUDA_ERROR_OPERATING_SYSTEM);
        return;
    }
    pthread_cond_signal(&lane->cond);
}

static void
dispatch(struct sg_op *op)
{
    CUresult error = op->ctx->error;

    op->state = SG_OP_READY;
    if (error != CUDA_SUCCESS && !op->class->always) {
        sg_op_finish(op, error);
        return;
    }
    switch (op->class->lane) {
    case SG_LANE_INLINE:
        sg_op_finish(op, op->class->run ? op->class->run(op) : CUDA_SUCCESS);
        break;
    case SG_LANE_COPY:
        lane_push(&copy_lane, op);
        break;
    case SG_LANE_HOST:
        lane_push(&host_lane, op);
        break;
    case SG_LANE_POLL:
        lane_push(&poll_lane, op);
        break;
    case SG_LANE_KERNEL:
        sg_sm_submit(op);
        break;
    }
}
