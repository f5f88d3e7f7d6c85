/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the program captures streams at present, and which threads do
 * (stub_capture.c). Any thread.
 */
#ifndef STUB_CAPTURE_H
#define STUB_CAPTURE_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_feature;

extern _Atomic uint32_t stub_captures;

/* The slow half of stub_capture_check(). */
CUresult stub_capture_refuse(void);

/* True while captures are active; takes no lock. */
static inline bool
stub_capture_any(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_captures, memory_order_relaxed) != 0, false);
}

/* cuStreamSynchronize() that no capture forbids, and that ends none. */
CUresult stub_capture_wait_stream(CUstream stream);

/* Whether CUDA forbids this thread now what is unsafe during a capture. */
bool stub_capture_forbids(void);

/* For calls that are unsafe during a capture, before they are sent:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if one forbids them to this thread, wherever it
 * captures, and that capture is invalid then.  Takes no lock while nothing is captured.
 */
static inline CUresult
stub_capture_check(void)
{
    return stub_capture_any() ? stub_capture_refuse() : CUDA_SUCCESS;
}

/* Marks frames WIRE_F_RELAXED when no capture keeps this thread from calls that are
 * unsafe during one. */
extern const struct stub_feature stub_capture_feature;

#endif
