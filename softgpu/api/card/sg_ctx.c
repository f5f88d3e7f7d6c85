/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: birth, death, the sticky error, and each thread's stack of current
 * ones.
 *
 * The stack holds handles, not pointers: a context destroyed by another thread
 * is simply found to be gone.
 */
#include "sg_ctx.h"

#include "sg_array.h"
#include "sg_core.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_module.h"
#include "sg_output.h"
#include "sg_sm.h"
#include "sg_stream.h"
#include "sg_texobj.h"
#include "sg_work.h"

#include "sg_memview.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Nobody nests contexts this deep; a runaway push gets an error. */
    MAX_STACK = 4096,
};

struct ctx_stack {
    uint64_t *handles;
    unsigned n, cap;
};

struct sg_ctx *sg_ctx_list;

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void
stack_free(void *arg)
{
    struct ctx_stack *stack = arg;

    free(stack->handles);
    free(stack);
}

static void
stack_key_make(void)
{
    pthread_key_create(&stack_key, stack_free);
}

static struct ctx_stack *
stack_get(bool create)
{
    static _Thread_local struct ctx_stack *mine;

    if (!mine && create) {
        pthread_once(&stack_once, stack_key_make);
        mine = calloc(1, sizeof(*mine));
        if (mine)
            pthread_setspecific(stack_key, mine);
    }
    return mine;
}

uint64_t
sg_ctx_current_handle(void)
{
    struct ctx_stack *stack = stack_get(false);

    return stack && stack->n ? stack->handles[stack->n - 1] : 0;
}

CUresult
sg_ctx_current(struct sg_ctx **ret_ctx)
{
    uint64_t handle = sg_ctx_current_handle();
    struct sg_ctx *ctx;

    if (!handle)
        return CUDA_ERROR_INVALID_CONTEXT;
    ctx = sg_handle_get(SG_KIND_CTX, handle);
    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_ctx = ctx;
    return CUDA_SUCCESS;
}

int
sg_ctx_push(uint64_t handle)
{
    struct ctx_stack *stack = stack_get(true);
    uint64_t *p;
    unsigned cap;

    if (!stack)
        return -ENOMEM;
    if (stack->n == stack->cap) {
        cap = stack->cap ? stack->cap * 2 : 8;
        if (cap > MAX_STACK)
            return -ENOMEM;
        p = realloc(stack->handles, cap * sizeof(*p));
        if (!p)
            return -ENOMEM;
        stack->handles = p;
        stack->cap = cap;
    }
    stack->handles[stack->n++] = handle;
    return 0;
}

static void
stack_pop(void)
{
    struct ctx_stack *stack = stack_get(false);

    if (stack && stack->n)
        stack->n--;
}

int
sg_ctx_set_current(uint64_t handle)
{
    stack_pop();
    return handle ? sg_ctx_push(handle) : 0;
}

static void
set_default_limits(struct sg_ctx *ctx)
{
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    ctx->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

static CUresult
ctx_init(struct sg_ctx *ctx)
{
    CUresult rc;

    if (sg_memview_new(&ctx->view) < 0 || sg_output_new(ctx, &ctx->output) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sg_stream_new(ctx, SG_STREAM_LEGACY_KIND, CU_STREAM_DEFAULT, 0, &ctx->legacy);
    if (rc == CUDA_SUCCESS)
        rc = sg_mem_attach_ctx(ctx);
    return rc;
}

CUresult
sg_ctx_new(struct sg_dev *dev, unsigned flags, bool primary, struct sg_ctx **ret_ctx)
{
    static uint64_t last_id;
    struct sg_ctx *ctx = calloc(1, sizeof(*ctx));
    CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

    if (!ctx)
        return rc;
    ctx->refs = 1;
    ctx->dev = dev;
    ctx->primary = primary;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->id = ++last_id;
    ctx->n_sms = dev->sms;
    set_default_limits(ctx);
    ctx->next = sg_ctx_list;
    sg_ctx_list = ctx;
    if (primary) {
        ctx->handle = dev->primary_handle;
        sg_handle_set(ctx->handle, ctx);
    } else {
        ctx->handle = sg_handle_new(SG_KIND_CTX, ctx);
    }
    if (ctx->handle)
        rc = ctx_init(ctx);
    if (rc != CUDA_SUCCESS) {
        sg_ctx_destroy(ctx);
        return rc;
    }
    *ret_ctx = ctx;
    return CUDA_SUCCESS;
}

static void
list_remove(struct sg_ctx *ctx)
{
    struct sg_ctx **p = &sg_ctx_list;

    while (*p && *p != ctx)
        p = &(*p)->next;
    if (*p)
        *p = ctx->next;
}

/* What is queued is skipped, what runs is cancelled; then everything the
 * context owns goes. */
void
sg_ctx_destroy(struct sg_ctx *ctx)
{
    if (ctx->primary) {
        sg_green_ctx_gone(ctx->handle);
        sg_handle_set(ctx->handle, NULL);
    } else {
        sg_handle_drop(ctx->handle);
    }
    ctx->dead = true;
    list_remove(ctx);
    sg_output_flush(ctx);
    ctx->error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sg_sm_cancel(ctx);
    while (ctx->n_work)
        sg_wait();
    sg_output_flush(ctx);
    while (ctx->modules)
        sg_module_unload(ctx->modules);
    while (ctx->events)
        sg_event_destroy(ctx->events);
    while (ctx->streams)
        sg_stream_destroy(ctx->streams);
    ctx->legacy = NULL;
    sg_texobj_detach_ctx(ctx);
    sg_array_detach_ctx(ctx);
    sg_mem_detach_ctx(ctx);
    sg_output_free(ctx->output);
    ctx->output = NULL;
    sg_ctx_unref(ctx);
}

struct sg_ctx *
sg_ctx_ref(struct sg_ctx *ctx)
{
    if (ctx)
        ctx->refs++;
    return ctx;
}

void
sg_ctx_unref(struct sg_ctx *ctx)
{
    if (!ctx || --ctx->refs)
        return;
    sg_memview_free(ctx->view); /* whoever hides a range holds a reference */
    free(ctx->peers);
    free(ctx);
}

void
sg_ctx_fail(struct sg_ctx *ctx, CUresult error)
{
    if (ctx->error != CUDA_SUCCESS)
        return;
    ctx->error = error;
    sg_sm_cancel(ctx);
}

static const struct sg_work_class marker_class = {
    .name = "context-marker",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

CUresult
sg_ctx_synchronize(struct sg_ctx *ctx)
{
    struct sg_work *work;
    CUresult rc;
    int r = 0;

    if (!ctx->n_work)
        return ctx->error;
    work = calloc(1, sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &marker_class, ctx);
    for (struct sg_stream *s = ctx->streams; s && r == 0; s = s->next)
        r = sg_work_after(work, s->last);
    if (r < 0) {
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
sg_ctx_synchronize_all(void)
{
    uint64_t below = UINT64_MAX;
    struct sg_ctx *c;

    for (;;) {
        for (c = sg_ctx_list; c && (c->id >= below || !c->n_work); c = c->next)
            ;
        if (!c)
            return;
        below = c->id;
        sg_ctx_ref(c);
        sg_ctx_synchronize(c);
        sg_ctx_unref(c);
    }
}
