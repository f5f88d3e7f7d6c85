/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loop offers a call that often comes many times in a row: the next frame, if
 * it is here already and differs from the present one in nothing but its tail.
 *
 * The caller has then looked up and checked all that both have in common, and nothing
 * stood between that could have changed it.  The frame counts as received, as if the
 * loop had taken it: its place in the order is checked here, and the loop goes on
 * behind it.  Only for calls without payload and reply.  Receive thread; inline,
 * because this is the path of launches.
 */
#ifndef WRK_BATCH_H
#define WRK_BATCH_H

#include "gp_base.h"
#include "wire_format.h"
#include "wrk_priv.h"
#include "wrk_state.h"
#include "xport.h"

#include <stdint.h>

/* The frame behind the last one that was taken, of @size bytes, a multiple of 8, whose
 * header and first @equal_words words of 8 bytes behind it are those of @first.  It is
 * the caller's to execute; NULL: the loop will see to what comes. */
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
