/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the context behind copies that have waited themselves, which may cost
 * nothing, and waits that must be made all the same: behind work of any kind, of
 * another thread, of a stream that does not wait for the default one, and in captures.
 *
 * The same program prints the same on a card of its own and over every transport.
 */
#include "parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES (256u << 10)
#define WORDS (BYTES / 4)
#define TIMES 40
#define LONG (1u << 20) /* bytes for which a link that can be replaced waits */

static CUcontext ctx;
static CUdeviceptr device, room;
static uint32_t *locked, *back; /* page-locked, BYTES each */
static uint32_t *loose;         /* pageable, LONG, as is room */
static atomic_int called;

static void
call_slowly(void *arg)
{
    usleep(20000);
    atomic_fetch_add(&called, (int)(uintptr_t)arg);
}

/* No two words make an address, which would be given to a device. */
static void
fill(uint32_t with)
{
    for (uint32_t i = 0; i < WORDS; i++)
        locked[i] = 0x80000000u + with + i;
}

static int
behind_copies(void)
{
    for (uint32_t n = 0; n < TIMES; n++) {
        fill(n);
        TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
        TRY(cuCtxSynchronize());
        TRY(cuMemcpyDtoH_v2(back, device, BYTES));
        TRY(cuCtxSynchronize());
        SAME(memcmp(locked, back, BYTES), 0);
    }
    return 0;
}

/* Of pageable memory, half of them as frameworks make them. */
static int
behind_long_copies(void)
{
    for (uint32_t n = 0; n < TIMES; n++) {
        uint32_t last = LONG / 4 - 1, got = 0;

        loose[last] = n;
        if (n % 2) {
            TRY(cuMemcpyHtoD_v2(room, loose, LONG));
            TRY(cuCtxSynchronize());
        } else {
            TRY(cuMemcpyHtoDAsync_v2(room, loose, LONG, NULL));
            loose[last] = 0; /* it has been read */
            TRY(cuStreamSynchronize(NULL));
        }
        TRY(cuMemcpyDtoH_v2(&got, room + 4 * (CUdeviceptr)last, sizeof(got)));
        SAME(got, n);
    }
    return 0;
}

static int
behind_work(void)
{
    for (uint32_t n = 0; n < 4; n++) {
        int before = atomic_load(&called);

        fill(n);
        TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
        TRY(cuLaunchHostFunc(NULL, call_slowly, (void *)(uintptr_t)1));
        TRY(cuCtxSynchronize());
        SAME(atomic_load(&called) - before, 1);
        TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
        TRY(cuMemsetD32Async(device, n, WORDS, NULL));
        TRY(cuMemcpyDtoHAsync_v2(back, device, BYTES, NULL));
        TRY(cuCtxSynchronize());
        SAME(back[0], n);
        SAME(back[WORDS - 1], n);
    }
    for (int n = 0; n < 4; n++) {
        int before = atomic_load(&called);

        TRY(cuMemcpyHtoD_v2(room, loose, LONG));
        TRY(cuLaunchHostFunc(NULL, call_slowly, (void *)(uintptr_t)1));
        TRY(cuMemcpyHtoDAsync_v2(room, loose, LONG, NULL));
        TRY(cuCtxSynchronize());
        SAME(atomic_load(&called) - before, 1);
    }
    return 0;
}

static void *
other_thread(void *arg)
{
    static int failed = 1;

    return cuCtxSetCurrent(ctx) != CUDA_SUCCESS ||
                   cuLaunchHostFunc(NULL, call_slowly, (void *)(uintptr_t)1) !=
                       CUDA_SUCCESS
               ? &failed
               : arg;
}

static int
behind_another_thread(void)
{
    for (int n = 0; n < 4; n++) {
        int before = atomic_load(&called);
        pthread_t thread;
        void *failed = NULL;

        TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
        SAME(pthread_create(&thread, NULL, other_thread, NULL), 0);
        pthread_join(thread, &failed);
        SAME(failed != NULL, 0);
        TRY(cuCtxSynchronize());
        SAME(atomic_load(&called) - before, 1);
    }
    return 0;
}

/* Another context is idle or not whatever this one is. */
static int
in_another_context(void)
{
    int before = atomic_load(&called);
    CUcontext other;
    CUdevice dev;

    TRY(cuCtxGetDevice(&dev));
    TRY(cuCtxCreate_v2(&other, 0, dev));
    TRY(cuLaunchHostFunc(NULL, call_slowly, (void *)(uintptr_t)1));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
    TRY(cuCtxSetCurrent(other));
    TRY(cuCtxSynchronize());
    SAME(atomic_load(&called) - before, 1);
    TRY(cuCtxDestroy_v2(other));
    TRY(cuCtxSetCurrent(ctx));
    return 0;
}

static int
behind_a_stream_apart(void)
{
    CUstream stream;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int n = 0; n < 4; n++) {
        int before = atomic_load(&called);

        TRY(cuLaunchHostFunc(stream, call_slowly, (void *)(uintptr_t)1));
        if (n % 2)
            TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
        else
            TRY(cuMemcpyHtoD_v2(room, loose, LONG));
        TRY(cuCtxSynchronize());
        SAME(atomic_load(&called) - before, 1);
    }
    for (uint32_t n = 0; n < TIMES; n++) { /* behind each other, and no work */
        loose[n] = n;
        TRY(cuMemcpyHtoD_v2(room, loose, 4096));
    }
    TRY(cuMemcpyDtoHAsync_v2(loose + TIMES, room, sizeof(*loose) * TIMES, stream));
    TRY(cuStreamSynchronize(stream));
    SAME(memcmp(loose, loose + TIMES, sizeof(*loose) * TIMES), 0);
    TRY(cuMemcpyHtoD_v2(device, locked, BYTES));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CODE(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    TRY(settled(cuStreamDestroy_v2(stream)));
    return 0;
}

static int
begin(void)
{
    CUdevice dev;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuMemAlloc_v2(&device, BYTES));
    TRY(cuMemAlloc_v2(&room, LONG));
    loose = calloc(1, LONG);
    SAME(loose != NULL, 1);
    TRY(cuMemHostAlloc((void **)&locked, BYTES, 0));
    TRY(cuMemHostAlloc((void **)&back, BYTES, 0));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"behind copies", behind_copies},
        {"behind long copies", behind_long_copies},
        {"behind work", behind_work},
        {"behind another thread", behind_another_thread},
        {"in another context", in_another_context},
        {"behind a stream apart", behind_a_stream_apart},
    };

    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
