/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency, call rate and bulk copies through the client stub, beside the raw
 * transport.
 *
 * One run is one round: every remote figure has the raw figure of the same round
 * next to it, so that a ratio compares the same minute (--beside=0: calls alone, to be
 * compared with another program that does nothing else either).  The raw link is opened
 * before CUDA so that its process does not inherit a connection.  The driver on
 * the server's side should be the null driver; then what is left is our own cost.
 */
#include "rows.h"

#include <pthread.h>
#include <string.h>

#define KIB 1024ul
#define MIB (1024ul * 1024ul)
#define BULK_MAX (256 * MIB)
#define SYNC_CALLS 3000
#define BURST 200 /* asynchronous calls that fit a send buffer */

extern const char fast_ptx[];
__asm__(".pushsection .rodata\n"
        "fast_ptx:\n"
        ".incbin \"vecadd.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

struct fast {
    struct bench_raw raw;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr memory;
    char small[4096];
    int argc;
    char **argv;
};

static void
launch(struct fast *fast)
{
    unsigned count = 1;
    void *params[] = {&fast->memory, &fast->memory, &fast->memory, &count};

    CU(cuLaunchKernel(fast->kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

/* The free memory of a session can change at any time, so no stub may remember
 * it: this is a round trip and nothing else. */
static void
act_sync_call(void *data)
{
    size_t free_bytes, total;

    (void)data;
    CU(cuMemGetInfo(&free_bytes, &total));
}

static void
act_launch_sync(void *data)
{
    struct fast *fast = data;

    launch(fast);
    CU(cuCtxSynchronize());
}

static void
act_launch10_sync(void *data)
{
    struct fast *fast = data;

    for (int i = 0; i < 10; i++)
        launch(fast);
    CU(cuCtxSynchronize());
}

static void
act_alloc_free(void *data)
{
    CUdeviceptr memory;

    (void)data;
    CU(cuMemAlloc(&memory, MIB));
    CU(cuMemFree(memory));
}

/* Not waited for: what the application thread pays. */
static void
act_h2d_4k(void *data)
{
    struct fast *fast = data;

    CU(cuMemcpyHtoD(fast->memory, fast->small, sizeof(fast->small)));
}

static void
measure_latency(struct fast *fast, const char *name, void (*act)(void *))
{
    long calls = bench_option(fast->argc, fast->argv, "--calls", SYNC_CALLS);
    struct bench_row row = {
        .name = name, .act = act, .data = fast, .slices = 30, .calls = calls / 30};
    long slice_ms = bench_option(fast->argc, fast->argv, "--slice-ms", 0);

    row.slice_ns = (uint64_t)slice_ms * 1000000u;

    if (bench_wants(fast->argc, fast->argv, name))
        bench_row_run(&fast->raw, &row);
}

static void
measure_h2d_4k(struct fast *fast)
{
    struct bench_times times = {0};

    if (!bench_wants(fast->argc, fast->argv, "h2d_4k"))
        return;
    bench_noise(fast->small, sizeof(fast->small));
    for (int i = 0; i < SYNC_CALLS; i++) {
        uint64_t start = bench_now_ns();

        act_h2d_4k(fast);
        bench_times_add(&times, bench_now_ns() - start);
    }
    CU(cuCtxSynchronize());
    bench_say("h2d_4k_us", bench_times_percentile(&times, 50) / 1e3);
    bench_times_free(&times);
}

/* The application thread alone: bursts that fit the send buffer, each followed by
 * a wait that is not timed. */
static void
measure_async_call(struct fast *fast)
{
    struct bench_times burst = {0};

    if (!bench_wants(fast->argc, fast->argv, "async_call"))
        return;
    for (int i = 0; i < 500; i++) {
        uint64_t start = bench_now_ns();

        for (int j = 0; j < BURST; j++)
            launch(fast);
        bench_times_add(&burst, bench_now_ns() - start);
        CU(cuCtxSynchronize());
    }
    bench_say("async_call_ns", bench_times_percentile(&burst, 50) / BURST);
    bench_times_free(&burst);
}

/* Sustained: until the last of many launches was executed. */
static void
measure_async_rate(struct fast *fast)
{
    long calls = bench_option(fast->argc, fast->argv, "--async-calls", 2000000);
    uint64_t start, cpu;

    if (!bench_wants(fast->argc, fast->argv, "async_calls_per_s"))
        return;
    CU(cuCtxSynchronize());
    cpu = bench_cpu_ns();
    start = bench_now_ns();
    for (long i = 0; i < calls; i++)
        launch(fast);
    CU(cuCtxSynchronize());
    bench_say("async_calls_per_s",
              (double)calls * 1e9 / (double)(bench_now_ns() - start));
    bench_say("async_client_cpu_ns", (double)(bench_cpu_ns() - cpu) / (double)calls);
}

struct issuer {
    struct fast *fast;
    pthread_t thread;
    long calls;
};

static void *
issue(void *argument)
{
    struct issuer *issuer = argument;

    CU(cuCtxSetCurrent(issuer->fast->context));
    for (long i = 0; i < issuer->calls; i++)
        launch(issuer->fast);
    return NULL;
}

/* Several threads fill the one queue: what they take from each other shows in the sum.
 */
static void
measure_async_threads(struct fast *fast)
{
    static const unsigned counts[] = {1, 4};
    long calls = bench_option(fast->argc, fast->argv, "--async-calls", 2000000);

    if (!bench_wants(fast->argc, fast->argv, "threads_per_s"))
        return;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct issuer issuers[4];
        uint64_t start = bench_now_ns();
        char key[64];

        for (unsigned i = 0; i < counts[c]; i++) {
            issuers[i] = (struct issuer){.fast = fast, .calls = calls / counts[c]};
            if (pthread_create(&issuers[i].thread, NULL, issue, &issuers[i]) != 0)
                bench_die("pthread_create");
        }
        for (unsigned i = 0; i < counts[c]; i++)
            pthread_join(issuers[i].thread, NULL);
        CU(cuCtxSynchronize());
        snprintf(key, sizeof(key), "threads_per_s_%u", counts[c]);
        bench_say(key, (double)calls * 1e9 / (double)(bench_now_ns() - start));
    }
}

struct bulk {
    char *host;
    CUdeviceptr device;
    size_t size;
    int slices;
    long calls; /* in a slice */
};

static void
say_bulk(const char *direction, size_t size, struct bench_times *times)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_%zumib_gbps", direction, size / MIB);
    bench_say(key, (double)size / bench_times_percentile(times, 50));
    bench_times_free(times);
}

/* A copy may return when its source is safe; the raw link waits until the last byte is
 * there, so this side must as well. */
static void
act_up(void *data)
{
    const struct bulk *bulk = data;

    CU(cuMemcpyHtoD(bulk->device, bulk->host, bulk->size));
    CU(cuCtxSynchronize());
}

static void
act_down(void *data)
{
    const struct bulk *bulk = data;

    CU(cuMemcpyDtoH(bulk->host, bulk->device, bulk->size));
}

/* @kind: of the host's memory.  Over shared memory the worker reaches page-locked
 * memory itself, so that one copy is the limit and not the ring. */
static void
measure_copies(struct fast *fast, struct bulk *bulk, const char *kind)
{
    int down, shared = *kind && fast->raw.peer.shm;
    char name[64];

    for (down = 0; down < 2; down++) {
        struct bench_row row = {
            .name = name,
            .act = down ? act_down : act_up,
            .data = bulk,
            .raw = {down ? 0 : bulk->size, down ? bulk->size : 0, bulk->host, shared},
            .slices = bulk->slices,
            .calls = bulk->calls,
            .bytes = bulk->size};

        snprintf(name, sizeof(name), "%s%s_%zu%s", down ? "d2h" : "h2d", kind,
                 bulk->size / (bulk->size < MIB ? KIB : MIB),
                 bulk->size < MIB ? "kib" : "mib");
        if (bench_wants(fast->argc, fast->argv, name) ||
            bench_wants(fast->argc, fast->argv, "bulk"))
            bench_row_run(&fast->raw, &row);
    }
}

/* Copies of 64 MiB without the raw link between them, and what they cost this process:
 * for links whose own limit is measured by another program. */
static void
measure_copy_cost(struct fast *fast)
{
    enum { REPEATS = 4, SIZE = 64 * MIB };
    struct bench_times up = {0}, down = {0};
    char *host;
    CUdeviceptr device;
    uint64_t cpu = 0;

    if (!bench_wants(fast->argc, fast->argv, "copy_cost"))
        return;
    host = bench_memory(SIZE);
    CU(cuMemAlloc(&device, SIZE));
    for (int i = 0; i <= REPEATS; i++) {
        uint64_t at[3];

        if (i == 1)
            cpu = bench_cpu_ns();
        at[0] = bench_now_ns();
        CU(cuMemcpyHtoD(device, host, SIZE));
        CU(cuCtxSynchronize());
        at[1] = bench_now_ns();
        CU(cuMemcpyDtoH(host, device, SIZE));
        at[2] = bench_now_ns();
        if (i == 0)
            continue; /* registrations, slots, fresh pages */
        bench_times_add(&up, at[1] - at[0]);
        bench_times_add(&down, at[2] - at[1]);
    }
    bench_say("client_cpu_s_per_gib", (double)(bench_cpu_ns() - cpu) / 1e9 /
                                          (2.0 * REPEATS * SIZE) * 1024 * MIB);
    say_bulk("h2d", SIZE, &up);
    say_bulk("d2h", SIZE, &down);
    CU(cuMemFree(device));
}

/* Whether any copy is wanted: its memory takes a while to fill. */
static int
wants_copies(const struct fast *fast)
{
    const char *only = bench_option_text(fast->argc, fast->argv, "--only");

    return !only || strncmp(only, "bulk", 4) == 0 ||
           ((strncmp(only, "h2d", 3) == 0 || strncmp(only, "d2h", 3) == 0) &&
            !strstr(only, "_4k"));
}

static void
measure_bulk(struct fast *fast)
{
    static const struct {
        size_t size;
        int slices;
        long calls;
    } sizes[] = {
        {64 * KIB, 16, 30}, {1 * MIB, 16, 8}, {64 * MIB, 6, 1}, {256 * MIB, 3, 1}};
    char *pageable, *pinned;
    CUdeviceptr device;

    if (!fast->raw.beside || !wants_copies(fast))
        return;
    pageable = bench_memory(BULK_MAX);
    CU(cuMemHostAlloc((void **)&pinned, BULK_MAX, 0));
    bench_noise(pinned, BULK_MAX);
    CU(cuMemAlloc(&device, BULK_MAX));
    CU(cuMemcpyHtoD(device, pageable, BULK_MAX));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct bulk bulk = {pageable, device, sizes[i].size, sizes[i].slices,
                            sizes[i].calls};

        measure_copies(fast, &bulk, "");
        bulk.host = pinned;
        measure_copies(fast, &bulk, "_pinned");
    }
    CU(cuMemFree(device));
    CU(cuMemFreeHost(pinned));
}

/* A stub that could not have shared memory falls back to TCP and is right to; its
 * figures must not be taken for those of shared memory. */
static int
shared_memory_in_use(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;

    if (!maps)
        bench_die("/proc/self/maps");
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, "/memfd:") != NULL;
    fclose(maps);
    return found;
}

static void
fast_open(struct fast *fast)
{
    CUdevice device;
    uint64_t start;

    bench_raw_open(&fast->raw, fast->argc, fast->argv, BULK_MAX);
    start = bench_now_ns();
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&fast->context, 0, device));
    CU(cuModuleLoadData(&fast->module, fast_ptx));
    CU(cuModuleGetFunction(&fast->kernel, fast->module, "vecadd"));
    CU(cuMemAlloc(&fast->memory, MIB));
    launch(fast);
    CU(cuCtxSynchronize());
    bench_say("first_kernel_ms", (double)(bench_now_ns() - start) / 1e6);
}

int
main(int argc, char **argv)
{
    struct fast fast = {.argc = argc, .argv = argv};

    bench_pin((int)bench_option(argc, argv, "--core", -1));
    fast_open(&fast);
    if (bench_option(argc, argv, "--shm", 0)) {
        bench_say("in_use", shared_memory_in_use());
        if (!shared_memory_in_use())
            return 0;
    }
    measure_latency(&fast, "sync_call", act_sync_call);
    measure_latency(&fast, "launch_sync", act_launch_sync);
    measure_latency(&fast, "launch10_sync", act_launch10_sync);
    measure_latency(&fast, "alloc_free", act_alloc_free);
    measure_h2d_4k(&fast);
    measure_async_call(&fast);
    measure_async_rate(&fast);
    measure_async_threads(&fast);
    measure_bulk(&fast);
    measure_copy_cost(&fast);
    bench_raw_close(&fast.raw);
    CU(cuMemFree(fast.memory));
    CU(cuModuleUnload(fast.module));
    CU(cuCtxDestroy(fast.context));
    return 0;
}
