/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: order, default stream rules, waiting.
 */
#include "sg_stream.h"

#include "gp_list.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_work.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_key_t thread_key;
static bool thread_key_made; /* a program may use up all keys there are */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static _Thread_local uint64_t this_number;

/* A thread that used its own streams ends: nobody can name them any more.  What
 * destructors of other keys do in such a stream after this is done in another one. */
static void
thread_gone(void *arg)
{
    uint64_t self = (uint64_t)(uintptr_t)arg;
    struct sg_stream *next;

    this_number = 0;
    if (sg_enter_init() != CUDA_SUCCESS)
        return;
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next) {
        for (struct sg_stream *s = c->streams; s; s = next) {
            next = s->next;
            if (s->kind == SG_STREAM_THREAD && s->thread == self && !s->last)
                sg_stream_destroy(s);
        }
    }
    sg_leave(CUDA_SUCCESS);
}

static void
thread_key_make(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_gone) == 0;
}

/* Tells threads apart for their per-thread streams; never reused. */
static uint64_t
this_thread(void)
{
    static uint64_t last; /* lock held */

    if (!this_number) {
        this_number = ++last;
        pthread_once(&thread_once, thread_key_make);
        if (thread_key_made)
            pthread_setspecific(thread_key, (void *)(uintptr_t)this_number);
    }
    return this_number;
}

CUresult
sg_stream_new(struct sg_ctx *ctx, enum sg_stream_kind kind, unsigned flags,
              int priority, struct sg_stream **ret_stream)
{
    static uint64_t last_id;
    struct sg_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->handle = sg_handle_new(SG_KIND_STREAM, stream);
    if (!stream->handle) {
        free(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->refs = 1;
    stream->ctx = ctx;
    stream->kind = kind;
    stream->non_blocking = flags & CU_STREAM_NON_BLOCKING;
    stream->priority = priority;
    stream->id = ++last_id;
    stream->sync_policy = CU_SYNC_POLICY_AUTO;
    stream->domain_map = sg_dev_domain_map(ctx->dev);
    stream->sms = ctx->sms;
    if (kind == SG_STREAM_THREAD)
        stream->thread = this_thread();
    GP_LIST_ADD(&ctx->streams, stream);
    *ret_stream = stream;
    return CUDA_SUCCESS;
}

struct sg_stream *
sg_stream_ref(struct sg_stream *stream)
{
    stream->refs++;
    return stream;
}

void
sg_stream_unref(struct sg_stream *stream)
{
    if (!stream || --stream->refs)
        return;
    sg_work_unref(stream->last);
    sg_deps_clear(&stream->capture_deps);
    free(stream);
}

/* Out of the context's list, and the reference that goes with it. */
static void
stream_unlink(struct sg_stream *stream)
{
    GP_LIST_DROP(stream);
    stream->kept = false;
    sg_stream_unref(stream);
}

static void (*leave_capture)(struct sg_stream *stream);

void
sg_stream_on_leaving_capture(void (*fn)(struct sg_stream *stream))
{
    leave_capture = fn;
}

void
sg_stream_destroy(struct sg_stream *stream)
{
    if (stream->dead) { /* its context ends before its work does */
        stream_unlink(stream);
        return;
    }
    if (stream->capture)
        leave_capture(stream);
    sg_handle_drop(stream->handle);
    stream->handle = 0;
    stream->dead = true;
    if (stream->last)
        stream->kept = true;
    else
        stream_unlink(stream);
}

static CUresult
thread_stream(struct sg_ctx *ctx, struct sg_stream **ret_stream)
{
    uint64_t self = this_thread();

    for (struct sg_stream *s = ctx->streams; s; s = s->next) {
        if (s->kind == SG_STREAM_THREAD && s->thread == self) {
            *ret_stream = s;
            return CUDA_SUCCESS;
        }
    }
    return sg_stream_new(ctx, SG_STREAM_THREAD, CU_STREAM_DEFAULT, 0, ret_stream);
}

CUresult
sg_stream_get(struct sg_ctx *ctx, CUstream handle, struct sg_stream **ret_stream)
{
    struct sg_stream *stream;

    if (!handle || handle == CU_STREAM_LEGACY) {
        *ret_stream = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD)
        return thread_stream(ctx, ret_stream);
    stream = SG_OBJ(sg_stream, SG_KIND_STREAM, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->ctx->error != CUDA_SUCCESS)
        return stream->ctx->error;
    *ret_stream = stream;
    return CUDA_SUCCESS;
}

static bool
is_blocking(const struct sg_stream *stream)
{
    return stream->kind != SG_STREAM_LEGACY_KIND && !stream->non_blocking;
}

bool
sg_stream_serves(const struct sg_stream *stream, uint64_t green)
{
    return !green || stream->green == green || stream->kind != SG_STREAM_NORMAL;
}

/* A barrier that is done is let go of. */
static bool
is_barred(struct sg_ctx *ctx)
{
    if (!sg_work_is_done(ctx->barrier))
        return true;
    sg_work_unref(ctx->barrier);
    ctx->barrier = NULL;
    return false;
}

/* Everything that work put into @stream now has to wait for, by the rules. */
static int
order_behind(struct sg_stream *stream, struct sg_work *work)
{
    int r = sg_work_after(work, stream->last);

    if (r == 0 && is_barred(stream->ctx))
        r = sg_work_after(work, stream->ctx->barrier);
    if (stream->kind == SG_STREAM_LEGACY_KIND) {
        for (struct sg_stream *s = stream->ctx->streams; s && r == 0; s = s->next)
            if (is_blocking(s))
                r = sg_work_after(work, s->last);
    } else if (r == 0 && is_blocking(stream)) {
        r = sg_work_after(work, stream->ctx->legacy->last);
    }
    return r;
}

bool
sg_stream_is_barred(const struct sg_stream *stream)
{
    return !sg_work_is_done(stream->ctx->barrier);
}

bool
sg_stream_is_idle(const struct sg_stream *stream)
{
    if (stream->last || sg_stream_is_barred(stream))
        return false;
    if (stream->kind == SG_STREAM_LEGACY_KIND) {
        for (const struct sg_stream *s = stream->ctx->streams; s; s = s->next)
            if (is_blocking(s) && s->last)
                return false;
        return true;
    }
    return !is_blocking(stream) || !stream->ctx->legacy->last;
}

static void
work_ended(struct sg_work *work)
{
    struct sg_stream *stream = work->stream;

    work->stream = NULL;
    if (stream->last == work) {
        stream->last = NULL;
        sg_work_unref(work);
        if (stream->kept)
            stream_unlink(stream);
    }
    sg_stream_unref(stream);
}

CUresult
sg_stream_enqueue(struct sg_stream *stream, struct sg_work *work, struct sg_work *extra)
{
    if (order_behind(stream, work) < 0 || sg_work_after(work, extra) < 0) {
        sg_work_unref(work); /* edges made so far keep it until they fire */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    work->stream = sg_stream_ref(stream);
    work->ended = work_ended;
    if (!work->has_priority)
        work->priority = stream->priority;
    sg_work_unref(stream->last);
    stream->last = work; /* the caller's reference */
    sg_work_submit(work);
    return CUDA_SUCCESS;
}

static int
order_behind_all(const struct sg_ctx *ctx, struct sg_work *work)
{
    int r = sg_work_after(work, ctx->barrier);

    for (struct sg_stream *s = ctx->streams; s && r == 0; s = s->next)
        r = sg_work_after(work, s->last);
    return r;
}

CUresult
sg_stream_enqueue_barrier(struct sg_stream *stream, struct sg_work *work,
                          struct sg_ctx *const *ctxs, size_t n)
{
    int r = 0;
    CUresult rc;

    for (size_t i = 0; i < n && r == 0; i++)
        r = order_behind_all(ctxs[i], work);
    if (r < 0) {
        sg_work_unref(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_work_ref(work);
    rc = sg_stream_enqueue(stream, work, NULL);
    for (size_t i = 0; i < n && rc == CUDA_SUCCESS; i++) {
        sg_work_unref(ctxs[i]->barrier);
        ctxs[i]->barrier = sg_work_ref(work);
    }
    sg_work_unref(work);
    return rc;
}

bool
sg_streams_are_idle(const struct sg_ctx *ctx)
{
    for (const struct sg_stream *s = ctx->streams; s; s = s->next)
        if (s->last)
            return false;
    return sg_work_is_done(ctx->barrier);
}

static CUresult
wait_for(struct sg_ctx *ctx, struct sg_work *work)
{
    CUresult rc;

    sg_ctx_ref(ctx);
    sg_work_wait(work);
    rc = ctx->error;
    if (rc == CUDA_SUCCESS && work)
        rc = work->result;
    sg_work_unref(work);
    sg_ctx_unref(ctx);
    return rc;
}

CUresult
sg_stream_enqueue_wait(struct sg_stream *stream, struct sg_work *work)
{
    struct sg_ctx *ctx = stream->ctx;
    CUresult rc;

    sg_work_ref(work);
    rc = sg_stream_enqueue(stream, work, NULL);
    if (rc != CUDA_SUCCESS) {
        sg_work_unref(work);
        return rc;
    }
    return wait_for(ctx, work);
}

static const struct sg_work_class marker_class = {
    .name = "marker",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

CUresult
sg_stream_synchronize(struct sg_stream *stream)
{
    struct sg_work *work;

    if (stream->kind != SG_STREAM_LEGACY_KIND && !sg_stream_is_barred(stream))
        return wait_for(stream->ctx, sg_work_ref(stream->last));
    if (sg_stream_is_idle(stream))
        return stream->ctx->error;
    work = calloc(1, sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &marker_class, stream->ctx);
    if (order_behind(stream, work) < 0) {
        sg_work_unref(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_work_submit(work);
    return wait_for(stream->ctx, work);
}

static const struct sg_work_class streams_marker_class = {
    .name = "context-marker",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

CUresult
sg_streams_synchronize(struct sg_ctx *ctx)
{
    struct sg_work *work;
    CUresult rc;

    if (!ctx->n_work && sg_work_is_done(ctx->barrier))
        return ctx->error;
    work = calloc(1, sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &streams_marker_class, ctx);
    if (order_behind_all(ctx, work) < 0) {
        sg_work_unref(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_work_submit(work);
    sg_work_wait(work);
    rc = ctx->error;
    sg_work_unref(work);
    return rc;
}

/* Contexts are listed youngest first, so the list can be followed by id while
 * the lock is dropped in between. */
void
sg_streams_synchronize_all(void)
{
    uint64_t below = UINT64_MAX;
    struct sg_ctx *c;

    for (;;) {
        for (c = sg_ctx_list; c && (c->id >= below || sg_streams_are_idle(c));
             c = c->next)
            ;
        if (!c)
            return;
        below = c->id;
        sg_ctx_ref(c);
        sg_streams_synchronize(c);
        sg_ctx_unref(c);
    }
}
