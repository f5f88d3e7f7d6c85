/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel nodes of an instance that get other arguments again and again, and what the
 * driver refuses in between: such calls return their error at once, whatever the
 * library has seen accepted before.  And what whole graphs may change in an instance.
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
static CUdeviceptr cells, field; /* two words; four rows of 64 bytes */
static CUcontext context;
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

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, dev));
    TRY(cuCtxSetCurrent(context));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&put, module, "put"));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&cells, 8));
    TRY(cuMemAlloc_v2(&field, 256));
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

/* ---- whole graphs ------------------------------------------------------------ */

/* A fill of @width by @height words, after @dep. */
static CUresult
fill_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, uint32_t value,
          size_t width, size_t height)
{
    const CUDA_MEMSET_NODE_PARAMS p = {.dst = field,
                                       .pitch = 64,
                                       .value = value,
                                       .elementSize = 4,
                                       .width = width,
                                       .height = height};

    return cuGraphAddMemsetNode(ret, g, dep, dep ? 1 : 0, &p, context);
}

static int
word_of_field(size_t at, uint32_t *ret)
{
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(ret, field + 4 * at, 4));
    return 0;
}

/* A fill of two dimensions gets another address and value only. */
static int
fills_of_two_dimensions(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraph g, other;
    CUgraphNode n;
    CUgraphExec e;
    uint32_t v;

    TRY(cuGraphCreate(&g, 0));
    TRY(fill_node(&n, g, NULL, 1, 4, 2));
    TRY(cuGraphInstantiateWithFlags(&e, g, 0));
    TRY(cuGraphCreate(&other, 0));
    TRY(fill_node(&n, other, NULL, 2, 4, 3));
    CODE(cuGraphExecUpdate_v2(e, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    SAME(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    SAME(info.errorNode == n, 1);
    SAME(info.errorFromNode == NULL, 1);
    TRY(cuGraphDestroy(other));
    TRY(cuGraphCreate(&other, 0));
    TRY(fill_node(&n, other, NULL, 3, 4, 2));
    TRY(cuGraphExecUpdate_v2(e, other, &info));
    TRY(cuGraphLaunch(e, stream));
    if (word_of_field(16, &v))
        return 1;
    SAME(v, 3);
    TRY(cuGraphExecDestroy(e));
    TRY(cuGraphDestroy(other));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* Two nodes, and behind @which of them a third. */
static int
three_nodes(CUgraph *ret, CUgraphNode n[3], int which)
{
    TRY(cuGraphCreate(ret, 0));
    for (int i = 0; i < 2; i++)
        TRY(cuGraphAddEmptyNode(&n[i], *ret, NULL, 0));
    return cuGraphAddEmptyNode(&n[2], *ret, &n[which], 1) != CUDA_SUCCESS;
}

static int
other_dependencies(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode n[3];
    CUgraph g, other;
    CUgraphExec e;

    if (three_nodes(&g, n, 0))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&e, g, 0));
    if (three_nodes(&other, n, 1))
        return 1;
    CODE(cuGraphExecUpdate_v2(e, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    SAME(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    SAME(info.errorNode == n[2], 1);
    SAME(info.errorFromNode == n[1], 1); /* the dependency that was another one */
    TRY(cuGraphExecDestroy(e));
    TRY(cuGraphDestroy(other));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* What a child graph's node may become, and a node in it that is disabled. */
static int
children(void)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraph g, child, like, unlike, longer;
    CUgraphNode outer, inner, n;
    CUgraphExec e;
    uint32_t v;

    TRY(cuGraphCreate(&child, 0));
    TRY(fill_node(&n, child, NULL, 5, 1, 1));
    TRY(cuGraphCreate(&like, 0));
    TRY(fill_node(&n, like, NULL, 6, 1, 1));
    TRY(cuGraphCreate(&unlike, 0));
    TRY(cuGraphAddEmptyNode(&n, unlike, NULL, 0));
    TRY(cuGraphCreate(&longer, 0));
    TRY(fill_node(&n, longer, NULL, 7, 1, 1));
    TRY(fill_node(&n, longer, &n, 8, 1, 1));

    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddChildGraphNode(&outer, g, NULL, 0, child));
    TRY(cuGraphInstantiateWithFlags(&e, g, 0));
    CODE(cuGraphExecChildGraphNodeSetParams(e, outer, unlike),
         CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphExecChildGraphNodeSetParams(e, outer, longer),
         CUDA_ERROR_INVALID_VALUE);
    p.graph.graph = longer;
    CODE(cuGraphExecNodeSetParams(e, outer, &p), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphLaunch(e, stream));
    if (word_of_field(0, &v))
        return 1;
    SAME(v, 5);
    TRY(cuGraphExecChildGraphNodeSetParams(e, outer, like));
    TRY(cuGraphLaunch(e, stream));
    if (word_of_field(0, &v))
        return 1;
    SAME(v, 6);

    TRY(cuGraphChildGraphNodeGetGraph(outer, &child));
    v = 1;
    TRY(cuGraphGetNodes(child, &inner, &(size_t){1}));
    TRY(cuGraphNodeSetEnabled(e, inner, 0));
    TRY(cuGraphExecUpdate_v2(e, g, &(CUgraphExecUpdateResultInfo){0}));
    TRY(cuGraphNodeGetEnabled(e, inner, &v));
    SAME(v, 0);
    TRY(cuGraphExecDestroy(e));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* ---- what is gone ------------------------------------------------------------ */

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
        {"fills of two dimensions", fills_of_two_dimensions},
        {"other dependencies", other_dependencies},
        {"children", children},
        {"gone", gone},
    };

    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
