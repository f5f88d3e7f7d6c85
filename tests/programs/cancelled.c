/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that are cancelled while they wait in a call.  The calls are no cancellation
 * points: each returns, the thread ends at its own next point, and the others go on.
 */
#include "parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define BYTES (1u << 20)
#define TURNS 2

static CUcontext ctx;
static CUevent event;
static CUdeviceptr card;
static char bytes[BYTES];
static atomic_bool started, returned, over;

static void
wait_for_the_end(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        usleep(1000);
}

static void
wait_context(void)
{
    cuCtxSynchronize();
}

static void
wait_stream(void)
{
    cuStreamSynchronize(NULL);
}

static void
wait_event(void)
{
    cuEventSynchronize(event);
}

static void
copy_back(void)
{
    cuMemcpyDtoH_v2(bytes, card, BYTES);
}

static void *
call_and_end(void *arg)
{
    void (*const *call)(void) = arg;

    cuCtxSetCurrent(ctx);
    atomic_store(&started, true);
    (*call)();
    atomic_store(&returned, true);
    pthread_testcancel();
    return NULL;
}

/* All that other threads may want still works. */
static int
goes_on(void)
{
    CUdeviceptr p;

    TRY(cuCtxSynchronize());
    TRY(cuMemcpyHtoD_v2(card, bytes, BYTES));
    TRY(cuMemAlloc_v2(&p, 4096));
    TRY(cuMemFree_v2(p));
    TRY(cuStreamSynchronize(NULL));
    return 0;
}

static int
cancelled_in(void (*call)(void))
{
    pthread_t thread;
    void *result;

    atomic_store(&over, false);
    atomic_store(&started, false);
    atomic_store(&returned, false);
    TRY(cuLaunchHostFunc(NULL, wait_for_the_end, NULL));
    TRY(cuEventRecord(event, NULL));
    SAME(pthread_create(&thread, NULL, call_and_end, &call), 0);
    while (!atomic_load(&started))
        usleep(1000);
    usleep(20000); /* into the wait, mostly; before it is as good */
    SAME(pthread_cancel(thread), 0);
    usleep(20000);
    atomic_store(&over, true);
    SAME(pthread_join(thread, &result), 0);
    SAME(result == PTHREAD_CANCELED, true);
    SAME(atomic_load(&returned), true);
    return goes_on();
}

static int
waits(void)
{
    static void (*const calls[])(void) = {wait_context, wait_stream, wait_event,
                                          copy_back};

    for (unsigned i = 0; i < TURNS * sizeof(calls) / sizeof(calls[0]); i++)
        if (cancelled_in(calls[i % (sizeof(calls) / sizeof(calls[0]))]))
            return 1;
    return 0;
}

static void *
call_until_cancelled(void *arg)
{
    (void)arg;
    cuCtxSetCurrent(ctx);
    for (;;) {
        CUdeviceptr p = 0;

        atomic_store(&started, true);
        cuMemAlloc_v2(&p, 4096);
        cuMemcpyHtoDAsync_v2(card, bytes, BYTES / 2, NULL);
        cuMemFree_v2(p);
        cuCtxSynchronize();
        pthread_testcancel();
    }
    return NULL;
}

static int
any_call(void)
{
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        void *result;

        atomic_store(&started, false);
        SAME(pthread_create(&thread, NULL, call_until_cancelled, NULL), 0);
        while (!atomic_load(&started))
            usleep(1000);
        usleep(3000 * (unsigned)i);
        SAME(pthread_cancel(thread), 0);
        SAME(pthread_join(thread, &result), 0);
        SAME(result == PTHREAD_CANCELED, true);
        if (goes_on())
            return 1;
    }
    return 0;
}

static int
set_up(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuMemAlloc_v2(&card, BYTES));
    TRY(cuEventCreate(&event, 0));
    return 0;
}

static void *
cancelled_before(void *arg)
{
    int *bad = arg;

    pthread_cancel(pthread_self());
    *bad = set_up();
    atomic_store(&returned, true);
    pthread_testcancel();
    return NULL;
}

/* All that the first calls do: they open what the others use. */
static int
first_calls(void)
{
    pthread_t thread;
    void *result;
    int bad = 1;

    SAME(pthread_create(&thread, NULL, cancelled_before, &bad), 0);
    SAME(pthread_join(thread, &result), 0);
    SAME(atomic_load(&returned), true);
    SAME(result == PTHREAD_CANCELED, true);
    if (bad)
        return 1;
    TRY(cuCtxSetCurrent(ctx));
    return goes_on();
}

int
main(void)
{
    static const struct part parts[] = {
        {"first calls", first_calls},
        {"waits", waits},
        {"any call", any_call},
    };

    alarm(60); /* who hangs holds a lock for ever */
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
