/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches in every order of kernels, grids, blocks, streams, contexts and threads:
 * many of one shape behind each other, many shapes in turns, and what comes between
 * them. Each thread of a grid adds to a counter, so that a launch with another's shape
 * or parameters, or one too few, is seen.
 */
#include "parts.h"
#include "strict.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define STREAMS 4
#define THREADS 4
#define COUNTERS 8

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .u32 counted;\n"
    ".visible .entry add(.param .u64 p, .param .u32 by)\n{\n"
    " .reg .b64 %a; .reg .b32 %x;\n"
    " ld.param.u64 %a, [p];\n ld.param.u32 %x, [by];\n"
    " cvta.to.global.u64 %a, %a;\n red.global.add.u32 [%a], %x;\n ret;\n}\n"
    ".visible .entry twice(.param .u64 p, .param .u32 by)\n{\n"
    " .reg .b64 %a; .reg .b32 %x;\n"
    " ld.param.u64 %a, [p];\n ld.param.u32 %x, [by];\n shl.b32 %x, %x, 1;\n"
    " cvta.to.global.u64 %a, %a;\n red.global.add.u32 [%a], %x;\n ret;\n}\n"
    ".visible .entry odd(.param .u64 p, .param .u8 by)\n{\n"
    " .reg .b64 %a; .reg .b32 %x;\n"
    " ld.param.u64 %a, [p];\n ld.param.u8 %x, [by];\n"
    " cvta.to.global.u64 %a, %a;\n red.global.add.u32 [%a], %x;\n ret;\n}\n"
    ".visible .entry count()\n{\n .reg .b64 %a;\n"
    " mov.u64 %a, counted;\n red.global.add.u32 [%a], 1;\n ret;\n}\n";

static bool strict;
static CUdevice dev;
static CUcontext ctx;
static CUmodule module;
static CUfunction add, twice, odd, count;
static CUstream streams[STREAMS];
static CUdeviceptr counters;

static CUresult
launch(CUfunction f, unsigned grid, unsigned block, CUstream s, CUdeviceptr p,
       unsigned by)
{
    void *params[] = {&p, &by};

    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, params, NULL);
}

static CUdeviceptr
counter(unsigned i)
{
    return counters + 4 * (CUdeviceptr)i;
}

static uint32_t
next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* What counter @i has, and it has nothing then. */
static int
is(unsigned i, uint32_t expected)
{
    uint32_t found;

    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH_v2(&found, counter(i), sizeof(found)));
    TRY(cuMemsetD32_v2(counter(i), 0, 1));
    SAME(found, expected);
    return 0;
}

static int
again_and_again(void)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < 5000; i++) {
        TRY(launch(add, 2, 3, NULL, counter(0), i % 7));
        sum += 6 * (i % 7);
        if (i % 1000 == 999)
            TRY(cuCtxSynchronize());
    }
    return is(0, sum);
}

/* More shapes than anybody remembers, so that some push others out. */
static int
many_shapes(void)
{
    uint32_t state = 1, sums[2] = {0};

    for (unsigned i = 0; i < 4000; i++) {
        unsigned shape = next(&state) % 700, times = 1 + next(&state) % 3;
        unsigned grid = 1 + shape % 5, block = 1 + shape / 5;
        CUfunction f = shape % 2 ? add : twice;

        for (unsigned k = 0; k < times; k++) {
            TRY(launch(f, grid, block, streams[shape % STREAMS], counter(shape % 2),
                       k + 1));
            sums[shape % 2] += (shape % 2 ? 1 : 2) * grid * block * (k + 1);
        }
    }
    return is(0, sums[0]) || is(1, sums[1]);
}

static int
every_dimension(void)
{
    uint32_t sum = 0, one = 1;
    CUdeviceptr p = counter(0);
    void *params[] = {&p, &one};

    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 64; i++) {
            unsigned d[6];

            for (unsigned k = 0; k < 6; k++)
                d[k] = 1 + (i >> k & 1);
            TRY(cuLaunchKernel(add, d[0], d[1], d[2], d[3], d[4], d[5], 16 * (i % 3),
                               NULL, params, NULL));
            sum += d[0] * d[1] * d[2] * d[3] * d[4] * d[5];
        }
    }
    return is(0, sum);
}

static int
few_parameters_and_none(void)
{
    CUdeviceptr p = counter(0), global;
    uint32_t found, sum = 0;
    size_t bytes;

    for (unsigned i = 0; i < 300; i++) {
        uint8_t by = (uint8_t)(i * 3);
        void *params[] = {&p, &by};
        void *none[] = {NULL};

        TRY(cuLaunchKernel(odd, 1, 1, 1, 2, 1, 1, 0, NULL, params, NULL));
        sum += 2u * by;
        for (unsigned k = 0; k < i % 4; k++) /* also behind itself */
            TRY(cuLaunchKernel(count, 1 + k / 2, 1, 1, 1, 1, 1, 0, NULL, none, NULL));
    }
    if (is(0, sum))
        return 1;
    TRY(cuModuleGetGlobal_v2(&global, &bytes, module, "counted"));
    TRY(cuMemcpyDtoH_v2(&found, global, sizeof(found)));
    SAME(found, 525);
    return 0;
}

/* The same block of parameters, ready-made and by pointers. */
static int
ready_made_parameters(void)
{
    struct {
        CUdeviceptr p;
        uint32_t by;
    } block = {counter(0), 2};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    uint32_t sum = 0;

    for (unsigned i = 0; i < 60; i++) {
        if (i % 3)
            TRY(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, extra));
        else
            TRY(launch(add, 1, 4, NULL, counter(0), 2));
        sum += 8;
    }
    return is(0, sum);
}

static int
extended(void)
{
    uint32_t sum = 0;
    CUlaunchConfig config = {.gridDimX = 2,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 5,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = streams[0]};

    for (unsigned i = 0; i < 200; i++) {
        CUdeviceptr p = counter(0);
        void *params[] = {&p, &i};

        if (i % 5 == 4)
            TRY(launch(add, 2, 5, streams[0], p, i));
        else
            TRY(cuLaunchKernelEx(&config, add, params, NULL));
        sum += 10 * i;
    }
    CODE(cuLaunchKernelEx(NULL, add, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    config.gridDimY = 0;
    CODE(cuLaunchKernelEx(&config, add, (void *[]){&counters, &sum}, NULL),
         CUDA_ERROR_INVALID_VALUE);
    return is(0, sum);
}

/* What is between two launches of one shape happens between them. */
static int
other_calls_between(void)
{
    uint32_t seen[4];
    CUevent event;

    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 50; i++) {
        CUstream s = streams[0];

        TRY(launch(add, 1, 4, s, counter(0), 1));
        TRY(launch(add, 1, 4, s, counter(0), 1));
        TRY(cuMemcpyDtoHAsync_v2(&seen[0], counter(0), 4, s));
        TRY(launch(add, 1, 4, s, counter(0), 2));
        TRY(cuEventRecord(event, s));
        TRY(cuStreamWaitEvent(streams[1], event, 0));
        TRY(launch(add, 1, 4, streams[1], counter(0), 3));
        TRY(cuMemcpyDtoHAsync_v2(&seen[1], counter(0), 4, streams[1]));
        TRY(cuStreamSynchronize(streams[1]));
        TRY(launch(add, 1, 4, s, counter(0), 4));
        TRY(cuMemsetD32Async(counter(0), 100, 1, s));
        TRY(launch(add, 1, 4, s, counter(0), 5));
        TRY(cuMemcpyDtoHAsync_v2(&seen[2], counter(0), 4, s));
        TRY(cuStreamSynchronize(s));
        SAME(seen[0], 8);
        SAME(seen[1], 28);
        SAME(seen[2], 120);
        TRY(cuMemsetD32_v2(counter(0), 0, 1));
    }
    TRY(cuEventDestroy_v2(event));
    return 0;
}

/* Launches of a graph's capture are not executed, those before and behind it are. */
static int
captures(void)
{
    CUgraphExec exec;
    CUgraph graph;

    for (unsigned i = 0; i < 20; i++)
        TRY(launch(add, 1, 2, streams[0], counter(0), 1));
    TRY(cuStreamSynchronize(streams[0]));
    TRY(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (unsigned i = 0; i < 5; i++) {
        TRY(launch(add, 1, 2, streams[0], counter(0), 10));
        TRY(launch(add, 1, 2, streams[1], counter(0), 1));
    }
    TRY(cuStreamEndCapture(streams[0], &graph));
    TRY(launch(add, 1, 2, streams[0], counter(0), 1));
    if (is(0, 2 * (20 + 5 + 1)))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphLaunch(exec, streams[0]));
    TRY(launch(add, 1, 2, streams[0], counter(0), 1));
    if (is(0, 2 * (50 + 1)))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* At once, as a program expects that looks at the launch's own result; also from the
 * second time on, when the shape is known. */
static int
refused_of(CUfunction f, uint32_t *sum)
{
    static const unsigned wrong[][7] = {
        {0, 1, 1, 1, 1, 1, 0},        {1, 0, 1, 1, 1, 1, 0},
        {1, 1, 0, 1, 1, 1, 0},        {1, 1, 1, 0, 1, 1, 0},
        {1, 1, 1, 1, 0, 1, 0},        {1, 1, 1, 1, 1, 0, 0},
        {1, 1, 1, 4096, 1, 1, 0},     {1, 1, 1, 2, 1024, 1, 0},
        {1, 1, 1, 1, 1, 65, 0},       {1, 65536, 1, 1, 1, 1, 0},
        {1, 1, 65536, 1, 1, 1, 0},    {1u << 31, 1, 1, 1, 1, 1, 0},
        {1, 1, 1, 1, 1, 1, 1u << 20}, {1, 1, 1, 1, 1, 1, 48 * 1024 + 1}};
    CUdeviceptr p = counter(0);
    uint32_t by = 1;
    void *params[] = {&p, &by};

    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < sizeof(wrong) / sizeof(*wrong); k++) {
            const unsigned *d = wrong[k];

            CODE(cuLaunchKernel(f, d[0], d[1], d[2], d[3], d[4], d[5], d[6], NULL,
                                params, NULL),
                 CUDA_ERROR_INVALID_VALUE);
        }
        TRY(launch(f, 1, 1, NULL, p, by));
        *sum += by;
    }
    return 0;
}

static int
refused(void)
{
    CUlibrary library;
    CUkernel kernel;
    uint32_t sum = 0;

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&kernel, library, "add"));
    if (refused_of(add, &sum) || refused_of((CUfunction)kernel, &sum))
        return 1;
    TRY(cuLibraryUnload(library));
    return is(0, sum);
}

/* More than every kernel may have, for those that were allowed it: as a function, and
 * as a kernel of a library, which is launched as either. */
static int
more_shared_memory(void)
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUdeviceptr p = counter(0);
    CUfunction functions[3];
    CUlibrary library;
    CUkernel kernel;
    uint32_t by = 1;
    void *params[] = {&p, &by};

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&kernel, library, "add"));
    TRY(cuKernelGetFunction(&functions[0], kernel));
    functions[1] = (CUfunction)kernel;
    functions[2] = twice;
    TRY(cuKernelSetAttribute(most, 56 * 1024, kernel, dev));
    TRY(cuFuncSetAttribute(twice, most, 60 * 1024));
    for (unsigned i = 0; i < 9; i++)
        TRY(cuLaunchKernel(functions[i % 3], 1, 1, 1, 1, 1, 1, 56 * 1024, NULL, params,
                           NULL));
    TRY(cuLaunchKernel(twice, 1, 1, 1, 1, 1, 1, 60 * 1024, NULL, params, NULL));
    CODE(cuLaunchKernel(twice, 1, 1, 1, 1, 1, 1, 60 * 1024 + 1, NULL, params, NULL),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuFuncSetAttribute(twice, most, 48 * 1024));
    TRY(cuLibraryUnload(library));
    return is(0, 6 + 3 * 2 + 2);
}

static int
streams_that_go(void)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < 40; i++) {
        CUstream s;

        TRY(cuStreamCreate(&s, i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        for (unsigned k = 0; k < 5; k++)
            TRY(launch(add, 1, 8, s, counter(0), k));
        sum += 80;
        TRY(cuStreamSynchronize(s));
        TRY(cuStreamDestroy_v2(s));
        if (strict)
            CODE(settled(launch(add, 1, 8, s, counter(0), 1)),
                 CUDA_ERROR_INVALID_HANDLE);
    }
    return is(0, sum);
}

static int
modules_that_go(void)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < 20; i++) {
        CUmodule m;
        CUfunction f;

        TRY(cuModuleLoadData(&m, ptx));
        TRY(cuModuleGetFunction(&f, m, i % 2 ? "add" : "twice"));
        for (unsigned k = 0; k < 5; k++)
            TRY(launch(f, 1, 8, NULL, counter(0), k));
        sum += i % 2 ? 80 : 160;
        TRY(cuCtxSynchronize());
        TRY(cuModuleUnload(m));
        if (strict)
            CODE(settled(launch(f, 1, 8, NULL, counter(0), 1)),
                 CUDA_ERROR_INVALID_HANDLE);
    }
    return is(0, sum);
}

/* The default stream of each, so that only the context tells the launches apart. */
static int
contexts_in_turns(void)
{
    CUcontext other;
    CUfunction f;
    CUmodule m;
    uint32_t found[2];
    CUdeviceptr p;

    TRY(cuCtxCreate_v2(&other, 0, dev));
    TRY(cuModuleLoadData(&m, ptx));
    TRY(cuModuleGetFunction(&f, m, "add"));
    TRY(cuMemAlloc_v2(&p, 4));
    TRY(cuMemsetD32_v2(p, 0, 1));
    for (unsigned i = 0; i < 300; i++) {
        bool here = i / 3 % 2;

        TRY(cuCtxSetCurrent(here ? other : ctx));
        TRY(launch(here ? f : add, 1, 4, NULL, here ? p : counter(0), i));
    }
    TRY(cuCtxSetCurrent(other));
    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH_v2(&found[1], p, 4));
    TRY(cuCtxDestroy_v2(other));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH_v2(&found[0], counter(0), 4));
    TRY(cuMemsetD32_v2(counter(0), 0, 1));
    SAME(found[0] + found[1], 4 * (299 * 300 / 2));
    SAME(found[1] - found[0], 4 * 3 * 3 * 50);
    return 0;
}

struct worker {
    pthread_t thread;
    unsigned number;
    uint32_t sum;
    int bad;
};

static int
thread_work(struct worker *worker)
{
    unsigned n = worker->number;
    uint32_t state = n;

    TRY(cuCtxSetCurrent(ctx));
    for (unsigned i = 0; i < 3000; i++) {
        unsigned by = next(&state) % 100, block = 1 + next(&state) % 3;

        TRY(launch(n % 2 ? add : twice, 1, block, streams[n / 2], counter(n), by));
        worker->sum += (n % 2 ? 1 : 2) * block * by;
        if (i % 500 == 499)
            TRY(cuStreamSynchronize(streams[n / 2]));
    }
    return 0;
}

static void *
thread_run(void *arg)
{
    struct worker *worker = arg;

    worker->bad = thread_work(worker);
    return NULL;
}

static int
threads(void)
{
    struct worker workers[THREADS] = {0};
    int bad = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        SAME(pthread_create(&workers[i].thread, NULL, thread_run, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        bad |= workers[i].bad;
    }
    for (unsigned i = 0; i < THREADS; i++)
        bad |= is(i, workers[i].sum);
    return bad;
}

static int
begin(void)
{
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&add, module, "add"));
    TRY(cuModuleGetFunction(&twice, module, "twice"));
    TRY(cuModuleGetFunction(&odd, module, "odd"));
    TRY(cuModuleGetFunction(&count, module, "count"));
    for (unsigned i = 0; i < STREAMS; i++)
        TRY(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&counters, 4 * COUNTERS));
    TRY(cuMemsetD32_v2(counters, 0, COUNTERS));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"one shape again and again", again_and_again},
        {"many shapes in turns", many_shapes},
        {"every dimension", every_dimension},
        {"few parameters and none", few_parameters_and_none},
        {"ready-made parameters", ready_made_parameters},
        {"extended launches", extended},
        {"other calls between", other_calls_between},
        {"captures", captures},
        {"refused", refused},
        {"more shared memory", more_shared_memory},
        {"streams that go", streams_that_go},
        {"modules that go", modules_that_go},
        {"contexts in turns", contexts_in_turns},
        {"threads", threads},
    };

    strict = strict_asked(argc, argv);
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
