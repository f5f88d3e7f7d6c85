/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: birth, death, the sticky error, and each thread's stack of current
 * ones.
 *
 * The stack holds handles, not pointers: a context destroyed by another thread
 * is simply found to be gone.
 */
#include "sg_ctx.h"

#include "gp_list.h"
#include "sg_core.h"
#include "sg_dev.h"
#include "sg_handle.h"

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
    bool ending; /* its thread does */
};

struct sg_ctx *sg_ctx_list;

/* The error after which the process gets no context that works; see sg_ctx_fail(). */
static CUresult process_error;

static pthread_key_t stack_key;
static bool stack_key_made; /* a program may use up all keys there are */
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;
static _Thread_local struct ctx_stack *my_stack;

/* A thread ends.  Destructors of other keys may make calls, after this one too: the
 * first round leaves the stack to them, and whoever calls later begins another. */
static void
stack_end(void *arg)
{
    struct ctx_stack *stack = arg;

    if (!stack->ending) {
        stack->ending = true;
        if (pthread_setspecific(stack_key, stack) == 0)
            return;
    }
    my_stack = NULL;
    free(stack->handles);
    free(stack);
}

static void
stack_key_make(void)
{
    stack_key_made = pthread_key_create(&stack_key, stack_end) == 0;
}

/* Without a key the thread leaves its stack behind. */
static struct ctx_stack *
stack_get(bool create)
{
    if (!my_stack && create) {
        pthread_once(&stack_once, stack_key_make);
        my_stack = calloc(1, sizeof(*my_stack));
        if (my_stack && stack_key_made)
            pthread_setspecific(stack_key, my_stack);
    }
    return my_stack;
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

CUresult
sg_enter_broken(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_ctx_current(ret_ctx);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

CUresult
sg_enter(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter_broken(ret_ctx);

    if (rc == CUDA_SUCCESS && (*ret_ctx)->error != CUDA_SUCCESS)
        return sg_leave((*ret_ctx)->error);
    return rc;
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

static const struct sg_ctx_part *parts;
static size_t n_parts;

void
sg_ctx_set_parts(const struct sg_ctx_part *list, size_t n)
{
    parts = list;
    n_parts = n;
}

static CUresult
ctx_init(struct sg_ctx *ctx)
{
    CUresult rc = CUDA_SUCCESS;

    if (sg_memview_new(&ctx->view) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_parts && rc == CUDA_SUCCESS; i++)
        if (parts[i].begin)
            rc = parts[i].begin(ctx);
    return rc;
}

static void
call_parts(struct sg_ctx *ctx, size_t which)
{
    for (size_t i = 0; i < n_parts; i++) {
        void (*const *fn)(struct sg_ctx *) = (void (*const *)(struct sg_ctx *))(
            const void *)((const char *)&parts[i] + which);
        if (*fn)
            (*fn)(ctx);
    }
}

#define CALL_PARTS(ctx, member) call_parts(ctx, offsetof(struct sg_ctx_part, member))

uint64_t
sg_ctx_new_id(void)
{
    static uint64_t last_id;

    return ++last_id;
}

CUresult
sg_ctx_new(struct sg_dev *dev, unsigned flags, bool primary, struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_ctx_process_error();
    struct sg_ctx *ctx;

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = CUDA_ERROR_OUT_OF_MEMORY;
    ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return rc;
    ctx->refs = 1;
    ctx->dev = dev;
    ctx->primary = primary;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->id = sg_ctx_new_id();
    ctx->sms = sg_sm_set_first(dev->sms);
    set_default_limits(ctx);
    GP_LIST_ADD(&sg_ctx_list, ctx);
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

/* What is queued is skipped, what runs is cancelled; then everything the
 * context owns goes. */
void
sg_ctx_destroy(struct sg_ctx *ctx)
{
    CALL_PARTS(ctx, lose_handle);
    if (ctx->primary)
        sg_handle_set(ctx->handle, NULL);
    else
        sg_handle_drop(ctx->handle);
    ctx->dead = true;
    GP_LIST_DROP(ctx);
    CALL_PARTS(ctx, flush);
    ctx->error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CALL_PARTS(ctx, cancel);
    while (ctx->n_work)
        sg_wait();
    CALL_PARTS(ctx, flush);
    CALL_PARTS(ctx, end);
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

/* Those of which CUDA says that the process is left in an inconsistent state, and the
 * failed assertion, of which it says so of the context, and drivers do so of the
 * process.
 */
static bool
ends_the_process(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

static void
fail(struct sg_ctx *ctx, CUresult error)
{
    ctx->error = error;
    CALL_PARTS(ctx, cancel);
}

void
sg_ctx_fail(struct sg_ctx *ctx, CUresult error)
{
    if (ctx->error != CUDA_SUCCESS)
        return;
    fail(ctx, error);
    if (!ends_the_process(error) || process_error != CUDA_SUCCESS)
        return;
    process_error = error;
    for (ctx = sg_ctx_list; ctx; ctx = ctx->next)
        if (ctx->error == CUDA_SUCCESS)
            fail(ctx, error);
}

CUresult
sg_ctx_process_error(void)
{
    return process_error;
}
