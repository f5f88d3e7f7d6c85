/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_capture.h"

#include "drv.h"
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
