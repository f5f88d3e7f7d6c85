/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_release.h"

#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_quota.h"
#include "wrk_wait.h"

#include <stdlib.h>

struct release_job {
    struct wrk_job job;
    CUresult (*fn)(struct wrk *w, void *obj);
    void *obj;
    uint64_t key;
    unsigned epoch; /* of contexts: one that died since may have taken it along */
};

static CUresult
release_now(struct wrk *w, CUresult (*fn)(struct wrk *w, void *obj), void *obj,
            uint64_t key)
{
    CUresult r = fn(w, obj);

    if (r == CUDA_SUCCESS && key)
        wrk_quota_drop(w->priv->quota, key);
    return r;
}

static void
release_job_run(struct wrk *w, struct wrk_job *job)
{
    struct release_job *rel = container_of(job, struct release_job, job);
    CUresult r = release_now(w, rel->fn, rel->obj, rel->key);

    wrk_quota_unshare(w->priv->quota);
    if (r != CUDA_SUCCESS && wrk_ctx_epoch() != rel->epoch)
        r = CUDA_SUCCESS;
    if (job->req.flags & WIRE_F_REPLY)
        wrk_answer(w, &job->req, r, NULL, 0);
    else if (r != CUDA_SUCCESS)
        wrk_defer(w, &job->req, r);
    free(rel);
}

CUresult
wrk_release(struct wrk *w, struct wrk_reply *rep,
            CUresult (*fn)(struct wrk *w, void *obj), void *obj, uint64_t key)
{
    struct release_job *rel;

    if (wrk_wait_idle(w, NULL) != CUDA_ERROR_NOT_READY)
        return release_now(w, fn, obj, key);
    rel = malloc(sizeof(*rel));
    if (!rel)
        return release_now(w, fn, obj, key);
    *rel = (struct release_job){.job.run = release_job_run,
                                .fn = fn,
                                .obj = obj,
                                .key = key,
                                .epoch = wrk_ctx_epoch()};
    wrk_quota_share(w->priv->quota);
    if (!wrk_wait_job(w, rep, &rel->job)) {
        wrk_quota_unshare(w->priv->quota);
        free(rel);
    }
    return CUDA_SUCCESS;
}
