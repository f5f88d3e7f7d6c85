/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_ctx_end.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_ctx_jobs.h"
#include "wrk_hooks.h"
#include "wrk_object.h"
#include "wrk_parts.h"
#include "wrk_priv.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"

#include <stdatomic.h>
#include <stdlib.h>

struct end_job {
    struct wrk_job job;
    struct wrk_ctx_end end;
    struct wrk_closed_ctx closed;
    uint64_t behind; /* jobs of it up to that number */
    bool captured;   /* a wait for all of it would end a capture */
    struct wrk_parts parts;
    CUresult result;
    atomic_bool done; /* the waiter thread's last word about it */
    struct end_job *next;
};

static struct end_job *under_way; /* the reader's */

/* What the context has to do, before it is closed: a function of the host among it may
 * read managed memory, which a job brings that keeps the context. */
static void
finish(struct wrk *w, struct end_job *e)
{
    wrk_ctx_jobs_await(e->closed.ctx, e->behind);
    wrk_ctx_enter(w, e->closed.ctx);
    if (e->parts.events)
        wrk_parts_wait(w, &e->parts);
    else if (!e->captured)
        WRK_CALL(w, cuCtxSynchronize);
    wrk_ctx_enter(w, NULL);
}

/* A release in another context that fails from now on may find nothing left. */
static CUresult
destroy(struct wrk *w, const struct wrk_ctx_end *end)
{
    wrk_ctx_dies();
    return end->destroy(w, end);
}

static void
end_job_run(struct wrk *w, struct wrk_job *job)
{
    struct end_job *e = container_of(job, struct end_job, job);

    finish(w, e);
    wrk_hooks.ctx_end.hold(w, true);
    wrk_waiters_close(w, &e->closed);
    e->result = destroy(w, &e->end);
    atomic_store_explicit(&e->done, true, memory_order_release);
}

static CUresult
end_now(struct wrk *w, const struct wrk_ctx_end *end)
{
    CUresult r = destroy(w, end);

    if (r == CUDA_SUCCESS)
        end->gone(w, end);
    return r;
}

/* Whether the driver will not wait, and nobody else is in the context or reads memory
 * that goes with it.  True: the hook's second function follows. */
static bool
is_left_alone(struct wrk *w, CUcontext ctx)
{
    return !wrk_ctx_jobs_newest(ctx) && wrk_wait_ends_alone(w) &&
           !wrk_waiters_keep(w, ctx) && wrk_hooks.ctx_end.hold(w, false);
}

CUresult
wrk_ctx_end(struct wrk *w, struct wrk_reply *rep, const struct wrk_ctx_end *end)
{
    const uint32_t index = wire_handle_index(end->id);
    struct end_job *e;
    CUresult r;

    if (wrk_ctx_use(w, index) != CUDA_SUCCESS)
        return end_now(w, end);
    if (is_left_alone(w, wrk_ctx_current(w))) {
        r = end_now(w, end);
        wrk_hooks.ctx_end.let_go();
        return r;
    }
    e = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->job.run = end_job_run;
    e->end = *end;
    e->closed.ctx = wrk_ctx_current(w);
    e->behind = wrk_ctx_jobs_newest(e->closed.ctx);
    e->captured = !wrk_parts_take(w, index, &e->parts) && w->priv->capturing;
    wrk_ctx_use(w, 0); /* current nowhere, on the waiter thread neither */
    if (!wrk_waiters_job(w, rep, &e->job)) {
        wrk_parts_drop(w, &e->parts);
        free(e);
        return CUDA_SUCCESS;
    }
    e->next = under_way;
    under_way = e;
    return CUDA_SUCCESS;
}

bool
wrk_ctx_ends_pending(void)
{
    return under_way != NULL;
}

void
wrk_ctx_ends_poll(struct wrk *w)
{
    struct end_job **at = &under_way;

    while (*at) {
        struct end_job *e = *at;

        if (!atomic_load_explicit(&e->done, memory_order_acquire)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        if (e->result == CUDA_SUCCESS)
            e->end.gone(w, &e->end);
        wrk_waiters_open(w, &e->closed,
                         !wrk_handles_find(&w->handles, WIRE_KIND_CTX, e->end.id));
        wrk_hooks.ctx_end.let_go();
        wrk_reply_whole(w, &e->job.req, e->result, NULL, 0);
        free(e);
    }
}
