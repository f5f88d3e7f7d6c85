/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_left.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"

/* Programs destroy streams that are idle; a client that leaves more of them busy has
 * its waits made by waiter threads until those of the list are done. */
#define LEFT_MAX 64

static struct {
    CUevent
        event; /* NULL: there was none; waiter threads wait until the context ends */
    uint32_t ctx_index;
} list[LEFT_MAX];

static uint32_t n;

static void
add(CUevent event, uint32_t ctx_index)
{
    list[n].event = event;
    list[n++].ctx_index = ctx_index;
}

/* One of them holds up the end of its context whatever there is besides. */
static void
add_unknown(uint32_t ctx_index)
{
    if (n == LEFT_MAX)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (!list[i].event && list[i].ctx_index == ctx_index)
            return;
    add(NULL, ctx_index);
}

/* The stream may have work from before its capture.  It cannot be queried, and an event
 * would become part of the capture, so there is one from its beginning.  Streams that
 * joined the capture of another one have none. */
static void
note_captured(struct wrk *w, CUstream stream, uint32_t ctx_index)
{
    struct wrk_capture capture;

    if (!wrk_capture_take(w, stream, &capture))
        add_unknown(ctx_index);
    else if (capture.event && n < LEFT_MAX)
        add(capture.event, ctx_index);
    else if (capture.event)
        wrk_evpool_put(w, ctx_index, capture.event);
    else if (capture.unknown)
        add_unknown(ctx_index);
}

void
wrk_left_note(struct wrk *w, CUstream stream)
{
    uint32_t ctx_index = wrk_ctx_of_stream(w, stream);
    CUevent event;

    if (wrk_capturing(w, stream) != CUDA_SUCCESS) {
        note_captured(w, stream, ctx_index);
        return;
    }
    if (n == LEFT_MAX || WRK_CALL(w, cuStreamQuery, stream) == CUDA_SUCCESS ||
        (ctx_index != w->ctx_index && wrk_ctx_use(w, ctx_index) != CUDA_SUCCESS))
        return;
    event = wrk_evpool_get(w, ctx_index);
    if (event && WRK_CALL(w, cuEventRecord, event, stream) != CUDA_SUCCESS) {
        wrk_evpool_put(w, ctx_index, event);
        event = NULL;
    }
    if (event)
        add(event, ctx_index);
    else
        add_unknown(ctx_index);
}

CUresult
wrk_left_query(struct wrk *w, uint32_t ctx_index)
{
    for (uint32_t i = 0; i < n;) {
        CUresult r;

        if (list[i].ctx_index != ctx_index) {
            i++;
            continue;
        }
        r = list[i].event ? WRK_CALL(w, cuEventQuery, list[i].event)
                          : CUDA_ERROR_NOT_READY;
        if (r != CUDA_SUCCESS)
            return r;
        wrk_evpool_put(w, ctx_index, list[i].event);
        list[i] = list[--n];
    }
    return n == LEFT_MAX ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

void
wrk_left_forget(struct wrk *w, uint32_t ctx_index)
{
    (void)w;
    for (uint32_t i = 0; i < n;) {
        if (list[i].ctx_index == ctx_index)
            list[i] = list[--n];
        else
            i++;
    }
}
