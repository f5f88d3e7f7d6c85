/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_d2h_reply.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_d2h_async.h"
#include "wrk_evpool.h"
#include "wrk_path_ring.h"
#include "wrk_paths.h"
#include "wrk_staging.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"
#include "wrk_wake.h"
#include "xport.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CHUNK_D2H (512u * 1024)
/* Copies up to this size run on the receive thread when the stream is idle: handing
 * them to a waiter thread would cost more than they take. */
#define DOWN_NOW (1u << 20)

/* How long to poll for an event before sleeping in the driver. */
#define DOWN_SPIN_NS 20000

/* Contexts that keep an internal stream; a client has one per device, seldom more. */
#define INTERNAL_STREAMS 32

struct wrk_d2h_replies {
    /* The receive thread's, for small copies. */
    struct wrk_staging now[WRK_STAGING_D2H_LENT];

    pthread_mutex_t lock; /* waiter threads only */
    struct wrk_staging later[WRK_STAGING_D2H_LENT];
    CUstream stream[INTERNAL_STREAMS];
    uint32_t stream_ctx[INTERNAL_STREAMS];
    atomic_bool stream_gone[INTERNAL_STREAMS]; /* the context died: make another */
};

/*
 * A copy on a waiter thread begins when the work before it in its stream is complete.
 * From then on it runs in an internal stream, so that nothing that the client enqueues
 * after it can delay it: once the reply has begun, the copy holds the sending half of
 * the connection, and work that it waited for might itself wait for a frame.
 */
struct down_job {
    struct wrk_job job;
    struct wrk_d2h_replies *owner;
    uint32_t slice;
    struct wrk_copy copy;
    CUevent ready; /* recorded after the work before it; NULL: synchronize the stream */
    uint8_t arg[];
};

/* Poll for a little while, then sleep in the driver. */
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

struct down_header {
    struct wire_rep rep;
    uint64_t len;
};
static_assert(sizeof(struct down_header) == sizeof(struct wire_rep) + 8, "no padding");

static struct down_header
down_header(const struct wrk_d2h *d)
{
    return (struct down_header){.rep = {.size = sizeof(struct down_header),
                                        .call = d->req->call,
                                        .flags = WIRE_F_BULK,
                                        .seq = d->req->seq,
                                        .result = CUDA_SUCCESS},
                                .len = d->copy->len};
}

static int
down_send_header(struct wrk_d2h *d)
{
    struct xport_conn *conn = d->w->priv->conn;
    struct down_header *header = xport_reserve(conn, sizeof(*header));

    if (!header)
        return -ECONNRESET;
    *header = down_header(d);
    xport_commit(conn, sizeof(*header));
    d->source.read = wrk_path_staging_reread;
    /* Over a long line the end of the copy would be a wait of a round trip more. */
    if (d->copy->grain <= 1 && xport_is_near(conn))
        xport_bulk_from_source(conn, d->copy->len, &d->source);
    else
        xport_bulk_in_parts(conn, d->copy->len);
    return 0;
}

void
wrk_path_d2h_broken(struct wrk_d2h *d, CUresult r)
{
    gp_log_error("call",
                 "a copy to the client failed after its reply had begun, with %d",
                 (int)r);
    wrk_stop(d->w);
}

/* Wait until the buffers have been sent that the copy before used: by now they usually
 * have been, because its end was acknowledged when the client had it.  The last one
 * first, for with that the client has all that was before. */
static void
slots_take_back(struct wrk_d2h *d)
{
    struct wrk_priv *p = d->w->priv;
    uint64_t last = 0;

    for (unsigned i = 0; i < WRK_STAGING_D2H_LENT; i++)
        last = gp_max(last, d->slots[i].ticket);
    if (!last)
        return;
    gp_lock_take(&p->send_lock);
    xport_send_bulk_wait(p->conn, last);
    for (unsigned i = 0; i < WRK_STAGING_D2H_LENT; i++) {
        xport_send_bulk_wait(p->conn, d->slots[i].ticket);
        d->slots[i].ticket = 0;
    }
    gp_lock_release(&p->send_lock);
}

/* Everything before the copy in its stream is complete. */
static const struct wrk_path *
down_path(struct wrk_d2h *d)
{
    struct wrk_priv *p = d->w->priv;
    const struct wrk_copy *copy = d->copy;
    uint32_t facts = WRK_FACT_D2H | WRK_FACT_IDLE;

    if (copy->plain && p->windows && wrk_path_registered_window_take(d))
        facts |= WRK_FACT_RANGE | WRK_FACT_WINDOW;
    if (copy->grain <= 1)
        facts |= WRK_FACT_ANY_CUT;
    if (copy->len >= WRK_RING_DOWN_MIN)
        facts |= WRK_FACT_LONG;
    if (wrk_path_asks_ring(facts) && wrk_ring_ready(d->w))
        facts |= WRK_FACT_RING;
    return wrk_path_choose(facts);
}

static void
down_slots(struct wrk_d2h *d)
{
    struct xport_conn *conn = d->w->priv->conn;
    uint32_t chunk = xport_piece(conn);

    d->chunk = chunk ? chunk : CHUNK_D2H;
    d->n_slots = xport_can(conn, XPORT_CAN_LEND) && d->chunk <= WRK_COPY_ONE_PIECE
                     ? WRK_STAGING_D2H_LENT
                     : WRK_STAGING_D2H;
    slots_take_back(d);
}

/* The rest of the payload.  Under the send lock. */
static void
down_send(struct wrk_d2h *d, const struct wrk_path *path)
{
    path->d2h_send(d);
    wrk_path_registered_window_drop(d);
    xport_flush(d->w->priv->conn);
    xport_bulk_source_done(d->w->priv->conn);
    if (d->n_reread)
        gp_log_info("copy", "%" PRIu64 " of %" PRIu64 " bytes were read again",
                    d->n_reread, d->copy->len);
    free(TAKE_PTR(d->reread));
}

/* With the header in one piece, where the path can: d->sent. */
static CUresult
down_whole(struct wrk_d2h *d, const struct wrk_path *path)
{
    struct down_header header = down_header(d);
    struct wrk_priv *p = d->w->priv;
    CUresult r;

    d->chunk = gp_min(d->chunk, (uint64_t)WRK_RING_CHUNK);
    gp_lock_take(&p->send_lock);
    wrk_d2h_async_before_reply(d->w);
    r = path->d2h_whole(d, &header, sizeof(header));
    if (d->sent)
        down_send(d, path);
    gp_lock_release(&p->send_lock);
    return r;
}

/* On success the reply has been sent, or the connection is dead. */
static CUresult
down_run(struct wrk_d2h *d)
{
    struct wrk_priv *p = d->w->priv;
    const struct wrk_path *path;
    CUresult r = CUDA_SUCCESS;

    down_slots(d);
    path = down_path(d);
    wrk_path_log(path, d->copy->len);
    if (path->d2h_whole)
        r = down_whole(d, path);
    if (r == CUDA_SUCCESS && !d->sent) {
        r = path->d2h_begin(d);
        if (r != CUDA_SUCCESS)
            return r;
        gp_lock_take(&p->send_lock);
        wrk_d2h_async_before_reply(d->w);
        if (down_send_header(d) == 0)
            down_send(d, path);
        gp_lock_release(&p->send_lock);
    }
    if (r == CUDA_SUCCESS)
        wrk_wake(d->w);
    return r;
}

/* The internal stream of a context; the lock is held, the context current. */
static CUstream
internal_stream(struct wrk *w, struct wrk_d2h_replies *b, uint32_t ctx_index)
{
    unsigned at = ctx_index % INTERNAL_STREAMS;

    /* A stream dies with its context, so it is never destroyed here. */
    if (atomic_exchange(&b->stream_gone[at], false) || b->stream_ctx[at] != ctx_index)
        b->stream[at] = NULL;
    if (!b->stream[at] && WRK_CALL(w, cuStreamCreate, &b->stream[at],
                                   CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        b->stream[at] = NULL;
    b->stream_ctx[at] = ctx_index;
    return b->stream[at];
}

static CUresult
down_after(struct wrk *w, struct down_job *down)
{
    struct wrk_d2h_replies *b = down->owner;
    struct wrk_d2h d = {.w = w,
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
    d.stream = internal_stream(w, b, d.ctx_index);
    r = d.stream ? down_run(&d) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&b->lock);
    return r;
}

static void
down_job_run(struct wrk *w, struct wrk_job *job)
{
    struct down_job *down = container_of(job, struct down_job, job);
    CUresult r = job->ctx ? down_after(w, down) : CUDA_ERROR_INVALID_CONTEXT;

    if (r != CUDA_SUCCESS)
        wrk_reply_whole(w, &job->req, r, NULL, 0);
    free(down);
}

/* Nothing can delay the copy: it runs on the receive thread, in buffers of its own. */
static CUresult
down_now(struct wrk *w, struct wrk_d2h_replies *b, struct wrk_reply *rep,
         const struct wrk_copy *copy)
{
    struct wrk_d2h d = {.w = w,
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
down_later(struct wrk *w, struct wrk_d2h_replies *b, struct wrk_reply *rep,
           const struct wrk_copy *copy, size_t arg_size)
{
    struct down_job *down = malloc(sizeof(*down) + arg_size);

    if (!down)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *down = (struct down_job){.job.run = down_job_run,
                              .job.keeps_ctx = true,
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
    if (!wrk_waiters_job(w, rep, &down->job))
        free(down);
    return CUDA_SUCCESS;
}

CUresult
wrk_d2h_reply(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
              size_t arg_size)
{
    struct wrk_d2h_replies *b = w->priv->d2h_replies;
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
wrk_d2h_replies_forget(struct wrk_d2h_replies *b, uint32_t ctx_index)
{
    for (unsigned i = 0; i < WRK_STAGING_D2H_LENT; i++) {
        b->now[i].event = NULL;
        b->now[i].pinned = false;
        b->later[i].pinned = false;
    }
    /* The index may be used again, for another context. */
    atomic_store(&b->stream_gone[ctx_index % INTERNAL_STREAMS], true);
}

int
wrk_d2h_replies_new(struct wrk_d2h_replies **ret)
{
    struct wrk_d2h_replies *b = calloc(1, sizeof(*b));

    if (!b)
        return -ENOMEM;
    pthread_mutex_init(&b->lock, NULL);
    *ret = b;
    return 0;
}
