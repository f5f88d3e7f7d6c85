/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_wait.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_ctx_jobs.h"
#include "wrk_elapsed.h"
#include "wrk_evpool.h"
#include "wrk_hooks.h"
#include "wrk_hostfn.h"
#include "wrk_left.h"
#include "wrk_parts.h"
#include "wrk_waiters.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* How long the receive thread polls for a wait itself.  Handing over costs two thread
 * switches, some 20-40 us; polling for as long as the alternative costs is at most
 * twice the optimum. */
#define WAIT_SPIN_NS 40000
/* Streams of a context whose state is asked one by one for a context wait; with
 * more, a waiter thread is cheaper. */
#define CTX_STREAMS_MAX 32

struct wrk_wait {
    struct wrk_job job; /* first: becomes one when it is handed over */
    struct wrk_wait *next;
    enum wrk_wait_what what;
    CUstream stream;
    CUevent event;
    bool own_event; /* from the pool, goes back there */
    struct wrk_elapsed elapsed;
    uint64_t since_ns;
    /* WRK_WAIT_CTX: */
    uint64_t behind; /* jobs of the context up to that number, which may have failed */
    struct wrk_parts parts;
};

struct wrk_waits {
    struct wrk *w;
    struct wrk_wait *spinning;
    struct wrk_wait *spare;            /* finished waits for reuse */
    const struct wrk_elapsed_ask *ask; /* of the wait that is made */
    unsigned cpus;
};

bool
wrk_wait_one_core(const struct wrk *w)
{
    return w->priv->waits->cpus < 2;
}

int
wrk_waits_new(struct wrk *w, struct wrk_waits **ret)
{
    struct wrk_waits *waits = calloc(1, sizeof(*waits));
    cpu_set_t set;

    if (!waits)
        return -ENOMEM;
    waits->w = w;
    waits->cpus =
        sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    *ret = waits;
    return 0;
}

/* ---- one wait ---- */

/* A context is idle when its default stream and every stream made in it are, those that
 * were destroyed included.  The default stream comes first, because it has the work of
 * most programs, but must not be used while a blocking stream is captured. */
GP_HOT static CUresult
ctx_query(struct wrk *w, uint32_t ctx_index)
{
    const struct wrk_handle_array *streams = &w->handles.client[WIRE_KIND_STREAM];
    bool capturing = w->priv->capturing != 0;
    unsigned asked = 0;
    CUresult r = capturing ? CUDA_SUCCESS : WRK_CALL(w, cuStreamQuery, NULL);

    for (uint32_t i = 0; r == CUDA_SUCCESS && i < streams->cap; i++) {
        const struct wrk_handle_slot *slot = &streams->slots[i];

        if (!slot->obj || slot->user != ctx_index)
            continue;
        if (++asked > CTX_STREAMS_MAX ||
            (capturing && wrk_capturing(w, slot->obj) != CUDA_SUCCESS))
            return CUDA_ERROR_NOT_READY;
        r = WRK_CALL(w, cuStreamQuery, slot->obj);
    }
    if (capturing && r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuStreamQuery, NULL);
    return r == CUDA_SUCCESS ? wrk_left_query(w, ctx_index) : r;
}

/* The same for the current context, and its jobs up to @behind.  If nothing is left to
 * wait for, the driver's call is made all the same, because it returns an error of the
 * context.  While a host function is registered a waiter thread makes it: should there
 * be work after all that waits for that function, it ends by a message of the client,
 * which this thread reads. */
GP_HOT static CUresult
ctx_end(struct wrk *w, uint64_t behind)
{
    CUresult r;

    if (unlikely(behind && wrk_ctx_jobs_pending(wrk_ctx_current(w), behind)))
        return CUDA_ERROR_NOT_READY;
    /* Asking is forbidden while streams are captured, in whichever context; waiting for
     * another one is not. */
    wrk_capture_relax_own(w);
    r = ctx_query(w, w->ctx_index);
    wrk_capture_relax_client(w);
    if (r == CUDA_SUCCESS && !wrk_hostfns_none(w->priv->hosts))
        return CUDA_ERROR_NOT_READY;
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_ASSERT)
        r = WRK_CALL(w, cuCtxSynchronize);
    if (likely(r == CUDA_SUCCESS))
        wrk_hooks_run(wrk_hooks.ctx_idle, w);
    return r;
}

/* @r is what asking for @stream, or for @event if there is one, has said.  A driver
 * writes what kernels have printed in its own call alone, so that is made as well when
 * there is nothing left to wait for.  Not while a host function is registered, for work
 * may have come that waits for one (see ctx_end()); then a later wait brings it. */
static CUresult
asked(struct wrk *w, CUresult r, CUstream stream, CUevent event)
{
    bool told = r == CUDA_SUCCESS && wrk_hostfns_none(w->priv->hosts);

    /* The words of an assertion come in that call as well, which does not wait then. */
    if (unlikely(!told && r != CUDA_ERROR_ASSERT))
        return r;
    return event ? WRK_CALL(w, cuEventSynchronize, event)
                 : WRK_CALL(w, cuStreamSynchronize, stream);
}

static CUresult
stream_ask(struct wrk *w, CUstream stream)
{
    return asked(w, WRK_CALL(w, cuStreamQuery, stream), stream, NULL);
}

static CUresult
event_ask(struct wrk *w, CUevent event)
{
    return asked(w, WRK_CALL(w, cuEventQuery, event), NULL, event);
}

static CUresult
wait_ask(struct wrk *w, const struct wrk_wait *wait)
{
    if (wait->event)
        return event_ask(w, wait->event);
    if (w->ctx_index != wait->job.ctx_index) {
        CUresult r = wrk_ctx_use(w, wait->job.ctx_index);

        if (r != CUDA_SUCCESS)
            return r;
    }
    return wait->what == WRK_WAIT_STREAM ? stream_ask(w, wait->stream)
                                         : ctx_end(w, wait->behind);
}

/* The call itself was allowed; what is asked until it is done is the worker's own, and
 * the call before may have left the thread in the client's mode. */
static CUresult
wait_query(struct wrk *w, const struct wrk_wait *wait)
{
    CUresult r;

    wrk_capture_relax_own(w);
    r = wait_ask(w, wait);
    wrk_capture_relax_client(w);
    return r;
}

/* Of a call whose reply has the time between two events. */
static bool
wait_has_body(const struct wrk_wait *wait, CUresult r)
{
    return r == CUDA_SUCCESS && wait->job.req.call == WIRE_CALL_gp_wait_elapsed;
}

static struct wire_gp_wait_elapsed_rep
wait_elapsed(struct wrk *w, struct wrk_wait *wait, CUresult r)
{
    struct wire_gp_wait_elapsed_rep rep = {0};

    rep.elapsed = (uint32_t)wrk_elapsed_end(w, &wait->elapsed, r, &rep.ms);
    return rep;
}

static void
wait_reply_whole(struct wrk *w, struct wrk_wait *wait, CUresult r)
{
    struct wire_gp_wait_elapsed_rep rep = wait_elapsed(w, wait, r);

    if (wait_has_body(wait, r))
        wrk_reply_whole(w, &wait->job.req, r, &rep, sizeof(rep));
    else
        wrk_reply_whole(w, &wait->job.req, r, NULL, 0);
}

static void
wait_run(struct wrk *w, struct wrk_job *job)
{
    struct wrk_wait *wait = container_of(job, struct wrk_wait, job);
    CUresult r;

    if (wait->behind)
        wrk_ctx_jobs_await(job->ctx, wait->behind);
    if (wait->event)
        r = WRK_CALL(w, cuEventSynchronize, wait->event);
    else if (wait->what == WRK_WAIT_STREAM)
        r = WRK_CALL(w, cuStreamSynchronize, wait->stream);
    else if (wait->parts.events)
        r = wrk_parts_wait(w, &wait->parts);
    else
        r = WRK_CALL(w, cuCtxSynchronize);
    /* Before the reply: with it the client may end the context, and make another one
     * with its index, for which the pool must not keep these events. */
    if (wait->own_event)
        wrk_evpool_put(w, wait->job.ctx_index, wait->event);
    wait_reply_whole(w, wait, wrk_deferred(w, r));
    free(wait);
}

static struct wrk_wait *
wait_new(struct wrk_waits *waits, const struct wire_req *req, enum wrk_wait_what what)
{
    struct wrk_wait *wait = waits->spare;

    if (wait)
        waits->spare = wait->next;
    else
        wait = malloc(sizeof(*wait));
    if (!wait)
        return NULL;
    *wait = (struct wrk_wait){.what = what, .since_ns = gp_now_ns()};
    wait->job.run = wait_run;
    wait->job.req = *req;
    wait->job.ctx = wrk_ctx_current(waits->w);
    wait->job.ctx_index = waits->w->ctx_index;
    wrk_elapsed_begin(waits->w, waits->ask, &wait->elapsed);
    return wait;
}

static void
wait_done(struct wrk *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_waits *waits = w->priv->waits;
    struct wire_gp_wait_elapsed_rep rep = wait_elapsed(w, wait, r);
    uint32_t size = wait_has_body(wait, r) ? sizeof(rep) : 0;
    void *body = wrk_reply_reserve(w, &wait->job.req, size);

    if (body) {
        memcpy(body, &rep, size);
        wrk_reply_send(w, &wait->job.req, r);
    }
    if (wait->own_event)
        wrk_evpool_put(w, wait->job.ctx_index, wait->event);
    wait->next = waits->spare;
    waits->spare = wait;
}

static void
wait_hand_over(struct wrk *w, struct wrk_wait *wait)
{
    if (wait->what == WRK_WAIT_CTX)
        wrk_parts_take(w, wait->job.ctx_index, &wait->parts);
    if (!wrk_waiters_background(w, &wait->job)) {
        wrk_frame_bad(w, &wait->job.req, "too many calls wait");
        wrk_elapsed_end(w, &wait->elapsed, CUDA_ERROR_NOT_READY, &(float){0});
        wrk_parts_drop(w, &wait->parts);
        free(wait);
    }
}

/* Whether the receive thread polls waits; read by the loop and by threads that reply.
 */
static void
note_pending(struct wrk *w)
{
    if (w->priv->waits->spinning)
        w->priv->polled |= WRK_POLL_WAITS;
    else
        w->priv->polled &= (uint8_t)~WRK_POLL_WAITS;
}

static void
wait_add(struct wrk *w, struct wrk_reply *rep, struct wrk_wait *wait)
{
    struct wrk_waits *waits = w->priv->waits;

    rep->taken = true;
    wait->next = waits->spinning;
    waits->spinning = wait;
    note_pending(w);
    /* On a single core a spin only delays whom we wait for. */
    if (wrk_wait_one_core(w))
        wrk_wait_hand_over(w);
}

CUresult
wrk_wait_stream(struct wrk *w, struct wrk_reply *rep, CUstream stream)
{
    CUresult r = stream_ask(w, stream);
    struct wrk_wait *wait;

    if (r != CUDA_ERROR_NOT_READY || !(rep->req->flags & WIRE_F_REPLY))
        return r;
    wait = wait_new(w->priv->waits, rep->req, WRK_WAIT_STREAM);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->stream = stream;
    /* A late wait for the default stream would be a use of it, which the capture of a
     * blocking stream forbids; its event is a barrier between blocking streams. */
    if ((uintptr_t)stream > 2 || w->priv->captures) {
        wait->event = wrk_evpool_get(w, w->ctx_index);
        wait->own_event = wait->event != NULL;
        if (wait->event &&
            WRK_CALL(w, cuEventRecord, wait->event, stream) != CUDA_SUCCESS) {
            wrk_evpool_put(w, wait->job.ctx_index, wait->event);
            wait->event = NULL;
            wait->own_event = false;
        }
    }
    wait_add(w, rep, wait);
    return CUDA_SUCCESS;
}

GP_HOT CUresult
wrk_wait_ctx(struct wrk *w, struct wrk_reply *rep)
{
    uint64_t behind = wrk_ctx_jobs_newest(wrk_ctx_current(w));
    CUresult r = ctx_end(w, behind);
    struct wrk_wait *wait;

    if (r != CUDA_ERROR_NOT_READY || !(rep->req->flags & WIRE_F_REPLY))
        return wrk_deferred(w, r); /* a job may have ended since the call was entered */
    wait = wait_new(w->priv->waits, rep->req, WRK_WAIT_CTX);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->behind = behind;
    wait_add(w, rep, wait);
    return CUDA_SUCCESS;
}

CUresult
wrk_wait_event(struct wrk *w, struct wrk_reply *rep, CUevent event)
{
    CUresult r = event_ask(w, event);
    struct wrk_wait *wait;

    if (r != CUDA_ERROR_NOT_READY || !(rep->req->flags & WIRE_F_REPLY))
        return r;
    wait = wait_new(w->priv->waits, rep->req, WRK_WAIT_EVENT);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->event = event;
    wait_add(w, rep, wait);
    return CUDA_SUCCESS;
}

/* It has ended already: what a wait of its own would have brought. */
static void
elapsed_now(struct wrk *w, struct wrk_reply *rep, const struct wrk_elapsed_ask *ask)
{
    struct wire_gp_wait_elapsed_rep *body = rep->body;
    struct wrk_elapsed elapsed;

    wrk_elapsed_begin(w, ask, &elapsed);
    body->elapsed = (uint32_t)wrk_elapsed_end(w, &elapsed, CUDA_SUCCESS, &body->ms);
}

CUresult
wrk_wait_elapsed(struct wrk *w, struct wrk_reply *rep, enum wrk_wait_what what,
                 CUstream stream, const struct wrk_elapsed_ask *ask)
{
    const struct wrk_handle_slot *end =
        wrk_handles_find(&w->handles, WIRE_KIND_EVENT, ask->end);
    CUresult r;

    if (what == WRK_WAIT_EVENT && !end)
        return CUDA_ERROR_INVALID_HANDLE;
    w->priv->waits->ask = ask;
    r = what == WRK_WAIT_STREAM  ? wrk_wait_stream(w, rep, stream)
        : what == WRK_WAIT_EVENT ? wrk_wait_event(w, rep, end->obj)
        : what == WRK_WAIT_CTX   ? wrk_wait_ctx(w, rep)
                                 : CUDA_ERROR_INVALID_VALUE;
    w->priv->waits->ask = NULL;
    if (r == CUDA_SUCCESS && !rep->taken)
        elapsed_now(w, rep, ask);
    return r;
}

CUresult
wrk_wait_idle(struct wrk *w, CUstream stream)
{
    unsigned flags = 0;

    if ((uintptr_t)stream > 2 &&
        WRK_CALL(w, cuStreamGetFlags, stream, &flags) == CUDA_SUCCESS &&
        (flags & CU_STREAM_NON_BLOCKING))
        return WRK_CALL(w, cuStreamQuery, stream);
    return ctx_query(w, w->ctx_index);
}

bool
wrk_wait_all_end_alone(struct wrk *w)
{
    const uint32_t own = w->ctx_frame;
    bool alone = wrk_wait_ends_alone(w);

    if (likely(wrk_ctx_count() <= 1) || !alone)
        return alone;
    wrk_capture_relax_own(w);
    for (uint32_t i = wrk_ctx_next(w, 0); alone && i; i = wrk_ctx_next(w, i))
        alone = i == own || (wrk_ctx_use(w, i) == CUDA_SUCCESS &&
                             wrk_wait_idle(w, NULL) == CUDA_SUCCESS);
    wrk_ctx_use(w, own);
    wrk_capture_relax_client(w);
    return alone;
}

GP_HOT bool
wrk_wait_pending(const struct wrk *w)
{
    return w->priv->waits->spinning != NULL;
}

void
wrk_wait_poll(struct wrk *w)
{
    struct wrk_waits *waits = w->priv->waits;
    struct wrk_wait **at = &waits->spinning;
    uint64_t now = gp_now_ns();

    while (*at) {
        struct wrk_wait *wait = *at;
        CUresult r = wait_query(w, wait);

        if (r != CUDA_ERROR_NOT_READY) {
            *at = wait->next;
            note_pending(w);
            wait_done(w, wait, wrk_deferred(w, r));
        } else if (now - wait->since_ns > WAIT_SPIN_NS) {
            *at = wait->next;
            note_pending(w);
            wait_hand_over(w, wait);
        } else {
            at = &wait->next;
        }
    }
}

void
wrk_wait_hand_over(struct wrk *w)
{
    struct wrk_waits *waits = w->priv->waits;

    while (waits->spinning) {
        struct wrk_wait *wait = waits->spinning;

        waits->spinning = wait->next;
        wait_hand_over(w, wait);
    }
    note_pending(w);
}

void
wrk_wait_captures(struct wrk *w)
{
    wrk_parts_captures(w);
    wrk_wait_hand_over(w);
}
