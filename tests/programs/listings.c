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

int
main(void)
{
    static const struct part parts[] = {
        {"a large graph", built},
        {"its nodes", nodes_of_graph},
        {"its roots", roots_of_graph},
        {"its edges", edges_of_graph},
        {"neighbours of its nodes", neighbours_of_nodes},
    };
    CUcontext ctx;

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
