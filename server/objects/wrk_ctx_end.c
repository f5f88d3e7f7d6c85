/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_ctx_end.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_ctx_jobs.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"

#include <stdatomic.h>
#include <stdlib.h>

struct end_job {
    struct wrk_job job;
    struct wrk_ctx_end end;
    CUcontext ctx;
    uint64_t behind; /* jobs of it up to that number */
    CUresult result;
    atomic_bool done; /* the waiter thread's last word about it */
    struct end_job *next;
};

static struct end_job *under_way; /* the reader's */

static void
end_job_run(struct wrk *w, struct wrk_job *job)
{
    struct end_job *e = container_of(job, struct end_job, job);

    wrk_ctx_jobs_await(e->ctx, e->behind);
    e->result = e->end.destroy(w, &e->end);
    atomic_store_explicit(&e->done, true, memory_order_release);
}

static CUresult
end_now(struct wrk *w, const struct wrk_ctx_end *end)
{
    CUresult r = end->destroy(w, end);

    if (r == CUDA_SUCCESS)
        end->gone(w, end);
    return r;
}

CUresult
wrk_ctx_end(struct wrk *w, struct wrk_reply *rep, const struct wrk_ctx_end *end)
{
    struct end_job *e;
    uint64_t behind;

    if (wrk_ctx_use(w, wire_handle_index(end->id)) != CUDA_SUCCESS)
        return end_now(w, end);
    behind = wrk_ctx_jobs_newest(wrk_ctx_current(w));
    if (!behind && wrk_wait_ends_alone(w))
        return end_now(w, end);
    e = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->job.run = end_job_run;
    e->end = *end;
    e->ctx = wrk_ctx_current(w);
    e->behind = behind;
    wrk_ctx_use(w, 0); /* current nowhere, on the waiter thread neither */
    if (!wrk_waiters_job(w, rep, &e->job)) {
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
        wrk_reply_whole(w, &e->job.req, e->result, NULL, 0);
        free(e);
    }
}
