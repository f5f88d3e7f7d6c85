/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_internal_stream.h"
#include "stub_capture.h"

#include "cuda_api.h"
#include "gp_lock.h"
#include "stub_ctx.h"

#include <stdlib.h>

/* Streams or events that nobody uses at present. */
struct spare {
    struct spare *next;
    void *handle;
};

struct side {
    struct side *next;
    uint64_t unique; /* of the context, which may come to life again as another */
    struct spare *streams;
    struct spare *events;
    CUdeviceptr words; /* 0: none needed yet */
    uint32_t at;       /* where the search for a free semaphore begins */
    uint32_t value[STUB_SEMAPHORES];
    bool closed[STUB_SEMAPHORES];
};

static struct gp_lock lock;
static struct side *sides;

/* Of the current context.  Under the lock; NULL: out of memory. */
static struct side *
side_here(void)
{
    uint64_t unique = atomic_load(&stub_tls.ctx->unique);
    struct side *s = sides;

    while (s && s->unique != unique)
        s = s->next;
    if (s)
        return s;
    s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->unique = unique;
    s->next = sides;
    sides = s;
    return s;
}

static void *
spare_take(bool event)
{
    struct spare **list = NULL, *spare = NULL;
    void *handle = NULL;
    struct side *s;

    gp_lock_take(&lock);
    s = side_here();
    if (s)
        list = event ? &s->events : &s->streams;
    if (list && *list) {
        spare = *list;
        *list = spare->next;
        handle = spare->handle;
    }
    gp_lock_release(&lock);
    free(spare);
    return handle;
}

static void
spare_put(void *handle, bool event)
{
    struct spare *spare = malloc(sizeof(*spare)), **list;
    struct side *s;

    gp_lock_take(&lock);
    s = spare ? side_here() : NULL;
    if (s) {
        list = event ? &s->events : &s->streams;
        *spare = (struct spare){*list, handle};
        *list = spare;
    }
    gp_lock_release(&lock);
    if (!s)
        free(spare); /* the object stays with its context */
}

CUstream
stub_internal_stream(void)
{
    CUstream stream = spare_take(false);

    if (!stream && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return NULL;
    return stream;
}

CUevent
stub_internal_event(void)
{
    CUevent event = spare_take(true);

    if (!event && cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    return event;
}

void
stub_internal_stream_put(CUstream stream)
{
    spare_put(stream, false);
}

void
stub_internal_event_put(CUevent event)
{
    spare_put(event, true);
}

/* ---- fences ------------------------------------------------------------------ */

CUresult
stub_fence_set(CUstream stream, CUevent event, struct stub_fence *ret)
{
    struct stub_fence fence = {.ctx = stub_tls.ctx};
    CUresult r = CUDA_SUCCESS;

    if (!fence.ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    fence.event = stub_internal_event();
    fence.stream = event ? stub_internal_stream() : NULL;
    if (!fence.event || (event && !fence.stream))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (event)
        r = cuStreamWaitEvent(fence.stream, event, 0);
    if (r == CUDA_SUCCESS)
        r = cuEventRecord(fence.event, event ? fence.stream : stream);
    if (r == CUDA_SUCCESS)
        *ret = fence;
    return r;
}

CUresult
stub_fence_wait(const struct stub_fence *fence)
{
    CUresult r;

    if (!stub_internal_ctx_push(fence->ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = cuEventSynchronize(fence->event);
    stub_internal_event_put(fence->event);
    if (fence->stream)
        stub_internal_stream_put(fence->stream);
    stub_internal_ctx_pop();
    return r;
}

/* ---- words ------------------------------------------------------------------ */

/* Words that are zero before anybody may wait for one. */
static CUdeviceptr
semaphore_words_clear(void)
{
    CUstream stream = stub_internal_stream();
    CUdeviceptr words;

    if (!stream ||
        cuMemAlloc_v2(&words, STUB_SEMAPHORES * sizeof(uint32_t)) != CUDA_SUCCESS)
        return 0;
    if (cuMemsetD32Async(words, 0, STUB_SEMAPHORES, stream) != CUDA_SUCCESS ||
        stub_capture_wait_stream(stream) != CUDA_SUCCESS)
        return 0;
    stub_internal_stream_put(stream);
    return words;
}

/* Fresh ones.  0: out of memory, or the context has ended. */
static CUdeviceptr
semaphore_words_new(void)
{
    CUdeviceptr words;

    if (!stub_internal_ctx_push(stub_tls.ctx))
        return 0;
    words = semaphore_words_clear();
    stub_internal_ctx_pop();
    return words;
}

/* The semaphore words of the current context.  They are made outside of the lock,
 * because that takes round trips.  If two threads make them, one set is kept. */
static CUdeviceptr
semaphore_words(void)
{
    CUdeviceptr words = 0, mine;
    struct side *s;

    gp_lock_take(&lock);
    s = side_here();
    if (s)
        words = s->words;
    gp_lock_release(&lock);
    if (words || !s)
        return words;
    mine = semaphore_words_new();
    if (!mine)
        return 0;
    gp_lock_take(&lock);
    words = s->words ? s->words : mine;
    s->words = words;
    gp_lock_release(&lock);
    if (words != mine)
        cuMemFree_v2(mine);
    return words;
}

/* A semaphore that is released; it is reused by raising the value that is waited
 * for.  A stream that still waits for an earlier value has seen it by then, or sees
 * the later one. */
static bool
semaphore_take(CUdeviceptr words, struct stub_semaphore *ret)
{
    bool found = false;
    struct side *s;

    gp_lock_take(&lock);
    s = side_here();
    for (uint32_t n = 0; s && n < STUB_SEMAPHORES && !found; n++) {
        uint32_t i = (s->at + n) % STUB_SEMAPHORES;

        found = !s->closed[i];
        if (!found)
            continue;
        s->closed[i] = true;
        s->at = i + 1;
        *ret = (struct stub_semaphore){stub_tls.ctx, words + i * sizeof(uint32_t),
                                       ++s->value[i]};
    }
    gp_lock_release(&lock);
    return found;
}

static void
semaphore_give(const struct stub_semaphore *semaphore)
{
    struct side *s;

    gp_lock_take(&lock);
    s = side_here();
    if (s && s->words)
        s->closed[(semaphore->word - s->words) / sizeof(uint32_t) % STUB_SEMAPHORES] =
            false;
    gp_lock_release(&lock);
}

/* Held while a wait for a semaphore is posted, or what must not come behind one. */
static struct gp_lock posting;
static uint32_t semaphores_held; /* under posting */

bool
stub_semaphores_hold_off(void)
{
    gp_lock_take(&posting);
    if (!semaphores_held)
        return true;
    gp_lock_release(&posting);
    return false;
}

void
stub_semaphores_go_on(void)
{
    gp_lock_release(&posting);
}

CUresult
stub_semaphore_wait(CUstream stream, struct stub_semaphore *ret)
{
    CUdeviceptr words;
    CUresult r;

    if (!stub_tls.ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    words = semaphore_words();
    if (!words || !semaphore_take(words, ret))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gp_lock_take(&posting);
    r = cuStreamWaitValue32_v2(stream, ret->word, ret->value, CU_STREAM_WAIT_VALUE_GEQ);
    if (r == CUDA_SUCCESS)
        semaphores_held++;
    gp_lock_release(&posting);
    if (r != CUDA_SUCCESS)
        semaphore_give(ret);
    return r;
}

/* Waiting for the write has it sent, and shows when the word may be used again. */
static void
semaphore_open(const struct stub_semaphore *semaphore)
{
    CUstream stream;

    if (!stub_internal_ctx_push(semaphore->ctx))
        return; /* the stream ended with its context */
    stream = stub_internal_stream();
    if (stream &&
        cuStreamWriteValue32_v2(stream, semaphore->word, semaphore->value, 0) ==
            CUDA_SUCCESS &&
        stub_capture_wait_stream(stream) == CUDA_SUCCESS) {
        semaphore_give(semaphore);
        stub_internal_stream_put(stream);
    }
    stub_internal_ctx_pop();
}

void
stub_semaphore_release(const struct stub_semaphore *semaphore)
{
    semaphore_open(semaphore);
    gp_lock_take(&posting);
    semaphores_held--;
    gp_lock_release(&posting);
}

/* ---- contexts --------------------------------------------------------------- */

bool
stub_internal_ctx_push(struct stub_ctx *ctx)
{
    if (!atomic_load(&ctx->alive) || stub_ctx_push(ctx) < 0)
        return false;
    stub_tls.internal++;
    return true;
}

void
stub_internal_ctx_pop(void)
{
    stub_tls.internal--;
    stub_ctx_pop();
}
