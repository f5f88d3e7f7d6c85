/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are being captured, where work of the worker's own has no place. */
#ifndef WRK_CAPTURE_H
#define WRK_CAPTURE_H

#include "cuda_abi.h"

#include <stdbool.h>

struct wrk;

/* A copy in a stream that is being captured would become a node that reads a staging
 * buffer at every launch of the graph: the error for that, or CUDA_SUCCESS. */
CUresult wrk_capturing(struct wrk *w, CUstream stream);

/* Whether a call of now may be made later by another thread, whatever is captured then:
 * no capture was under way, or the client found that none keeps its thread from the
 * call (WIRE_F_RELAXED).  Receive thread. */
bool wrk_capture_allows(const struct wrk *w);
/* The mode of cuThreadExchangeStreamCaptureMode of the thread that calls this. */
void wrk_capture_relax_thread(struct wrk *w, bool relaxed);

#endif
