/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_path_ring.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_path.h"
#include "wrk_staging.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

/* So little room behind the header, up to where the ring ends or the client still
 * reads, is not worth a copy of its own. */
#define WHOLE_MIN (16u * 1024)
/* How long to poll for a chunk before sleeping in the driver. */
#define SPIN_NS 20000

struct wrk_ring {
    struct wrk_staging region[2]; /* registered at first use */
    size_t size;                  /* of each; 0: the connection has none */
};

/* Chunks of the ring that the GPU is copying, oldest first. */
struct flight {
    struct wrk *w;
    struct wrk_staging mark[2];
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
    return wrk_staging_fence(f->w, &f->mark[at], ctx_index, stream);
}

/* Wait for the oldest; its length. */
static size_t
flight_end(struct flight *f, CUresult *result)
{
    struct wrk_staging *mark = &f->mark[f->first];
    size_t len = f->len[f->first];
    CUresult r = wrk_staging_result(f->w, mark, gp_now_ns() + SPIN_NS);

    if (*result == CUDA_SUCCESS)
        *result = r;
    f->first = !f->first;
    f->n--;
    f->bytes -= len;
    return len;
}

/* Whether the oldest will end without a wait. */
static bool
flight_ends(const struct flight *f)
{
    return f->n && wrk_staging_done(f->w, &f->mark[f->first]);
}

bool
wrk_ring_ready(struct wrk *w)
{
    struct wrk_ring *ring = w->priv->ring;

    if (!ring->size)
        return false;
    for (int i = 0; i < 2; i++)
        if (wrk_staging_ready(w, &ring->region[i], ring->size) != CUDA_SUCCESS)
            return false;
    return true;
}

/* The rest of the payload, from the ring. */
static void
ring_h2d(struct wrk_h2d *t)
{
    struct wrk *w = t->w;
    struct xport_conn *conn = w->priv->conn;
    const struct wrk_copy *copy = t->copy;
    struct flight f = {.w = w};
    uint64_t at = t->offset;
    void *from;
    size_t n;

    while ((at < copy->len && t->result == CUDA_SUCCESS) || f.n) {
        n = 0;
        if (f.n < 2 && at < copy->len && t->result == CUDA_SUCCESS) {
            size_t len = (size_t)gp_min(copy->len - at, (uint64_t)WRK_RING_CHUNK);

            if (xport_peek_bulk(conn, f.bytes, len, &from, &n) < 0) {
                t->result = CUDA_ERROR_UNKNOWN; /* the loop finds the link dead */
                return;
            }
        }
        if (n == 0) {
            n = flight_end(&f, &t->result);
            xport_drop_bulk(conn, n);
            t->rep->bulk -= n;
            continue;
        }
        wrk_copy_account_receive(w, n);
        t->result = copy->start(w, copy, from, at, n);
        if (t->result == CUDA_SUCCESS)
            t->result = flight_add(&f, w->ctx_index, copy->stream, n);
        at += n;
    }
    t->offset = at;
}

/* What the connection has buffered already goes through staging buffers. */
void
wrk_path_ring_h2d(struct wrk_h2d *t)
{
    struct xport_conn *conn = t->w->priv->conn;
    size_t n;
    int r = 0;

    while (t->offset < t->copy->len && r == 0 && (n = xport_received(conn)))
        r = wrk_path_staging_h2d_until(t, gp_min(t->offset + n, t->copy->len));
    if (t->offset < t->copy->len && r == 0 && t->result == CUDA_SUCCESS)
        ring_h2d(t);
}

/* The payload from @d->sent on, into the ring; -errno: the connection is dead.  An
 * error of the driver is returned in *ret_result. */
static int
ring_d2h(struct wrk_d2h *d, CUresult *ret_result)
{
    struct xport_conn *conn = d->w->priv->conn;
    struct wrk_copy copy = *d->copy;
    struct flight f = {.w = d->w};
    CUresult result = CUDA_SUCCESS;
    uint64_t at = d->sent;
    void *to;
    size_t n;
    int r = 0;

    copy.stream = d->stream;
    while ((at < copy.len || f.n) && result == CUDA_SUCCESS && r == 0) {
        n = 0;
        if (f.n < 2 && at < copy.len)
            r = xport_room_bulk(conn, f.bytes,
                                (size_t)gp_min(copy.len - at, (uint64_t)WRK_RING_CHUNK),
                                &to, &n);
        if (r == 0 && n) {
            wrk_copy_account(d->w, d->slice, n);
            result = copy.start(d->w, &copy, to, at, n);
            if (result == CUDA_SUCCESS)
                result = flight_add(&f, d->ctx_index, d->stream, n);
            at += n;
        } else if (f.n) {
            if (!flight_ends(&f)) /* the client may not have been woken yet */
                xport_push_bulk(conn, 0, false);
            n = flight_end(&f, &result);
            if (result == CUDA_SUCCESS)
                xport_push_bulk(conn, n, flight_ends(&f));
        }
    }
    while (f.n)
        flight_end(&f, &result);
    *ret_result = result;
    return r;
}

/* The first @n bytes to @to. */
static CUresult
whole_copy(struct wrk_d2h *d, void *to, size_t n)
{
    struct flight f = {.w = d->w};
    struct wrk_copy copy = *d->copy;
    CUresult r = wrk_path_d2h_probe(d, n);

    if (r != CUDA_SUCCESS)
        return r;
    copy.stream = d->stream;
    wrk_copy_account(d->w, d->slice, n);
    r = copy.start(d->w, &copy, to, 0, n);
    if (r != CUDA_SUCCESS)
        return r;
    r = flight_add(&f, d->ctx_index, d->stream, n);
    flight_end(&f, &r);
    return r;
}

CUresult
wrk_path_ring_d2h_whole(struct wrk_d2h *d, const void *header, size_t size)
{
    struct xport_conn *conn = d->w->priv->conn;
    size_t want = size + (size_t)gp_min(d->copy->len, (uint64_t)WRK_RING_CHUNK);
    size_t n = 0;
    void *at;
    CUresult r;

    if (xport_room_bulk(conn, 0, want, &at, &n) < 0 ||
        n < gp_min(want, size + WHOLE_MIN))
        return CUDA_SUCCESS;
    r = whole_copy(d, (uint8_t *)at + size, n - size);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(at, header, size);
    xport_push_bulk(conn, n, n - size < d->copy->len);
    d->sent = n - size;
    return CUDA_SUCCESS;
}

/* If nothing was sent yet, the first chunk is in its staging buffer:
 * wrk_path_staging_d2h_begin(). */
void
wrk_path_ring_d2h_send(struct wrk_d2h *d)
{
    CUresult r = CUDA_SUCCESS;

    if (!d->sent) {
        const struct wrk_d2h_chunk *first = &d->chunks[0];

        if (xport_send_bulk(d->w->priv->conn, first->bytes, first->len) < 0)
            return;
        d->sent = first->len;
    }
    if (ring_d2h(d, &r) == 0 && r != CUDA_SUCCESS)
        wrk_path_d2h_broken(d, r);
}

void
wrk_ring_forget(struct wrk_ring *ring)
{
    ring->region[0].pinned = false;
    ring->region[1].pinned = false;
}

int
wrk_ring_new(struct xport_conn *conn, struct wrk_ring **ret)
{
    struct wrk_ring *ring = calloc(1, sizeof(*ring));
    struct iovec window[2];

    if (!ring)
        return -ENOMEM;
    if (xport_ring_region(conn, window)) {
        ring->region[0].mem = window[0].iov_base;
        ring->region[1].mem = window[1].iov_base;
        ring->size = window[0].iov_len;
    }
    *ret = ring;
    return 0;
}

void
wrk_ring_free(struct wrk_ring *ring)
{
    free(ring);
}
