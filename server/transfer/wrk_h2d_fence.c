/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_h2d_fence.h"

#include "drv.h"
#include "gp_time.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_staging.h"
#include "wrk_wait.h"

#include <sched.h>

/* Several times the duration of a 64 KiB copy in an idle stream. */
#define FENCE_NS 50000

static bool
blocks(uint16_t call)
{
    return call == WIRE_CALL_cuMemcpyHtoD_v2 || call == WIRE_CALL_cuMemcpyHtoA_v2 ||
           call == WIRE_CALL_cuMemcpy2D_v2 ||
           call == WIRE_CALL_cuMemcpy2DUnaligned_v2 ||
           call == WIRE_CALL_cuMemcpy3D_v2 || call == WIRE_CALL_cuMemcpy3DPeer;
}

static bool
overtakes(const struct wrk *w, const struct wrk_reply *rep)
{
    return w->handles.client[WIRE_KIND_STREAM].count != 0 && blocks(rep->req->call);
}

/* Must the next call wait for this upload?  Only if nothing is before it in @stream,
 * which a query tells.  While any stream is captured there is no query, because it
 * might invalidate that capture. */
bool
wrk_h2d_fence_needed(struct wrk *w, const struct wrk_reply *rep, CUstream stream)
{
    return overtakes(w, rep) && !(rep->req->flags & WIRE_F_REPLY) &&
           !w->priv->captures && WRK_CALL(w, cuStreamQuery, stream) == CUDA_SUCCESS;
}

CUresult
wrk_h2d_fence_end(struct wrk *w, struct wrk_reply *rep, CUstream stream,
                  struct wrk_staging *slot, bool soon)
{
    if (soon) {
        w->priv->h2d_fence = slot;
        w->before_call = true;
    }
    if (!(rep->req->flags & WIRE_F_REPLY) || !blocks(rep->req->call))
        return CUDA_SUCCESS;
    return wrk_wait_stream(w, rep, stream);
}

void
wrk_h2d_fence_wait(struct wrk *w)
{
    struct wrk_staging *slot = w->priv->h2d_fence;
    uint64_t until = gp_now_ns() + FENCE_NS;

    w->priv->h2d_fence = NULL;
    while (slot && !wrk_staging_idle(w, slot) && gp_now_ns() < until) {
        if (wrk_wait_one_core(w))
            sched_yield();
        else
            gp_cpu_relax();
    }
}
