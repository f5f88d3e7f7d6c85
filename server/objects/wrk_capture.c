/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_capture.h"

#include "drv.h"
#include "wrk_priv.h"
#include "wrk_state.h"

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

bool
wrk_capture_allows(const struct wrk *w)
{
    return w->relaxed || !w->priv->capturing;
}

void
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    static _Thread_local bool is;
    CUstreamCaptureMode mode =
        relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;

    if (is == relaxed || !w->drv->cuThreadExchangeStreamCaptureMode)
        return;
    w->drv->cuThreadExchangeStreamCaptureMode(&mode);
    is = relaxed;
}
