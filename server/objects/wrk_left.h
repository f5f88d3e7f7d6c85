/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that were destroyed with work in them.
 *
 * The work goes on, and the context's end of work includes it, but the stream cannot be
 * queried any more.  An event at its end can: it is recorded before the stream is
 * destroyed, and queried with the streams of the context.
 *
 * Receive thread only.
 */
#ifndef WRK_LEFT_H
#define WRK_LEFT_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;

/* @stream is about to be destroyed.  The current context may be another one then. */
void wrk_left_note(struct wrk *w, CUstream stream);

/* CUDA_SUCCESS, CUDA_ERROR_NOT_READY, or the context's error. */
CUresult wrk_left_query(struct wrk *w, uint32_t ctx_index);

/* The context died with its events. */
void wrk_left_forget(struct wrk *w, uint32_t ctx_index);

#endif
