/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads from the card to the connection that a call of the client waits for: pieces
 * are copied into slots, one ahead of the one that is being sent.
 *
 * Part of struct wrk_bulk.  What nobody waits for is wrk_d2h_async.h.
 */
#ifndef WRK_BULK_DOWN_H
#define WRK_BULK_DOWN_H

#include "wrk_copy.h"

struct wrk_down;
struct wrk_reply;

int wrk_down_new(struct wrk_down **ret);
void wrk_down_free(struct wrk_down *down); /* NULL is a no-op */

/* See wrk_bulk_down(). */
CUresult wrk_down(struct wrk *w, struct wrk_down *down, struct wrk_reply *rep,
                  const struct wrk_copy *copy, size_t arg_size);

/* The context is gone. */
void wrk_down_forget(struct wrk_down *down, uint32_t ctx_index);

#endif
