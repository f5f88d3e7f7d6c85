/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_d2h_async.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long the reader looks itself, as in wrk_wait.c: handing over costs that much. */
#define FRESH_NS 40000

/* Streams that one look finds busy; with more, the rest is left for the next look. */
#define BUSY_STREAMS 16

struct land {
    struct land *next; /* under way, in the order of the frames; or free */
    struct wrk_slot slot;
    CUstream stream;
    CUcontext ctx;
    uint64_t len;
    uint32_t seq;
    CUresult result; /* once over */
    bool over;       /* will not be asked for again: result says */
    bool large;
    struct land_watch *watch; /* sleeps on its event; NULL: nobody does */
};

/* A waiter thread and what it waits for.  When the land is sent before the thread
 * wakes, the event becomes the watch's: whatever the thread does, the slot is free.
 * While no thread has come to it, it can be given another land, so that no more of them
 * are queued than streams have something to wait for. */
struct land_watch {
    struct wrk_job job;
    struct land_watch *next; /* in wrk_lands.watches */
    struct land *land;       /* NULL: sent meanwhile */
    CUcontext ctx;
    CUevent event; /* NULL: none, or it died with its context */
    uint32_t ctx_index;
    bool begun; /* a thread has come to it */
};

struct wrk_lands {
    struct land *first, **last;
    struct land *free[2]; /* small, large */
    struct land_watch *watches;
    uint64_t fresh_until; /* 0: waiter threads look */
    uint32_t accepted;    /* seq of the last frame that a copy was started for */
    struct land small[WIRE_LAND_SMALLS], large[WIRE_LAND_LARGES];
};

/* --- sending, under the lock ------------------------------------------------------ */

/* The event frame; true: its bytes went along. */
static bool
send_frame(struct wrk *w, uint32_t seq, CUresult result, const void *bytes,
           uint64_t len)
{
    struct wrk_priv *p = w->priv;
    bool inside = len <= WIRE_LAND_INLINE;
    uint32_t body = (uint32_t)sizeof(struct wire_event_landed) +
                    (inside ? wire_align((uint32_t)len) : 0);
    struct wire_rep *rep = xport_reserve(p->conn, sizeof(*rep) + body);
    struct wire_event_landed *event;

    if (!rep)
        return true;
    *rep = (struct wire_rep){.size = (uint32_t)sizeof(*rep) + body,
                             .call = WIRE_EVENT_LANDED,
                             .flags = WIRE_F_EVENT | (inside ? 0 : WIRE_F_BULK)};
    event = (struct wire_event_landed *)(rep + 1);
    *event = (struct wire_event_landed){seq, (int32_t)result, len};
    if (inside && len) {
        memset((uint8_t *)rep + rep->size - WIRE_ALIGN, 0, WIRE_ALIGN);
        memcpy(event + 1, bytes, len);
    }
    xport_commit(p->conn, rep->size);
    return inside;
}

static void
land_give_back(struct wrk *w, struct land *land)
{
    struct wrk_lands *lands = w->priv->lands;

    wrk_slot_unmark(w, &land->slot);
    land->next = lands->free[land->large];
    lands->free[land->large] = land;
}

/* Sent while a thread sleeps on its event, or is to come and do so. */
static void
watch_leave(struct land *land)
{
    struct land_watch *watch = land->watch;

    if (watch->begun)
        land->slot.event = NULL;
    else
        watch->event = NULL;
    watch->land = NULL;
    land->watch = NULL;
}

/* The client may use the slot again as soon as it has the bytes, so nothing may keep
 * it here then: the lock is held until it is free (the rule stands in wire_format.h).
 */
static void
land_send(struct wrk *w, struct land *land)
{
    uint64_t len = land->result == CUDA_SUCCESS ? land->len : 0;

    if (!send_frame(w, land->seq, land->result, land->slot.mem, len))
        xport_send_bulk(w->priv->conn, land->slot.mem, len);
    if (land->watch)
        watch_leave(land);
    land_give_back(w, land);
    atomic_fetch_sub(&w->priv->before_reply, 1);
}

static bool
land_is_over(struct wrk *w, struct land *land)
{
    if (!land->over && land->slot.event) {
        land->result = WRK_CALL(w, cuEventQuery, land->slot.event);
        if (land->result == CUDA_ERROR_NOT_READY)
            return false;
    }
    land->over = true;
    return true;
}

/* Copies of one stream leave in order: one that is not over holds up what follows, even
 * if that is found to be over a moment later. */
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
send_landed(struct wrk *w)
{
    struct wrk_lands *lands = w->priv->lands;
    struct land **at = &lands->first, *land;
    struct busy busy = {.n = 0};

    while ((land = *at) && busy.n < BUSY_STREAMS) {
        if (busy_has(&busy, land->stream)) {
            at = &land->next;
        } else if (!land_is_over(w, land)) {
            busy.streams[busy.n++] = land->stream;
            at = &land->next;
        } else {
            *at = land->next;
            if (!*at)
                lands->last = at;
            land_send(w, land);
        }
    }
}

GP_HOT void
wrk_land_gate(struct wrk *w)
{
    if (unlikely(atomic_load_explicit(&w->priv->before_reply, memory_order_relaxed) !=
                 0))
        send_landed(w);
}

/* --- starting ----------------------------------------------------------------------
 */

/* An error: the client has broken the rule, or the driver does not register memory. */
static CUresult
land_take(struct wrk *w, const struct wire_req *req, uint64_t len,
          struct land **ret_land)
{
    struct wrk_lands *lands = w->priv->lands;
    bool large = len > WIRE_LAND_SMALL;
    struct land *land;
    CUresult r;

    gp_lock_take(&w->priv->send_lock);
    land = lands->free[large];
    if (land)
        lands->free[large] = land->next;
    gp_lock_release(&w->priv->send_lock);
    if (!land) {
        wrk_frame_bad(w, req, "more copies to the host under way than agreed");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_land = land;
    r = wrk_slot_ready(w, &land->slot, large ? WIRE_LAND_LARGE : WIRE_LAND_SMALL);
    if (r == CUDA_SUCCESS)
        return r;
    gp_lock_take(&w->priv->send_lock);
    land_give_back(w, land);
    gp_lock_release(&w->priv->send_lock);
    return r;
}

static void
land_append(struct wrk_priv *p, struct land *land)
{
    struct wrk_lands *lands = p->lands;

    land->next = NULL;
    *lands->last = land;
    lands->last = &land->next;
    atomic_fetch_add(&p->before_reply, 1);
    lands->fresh_until = gp_now_ns() + FRESH_NS;
    p->polled |= WRK_POLL_HOOKS;
}

CUresult
wrk_land(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    struct wrk_priv *p = w->priv;
    struct land *land;
    CUresult r;

    if (copy->len > WIRE_LAND_LARGE)
        return CUDA_ERROR_INVALID_VALUE;
    r = land_take(w, rep->req, copy->len, &land);
    if (r != CUDA_SUCCESS)
        return r;
    r = copy->start(w, copy, land->slot.mem, 0, copy->len);
    if (r == CUDA_SUCCESS)
        r = wrk_slot_mark(w, &land->slot, w->ctx_index, copy->stream);
    land->stream = copy->stream;
    land->ctx = wrk_ctx_current(w);
    land->len = copy->len;
    land->seq = rep->req->seq;
    land->result = r;
    land->over = r != CUDA_SUCCESS;
    land->watch = NULL;
    gp_lock_take(&p->send_lock);
    land_append(p, land);
    wrk_land_gate(w);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
    p->lands->accepted = rep->req->seq;
    return r;
}

void
wrk_land_end(struct wrk *w, const struct wire_req *req)
{
    struct wrk_priv *p = w->priv;

    if (p->lands->accepted == req->seq)
        return;
    gp_lock_take(&p->send_lock);
    send_frame(w, req->seq, CUDA_ERROR_UNKNOWN, NULL, 0);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
}

/* --- looking ------------------------------------------------------------------------
 */

GP_HOT bool
wrk_land_fresh(const struct wrk *w)
{
    const struct wrk_lands *lands = w->priv->lands;

    return lands->fresh_until &&
           atomic_load_explicit(&w->priv->before_reply, memory_order_relaxed) != 0;
}

/* The first of a stream, if nobody watches it; under the lock. */
static struct land *
unwatched(struct wrk_lands *lands)
{
    struct busy seen = {.n = 0};

    for (struct land *l = lands->first; l && seen.n < BUSY_STREAMS; l = l->next) {
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
watch_next(struct wrk_lands *lands, struct land_watch *watch)
{
    struct land *land = unwatched(lands);

    if (!land)
        return false;
    land->watch = watch;
    watch->land = land;
    watch->ctx = land->ctx;
    watch->ctx_index = land->slot.ctx_index;
    watch->event = land->slot.event;
    return true;
}

/* It sleeps no longer; under the lock. */
static void
watch_let_go(struct wrk *w, struct land_watch *watch)
{
    if (watch->land)
        watch->land->watch = NULL;
    else if (watch->event)
        wrk_evpool_put(w, watch->ctx_index, watch->event);
    watch->land = NULL;
    watch->event = NULL;
}

static void
watch_unlist(struct wrk_lands *lands, struct land_watch *watch)
{
    struct land_watch **at = &lands->watches;

    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
}

/* It is over: send what has landed, and go on with another. */
static bool
watch_done(struct wrk *w, struct land_watch *watch)
{
    struct wrk_priv *p = w->priv;
    bool more;

    gp_lock_take(&p->send_lock);
    watch_let_go(w, watch);
    wrk_land_gate(w);
    xport_flush(p->conn);
    more = !atomic_load(&p->stopping) && watch_next(p->lands, watch);
    if (!more)
        watch_unlist(p->lands, watch);
    gp_lock_release(&p->send_lock);
    return more;
}

static void
watch_run(struct wrk *w, struct wrk_job *job)
{
    struct land_watch *watch = container_of(job, struct land_watch, job);
    CUevent event;

    do {
        gp_lock_take(&w->priv->send_lock);
        watch->begun = true;
        event = watch->event;
        gp_lock_release(&w->priv->send_lock);
        wrk_ctx_enter(w, watch->ctx);
        if (event)
            WRK_CALL(w, cuEventSynchronize, event);
    } while (watch_done(w, watch));
    free(watch);
}

/* One that no thread has come to, and whose land has been sent; or a new one. */
static struct land_watch *
watch_spare(struct wrk_lands *lands)
{
    struct land_watch *watch = lands->watches;

    while (watch && (watch->begun || watch->land))
        watch = watch->next;
    return watch;
}

/* For the next that is not watched, @watch or, if NULL, a new one.  False: there is
 * none. */
static bool
watch_queue(struct wrk *w, struct land_watch *watch)
{
    struct wrk_lands *lands = w->priv->lands;

    if (watch)
        return watch_next(lands, watch);
    watch = calloc(1, sizeof(*watch));
    if (!watch || !watch_next(lands, watch)) {
        free(watch);
        return false;
    }
    watch->job.run = watch_run;
    watch->job.ctx = watch->ctx;
    watch->next = lands->watches;
    lands->watches = watch;
    if (wrk_wait_background(w, &watch->job))
        return true;
    watch_unlist(lands, watch);
    watch_let_go(w, watch);
    free(watch);
    return false;
}

/* Under the lock.  False: all are watched, or no watcher can be had; then the next
 * frame's copy tries again. */
static bool
watch_start(struct wrk *w)
{
    return watch_queue(w, watch_spare(w->priv->lands));
}

void
wrk_land_poll(struct wrk *w)
{
    struct wrk_priv *p = w->priv;
    struct wrk_lands *lands = p->lands;

    gp_lock_take(&p->send_lock);
    wrk_land_gate(w);
    if (gp_now_ns() >= lands->fresh_until || wrk_wait_one_core(w)) {
        lands->fresh_until = 0;
        while (watch_start(w))
            ;
    }
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
    wrk_flush(w);
}

/* --- life
 * ----------------------------------------------------------------------------- */

void
wrk_land_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_priv *p = w->priv;
    struct wrk_lands *lands = p->lands;

    gp_lock_take(&p->send_lock);
    for (struct land *l = lands->first; l; l = l->next) {
        if (l->slot.ctx_index == ctx_index && !l->over) {
            l->over = true;
            l->result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
    }
    for (struct land_watch *watch = lands->watches; watch; watch = watch->next)
        if (watch->ctx_index == ctx_index)
            watch->event = NULL;
    for (unsigned i = 0; i < WIRE_LAND_SMALLS; i++)
        wrk_slot_forget(&lands->small[i].slot, ctx_index);
    for (unsigned i = 0; i < WIRE_LAND_LARGES; i++)
        wrk_slot_forget(&lands->large[i].slot, ctx_index);
    wrk_land_gate(w);
    gp_lock_release(&p->send_lock);
    p->unflushed = true;
}

static void
fill_free(struct land **list, struct land *lands, unsigned n, bool large)
{
    while (n--) {
        lands[n].large = large;
        lands[n].next = *list;
        *list = &lands[n];
    }
}

int
wrk_lands_new(struct wrk_lands **ret)
{
    struct wrk_lands *lands = calloc(1, sizeof(*lands));

    if (!lands)
        return -ENOMEM;
    lands->last = &lands->first;
    fill_free(&lands->free[false], lands->small, WIRE_LAND_SMALLS, false);
    fill_free(&lands->free[true], lands->large, WIRE_LAND_LARGES, true);
    *ret = lands;
    return 0;
}
