/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libraries ask for again and again, and small copies: the state of the primary
 * context, occupancy, memory that was mapped, single values.  The client library knows
 * most of the answers, so each is asked for before and after everything that changes
 * it.
 *
 * The same program prints the same on a card of its own and over every transport.
 */
#include "parts.h"
#include "strict.h"

#include <stdint.h>

#define TIMES 40
#define BIG_SHARED (60 * 1024)

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry first(.param .u64 p, .param .u32 v)\n{\n"
                          " .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
                          " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
                          " st.global.u32 [%d1], %r1; ret;\n}\n"
                          ".visible .entry second()\n{\n"
                          " .shared .align 8 .b8 much[30000];\n ret;\n}\n";

static CUdevice dev;
static CUcontext ctx;
static bool strict;

static int
state(const char *when)
{
    unsigned flags = 77;
    int active = 77;

    TRY(cuDevicePrimaryCtxGetState(dev, &flags, &active));
    printf("%s: flags %u, active %d\n", when, flags, active);
    return 0;
}

static int
primary(void)
{
    CUcontext other;

    state("at first");
    TRY(cuDevicePrimaryCtxSetFlags_v2(dev, CU_CTX_SCHED_YIELD));
    state("with flags");
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    state("retained");
    TRY(cuDevicePrimaryCtxRetain(&other, dev));
    TRY(cuDevicePrimaryCtxRelease_v2(dev));
    state("released once");
    TRY(cuDevicePrimaryCtxRelease_v2(dev));
    state("released twice");
    printf("refused: %d %d\n", (int)cuDevicePrimaryCtxGetState(dev, NULL, NULL),
           (int)cuDevicePrimaryCtxGetState(99, NULL, NULL));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuDevicePrimaryCtxReset_v2(dev));
    state("reset");
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
    for (int i = 0; i < TIMES; i++)
        if (i == 0 || i == TIMES - 1)
            state("again");
        else
            TRY(cuDevicePrimaryCtxGetState(dev, &(unsigned){0}, &(int){0}));
    return 0;
}

static int
occupancy_of(const char *name, CUfunction f, const char *when)
{
    static const int blocks[] = {32, 128, 1024};
    static const size_t shared[] = {0, 20000, BIG_SHARED};

    for (size_t i = 0; i < 9; i++) {
        int n = -1;
        CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, blocks[i / 3],
                                                                 shared[i % 3]);

        printf("%s, %s: %d of %zu: %d (%d)\n", name, when, blocks[i / 3], shared[i % 3],
               n, (int)r);
    }
    return 0;
}

static int
occupancy(void)
{
    for (int turn = 0; turn < 2; turn++) {
        CUmodule module;
        CUfunction f, g;
        int n;

        TRY(cuModuleLoadData(&module, ptx));
        TRY(cuModuleGetFunction(&f, module, turn ? "second" : "first"));
        TRY(cuModuleGetFunction(&g, module, turn ? "first" : "second"));
        occupancy_of("f", f, "fresh");
        TRY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               BIG_SHARED));
        occupancy_of("f", f, "set");
        occupancy_of("g", g, "fresh");
        TRY(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
        occupancy_of("f", f, "set");
        for (int i = 0; i < TIMES; i++)
            TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, f, 128, 0, 0));
        TRY(cuModuleUnload(module));
        if (!strict)
            continue;
        n = (int)cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 128, 0);
        if (strict)
            printf("unloaded: %d\n", n);
    }
    return 0;
}

/* Of each attribute that every driver has, and one that none has. */
static int
attributes_of(CUfunction f, const char *when)
{
    for (int i = 0; i < 11; i++) {
        CUfunction_attribute which = (CUfunction_attribute)(i < 10 ? i : 99);
        int value = -1;
        CUresult r = cuFuncGetAttribute(&value, which, f);

        printf("%s %d: %d (%d)\n", when, i, value, (int)r);
    }
    return 0;
}

static int
attributes(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;
    CUfunction f, g;
    int value;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&f, module, "first"));
    TRY(cuModuleGetFunction(&g, module, "second"));
    attributes_of(f, "fresh");
    TRY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           BIG_SHARED));
    TRY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    attributes_of(f, "set");
    attributes_of(g, "another");
    for (int i = 0; i < TIMES; i++)
        TRY(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, g));
    printf("refused: %d\n",
           (int)cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, g));
    TRY(cuModuleUnload(module));
    if (strict)
        printf("unloaded: %d\n",
               (int)cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, g));
    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&kernel, library, "second"));
    for (int i = 0; i < 2; i++) {
        CUfunction_attribute which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

        TRY(cuKernelGetAttribute(&value, which, kernel, dev));
        printf("of a kernel: %d\n", value);
        TRY(cuKernelGetFunction(&f, kernel));
        TRY(cuFuncGetAttribute(&value, which, f));
        printf("of its function: %d\n", value);
        TRY(cuKernelSetAttribute(which, BIG_SHARED / 2, kernel, dev));
    }
    TRY(cuLibraryUnload(library));
    return 0;
}

static int
mapped(void)
{
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    CUmemAccessDesc desc = {kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    uint32_t *host, back = 0;
    CUdeviceptr at;
    size_t size;

    TRY(cuMemGetAllocationGranularity(&size, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    TRY(cuMemHostAlloc((void **)&host, 4096, 0));
    TRY(cuMemAddressReserve(&at, size, 0, 0, 0));
    TRY(cuMemCreate(&handle, size, &kind, 0));
    TRY(cuMemMap(at, size, 0, handle, 0));
    TRY(cuMemSetAccess(at, size, &desc, 1));
    for (uint32_t i = 0; i < TIMES; i++) {
        host[i] = i * 3;
        TRY(cuMemcpyHtoDAsync_v2(at + i * 4, &host[i], 4, NULL));
    }
    TRY(cuMemsetD32Async(at, 9, 1, NULL));
    TRY(cuCtxSynchronize());
    memset(host, 0, 4096);
    for (uint32_t i = 0; i < TIMES; i++)
        TRY(cuMemcpyDtoHAsync_v2(&host[i], at + i * 4, 4, NULL));
    TRY(cuStreamSynchronize(NULL));
    printf("mapped: %u %u %u\n", host[0], host[1], host[TIMES - 1]);
    TRY(cuMemUnmap(at, size));
    printf("unmapped: %d\n", (int)cuMemcpyDtoH_v2(&back, at, 4));
    TRY(cuMemMap(at, size, 0, handle, 0));
    TRY(cuMemSetAccess(at, size, &desc, 1));
    TRY(cuMemcpyDtoH_v2(&back, at + 4, 4));
    printf("mapped again: %u\n", back);
    TRY(cuMemUnmap(at, size));
    TRY(cuMemRelease(handle));
    TRY(cuMemAddressFree(at, size));
    TRY(cuMemFreeHost(host));
    return 0;
}

/* `.item()`: a kernel, its value down into page-locked memory, a wait. */
static int
single_values(void)
{
    uint32_t *host, sum = 0;
    CUmodule module;
    CUfunction f;
    CUdeviceptr at;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&f, module, "first"));
    TRY(cuMemAlloc_v2(&at, 4096));
    TRY(cuMemHostAlloc((void **)&host, 4096, 0));
    for (uint32_t i = 0; i < TIMES; i++) {
        void *args[] = {&at, &i};

        TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        TRY(cuMemcpyDtoHAsync_v2(host, at, 4, NULL));
        TRY(cuStreamSynchronize(NULL));
        sum += *host;
    }
    printf("sum of values: %u\n", sum);
    TRY(cuMemFreeHost(host));
    TRY(cuMemFree_v2(at));
    TRY(cuModuleUnload(module));
    return 0;
}

/* Each is recorded in a stream that waits for a word of the card's memory. */
static int
events_that_are_not_done(CUstream other)
{
    CUstream held, gone;
    CUdeviceptr word;
    CUevent e[2];

    TRY(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&word, 4));
    TRY(cuMemsetD32_v2(word, 0, 1));
    for (int i = 0; i < 2; i++)
        TRY(cuEventCreate(&e[i], 0));
    /* Known to be done, and recorded again. */
    TRY(cuEventRecord(e[0], held));
    TRY(cuStreamSynchronize(held));
    TRY(cuEventQuery(e[0]));
    TRY(cuStreamWaitValue32_v2(held, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuEventRecord(e[0], held));
    TRY(cuStreamWaitValue32_v2(gone, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuEventRecord(e[1], gone));
    TRY(cuStreamSynchronize(other));
    printf("held: %d %d\n", (int)cuEventQuery(e[0]), (int)cuEventQuery(e[1]));
    TRY(cuStreamDestroy_v2(gone));
    TRY(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamSynchronize(gone));
    printf("its stream is gone: %d\n", (int)cuEventQuery(e[1]));
    TRY(cuStreamWriteValue32_v2(other, word, 1, 0));
    TRY(cuEventSynchronize(e[0]));
    TRY(cuEventSynchronize(e[1]));
    printf("let go: %d %d\n", (int)cuEventQuery(e[0]), (int)cuEventQuery(e[1]));
    TRY(cuEventDestroy_v2(e[0]));
    if (strict)
        printf("destroyed: %d\n", (int)cuEventQuery(e[0]));
    TRY(cuEventDestroy_v2(e[1]));
    TRY(cuMemFree_v2(word));
    TRY(cuStreamDestroy_v2(held));
    TRY(cuStreamDestroy_v2(gone));
    return 0;
}

/* Events that a wait has covered, and those that no wait has. */
static int
events(void)
{
    CUstream stream, other;
    CUevent e[4];
    CUdeviceptr at;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    int wrong = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&at, 1 << 20));
    for (int i = 0; i < 4; i++)
        TRY(cuEventCreate(&e[i], 0));
    printf("never recorded: %d\n", (int)cuEventQuery(e[0]));
    /* A graph that records no event changes nothing. */
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    for (int i = 0; i < TIMES; i++) {
        TRY(cuMemsetD8Async(at, 1, 1 << 20, stream));
        TRY(cuEventRecord(e[i % 2], stream));
        TRY(cuStreamSynchronize(stream));
        wrong += cuEventQuery(e[i % 2]) != CUDA_SUCCESS;
        TRY(cuEventRecord(e[2], NULL));
        TRY(cuCtxSynchronize());
        wrong += cuEventQuery(e[2]) != CUDA_SUCCESS;
        TRY(cuEventRecord(e[3], other));
        TRY(cuEventSynchronize(e[3]));
        wrong += cuEventQuery(e[3]) != CUDA_SUCCESS;
    }
    printf("waited for, but not done: %d\n", wrong);
    if (events_that_are_not_done(other))
        return 1;
    /* A graph that records an event changes what was known of it. */
    TRY(cuEventRecord(e[0], stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEventRecordNode(&node, graph, NULL, 0, e[0]));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    printf("by a graph: %d\n", (int)cuEventQuery(e[0]));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    for (int i = 0; i < 4; i++)
        TRY(cuEventDestroy_v2(e[i]));
    TRY(cuMemFree_v2(at));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuStreamDestroy_v2(other));
    return 0;
}

/* A wait for the context leaves nothing that a short copy would have to wait for, also
 * in a program that has streams; with work in between it has. */
static int
uploads_behind_waits(void)
{
    CUstream stream;
    CUdeviceptr at;
    int host[1024], got, wrong = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    TRY(cuMemAlloc_v2(&at, sizeof(host)));
    for (int i = 0; i < TIMES; i++) {
        TRY(cuCtxSynchronize());
        for (int k = 0; k < 1024; k++)
            host[k] = i + k;
        TRY(cuMemcpyHtoD_v2(at, host, sizeof(host)));
        host[1023] = -1;
        TRY(cuMemcpyDtoH_v2(&got, at + sizeof(host) - sizeof(got), sizeof(got)));
        wrong += got != i + 1023;
        TRY(cuMemsetD8Async(at, 1, sizeof(host), stream));
        TRY(cuCtxSynchronize());
        TRY(cuMemsetD8Async(at, 2, sizeof(host), stream));
        TRY(cuMemcpyHtoD_v2(at, &i, sizeof(i)));
        TRY(cuMemcpyDtoH_v2(&got, at, sizeof(got)));
        wrong += got != i;
    }
    printf("uploads that came wrong: %d\n", wrong);
    TRY(cuMemFree_v2(at));
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"primary context", primary}, {"uploads behind waits", uploads_behind_waits},
        {"occupancy", occupancy},     {"attributes", attributes},
        {"mapped memory", mapped},    {"single values", single_values},
        {"events", events},
    };

    strict = strict_asked(argc, argv);
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&dev, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
