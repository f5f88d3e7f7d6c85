/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_capture.h"

#include "drv.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_priv.h"
#include "wrk_state.h"

/* Captures at a time; further ones are counted until one ends. */
#define CAPTURES_MAX 64

static struct wrk_capture list[CAPTURES_MAX];
static uint32_t n;

CUresult
wrk_capturing(struct wrk *w, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if ((uintptr_t)stream > 2 &&
        WRK_CALL(w, cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

static void
nothing(void *arg)
{
    (void)arg;
}

CUresult
wrk_capture_refuses(struct wrk *w, CUstream stream)
{
    CUstreamCaptureStatus status;

    if (stream || !w->priv->capturing)
        return wrk_capturing(w, stream);
    if (WRK_CALL(w, cuStreamIsCapturing, NULL, &status) !=
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return CUDA_SUCCESS;
    return WRK_CALL(w, cuLaunchHostFunc, NULL, nothing, NULL);
}

/* ---- captures under way, receive thread ---- */

static void
mark_end(struct wrk *w, struct wrk_capture *capture)
{
    capture->event = wrk_evpool_get(w, capture->ctx_index);
    if (capture->event &&
        WRK_CALL(w, cuEventRecord, capture->event, capture->stream) != CUDA_SUCCESS) {
        wrk_evpool_put(w, capture->ctx_index, capture->event);
        capture->event = NULL;
    }
    capture->unknown = !capture->event;
}

/* The stream may be of another context than the current one. */
void
wrk_capture_begin(struct wrk *w, CUstream stream, struct wrk_capture *capture)
{
    uint32_t current = w->ctx_frame;

    *capture = (struct wrk_capture){.stream = stream,
                                    .ctx_index = wrk_ctx_of_stream(w, stream)};
    if ((uintptr_t)stream <= 2 || wrk_capturing(w, stream) != CUDA_SUCCESS ||
        WRK_CALL(w, cuStreamQuery, stream) != CUDA_ERROR_NOT_READY)
        return;
    if (capture->ctx_index == w->ctx_index) {
        mark_end(w, capture);
        return;
    }
    if (wrk_ctx_use(w, capture->ctx_index) == CUDA_SUCCESS)
        mark_end(w, capture);
    wrk_ctx_use(w, current);
}

static void
give_back(struct wrk *w, const struct wrk_capture *capture)
{
    if (capture->event)
        wrk_evpool_put(w, capture->ctx_index, capture->event);
}

CUresult
wrk_capture_begun(struct wrk *w, const struct wrk_capture *capture, CUresult r)
{
    w->priv->captures = true;
    if (r == CUDA_SUCCESS && w->priv->capturing < UINT16_MAX)
        w->priv->capturing++;
    atomic_store(&w->capturing, w->priv->capturing != 0);
    if (w->priv
            ->capturing) { /* what this thread asks before the next call is its own */
        wrk_capture_relax_thread(w, true);
        w->relaxed = true;
    }
    if (r == CUDA_SUCCESS && n < CAPTURES_MAX)
        list[n++] = *capture;
    else
        give_back(w, capture);
    return r;
}

/* What waits for the last one is looked after before the next frame. */
static void
count_ended(struct wrk *w)
{
    atomic_store(&w->capturing, --w->priv->capturing != 0);
    if (!w->priv->capturing)
        w->priv->polled |= WRK_POLL_HOOKS;
}

static void
take(struct wrk *w, uint32_t i, struct wrk_capture *ret)
{
    *ret = list[i];
    list[i] = list[--n];
    count_ended(w);
}

bool
wrk_capture_take(struct wrk *w, CUstream stream, struct wrk_capture *ret)
{
    uint32_t i = 0;

    while (i < n && list[i].stream != stream)
        i++;
    if (i == n)
        return false;
    take(w, i, ret);
    return true;
}

void
wrk_capture_ended(struct wrk *w, CUstream stream)
{
    struct wrk_capture capture;

    if (wrk_capture_take(w, stream, &capture))
        give_back(w, &capture);
    else if (w->priv->capturing > n)
        count_ended(w);
}

void
wrk_capture_told_invalid(struct wrk *w)
{
    CUresult r = atomic_load(&w->deferred);

    if (r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        atomic_compare_exchange_strong(&w->deferred, &r, CUDA_SUCCESS);
}

void
wrk_capture_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_capture capture;

    for (uint32_t i = 0; i < n;) {
        if (list[i].ctx_index == ctx_index)
            take(w, i, &capture);
        else
            i++;
    }
}

/* ---- what they forbid ---- */

bool
wrk_capture_allows(const struct wrk *w)
{
    return w->relaxed || !w->priv->capturing;
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    static _Thread_local bool is;
    CUstreamCaptureMode mode =
        relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;

    if (is == relaxed || !w->drv->cuThreadExchangeStreamCaptureMode)
        return true;
    if (w->drv->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS)
        is = relaxed;
    return is == relaxed;
}

void
wrk_capture_relax_own(struct wrk *w)
{
    if (w->priv->capturing)
        wrk_capture_relax_thread(w, true);
}

void
wrk_capture_relax_client(struct wrk *w)
{
    if (w->priv->capturing)
        wrk_capture_relax_thread(w, w->relaxed);
}
