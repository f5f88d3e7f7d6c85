/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In front of every call: context and deferred error.  See wrk_call.h.
 */
#include "wrk_call.h"
#include "drv.h"

#include "wire_unsafe.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_hooks.h"
#include "wrk_priv.h"

static void
call_relax(struct wrk *w, bool relaxed)
{
    wrk_capture_relax_thread(w, relaxed);
    w->relaxed = relaxed;
}

__attribute__((noinline)) static void
before_call(struct wrk *w)
{
    w->before_call = false;
    wrk_hooks_run(wrk_hooks.before_call, w);
}

/* What the worker does for a call may be unsafe during a capture where the call is not:
 * it allocates buffers and asks events.  So while anything is captured the thread is
 * relaxed, but for calls that are unsafe themselves and that a capture may forbid to
 * the client's thread: the driver refuses them, and the capture is invalid. */
static inline bool
is_relaxed(const struct wrk *w, const struct wire_req *req)
{
    if (likely(!(req->flags & WIRE_F_RELAXED) &&
               !atomic_load_explicit(&w->capturing, memory_order_relaxed)))
        return false;
    return req->flags & WIRE_F_RELAXED || !wire_call_is_unsafe(req->call);
}

GP_HOT CUresult
wrk_call_enter(struct wrk *w, const struct wire_req *req, unsigned flags)
{
    CUresult r = atomic_load_explicit(&w->deferred, memory_order_relaxed);

    if (unlikely(r != CUDA_SUCCESS) && (req->flags & WIRE_F_REPLY) &&
        !(flags & WRK_CALL_ALWAYS)) {
        return atomic_exchange(&w->deferred, CUDA_SUCCESS);
    }
    if (unlikely(w->before_call))
        before_call(w);
    if (unlikely(is_relaxed(w, req) != w->relaxed))
        call_relax(w, !w->relaxed);
    if (likely(req->ctx == w->ctx_frame) || (flags & WRK_CALL_NO_CTX))
        return CUDA_SUCCESS;
    return wrk_ctx_use(w, req->ctx);
}
