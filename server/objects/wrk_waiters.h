/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiter threads: they make what the receive thread may not, because it would block.
 *
 * A job goes to the thread that is idle, or to a new one; with WRK_WAITERS_MAX threads
 * the oldest job waits.  All functions are the receive thread's, except a job's own.
 */
#ifndef WRK_WAITERS_H
#define WRK_WAITERS_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_reply;
struct wrk_waiters;

/* Threads of one attachment that may wait at a time; a client with more waiting
 * threads than this has the rest queued.  Each costs 256 KiB of stack at most. */
#define WRK_WAITERS_MAX 128

/* Waits and jobs not answered yet.  A client thread can wait for one call only,
 * so more than this is a broken or hostile client: the attachment ends. */
#define WRK_JOBS_MAX 8192

/* Work for a waiter thread: @run with @ctx current, then it is the job's own. */
struct wrk_job {
    struct wrk_job *next;
    void (*run)(struct wrk *w, struct wrk_job *job);
    struct wire_req req; /* to be answered with wrk_reply_whole() */
    CUcontext ctx;
    uint32_t ctx_index;
    bool relaxed;   /* what is captured meanwhile does not matter: wrk_capture.h */
    bool keeps_ctx; /* @ctx is not destroyed meanwhile: wrk_waiters_close() */
};

/* For as long as the process lives. */
int wrk_waiters_new(struct wrk *w, struct wrk_waiters **ret);

/* Hand @job (malloc'ed; @run set) to a waiter thread; takes the answer over from
 * @rep.  False when there are too many: the attachment ends. */
bool wrk_waiters_job(struct wrk *w, struct wrk_reply *rep, struct wrk_job *job);

/* The same for work that answers nobody; @job->ctx is set.  False: it cannot be. */
bool wrk_waiters_background(struct wrk *w, struct wrk_job *job);

/* Is there a job that keeps @ctx? */
bool wrk_waiters_keep(struct wrk *w, CUcontext ctx);

/* A context that is about to end. */
struct wrk_closed_ctx {
    struct wrk_closed_ctx *next;
    CUcontext ctx;
};

/* Wait until no job keeps @closed->ctx; those that come then wait until it is opened,
 * and run without a context if it is @gone.  A job, which keeps none itself; then any
 * thread. */
void wrk_waiters_close(struct wrk *w, struct wrk_closed_ctx *closed);
void wrk_waiters_open(struct wrk *w, struct wrk_closed_ctx *closed, bool gone);

#endif
