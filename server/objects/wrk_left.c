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

/* The context that was current when the client made it. */
static uint32_t
ctx_of(const struct wrk *w, const void *stream)
{
    const struct wrk_handle_array *streams = &w->handles.client[WIRE_KIND_STREAM];

    for (uint32_t i = 0; i < streams->cap; i++)
        if (streams->slots[i].obj == stream)
            return streams->slots[i].user;
    return w->ctx_index;
}

/* XXX: A stream that is destroyed during its capture may have work from before.  It
 * cannot be queried, and an event would become part of the capture. */
void
wrk_left_note(struct wrk *w, CUstream stream)
{
    uint32_t ctx_index;
    CUevent event;

    if (n == LEFT_MAX || wrk_capturing(w, stream) != CUDA_SUCCESS ||
        WRK_CALL(w, cuStreamQuery, stream) != CUDA_ERROR_NOT_READY)
        return;
    ctx_index = ctx_of(w, stream);
    if (ctx_index != w->ctx_index && wrk_ctx_use(w, ctx_index) != CUDA_SUCCESS)
        return;
    event = wrk_evpool_get(w, ctx_index);
    if (event && WRK_CALL(w, cuEventRecord, event, stream) != CUDA_SUCCESS) {
        wrk_evpool_put(w, ctx_index, event);
        return; /* the context is dead */
    }
    list[n].event = event;
    list[n++].ctx_index = ctx_index;
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
