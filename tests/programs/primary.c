/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that retain and release the primary context as they need it.  Whoever has
 * retained it can use it, although another thread's release has just ended the context
 * before it, which had the same handle.
 */
#include "parts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#define THREADS 4
#define TURNS 60
#define LIVES 6
#define OBJECTS 1000 /* of one context, so that its end takes a while */

static CUdevice dev;

static int
use(void)
{
    unsigned got = 0;
    CUdeviceptr p;
    CUstream s;

    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&p, 4096));
    sched_yield();
    TRY(cuMemsetD32Async(p, 7, 1024, s));
    TRY(cuMemcpyDtoHAsync_v2(&got, p, 4, s));
    TRY(cuStreamSynchronize(s));
    SAME(got, 7);
    TRY(cuMemFree_v2(p));
    TRY(cuStreamDestroy_v2(s));
    return 0;
}

static int
life(void)
{
    CUcontext ctx;

    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    if (use())
        return 1;
    TRY(cuDevicePrimaryCtxRelease_v2(dev));
    return 0;
}

static void *
live(void *arg)
{
    static int failed;

    for (int i = 0; i < TURNS; i++)
        if (life())
            return &failed;
    return arg;
}

/* How many contexts that makes depends on the threads' turns. */
static int
by_turns(void)
{
    pthread_t threads[THREADS];
    void *failed;
    int bad = 0;

    for (int i = 0; i < THREADS; i++)
        SAME(pthread_create(&threads[i], NULL, live, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        bad |= failed != NULL;
    }
    return bad;
}

static atomic_bool ends;

static void *
begin_when_it_ends(void *arg)
{
    static int failed;

    while (!atomic_load(&ends))
        ;
    return life() ? &failed : arg;
}

static int
full_life(void)
{
    CUcontext ctx;
    CUdeviceptr p;
    CUevent event;

    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    for (int i = 0; i < OBJECTS; i++) {
        TRY(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
        TRY(cuEventCreate(&event, 0));
    }
    atomic_store(&ends, true);
    TRY(cuDevicePrimaryCtxRelease_v2(dev));
    return 0;
}

/* The other thread retains before the end, and then there is nothing to see, or after
 * it. */
static int
one_after_the_other(void)
{
    pthread_t thread;
    void *failed;
    int bad = 0;

    for (int i = 0; i < LIVES && !bad; i++) {
        atomic_store(&ends, false);
        SAME(pthread_create(&thread, NULL, begin_when_it_ends, NULL), 0);
        bad = full_life();
        pthread_join(thread, &failed);
        bad |= failed != NULL;
    }
    return bad;
}

static int
set_up(void)
{
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"threads that retain and release", by_turns},
        {"a context that begins while one ends", one_after_the_other},
    };

    return set_up() || parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
