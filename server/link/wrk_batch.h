/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batching of equal calls: gives a call the next frame if it has already arrived and
 * differs from the present one in its tail only.
 *
 * Everything that both frames have in common has then been looked up and checked, and
 * nothing can have changed between them.  The frame counts as received: its sequence
 * number is checked here, and the loop continues after it.  Only for calls without
 * payload and reply.  Receive thread; inline, because this is the path of launches.
 */
#ifndef WRK_BATCH_H
#define WRK_BATCH_H

#include "gp_base.h"
#include "wire_format.h"
#include "wrk_priv.h"
#include "wrk_state.h"
#include "xport.h"

#include <stdint.h>

/* The next frame, of @size bytes (a multiple of 8), if its header and the first
 * @equal_words words of 8 bytes after it equal those of @first.  The caller executes
 * it.  NULL: the loop takes whatever comes next. */
static inline const struct wire_req *
wrk_batch_next(struct wrk *w, const struct wire_req *first, uint32_t size,
               unsigned equal_words)
{
    struct wrk_priv *p = w->priv;
    uint32_t seq = atomic_load_explicit(&p->seq, memory_order_relaxed) + 1;
    const struct wire_req *next = xport_ahead(p->conn, size);
    const uint64_t *x, *y;
    uint64_t differ = 0;

    if (!next || next->seq != seq || next->size != size || next->call != first->call ||
        next->flags != first->flags || next->ctx != first->ctx)
        return NULL;
    x = (const uint64_t *)(first + 1);
    y = (const uint64_t *)(next + 1);
    for (unsigned i = 0; i < equal_words; i++) /* not worth a call to the C library */
        differ |= x[i] ^ y[i];
    if (differ)
        return NULL;
    xport_take(p->conn, size);
    atomic_store_explicit(&p->seq, seq, memory_order_relaxed);
    return next;
}

#endif
