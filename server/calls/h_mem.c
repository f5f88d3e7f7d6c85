/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: every allocating call asks the quota first, every free gives
 * back exactly what was taken.
 */
#include "drv.h"
#include "gp_base.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_graphmem.h"
#include "wrk_quota.h"
#include "wrk_release.h"
#include "wrk_transfer.h"
#include "wrk_waiters.h"
#include "wrk_window.h"

#include <string.h>

/* ---- allocating ---- */

enum mem_kind {
    MEM_PLAIN,
    MEM_MANAGED,
    MEM_PITCH,
    MEM_ASYNC,
    MEM_POOL,
};

/* What an allocating call asks for. */
struct mem_want {
    enum mem_kind kind;
    uint64_t charge; /* bytes that count */
    size_t size;
    size_t width, height;
    unsigned element;
    unsigned flags;
    CUstream stream;
    CUmemoryPool pool;
    uint32_t slice;
    uint32_t ctx_index;
};

GP_HOT static CUresult
mem_driver(struct wrk *w, const struct mem_want *m, CUdeviceptr *ptr, size_t *pitch)
{
    switch (m->kind) {
    case MEM_PLAIN:
        return WRK_CALL(w, cuMemAlloc_v2, ptr, m->size);
    case MEM_MANAGED:
        return WRK_CALL(w, cuMemAllocManaged, ptr, m->size, m->flags);
    case MEM_PITCH:
        return WRK_CALL(w, cuMemAllocPitch_v2, ptr, pitch, m->width, m->height,
                        m->element);
    case MEM_ASYNC:
        return WRK_CALL(w, cuMemAllocAsync, ptr, m->size, m->stream);
    case MEM_POOL:
        return WRK_CALL(w, cuMemAllocFromPoolAsync, ptr, m->size, m->pool, m->stream);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Allocate and note what has been taken; any thread with the context current. */
GP_HOT static CUresult
mem_taken(struct wrk *w, const struct mem_want *m, uint64_t answer[2])
{
    const struct wrk_quota_held held = {m->charge, m->slice, m->ctx_index};
    struct wrk_quota *q = w->priv->quota;
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    CUresult r;

    r = mem_driver(w, m, &ptr, &pitch);
    if (r == CUDA_SUCCESS && wrk_quota_note_new(q, ptr, &held) < 0) {
        WRK_CALL(w, cuMemFree_v2, ptr);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS)
        wrk_quota_give(q, m->slice, m->charge);
    else if (m->kind == MEM_PLAIN && unlikely(w->priv->windows != NULL))
        wrk_windows_know(w->priv->windows, ptr, m->size, m->ctx_index);
    answer[0] = ptr;
    answer[1] = pitch;
    return r;
}

/*
 * A driver waits for the context before it frees memory.  So a free in a busy context
 * is put into its queue (wrk_release.h), and the bytes are given back when the free is
 * complete.
 */
struct free_job {
    struct wrk_ctx_job queued;
    CUdeviceptr ptr;
    uint64_t held_by; /* what the quota has for it; 0: nothing */
    unsigned epoch;   /* of contexts: a later one may have taken the memory with it */
};

struct alloc_job {
    struct wrk_job job;
    struct mem_want want;
    uint32_t size;  /* of the answer */
    uint64_t frees; /* to wait for */
};

static void
alloc_job_run(struct wrk *w, struct wrk_job *job)
{
    struct alloc_job *alloc = container_of(job, struct alloc_job, job);
    uint64_t answer[2] = {0};
    CUresult r;

    if (alloc->frees)
        wrk_ctx_jobs_await_all(alloc->frees);
    r = wrk_quota_take_soon(w->priv->quota, alloc->want.slice, alloc->want.charge,
                            WRK_QUOTA_LATE_NS)
            ? mem_taken(w, &alloc->want, answer)
            : CUDA_ERROR_OUT_OF_MEMORY;
    wrk_quota_unshare(w->priv->quota);
    wrk_reply_whole(w, &job->req, r, answer, r == CUDA_SUCCESS ? alloc->size : 0);
    free(alloc);
}

/* The quota is exhausted while frees of this client, or of another process of the
 * session, are still pending: the call waits for them, as it would have if the frees
 * had been synchronous. */
GP_HOT static CUresult
mem_alloc(struct wrk *w, struct wrk_reply *rep, struct mem_want *m)
{
    struct alloc_job *alloc;
    uint64_t answer[2] = {0};
    uint64_t frees;
    CUresult r;

    if (!wrk_ctx_current(w))
        return CUDA_ERROR_INVALID_CONTEXT;
    m->ctx_index = w->ctx_index;
    m->slice = wrk_ctx_slice(w, w->ctx_index);
    frees = wrk_ctx_jobs_newest_of_all();
    r = wrk_quota_take(w->priv->quota, m->slice, m->charge) ? mem_taken(w, m, answer)
                                                            : CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(rep->body, answer,
           m->kind == MEM_PITCH ? sizeof(answer) : sizeof(answer[0]));
    if (r != CUDA_ERROR_OUT_OF_MEMORY || !(rep->req->flags & WIRE_F_REPLY) ||
        (!frees && !wrk_quota_shares(w->priv->quota)))
        return r;
    alloc = malloc(sizeof(*alloc));
    if (!alloc)
        return r;
    *alloc = (struct alloc_job){
        .job.run = alloc_job_run, .want = *m, .size = rep->size, .frees = frees};
    wrk_quota_share(w->priv->quota);
    if (!wrk_waiters_job(w, rep, &alloc->job)) {
        wrk_quota_unshare(w->priv->quota);
        free(alloc);
    }
    return CUDA_SUCCESS;
}

GP_HOT CUresult
h_cuMemAlloc_v2(struct wrk *w, const struct wire_args_cuMemAlloc_v2 *a,
                struct wrk_reply *rep)
{
    return mem_alloc(w, rep,
                     &(struct mem_want){.kind = MEM_PLAIN,
                                        .charge = a->bytesize,
                                        .size = a->bytesize});
}

CUresult
h_cuMemAllocManaged(struct wrk *w, const struct wire_args_cuMemAllocManaged *a,
                    struct wrk_reply *rep)
{
    return mem_alloc(w, rep,
                     &(struct mem_want){.kind = MEM_MANAGED,
                                        .charge = a->bytesize,
                                        .size = a->bytesize,
                                        .flags = a->flags});
}

/* The client asks for rows of a width; the padding is chosen by the driver and not
 * charged. */
CUresult
h_cuMemAllocPitch_v2(struct wrk *w, const struct wire_args_cuMemAllocPitch_v2 *a,
                     struct wrk_reply *rep)
{
    uint64_t bytes;

    if (!gp_mul_ok((uint64_t)a->WidthInBytes, (uint64_t)a->Height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return mem_alloc(w, rep,
                     &(struct mem_want){.kind = MEM_PITCH,
                                        .charge = bytes,
                                        .width = a->WidthInBytes,
                                        .height = a->Height,
                                        .element = a->ElementSizeBytes});
}

/* In a capture this makes a node, which has an address and costs nothing yet
 * (wrk_graphmem.h). */
static CUresult
mem_alloc_in_order(struct wrk *w, struct wrk_reply *rep, struct mem_want *m)
{
    CUmemPoolProps props = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                         .id = (int)wrk_ctx_slice(w, w->ctx_index)}};
    CUdeviceptr ptr = 0;
    CUresult r;

    if (wrk_capturing(w, m->stream) == CUDA_SUCCESS)
        return mem_alloc(w, rep, m);
    r = wrk_graphmem_node(w, &props, m->size);
    if (r == CUDA_SUCCESS)
        r = mem_driver(w, m, &ptr, NULL);
    memcpy(rep->body, &ptr, sizeof(ptr));
    return r;
}

CUresult
h_cuMemAllocAsync(struct wrk *w, const struct wire_args_cuMemAllocAsync *a,
                  struct wrk_reply *rep)
{
    return mem_alloc_in_order(w, rep,
                              &(struct mem_want){.kind = MEM_ASYNC,
                                                 .charge = a->bytesize,
                                                 .size = a->bytesize,
                                                 .stream = a->hStream});
}

CUresult
h_cuMemAllocFromPoolAsync(struct wrk *w,
                          const struct wire_args_cuMemAllocFromPoolAsync *a,
                          struct wrk_reply *rep)
{
    return mem_alloc_in_order(w, rep,
                              &(struct mem_want){.kind = MEM_POOL,
                                                 .charge = a->bytesize,
                                                 .size = a->bytesize,
                                                 .pool = a->pool,
                                                 .stream = a->hStream});
}

/* ---- freeing ---- */

/* The driver has (or has not) freed it: so does the ledger. */
GP_HOT static void
mem_freed(struct wrk *w, CUdeviceptr ptr, const struct wrk_quota_held *held, CUresult r)
{
    if (r == CUDA_SUCCESS) {
        wrk_graphmem_freed(ptr);
        if (held->bytes) /* none: a graph's node allocated it */
            wrk_quota_give(w->priv->quota, held->slice, held->bytes);
    } else if (held->bytes && wrk_quota_note(w->priv->quota, ptr, held->slice,
                                             held->ctx, held->bytes) < 0) {
        gp_log_error("quota", "%llu bytes are lost to the session's account",
                     (unsigned long long)held->bytes);
    }
}

GP_HOT static CUresult
mem_free(struct wrk *w, CUdeviceptr ptr, const struct wrk_quota_held *held)
{
    CUresult r;

    if (unlikely(w->priv->windows != NULL))
        wrk_windows_forget(w->priv->windows, ptr);
    r = WRK_CALL(w, cuMemFree_v2, ptr);
    mem_freed(w, ptr, held, r);
    return r;
}

static void
free_job_run(struct wrk *w, struct wrk_job *job)
{
    struct free_job *f = container_of(job, struct free_job, queued.job);
    CUresult r;

    wrk_windows_forget(w->priv->windows, f->ptr);
    r = WRK_CALL(w, cuMemFree_v2, f->ptr);
    if (r == CUDA_SUCCESS) {
        wrk_graphmem_freed(f->ptr);
        wrk_quota_drop(w->priv->quota, f->held_by);
    } else {
        wrk_quota_end_refused(w->priv->quota, f->held_by, f->ptr);
    }
    wrk_release_done(w);
    if (wrk_ctx_epoch() != f->epoch)
        r = CUDA_SUCCESS;
    if (job->req.flags & WIRE_F_REPLY)
        wrk_reply_whole(w, &job->req, r, NULL, 0);
    else if (r != CUDA_SUCCESS)
        wrk_defer(w, &job->req, r);
    free(f);
}

static CUresult
free_later(struct wrk *w, struct wrk_reply *rep, CUdeviceptr ptr,
           const struct wrk_quota_held *held)
{
    struct wrk_quota *q = w->priv->quota;
    struct free_job *f = malloc(sizeof(*f));

    if (!f)
        return mem_free(w, ptr, held);
    *f = (struct free_job){
        .queued.job.run = free_job_run, .ptr = ptr, .epoch = wrk_ctx_epoch()};
    if (held->bytes && wrk_quota_note(q, ptr, held->slice, held->ctx, held->bytes) == 0)
        f->held_by = wrk_quota_end_begins(q, ptr);
    if (!wrk_release_queue(w, rep, &f->queued)) /* the attachment ends */
        free(f);
    return CUDA_SUCCESS;
}

/* A driver waits for the context that has the memory, which may be another than the
 * current one, and for all of them before it frees managed memory or that of a pool. */
static bool
free_waits_elsewhere(struct wrk *w, CUdeviceptr ptr, const struct wrk_quota_held *held)
{
    CUcontext owner = NULL;
    CUmemoryPool pool = NULL;
    unsigned managed = 0;

    if (held->ctx != w->ctx_index)
        return true;
    /* Memory of a pool that is destroyed names no pool any more, and has no context. */
    if (WRK_CALL(w, cuPointerGetAttribute, &owner, CU_POINTER_ATTRIBUTE_CONTEXT, ptr) !=
            CUDA_SUCCESS ||
        !owner)
        return true;
    return (WRK_CALL(w, cuPointerGetAttribute, &managed,
                     CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr) == CUDA_SUCCESS &&
            managed) ||
           (WRK_CALL(w, cuPointerGetAttribute, &pool,
                     CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr) == CUDA_SUCCESS &&
            pool);
}

GP_HOT CUresult
h_cuMemFree_v2(struct wrk *w, const struct wire_args_cuMemFree_v2 *a,
               struct wrk_reply *rep)
{
    struct wrk_quota_held held;

    /* The ledger has no entry for an address that a graph's node allocated. */
    if (!wrk_quota_detach(w->priv->quota, a->dptr, &held))
        held = (struct wrk_quota_held){.ctx = w->ctx_index};
    if (wrk_release_must_wait(w) ||
        (unlikely(wrk_ctx_count() > 1) && free_waits_elsewhere(w, a->dptr, &held)) ||
        (unlikely(w->priv->windows != NULL) &&
         wrk_windows_busy(w->priv->windows, a->dptr)))
        return free_later(w, rep, a->dptr, &held);
    return mem_free(w, a->dptr, &held);
}

CUresult
h_cuMemFreeAsync(struct wrk *w, const struct wire_args_cuMemFreeAsync *a,
                 struct wrk_reply *rep)
{
    /* A node of a graph frees when the graph runs: wrk_graphmem.h. */
    bool captured = wrk_capturing(w, a->hStream) != CUDA_SUCCESS;
    CUresult r = WRK_CALL(w, cuMemFreeAsync, a->dptr, a->hStream);

    (void)rep;
    if (r == CUDA_SUCCESS && !captured) {
        wrk_graphmem_freed(a->dptr);
        wrk_quota_drop(w->priv->quota, a->dptr);
    }
    return r;
}

/* ---- asking ---- */

/* Any thread with a context of that slice current. */
GP_HOT static CUresult
mem_info(struct wrk *w, uint32_t slice, struct wire_cuMemGetInfo_v2_rep *ret)
{
    size_t card_free = 0;
    size_t card_total = 0;
    uint64_t limit, used;
    CUresult r = WRK_CALL(w, cuMemGetInfo_v2, &card_free, &card_total);

    if (r != CUDA_SUCCESS)
        return r;
    limit = wrk_quota_limit(w->priv->quota, slice);
    used = wrk_quota_used(w->priv->quota, slice);
    ret->total = limit;
    ret->free = gp_min(used < limit ? limit - used : 0, (uint64_t)card_free);
    return CUDA_SUCCESS;
}

struct info_job {
    struct wrk_job job;
    uint32_t slice;
    uint64_t frees; /* to wait for */
};

static void
info_job_run(struct wrk *w, struct wrk_job *job)
{
    struct info_job *info = container_of(job, struct info_job, job);
    struct wire_cuMemGetInfo_v2_rep body = {0};
    CUresult r;

    wrk_ctx_jobs_await_all(info->frees);
    r = wrk_deferred(w, mem_info(w, info->slice, &body));
    wrk_reply_whole(w, &job->req, r, &body, r == CUDA_SUCCESS ? sizeof(body) : 0);
    free(info);
}

/* What was freed is free: frees that wait for the card are waited for. */
GP_HOT CUresult
h_cuMemGetInfo_v2(struct wrk *w, const struct wire_args_cuMemGetInfo_v2 *a,
                  struct wrk_reply *rep)
{
    struct info_job *info;
    uint64_t frees;
    uint32_t slice;

    (void)a;
    if (!wrk_ctx_current(w))
        return CUDA_ERROR_INVALID_CONTEXT;
    slice = wrk_ctx_slice(w, w->ctx_index);
    frees = wrk_ctx_jobs_newest_of_all();
    if (!frees)
        return wrk_deferred(w, mem_info(w, slice, rep->body));
    info = malloc(sizeof(*info));
    if (!info)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *info = (struct info_job){.job.run = info_job_run, .slice = slice, .frees = frees};
    if (!wrk_waiters_job(w, rep, &info->job))
        free(info);
    return CUDA_SUCCESS;
}

CUresult
h_cuPointerGetAttribute(struct wrk *w, const struct wire_args_cuPointerGetAttribute *a,
                        struct wrk_reply *rep)
{
    struct wire_cuPointerGetAttribute_rep *body = rep->body;
    /* The largest answer of a known attribute is two words (the tokens). */
    uint64_t data[4] = {0};
    CUresult r;

    if (a->attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        return CUDA_ERROR_NOT_SUPPORTED; /* of use to a kernel module on this host */
    r = WRK_CALL(w, cuPointerGetAttribute, data, a->attribute, a->ptr);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        data[0] = wrk_handle_name(w, WIRE_KIND_CTX, (void *)(uintptr_t)data[0]);
    else if (a->attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
        data[0] = wrk_handle_name(w, WIRE_KIND_MEMPOOL, (void *)(uintptr_t)data[0]);
    body->data = data[0];
    return CUDA_SUCCESS;
}
