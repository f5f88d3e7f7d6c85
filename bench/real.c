/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do, beside the raw transport: many kernels and shapes, streams with
 * events across, graphs, pools, small copies and batches.
 *
 * One run is one round, as with fast.c.  --check=1 does each thing a few times without
 * the raw link and counts the kernels that ran, for drivers that execute them.
 */
#include "real.h"

#include <string.h>

#define KIB 1024u
#define MIB (1024u * 1024u)
#define INFERENCE_LAUNCHES 32

uint64_t
real_random(struct real *real)
{
    real->random ^= real->random << 13;
    real->random ^= real->random >> 7;
    real->random ^= real->random << 17;
    return real->random;
}

void
real_launch(struct real *real, CUstream stream)
{
    net_launch(&real->net, stream, 0);
    real->launches++;
}

/* --- launches ------------------------------------------------------------------------
 */

static void
act_launch10(void *data)
{
    struct real *real = data;

    for (int i = 0; i < 10; i++)
        real_launch(real, NULL);
    CU(cuCtxSynchronize());
}

static void
act_launch10_ex(void *data)
{
    struct real *real = data;

    for (int i = 0; i < 10; i++)
        net_launch(&real->net, real->streams[0], 1);
    real->launches += 10;
    CU(cuStreamSynchronize(real->streams[0]));
}

/* Ten launches on four streams: three branches wait for the first one, the first one
 * for all of them. */
static void
act_streams(void *data)
{
    struct real *real = data;

    real_launch(real, real->streams[0]);
    CU(cuEventRecord(real->events[0], real->streams[0]));
    for (int s = 1; s < REAL_STREAMS; s++) {
        CU(cuStreamWaitEvent(real->streams[s], real->events[0], 0));
        for (int i = 0; i < 3 - (s == 3); i++)
            real_launch(real, real->streams[s]);
        CU(cuEventRecord(real->events[s], real->streams[s]));
        CU(cuStreamWaitEvent(real->streams[0], real->events[s], 0));
    }
    real_launch(real, real->streams[0]);
    CU(cuStreamSynchronize(real->streams[0]));
}

/* --- events --------------------------------------------------------------------------
 */

/* A caching allocator's turn: an event behind each piece of work, and a look at those
 * that are pending before the next one. */
static void
act_event_poll(void *data)
{
    struct real *real = data;

    for (int i = 0; i < REAL_EVENTS; i++) {
        real_launch(real, real->streams[0]);
        CU(cuEventRecord(real->events[i], real->streams[0]));
    }
    CU(cuStreamSynchronize(real->streams[0]));
    for (int i = 0; i < REAL_EVENTS; i++)
        CU(cuEventQuery(real->events[i]));
}

static void
act_event_time(void *data)
{
    struct real *real = data;
    float ms;

    CU(cuEventRecord(real->timed[0], real->streams[0]));
    real_launch(real, real->streams[0]);
    CU(cuEventRecord(real->timed[1], real->streams[0]));
    CU(cuEventSynchronize(real->timed[1]));
    CU(cuEventElapsedTime(&ms, real->timed[0], real->timed[1]));
}

/* --- small copies
 * --------------------------------------------------------------------- */

/* A framework's .item(): launch, four bytes down, wait. */
static void
item(struct real *real, char *to)
{
    real_launch(real, real->streams[0]);
    CU(cuMemcpyDtoHAsync(to, real->batch, 4, real->streams[0]));
    CU(cuStreamSynchronize(real->streams[0]));
}

static void
act_item(void *data)
{
    item(data, ((struct real *)data)->pageable);
}

static void
act_item_pinned(void *data)
{
    item(data, ((struct real *)data)->pinned);
}

static void
act_down(void *data)
{
    struct real *real = data;

    CU(cuMemcpyDtoH(real->pageable, real->batch, real->batch_size));
}

static void
act_up(void *data)
{
    struct real *real = data;

    CU(cuMemcpyHtoD(real->batch, real->pageable, real->batch_size));
    CU(cuCtxSynchronize());
}

/* A batch from page-locked memory, a kernel that uses it, and the end of both. */
static void
act_batch(void *data)
{
    struct real *real = data;

    CU(cuMemcpyHtoDAsync(real->batch, real->pinned, real->batch_size,
                         real->streams[0]));
    real_launch(real, real->streams[0]);
    CU(cuStreamSynchronize(real->streams[0]));
}

/* Inference with batch 1: 4 KiB up, a small network, 4 KiB down. */
static void
act_inference(void *data)
{
    struct real *real = data;

    CU(cuMemcpyHtoDAsync(real->batch, real->pinned, 4 * KIB, real->streams[0]));
    for (int i = 0; i < INFERENCE_LAUNCHES; i++)
        real_launch(real, real->streams[0]);
    CU(cuMemcpyDtoHAsync(real->pinned, real->batch, 4 * KIB, real->streams[0]));
    CU(cuStreamSynchronize(real->streams[0]));
}

/* --- rows
 * ------------------------------------------------------------------------------ */

/* Of which size: in real->batch_size while a row of @size runs. */
static const struct {
    const char *name;
    void (*act)(void *data);
    size_t up, down, size;
    int bytes; /* a copy, whose raw side moves as much */
    long calls;
} rows[] = {
    {"launch10_mixed_sync", act_launch10, .calls = 100},
    {"launch10_ex_sync", act_launch10_ex, .calls = 100},
    {"streams4_sync", act_streams, .calls = 100},
    {"graph64_sync", real_act_graph, .calls = 50},
    {"graph64_update4_sync", real_act_graph_update, .calls = 50},
    {"alloc_free_512_live", real_act_alloc_free, .calls = 100},
    {"pool_alloc_free_sync", real_act_pool, .calls = 100},
    {"pool10_alloc_free_sync", real_act_pool10, .calls = 50},
    {"pool_step_sync", real_act_pool_step, .calls = 100},
    {"pool10_step_sync", real_act_pool10_step, .calls = 50},
    {"event_poll16", act_event_poll, .calls = 50},
    {"event_time", act_event_time, .calls = 100},
    {"item", act_item, .calls = 100},
    {"item_pinned", act_item_pinned, .calls = 100},
    {"d2h_4k", act_down, .size = 4 * KIB, .calls = 100},
    {"h2d_4k_sync", act_up, .size = 4 * KIB, .calls = 100},
    {"d2h_64k", act_down, .size = 64 * KIB, .calls = 50},
    {"h2d_64k_sync", act_up, .size = 64 * KIB, .calls = 50},
    {"d2h_4k_of_copy", act_down, 0, 4 * KIB, 4 * KIB, .calls = 100},
    {"h2d_4k_sync_of_copy", act_up, 4 * KIB, 0, 4 * KIB, .calls = 100},
    {"inference", act_inference, 4 * KIB, 4 * KIB, .calls = 50},
    {"batch_1mib", act_batch, MIB, 0, MIB, 1, .calls = 8},
    {"batch_2mib", act_batch, 2 * MIB, 0, 2 * MIB, 1, .calls = 4},
    {"batch_4mib", act_batch, 4 * MIB, 0, 4 * MIB, 1, .calls = 2},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void
measure(struct real *real, size_t i)
{
    struct bench_row row = {.name = rows[i].name,
                            .act = rows[i].act,
                            .data = real,
                            .raw = {rows[i].up, rows[i].down, real->pinned,
                                    rows[i].bytes && real->raw.peer.shm},
                            .slices = 20,
                            .calls = rows[i].calls,
                            .bytes = rows[i].bytes ? rows[i].up : 0};

    real->batch_size = rows[i].size;
    bench_row_run(&real->raw, &row);
}

/* Sustained: until the last of many launches was executed. */
static void
measure_rate(struct real *real, long calls)
{
    uint64_t start, cpu, workers;

    CU(cuCtxSynchronize());
    cpu = bench_cpu_ns();
    workers = bench_workers_cpu_ns();
    start = bench_now_ns();
    for (long i = 0; i < calls; i++)
        real_launch(real, NULL);
    CU(cuCtxSynchronize());
    bench_say("mixed_calls_per_s",
              (double)calls * 1e9 / (double)(bench_now_ns() - start));
    bench_say("mixed_client_cpu_ns", (double)(bench_cpu_ns() - cpu) / (double)calls);
    if (getenv("BENCH_SERVER"))
        bench_say("mixed_worker_cpu_ns",
                  (double)(bench_workers_cpu_ns() - workers) / (double)calls);
}

static void
real_open(struct real *real)
{
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&real->context, 0, device));
    net_open(&real->net);
    for (int i = 0; i < REAL_STREAMS; i++)
        CU(cuStreamCreate(&real->streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < REAL_EVENTS; i++)
        CU(cuEventCreate(&real->events[i], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        CU(cuEventCreate(&real->timed[i], 0));
    CU(cuMemAlloc(&real->batch, REAL_BATCH_MAX));
    real->pageable = bench_memory(REAL_BATCH_MAX);
    CU(cuMemHostAlloc((void **)&real->pinned, REAL_BATCH_MAX, 0));
    bench_noise(real->pinned, REAL_BATCH_MAX);
    CU(cuMemcpyHtoD(real->batch, real->pageable, REAL_BATCH_MAX));
    CU(cuCtxSynchronize());
    real->random = 88172645463325252u;
    real_blocks_open(real);
    real_graph_open(real);
}

static void
real_close(struct real *real)
{
    real_graph_close(real);
    real_blocks_close(real);
    CU(cuMemFreeHost(real->pinned));
    CU(cuMemFree(real->batch));
    for (int i = 0; i < 2; i++)
        CU(cuEventDestroy(real->timed[i]));
    for (int i = 0; i < REAL_EVENTS; i++)
        CU(cuEventDestroy(real->events[i]));
    for (int i = 0; i < REAL_STREAMS; i++)
        CU(cuStreamDestroy(real->streams[i]));
    net_close(&real->net);
    CU(cuCtxDestroy(real->context));
}

/* Each thing a few times; every launch has to have counted itself. */
static int
check(struct real *real)
{
    unsigned long counted = 0;
    char *back = bench_memory(REAL_BATCH_MAX);

    for (size_t i = 0; i < N_ROWS; i++) {
        real->batch_size = rows[i].size;
        for (int turn = 0; turn < 3; turn++)
            rows[i].act(real);
    }
    CU(cuCtxSynchronize());
    for (unsigned k = 0; k < NET_KERNELS; k++)
        counted += net_count(&real->net, k);
    printf("launched %lu counted %lu\n", real->launches, counted);
    if (counted != real->launches)
        return 1;
    real->batch_size = REAL_BATCH_MAX;
    act_batch(real);
    CU(cuMemcpyDtoH(back, real->batch, REAL_BATCH_MAX));
    if (memcmp(back, real->pinned, REAL_BATCH_MAX) != 0) {
        fprintf(stderr, "real: other bytes came back\n");
        return 1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    static struct real real;
    int checks = (int)bench_option(argc, argv, "--check", 0), r = 0;

    bench_pin((int)bench_option(argc, argv, "--core", -1));
    if (!checks)
        bench_raw_open(&real.raw, argc, argv, REAL_BATCH_MAX);
    real_open(&real);
    if (checks)
        r = check(&real);
    for (size_t i = 0; !checks && i < N_ROWS; i++)
        if (bench_wants(argc, argv, rows[i].name))
            measure(&real, i);
    if (!checks && bench_wants(argc, argv, "mixed_calls_per_s"))
        measure_rate(&real, bench_option(argc, argv, "--async-calls", 2000000));
    bench_raw_close(&real.raw);
    real_close(&real);
    return r;
}
