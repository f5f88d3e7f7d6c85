/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registered_window: the RDMA adapter reads and writes the GPU's memory itself
 * (wrk_window.h).  Where no window covers the range, a chunk goes through a staging
 * buffer and the next one is tried again.
 */
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_path.h"
#include "wrk_window.h"
#include "xport.h"

/* One transfer with a window.  It also bounds how long the session holds its turn to
 * copy (wrk_copygate.h). */
#define WINDOW_CHUNK (8u << 20)
/* Staging buffers hold this much between windows, as in wrk_path_staging.c. */
#define STAGING_CHUNK (512u * 1024)
/* Offers of windows that the client may be fetching at a time. */
#define WINDOWS_AHEAD 2

/* ---- host to device ---- */

/* Receive into windows as far as there are any; the stream is idle, so nothing that was
 * called before still uses the memory.  False: the adapter is not to be tried again. */
static bool
windows_h2d(struct wrk_h2d *t)
{
    struct wrk *w = t->w;
    struct wrk_windows *ws = w->priv->windows;
    const struct wrk_copy *copy = t->copy;
    uint32_t slice = wrk_ctx_slice(w, w->ctx_index);
    uint64_t begun = t->offset, n;
    struct wrk_window *window;
    bool more = true;

    while (more &&
           (n = wrk_window_take(ws, copy->base + t->offset,
                                gp_min(copy->len - t->offset, (uint64_t)WINDOW_CHUNK),
                                &window))) {
        size_t got = 0;

        if (wrk_windows_writable(ws, slice))
            xport_recv_bulk_direct(w->priv->conn, copy->base + t->offset, n, &got);
        wrk_window_put(ws, window);
        t->offset += got;
        t->rep->bulk -= got;
        more = got != 0;
        if (got)
            wrk_copy_account_receive(w, got);
    }
    if (t->offset != begun && t->result == CUDA_SUCCESS)
        t->result = wrk_windows_flush(ws, slice);
    return more;
}

void
wrk_path_registered_window_h2d(struct wrk_h2d *t)
{
    bool more = true;
    int r = 0;

    while (t->offset < t->copy->len && r == 0) {
        uint64_t begun = t->offset;

        if (more)
            more = windows_h2d(t);
        if (t->offset != begun)
            continue;
        r = wrk_path_staging_h2d_until(
            t, more ? t->offset + wrk_copy_chunk(t->copy, t->offset, STAGING_CHUNK)
                    : t->copy->len);
    }
}

/* ---- device to host ---- */

bool
wrk_path_registered_window_take(struct wrk_d2h *d)
{
    d->window_len =
        wrk_window_take(d->w->priv->windows, d->copy->base,
                        gp_min(d->copy->len, (uint64_t)WINDOW_CHUNK), &d->window);
    return d->window_len != 0;
}

void
wrk_path_registered_window_drop(struct wrk_d2h *d)
{
    if (d->window)
        wrk_window_put(d->w->priv->windows, d->window);
    d->window = NULL;
}

/* An address that a window covers is valid: nothing can fail before the header. */
CUresult
wrk_path_registered_window_d2h_begin(struct wrk_d2h *d)
{
    (void)d;
    return CUDA_SUCCESS;
}

/* Bytes of the stream, and those that wait to be sent. */
static uint64_t
stream_at(const struct xport_conn *conn)
{
    return xport_sent(conn) + xport_pending(conn);
}

/* The work before the copy is complete, so this needs no stream.  A link that breaks
 * gives back what the client has not fetched: the stream's length tells. */
static void
windows_d2h(struct wrk_d2h *d)
{
    struct wrk_window *window = TAKE_PTR(d->window);
    uint64_t len = d->window_len;
    struct wrk_windows *ws = d->w->priv->windows;
    struct xport_conn *conn = d->w->priv->conn;
    struct {
        struct wrk_window *window;
        uint64_t ticket;
    } lent[WINDOWS_AHEAD] = {{0}};
    uint64_t begun = stream_at(conn) - d->sent, sent = d->sent;
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
        wrk_copy_account(d->w, d->slice, len);
        r = xport_send_bulk_direct(conn, d->copy->base + sent, len, &lent[at].ticket);
        sent += len;
        len = wrk_window_take(ws, d->copy->base + sent,
                              gp_min(d->copy->len - sent, (uint64_t)WINDOW_CHUNK),
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
    d->sent = stream_at(conn) - begun;
    d->started = d->sent;
}

void
wrk_path_registered_window_d2h_send(struct wrk_d2h *d)
{
    windows_d2h(d);
    wrk_path_staging_d2h_send(d); /* what no window covers */
}
