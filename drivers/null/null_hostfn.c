/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions: one thread calls them, in the order in which they were launched on
 * any stream, so that a function finds done what its stream had waited for.  It is the
 * only work that is ever pending here, and all streams and events count as busy for as
 * long.
 */
#include "gp_base.h"
#include "null.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct call {
    struct call *next;
    CUhostFn fn;
    void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call *first, **end = &first;
static bool has_thread;
static atomic_ullong launched, called;

static struct call *
next_call(void)
{
    struct call *call;

    pthread_mutex_lock(&lock);
    while (!first)
        pthread_cond_wait(&changed, &lock);
    call = first;
    first = call->next;
    if (!first)
        end = &first;
    pthread_mutex_unlock(&lock);
    return call;
}

static void *
thread_main(void *arg)
{
    for (;;) {
        struct call *call = next_call();

        call->fn(call->data);
        free(call);
        pthread_mutex_lock(&lock);
        atomic_fetch_add(&called, 1);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

/* Lock held. */
static bool
thread_start(void)
{
    pthread_t thread;

    if (!has_thread && pthread_create(&thread, NULL, thread_main, NULL) == 0) {
        pthread_detach(thread);
        has_thread = true;
    }
    return has_thread;
}

CUresult
cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    struct call *call = malloc(sizeof(*call));
    CUresult r = CUDA_SUCCESS;

    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call = (struct call){.fn = fn, .data = userData};
    pthread_mutex_lock(&lock);
    if (thread_start()) {
        *end = call;
        end = &call->next;
        atomic_fetch_add(&launched, 1);
        pthread_cond_broadcast(&changed);
    } else {
        free(call);
        r = CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

bool
null_hostfn_pending(void)
{
    return atomic_load_explicit(&called, memory_order_acquire) !=
           atomic_load_explicit(&launched, memory_order_relaxed);
}

void
null_hostfn_wait(void)
{
    unsigned long long until = atomic_load(&launched);

    if (likely(atomic_load(&called) >= until))
        return;
    pthread_mutex_lock(&lock);
    while (atomic_load(&called) < until)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
