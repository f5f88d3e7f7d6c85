/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_d2h_async.h"

#include "drv.h"
#include "gp_copy.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_staging.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"
#include "xport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long the reader looks itself, as in wrk_wait.c: handing over costs that much. */
#define POLL_NS 40000

/* Streams that one look finds busy; with more, the rest is left for the next look. */
#define BUSY_STREAMS 16

struct d2h_copy {
    struct d2h_copy *next; /* under way, in the order of the frames; or free */
    struct wrk_staging slot;
    CUstream stream;
    CUcontext ctx;
    uint64_t len;
    uint32_t seq;
    CUresult result; /* once over */
    bool over;       /* complete: result is final */
    bool large;
    struct watcher *watch; /* sleeps on its event; NULL: nobody does */
};

/* A waiter thread and the copy whose fence it waits for.  If the copy is sent before
 * the thread wakes, the event becomes the watcher's, so that the staging buffer is free
 * at once.  While no thread has reached a queued watcher, it can be given another copy,
 * so that no more watchers are queued than streams have copies in flight. */
struct watcher {
    struct wrk_job job;
    struct watcher *next; /* in wrk_d2h_async.watches */
    struct d2h_copy *c;   /* NULL: sent meanwhile */
    CUcontext ctx;
    CUevent event; /* NULL: none, or it died with its context */
    uint32_t ctx_index;
    bool begun; /* a thread has come to it */
};

struct wrk_d2h_async {
    struct d2h_copy *first, **last;
    struct d2h_copy *free[2]; /* small, large */
    struct watcher *watches;
    uint64_t poll_until; /* 0: waiter threads look */
    uint32_t accepted;   /* seq of the last frame that a copy was started for */
    struct d2h_copy small[WIRE_D2H_SMALLS], large[WIRE_D2H_LARGES];
};

/* ---- sending, under the lock ---- */

/* The event frame; true: its bytes went along. */
static bool
send_frame(struct wrk *w, uint32_t seq, CUresult result, const void *bytes,
           uint64_t len)
{
    struct wrk_priv *p = w->priv;
    bool inside = len <= WIRE_D2H_INLINE;
    uint32_t body = (uint32_t)sizeof(struct wire_event_d2h_done) +
                    (inside ? wire_align((uint32_t)len) : 0);
    struct wire_rep *rep = xport_reserve(p->conn, sizeof(*rep) + body);
    struct wire_event_d2h_done *event;

    if (!rep)
        return true;
    *rep = (struct wire_rep){.size = (uint32_t)sizeof(*rep) + body,
                             .call = WIRE_EVENT_D2H_DONE,
                             .flags = WIRE_F_EVENT | (inside ? 0 : WIRE_F_BULK)};
    event = (struct wire_event_d2h_done *)(rep + 1);
    *event = (struct wire_event_d2h_done){seq, (int32_t)result, len};
    if (inside && len) {
        memset((uint8_t *)rep + rep->size - WIRE_ALIGN, 0, WIRE_ALIGN);
        gp_copy(event + 1, bytes, len);
    }
    xport_commit(p->conn, rep->size);
    atomic_fetch_add(&p->d2h_sent, 1);
    return inside;
}

static void
copy_give_back(struct wrk *w, struct d2h_copy *c)
{
    struct wrk_d2h_async *d2h_async = w->priv->d2h_async;

    wrk_staging_unfence(w, &c->slot);
    c->next = d2h_async->free[c->large];
    d2h_async->free[c->large] = c;
}

/* Sent while a thread sleeps on its event, or is to come and do so. */
static void
watcher_leave(struct d2h_copy *c)
{
    struct watcher *watch = c->watch;

    if (watch->begun)
        c->slot.event = NULL;
    else
        watch->event = NULL;
    watch->c = NULL;
    c->watch = NULL;
}

/* The client counts the staging buffer as free as soon as it has the bytes, so it must
 * be free here by then: the lock is held until it is (see wire_format.h). */
static void
copy_send(struct wrk *w, struct d2h_copy *c)
{
    uint64_t len = c->result == CUDA_SUCCESS ? c->len : 0;

    if (!send_frame(w, c->seq, c->result, c->slot.mem, len))
        xport_send_bulk(w->priv->conn, c->slot.mem, len);
    if (c->watch)
        watcher_leave(c);
    copy_give_back(w, c);
    atomic_fetch_sub(&w->priv->before_reply, 1);
}

static bool
copy_is_complete(struct wrk *w, struct d2h_copy *c)
{
    if (!c->over && c->slot.event) {
        c->result = WRK_CALL(w, cuEventQuery, c->slot.event);
        if (c->result == CUDA_ERROR_NOT_READY)
            return false;
    }
    c->over = true;
    return true;
}

/* Copies of one stream are sent in order: an incomplete one delays those after it, even
 * if they are found to be complete. */
struct busy {
    CUstream streams[BUSY_STREAMS];
    unsigned n;
};

static bool
busy_has(const struct busy *busy, CUstream stream)
{
    for (unsigned i = 0; i < busy->n; i++)
        if (busy->streams[i] == stream)
            return true;
    return false;
}

static void
send_completed(struct wrk *w)
{
    struct wrk_d2h_async *d2h_async = w->priv->d2h_async;
    struct d2h_copy **at = &d2h_async->first, *c;
    struct busy busy = {.n = 0};

    while ((c = *at) && busy.n < BUSY_STREAMS) {
        if (busy_has(&busy, c->stream)) {
            at = &c->next;
        } else if (!copy_is_complete(w, c)) {
            busy.streams[busy.n++] = c->stream;
            at = &c->next;
        } else {
            *at = c->next;
            if (!*at)
                d2h_async->last = at;
            copy_send(w, c);
        }
    }
}

GP_HOT void
wrk_d2h_async_before_reply(struct wrk *w)
{
    if (unlikely(atomic_load_explicit(&w->priv->before_reply, memory_order_relaxed) !=
                 0))
        send_completed(w);
}

/* ---- starting ---- */

/* An error: the client has broken the rule, or the driver does not register memory. */
static CUresult
copy_take(struct wrk *w, const struct wire_req *req, uint64_t len,
          struct d2h_copy **ret_copy)
{
    struct wrk_d2h_async *d2h_async = w->priv->d2h_async;
    bool large = len > WIRE_D2H_SMALL;
    struct d2h_copy *c;
    CUresult r;

    gp_lock_take(&w->priv->send_lock);
    c = d2h_async->free[large];
    if (c)
        d2h_async->free[large] = c->next;
    gp_lock_release(&w->priv->send_lock);
    if (!c) {
        wrk_frame_bad(w, req, "more copies to the host under way than agreed");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_copy = c;
    r = wrk_staging_ready(w, &c->slot, large ? WIRE_D2H_LARGE : WIRE_D2H_SMALL);
    if (r == CUDA_SUCCESS)
        return r;
    gp_lock_take(&w->priv->send_lock);
    copy_give_back(w, c);
    gp_lock_release(&w->priv->send_lock);
    return r;
}

static void
copy_append(struct wrk_priv *p, struct d2h_copy *c)
{
    struct wrk_d2h_async *d2h_async = p->d2h_async;

    c->next = NULL;
    *d2h_async->last = c;
    d2h_async->last = &c->next;
    atomic_fetch_add(&p->before_reply, 1);
    d2h_async->poll_until = gp_now_ns() + POLL_NS;
    p->polled |= WRK_POLL_HOOKS;
}

CUresult
wrk_d2h_async_start(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    struct wrk_priv *p = w->priv;
    struct d2h_copy *c;
    CUresult r;

    if (copy->len > WIRE_D2H_LARGE)
        return CUDA_ERROR_INVALID_VALUE;
    r = copy_take(w, rep->req, copy->len, &c);
    if (r != CUDA_SUCCESS)
        return r;
    r = copy->start(w, copy, c->slot.mem, 0, copy->len);
    if (r == CUDA_SUCCESS)
        r = wrk_staging_fence(w, &c->slot, w->ctx_index, copy->stream);
    c->stream = copy->stream;
    c->ctx = wrk_ctx_current(w);
    c->len = copy->len;
    c->seq = rep->req->seq;
    c->result = r;
    c->over = r != CUDA_SUCCESS;
    c->watch = NULL;
    gp_lock_take(&p->send_lock);
    copy_append(p, c);
    wrk_d2h_async_before_reply(w);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
    p->d2h_async->accepted = rep->req->seq;
    return r;
}

void
wrk_d2h_async_end(struct wrk *w, const struct wire_req *req)
{
    struct wrk_priv *p = w->priv;

    if (p->d2h_async->accepted == req->seq)
        return;
    gp_lock_take(&p->send_lock);
    send_frame(w, req->seq, CUDA_ERROR_UNKNOWN, NULL, 0);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
}

/* ---- looking ---- */

GP_HOT bool
wrk_d2h_async_pending(const struct wrk *w)
{
    const struct wrk_d2h_async *d2h_async = w->priv->d2h_async;

    return d2h_async->poll_until &&
           atomic_load_explicit(&w->priv->before_reply, memory_order_relaxed) != 0;
}

/* The first of a stream, if nobody watches it; under the lock. */
static struct d2h_copy *
unwatched(struct wrk_d2h_async *d2h_async)
{
    struct busy seen = {.n = 0};

    for (struct d2h_copy *l = d2h_async->first; l && seen.n < BUSY_STREAMS;
         l = l->next) {
        if (busy_has(&seen, l->stream))
            continue;
        if (!l->watch && !l->over && l->slot.event)
            return l;
        seen.streams[seen.n++] = l->stream;
    }
    return NULL;
}

/* Take the next to watch; under the lock. */
static bool
watcher_next(struct wrk_d2h_async *d2h_async, struct watcher *watch)
{
    struct d2h_copy *c = unwatched(d2h_async);

    if (!c)
        return false;
    c->watch = watch;
    watch->c = c;
    watch->ctx = c->ctx;
    watch->ctx_index = c->slot.ctx_index;
    watch->event = c->slot.event;
    return true;
}

/* It sleeps no longer; under the lock. */
static void
watcher_let_go(struct wrk *w, struct watcher *watch)
{
    if (watch->c)
        watch->c->watch = NULL;
    else if (watch->event)
        wrk_evpool_put(w, watch->ctx_index, watch->event);
    watch->c = NULL;
    watch->event = NULL;
}

static void
watcher_unlist(struct wrk_d2h_async *d2h_async, struct watcher *watch)
{
    struct watcher **at = &d2h_async->watches;

    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
}

/* It is over: send what has completed, and go on with another. */
static bool
watcher_done(struct wrk *w, struct watcher *watch)
{
    struct wrk_priv *p = w->priv;
    bool more;

    gp_lock_take(&p->send_lock);
    watcher_let_go(w, watch);
    wrk_d2h_async_before_reply(w);
    xport_flush(p->conn);
    more = !atomic_load(&p->stopping) && watcher_next(p->d2h_async, watch);
    if (!more)
        watcher_unlist(p->d2h_async, watch);
    gp_lock_release(&p->send_lock);
    return more;
}

static void
watcher_run(struct wrk *w, struct wrk_job *job)
{
    struct watcher *watch = container_of(job, struct watcher, job);
    CUevent event;

    do {
        gp_lock_take(&w->priv->send_lock);
        watch->begun = true;
        event = watch->event;
        gp_lock_release(&w->priv->send_lock);
        wrk_ctx_enter(w, watch->ctx);
        if (event)
            WRK_CALL(w, cuEventSynchronize, event);
    } while (watcher_done(w, watch));
    free(watch);
}

/* One that no thread has come to, and whose c has been sent; or a new one. */
static struct watcher *
watcher_spare(struct wrk_d2h_async *d2h_async)
{
    struct watcher *watch = d2h_async->watches;

    while (watch && (watch->begun || watch->c))
        watch = watch->next;
    return watch;
}

/* Give the next unwatched copy to @watch or, if NULL, to a new watcher.  False: there
 * is none. */
static bool
watcher_queue(struct wrk *w, struct watcher *watch)
{
    struct wrk_d2h_async *d2h_async = w->priv->d2h_async;

    if (watch)
        return watcher_next(d2h_async, watch);
    watch = calloc(1, sizeof(*watch));
    if (!watch || !watcher_next(d2h_async, watch)) {
        free(watch);
        return false;
    }
    watch->job.run = watcher_run;
    watch->job.ctx = watch->ctx;
    watch->next = d2h_async->watches;
    d2h_async->watches = watch;
    if (wrk_waiters_background(w, &watch->job))
        return true;
    watcher_unlist(d2h_async, watch);
    watcher_let_go(w, watch);
    free(watch);
    return false;
}

/* Under the lock.  False: all copies are watched, or no watcher can be had; then the
 * copy of the next frame tries again. */
static bool
watcher_start(struct wrk *w)
{
    return watcher_queue(w, watcher_spare(w->priv->d2h_async));
}

void
wrk_d2h_async_poll(struct wrk *w)
{
    struct wrk_priv *p = w->priv;
    struct wrk_d2h_async *d2h_async = p->d2h_async;

    gp_lock_take(&p->send_lock);
    wrk_d2h_async_before_reply(w);
    if (gp_now_ns() >= d2h_async->poll_until || wrk_wait_one_core(w)) {
        d2h_async->poll_until = 0;
        while (watcher_start(w))
            ;
    }
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
    wrk_flush(w);
}

/* ---- life ---- */

void
wrk_d2h_async_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_priv *p = w->priv;
    struct wrk_d2h_async *d2h_async = p->d2h_async;

    gp_lock_take(&p->send_lock);
    for (struct d2h_copy *l = d2h_async->first; l; l = l->next) {
        if (l->slot.ctx_index == ctx_index && !l->over) {
            l->over = true;
            l->result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
    }
    for (struct watcher *watch = d2h_async->watches; watch; watch = watch->next)
        if (watch->ctx_index == ctx_index)
            watch->event = NULL;
    for (unsigned i = 0; i < WIRE_D2H_SMALLS; i++)
        wrk_staging_forget(&d2h_async->small[i].slot, ctx_index);
    for (unsigned i = 0; i < WIRE_D2H_LARGES; i++)
        wrk_staging_forget(&d2h_async->large[i].slot, ctx_index);
    wrk_d2h_async_before_reply(w);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
}

static void
fill_free(struct d2h_copy **list, struct d2h_copy *d2h_async, unsigned n, bool large)
{
    while (n--) {
        d2h_async[n].large = large;
        d2h_async[n].next = *list;
        *list = &d2h_async[n];
    }
}

int
wrk_d2h_async_new(struct wrk_d2h_async **ret)
{
    struct wrk_d2h_async *d2h_async = calloc(1, sizeof(*d2h_async));

    if (!d2h_async)
        return -ENOMEM;
    d2h_async->last = &d2h_async->first;
    fill_free(&d2h_async->free[false], d2h_async->small, WIRE_D2H_SMALLS, false);
    fill_free(&d2h_async->free[true], d2h_async->large, WIRE_D2H_LARGES, true);
    *ret = d2h_async;
    return 0;
}
