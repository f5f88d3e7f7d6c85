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
/* A detached thread that takes no signals.  -EAGAIN, -ENOMEM. */
int sg_thread_start(void *(*fn)(void *), void *arg);
/* Keep address space for the stacks of @n threads, which is given back when there is
 * none for a thread: threads are started when they have work, and a program, or the
 * session whose limit a worker has, may have filled its memory by then and freed it
 * again without the allocator having returned it.  Once, before threads are started. */
void sg_thread_keep_room(unsigned n);

/* -errno of the lower layers as the driver's code. */
CUresult sg_result(int r);

#endif
