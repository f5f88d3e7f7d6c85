/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags that host and card poll while a kernel runs: in page-locked memory each sees
 * the other's within a bounded time, and in managed memory that is so if the device
 * says that it is (CONCURRENT_MANAGED_ACCESS).
 *
 * Each flag may take BOUND_S, hundreds of times what it takes; a flag that never moves
 * ends the program with words, and does not hang it.
 */
#include "prog.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#define BOUND_S 20
#define ROUNDS 20u
#define MUCH (16u << 20) /* words */

PROG_EMBED(unified_ptx, "unified.ptx");

static struct prog prog;
static CUfunction answer, look_and_store;

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The kernel that is waited for spins for ever then: no orderly end. */
static void
late(const char *what)
{
    printf("%s: late\n", what);
    fflush(stdout);
    _exit(1);
}

static void
await(const volatile unsigned *flag, unsigned value, const char *what)
{
    double end = now() + BOUND_S;

    while (*flag != value)
        if (now() > end)
            late(what);
}

static void
await_any(const volatile unsigned *flag, const char *what)
{
    double end = now() + BOUND_S;

    while (*flag == 0)
        if (now() > end)
            late(what);
}

static unsigned *
host_new(size_t words)
{
    void *p;

    CU(cuMemHostAlloc(&p, words * sizeof(unsigned), 0));
    return p;
}

static void
launch(CUfunction f, CUstream stream, void **args)
{
    CU(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

/* A ball that both keep in the air. */
static void
play(volatile unsigned *flags, CUstream stream, const char *what)
{
    volatile unsigned *go = &flags[0], *done = &flags[32];
    unsigned n = ROUNDS;
    void *args[] = {&go, &done, &n};

    *go = *done = 0;
    launch(answer, stream, args);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        *go = round;
        await(done, round, what);
    }
    CU(cuStreamSynchronize(stream));
    printf("%s: ok\n", what);
}

static void
page_locked(void)
{
    unsigned *flags = host_new(64);

    play(flags, NULL, "flags in page-locked memory");
    CU(cuMemFreeHost(flags));
}

/* The exchange compares all of it. */
static void
beside_much(void)
{
    unsigned *much = host_new(MUCH);

    play(much + MUCH / 2, NULL, "flags in much page-locked memory");
    CU(cuMemFreeHost(much));
}

static CUcontext ctx;

static void *
wait_for(void *stream)
{
    CU(cuCtxSetCurrent(ctx));
    CU(cuStreamSynchronize(stream));
    return NULL;
}

/* One thread waits for the kernel that another plays with. */
static void
beside_a_wait(void)
{
    volatile unsigned *flags = host_new(64), *go = &flags[0], *done = &flags[32];
    unsigned n = ROUNDS;
    void *args[] = {&go, &done, &n};
    pthread_t thread;
    CUstream stream;

    CU(cuCtxGetCurrent(&ctx));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    *go = *done = 0;
    launch(answer, stream, args);
    if (pthread_create(&thread, NULL, wait_for, stream))
        _exit(1);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        *go = round;
        await(done, round, "flags while another thread waits");
    }
    pthread_join(thread, NULL);
    CU(cuStreamDestroy(stream));
    CU(cuMemFreeHost((void *)(uintptr_t)flags));
    printf("flags while another thread waits: ok\n");
}

/* What each sees of the other's managed memory while the kernel runs, and after. */
static void
managed(void)
{
    volatile unsigned *flags = host_new(64), *memory, *go = &flags[0],
                      *said = &flags[32];
    void *args[] = {&go, &memory, &said};
    unsigned before;
    CUdeviceptr dev;
    CUdevice device;
    int concurrent;

    CU(cuCtxGetDevice(&device));
    CU(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                            device));
    printf("concurrent managed access: %d\n", concurrent);
    CU(cuMemAllocManaged(&dev, 4096, CU_MEM_ATTACH_GLOBAL));
    memory = (volatile unsigned *)(uintptr_t)dev; /* NOLINT */
    memory[0] = memory[64] = *go = *said = 0;
    launch(look_and_store, NULL, args);
    memory[0] = 1;
    *go = 1;
    await_any(said, "a flag about managed memory");
    before = memory[64];
    *go = 2;
    CU(cuCtxSynchronize());
    printf("managed memory: the card saw %u, the host %u, and %u after its wait\n",
           *said - 100, before, memory[64]);
    if (concurrent)
        play(memory, NULL, "flags in managed memory");
    CU(cuMemFree_v2(dev));
    CU(cuMemFreeHost((void *)(uintptr_t)flags));
}

int
main(int argc, char **argv)
{
    prog_begin(&prog, argc, argv, "flags", unified_ptx);
    answer = prog_kernel(&prog, "answer");
    look_and_store = prog_kernel(&prog, "look_and_store");
    setvbuf(stdout, NULL, _IOLBF, 0);
    page_locked();
    beside_much();
    beside_a_wait();
    managed();
    return 0;
}
