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

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_bulk;
struct wrk_reply;

#define WRK_SLOT_SIZE (1u << 20)

/* Slots that copies in flight may hold: 96 MiB of pinned memory.  When a stream
 * is held up for longer than that many bytes, the reader waits for it. */
#define WRK_SLOTS_UP_MAX 96
#define WRK_SLOTS_DOWN 4

int wrk_bulk_new(struct wrk_bulk **ret);
void wrk_bulk_free(struct wrk_bulk *b); /* NULL is a no-op */

/* One piece of a payload and where it goes or comes from: what the different
 * kinds of copies fill in. */
struct wrk_copy {
    /* Start the copy of @len bytes at @offset of the whole, between @slot and the
     * card, in @stream. */
    CUresult (*start)(struct wrk *w, const struct wrk_copy *copy, void *slot,
                      uint64_t offset, uint64_t len);
    uint64_t len;   /* of the whole */
    uint64_t grain; /* pieces are multiples of it (a row), or 0; <= WRK_SLOT_SIZE */
    CUstream stream;
    uint64_t base;   /* for start(): a device address */
    bool plain;      /* bytes from that address on: a window may serve it */
    const void *arg; /* for start() */
};

/* How much of the copy goes in one piece at @offset, at most @most bytes. */
uint64_t wrk_copy_piece(const struct wrk_copy *copy, uint64_t offset, uint64_t most);

/* Before each piece that moves between a client and the card of a slice: counted,
 * and the session may have to wait for others that copy (gov_copy.h). */
void wrk_copy_moved(struct wrk *w, uint32_t slice, uint64_t bytes);

/* The same on the reader, for the current context. */
void wrk_bulk_moves(struct wrk *w, uint64_t bytes);

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

/* A copy in a stream that is being captured would become a node that reads our
 * slot at every launch of the graph: the error for that, or CUDA_SUCCESS. */
CUresult wrk_bulk_capturing(struct wrk *w, CUstream stream);

/* Receive the payload into @buf (an image, say). */
int wrk_bulk_take(struct wrk *w, struct wrk_reply *rep, void *buf);

/* The context is gone. */
void wrk_bulk_forget(struct wrk *w, uint32_t ctx_index);

#endif
