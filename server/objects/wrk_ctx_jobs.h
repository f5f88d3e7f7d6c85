/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of a context that have an order: one waiter thread runs them, each when the one
 * before it has ended.
 *
 * They are numbered from 1 over all contexts, so a number says "what was queued until
 * now".  A context's queue exists while it has a job that has not ended.  Any thread,
 * but for wrk_ctx_jobs_add().
 */
#ifndef WRK_CTX_JOBS_H
#define WRK_CTX_JOBS_H

#include "cuda_abi.h"
#include "wrk_waiters.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* The first member of a malloc'ed object that @job.run frees. */
struct wrk_ctx_job {
    struct wrk_job job;
    uint64_t number;
};

/* Put @job behind those of the current context that wait; @job->job.run and .req are
 * set.  Receive thread.  0; -EDQUOT with @max jobs or more in all queues; -EAGAIN when
 * no thread can run it.  After an error it is the caller's. */
int wrk_ctx_jobs_add(struct wrk *w, struct wrk_ctx_job *job, unsigned max);

/* The newest job of @ctx, or of all contexts; 0 when none waits or runs. */
uint64_t wrk_ctx_jobs_newest(CUcontext ctx);
uint64_t wrk_ctx_jobs_newest_of_all(void);

/* Has a job of @ctx up to that number not ended? */
bool wrk_ctx_jobs_pending(CUcontext ctx, uint64_t number);

/* Until those of @ctx, or of all contexts, up to that number have ended.  For a job
 * that was queued after them: so waiter threads have them.  Later ones are not waited
 * for. */
void wrk_ctx_jobs_await(CUcontext ctx, uint64_t number);
void wrk_ctx_jobs_await_all(uint64_t number);

#endif
