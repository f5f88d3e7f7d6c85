/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock, the entry checks, and cuInit.
 */
#include "sg_core.h"

#include "sg_conf.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_logs.h"

#include "gp_err.h"
#include "gp_log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static unsigned n_waiters;

static bool initialised;   /* lock held */
static atomic_bool forked; /* this is a child that inherited the library */

void
sg_lock(void)
{
    pthread_mutex_lock(&big_lock);
}

void
sg_unlock(void)
{
    pthread_mutex_unlock(&big_lock);
}

void
sg_wait(void)
{
    n_waiters++;
    pthread_cond_wait(&done_cond, &big_lock);
    n_waiters--;
}

void
sg_wait_on(pthread_cond_t *cond)
{
    pthread_cond_wait(cond, &big_lock);
}

void
sg_wake_all(void)
{
    if (n_waiters)
        pthread_cond_broadcast(&done_cond);
}

int
sg_thread_start(void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

/* In the child: threads are gone and the lock may be held by one of them, so
 * nothing here may be touched again. */
static void
after_fork_in_child(void)
{
    atomic_store(&forked, initialised);
}

static int
core_init(void)
{
    struct gp_err err = {0};
    struct sg_conf conf;
    int r;

    gp_log_init("softgpu", GP_LOG_ERROR);
    r = sg_conf_read(&conf, &err);
    if (r == 0)
        r = sg_dev_init(&conf, &err);
    if (r < 0)
        gp_log_error("softgpu", "cuInit: %s", gp_err_msg(&err, r));
    return r;
}

SG_CALL(cuInit, unsigned int Flags)
{
    static bool watched;
    CUresult rc = CUDA_SUCCESS;
    int r;

    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    if (!initialised) {
        if (!watched)
            watched = pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
        r = core_init();
        if (r == -ENODEV)
            rc = CUDA_ERROR_NO_DEVICE;
        else if (r < 0)
            rc = CUDA_ERROR_OPERATING_SYSTEM;
        else
            initialised = true;
    }
    sg_unlock();
    return rc;
}

SG_CALL(cuDriverGetVersion, int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = sg_conf_cuda_version();
    return CUDA_SUCCESS;
}

CUresult
sg_enter_init(void)
{
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    sg_lock();
    if (initialised)
        return CUDA_SUCCESS;
    sg_unlock();
    return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult
sg_enter_broken(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_ctx_current(ret_ctx);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

CUresult
sg_enter(struct sg_ctx **ret_ctx)
{
    CUresult rc = sg_enter_broken(ret_ctx);

    if (rc == CUDA_SUCCESS && (*ret_ctx)->error != CUDA_SUCCESS)
        return sg_leave((*ret_ctx)->error);
    return rc;
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

CUresult
sg_result(int r)
{
    switch (r) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOENT:
        return CUDA_ERROR_NOT_FOUND;
    case -ENOSYS:
    case -EOPNOTSUPP:
        return CUDA_ERROR_NOT_SUPPORTED;
    case -EPERM:
    case -EACCES:
        return CUDA_ERROR_NOT_PERMITTED;
    case -EINVAL:
    case -E2BIG:
    case -ERANGE:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}
