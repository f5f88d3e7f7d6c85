/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stream captures forbid, for calls that the client or the worker makes by other
 * means than the driver's own call, which would be refused.  Any thread.
 */
#ifndef STUB_ALLOC_H
#define STUB_ALLOC_H

#include "cuda_abi.h"
#include "stub_capture.h"

/* The slow half of the next. */
CUresult stub_alloc_ask_capture(void);

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid, while a capture
 * forbids this thread calls that are unsafe during one: allocations, blocking copies,
 * frees.  Takes no lock while nothing is captured. */
static inline CUresult
stub_alloc_check_capture(void)
{
    return stub_capture_any() ? stub_alloc_ask_capture() : CUDA_SUCCESS;
}

#endif
