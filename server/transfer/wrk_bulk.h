/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads between the connection and the card, through pinned slots.
 *
 * Upwards, the reader receives straight into a slot and starts the copy to the
 * card before it receives the next piece; a slot is free again when its copy has
 * been done, and the one that was used last is used first, because it is in the
 * cache.  Downwards, pieces are copied into slots one ahead of the one that is
 * being sent.  Slots are allocated once and kept: fresh memory per transfer would
 * cost more than the copy.
 *
 * The upward side belongs to the reader thread, the downward side to whoever
 * holds its lock (inside).
 */
#ifndef WRK_BULK_H
#define WRK_BULK_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wrk_copy.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_bulk;
struct wrk_reply;

int wrk_bulk_new(struct wrk_bulk **ret);
void wrk_bulk_free(struct wrk_bulk *b); /* NULL is a no-op */

/* Receive the payload of @rep and copy it up.  Returns when the last piece has
 * been received and started; everything is received even after an error. */
CUresult wrk_bulk_up(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy);

/* The same for a payload that came inside the frame. */
CUresult wrk_bulk_up_inline(struct wrk *w, struct wrk_reply *rep,
                            const struct wrk_copy *copy, const void *data);

/* Copy down and send as the bulk of the answer to @rep: at once when @stream is
 * idle and it is little, else from a waiter thread.  @arg of @copy, of @arg_size
 * bytes, is kept for that long. */
CUresult wrk_bulk_down(struct wrk *w, struct wrk_reply *rep,
                       const struct wrk_copy *copy, size_t arg_size);

/* Receive the payload into @buf (an image, say). */
int wrk_bulk_take(struct wrk *w, struct wrk_reply *rep, void *buf);

/* The context is gone. */
void wrk_bulk_forget(struct wrk *w, uint32_t ctx_index);

#endif
