/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_notice.h"

#include "sg_core.h"
#include "sg_dev.h"
#include "sg_handle.h"

#include <stdlib.h>

struct sg_notice {
    struct sg_notice *next;
    uint64_t handle;
    struct sg_dev *dev;
    CUasyncCallback fn;
    void *data;
    unsigned running; /* threads that are in it */
    bool left;        /* the last of them frees it */
};

/* One call of one callback, on a thread of its own. */
struct notice_job {
    struct sg_notice *notice;
    CUasyncNotificationInfo info;
};

static struct sg_notice *notices;
static __thread bool telling;

static void *
notice_main(void *arg)
{
    struct notice_job *job = arg;
    struct sg_notice *n = job->notice;

    telling = true;
    n->fn(&job->info, n->data, (CUasyncCallbackHandle)(uintptr_t)n->handle);
    sg_lock();
    if (--n->running == 0 && n->left)
        free(n);
    sg_wake_all();
    sg_unlock();
    free(job);
    return NULL;
}

static void
notice_send(struct sg_notice *n, uint64_t bytes)
{
    struct notice_job *job = calloc(1, sizeof(*job));

    if (!job)
        return;
    job->notice = n;
    job->info.type = CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET;
    job->info.info.overBudget.bytesOverBudget = bytes;
    n->running++;
    if (sg_thread_start(notice_main, job) == 0)
        return;
    n->running--;
    free(job);
}

void
sg_notice_took(struct sg_dev *dev, uint64_t bytes)
{
    dev->used_by_us += bytes;
    if (!dev->budget || dev->over_budget || dev->used_by_us <= dev->budget)
        return;
    dev->over_budget = true;
    for (struct sg_notice *n = notices; n; n = n->next)
        if (n->dev == dev)
            notice_send(n, dev->used_by_us - dev->budget);
}

void
sg_notice_gave(struct sg_dev *dev, uint64_t bytes)
{
    dev->used_by_us -= bytes;
    if (dev->used_by_us <= dev->budget)
        dev->over_budget = false;
}

SG_CALL(cuDeviceRegisterAsyncNotification, CUdevice device,
        CUasyncCallback callbackFunc, void *userData, CUasyncCallbackHandle *callback)
{
    struct sg_notice *n;
    struct sg_dev *dev;
    CUresult rc = sg_dev_enter(device, &dev);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!callbackFunc || !callback)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    n = calloc(1, sizeof(*n));
    if (n)
        n->handle = sg_handle_new(SG_KIND_ASYNCCB, n);
    if (!n || !n->handle) {
        free(n);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    n->dev = dev;
    n->fn = callbackFunc;
    n->data = userData;
    n->next = notices;
    notices = n;
    *callback = (CUasyncCallbackHandle)(uintptr_t)n->handle;
    return sg_leave(CUDA_SUCCESS);
}

/* When it returns nobody is in the callback, but perhaps the caller. */
SG_CALL(cuDeviceUnregisterAsyncNotification, CUdevice device,
        CUasyncCallbackHandle callback)
{
    struct sg_notice **at = &notices, *n;
    struct sg_dev *dev;
    CUresult rc = sg_dev_enter(device, &dev);

    if (rc != CUDA_SUCCESS)
        return rc;
    n = SG_OBJ(sg_notice, SG_KIND_ASYNCCB, callback);
    if (!n || n->dev != dev)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    sg_handle_drop(n->handle);
    if (telling && n->running) { /* perhaps from inside: its thread still needs it */
        n->left = true;
        return sg_leave(CUDA_SUCCESS);
    }
    while (n->running)
        sg_wait();
    free(n);
    return sg_leave(CUDA_SUCCESS);
}
