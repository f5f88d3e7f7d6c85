/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time between two events, asked for again and again behind waits, and what must
 * not be answered from an earlier one: events that were recorded again, destroyed, are
 * not done, have no time or were never recorded.
 *
 * The same program prints the same on a card of its own and over every transport.
 */
#include "parts.h"
#include "strict.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define TIMES 40

static CUstream stream;
static CUevent start, end;
static bool strict;

static void
pause_stream(void *arg)
{
    usleep((useconds_t)(uintptr_t)arg);
}

static void
gate_wait(void *arg)
{
    while (!atomic_load((atomic_bool *)arg))
        usleep(100);
}

/* At least @us between the two events. */
static int
measure(unsigned us)
{
    TRY(cuEventRecord(start, stream));
    TRY(cuLaunchHostFunc(stream, pause_stream, (void *)(uintptr_t)us));
    TRY(cuEventRecord(end, stream));
    return 0;
}

static int
waits(void)
{
    float ms = -1;

    for (int i = 0; i < TIMES; i++) {
        if (measure(200))
            return 1;
        if (i % 3 == 0)
            TRY(cuEventSynchronize(end));
        else if (i % 3 == 1)
            TRY(cuStreamSynchronize(stream));
        else
            TRY(cuCtxSynchronize());
        TRY(cuEventElapsedTime(&ms, start, end));
        SAME(ms >= 0.19f, 1);
    }
    return 0;
}

/* Behind the wait that brought a time, either event is recorded once more. */
static int
recorded_again(void)
{
    float ms = 1, more = 0;

    for (int i = 0; i < 6; i++) {
        if (measure(200))
            return 1;
        TRY(cuEventSynchronize(end));
        if (i % 2) {
            TRY(cuEventElapsedTime(&ms, start, end));
            SAME(ms >= 0.19f, 1);
        }
        TRY(cuLaunchHostFunc(stream, pause_stream, (void *)(uintptr_t)3000));
        TRY(cuEventRecord(i < 4 ? end : start, stream));
        TRY(cuStreamSynchronize(stream));
        TRY(cuEventElapsedTime(&more, start, end));
        SAME(i < 4 ? more >= 3.19f : more < -2.9f, 1);
    }
    return 0;
}

static int
not_ready(void)
{
    static atomic_bool open;
    CUresult r;
    float ms;

    if (measure(200))
        return 1;
    TRY(cuEventSynchronize(end));
    TRY(cuLaunchHostFunc(stream, gate_wait, &open));
    TRY(cuEventRecord(end, stream));
    r = cuEventElapsedTime(&ms, start, end);
    atomic_store(&open, true);
    CODE(r, CUDA_ERROR_NOT_READY);
    TRY(cuEventSynchronize(end));
    TRY(cuEventElapsedTime(&ms, start, end));
    CODE(cuEventElapsedTime(NULL, start, end), CUDA_ERROR_INVALID_HANDLE);
    return 0;
}

static int
without_time(void)
{
    CUevent untimed, never;
    float ms;

    TRY(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    TRY(cuEventCreate(&never, CU_EVENT_DEFAULT));
    for (int i = 0; i < 3; i++) {
        if (measure(0))
            return 1;
        TRY(cuEventRecord(untimed, stream));
        TRY(cuEventSynchronize(untimed));
        CODE(cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
        CODE(cuEventElapsedTime(&ms, start, never), CUDA_ERROR_INVALID_HANDLE);
        TRY(cuEventElapsedTime(&ms, start, end));
    }
    TRY(cuEventDestroy(untimed));
    TRY(cuEventDestroy(never));
    return 0;
}

/* The next event may get the place of the one that is gone. */
static int
destroyed(void)
{
    CUevent fresh, gone = start;
    float ms;

    if (measure(200))
        return 1;
    TRY(cuEventSynchronize(end));
    TRY(cuEventDestroy(start));
    if (strict)
        CODE(cuEventElapsedTime(&ms, gone, end), CUDA_ERROR_INVALID_HANDLE);
    for (int i = 0; i < 10; i++) {
        TRY(cuEventCreate(&fresh, CU_EVENT_DEFAULT));
        CODE(cuEventElapsedTime(&ms, fresh, end), CUDA_ERROR_INVALID_HANDLE);
        TRY(cuEventDestroy(fresh));
    }
    TRY(cuEventSynchronize(end));
    return 0;
}

static int
begin(void)
{
    CUdevice dev;
    CUcontext ctx;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&start, CU_EVENT_DEFAULT));
    TRY(cuEventCreate(&end, CU_EVENT_DEFAULT));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"behind waits of all kinds", waits},
        {"recorded again", recorded_again},
        {"not ready", not_ready},
        {"without time", without_time},
        {"destroyed", destroyed},
    };

    strict = strict_asked(argc, argv);
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
