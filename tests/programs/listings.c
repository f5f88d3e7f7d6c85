/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a large graph lists: nodes, roots, edges and neighbours by the ten thousand, in
 * one order whatever room the program has for them.
 */
#include "parts.h"

#define NODES 30000
#define ROOM                                                                           \
    (NODES + 3)      /* more than there are, for what is set to NULL behind them       \
                      */
#define AT_ONCE 4000 /* edges added by one call */

/* Node 0 precedes all others, and all of them precede the last one. */
static CUgraph graph;
static CUgraphNode node[ROOM];
static CUgraphNode from[2 * ROOM], to[2 * ROOM];
static CUgraphEdgeData data[2 * ROOM];

static int
built(void)
{
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&node[0], graph, NULL, 0));
    for (int i = 1; i < NODES - 1; i++)
        TRY(cuGraphAddEmptyNode(&node[i], graph, node, 1));
    TRY(cuGraphAddEmptyNode(&node[NODES - 1], graph, NULL, 0));
    for (int i = 0; i < AT_ONCE; i++)
        to[i] = node[NODES - 1];
    for (int i = 0; i < NODES - 1; i += AT_ONCE)
        TRY(cuGraphAddDependencies(graph, node + i, to,
                                   i + AT_ONCE < NODES - 1 ? AT_ONCE : NODES - 1 - i));
    return 0;
}

static int
nodes_of_graph(void)
{
    size_t n = 0;

    TRY(cuGraphGetNodes(graph, NULL, &n));
    SAME(n, NODES);
    n = ROOM;
    memset(from, 0xff, sizeof(from));
    TRY(cuGraphGetNodes(graph, from, &n));
    SAME(n, NODES);
    SAME(memcmp(from, node, NODES * sizeof(*node)), 0);
    for (int i = NODES; i < ROOM; i++)
        SAME(from[i] == NULL, 1);
    SAME(from[ROOM] == NULL, 0);
    n = NODES / 2; /* for less than there is */
    memset(from, 0xff, sizeof(from));
    TRY(cuGraphGetNodes(graph, from, &n));
    SAME(n, NODES / 2);
    SAME(memcmp(from, node, NODES / 2 * sizeof(*node)), 0);
    SAME(from[NODES / 2] == NULL, 0);
    return 0;
}

static int
roots_of_graph(void)
{
    size_t n = ROOM;
    CUgraph many;
    CUgraphNode added;

    TRY(cuGraphGetRootNodes(graph, from, &n));
    SAME(n, 1);
    SAME(from[0] == node[0] && !from[1] && !from[ROOM - 1], 1);
    TRY(cuGraphCreate(&many, 0));
    for (int i = 0; i < 20000; i++)
        TRY(cuGraphAddEmptyNode(&added, many, NULL, 0));
    n = ROOM;
    TRY(cuGraphGetRootNodes(many, from, &n));
    SAME(n, 20000);
    SAME(from[19999] == added && !from[20000], 1);
    TRY(cuGraphDestroy(many));
    return 0;
}

/* Each edge is seen once: @seen counts at its ends. */
static int
edges_are_right(size_t n)
{
    static int heads, tails;

    heads = tails = 0;
    SAME(n, 2 * NODES - 3);
    for (size_t i = 0; i < n; i++) {
        SAME(from[i] == node[0] || to[i] == node[NODES - 1], 1);
        heads += from[i] == node[0];
        tails += to[i] == node[NODES - 1];
    }
    SAME(heads, NODES - 1);
    SAME(tails, NODES - 1);
    return from[n] || to[n] || from[2 * ROOM - 1] || to[2 * ROOM - 1];
}

static int
edges_of_graph(void)
{
    static const CUgraphEdgeData plain;
    size_t n = 2 * ROOM;

    TRY(cuGraphGetEdges(graph, NULL, NULL, &n));
    SAME(n, 2 * NODES - 3);
    n = 2 * ROOM;
    memset(from, 0xff, sizeof(from));
    memset(to, 0xff, sizeof(to));
    TRY(cuGraphGetEdges(graph, from, to, &n));
    SAME(edges_are_right(n), 0);
    n = 2 * ROOM;
    memset(from, 0xff, sizeof(from));
    memset(to, 0xff, sizeof(to));
    memset(data, 0xff, sizeof(data));
    TRY(cuGraphGetEdges_v2(graph, from, to, data, &n));
    SAME(edges_are_right(n), 0);
    SAME(memcmp(&data[n - 1], &plain, sizeof(plain)), 0);
    n = 20000;
    TRY(cuGraphGetEdges_v2(graph, from, to, data, &n));
    SAME(n, 20000);
    n = 2 * ROOM;
    CODE(cuGraphGetEdges(graph, from, NULL, &n), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
neighbours_of_nodes(void)
{
    size_t n = ROOM;

    TRY(cuGraphNodeGetDependencies(node[NODES - 1], from, &n));
    SAME(n, NODES - 1);
    SAME(memcmp(from, node, (NODES - 1) * sizeof(*node)), 0);
    SAME(from[NODES - 1] == NULL, 1);
    n = ROOM;
    TRY(cuGraphNodeGetDependencies_v2(node[NODES - 1], from, data, &n));
    SAME(n, NODES - 1);
    n = ROOM;
    TRY(cuGraphNodeGetDependentNodes(node[0], from, &n));
    SAME(n, NODES - 1);
    SAME(memcmp(from, node + 1, (NODES - 1) * sizeof(*node)), 0);
    n = ROOM;
    TRY(cuGraphNodeGetDependentNodes_v2(node[0], from, data, &n));
    SAME(n, NODES - 1);
    n = 15000;
    TRY(cuGraphNodeGetDependentNodes(node[0], from, &n));
    SAME(n, 15000);
    return 0;
}

/* ---- calls that name more nodes than a frame holds ---- */

static CUcontext ctx;
static CUdeviceptr word;

/* @added comes after all nodes but itself, in their order. */
static int
comes_after_all(CUgraphNode added)
{
    size_t n = ROOM;

    memset(from, 0xff, sizeof(from));
    TRY(cuGraphNodeGetDependencies(added, from, &n));
    SAME(n, NODES);
    SAME(memcmp(from, node, NODES * sizeof(*node)), 0);
    return 0;
}

static void
nothing(void *arg)
{
    (void)arg;
}

static int
nodes_behind_all(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 512};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = word, .elementSize = 4, .width = 1, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {nothing, NULL};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUstreamBatchMemOpParams write = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {ctx, 1, &write, 0};
    static unsigned here;
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = &here,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = word,
                        .WidthInBytes = 4,
                        .Height = 1,
                        .Depth = 1};
    CUDA_MEMCPY3D over = up;
    CUgraphNode added[11];
    CUgraph child;
    CUevent event;
    int n = 0;

    over.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    over.srcDevice = word + 4;
    TRY(cuGraphCreate(&child, 0));
    TRY(cuEventCreate(&event, 0));
    TRY(cuGraphAddEmptyNode(&added[n++], graph, node, NODES));
    TRY(cuGraphAddMemsetNode(&added[n++], graph, node, NODES, &fill, ctx));
    TRY(cuGraphAddMemcpyNode(&added[n++], graph, node, NODES, &up, ctx));
    TRY(cuGraphAddMemcpyNode(&added[n++], graph, node, NODES, &over, ctx));
    TRY(cuGraphAddHostNode(&added[n++], graph, node, NODES, &host));
    TRY(cuGraphAddChildGraphNode(&added[n++], graph, node, NODES, child));
    TRY(cuGraphAddEventRecordNode(&added[n++], graph, node, NODES, event));
    TRY(cuGraphAddEventWaitNode(&added[n++], graph, node, NODES, event));
    TRY(cuGraphAddBatchMemOpNode(&added[n++], graph, node, NODES, &ops));
    TRY(cuGraphAddNode_v2(&added[n++], graph, node, NULL, NODES, &any));
    memset(data, 0, sizeof(data));
    TRY(cuGraphAddNode_v2(&added[n++], graph, node, data, NODES, &any));
    for (int i = 0; i < n; i++) {
        SAME(comes_after_all(added[i]), 0);
        TRY(cuGraphDestroyNode(added[i]));
    }
    TRY(cuGraphDestroy(child));
    TRY(cuGraphCreate(&child, 0));
    for (int i = 0; i < 5000; i++)
        TRY(cuGraphAddEmptyNode(&from[i], child, NULL, 0));
    TRY(cuGraphAddMemAllocNode(&added[0], child, from, 5000, &alloc));
    TRY(cuGraphAddMemFreeNode(&added[1], child, from, 5000, alloc.dptr));
    TRY(cuGraphDestroy(child));
    TRY(cuEventDestroy_v2(event));
    return 0;
}

/* What is wrong is found wherever it is, and another call does not see any of it. */
static int
wrong_nodes_behind_all(void)
{
    static CUgraphNode list[ROOM];
    CUgraphNode none[2] = {0}, added, other;
    CUgraph elsewhere;

    TRY(cuGraphCreate(&elsewhere, 0));
    TRY(cuGraphAddEmptyNode(&other, elsewhere, NULL, 0));
    memcpy(list, node, sizeof(list));
    list[NODES - 1] = list[0];
    CODE(cuGraphAddEmptyNode(&added, graph, list, NODES), CUDA_ERROR_INVALID_VALUE);
    list[NODES - 1] = other;
    CODE(cuGraphAddEmptyNode(&added, graph, list, NODES), CUDA_ERROR_INVALID_VALUE);
    list[NODES - 1] = NULL;
    CODE(cuGraphAddEmptyNode(&added, graph, list, NODES), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphAddEmptyNode(&added, graph, none, 2), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphAddEmptyNode(NULL, graph, node, NODES), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphAddEmptyNode(&added, graph, none, 2), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphAddEmptyNode(&added, graph, NULL, NODES), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphAddEmptyNode(&added, graph, node, 1));
    TRY(cuGraphDestroyNode(added));
    TRY(cuGraphDestroy(elsewhere));
    return 0;
}

/* The same edges as before, all of them in one call. */
static int
edges_at_once(void)
{
    size_t n = 2 * ROOM;

    TRY(cuGraphGetEdges(graph, from, to, &n));
    TRY(cuGraphRemoveDependencies(graph, from, to, n));
    CODE(cuGraphRemoveDependencies(graph, from, to, n), CUDA_ERROR_INVALID_VALUE);
    memset(data, 0, sizeof(data));
    TRY(cuGraphAddDependencies_v2(graph, from, to, data, n));
    CODE(cuGraphAddDependencies(graph, from, to, n), CUDA_ERROR_INVALID_VALUE);
    SAME(edges_of_graph(), 0);
    n = 2 * ROOM;
    TRY(cuGraphGetEdges(graph, from, to, &n));
    TRY(cuGraphRemoveDependencies_v2(graph, from, to, data, n));
    TRY(cuGraphAddDependencies(graph, from, to, n));
    SAME(edges_of_graph(), 0);
    return 0;
}

/* A node that is captured behind all others. */
static int
captures_behind_all(void)
{
    CUstream stream;
    CUgraph same;
    size_t n;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int way = 0; way < 3; way++) {
        TRY(cuStreamBeginCaptureToGraph(stream, graph, node, NULL, way ? 1 : NODES,
                                        CU_STREAM_CAPTURE_MODE_RELAXED));
        memset(data, 0, sizeof(data));
        if (way == 1)
            TRY(cuStreamUpdateCaptureDependencies(stream, node, NODES,
                                                  CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
        if (way == 2)
            TRY(cuStreamUpdateCaptureDependencies_v2(
                stream, node, data, NODES, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        TRY(cuMemsetD32Async(word, 1, 1, stream));
        TRY(cuStreamEndCapture(stream, &same));
        SAME(same == graph, 1);
        n = ROOM;
        TRY(cuGraphGetNodes(graph, to, &n));
        SAME(n, NODES + 1);
        SAME(comes_after_all(to[NODES]), 0);
        TRY(cuGraphDestroyNode(to[NODES]));
    }
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"a large graph", built},
        {"its nodes", nodes_of_graph},
        {"its roots", roots_of_graph},
        {"its edges", edges_of_graph},
        {"neighbours of its nodes", neighbours_of_nodes},
        {"nodes behind all others", nodes_behind_all},
        {"wrong nodes among many", wrong_nodes_behind_all},
        {"edges at once", edges_at_once},
        {"captures behind all nodes", captures_behind_all},
    };

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuMemAlloc_v2(&word, 8) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
