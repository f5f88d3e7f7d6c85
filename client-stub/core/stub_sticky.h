/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts whose work has failed for good, and were heard to say so.
 *
 * After a kernel has gone astray a driver answers nearly every call in that context
 * with the same error, at once.  Most calls here are sent without asking for an answer.
 * So once such an error has come back, calls to that server are asked for theirs until
 * the context is destroyed or reset: which of them fail, and with what, is the driver's
 * business and not known here.
 *
 * link->failed counts the link's contexts with ctx->failed set.  Any thread, no lock.
 */
#ifndef STUB_STICKY_H
#define STUB_STICKY_H

#include "cuda_abi.h"
#include "stub_link.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* A call to @link has answered @r, which is not success, in this thread's context. */
void stub_sticky_note(struct stub_link *link, CUresult r);

/* The driver has destroyed @ctx, which is no longer alive. */
void stub_sticky_over(struct stub_ctx *ctx);

/* Should a call that nobody waits for be waited for? */
bool stub_sticky_asks(uint16_t call);

/* What the driver has to say of the current context, to a call that is answered
 * here. */
CUresult stub_sticky_verdict(void);

static inline bool
stub_sticky_any(const struct stub_link *link)
{
    return unlikely(atomic_load_explicit(&link->failed, memory_order_relaxed) != 0);
}

#endif
