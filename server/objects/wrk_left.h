/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that were destroyed with work in them.
 *
 * The work goes on, and the context's end of work includes it, but the stream cannot be
 * queried any more.  So a context in which that happens gets a stream of the worker's
 * own, which waits for the last event of each such stream and has no other work.  It is
 * asked, and waited for, with the client's streams of the context.
 *
 * Receive thread only.
 */
#ifndef WRK_LEFT_H
#define WRK_LEFT_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* @stream is about to be destroyed.  The current context may be another one then. */
void wrk_left_note(struct wrk *w, CUstream stream);

/* The stream that ends with the work that was left in context @ctx_index, in @ret; NULL
 * if there was never any.  False: some of it could not be noted, so only the driver's
 * call for the whole context waits for it. */
bool wrk_left_stream(uint32_t ctx_index, CUstream *ret);

/* CUDA_SUCCESS, CUDA_ERROR_NOT_READY, or the context's error. */
CUresult wrk_left_query(struct wrk *w, uint32_t ctx_index);

/* The context died with its streams. */
void wrk_left_forget(struct wrk *w, uint32_t ctx_index);

#endif
