/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_bulk_down.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_d2h_async.h"
#include "wrk_direct.h"
#include "wrk_evpool.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "wrk_window.h"
#include "xport.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define PIECE_DOWN (512u * 1024)
/* One offer of a window: how long the session's turn to copy is, at least. */
#define PIECE_WINDOW (8u << 20)
/* Offers of windows that the client may be fetching at a time. */
#define WINDOWS_AHEAD 2

/* Transfers up to this size are done by the reader itself when the stream is idle:
 * handing over costs more than they take. */
#define DOWN_NOW (1u << 20)

/* How long to ask for a piece before sleeping in the driver. */
#define DOWN_SPIN_NS 20000

/* Contexts that keep a stream of ours; a client has one per device, seldom more. */
#define SIDE_STREAMS 32

struct wrk_down {
    struct wrk_slot now[WRK_SLOTS_DOWN]; /* the reader's, for small answers */

    pthread_mutex_t lock; /* never taken by the reader */
    struct wrk_slot later[WRK_SLOTS_DOWN];
    CUstream side[SIDE_STREAMS];
    uint32_t side_ctx[SIDE_STREAMS];
    atomic_bool side_gone[SIDE_STREAMS]; /* the context died: make another */
};

/*
 * A copy downwards begins when the work before it in its stream is done.  From then
 * on it runs in a stream of the worker's own, so that nothing which the client puts
 * behind it can hold it up: once the answer has begun, the sending half belongs to
 * it, and what it waited for might wait for a frame that nobody could read.
 */
struct down_job {
    struct wrk_job job;
    struct wrk_down *owner;
    uint32_t slice;
    struct wrk_copy copy;
    CUevent ready; /* behind the work before it; NULL: ask the stream itself */
    uint8_t arg[];
};

/* Copy pieces down, one ahead of the one that is being sent.  The header leaves
 * with the first piece, when that has arrived and the far end of the source has
 * been touched, so that nearly every error is still answered properly. */
struct down {
    struct wrk *w;
    const struct wrk_copy *copy;
    const struct wire_req *req;
    struct wrk_slot *slots; /* WRK_SLOTS_DOWN of them */
    CUstream stream;
    uint32_t ctx_index, slice;
    uint64_t started, sent;
    uint64_t piece;      /* bytes of one */
    unsigned head, tail; /* slots: started and not sent */
    uint64_t lens[WRK_SLOTS_DOWN];
};

/* Start one copy in the down's own stream. */
static CUresult
down_copy(struct down *d, struct wrk_slot *slot, uint64_t offset, uint64_t len)
{
    struct wrk_copy copy = *d->copy;

    copy.stream = d->stream;
    return copy.start(d->w, &copy, slot->mem, offset, len);
}

static CUresult
down_start(struct down *d)
{
    unsigned at = d->head % WRK_SLOTS_DOWN;
    struct wrk_slot *slot = &d->slots[at];
    CUresult r;

    r = wrk_slot_ready(d->w, slot, WRK_SLOT_SIZE);
    if (r != CUDA_SUCCESS)
        return r;
    /* What left from it before may still be on its way. */
    xport_send_bulk_wait(d->w->priv->conn, slot->ticket);
    slot->ticket = 0;
    d->lens[at] = wrk_copy_piece(d->copy, d->started, d->piece);
    wrk_copy_moved(d->w, d->slice, d->lens[at]);
    r = down_copy(d, slot, d->started, d->lens[at]);
    if (r == CUDA_SUCCESS)
        r = wrk_slot_mark(d->w, slot, d->ctx_index, d->stream);
    if (r != CUDA_SUCCESS)
        return r;
    d->started += d->lens[at];
    d->head++;
    return CUDA_SUCCESS;
}

/* Ask for a little while, then sleep in the driver. */
static CUresult
event_wait(struct wrk *w, CUevent event)
{
    uint64_t until = gp_now_ns() + DOWN_SPIN_NS;
    CUresult r;

    do
        r = WRK_CALL(w, cuEventQuery, event);
    while (r == CUDA_ERROR_NOT_READY && gp_now_ns() < until);
    return r == CUDA_ERROR_NOT_READY ? WRK_CALL(w, cuEventSynchronize, event) : r;
}

/* The oldest piece has arrived in its slot. */
static CUresult
down_wait(struct down *d)
{
    struct wrk_slot *slot = &d->slots[d->tail % WRK_SLOTS_DOWN];
    CUresult r;

    if (!slot->event)
        return CUDA_SUCCESS;
    r = event_wait(d->w, slot->event);
    wrk_slot_unmark(d->w, slot);
    return r;
}

/* The first piece, and the last bytes of a long source: what is wrong with an
 * address range shows at one of its ends. */
static CUresult
down_begin(struct down *d)
{
    const struct wrk_copy *copy = d->copy;
    struct wrk_slot *probe = &d->slots[WRK_SLOTS_DOWN - 1];
    uint64_t tail = gp_max(copy->grain, UINT64_C(1));
    CUresult r = CUDA_SUCCESS;

    if (copy->len > d->piece) {
        r = wrk_slot_ready(d->w, probe, WRK_SLOT_SIZE);
        if (r == CUDA_SUCCESS)
            r = down_copy(d, probe, copy->len - tail, tail);
    }
    if (r == CUDA_SUCCESS && copy->len)
        r = down_start(d);
    return r == CUDA_SUCCESS && copy->len ? down_wait(d) : r;
}

static int
down_send_header(struct down *d)
{
    struct xport_conn *conn = d->w->priv->conn;
    uint32_t total = (uint32_t)sizeof(struct wire_rep) + sizeof(uint64_t);
    struct wire_rep *rep = xport_reserve(conn, total);

    if (!rep)
        return -ECONNRESET;
    *rep = (struct wire_rep){.size = total,
                             .call = d->req->call,
                             .flags = WIRE_F_BULK,
                             .seq = d->req->seq,
                             .result = CUDA_SUCCESS};
    memcpy(rep + 1, &d->copy->len, sizeof(uint64_t));
    xport_commit(conn, total);
    return 0;
}

static void
down_broke(struct down *d, CUresult r)
{
    gp_log_error("call", "copy to the client failed half way with %d", (int)r);
    wrk_stop(d->w);
}

/* The first piece has arrived in its slot; the rest goes where the client takes it. */
static void
down_rest_direct(struct down *d)
{
    struct xport_conn *conn = d->w->priv->conn;
    struct wrk_direct_side side = {d->stream, d->ctx_index, d->slice};
    CUresult r = CUDA_SUCCESS;

    if (xport_send_bulk(conn, d->slots[0].mem, d->lens[0]) == 0 &&
        wrk_direct_down(d->w, d->copy, d->lens[0], &side, &r) == 0 && r != CUDA_SUCCESS)
        down_broke(d, r);
}

/* Pieces after the first.  The answer has begun: an error now can only end the
 * link, for the length has been promised and false bytes must not be delivered. */
static void
down_rest(struct down *d)
{
    struct xport_conn *conn = d->w->priv->conn;

    if (d->copy->len > d->piece && wrk_direct_can(d->w, d->copy, d->piece)) {
        down_rest_direct(d);
        return;
    }
    while (d->sent < d->copy->len) {
        unsigned at = d->tail % WRK_SLOTS_DOWN;
        CUresult r = CUDA_SUCCESS;

        if (d->started < d->copy->len && d->head - d->tail < 2)
            r = down_start(d);
        if (r == CUDA_SUCCESS &&
            xport_send_bulk_start(conn, d->slots[at].mem, d->lens[at],
                                  &d->slots[at].ticket) < 0)
            return;
        d->sent += d->lens[at];
        d->tail++;
        if (r == CUDA_SUCCESS && d->head != d->tail)
            r = down_wait(d);
        if (r != CUDA_SUCCESS) {
            down_broke(d, r);
            return;
        }
    }
}

/* The slots are the next copy's when they are empty again. */
static void
down_settle(struct down *d)
{
    for (unsigned i = 0; i < WRK_SLOTS_DOWN; i++) {
        xport_send_bulk_wait(d->w->priv->conn, d->slots[i].ticket);
        d->slots[i].ticket = 0;
    }
}

/* Straight from the card's memory, as far as there are windows.  The work before the
 * copy is done, so this needs no stream.  The first window is @window. */
static void
down_windows(struct down *d, struct wrk_window *window, uint64_t len)
{
    struct wrk_windows *ws = d->w->priv->windows;
    struct xport_conn *conn = d->w->priv->conn;
    struct {
        struct wrk_window *window;
        uint64_t ticket;
    } lent[WINDOWS_AHEAD] = {{0}};
    unsigned n = 0;
    int r = 0;

    while (len && r == 0) {
        unsigned at = n++ % WINDOWS_AHEAD;

        if (lent[at].window) {
            xport_send_bulk_wait(conn, lent[at].ticket);
            wrk_window_put(ws, lent[at].window);
        }
        lent[at].window = window;
        lent[at].ticket = 0;
        wrk_copy_moved(d->w, d->slice, len);
        r = xport_send_bulk_direct(conn, d->copy->base + d->sent, len,
                                   &lent[at].ticket);
        d->sent += len;
        len = wrk_window_take(ws, d->copy->base + d->sent,
                              gp_min(d->copy->len - d->sent, (uint64_t)PIECE_WINDOW),
                              &window);
    }
    if (len)
        wrk_window_put(ws, window);
    for (unsigned i = 0; i < WINDOWS_AHEAD; i++, n++) {
        unsigned at = n % WINDOWS_AHEAD;

        if (!lent[at].window)
            continue;
        xport_send_bulk_wait(conn, lent[at].ticket);
        wrk_window_put(ws, lent[at].window);
    }
    d->started = d->sent;
}

/* The piece in front of what no window covers. */
static void
down_slots(struct down *d)
{
    CUresult r =
        d->sent < d->copy->len && d->head == d->tail ? down_start(d) : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS && d->head != d->tail)
        r = down_wait(d);
    if (r == CUDA_SUCCESS) {
        down_rest(d);
        return;
    }
    down_broke(d, r);
}

static CUresult
down_run(struct down *d)
{
    struct wrk_priv *p = d->w->priv;
    struct wrk_window *window = NULL;
    uint64_t first = 0;
    uint32_t piece = atomic_load_explicit(&p->conn->piece, memory_order_relaxed);
    CUresult r = CUDA_SUCCESS;

    d->piece = piece ? piece : PIECE_DOWN;
    if (d->copy->plain)
        first = wrk_window_take(p->windows, d->copy->base,
                                gp_min(d->copy->len, (uint64_t)PIECE_WINDOW), &window);
    if (!first)
        r = down_begin(d);
    if (r != CUDA_SUCCESS)
        return r;
    gp_lock_take(&p->send_lock);
    wrk_land_gate(d->w);
    r = down_send_header(d) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    if (r == CUDA_SUCCESS && first)
        down_windows(d, window, first);
    else if (first)
        wrk_window_put(p->windows, window);
    if (r == CUDA_SUCCESS && d->sent < d->copy->len)
        down_slots(d);
    down_settle(d);
    xport_flush(p->conn);
    gp_lock_release(&p->send_lock);
    return CUDA_SUCCESS;
}

/* The worker's own stream of a context; the lock is held, the context current. */
static CUstream
side_stream(struct wrk *w, struct wrk_down *b, uint32_t ctx_index)
{
    unsigned at = ctx_index % SIDE_STREAMS;

    /* A stream of another context, or of a dead one, goes with that. */
    if (atomic_exchange(&b->side_gone[at], false) || b->side_ctx[at] != ctx_index)
        b->side[at] = NULL;
    if (!b->side[at] && WRK_CALL(w, cuStreamCreate, &b->side[at],
                                 CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        b->side[at] = NULL;
    b->side_ctx[at] = ctx_index;
    return b->side[at];
}

static CUresult
down_after(struct wrk *w, struct down_job *down)
{
    struct wrk_down *b = down->owner;
    struct down d = {.w = w,
                     .copy = &down->copy,
                     .req = &down->job.req,
                     .slots = b->later,
                     .ctx_index = down->job.ctx_index,
                     .slice = down->slice};
    CUresult r;

    if (down->ready) {
        r = event_wait(w, down->ready);
        wrk_evpool_put(w, down->job.ctx_index, down->ready);
    } else {
        r = WRK_CALL(w, cuStreamSynchronize, down->copy.stream);
    }
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&b->lock);
    d.stream = side_stream(w, b, d.ctx_index);
    r = d.stream ? down_run(&d) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&b->lock);
    return r;
}

static void
down_job_run(struct wrk *w, struct wrk_job *job)
{
    struct down_job *down = container_of(job, struct down_job, job);
    CUresult r = down_after(w, down);

    if (r != CUDA_SUCCESS)
        wrk_answer(w, &job->req, r, NULL, 0);
    free(down);
}

/* Nothing can hold the copy up: the reader does it at once, in slots of its own. */
static CUresult
down_now(struct wrk *w, struct wrk_down *b, struct wrk_reply *rep,
         const struct wrk_copy *copy)
{
    struct down d = {.w = w,
                     .copy = copy,
                     .req = rep->req,
                     .slots = b->now,
                     .stream = copy->stream,
                     .ctx_index = w->ctx_index,
                     .slice = wrk_ctx_slice(w, w->ctx_index)};
    CUresult r = down_run(&d);

    rep->taken = r == CUDA_SUCCESS;
    return r;
}

static CUresult
down_later(struct wrk *w, struct wrk_down *b, struct wrk_reply *rep,
           const struct wrk_copy *copy, size_t arg_size)
{
    struct down_job *down = malloc(sizeof(*down) + arg_size);

    if (!down)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *down = (struct down_job){.job.run = down_job_run,
                              .owner = b,
                              .copy = *copy,
                              .slice = wrk_ctx_slice(w, w->ctx_index)};
    if (arg_size) {
        memcpy(down->arg, copy->arg, arg_size);
        down->copy.arg = down->arg;
    }
    down->ready = wrk_evpool_get(w, w->ctx_index);
    if (down->ready &&
        WRK_CALL(w, cuEventRecord, down->ready, copy->stream) != CUDA_SUCCESS) {
        wrk_evpool_put(w, w->ctx_index, down->ready);
        down->ready = NULL;
    }
    if (!wrk_wait_job(w, rep, &down->job))
        free(down);
    return CUDA_SUCCESS;
}

CUresult
wrk_down(struct wrk *w, struct wrk_down *b, struct wrk_reply *rep,
         const struct wrk_copy *copy, size_t arg_size)
{
    CUresult r;

    if (!(rep->req->flags & WIRE_F_REPLY))
        return CUDA_ERROR_INVALID_VALUE;
    r = wrk_wait_idle(w, copy->stream);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
        return r;
    if (r == CUDA_SUCCESS && copy->len <= DOWN_NOW)
        return down_now(w, b, rep, copy);
    return down_later(w, b, rep, copy, arg_size);
}

void
wrk_down_forget(struct wrk_down *b, uint32_t ctx_index)
{
    for (unsigned i = 0; i < WRK_SLOTS_DOWN; i++) {
        b->now[i].event = NULL;
        b->now[i].pinned = false;
        b->later[i].pinned = false;
    }
    /* The index may come back with another context. */
    atomic_store(&b->side_gone[ctx_index % SIDE_STREAMS], true);
}

int
wrk_down_new(struct wrk_down **ret)
{
    struct wrk_down *b = calloc(1, sizeof(*b));

    if (!b)
        return -ENOMEM;
    pthread_mutex_init(&b->lock, NULL);
    *ret = b;
    return 0;
}

void
wrk_down_free(struct wrk_down *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}
