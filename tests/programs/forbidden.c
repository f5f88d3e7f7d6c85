/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from within functions that run in stream order, which CUDA forbids: each fails
 * with CUDA_ERROR_NOT_PERMITTED, also where it would wait for the very function that
 * makes it.  Some of CUDA's own runs of such calls never return, so this is for drivers
 * that say no.
 *
 * Knows CUDA and nothing of gpupool.
 */
#include "parts.h"

#define SIZE ((size_t)1 << 20)
#define CALLS 12

static CUcontext ctx;
static CUstream stream;
static CUevent event;
static CUdeviceptr memory;
static CUresult results[CALLS];
static unsigned n_results;

static void
say(CUresult r)
{
    results[n_results++] = r;
}

static void
make_calls(void)
{
    static char bytes[64];
    CUdeviceptr another = 0;
    size_t free_bytes, total;

    n_results = 0;
    say(cuCtxSetCurrent(ctx));
    say(cuMemFree_v2(memory)); /* waits for this function, where it is made */
    say(cuCtxSynchronize());
    say(cuStreamSynchronize(stream));
    say(cuEventSynchronize(event));
    say(cuMemAlloc_v2(&another, SIZE));
    say(cuMemcpyDtoH_v2(bytes, memory, sizeof(bytes)));
    say(cuMemsetD8Async(memory, 7, SIZE, stream));
    say(cuMemGetInfo_v2(&free_bytes, &total));
    say(cuEventRecord(event, stream));
    say(cuLaunchHostFunc(stream, (CUhostFn)abort, NULL));
    say(cuStreamDestroy_v2(stream));
}

static void
function(void *unused)
{
    (void)unused;
    make_calls();
}

static void
callback(CUstream of, CUresult status, void *unused)
{
    (void)of, (void)status, (void)unused;
    make_calls();
}

/* All were refused, and none has done anything. */
static int
all_refused(void)
{
    unsigned char byte = 0;

    TRY(cuCtxSynchronize());
    SAME(n_results, CALLS);
    for (unsigned i = 0; i < CALLS; i++) {
        if (results[i] != CUDA_ERROR_NOT_PERMITTED)
            printf("call %u: %d\n", i, (int)results[i]);
        SAME(results[i], CUDA_ERROR_NOT_PERMITTED);
    }
    TRY(cuMemcpyDtoH_v2(&byte, memory + SIZE - 1, 1));
    SAME(byte, 1);
    return 0;
}

static int
from_functions(void)
{
    TRY(cuMemsetD8Async(memory, 1, SIZE, stream));
    TRY(cuEventRecord(event, stream));
    TRY(cuLaunchHostFunc(stream, function, NULL));
    return all_refused();
}

static int
from_callbacks(void)
{
    TRY(cuMemsetD8Async(memory, 1, SIZE, stream));
    TRY(cuStreamAddCallback(stream, callback, NULL, 0));
    return all_refused();
}

static int
from_nodes(void)
{
    CUDA_HOST_NODE_PARAMS params = {.fn = function};
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        TRY(cuGraphLaunch(exec, stream));
        if (all_refused() != 0)
            return 1;
    }
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* What was refused is permitted again. */
static int
afterwards(void)
{
    unsigned char byte = 0;

    TRY(cuMemsetD8Async(memory, 9, SIZE, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(&byte, memory, 1));
    SAME(byte, 9);
    TRY(cuMemFree_v2(memory));
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

static const struct part parts[] = {
    {"from functions", from_functions},
    {"from callbacks", from_callbacks},
    {"from nodes of graphs", from_nodes},
    {"afterwards", afterwards},
};

int
main(void)
{
    CUdevice device;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, device));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuMemAlloc_v2(&memory, SIZE));
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
