/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, graphs, and calls that must fail. */
#include "replay.h"

OP(gnew)
{
    replay_own(REPLAY_GRAPH, a[0]);
    return (int)cuGraphCreate(&rp.graphs[a[0]], (unsigned)a[1]);
}

OP(gd)
{
    CUgraph graph = rp.graphs[a[0]];

    rp.graphs[a[0]] = NULL;
    return graph ? (int)cuGraphDestroy(graph) : NO_OBJECT;
}

OP(gcl)
{
    replay_own(REPLAY_GRAPH, a[0]);
    return rp.graphs[a[1]] ? (int)cuGraphClone(&rp.graphs[a[0]], rp.graphs[a[1]])
                           : NO_OBJECT;
}

OP(gasks)
{
    size_t n = 0, roots = 0, edges = 0;
    CUresult r;

    if (!rp.graphs[a[0]])
        return NO_OBJECT;
    r = cuGraphGetNodes(rp.graphs[a[0]], NULL, &n);
    cuGraphGetRootNodes(rp.graphs[a[0]], NULL, &roots);
    cuGraphGetEdges(rp.graphs[a[0]], NULL, NULL, &edges);
    replay_say(" %zu %zu %zu", n, roots, edges);
    return (int)r;
}

/* NODE GRAPH AFTER LOG VALUE; AFTER: a node, or -1 */
OP(ghost)
{
    CUDA_HOST_NODE_PARAMS p = {replay_function, NULL};

    if (!rp.graphs[a[1]] || (a[2] >= 0 && !rp.nodes[a[2]]))
        return NO_OBJECT;
    p.userData = replay_argument(a[3], a[4]);
    replay_own(REPLAY_NODE, a[0]);
    return (int)cuGraphAddHostNode(&rp.nodes[a[0]], rp.graphs[a[1]],
                                   a[2] < 0 ? NULL : &rp.nodes[a[2]], a[2] >= 0, &p);
}

/* NODE GRAPH AFTER DEVICE N VALUE CONTEXT */
OP(gset)
{
    CUDA_MEMSET_NODE_PARAMS p = {.elementSize = 1,
                                 .width = (size_t)a[4],
                                 .height = 1,
                                 .value = (unsigned)a[5] & 255};

    if (!rp.graphs[a[1]] || (a[2] >= 0 && !rp.nodes[a[2]]) || !rp.devs[a[3]].at ||
        !rp.ctxs[a[6]])
        return NO_OBJECT;
    p.dst = rp.devs[a[3]].at;
    replay_own(REPLAY_NODE, a[0]);
    return (int)cuGraphAddMemsetNode(&rp.nodes[a[0]], rp.graphs[a[1]],
                                     a[2] < 0 ? NULL : &rp.nodes[a[2]], a[2] >= 0, &p,
                                     rp.ctxs[a[6]]);
}

OP(gnd)
{
    CUgraphNode node = rp.nodes[a[0]];

    rp.nodes[a[0]] = NULL;
    return node ? (int)cuGraphDestroyNode(node) : NO_OBJECT;
}

OP(nset)
{
    CUDA_HOST_NODE_PARAMS p = {replay_function, NULL};

    if (!rp.nodes[a[0]])
        return NO_OBJECT;
    p.userData = replay_argument(a[1], a[2]);
    return (int)cuGraphHostNodeSetParams(rp.nodes[a[0]], &p);
}

OP(xset)
{
    CUDA_HOST_NODE_PARAMS p = {replay_function, NULL};

    if (!rp.execs[a[0]] || !rp.nodes[a[1]])
        return NO_OBJECT;
    p.userData = replay_argument(a[2], a[3]);
    return (int)cuGraphExecHostNodeSetParams(rp.execs[a[0]], rp.nodes[a[1]], &p);
}

OP(inst)
{
    replay_own(REPLAY_EXEC, a[0]);
    return rp.graphs[a[1]]
               ? (int)cuGraphInstantiateWithFlags(&rp.execs[a[0]], rp.graphs[a[1]], 0)
               : NO_OBJECT;
}

OP(upd)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r;

    if (!rp.execs[a[0]] || !rp.graphs[a[1]])
        return NO_OBJECT;
    r = cuGraphExecUpdate_v2(rp.execs[a[0]], rp.graphs[a[1]], &info);
    /* Of several differences, which one is named first is not defined, nor what a copy
     * of host memory is made of. */
    if (info.result == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED ||
        info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)
        info.result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    replay_say(" %d", (int)info.result);
    return (int)r;
}

OP(gl)
{
    return rp.execs[a[0]] && replay_stream_is(a[1])
               ? (int)cuGraphLaunch(rp.execs[a[0]], replay_stream(a[1]))
               : NO_OBJECT;
}

OP(xd)
{
    CUgraphExec exec = rp.execs[a[0]];

    rp.execs[a[0]] = NULL;
    return exec ? (int)cuGraphExecDestroy(exec) : NO_OBJECT;
}

/* DEVICE N K STREAM BLOCK */
OP(step)
{
    CUfunction f = replay_kernel(REPLAY_STEP);
    CUdeviceptr at = rp.devs[a[0]].at;
    unsigned n = (unsigned)a[1], k = (unsigned)a[2], block = (unsigned)a[4];
    void *args[] = {&at, &n, &k};

    if (!at || !f || !replay_stream_is(a[3]) || (size_t)n * 4 > rp.devs[a[0]].size)
        return NO_OBJECT;
    return (int)cuLaunchKernel(f, block ? (n + block - 1) / block : 1, 1, 1, block, 1,
                               1, 0, replay_stream(a[3]), args, NULL);
}

/* TO FROM N STREAM */
OP(mix)
{
    CUfunction f = replay_kernel(REPLAY_MIX);
    CUdeviceptr to = rp.devs[a[0]].at, from = rp.devs[a[1]].at;
    unsigned n = (unsigned)a[2];
    void *args[] = {&to, &from, &n};

    if (!to || !from || !f || !replay_stream_is(a[3]) ||
        (size_t)n * 4 > rp.devs[a[0]].size || (size_t)n * 4 > rp.devs[a[1]].size)
        return NO_OBJECT;
    return (int)cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0,
                               replay_stream(a[3]), args, NULL);
}

/* DEVICE N K STREAM TIMES: of one shape, behind each other. */
OP(steps)
{
    CUfunction f = replay_kernel(REPLAY_STEP);
    CUdeviceptr at = rp.devs[a[0]].at;
    unsigned n = (unsigned)a[1], k = (unsigned)a[2];
    void *args[] = {&at, &n, &k};
    CUresult r = CUDA_SUCCESS;

    if (!at || !f || !replay_stream_is(a[3]) || (size_t)n * 4 > rp.devs[a[0]].size)
        return NO_OBJECT;
    for (num i = 0; i < a[4] && r == CUDA_SUCCESS; i++, k++)
        r = cuLaunchKernel(f, (n + 63) / 64, 1, 1, 64, 1, 1, 0, replay_stream(a[3]),
                           args, NULL);
    return (int)r;
}

/* STREAM TIMES GRID BLOCK SHARED: a kernel without parameters, the grid's size in its
 * second dimension, the block's in its third.  On streams of the current context alone:
 * of two mistakes, which one a driver names is not defined. */
OP(idles)
{
    CUfunction f = replay_kernel(REPLAY_IDLE);
    void *args[] = {NULL};
    CUresult r = CUDA_SUCCESS;

    if (!f || !replay_stream_is(a[0]) ||
        (a[0] >= 0 && rp.owner[REPLAY_STREAM][a[0]] != replay_ctx()))
        return NO_OBJECT;
    for (num i = 0; i < a[1] && r == CUDA_SUCCESS; i++)
        r = cuLaunchKernel(f, 1, (unsigned)a[2], 1, 1, 1, (unsigned)a[3],
                           (unsigned)a[4], replay_stream(a[0]), args, NULL);
    return (int)r;
}

/* Calls that no program should make; which one, and an object. */
OP(bad)
{
    CUdeviceptr at = 0;
    CUgraph graph = NULL;
    CUevent event = NULL;
    size_t n = 0;

    switch (a[0]) {
    case 0:
        return (int)cuMemAlloc_v2(&at, 0);
    case 1:
        return (int)cuMemFree_v2(0x1234);
    case 2:
        return (int)cuStreamCreate(NULL, 0);
    case 3:
        return (int)cuEventRecord(NULL, NULL);
    case 4:
        return (int)cuGraphInstantiateWithFlags(NULL, NULL, 0);
    case 5:
        return (int)cuStreamEndCapture(NULL, &graph);
    case 6:
        return (int)cuMemcpyDtoH_v2(NULL, 0, 16);
    case 7:
        return (int)cuMemHostRegister_v2(NULL, 4096, 0);
    case 8:
        return (int)cuEventCreate(&event, 0xff00);
    case 9:
        return (int)cuGraphLaunch(NULL, NULL);
    case 10:
        return (int)cuMemHostAlloc((void **)&at, 0, 0);
    case 11:
        return (int)cuGraphGetNodes(NULL, NULL, &n);
    case 12:
        return (int)cuMemsetD32_v2(1, 0, 4);
    case 13:
        return (int)cuLaunchHostFunc(NULL, NULL, NULL);
    case 14:
        return (int)cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    case 15:
        return (int)cuMemHostUnregister(&at);
    case 16: /* a primary context is released, not destroyed */
        return rp.ctxs[a[1]] ? (int)cuCtxDestroy_v2(rp.ctxs[a[1]]) : NO_OBJECT;
    case 17:
        return (int)cuCtxCreate_v2(NULL, 0, 0);
    case 18:
        return (int)cuDevicePrimaryCtxRelease_v2(100);
    default: /* of other contexts, often */
        return rp.events[a[1]] && rp.streams[a[2]]
                   ? (int)cuEventRecord(rp.events[a[1]], rp.streams[a[2]])
                   : NO_OBJECT;
    }
}

const struct replay_op replay_graph_ops[] = {
    NAMED(gnew),  NAMED(gd),  NAMED(gcl),  NAMED(gasks), NAMED(ghost),
    NAMED(gset),  NAMED(gnd), NAMED(nset), NAMED(xset),  NAMED(inst),
    NAMED(upd),   NAMED(gl),  NAMED(xd),   NAMED(step),  NAMED(steps),
    NAMED(idles), NAMED(mix), NAMED(bad),  {NULL, NULL},
};
