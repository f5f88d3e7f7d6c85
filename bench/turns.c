/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of calls or copies whenever the standard input asks for one by its name, so
 * that several processes that are set up differently can be measured in turns.
 *
 * A slice is short, so that a disturbance that lasts hits all of the processes, and
 * begins with a part of it that is not timed, because the caches hold what the process
 * before needed.  Each answer is the median of its slice, as a line "NAME VALUE...".
 */
#include "bench.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define KIB 1024ul
#define MIB (1024ul * 1024ul)
#define SIZE (64 * MIB)
#define HUGE (2 * MIB)
#define SYNC_CALLS 400
#define BURST 200 /* asynchronous calls that fit a send buffer */
#define BURSTS 40
#define STREAM 200000 /* asynchronous calls that do not */

extern const char turns_ptx[];
__asm__(".pushsection .rodata\n"
        "turns_ptx:\n"
        ".incbin \"vecadd.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

struct turns {
    CUfunction kernel;
    CUdeviceptr memory;
    char *host;
};

static void
launch(struct turns *turns, int n)
{
    unsigned count = 1;
    void *params[] = {&turns->memory, &turns->memory, &turns->memory, &count};

    for (int i = 0; i < n; i++)
        CU(cuLaunchKernel(turns->kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

/* ---- slices: each says its figures ---- */

static void
slice_sync(struct turns *turns)
{
    struct bench_times times = {0};

    (void)turns;
    for (int i = 0; i < SYNC_CALLS; i++) {
        uint64_t start = bench_now_ns();
        size_t free_bytes, total;

        CU(cuMemGetInfo(&free_bytes, &total)); /* a round trip, see fast.c */
        if (i >= SYNC_CALLS / 4)
            bench_times_add(&times, bench_now_ns() - start);
    }
    bench_say("sync", bench_times_percentile(&times, 50));
    bench_times_free(&times);
}

static void
slice_burst(struct turns *turns)
{
    struct bench_times times = {0};

    for (int i = 0; i < BURSTS; i++) {
        uint64_t start = bench_now_ns();

        launch(turns, BURST);
        if (i >= BURSTS / 4)
            bench_times_add(&times, bench_now_ns() - start);
        CU(cuCtxSynchronize());
    }
    bench_say("burst", bench_times_percentile(&times, 50) / BURST);
    bench_times_free(&times);
}

/* Processor time of this process and, on one core, what both ends take together. */
static void
slice_async(struct turns *turns)
{
    uint64_t cpu, start;

    launch(turns, STREAM / 4);
    CU(cuCtxSynchronize());
    cpu = bench_cpu_ns();
    start = bench_now_ns();
    launch(turns, STREAM);
    CU(cuCtxSynchronize());
    printf("async %.6g %.6g\n", (double)(bench_cpu_ns() - cpu) / STREAM,
           (double)(bench_now_ns() - start) / STREAM);
    fflush(stdout);
}

static void
slice_up(struct turns *turns)
{
    uint64_t start;

    CU(cuMemcpyHtoD(turns->memory, turns->host, MIB));
    CU(cuCtxSynchronize());
    start = bench_now_ns();
    CU(cuMemcpyHtoD(turns->memory, turns->host, SIZE));
    CU(cuCtxSynchronize());
    bench_say("up", (double)(bench_now_ns() - start));
}

static void
slice_down(struct turns *turns)
{
    uint64_t start;

    CU(cuMemcpyDtoH(turns->host, turns->memory, MIB));
    start = bench_now_ns();
    CU(cuMemcpyDtoH(turns->host, turns->memory, SIZE));
    bench_say("down", (double)(bench_now_ns() - start));
}

/* @n copies of @size, one behind the other: the median. */
static void
slice_short(struct turns *turns, const char *name, size_t size, int n, bool down)
{
    struct bench_times times = {0};

    for (int i = 0; i < n; i++) {
        uint64_t start = bench_now_ns();

        if (down) {
            CU(cuMemcpyDtoH(turns->host, turns->memory, size));
        } else {
            CU(cuMemcpyHtoD(turns->memory, turns->host, size));
            CU(cuCtxSynchronize());
        }
        if (i >= n / 4)
            bench_times_add(&times, bench_now_ns() - start);
    }
    bench_say(name, bench_times_percentile(&times, 50));
    bench_times_free(&times);
}

static void
slice_up_64k(struct turns *turns)
{
    slice_short(turns, "up_64k", 64 * KIB, 160, false);
}

static void
slice_down_64k(struct turns *turns)
{
    slice_short(turns, "down_64k", 64 * KIB, 160, true);
}

static void
slice_up_1m(struct turns *turns)
{
    slice_short(turns, "up_1m", MIB, 24, false);
}

static void
slice_down_1m(struct turns *turns)
{
    slice_short(turns, "down_1m", MIB, 24, true);
}

/* In a program that has a stream each copy waits for its answer. */
static void
slice_up_1m_answered(struct turns *turns)
{
    CUstream stream;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    slice_short(turns, "up_1m_answered", MIB, 24, false);
    CU(cuStreamDestroy(stream));
}

/* In huge pages, where the system has any, as the null driver's memory: in ordinary
 * ones a copy takes up to 10 % more in one process than in another, by how the pages
 * follow each other in physical memory. */
static void
memory_new(struct turns *turns)
{
    turns->host = aligned_alloc(HUGE, SIZE);
    if (!turns->host)
        bench_die("aligned_alloc");
    madvise(turns->host, SIZE, MADV_HUGEPAGE);
    bench_noise(turns->host, SIZE);
    CU(cuMemAlloc(&turns->memory, SIZE));
    /* Slots, registrations, and what the link is worth. */
    CU(cuMemcpyHtoD(turns->memory, turns->host, SIZE));
    CU(cuMemcpyDtoH(turns->host, turns->memory, SIZE));
}

static const struct {
    const char *name;
    void (*run)(struct turns *turns);
} slices[] = {{"sync", slice_sync},
              {"burst", slice_burst},
              {"async", slice_async},
              {"up_64k", slice_up_64k},
              {"down_64k", slice_down_64k},
              {"up_1m", slice_up_1m},
              {"down_1m", slice_down_1m},
              {"up_1m_answered", slice_up_1m_answered},
              {"up", slice_up},
              {"down", slice_down}};

static void
serve(struct turns *turns, const char *name)
{
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
        if (strcmp(name, slices[i].name) == 0) {
            slices[i].run(turns);
            return;
        }
    }
    fprintf(stderr, "turns: no slice %s\n", name);
    exit(2);
}

int
main(void)
{
    struct turns turns = {0};
    CUcontext context;
    CUdevice device;
    CUmodule module;
    char name[32];

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    CU(cuModuleLoadData(&module, turns_ptx));
    CU(cuModuleGetFunction(&turns.kernel, module, "vecadd"));
    memory_new(&turns);
    bench_say("ready", 1);
    while (scanf("%31s", name) == 1)
        serve(&turns, name);
    free(turns.host);
    CU(cuMemFree(turns.memory));
    CU(cuModuleUnload(module));
    CU(cuCtxDestroy(context));
    return 0;
}
