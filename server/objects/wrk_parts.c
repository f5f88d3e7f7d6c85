/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_parts.h"

#include "drv.h"
#include "gp_lock.h"
#include "gp_time.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_left.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Streams of a context; with more, the driver's call for all of them is cheaper, in
 * programs that capture nothing. */
#define PARTS_STREAMS_MAX 32
#define PARTS_ROOM 8 /* for events, at first */

/* How long the first capture of a program waits for calls of the driver that would make
 * it invalid.  They have nothing left to wait for, unless another thread of the program
 * has launched more since; that may take any time. */
#define PARTS_CAPTURE_WAIT_NS 20000000

#define PARTS_CAPTURE_POLL_NS 50000

/* One process is one attachment, so this is the process's. */
static atomic_uint whole;    /* threads in the driver's call for a context */
static atomic_bool captured; /* a capture has begun at some time */

/* Those without the default stream's part, from before the first capture.  Who leaves
 * them for the driver's call for a context is in @whole under the same lock. */
static struct gp_lock open_lock;
static struct wrk_parts *open_parts;

static bool
parts_grow(struct wrk_parts *parts)
{
    unsigned room = parts->room ? 2 * parts->room : PARTS_ROOM;
    CUevent *events = realloc(parts->events, room * sizeof(*events));

    if (!events)
        return false;
    parts->events = events;
    parts->room = room;
    return true;
}

static bool
part_add(struct wrk *w, struct wrk_parts *parts, CUstream stream)
{
    CUevent event;

    if (wrk_capturing(w, stream) != CUDA_SUCCESS)
        return false;
    if (WRK_CALL(w, cuStreamQuery, stream) != CUDA_ERROR_NOT_READY)
        return true;
    if (parts->n == parts->room && !parts_grow(parts))
        return false;
    event = wrk_evpool_get(w, parts->ctx_index);
    if (!event)
        return false;
    parts->events[parts->n++] = event;
    return WRK_CALL(w, cuEventRecord, event, stream) == CUDA_SUCCESS;
}

/* The default stream only with captures: its event would be a barrier between all other
 * streams, and a late wait for it is a use of the default stream, which the capture of
 * a blocking stream forbids. */
static bool
parts_add(struct wrk *w, struct wrk_parts *parts)
{
    const struct wrk_handle_array *streams = &w->handles.client[WIRE_KIND_STREAM];
    unsigned n = 0;
    CUstream left;

    parts->with_default = atomic_load(&captured);
    if (!wrk_left_stream(parts->ctx_index, &left) ||
        (left && !part_add(w, parts, left)))
        return false;
    for (uint32_t i = 0; i < streams->cap; i++) {
        const struct wrk_handle_slot *slot = &streams->slots[i];

        if (slot->obj && slot->user == parts->ctx_index &&
            ((n++ == PARTS_STREAMS_MAX && !parts->with_default) ||
             !part_add(w, parts, slot->obj)))
            return false;
    }
    return !parts->with_default || part_add(w, parts, NULL);
}

/* The default stream's work until now, as an event if it has any.  False: none was to
 * be had. */
static bool
parts_add_last(struct wrk *w, struct wrk_parts *parts)
{
    CUevent event;

    if (WRK_CALL(w, cuStreamQuery, NULL) != CUDA_ERROR_NOT_READY)
        return true;
    event = wrk_evpool_get(w, parts->ctx_index);
    if (event && WRK_CALL(w, cuEventRecord, event, NULL) == CUDA_SUCCESS) {
        parts->last = event;
        return true;
    }
    if (event)
        wrk_evpool_put(w, parts->ctx_index, event);
    return false;
}

/* In the parts' context; what is asked there is the worker's own question. */
static bool
parts_fill(struct wrk *w, struct wrk_parts *parts,
           bool (*add)(struct wrk *w, struct wrk_parts *parts))
{
    uint32_t current = w->ctx_frame;
    bool ok;

    if (w->ctx_index != parts->ctx_index &&
        wrk_ctx_use(w, parts->ctx_index) != CUDA_SUCCESS)
        return false;
    wrk_capture_relax_own(w);
    ok = add(w, parts);
    wrk_capture_relax_client(w);
    if (w->ctx_frame != current)
        wrk_ctx_use(w, current);
    return ok;
}

bool
wrk_parts_take(struct wrk *w, uint32_t ctx_index, struct wrk_parts *ret)
{
    *ret = (struct wrk_parts){.ctx_index = ctx_index, .epoch = wrk_ctx_epoch()};
    if (!parts_grow(ret) || !parts_fill(w, ret, parts_add)) {
        wrk_parts_drop(w, ret);
        return false;
    }
    if (!ret->with_default) {
        gp_lock_take(&open_lock);
        ret->next = open_parts;
        open_parts = ret;
        gp_lock_release(&open_lock);
    }
    return true;
}

/* They get no part any more; under open_lock. */
static void
parts_close(struct wrk_parts *parts)
{
    for (struct wrk_parts **at = &open_parts; *at; at = &(*at)->next) {
        if (*at == parts) {
            *at = parts->next;
            return;
        }
    }
}

/* Of a context that has ended meanwhile there are none to give back, and its index may
 * be another one's. */
void
wrk_parts_drop(struct wrk *w, struct wrk_parts *parts)
{
    gp_lock_take(&open_lock);
    parts_close(parts);
    gp_lock_release(&open_lock);
    if (parts->epoch == wrk_ctx_epoch()) {
        for (unsigned i = 0; i < parts->n; i++)
            wrk_evpool_put(w, parts->ctx_index, parts->events[i]);
        if (parts->last)
            wrk_evpool_put(w, parts->ctx_index, parts->last);
    }
    free(parts->events);
    *parts = (struct wrk_parts){0};
}

/* Behind the events. */
static CUresult
wait_rest(struct wrk *w, struct wrk_parts *parts)
{
    bool alone;
    CUresult r;

    gp_lock_take(&open_lock);
    parts_close(parts);
    alone = !parts->with_default;
    if (alone)
        atomic_fetch_add(&whole, 1);
    gp_lock_release(&open_lock);
    if (!alone)
        return parts->last ? WRK_CALL(w, cuEventSynchronize, parts->last)
                           : CUDA_SUCCESS;
    if (!atomic_load(&captured)) {
        r = WRK_CALL(w, cuCtxSynchronize);
    } else { /* the first capture came in between, and no event was to be had */
        wrk_capture_relax_thread(w, true);
        r = WRK_CALL(w, cuStreamSynchronize, NULL);
    }
    atomic_fetch_sub(&whole, 1);
    return r;
}

CUresult
wrk_parts_wait(struct wrk *w, struct wrk_parts *parts)
{
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; i < parts->n && r == CUDA_SUCCESS; i++)
        r = WRK_CALL(w, cuEventSynchronize, parts->events[i]);
    if (r == CUDA_SUCCESS)
        r = wait_rest(w, parts);
    wrk_parts_drop(w, parts);
    return r;
}

/* A late wait for the default stream would be a use of it, which the capture of a
 * blocking stream does not survive. */
static void
open_parts_complete(struct wrk *w)
{
    gp_lock_take(&open_lock);
    for (struct wrk_parts *parts = open_parts; parts; parts = parts->next)
        parts->with_default = parts_fill(w, parts, parts_add_last);
    gp_lock_release(&open_lock);
}

void
wrk_parts_captures(struct wrk *w)
{
    uint64_t until;

    if (atomic_exchange(&captured, true))
        return;
    open_parts_complete(w);
    until = gp_now_ns() + PARTS_CAPTURE_WAIT_NS;
    while (atomic_load(&whole) && gp_now_ns() < until)
        gp_sleep_ns(PARTS_CAPTURE_POLL_NS);
}
