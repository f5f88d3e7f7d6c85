/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_transfer.h"

#include "wrk.h"
#include "wrk_d2h_async.h"
#include "wrk_d2h_reply.h"
#include "wrk_digests.h"
#include "wrk_evpool.h"
#include "wrk_frame_buffers.h"
#include "wrk_h2d_fence.h"
#include "wrk_path_ring.h"
#include "wrk_paths.h"
#include "wrk_shared_pinned.h"
#include "wrk_staging_pool.h"
#include "wrk_wait.h"
#include "xport.h"

static uint32_t
h2d_facts(struct wrk *w, const struct wrk_copy *copy, const void *in_frame)
{
    uint32_t facts = WRK_FACT_H2D;

    if (in_frame || !copy->len)
        return facts | WRK_FACT_IN_FRAME;
    if (copy->plain)
        facts |= WRK_FACT_RANGE;
    if (copy->grain <= 1)
        facts |= WRK_FACT_ANY_CUT;
    if (copy->len >= WRK_RING_UP_MIN)
        facts |= WRK_FACT_LONG;
    if (wrk_path_asks_ring(facts) && wrk_ring_ready(w))
        facts |= WRK_FACT_RING;
    if (w->priv->windows)
        facts |= WRK_FACT_WINDOW;
    return facts;
}

CUresult
wrk_transfer_h2d(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
                 const void *in_frame)
{
    struct wrk_h2d t = {.w = w, .rep = rep, .copy = copy, .in_frame = in_frame};
    uint32_t facts = h2d_facts(w, copy, in_frame);
    const struct wrk_path *path;
    bool soon;

    if (!(facts & WRK_FACT_IN_FRAME) && rep->bulk != copy->len)
        return CUDA_ERROR_INVALID_VALUE;
    soon = wrk_h2d_fence_needed(w, rep, copy->stream);
    if (wrk_path_asks_idle(facts) && wrk_wait_idle(w, copy->stream) == CUDA_SUCCESS)
        facts |= WRK_FACT_IDLE;
    path = wrk_path_choose(facts);
    wrk_path_log(path, copy->len);
    path->h2d(&t);
    /* Copies from a staging buffer may still be in flight, those of other paths are
     * complete. */
    return t.result == CUDA_SUCCESS && t.last
               ? wrk_h2d_fence_end(w, rep, copy->stream, t.last, soon)
               : t.result;
}

CUresult
wrk_transfer_d2h(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
                 size_t arg_size)
{
    if (!(rep->req->flags & WIRE_F_D2H_ASYNC))
        return wrk_d2h_reply(w, rep, copy, arg_size);
    wrk_path_log(wrk_path_choose(WRK_FACT_D2H | WRK_FACT_ASYNC), copy->len);
    wrk_copy_account_receive(w, copy->len);
    return wrk_d2h_async_start(w, rep, copy);
}

int
wrk_transfer_receive(struct wrk *w, struct wrk_reply *rep, void *buf)
{
    uint64_t len = rep->bulk;

    rep->bulk = 0;
    return xport_recv_bulk(w->priv->conn, buf, len);
}

void
wrk_transfer_forget(struct wrk *w, uint32_t ctx_index)
{
    wrk_staging_pool_forget(w, ctx_index);
    wrk_frame_buffers_forget(w, ctx_index);
    wrk_d2h_replies_forget(w->priv->d2h_replies, ctx_index);
    wrk_ring_forget(w->priv->ring);
    wrk_pinned_forget(ctx_index);
    wrk_digests_forget(ctx_index);
    wrk_evpool_forget(ctx_index);
}

int
wrk_transfer_init(struct wrk *w)
{
    int r = wrk_staging_pool_new(&w->priv->staging);

    if (r == 0)
        r = wrk_frame_buffers_new(&w->priv->frame_buffers);
    if (r == 0)
        r = wrk_d2h_replies_new(&w->priv->d2h_replies);
    return r;
}
