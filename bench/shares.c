/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that keeps a card busy and notes when it really ran; bench/shares.py starts
 * several and compares.
 *
 * Kernels of given lengths in turn, in one stream or several, from one thread or
 * several, one by one or as graphs, a few ahead of the card.  Each thread block writes
 * the card's clock at its begin and end to card memory.  After "ready" a line with the
 * two ends of the run (nanoseconds of CLOCK_REALTIME) is read; at the end the intervals
 * go to --out as pairs of 64-bit numbers.  With --period-us it is a service instead:
 * one kernel per period, each waited for, and its latencies are what is printed.  With
 * --copy-kib it copies so much at a time to the card (--copy-down: and back) and prints
 * how much; with
 * --fill-kib it fills and copies on the card.  With --shared, blocks need so much
 * shared memory that a multiprocessor holds few of them at a time.
 */
#include "bench.h"

#include "gp_base.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SLOTS (1u << 18)
#define STREAMS_MAX 16
#define LENGTHS_MAX 8
#define GRAPH_NODES 8
#define THREADS_MAX 64u

extern const char busy_ptx[];
__asm__(".pushsection .rodata\n"
        "busy_ptx:\n"
        ".incbin \"busy.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

struct load {
    CUfunction kernel;
    CUdeviceptr taken, slots;
    uint64_t lengths[LENGTHS_MAX]; /* ns */
    unsigned n_lengths, grid, spin, n_streams, depth, graph, shared;
    CUstream streams[STREAMS_MAX];
    CUevent *done; /* ring of @depth per stream */
    CUgraphExec graph_exec;
    uint64_t launches;
    int64_t ahead; /* of the card's clock */
    CUcontext context;
    uint64_t end; /* of a thread's run */
};

static const char *
option_text(int argc, char **argv, const char *name)
{
    size_t len = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=')
            return argv[i] + len + 1;
    return NULL;
}

static uint64_t
real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000),
                          .tv_nsec = (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static void
launch_kernel(struct load *load, CUstream stream, uint64_t ns)
{
    unsigned room = SLOTS;
    void *params[] = {&load->taken, &load->slots, &room, &load->spin, &ns};

    CU(cuLaunchKernel(load->kernel, load->grid, 1, 1, 32, 1, 1, load->shared, stream,
                      params, NULL));
}

static void
make_graph(struct load *load)
{
    CUgraph graph;

    CU(cuStreamBeginCapture_v2(load->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < GRAPH_NODES; i++)
        launch_kernel(load, load->streams[0], load->lengths[i % load->n_lengths]);
    CU(cuStreamEndCapture(load->streams[0], &graph));
    CU(cuGraphInstantiateWithFlags(&load->graph_exec, graph, 0));
    CU(cuGraphDestroy(graph));
}

static void
load_streams(struct load *load)
{
    load->done = calloc((size_t)load->depth * STREAMS_MAX, sizeof(*load->done));
    if (!load->done)
        bench_die("memory");
    for (unsigned s = 0; s < load->n_streams; s++) {
        CU(cuStreamCreate(&load->streams[s], CU_STREAM_NON_BLOCKING));
        for (unsigned i = 0; i < load->depth; i++)
            CU(cuEventCreate(&load->done[s * load->depth + i],
                             CU_EVENT_DISABLE_TIMING));
    }
}

static void
load_open(struct load *load, int argc, char **argv)
{
    const char *text = option_text(argc, argv, "--kernel-us");
    CUmodule module;
    CUdevice device;

    load->grid = (unsigned)bench_option(argc, argv, "--grid", 1);
    load->spin = (unsigned)bench_option(argc, argv, "--spin", 0);
    load->depth = (unsigned)bench_option(argc, argv, "--depth", 16);
    load->n_streams = (unsigned)bench_option(argc, argv, "--streams", 1);
    load->graph = (unsigned)bench_option(argc, argv, "--graph", 0);
    load->shared = (unsigned)bench_option(argc, argv, "--shared", 0);
    if (load->n_streams < 1 || load->n_streams > STREAMS_MAX || load->depth < 2) {
        errno = EINVAL;
        bench_die("--streams, --depth");
    }
    for (char *end; text && *text && load->n_lengths < LENGTHS_MAX;
         text = *end ? end + 1 : end)
        load->lengths[load->n_lengths++] = strtoull(text, &end, 10) * 1000;
    if (!load->n_lengths)
        load->lengths[load->n_lengths++] = 1000000;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&load->context, 0, device));
    CU(cuModuleLoadData(&module, busy_ptx));
    CU(cuModuleGetFunction(&load->kernel, module, "busy"));
    CU(cuFuncSetAttribute(load->kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          (int)load->shared));
    CU(cuMemAlloc(&load->taken, 256));
    CU(cuMemsetD32(load->taken, 0, 64));
    CU(cuMemAlloc(&load->slots, SLOTS * 2 * sizeof(uint64_t)));
    load_streams(load);
    if (load->graph)
        make_graph(load);
}

/* The next launch.  Every half depth of a stream, as at the end of a training step, the
 * half before is waited for. */
static void
load_step(struct load *load)
{
    unsigned s = (unsigned)(load->launches % load->n_streams);
    uint64_t turn = load->launches / load->n_streams;
    unsigned half = load->depth / 2;
    bool step_ends = turn % half == 0;

    if (step_ends && turn >= half)
        CU(cuEventSynchronize(
            load->done[s * load->depth + (turn - half) % load->depth]));
    if (load->graph)
        CU(cuGraphLaunch(load->graph_exec, load->streams[s]));
    else
        launch_kernel(load, load->streams[s],
                      load->lengths[load->launches % load->n_lengths]);
    if (step_ends)
        CU(cuEventRecord(load->done[s * load->depth + turn % load->depth],
                         load->streams[s]));
    load->launches++;
}

/* How far the card's clock is ahead of the host's: from a short kernel's begin, which
 * lay between two readings of the latter.  Less than can be told apart counts as
 * nothing. */
static int64_t
clock_ahead(struct load *load)
{
    uint64_t before, after, began;
    int64_t ahead;

    CU(cuMemsetD32(load->taken, 0, 64));
    CU(cuCtxSynchronize());
    before = real_ns();
    launch_kernel(load, load->streams[0], 1000);
    CU(cuCtxSynchronize());
    after = real_ns();
    CU(cuMemcpyDtoH(&began, load->slots, sizeof(began)));
    CU(cuMemsetD32(load->taken, 0, 64));
    CU(cuCtxSynchronize());
    ahead = (int64_t)(began - before / 2 - after / 2);
    return (uint64_t)llabs(ahead) > after - before ? ahead : 0;
}

static void
load_write(struct load *load, const char *path)
{
    uint32_t taken;
    uint64_t *slots;
    FILE *out;

    CU(cuMemcpyDtoH(&taken, load->taken, sizeof(taken)));
    if (taken > SLOTS) {
        errno = EOVERFLOW;
        bench_die("intervals");
    }
    slots = bench_memory((taken + 1) * 2 * sizeof(uint64_t));
    if (taken)
        CU(cuMemcpyDtoH(slots, load->slots, taken * 2 * sizeof(uint64_t)));
    for (uint32_t i = 0; i < 2 * taken; i++)
        slots[i] -= (uint64_t)load->ahead;
    out = fopen(path, "wb");
    if (!out || fwrite(slots, 2 * sizeof(uint64_t), taken, out) != taken ||
        fclose(out) != 0)
        bench_die(path);
    bench_say("blocks", taken);
}

/* Copies to the card, one after the other; with @down back as well. */
static void
copy_on(uint64_t end, size_t bytes, bool down)
{
    char *host = bench_memory(bytes);
    double moved = 0;
    CUdeviceptr at;

    CU(cuMemAlloc(&at, bytes));
    while (real_ns() < end) {
        CU(cuMemcpyHtoD(at, host, bytes));
        moved += (double)bytes;
        if (!down)
            continue;
        CU(cuMemcpyDtoH(host, at, bytes));
        moved += (double)bytes;
    }
    bench_say("copied_bytes", moved);
    CU(cuMemFree(at));
}

/* Fills of so many bytes and copies of them on the card, a few ahead of it. */
static void
fill_on(struct load *load, uint64_t end, size_t bytes)
{
    CUdeviceptr at;

    CU(cuMemAlloc(&at, 2 * bytes));
    while (real_ns() < end) {
        for (unsigned i = 0; i < load->depth / 2; i++) {
            CU(cuMemsetD8Async(at, (unsigned char)i, bytes, load->streams[0]));
            CU(cuMemcpyDtoDAsync(at + bytes, at, bytes, load->streams[0]));
            load->launches += 2;
        }
        CU(cuStreamSynchronize(load->streams[0]));
    }
    CU(cuMemFree(at));
}

/* The same load in a thread and in streams of its own. */
static void *
thread_main(void *arg)
{
    struct load *load = arg;

    CU(cuCtxSetCurrent(load->context));
    while (real_ns() < load->end)
        load_step(load);
    CU(cuCtxSynchronize());
    return NULL;
}

static void
run_threads(const struct load *first, unsigned n, uint64_t end)
{
    struct load loads[THREADS_MAX];
    pthread_t threads[THREADS_MAX];

    for (unsigned i = 0; i < n; i++) {
        loads[i] = *first;
        loads[i].end = end;
        load_streams(&loads[i]);
        if (pthread_create(&threads[i], NULL, thread_main, &loads[i]) != 0)
            bench_die("thread");
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        free(loads[i].done);
    }
}

static void
serve(struct load *load, uint64_t begin, uint64_t end, uint64_t period)
{
    struct bench_times times = {0};

    for (uint64_t at = begin; at < end; at = gp_max(at + period, real_ns())) {
        uint64_t asked;

        sleep_until(at);
        asked = bench_now_ns();
        launch_kernel(load, load->streams[0], load->lengths[0]);
        CU(cuStreamSynchronize(load->streams[0]));
        bench_times_add(&times, bench_now_ns() - asked);
    }
    bench_say("p50_us", bench_times_percentile(&times, 50) / 1e3);
    bench_say("p99_us", bench_times_percentile(&times, 99) / 1e3);
    bench_times_free(&times);
}

int
main(int argc, char **argv)
{
    const char *out = option_text(argc, argv, "--out");
    uint64_t period = (uint64_t)bench_option(argc, argv, "--period-us", 0) * 1000;
    size_t copy = (size_t)bench_option(argc, argv, "--copy-kib", 0) << 10;
    unsigned threads = (unsigned)bench_option(argc, argv, "--threads", 1);
    size_t fill = (size_t)bench_option(argc, argv, "--fill-kib", 0) << 10;
    struct load load = {0};
    uint64_t begin, end;

    load_open(&load, argc, argv);
    /* The first launch ever is slow everywhere; it must not meet the others. */
    launch_kernel(&load, load.streams[0], 1000);
    CU(cuCtxSynchronize());
    load.ahead = clock_ahead(&load);
    printf("ready\n");
    fflush(stdout);
    if (scanf("%" SCNu64 " %" SCNu64, &begin, &end) != 2) {
        errno = EINVAL;
        bench_die("begin and end of the run");
    }
    sleep_until(begin);
    if (period)
        serve(&load, begin, end, period);
    if (copy)
        copy_on(end, copy, bench_option(argc, argv, "--copy-down", 0) != 0);
    if (threads > 1)
        run_threads(&load, gp_min(threads, THREADS_MAX), end);
    if (fill)
        fill_on(&load, end, fill);
    while (!period && real_ns() < end)
        load_step(&load);
    CU(cuCtxSynchronize());
    bench_say("launches", (double)load.launches);
    if (out)
        load_write(&load, out);
    free(load.done);
    return 0;
}
