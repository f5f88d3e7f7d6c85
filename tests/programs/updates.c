/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel nodes of an instance that get other arguments again and again, and what the
 * driver refuses in between: such calls return their error at once, whatever the
 * library has seen accepted before.
 */
#include "parts.h"

#include <stdint.h>

#define TIMES 40

/* put(p, v): *p = v. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p, .param .u32 v)\n{\n"
                          " .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
                          " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
                          " st.global.u32 [%d1], %r1; ret;\n}\n";

static CUmodule module;
static CUfunction put;
static CUstream stream;
static CUdeviceptr cells;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode nodes[2];

/* A node that writes @value into cell @n; valid until the next one is described. */
static CUDA_KERNEL_NODE_PARAMS
node_of(unsigned n, uint32_t value, unsigned threads, unsigned shared)
{
    static CUdeviceptr cell;
    static uint32_t written;
    static void *args[] = {&cell, &written};

    cell = cells + 4 * n;
    written = value;
    return (CUDA_KERNEL_NODE_PARAMS){.func = put,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = shared,
                                     .kernelParams = args};
}

/* What the call with these values and this many threads returns. */
static CUresult
set(unsigned n, uint32_t value, unsigned threads, unsigned shared)
{
    CUDA_KERNEL_NODE_PARAMS params = node_of(n, value, threads, shared);

    return cuGraphExecKernelNodeSetParams_v2(exec, nodes[n], &params);
}

static int
launched(uint32_t first, uint32_t second)
{
    uint32_t got[2] = {0};

    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(got, cells, sizeof(got)));
    SAME(got[0], first);
    SAME(got[1], second);
    return 0;
}

static int
add(unsigned n, uint32_t value)
{
    CUDA_KERNEL_NODE_PARAMS params = node_of(n, value, 1, 0);

    TRY(cuGraphAddKernelNode_v2(&nodes[n], graph, NULL, 0, &params));
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
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&put, module, "put"));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&cells, 8));
    TRY(cuGraphCreate(&graph, 0));
    if (add(0, 1) || add(1, 2))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return launched(1, 2);
}

static int
other_values(void)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        TRY(set(i % 2, 100 + i, 1, 0));
        if (i % 4 == 3 && launched(99 + i, 100 + i))
            return 1;
    }
    return 0;
}

static int
refused_at_once(void)
{
    CODE(set(0, 7, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(set(0, 7, 0, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(set(0, 7, 1, 1u << 30), CUDA_ERROR_INVALID_VALUE);
    TRY(set(0, 8, 32, 0)); /* another shape */
    TRY(set(0, 9, 32, 0));
    return launched(9, 139);
}

/* What was accepted with much shared memory is not once the kernel may have less. */
static int
attribute_of_the_kernel(void)
{
    CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

    TRY(cuFuncSetAttribute(put, most, 60 * 1024));
    TRY(set(1, 20, 1, 56 * 1024));
    TRY(set(1, 21, 1, 56 * 1024));
    TRY(cuFuncSetAttribute(put, most, 1024));
    printf("less than before: %d\n", (int)set(1, 22, 1, 56 * 1024));
    TRY(set(1, 23, 1, 0));
    return launched(9, 23);
}

/* Of a node, a graph and an instance that are gone. */
static int
gone(void)
{
    TRY(cuGraphDestroyNode(nodes[1]));
    CODE(set(1, 30, 1, 0), CUDA_ERROR_INVALID_VALUE);
    nodes[1] = nodes[0];
    TRY(set(0, 31, 32, 0));
    TRY(cuGraphDestroy(graph));
    printf("of a graph that is gone: %d\n", (int)set(0, 32, 32, 0));
    TRY(cuGraphExecDestroy(exec));
    CODE(set(0, 33, 32, 0), CUDA_ERROR_INVALID_VALUE);
    TRY(cuModuleUnload(module));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"other values", other_values},
        {"refused at once", refused_at_once},
        {"attribute of the kernel", attribute_of_the_kernel},
        {"gone", gone},
    };

    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
