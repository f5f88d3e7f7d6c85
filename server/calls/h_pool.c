/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools on GPUs only.  A pool of host memory would use the server's memory,
 * which no quota counts, and the client's processor cannot touch what one of managed
 * memory gives: the library makes its addresses only for what cuMemAllocManaged() gave.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_release.h"
#include "wrk_waiters.h"

#include <stdlib.h>

/* What is wrong with a location in other ways is the driver's to say. */
static CUresult
on_card(const CUmemLocation *location, CUmemAllocationType type)
{
    return type != CU_MEM_ALLOCATION_TYPE_MANAGED &&
                   (location->type == CU_MEM_LOCATION_TYPE_INVALID ||
                    location->type == CU_MEM_LOCATION_TYPE_DEVICE)
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
h_cuMemPoolCreate(struct wrk *w, const struct wire_args_cuMemPoolCreate *a,
                  struct wrk_reply *rep)
{
    CUmemoryPool pool = NULL;
    CUresult r = on_card(&a->poolProps->location, a->poolProps->allocType);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    /* Its handles would name memory to machines that are not of the session. */
    if (a->poolProps->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = WRK_CALL(w, cuMemPoolCreate, &pool, a->poolProps);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_MEMPOOL, a->pool_id, pool);
    return r;
}

CUresult
h_cuMemGetDefaultMemPool(struct wrk *w,
                         const struct wire_args_cuMemGetDefaultMemPool *a,
                         struct wrk_reply *rep)
{
    struct wire_cuMemGetDefaultMemPool_rep *body = rep->body;
    CUmemLocation location = *a->location;
    CUmemoryPool pool = NULL;
    CUresult r = on_card(&location, a->type);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuMemGetDefaultMemPool, &pool, &location, a->type);
    if (r == CUDA_SUCCESS)
        body->pool_out = wrk_handle_name(w, WIRE_KIND_MEMPOOL, pool);
    return r;
}

CUresult
h_cuMemGetMemPool(struct wrk *w, const struct wire_args_cuMemGetMemPool *a,
                  struct wrk_reply *rep)
{
    struct wire_cuMemGetMemPool_rep *body = rep->body;
    CUmemLocation location = *a->location;
    CUmemoryPool pool = NULL;
    CUresult r = on_card(&location, a->type);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuMemGetMemPool, &pool, &location, a->type);
    if (r == CUDA_SUCCESS)
        body->pool = wrk_handle_name(w, WIRE_KIND_MEMPOOL, pool);
    return r;
}

struct attribute_job {
    struct wrk_job job;
    CUmemoryPool pool;
    CUmemPool_attribute attr;
    bool set;
    uint64_t value; /* that it gets */
    uint64_t frees; /* to wait for */
};

static void
attribute_job_run(struct wrk *w, struct wrk_job *job)
{
    struct attribute_job *ask = container_of(job, struct attribute_job, job);
    struct wire_cuMemPoolGetAttribute_rep body = {0};
    bool answer;
    CUresult r;

    wrk_ctx_jobs_await_all(ask->frees);
    if (ask->set)
        r = WRK_CALL(w, cuMemPoolSetAttribute, ask->pool, ask->attr, &ask->value);
    else
        r = WRK_CALL(w, cuMemPoolGetAttribute, ask->pool, ask->attr, &body.value);
    answer = r == CUDA_SUCCESS && !ask->set;
    wrk_reply_whole(w, &job->req, r, &body, answer ? sizeof(body) : 0);
    free(ask);
}

/* False: no free waits for the card, and the call is to be made at once. */
static bool
attribute_behind_frees(struct wrk *w, struct wrk_reply *rep, CUresult *ret,
                       const struct attribute_job *what)
{
    uint64_t frees = wrk_ctx_jobs_newest_of_all();
    struct attribute_job *ask;

    if (!frees)
        return false;
    ask = malloc(sizeof(*ask));
    *ret = ask ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!ask)
        return true;
    *ask = *what;
    ask->job.run = attribute_job_run;
    ask->frees = frees;
    if (!wrk_waiters_job(w, rep, &ask->job))
        free(ask);
    return true;
}

/* What was freed is not in use any more: frees that wait for the card are waited for,
 * as cuMemGetInfo() does. */
CUresult
h_cuMemPoolGetAttribute(struct wrk *w, const struct wire_args_cuMemPoolGetAttribute *a,
                        struct wrk_reply *rep)
{
    const struct attribute_job what = {.pool = a->pool, .attr = a->attr};
    struct wire_cuMemPoolGetAttribute_rep *body = rep->body;
    CUresult r;

    if (attribute_behind_frees(w, rep, &r, &what))
        return r;
    return WRK_CALL(w, cuMemPoolGetAttribute, a->pool, a->attr, &body->value);
}

/* The largest use begins anew with what is in use now. */
CUresult
h_cuMemPoolSetAttribute(struct wrk *w, const struct wire_args_cuMemPoolSetAttribute *a,
                        struct wrk_reply *rep)
{
    uint64_t value = a->value;
    const struct attribute_job what = {
        .pool = a->pool, .attr = a->attr, .set = true, .value = value};
    CUresult r;

    if (attribute_behind_frees(w, rep, &r, &what))
        return r;
    return WRK_CALL(w, cuMemPoolSetAttribute, a->pool, a->attr, &value);
}
