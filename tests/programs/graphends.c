/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes end with their graph, those of graphs inside it too: their handles are good for
 * nothing then, and a program may make millions of nodes, one graph after the other.
 */
#include "parts.h"

#define NODES 8000
#define ROUNDS 140 /* a million nodes and more */

static CUcontext ctx;
static CUgraphNode list[NODES];

/* Every call of the node answers that there is no such node. */
static int
is_gone(CUgraphNode node)
{
    CUgraphNodeType type;
    size_t n = 0;

    CODE(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphNodeGetDependencies(node, NULL, &n), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* A node in a graph in a node of @graph. */
static int
nested(CUgraph graph, CUgraphNode *holder, CUgraphNode *inner)
{
    CUgraph part, inside;
    size_t n = 1;

    TRY(cuGraphCreate(&part, 0));
    TRY(cuGraphAddEmptyNode(inner, part, NULL, 0));
    TRY(cuGraphAddChildGraphNode(holder, graph, NULL, 0, part));
    TRY(cuGraphDestroy(part));
    TRY(cuGraphChildGraphNodeGetGraph(*holder, &inside));
    TRY(cuGraphGetNodes(inside, inner, &n));
    SAME(n, 1);
    return 0;
}

static int
with_their_graph(void)
{
    CUgraphNode holder, inner, own;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&own, graph, NULL, 0));
    if (nested(graph, &holder, &inner))
        return 1;
    TRY(cuGraphDestroy(graph));
    return is_gone(own) || is_gone(holder) || is_gone(inner);
}

static int
with_the_node_they_are_in(void)
{
    CUgraphNode holder, inner, own;
    CUgraphNodeType type;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&own, graph, NULL, 0));
    if (nested(graph, &holder, &inner))
        return 1;
    TRY(cuGraphDestroyNode(holder));
    if (is_gone(inner))
        return 1;
    TRY(cuGraphNodeGetType(own, &type));
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
with_the_body_of_a_condition(void)
{
    CUgraphConditionalHandle condition;
    CUgraphNode holder, inner, own;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphConditionalHandleCreate(&condition, graph, ctx, 0, 0));
    params.conditional.handle = condition;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = ctx;
    TRY(cuGraphAddEmptyNode(&own, graph, NULL, 0));
    TRY(cuGraphAddNode_v2(&holder, graph, NULL, NULL, 0, &params));
    TRY(cuGraphAddEmptyNode(&inner, params.conditional.phGraph_out[0], NULL, 0));
    TRY(cuGraphDestroy(graph));
    return is_gone(inner) || is_gone(holder) || is_gone(own);
}

/* What a graph lists is named to the program, and what a clone lists anew. */
static int
a_million_of_them(void)
{
    CUgraph graph, clone;
    size_t n;

    TRY(cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++)
        TRY(cuGraphAddEmptyNode(&list[i], graph, NULL, 0));
    for (int i = 0; i < ROUNDS; i++) {
        TRY(cuGraphClone(&clone, graph));
        n = NODES;
        TRY(cuGraphGetNodes(clone, list, &n));
        SAME(n, NODES);
        TRY(cuGraphDestroyNode(list[NODES / 2]));
        TRY(cuGraphDestroy(clone));
    }
    TRY(cuGraphDestroy(graph));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"nodes end with their graph", with_their_graph},
        {"nodes end with the node that they are in", with_the_node_they_are_in},
        {"nodes in the body of a condition", with_the_body_of_a_condition},
        {"a million nodes in a hundred graphs", a_million_of_them},
    };

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
