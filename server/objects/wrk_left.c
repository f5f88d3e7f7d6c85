/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_left.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"

/* Contexts of one client in which a busy stream was destroyed; in further ones the
 * waits are made by waiter threads. */
#define LEFT_CONTEXTS_MAX 64

static struct left {
    uint32_t ctx_index;
    bool unknown;    /* there is work behind which no event could be recorded */
    CUstream stream; /* NULL: none was needed, or there was none to be had */
} list[LEFT_CONTEXTS_MAX];

static uint32_t n;

static struct left *
find(uint32_t ctx_index)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i].ctx_index == ctx_index)
            return &list[i];
    return NULL;
}

/* NULL when there is no room. */
static struct left *
find_or_add(uint32_t ctx_index)
{
    struct left *left = find(ctx_index);

    if (left || n == LEFT_CONTEXTS_MAX)
        return left;
    list[n] = (struct left){.ctx_index = ctx_index};
    return &list[n++];
}

static bool
enter(struct wrk *w, uint32_t ctx_index)
{
    return ctx_index == w->ctx_index || wrk_ctx_use(w, ctx_index) == CUDA_SUCCESS;
}

/* The context's stream of the worker's own waits for @event, NULL if there was none to
 * be had.  The event is the pool's again: what was recorded in it before counts. */
static void
add(struct wrk *w, uint32_t ctx_index, CUevent event)
{
    struct left *left = find_or_add(ctx_index);

    if (left && !left->stream && event && enter(w, ctx_index) &&
        WRK_CALL(w, cuStreamCreate, &left->stream, CU_STREAM_NON_BLOCKING) !=
            CUDA_SUCCESS)
        left->stream = NULL;
    if (left &&
        (!left->stream || !event ||
         WRK_CALL(w, cuStreamWaitEvent, left->stream, event, 0) != CUDA_SUCCESS))
        left->unknown = true;
    if (event)
        wrk_evpool_put(w, ctx_index, event);
}

/* The stream may have work from before its capture.  It cannot be queried, and an event
 * would become part of the capture, so there is one from its beginning.  Streams that
 * joined the capture of another one have none. */
static void
note_captured(struct wrk *w, CUstream stream, uint32_t ctx_index)
{
    struct wrk_capture capture;

    if (!wrk_capture_take(w, stream, &capture))
        add(w, ctx_index, NULL);
    else if (capture.event || capture.unknown)
        add(w, ctx_index, capture.event);
}

static void
note(struct wrk *w, CUstream stream, uint32_t ctx_index)
{
    CUevent event;

    if (wrk_capturing(w, stream) != CUDA_SUCCESS) {
        note_captured(w, stream, ctx_index);
        return;
    }
    if (WRK_CALL(w, cuStreamQuery, stream) == CUDA_SUCCESS || !enter(w, ctx_index))
        return;
    event = wrk_evpool_get(w, ctx_index);
    if (event && WRK_CALL(w, cuEventRecord, event, stream) != CUDA_SUCCESS) {
        wrk_evpool_put(w, ctx_index, event);
        event = NULL;
    }
    add(w, ctx_index, event);
}

void
wrk_left_note(struct wrk *w, CUstream stream)
{
    wrk_capture_relax_own(w);
    note(w, stream, wrk_ctx_of_stream(w, stream));
    wrk_capture_relax_client(w);
}

bool
wrk_left_stream(uint32_t ctx_index, CUstream *ret)
{
    const struct left *left = find(ctx_index);

    *ret = left ? left->stream : NULL;
    return left ? !left->unknown : n < LEFT_CONTEXTS_MAX;
}

CUresult
wrk_left_query(struct wrk *w, uint32_t ctx_index)
{
    CUstream stream;

    if (!wrk_left_stream(ctx_index, &stream))
        return CUDA_ERROR_NOT_READY;
    return stream ? WRK_CALL(w, cuStreamQuery, stream) : CUDA_SUCCESS;
}

void
wrk_left_forget(struct wrk *w, uint32_t ctx_index)
{
    struct left *left = find(ctx_index);

    (void)w;
    if (left)
        *left = list[--n];
}
