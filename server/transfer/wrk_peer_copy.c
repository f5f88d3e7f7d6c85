/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two halves of a copy between servers, each on a waiter thread.
 *
 * Chunks pass through two staging buffers, each with a stream of its own, so that one
 * is being sent while the other is copied to or from the GPU.  The client has made sure
 * that the work before the copy is complete, and waits for the receiving half.
 */
#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_peer.h"
#include "wrk_supervisor_channel.h"
#include "wrk_waiters.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define PIECE (UINT64_C(1) << 20)

struct peer_copy {
    struct wrk_job job; /* first */
    struct wrk_peer *peer;
    uint64_t xfer;
    CUdeviceptr at;
    uint64_t width, rows, slices, pitch, slice;
    uint64_t total;
    bool to_card;
    bool promised;    /* the sender's header is out: its bytes have to follow */
    CUresult refused; /* why nothing can be copied here; the other half hears of it */
    CUstream stream[2];
};

/* Some bytes of it: @rows rows of @width, or with one row a part of a longer run. */
struct piece {
    CUdeviceptr at;
    uint64_t width, rows;
};

/* Where the next piece begins. */
struct place {
    uint64_t slice, row, x;
};

/* ---- pieces ---- */

/* The next piece, at most PIECE bytes; false at the end. */
static bool
piece_next(const struct peer_copy *c, struct place *p, struct piece *ret)
{
    uint64_t run = c->width, some;

    if (p->slice == c->slices)
        return false;
    ret->at = c->at + p->slice * c->slice + p->row * c->pitch + p->x;
    if (run - p->x > PIECE || p->x) { /* a row longer than a piece */
        ret->rows = 1;
        ret->width = gp_min(run - p->x, PIECE);
        p->x += ret->width;
        if (p->x < run)
            return true;
        p->x = 0;
        p->row++;
    } else {
        some = gp_max(PIECE / run, 1u);
        ret->width = run;
        ret->rows = gp_min(some, c->rows - p->row);
        p->row += ret->rows;
    }
    if (p->row == c->rows) {
        p->row = 0;
        p->slice++;
    }
    return true;
}

static CUresult
piece_start(struct wrk *w, const struct peer_copy *c, const struct piece *piece,
            uint8_t *mem, CUstream stream)
{
    CUDA_MEMCPY2D rect = {.WidthInBytes = piece->width, .Height = piece->rows};

    if (piece->rows == 1)
        return c->to_card ? WRK_CALL(w, cuMemcpyHtoDAsync_v2, piece->at, mem,
                                     piece->width, stream)
                          : WRK_CALL(w, cuMemcpyDtoHAsync_v2, mem, piece->at,
                                     piece->width, stream);
    rect.srcMemoryType = c->to_card ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    rect.dstMemoryType = c->to_card ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    rect.srcHost = rect.dstHost = mem;
    rect.srcDevice = rect.dstDevice = piece->at;
    rect.srcPitch = c->to_card ? piece->width : c->pitch;
    rect.dstPitch = c->to_card ? c->pitch : piece->width;
    return WRK_CALL(w, cuMemcpy2DAsync_v2, &rect, stream);
}

/* ---- a copy ---- */

/* Sums that wrap would end a transfer early, or never. */
static bool
copy_measure(struct peer_copy *c)
{
    if (!c->width || !c->rows || !c->slices || (c->rows > 1 && c->pitch < c->width))
        return false;
    if (c->pitch == c->width) { /* one long row */
        if (!gp_mul_ok(c->width, c->rows, &c->width))
            return false;
        c->rows = 1;
    }
    return gp_mul_ok(c->width, c->rows, &c->total) &&
           gp_mul_ok(c->total, c->slices, &c->total) && c->total <= WIRE_BULK_MAX;
}

static CUresult
copy_streams(struct wrk *w, struct peer_copy *c)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
        r = WRK_CALL(w, cuStreamCreate, &c->stream[i], CU_STREAM_NON_BLOCKING);
        if (r == CUDA_SUCCESS)
            r = wrk_staging_ready(w, &c->peer->slot[i], PIECE);
    }
    return r;
}

static CUresult
copy_finish(struct wrk *w, struct peer_copy *c, CUresult r)
{
    for (int i = 0; i < 2; i++) {
        CUresult end;

        if (!c->stream[i])
            continue;
        end = WRK_CALL(w, cuStreamSynchronize, c->stream[i]);
        r = r == CUDA_SUCCESS ? end : r;
        WRK_CALL(w, cuStreamDestroy_v2, c->stream[i]);
    }
    return r;
}

/* ---- sending: the peer's lock is held ---- */

/* The first chunk shows whether there is anything to send: an invalid address fails
 * there. */
static CUresult
send_pieces(struct wrk *w, struct peer_copy *c)
{
    struct wrk_peer_head head = {.xfer = c->xfer, .len = c->total};
    struct piece now, next;
    struct place place = {0};
    CUresult r;
    bool more;

    piece_next(c, &place, &now);
    r = piece_start(w, c, &now, c->peer->slot[0].mem, c->stream[0]);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuStreamSynchronize, c->stream[0]);
    if (r != CUDA_SUCCESS)
        return r;
    c->promised = true;
    if (wrk_peer_write(c->peer, &head, sizeof(head)) < 0)
        return CUDA_ERROR_SYSTEM_NOT_READY;
    for (unsigned i = 0;; i ^= 1, now = next) {
        more = piece_next(c, &place, &next);
        if (more)
            r = piece_start(w, c, &next, c->peer->slot[i ^ 1].mem, c->stream[i ^ 1]);
        if (r != CUDA_SUCCESS ||
            wrk_peer_write(c->peer, c->peer->slot[i].mem, now.width * now.rows) < 0)
            break;
        if (!more)
            return CUDA_SUCCESS;
        r = WRK_CALL(w, cuStreamSynchronize, c->stream[i ^ 1]);
        if (r != CUDA_SUCCESS)
            break;
    }
    wrk_peer_break(c->peer); /* the length is promised */
    return CUDA_SUCCESS;
}

static void
send_run(struct wrk *w, struct wrk_job *job)
{
    struct peer_copy *c = container_of(job, struct peer_copy, job);
    struct wrk_peer_head no = {.xfer = c->xfer};
    CUresult r = c->refused;

    pthread_mutex_lock(&c->peer->lock);
    if (r == CUDA_SUCCESS)
        r = copy_streams(w, c);
    if (r == CUDA_SUCCESS)
        r = send_pieces(w, c);
    r = copy_finish(w, c, r);
    no.result = (int32_t)r;
    /* A second header would be nobody's. */
    if (r != CUDA_SUCCESS &&
        (c->promised ? r == CUDA_ERROR_SYSTEM_NOT_READY
                     : wrk_peer_write(c->peer, &no, sizeof(no)) < 0))
        wrk_peer_break(c->peer);
    pthread_mutex_unlock(&c->peer->lock);
    free(c);
}

/* ---- receiving ---- */

/* Another transfer's header came at peer->head_ns, and whoever it is for has to take
 * it.  Under the lock, which is released meanwhile. */
static int
head_of_another(struct wrk_peer *peer)
{
    const uint64_t xfer = peer->head.xfer, until = peer->head_ns + WRK_PEER_SILENCE_NS;
    const struct timespec at = {.tv_sec = (time_t)(until / GP_NS_PER_S),
                                .tv_nsec = (long)(until % GP_NS_PER_S)};
    int r = pthread_cond_clockwait(&peer->changed, &peer->lock, CLOCK_MONOTONIC, &at);

    return r == ETIMEDOUT && peer->have_head && !peer->taken && peer->head.xfer == xfer
               ? -ETIMEDOUT
               : 0;
}

/* Wait for the header of @c's transfer; the connection is then reserved for it until
 * head_done().  Receivers take turns at reading headers, whichever transfer they belong
 * to. */
static int
head_await(struct peer_copy *c)
{
    struct wrk_peer *peer = c->peer;
    int r = 0;

    pthread_mutex_lock(&peer->lock);
    while (r == 0 && !(peer->have_head && peer->head.xfer == c->xfer)) {
        if (peer->have_head && !peer->taken) {
            r = head_of_another(peer);
            continue;
        }
        if (peer->have_head || peer->reading) {
            pthread_cond_wait(&peer->changed, &peer->lock);
            continue;
        }
        peer->reading = true;
        pthread_mutex_unlock(&peer->lock);
        r = wrk_peer_read(peer, &peer->head, sizeof(peer->head));
        pthread_mutex_lock(&peer->lock);
        peer->reading = false;
        peer->have_head = r == 0;
        peer->head_ns = gp_now_ns();
        pthread_cond_broadcast(&peer->changed);
    }
    if (r == 0)
        peer->taken = true;
    pthread_mutex_unlock(&peer->lock);
    return r;
}

static void
head_done(struct wrk_peer *peer)
{
    pthread_mutex_lock(&peer->lock);
    peer->have_head = peer->taken = false;
    pthread_cond_broadcast(&peer->changed);
    pthread_mutex_unlock(&peer->lock);
}

/* Every byte is taken, for nobody. */
static CUresult
recv_nothing(struct peer_copy *c, CUresult why)
{
    uint8_t part[16 << 10];

    for (uint64_t at = 0; at < c->total; at += sizeof(part))
        if (wrk_peer_read(c->peer, part, gp_min(c->total - at, sizeof(part))) < 0)
            return CUDA_ERROR_SYSTEM_NOT_READY;
    return why;
}

/* Every byte is taken, also when the card refuses them. */
static CUresult
recv_pieces(struct wrk *w, struct peer_copy *c)
{
    CUresult r = c->refused, s;
    struct place place = {0};
    struct piece piece;

    if (r == CUDA_SUCCESS)
        r = copy_streams(w, c);
    if (r != CUDA_SUCCESS)
        return recv_nothing(c, r);
    for (unsigned i = 0; piece_next(c, &place, &piece); i ^= 1) {
        uint8_t *mem = c->peer->slot[i].mem;

        s = r == CUDA_SUCCESS ? WRK_CALL(w, cuStreamSynchronize, c->stream[i]) : r;
        if (wrk_peer_read(c->peer, mem, piece.width * piece.rows) < 0)
            return CUDA_ERROR_SYSTEM_NOT_READY;
        r = s == CUDA_SUCCESS ? piece_start(w, c, &piece, mem, c->stream[i]) : s;
    }
    return r;
}

static CUresult
recv_one(struct wrk *w, struct peer_copy *c)
{
    CUresult r = CUDA_ERROR_SYSTEM_NOT_READY;
    struct wrk_peer_head head;

    if (c->peer->fd < 0)
        return r;
    if (head_await(c) < 0) {
        wrk_peer_break(c->peer); /* what comes yet is nobody's */
        return r;
    }
    head = c->peer->head;
    if (head.result != CUDA_SUCCESS && head.len == 0)
        r = (CUresult)head.result;
    else if (head.len == c->total)
        r = copy_finish(w, c, recv_pieces(w, c));
    if (r == CUDA_ERROR_SYSTEM_NOT_READY)
        wrk_peer_break(c->peer); /* we may be in the middle of it */
    head_done(c->peer);
    return r;
}

static void
recv_run(struct wrk *w, struct wrk_job *job)
{
    struct peer_copy *c = container_of(job, struct peer_copy, job);

    wrk_reply_whole(w, &job->req, recv_one(w, c), NULL, 0);
    free(c);
}

/* ---- the calls ---- */

/* In the context of the frame.  A half that cannot begin would leave the other one
 * waiting for it. */
static CUresult
copy_begin(struct wrk *w, struct wrk_reply *rep, const struct peer_copy *what)
{
    struct peer_copy *c = what->peer ? malloc(sizeof(*c)) : NULL;

    if (!what->peer)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c) {
        wrk_peer_break(what->peer);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = *what;
    if (!copy_measure(c)) {
        free(c);
        wrk_peer_break(what->peer);
        return CUDA_ERROR_INVALID_VALUE;
    }
    c->refused =
        rep->req->ctx ? wrk_ctx_use(w, rep->req->ctx) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!wrk_waiters_job(w, rep, &c->job))
        free(c);
    return CUDA_SUCCESS;
}

CUresult
h_gp_peer_send(struct wrk *w, const struct wire_args_gp_peer_send *a,
               struct wrk_reply *rep)
{
    return copy_begin(w, rep,
                      &(struct peer_copy){.job.run = send_run,
                                          .peer = wrk_peer_out(a->link),
                                          .xfer = a->xfer,
                                          .at = a->src,
                                          .width = a->width,
                                          .rows = a->rows,
                                          .slices = a->slices,
                                          .pitch = a->pitch,
                                          .slice = a->slice});
}

CUresult
h_gp_peer_recv(struct wrk *w, const struct wire_args_gp_peer_recv *a,
               struct wrk_reply *rep)
{
    wrk_supervisor_collect();
    return copy_begin(w, rep,
                      &(struct peer_copy){.job.run = recv_run,
                                          .peer = wrk_peer_in(a->link),
                                          .xfer = a->xfer,
                                          .at = a->dst,
                                          .width = a->width,
                                          .rows = a->rows,
                                          .slices = a->slices,
                                          .pitch = a->pitch,
                                          .slice = a->slice,
                                          .to_card = true});
}
