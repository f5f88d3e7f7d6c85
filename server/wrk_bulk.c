/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_bulk.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_segment.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Pieces: small enough to stay in the second-level cache between the socket and
 * the copy (measured: 1.2-2.5x on loopback), large enough for a copy engine. */
#define PIECE_UP (512u * 1024)
#define PIECE_DOWN (512u * 1024)

/* Downward transfers up to this size are done by the reader itself when the
 * stream is idle: handing over costs more than they take. */
#define DOWN_NOW (1u << 20)

/* How long to ask for a piece before sleeping in the driver. */
#define DOWN_SPIN_NS 20000

/* Contexts that keep a stream of ours; a client has one per device, seldom more. */
#define SIDE_STREAMS 32

#define HOSTREGISTER_PORTABLE 0x1u

struct slot {
    uint8_t *mem;
    atomic_bool pinned; /* registered since the last context died */
    CUevent event;      /* of the copy in flight, NULL: free */
    uint32_t ctx_index;
};

struct wrk_bulk {
    struct slot up[WRK_SLOTS_UP_MAX];
    unsigned n_up;                   /* slots that have memory */
    unsigned last;                   /* slot used last */
    struct slot now[WRK_SLOTS_DOWN]; /* the reader's, for small answers */

    pthread_mutex_t down_lock; /* never taken by the reader */
    struct slot down[WRK_SLOTS_DOWN];
    CUstream side[SIDE_STREAMS];
    uint32_t side_ctx[SIDE_STREAMS];
    atomic_bool side_gone[SIDE_STREAMS]; /* the context died: make another */
};

/* --- slots --------------------------------------------------------------------- */

/* The memory is ours and only registered with the driver, because what a driver
 * allocates dies with a context; without the registration it still works. */
static bool
slot_ready(struct wrk *w, struct slot *slot)
{
    if (!slot->mem) {
        void *mem = mmap(NULL, WRK_SLOT_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (mem == MAP_FAILED)
            return false;
        slot->mem = mem;
    }
    if (!slot->pinned) {
        CUresult r = WRK_CALL(w, cuMemHostRegister_v2, slot->mem, WRK_SLOT_SIZE,
                              HOSTREGISTER_PORTABLE);

        if (r != CUDA_SUCCESS && r != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
            gp_log_debug("bulk", "a slot stays pageable (%d)", (int)r);
        slot->pinned = true; /* as far as it goes: not to be asked for again */
    }
    return true;
}

/* Is the copy that used it done?  An error counts as done: the stream is dead. */
static bool
slot_idle(struct wrk *w, struct slot *slot)
{
    if (!slot->event)
        return true;
    if (WRK_CALL(w, cuEventQuery, slot->event) == CUDA_ERROR_NOT_READY)
        return false;
    wrk_evpool_put(w, slot->ctx_index, slot->event);
    slot->event = NULL;
    return true;
}

static void
slot_wait(struct wrk *w, struct slot *slot)
{
    if (!slot->event)
        return;
    WRK_CALL(w, cuEventSynchronize, slot->event);
    wrk_evpool_put(w, slot->ctx_index, slot->event);
    slot->event = NULL;
}

/* After a copy was started: the slot is busy until it is done. */
static void
slot_busy(struct wrk *w, struct slot *slot, CUstream stream)
{
    CUevent event = wrk_evpool_get(w, w->ctx_index);

    slot->ctx_index = w->ctx_index;
    if (event && WRK_CALL(w, cuEventRecord, event, stream) == CUDA_SUCCESS) {
        slot->event = event;
        return;
    }
    if (event)
        wrk_evpool_put(w, w->ctx_index, event);
    WRK_CALL(w, cuStreamSynchronize, stream);
}

/* A free slot: the one used last if it can be, so that it is hot. */
static struct slot *
slot_up(struct wrk *w)
{
    struct wrk_bulk *b = w->priv->bulk;
    struct slot *slot;

    for (unsigned i = 0; i < b->n_up; i++) {
        unsigned at = (b->last + i) % b->n_up;

        if (slot_idle(w, &b->up[at]) && slot_ready(w, &b->up[at])) {
            b->last = at;
            return &b->up[at];
        }
    }
    if (b->n_up < WRK_SLOTS_UP_MAX && slot_ready(w, &b->up[b->n_up])) {
        b->last = b->n_up++;
        return &b->up[b->last];
    }
    if (b->n_up == 0)
        return NULL;
    /* Every slot is in flight behind work that goes on: only now does the reader
     * wait, and nobody else's wait with it. */
    wrk_flush(w);
    wrk_wait_hand_over(w);
    b->last = (b->last + 1) % b->n_up;
    slot = &b->up[b->last];
    slot_wait(w, slot);
    return slot;
}

static uint64_t
piece_len(const struct wrk_copy *copy, uint64_t offset, uint64_t most)
{
    uint64_t len = gp_min(copy->len - offset, most);

    if (copy->grain > 1 && len < copy->len - offset)
        len = copy->grain > most ? copy->grain : len - len % copy->grain;
    return gp_min(len, copy->len - offset);
}

/* --- up ----------------------------------------------------------------------------
 */

static int
piece_up(struct wrk *w, const struct wrk_copy *copy, uint64_t offset, uint64_t len,
         CUresult *result)
{
    struct slot *slot = slot_up(w);
    int r;

    if (!slot) {
        if (*result == CUDA_SUCCESS)
            *result = CUDA_ERROR_OUT_OF_MEMORY;
        return -ENOMEM;
    }
    r = xport_recv_bulk(w->priv->conn, slot->mem, len);
    if (r < 0 || *result != CUDA_SUCCESS)
        return r;
    *result = copy->start(w, copy, slot->mem, offset, len);
    if (*result == CUDA_SUCCESS)
        slot_busy(w, slot, copy->stream);
    return 0;
}

static void
moved(struct wrk *w, uint32_t ctx_index, uint64_t bytes)
{
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    uint32_t slice = wrk_ctx_slice(w, ctx_index);

    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_MOVED][slice], bytes,
                              memory_order_relaxed);
}

CUresult
wrk_bulk_up(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t offset = 0;

    if (rep->bulk != copy->len)
        return CUDA_ERROR_INVALID_VALUE;
    moved(w, w->ctx_index, copy->len);
    while (offset < copy->len) {
        uint64_t len = piece_len(copy, offset, PIECE_UP);

        if (piece_up(w, copy, offset, len, &result) < 0)
            break; /* dispatch drains what is left; a dead link shows in the loop */
        offset += len;
        rep->bulk -= len;
    }
    return result;
}

CUresult
wrk_bulk_up_inline(struct wrk *w, const struct wrk_copy *copy, const void *data)
{
    struct slot *slot;
    CUresult r;

    /* The slot, and not the frame, because the card may read it after we return. */
    if (copy->len > WRK_SLOT_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    slot = slot_up(w);
    if (!slot)
        return CUDA_ERROR_OUT_OF_MEMORY;
    moved(w, w->ctx_index, copy->len);
    if (copy->len)
        memcpy(slot->mem, data, copy->len);
    r = copy->start(w, copy, slot->mem, 0, copy->len);
    if (r == CUDA_SUCCESS)
        slot_busy(w, slot, copy->stream);
    return r;
}

CUresult
wrk_bulk_capturing(struct wrk *w, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if ((uintptr_t)stream > 2 &&
        WRK_CALL(w, cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

int
wrk_bulk_take(struct wrk *w, struct wrk_reply *rep, void *buf)
{
    uint64_t len = rep->bulk;

    rep->bulk = 0;
    return xport_recv_bulk(w->priv->conn, buf, len);
}

/* --- down ----------------------------------------------------------------------------
 */

/*
 * A copy downwards begins when the work before it in its stream is done.  From then
 * on it runs in a stream of the worker's own, so that nothing which the client puts
 * behind it can hold it up: once the answer has begun, the sending half belongs to
 * it, and what it waited for might wait for a frame that nobody could read.
 */
struct down_job {
    struct wrk_job job;
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
    struct slot *slots; /* WRK_SLOTS_DOWN of them */
    CUstream stream;
    uint32_t ctx_index;
    uint64_t started, sent;
    unsigned head, tail; /* slots: started and not sent */
    uint64_t lens[WRK_SLOTS_DOWN];
};

/* An event behind what was just started; without one, wait at once. */
static CUresult
down_mark(struct down *d, struct slot *slot)
{
    CUevent event = wrk_evpool_get(d->w, d->ctx_index);
    CUresult r;

    slot->ctx_index = d->ctx_index;
    if (!event)
        return WRK_CALL(d->w, cuStreamSynchronize, d->stream);
    r = WRK_CALL(d->w, cuEventRecord, event, d->stream);
    if (r == CUDA_SUCCESS)
        slot->event = event;
    else
        wrk_evpool_put(d->w, d->ctx_index, event);
    return r;
}

/* Start one copy in the down's own stream. */
static CUresult
down_copy(struct down *d, struct slot *slot, uint64_t offset, uint64_t len)
{
    struct wrk_copy copy = *d->copy;

    copy.stream = d->stream;
    return copy.start(d->w, &copy, slot->mem, offset, len);
}

static CUresult
down_start(struct down *d)
{
    unsigned at = d->head % WRK_SLOTS_DOWN;
    struct slot *slot = &d->slots[at];
    CUresult r;

    if (!slot_ready(d->w, slot))
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->lens[at] = piece_len(d->copy, d->started, PIECE_DOWN);
    r = down_copy(d, slot, d->started, d->lens[at]);
    if (r == CUDA_SUCCESS)
        r = down_mark(d, slot);
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
    struct slot *slot = &d->slots[d->tail % WRK_SLOTS_DOWN];
    CUresult r;

    if (!slot->event)
        return CUDA_SUCCESS;
    r = event_wait(d->w, slot->event);
    wrk_evpool_put(d->w, slot->ctx_index, slot->event);
    slot->event = NULL;
    return r;
}

/* The first piece, and the last bytes of a long source: what is wrong with an
 * address range shows at one of its ends. */
static CUresult
down_begin(struct down *d)
{
    const struct wrk_copy *copy = d->copy;
    struct slot *probe = &d->slots[WRK_SLOTS_DOWN - 1];
    uint64_t tail = gp_max(copy->grain, UINT64_C(1));
    CUresult r = CUDA_SUCCESS;

    if (copy->len > PIECE_DOWN) {
        if (!slot_ready(d->w, probe))
            return CUDA_ERROR_OUT_OF_MEMORY;
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

/* Pieces after the first.  The answer has begun: an error now can only end the
 * link, for the length has been promised and false bytes must not be delivered. */
static void
down_rest(struct down *d)
{
    struct xport_conn *conn = d->w->priv->conn;

    while (d->sent < d->copy->len) {
        unsigned at = d->tail % WRK_SLOTS_DOWN;
        CUresult r = CUDA_SUCCESS;

        if (d->started < d->copy->len && d->head - d->tail < 2)
            r = down_start(d);
        if (r == CUDA_SUCCESS &&
            xport_send_bulk(conn, d->slots[at].mem, d->lens[at]) < 0)
            return;
        d->sent += d->lens[at];
        d->tail++;
        if (r == CUDA_SUCCESS && d->head != d->tail)
            r = down_wait(d);
        if (r != CUDA_SUCCESS) {
            gp_log_error("call", "copy to the client failed half way with %d", (int)r);
            wrk_stop(d->w);
            return;
        }
    }
}

static CUresult
down_run(struct down *d)
{
    struct wrk_priv *p = d->w->priv;
    CUresult r = down_begin(d);

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&p->send_lock);
    if (down_send_header(d) == 0)
        down_rest(d);
    xport_flush(p->conn);
    pthread_mutex_unlock(&p->send_lock);
    return CUDA_SUCCESS;
}

/* The worker's own stream of a context; the lock is held, the context current. */
static CUstream
side_stream(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_bulk *b = w->priv->bulk;
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
    struct wrk_bulk *b = w->priv->bulk;
    struct down d = {.w = w,
                     .copy = &down->copy,
                     .req = &down->job.req,
                     .slots = b->down,
                     .ctx_index = down->job.ctx_index};
    CUresult r;

    if (down->ready) {
        r = event_wait(w, down->ready);
        wrk_evpool_put(w, down->job.ctx_index, down->ready);
    } else {
        r = WRK_CALL(w, cuStreamSynchronize, down->copy.stream);
    }
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&b->down_lock);
    d.stream = side_stream(w, d.ctx_index);
    r = d.stream ? down_run(&d) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&b->down_lock);
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
down_now(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    struct down d = {.w = w,
                     .copy = copy,
                     .req = rep->req,
                     .slots = w->priv->bulk->now,
                     .stream = copy->stream,
                     .ctx_index = w->ctx_index};
    CUresult r = down_run(&d);

    rep->taken = r == CUDA_SUCCESS;
    return r;
}

static CUresult
down_later(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
           size_t arg_size)
{
    struct down_job *down = malloc(sizeof(*down) + arg_size);

    if (!down)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *down = (struct down_job){.job.run = down_job_run, .copy = *copy};
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
wrk_bulk_down(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
              size_t arg_size)
{
    CUresult r;

    if (!(rep->req->flags & WIRE_F_REPLY))
        return CUDA_ERROR_INVALID_VALUE;
    moved(w, w->ctx_index, copy->len);
    r = wrk_wait_idle(w, copy->stream);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
        return r;
    if (r == CUDA_SUCCESS && copy->len <= DOWN_NOW)
        return down_now(w, rep, copy);
    return down_later(w, rep, copy, arg_size);
}

/* --- life ----------------------------------------------------------------------------
 */

void
wrk_bulk_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_bulk *b = w->priv->bulk;

    for (unsigned i = 0; i < b->n_up; i++) {
        if (b->up[i].ctx_index == ctx_index)
            b->up[i].event = NULL;
        b->up[i].pinned = false;
    }
    for (unsigned i = 0; i < WRK_SLOTS_DOWN; i++) {
        b->now[i].pinned = false;
        b->now[i].event = NULL;
        b->down[i].pinned = false;
    }
    /* The index may come back with another context. */
    atomic_store(&b->side_gone[ctx_index % SIDE_STREAMS], true);
    wrk_evpool_forget(ctx_index);
}

int
wrk_bulk_new(struct wrk *w, struct wrk_bulk **ret)
{
    struct wrk_bulk *b = calloc(1, sizeof(*b));

    (void)w;
    if (!b)
        return -ENOMEM;
    pthread_mutex_init(&b->down_lock, NULL);
    *ret = b;
    return 0;
}

/* The slots are the driver's and go with the process. */
void
wrk_bulk_free(struct wrk_bulk *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->down_lock);
    free(b);
}
