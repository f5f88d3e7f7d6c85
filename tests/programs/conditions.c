/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that decide while they run, that hold memory, and that change.
 */
#include "parts.h"
#include "strict.h"

#define N 16u

/* add(out, v): out[0] += v.  decide(handle, out, limit): the condition becomes
 * out[0] < limit.  choose(handle, v): the condition becomes v. */
static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
    ".visible .entry add(.param .u64 out, .param .u32 v)\n"
    "{\n"
    "    .reg .b64 %rd1;\n"
    "    .reg .b32 %r<3>;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    ld.param.u32 %r1, [v];\n"
    "    ld.global.u32 %r2, [%rd1];\n"
    "    add.s32 %r2, %r2, %r1;\n"
    "    st.global.u32 [%rd1], %r2;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry decide(.param .u64 h, .param .u64 out, .param .u32 limit)\n"
    "{\n"
    "    .reg .b64 %rd<3>;\n"
    "    .reg .b32 %r<4>;\n"
    "    .reg .pred %p1;\n"
    "    ld.param.u64 %rd1, [h];\n"
    "    ld.param.u64 %rd2, [out];\n"
    "    ld.param.u32 %r1, [limit];\n"
    "    ld.global.u32 %r2, [%rd2];\n"
    "    setp.lt.u32 %p1, %r2, %r1;\n"
    "    selp.u32 %r3, 1, 0, %p1;\n"
    "    {\n"
    "    .param .b64 p0;\n"
    "    .param .b32 p1;\n"
    "    st.param.b64 [p0], %rd1;\n"
    "    st.param.b32 [p1], %r3;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1);\n"
    "    }\n"
    "    ret;\n"
    "}\n"
    ".visible .entry choose(.param .u64 h, .param .u32 v)\n"
    "{\n"
    "    .reg .b64 %rd1;\n"
    "    .reg .b32 %r1;\n"
    "    ld.param.u64 %rd1, [h];\n"
    "    ld.param.u32 %r1, [v];\n"
    "    {\n"
    "    .param .b64 p0;\n"
    "    .param .b32 p1;\n"
    "    st.param.b64 [p0], %rd1;\n"
    "    st.param.b32 [p1], %r1;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1);\n"
    "    }\n"
    "    ret;\n"
    "}\n";

static CUcontext ctx;
static CUfunction add, decide, choose;
static CUdeviceptr out;
static CUstream stream;
static bool strict;

static int
word(CUdeviceptr p, uint32_t *ret)
{
    return cuStreamSynchronize(stream) || cuMemcpyDtoH_v2(ret, p, sizeof(*ret));
}

/* Launch from 0 and return what the word is then; -1 on an error. */
static long
launch_from_zero(CUgraphExec exec)
{
    uint32_t v;

    if (cuMemsetD32Async(out, 0, 1, stream) || cuGraphLaunch(exec, stream) ||
        word(out, &v))
        return -1;
    return (long)v;
}

static CUresult
kernel_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, CUfunction f,
            void **params)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    p.kernel.func = f;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = params;
    return cuGraphAddNode_v2(ret, g, dep, NULL, dep ? 1 : 0, &p);
}

static CUresult
add_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, uint32_t v)
{
    void *params[] = {&out, &v};

    return kernel_node(ret, g, dep, add, params);
}

static CUresult
decide_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep,
            CUgraphConditionalHandle h, uint32_t limit)
{
    void *params[] = {&h, &out, &limit};

    return kernel_node(ret, g, dep, decide, params);
}

static CUresult
choose_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep,
            CUgraphConditionalHandle h, uint32_t v)
{
    void *params[] = {&h, &v};

    return kernel_node(ret, g, dep, choose, params);
}

/* A conditional node; its bodies come back in @bodies. */
static CUresult
cond_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep,
          CUgraphConditionalHandle h, CUgraphConditionalNodeType type, unsigned n,
          CUgraph *bodies)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUresult r;

    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = n;
    p.conditional.ctx = ctx;
    r = cuGraphAddNode_v2(ret, g, dep, NULL, dep ? 1 : 0, &p);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++)
        bodies[i] = p.conditional.phGraph_out[i];
    return r;
}

static int
if_and_else(void)
{
    CUgraphConditionalHandle h;
    CUgraphNode n[4];
    CUgraph g, body[2];
    CUgraphExec exec, small;

    for (uint32_t limit = 0; limit < 2; limit++) {
        TRY(cuGraphCreate(&g, 0));
        TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 0, 0));
        TRY(decide_node(&n[0], g, NULL, h, limit));
        TRY(cond_node(&n[1], g, &n[0], h, CU_GRAPH_COND_TYPE_IF, 2, body));
        TRY(add_node(&n[2], body[0], NULL, 10));
        TRY(add_node(&n[2], body[1], NULL, 20));
        TRY(add_node(&n[3], g, &n[1], 1));
        TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
        TRY(cuGraphDestroy(g)); /* the instance has its own of everything */
        SAME(launch_from_zero(exec), limit ? 11 : 21);
        SAME(launch_from_zero(exec), limit ? 11 : 21);
        TRY(cuGraphExecDestroy(exec));
    }
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    TRY(cond_node(&n[0], g, NULL, h, CU_GRAPH_COND_TYPE_IF, 1, body));
    TRY(add_node(&n[1], body[0], NULL, 5));
    TRY(choose_node(&n[2], body[0], &n[1], h, 0)); /* until the next launch */
    TRY(cuGraphInstantiateWithFlags(&small, g, 0));
    SAME(launch_from_zero(small), 5);
    SAME(launch_from_zero(small), 5);
    TRY(cuGraphExecDestroy(small));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
loops(void)
{
    CUgraphConditionalHandle h, inner;
    CUgraphNode n[6];
    CUgraph g, body, nested;
    CUgraphExec exec;

    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    TRY(cond_node(&n[0], g, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, &body));
    TRY(add_node(&n[1], body, NULL, 3));
    TRY(decide_node(&n[2], body, &n[1], h, 1000));
    TRY(add_node(&n[3], g, &n[0], 1));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 1003);
    SAME(launch_from_zero(exec), 1003);
    TRY(cuGraphExecDestroy(exec));

    /* A second loop inside the first one's body. */
    TRY(cuGraphConditionalHandleCreate(&inner, g, ctx, 1,
                                       CU_GRAPH_COND_ASSIGN_DEFAULT));
    TRY(choose_node(&n[4], body, NULL, inner, 0));
    TRY(cond_node(&n[5], body, &n[4], inner, CU_GRAPH_COND_TYPE_IF, 1, &nested));
    TRY(add_node(&n[4], nested, NULL, 100000));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 1003);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
switches(void)
{
    CUgraphConditionalHandle h;
    CUgraphNode n[3];
    CUgraph g, body[3];
    CUgraphExec exec;

    for (uint32_t v = 0; v < 5; v++) {
        TRY(cuGraphCreate(&g, 0));
        TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 0, 0));
        TRY(choose_node(&n[0], g, NULL, h, v));
        TRY(cond_node(&n[1], g, &n[0], h, CU_GRAPH_COND_TYPE_SWITCH, 3, body));
        for (uint32_t i = 0; i < 3; i++)
            TRY(add_node(&n[2], body[i], NULL, 7 + i));
        TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
        SAME(launch_from_zero(exec), v < 3 ? 7 + v : 0);
        TRY(cuGraphExecDestroy(exec));
        TRY(cuGraphDestroy(g));
    }
    return 0;
}

/* A body filled by capture, and changed in the instance. */
static int
captured_bodies(void)
{
    CUgraphConditionalHandle h;
    CUgraphNode n[2], seen[2];
    uint32_t nine = 9, four = 4;
    void *params[] = {&out, &nine}, *changed[] = {&out, &four};
    CUDA_KERNEL_NODE_PARAMS k = {.func = add,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = changed};
    CUgraph g, body, same;
    CUgraphExec exec;
    size_t count = 2;

    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    TRY(cond_node(&n[0], g, NULL, h, CU_GRAPH_COND_TYPE_IF, 1, &body));
    TRY(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0,
                                    CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    TRY(cuStreamEndCapture(stream, &same));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 9);
    TRY(cuGraphGetNodes(body, seen, &count));
    SAME(count, 1);
    TRY(cuGraphExecKernelNodeSetParams_v2(exec, seen[0], &k));
    SAME(launch_from_zero(exec), 4);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
wrong_conditions(void)
{
    CUgraphConditionalHandle h, other;
    CUgraphNodeParams host = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    CUgraphNode n[2];
    CUgraph g, clone, body[2];
    CUgraphExec exec;
    CUevent event;

    TRY(cuGraphCreate(&g, 0));
    CODE(cuGraphConditionalHandleCreate(&h, g, ctx, 0, 8), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphConditionalHandleCreate(&h, g, NULL, 0, 0), CUDA_ERROR_INVALID_CONTEXT);
    TRY(cuGraphConditionalHandleCreate(&h, g, ctx, 0, 0));
    CODE(cuGraphInstantiateWithFlags(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cond_node(&n[0], g, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 2, body),
         CUDA_ERROR_INVALID_VALUE);
    CODE(cond_node(&n[0], g, NULL, h + 1, CU_GRAPH_COND_TYPE_WHILE, 1, body),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cond_node(&n[0], g, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, body));
    CODE(cond_node(&n[1], g, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, body),
         CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphClone(&clone, g), CUDA_ERROR_NOT_SUPPORTED);
    CODE(cuGraphAddChildGraphNode(&n[1], g, NULL, 0, g), CUDA_ERROR_NOT_SUPPORTED);
    TRY(cuEventCreate(&event, 0));
    host.eventRecord.event = event;
    TRY(cuGraphAddNode_v2(&n[1], body[0], NULL, NULL, 0, &host));
    CODE(cuGraphInstantiateWithFlags(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphDestroy(g));
    TRY(cuGraphCreate(&g, 0));
    CODE(cuGraphConditionalHandleCreate(&other, NULL, ctx, 0, 0),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphDestroy(g));
    TRY(cuEventDestroy_v2(event));
    return 0;
}

/* ---- memory ---------------------------------------------------------------- */

/* Allocated, filled, copied and freed while a stream is captured. */
static int
captured_memory(void)
{
    uint32_t *pinned;
    CUdeviceptr p;
    CUgraph g;
    CUgraphExec exec;

    TRY(cuMemHostAlloc((void **)&pinned, N * 4, 0));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemAllocAsync(&p, N * 4, stream));
    TRY(cuMemsetD32Async(p, 77, N, stream));
    TRY(cuMemcpyDtoDAsync_v2(out, p + 4, 4, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuStreamEndCapture(stream, &g));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    TRY(cuGraphDestroy(g)); /* the instance keeps the addresses */
    SAME(launch_from_zero(exec), 77);
    SAME(launch_from_zero(exec), 77);
    CODE(cuMemcpyDtoH_v2(pinned, p, 4), CUDA_ERROR_INVALID_VALUE); /* it is gone */
    TRY(cuGraphExecDestroy(exec));
    TRY(cuMemFreeHost(pinned));
    return 0;
}

/* A graph that leaves its memory to the caller. */
static int
memory_that_stays(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS m = {.bytesize = 4096};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .elementSize = 4, .value = 5, .width = 8, .height = 1};
    cuuint64_t used = 1, high = 0;
    CUgraphNode n[2];
    CUgraphExec exec, again;
    uint32_t v;
    CUgraph g;

    m.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    m.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddMemAllocNode(&n[0], g, NULL, 0, &m));
    fill.dst = m.dptr;
    TRY(cuGraphAddMemsetNode(&n[1], g, &n[0], 1, &fill, ctx));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    CODE(cuGraphInstantiateWithFlags(&again, g, 0), CUDA_ERROR_NOT_SUPPORTED);
    TRY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    if (strict) /* a driver may hold what earlier graphs had */
        SAME(used, 0);
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuMemcpyDtoDAsync_v2(out, m.dptr + 4, 4, stream)); /* at once */
    TRY(word(out, &v));
    SAME(v, 5);
    TRY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    SAME(used >= 4096, 1);
    CODE(settled(cuGraphLaunch(exec, stream)), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFreeAsync(m.dptr, stream));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemFree_v2(m.dptr));
    TRY(cuDeviceGraphMemTrim(0));
    TRY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    if (strict)
        SAME(used, 0);
    TRY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    SAME(high >= 4096, 1);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphInstantiateWithFlags(&again, g,
                                    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    for (int i = 0; i < 3; i++)
        TRY(cuGraphLaunch(again, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemFree_v2(m.dptr));
    TRY(cuGraphExecDestroy(again));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* ---- changes ----------------------------------------------------------------- */

static int
whole_updates(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode n[3], c;
    CUgraph g[3], child;
    CUgraphExec exec;

    for (uint32_t i = 0; i < 3; i++) {
        TRY(cuGraphCreate(&child, 0));
        TRY(add_node(&c, child, NULL, 10 * (i + 1)));
        if (i == 2)
            TRY(cuGraphAddEmptyNode(&c, child, &c, 1));
        TRY(cuGraphCreate(&g[i], 0));
        TRY(add_node(&n[0], g[i], NULL, i));
        TRY(cuGraphAddChildGraphNode(&n[1], g[i], n, 1, child));
        TRY(cuGraphAddEmptyNode(&n[2], g[i], &n[1], 1));
        TRY(cuGraphDestroy(child));
    }
    TRY(cuGraphInstantiateWithFlags(&exec, g[0], 0));
    SAME(launch_from_zero(exec), 10);
    TRY(cuGraphExecUpdate_v2(exec, g[1], &info));
    SAME(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    SAME(launch_from_zero(exec), 21);
    CODE(cuGraphExecUpdate_v2(exec, g[2], &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    SAME(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    SAME(launch_from_zero(exec), 21);
    TRY(cuGraphExecDestroy(exec));
    for (int i = 0; i < 3; i++)
        TRY(cuGraphDestroy(g[i]));
    return 0;
}

/* +@v behind a condition of its own, which is @initial when the graph is launched. */
static int
decided_graph(CUgraph *ret, unsigned initial, uint32_t v,
              CUgraphConditionalNodeType type, CUgraphNode *ret_node)
{
    CUgraphConditionalHandle h;
    CUgraph body;
    CUgraphNode n;

    TRY(cuGraphCreate(ret, 0));
    TRY(cuGraphConditionalHandleCreate(&h, *ret, ctx, initial,
                                       CU_GRAPH_COND_ASSIGN_DEFAULT));
    TRY(cond_node(ret_node, *ret, NULL, h, type, 1, &body));
    TRY(add_node(&n, body, NULL, v));
    if (type == CU_GRAPH_COND_TYPE_WHILE)
        TRY(choose_node(&n, body, &n, h, 0));
    return 0;
}

/* A graph that was built anew has conditions of its own: their values when it is
 * launched come with the update, and what is in the bodies. */
static int
updates_of_conditions(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph g, next;

    if (decided_graph(&g, 1, 5, CU_GRAPH_COND_TYPE_IF, &node))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 5);
    if (decided_graph(&next, 1, 6, CU_GRAPH_COND_TYPE_IF, &node))
        return 1;
    TRY(cuGraphExecUpdate_v2(exec, next, &info));
    TRY(cuGraphDestroy(next));
    SAME(launch_from_zero(exec), 6);
    if (decided_graph(&next, 0, 7, CU_GRAPH_COND_TYPE_IF, &node))
        return 1;
    TRY(cuGraphExecUpdate_v2(exec, next, &info));
    TRY(cuGraphDestroy(next));
    SAME(launch_from_zero(exec), 0);
    if (decided_graph(&next, 1, 8, CU_GRAPH_COND_TYPE_WHILE, &node))
        return 1;
    CODE(cuGraphExecUpdate_v2(exec, next, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    SAME(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    SAME(info.errorNode == node, 1);
    TRY(cuGraphDestroy(next));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* Edges that say more than "after". */
static int
programmatic_edges(void)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                            .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                    told[2], odd = {.from_port = 7};
    CUgraphNode n[3], from[2], to[2];
    uint32_t five = 5;
    void *params[] = {&out, &five};
    CUgraphExec exec;
    size_t count = 2;
    CUgraph g;

    p.kernel.func = add;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = params;
    TRY(cuGraphCreate(&g, 0));
    TRY(add_node(&n[0], g, NULL, 1));
    CODE(cuGraphAddNode_v2(&n[1], g, n, &odd, 1, &p), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphAddNode_v2(&n[1], g, n, &edge, 1, &p));
    TRY(cuGraphGetEdges_v2(g, from, to, told, &count));
    SAME(count, 1);
    SAME(memcmp(told, &edge, sizeof(edge)), 0);
    CODE(cuGraphGetEdges(g, from, to, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 2;
    CODE(cuGraphNodeGetDependencies(n[1], from, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 2;
    TRY(cuGraphNodeGetDependentNodes_v2(n[0], to, told, &count));
    SAME(told[0].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    TRY(cuGraphRemoveDependencies_v2(g, n, n + 1, NULL, 1)); /* whatever it says */
    TRY(cuGraphAddDependencies_v2(g, n, n + 1, &edge, 1));
    TRY(cuGraphRemoveDependencies_v2(g, n, n + 1, &edge, 1));
    TRY(cuGraphAddDependencies_v2(g, n, n + 1, &edge, 1));
    TRY(cuGraphAddEmptyNode(&n[2], g, NULL, 0));
    CODE(cuGraphAddDependencies_v2(g, n + 2, n + 1, &edge, 1),
         CUDA_ERROR_INVALID_VALUE); /* not from a kernel */
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 6);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* A graph that becomes the child itself, memory and all. */
static int
moved_children(void)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUDA_MEM_ALLOC_NODE_PARAMS m = {.bytesize = 64};
    const CUgraphEdgeData odd = {.from_port = 1}; /* from what is no kernel */
    CUgraphNode n[3], copied, before;
    CUgraph g, child;
    CUgraphExec exec;

    m.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    m.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphCreate(&child, 0));
    TRY(cuGraphAddMemAllocNode(&n[0], child, NULL, 0, &m));
    TRY(add_node(&n[1], child, &n[0], 6));
    TRY(cuGraphAddMemFreeNode(&n[2], child, &n[1], 1, m.dptr));
    CODE(cuGraphAddChildGraphNode(&copied, g, NULL, 0, child),
         CUDA_ERROR_NOT_SUPPORTED);
    p.graph.graph = child;
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    /* A graph that is not moved stays what it was. */
    CODE(cuGraphAddNode_v2(&copied, g, &n[0], NULL, 1, &p), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphAddNode_v2(&copied, child, NULL, NULL, 0, &p),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphAddEmptyNode(&before, g, NULL, 0));
    CODE(cuGraphAddNode_v2(&copied, g, &before, &odd, 1, &p), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphInstantiateWithFlags(&exec, child, 0));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphAddNode_v2(&copied, g, NULL, NULL, 0, &p));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch_from_zero(exec), 6);
    SAME(launch_from_zero(exec), 6);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
start(void)
{
    CUmodule module;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&add, module, "add"));
    TRY(cuModuleGetFunction(&decide, module, "decide"));
    TRY(cuModuleGetFunction(&choose, module, "choose"));
    TRY(cuMemAlloc_v2(&out, N * 4));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"if and else", if_and_else},
        {"loops", loops},
        {"switches", switches},
        {"captured bodies", captured_bodies},
        {"wrong conditions", wrong_conditions},
        {"captured memory", captured_memory},
        {"memory that stays", memory_that_stays},
        {"whole updates", whole_updates},
        {"updates of conditions", updates_of_conditions},
        {"moved children", moved_children},
        {"programmatic edges", programmatic_edges},
    };

    strict = strict_asked(argc, argv);
    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
