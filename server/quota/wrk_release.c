/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_release.h"

#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"
#include "wrk_wait.h"

#include <errno.h>
#include <stdlib.h>

GP_HOT bool
wrk_release_must_wait(struct wrk *w)
{
    return unlikely(wrk_ctx_jobs_newest(wrk_ctx_current(w)) != 0) ||
           !wrk_wait_ends_alone(w);
}

bool
wrk_release_queue(struct wrk *w, struct wrk_reply *rep, struct wrk_ctx_job *job)
{
    int r;

    job->job.req = *rep->req;
    rep->taken = true;
    wrk_quota_share_release(w->priv->quota);
    r = wrk_ctx_jobs_add(w, job, WRK_RELEASES_MAX);
    if (r == 0)
        return true;
    wrk_release_done(w);
    wrk_frame_bad(w, rep->req,
                  r == -EDQUOT ? "too many releases wait" : "too many calls wait");
    return false;
}

void
wrk_release_done(struct wrk *w)
{
    wrk_quota_unshare_release(w->priv->quota);
}

/* ---- a release that is one call of the driver ---- */

struct call {
    struct wrk_ctx_job queued;
    struct wrk_release_what what;
    uint64_t held_by; /* what the quota has for it; 0: nothing */
    unsigned epoch;   /* of contexts: one that died since may have taken it along */
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
handle_forget(struct wrk *w, uint64_t id)
{
    if (id)
        wrk_handle_del(w, wire_handle_kind(id), id);
}

static void
release_forget(struct wrk *w, const struct wrk_release_what *what)
{
    handle_forget(w, what->id);
    handle_forget(w, what->module_id);
    if (what->forget)
        what->forget(w, (const void *)(uintptr_t)what->obj);
}

/* Objects that only a query reveals are parts of others, and a driver does not release
 * them on their own; a capture may forbid the release of all others. */
static bool
release_may_be_refused(struct wrk *w, const struct wire_req *req,
                       const struct wrk_release_what *what)
{
    return what->id && (wire_handle_index(what->id) >= WIRE_INDEX_SERVER ||
                        (atomic_load_explicit(&w->capturing, memory_order_relaxed) &&
                         !(req->flags & WIRE_F_RELAXED)));
}

static void
call_run(struct wrk *w, struct wrk_job *job)
{
    struct call *call = container_of(job, struct call, queued.job);
    CUresult r = call->what.fn(w, call->what.obj, call->what.size);

    if (r == CUDA_SUCCESS)
        wrk_quota_drop(w->priv->quota, call->held_by);
    else
        wrk_quota_end_refused(w->priv->quota, call->held_by, call->what.key);
    wrk_release_done(w);
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
    CUresult r;

    if (release_may_be_refused(w, rep->req, what) ||
        (!wrk_ctx_jobs_newest(wrk_ctx_current(w)) && wrk_wait_all_end_alone(w))) {
        r = release_now(w, what);
        if (r == CUDA_SUCCESS)
            release_forget(w, what);
        return r;
    }
    call = malloc(sizeof(*call));
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call = (struct call){
        .queued.job.run = call_run, .what = *what, .epoch = wrk_ctx_epoch()};
    release_forget(w, what); /* before another object can have its address */
    call->held_by = wrk_quota_end_begins(w->priv->quota, what->key); /* or its id */
    if (!wrk_release_queue(w, rep, &call->queued))
        free(call);
    return CUDA_SUCCESS;
}
