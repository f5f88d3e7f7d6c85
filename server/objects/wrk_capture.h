/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are being captured, where work of the worker's own has no place. */
#ifndef WRK_CAPTURE_H
#define WRK_CAPTURE_H

#include "cuda_abi.h"

struct wrk;

/* A copy in a stream that is being captured would become a node that reads a staging
 * buffer at every launch of the graph: the error for that, or CUDA_SUCCESS. */
CUresult wrk_capturing(struct wrk *w, CUstream stream);

#endif
