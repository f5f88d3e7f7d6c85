/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_loop.h"

#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_ctx_end.h"
#include "wrk_desk.h"
#include "wrk_hooks.h"
#include "wrk_wait.h"
#include "wrk_wake.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

/* Between looks at contexts that end (wrk_ctx_end.h). */
#define ENDS_LOOK_NS GP_NS_PER_MS

/* The frame's place in the order; its length has been checked by the transport. */
GP_HOT static bool
frame_ok(struct wrk *w, const struct wire_req *req, uint32_t size)
{
    if (size < sizeof(*req))
        return wrk_frame_bad(w, req, "shorter than a header");
    if (req->seq != atomic_load_explicit(&w->priv->seq, memory_order_relaxed) + 1)
        return wrk_frame_bad(w, req, "out of order");
    atomic_store_explicit(&w->priv->seq, req->seq, memory_order_relaxed);
    if (req->flags & ~(WIRE_F_BULK | WIRE_F_REPLY | WIRE_F_D2H_ASYNC | WIRE_F_RELAXED))
        return wrk_frame_bad(w, req, "unknown flags");
    if ((req->flags & WIRE_F_D2H_ASYNC) && req->flags != WIRE_F_D2H_ASYNC)
        return wrk_frame_bad(w, req, "flags that exclude each other");
    return true;
}

/* Has the reader something to look after before it may sleep? */
__attribute__((noinline)) static bool
something_pending(struct wrk *w)
{
    if ((w->priv->polled & WRK_POLL_WAITS) || wrk_hooks_pending(w))
        return true;
    w->priv->polled = 0;
    return false;
}

__attribute__((noinline)) static void
poll_pending(struct wrk *w)
{
    if (w->priv->polled & WRK_POLL_WAITS)
        wrk_wait_poll(w);
    for (const struct wrk_poll_hook *h = wrk_hooks.poll; h->poll; h++)
        if (h->pending(w))
            h->poll(w);
}

/* For processes of the session that find no room (wrk_segment.h): who reads "not busy"
 * sees what the calls before it have given back. */
GP_HOT static inline void
show_busy(struct wrk *w, bool busy)
{
    atomic_store_explicit(&w->priv->desks->desk->busy, busy, memory_order_release);
}

/* The next frame, or -EAGAIN when the reader has waits to look after. */
GP_HOT static int
next_frame(struct wrk *w, const void **frame, uint32_t *size)
{
    struct xport_conn *conn = w->priv->conn;
    bool drained = !xport_buffered(conn);
    int r;

    /* Answers leave when there is nothing else to execute at once. */
    if (drained) {
        atomic_store_explicit(
            &w->priv->drained,
            atomic_load_explicit(&w->priv->drained, memory_order_relaxed) + 1,
            memory_order_relaxed);
        wrk_flush(w);
        wrk_hooks_run(wrk_hooks.idle, w);
    }
    if (unlikely(w->priv->polled) && something_pending(w))
        return xport_recv(conn, frame, size, 0);
    if (unlikely(wrk_ctx_ends_pending())) {
        r = xport_recv(conn, frame, size, gp_now_ns() + ENDS_LOOK_NS);
        return r == -ETIMEDOUT && !xport_error(conn) ? -EAGAIN : r;
    }
    atomic_store_explicit(&w->priv->waiting, true, memory_order_relaxed);
    if (drained)
        show_busy(w, false);
    r = xport_recv(conn, frame, size, GP_FOREVER);
    if (drained)
        show_busy(w, true);
    atomic_store_explicit(&w->priv->waiting, false, memory_order_relaxed);
    wrk_wake(w);
    return r;
}

static int
loop_end(struct wrk *w, int r)
{
    if (atomic_load(&w->priv->stopping))
        return -ECANCELED;
    if (r == -EPROTO && !w->priv->bad)
        w->priv->bad = "of a length that no frame may have";
    if (r == -EPROTO)
        gp_log_error("frame", "a frame of a length that no frame may have; the "
                              "attachment ends");
    else if (r != -ECONNRESET)
        gp_log_warn("frame", "connection: %s", strerror(-r));
    return r == -ECONNRESET ? 0 : r;
}

/* False: the attachment ends. */
GP_HOT static bool
run_frame(struct wrk *w, const void *frame, uint32_t size)
{
    struct wire_req req; /* receiving a payload invalidates the frame */

    if (!frame_ok(w, frame, size))
        return false;
    memcpy(&req, frame, sizeof(req));
    if (unlikely(req.flags & WIRE_F_BULK) && req.flags & WIRE_F_REPLY)
        xport_answers(w->priv->conn);
    if (!wrk_dispatch(w, frame, size) || w->priv->bad)
        return false;
    if (unlikely(req.flags & WIRE_F_BULK))
        xport_acknowledge(w->priv->conn);
    if (unlikely(req.flags & WIRE_F_D2H_ASYNC))
        for (wrk_frame_hook *const *fn = wrk_hooks.d2h_async_end; *fn; fn++)
            (*fn)(w, &req);
    return true;
}

GP_HOT int
wrk_loop_run(struct wrk *w)
{
    for (;;) {
        const void *frame;
        uint32_t size;
        bool goes_on;
        int r = next_frame(w, &frame, &size);

        if (unlikely(wrk_ctx_ends_pending()))
            wrk_ctx_ends_poll(w);
        if (r == -EAGAIN) {
            poll_pending(w);
            goes_on = !w->priv->bad; /* a wait may have found no thread */
        } else if (r < 0) {
            return loop_end(w, r);
        } else {
            goes_on = run_frame(w, frame, size);
        }
        if (!goes_on) {
            wrk_flush(w);
            return -EPROTO;
        }
    }
}
