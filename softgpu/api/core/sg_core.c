/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into and out of a driver call.
 */
#include "sg_core.h"

#include "sg_logs.h"

#include <pthread.h>
#include <stdatomic.h>

static bool initialised;   /* lock held */
static atomic_bool forked; /* this is a child that inherited the library */

/* In the child: threads are gone and the lock may be held by one of them, so
 * nothing here may be touched again. */
static void
after_fork_in_child(void)
{
    atomic_store(&forked, initialised);
}

CUresult
sg_core_init(CUresult (*init)(void))
{
    static bool watched;
    CUresult rc = CUDA_SUCCESS;

    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    sg_lock();
    if (!initialised) {
        if (!watched)
            watched = pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
        rc = init();
        initialised = rc == CUDA_SUCCESS;
    }
    sg_unlock();
    return rc;
}

/* The thread runs a function of the program. */
static __thread bool calls_forbidden;

void
sg_calls_forbid(bool forbidden)
{
    calls_forbidden = forbidden;
}

CUresult
sg_enter_init(void)
{
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (calls_forbidden)
        return CUDA_ERROR_NOT_PERMITTED;
    sg_lock();
    if (initialised)
        return CUDA_SUCCESS;
    sg_unlock();
    return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult
sg_leave(CUresult rc)
{
    if (unlikely(rc != CUDA_SUCCESS && rc != CUDA_ERROR_NOT_READY))
        sg_logs_leave(rc);
    else
        sg_unlock();
    return rc;
}
