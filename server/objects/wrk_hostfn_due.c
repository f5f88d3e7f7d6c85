/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_hostfn_due.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_hostfn.h"

/* Streams with launches under way.  Programs launch graphs with functions in a few. */
#define LAUNCHES_MAX 64

static struct launch {
    CUevent event;
    CUstream stream;
    uint32_t ctx_index;
    bool left;    /* the stream is gone */
    bool unknown; /* without an event, so it is over with its context */
} list[LAUNCHES_MAX];

static uint32_t n;

static void
launch_remove(struct wrk *w, uint32_t i)
{
    if (list[i].event)
        wrk_evpool_put(w, list[i].ctx_index, list[i].event);
    list[i] = list[--n];
}

static bool
launch_is_over(struct wrk *w, const struct launch *launch)
{
    return !launch->unknown && WRK_CALL(w, cuEventQuery, launch->event) == CUDA_SUCCESS;
}

static bool
launches_over(struct wrk *w)
{
    for (uint32_t i = 0; i < n;) {
        if (!launch_is_over(w, &list[i]))
            return false;
        launch_remove(w, i);
    }
    return true;
}

bool
wrk_hostfn_due(struct wrk *w)
{
    return wrk_hostfns_of_streams(w->priv->hosts) || !launches_over(w);
}

static struct launch *
launch_find(CUstream stream, uint32_t ctx_index)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i].stream == stream && list[i].ctx_index == ctx_index && !list[i].left)
            return &list[i];
    return NULL;
}

/* The entry of @stream, or a new one; without room for it, those that are over leave.
 * NULL: none is, so the list is full of launches under way. */
static struct launch *
launch_enter(struct wrk *w, CUstream stream, uint32_t ctx_index)
{
    struct launch *launch = launch_find(stream, ctx_index);

    if (launch)
        return launch;
    for (uint32_t i = n; i > 0 && n == LAUNCHES_MAX; i--)
        if (launch_is_over(w, &list[i - 1]))
            launch_remove(w, i - 1);
    if (n == LAUNCHES_MAX)
        return NULL;
    launch = &list[n++];
    *launch = (struct launch){.stream = stream, .ctx_index = ctx_index};
    return launch;
}

/* In the launch's context. */
static bool
launch_mark(struct wrk *w, struct launch *launch)
{
    if (!launch->event)
        launch->event = wrk_evpool_get(w, launch->ctx_index);
    return launch->event &&
           WRK_CALL(w, cuEventRecord, launch->event, launch->stream) == CUDA_SUCCESS;
}

/* A launch that finds no room has one of the others taken for it. */
void
wrk_hostfn_due_launched(struct wrk *w, CUstream stream)
{
    uint32_t ctx_index, current = w->ctx_frame;
    struct launch *launch;

    if (!wrk_hostfns_of_graphs(w->priv->hosts) ||
        wrk_capturing(w, stream) != CUDA_SUCCESS)
        return;
    ctx_index = wrk_ctx_of_stream(w, stream);
    launch = launch_enter(w, stream, ctx_index);
    if (!launch) {
        list[0].unknown = true;
        return;
    }
    if ((ctx_index != w->ctx_index && wrk_ctx_use(w, ctx_index) != CUDA_SUCCESS) ||
        !launch_mark(w, launch))
        launch->unknown = true;
    if (w->ctx_frame != current)
        wrk_ctx_use(w, current);
}

void
wrk_hostfn_due_stream_gone(struct wrk *w, const void *stream)
{
    (void)w;
    for (uint32_t i = 0; i < n; i++)
        list[i].left |= list[i].stream == stream;
}

void
wrk_hostfn_due_ctx_gone(struct wrk *w, uint32_t ctx_index)
{
    (void)w;
    for (uint32_t i = 0; i < n;) {
        if (list[i].ctx_index == ctx_index)
            list[i] = list[--n];
        else
            i++;
    }
}
