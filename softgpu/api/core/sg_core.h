/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of softgpu/api stands on: the one lock, the way into and out
 * of a driver call, and reference counts.
 *
 * One process-wide mutex guards all objects and queues.  It is held for
 * bookkeeping only: copies, kernels, callbacks and everything that can block
 * run without it.  Functions say "Lock held" where they expect it.
 *
 * A call enters with one of the sg_enter*() functions and leaves with
 * sg_leave().  After a fork the child may not use the library: every entry
 * answers CUDA_ERROR_NOT_INITIALIZED there.
 */
#ifndef SG_CORE_H
#define SG_CORE_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;

/* Declares and defines one exported call. */
#define SG_CALL(name, ...)                                                             \
    CUresult name(__VA_ARGS__);                                                        \
    __attribute__((visibility("default"))) CUresult name(__VA_ARGS__)

/* What stream 0 means to the per-thread (_ptsz) variant of a call. */
#define SG_PTSZ(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

void sg_lock(void);
void sg_unlock(void);
/* Waits for sg_wake_all(); drops the lock meanwhile.  Spurious wakeups happen. */
void sg_wait(void);
/* Lock held. */
void sg_wake_all(void);
/* pthread_cond_wait() on @cond with the lock. */
void sg_wait_on(pthread_cond_t *cond);
/* A detached thread that takes no signals. */
int sg_thread_start(void *(*fn)(void *), void *arg);

/* All of them: on success the lock is held, otherwise it is not. */
CUresult sg_enter_init(void);                      /* after cuInit, no context needed */
CUresult sg_enter(struct sg_ctx **ret_ctx);        /* current, no sticky error */
CUresult sg_enter_broken(struct sg_ctx **ret_ctx); /* current, error allowed */
/* Like sg_enter(), for calls that queue work: waits while the card's queue is full. */
CUresult sg_enter_work(struct sg_ctx **ret_ctx);
/* Unlocks, returns @rc; an error gets a line in the log (sg_logs.h). */
CUresult sg_leave(CUresult rc);

/* -errno of the lower layers as the driver's code. */
CUresult sg_result(int r);

bool sg_is_initialised(void);

#endif
