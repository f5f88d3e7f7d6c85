/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether work of the card may wait for a function of the client now.
 *
 * A function that a stream was given is due until it has returned.  One of a graph's
 * node is due only while a launch of what was made from the graph is under way, and may
 * be registered for long without that.  So an event is recorded behind each launch
 * while graphs have functions, one for each stream, since launches of a stream end in
 * order.
 *
 * Receive thread only.
 */
#ifndef WRK_HOSTFN_DUE_H
#define WRK_HOSTFN_DUE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* True also where it is not known. */
bool wrk_hostfn_due(struct wrk *w);

/* A graph has been launched in @stream. */
void wrk_hostfn_due_launched(struct wrk *w, CUstream stream);

/* The stream's handle may become another one's; its launches go on. */
void wrk_hostfn_due_stream_gone(struct wrk *w, const void *stream);
/* The context died with its events, and its launches are over. */
void wrk_hostfn_due_ctx_gone(struct wrk *w, uint32_t ctx_index);

#endif
