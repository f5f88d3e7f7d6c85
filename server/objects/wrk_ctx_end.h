/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that are destroyed while their work goes on.
 *
 * cuCtxDestroy waits for running work, which may include host functions of the client,
 * and those need the receive thread.  So a waiter thread destroys a busy context,
 * behind the jobs that are queued in it; when the driver is done, the receive thread,
 * which checks once a millisecond meanwhile, forgets the context's objects and replies.
 * Copies that another thread makes in the context end before, and so do digests that a
 * kernel in any context makes of its managed memory: the client's program knows of
 * neither.  Receive thread only.
 */
#ifndef WRK_CTX_END_H
#define WRK_CTX_END_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_reply;

struct wrk_ctx_end {
    CUresult (*destroy)(struct wrk *w, const struct wrk_ctx_end *end); /* any thread */
    void (*gone)(struct wrk *w,
                 const struct wrk_ctx_end *end); /* the reader, after it */
    uint64_t id;
    CUcontext ctx;
    CUdevice dev;
};

/* End it now or soon. */
CUresult wrk_ctx_end(struct wrk *w, struct wrk_reply *rep,
                     const struct wrk_ctx_end *end);

/* Is one under way?  Then wrk_ctx_ends_poll() is to be called now and then. */
bool wrk_ctx_ends_pending(void);
void wrk_ctx_ends_poll(struct wrk *w);

#endif
