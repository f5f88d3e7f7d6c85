/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_direct.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_slot.h"
#include "xport.h"

#include <errno.h>

/* A quarter of a ring: the client has the other half while two are the card's. */
#define PIECE (128u * 1024)
/* Below this, what the first piece costs is most of it. */
#define WORTH (256u * 1024)
/* How long to ask for a piece before sleeping in the driver. */
#define SPIN_NS 20000

struct wrk_direct {
    struct wrk_slot ring[2]; /* registered at first use */
    size_t size;             /* of each; 0: the connection has none */
};

/* Pieces that the card has, oldest first. */
struct flight {
    struct wrk *w;
    struct wrk_slot mark[2];
    size_t len[2];
    unsigned first, n;
    size_t bytes; /* of both */
};

static CUresult
flight_add(struct flight *f, uint32_t ctx_index, CUstream stream, size_t len)
{
    unsigned at = (f->first + f->n) % 2;

    f->len[at] = len;
    f->n++;
    f->bytes += len;
    return wrk_slot_mark(f->w, &f->mark[at], ctx_index, stream);
}

/* Wait for the oldest; its length. */
static size_t
flight_end(struct flight *f, CUresult *result)
{
    struct wrk_slot *mark = &f->mark[f->first];
    size_t len = f->len[f->first];
    CUresult r = wrk_slot_result(f->w, mark, gp_now_ns() + SPIN_NS);

    if (*result == CUDA_SUCCESS)
        *result = r;
    f->first = !f->first;
    f->n--;
    f->bytes -= len;
    return len;
}

bool
wrk_direct_can(struct wrk *w, const struct wrk_copy *copy, uint64_t offset)
{
    struct wrk_direct *direct = w->priv->direct;

    /* Rows would have to end where the ring does. */
    if (copy->grain > 1 || copy->len - offset < WORTH || !direct->size)
        return false;
    for (int i = 0; i < 2; i++)
        if (wrk_slot_ready(w, &direct->ring[i], direct->size) != CUDA_SUCCESS)
            return false;
    return true;
}

CUresult
wrk_direct_up(struct wrk *w, const struct wrk_copy *copy, uint64_t offset,
              void (*moves)(struct wrk *w, uint64_t bytes), uint64_t *ret_done)
{
    struct xport_conn *conn = w->priv->conn;
    struct flight f = {.w = w};
    CUresult result = CUDA_SUCCESS;
    uint64_t at = offset;
    void *from;
    size_t n;

    *ret_done = 0;
    while ((at < copy->len && result == CUDA_SUCCESS) || f.n) {
        n = 0;
        if (f.n < 2 && at < copy->len && result == CUDA_SUCCESS) {
            size_t len = (size_t)gp_min(copy->len - at, (uint64_t)PIECE);

            if (xport_peek_bulk(conn, f.bytes, len, &from, &n) < 0)
                return CUDA_ERROR_UNKNOWN; /* the loop finds the link dead */
        }
        if (n == 0) {
            n = flight_end(&f, &result);
            xport_drop_bulk(conn, n);
            *ret_done += n;
            continue;
        }
        moves(w, n);
        result = copy->start(w, copy, from, at, n);
        if (result == CUDA_SUCCESS)
            result = flight_add(&f, w->ctx_index, copy->stream, n);
        at += n;
    }
    return result;
}

int
wrk_direct_down(struct wrk *w, const struct wrk_copy *copy, uint64_t offset,
                const struct wrk_direct_side *side, CUresult *ret_result)
{
    struct xport_conn *conn = w->priv->conn;
    struct wrk_copy mine = *copy;
    struct flight f = {.w = w};
    CUresult result = CUDA_SUCCESS;
    uint64_t at = offset;
    void *to;
    size_t n;
    int r = 0;

    mine.stream = side->stream;
    while ((at < copy->len || f.n) && result == CUDA_SUCCESS && r == 0) {
        n = 0;
        if (f.n < 2 && at < copy->len)
            r = xport_room_bulk(conn, f.bytes,
                                (size_t)gp_min(copy->len - at, (uint64_t)PIECE), &to,
                                &n);
        if (r == 0 && n) {
            wrk_copy_moved(w, side->slice, n);
            result = copy->start(w, &mine, to, at, n);
            if (result == CUDA_SUCCESS)
                result = flight_add(&f, side->ctx_index, side->stream, n);
            at += n;
        } else if (f.n) {
            n = flight_end(&f, &result);
            if (result == CUDA_SUCCESS)
                xport_push_bulk(conn, n);
        }
    }
    while (f.n)
        flight_end(&f, &result);
    *ret_result = result;
    return r;
}

void
wrk_direct_forget(struct wrk_direct *direct)
{
    direct->ring[0].pinned = false;
    direct->ring[1].pinned = false;
}

int
wrk_direct_new(struct xport_conn *conn, struct wrk_direct **ret)
{
    struct wrk_direct *direct = calloc(1, sizeof(*direct));
    struct iovec window[2];

    if (!direct)
        return -ENOMEM;
    if (xport_ring_region(conn, window)) {
        direct->ring[0].mem = window[0].iov_base;
        direct->ring[1].mem = window[1].iov_base;
        direct->size = window[0].iov_len;
    }
    *ret = direct;
    return 0;
}

void
wrk_direct_free(struct wrk_direct *direct)
{
    free(direct);
}
