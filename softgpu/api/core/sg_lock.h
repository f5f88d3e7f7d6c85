/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one lock of softgpu/api, and waiting with it.
 *
 * One process-wide mutex guards all objects and queues.  It is held for bookkeeping
 * only: copies, kernels, callbacks and everything that can block run without it.
 * Functions of other files say "Lock held" where they expect it.
 */
#ifndef SG_LOCK_H
#define SG_LOCK_H

#include "cuda_abi.h"

#include <pthread.h>

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

/* -errno of the lower layers as the driver's code. */
CUresult sg_result(int r);

#endif
