/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program in nodes of graphs, given and replaced more often than any
 * table of them has places: a loop that gives a node a new function in every step goes
 * on for ever.  Another graph fills most of such a table (65,536 in a worker) first.
 *
 * Knows CUDA and nothing of gpupool.
 */
#include "parts.h"

#include <stdatomic.h>
#include <stdint.h>

#define OTHERS 60000u
#define TIMES 6000u /* more than is left */

static CUcontext ctx;
static CUstream stream;

/* What the functions were called with, added up: none is left out, none runs twice. */
static _Atomic uint64_t sum, runs;

static void
add(void *what)
{
    atomic_fetch_add(&sum, (uintptr_t)what);
    atomic_fetch_add(&runs, 1);
}

static int
said(uint64_t want_runs, uint64_t want_sum)
{
    TRY(cuStreamSynchronize(stream));
    SAME(runs, want_runs);
    SAME(sum, want_sum);
    atomic_store(&runs, 0);
    atomic_store(&sum, 0);
    return 0;
}

static CUDA_HOST_NODE_PARAMS
adding(uint64_t what)
{
    return (CUDA_HOST_NODE_PARAMS){.fn = add, .userData = (void *)(uintptr_t)what};
}

static int
fill_the_table(void)
{
    CUgraph others;

    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (unsigned i = 0; i < OTHERS; i++)
        TRY(cuLaunchHostFunc(stream, add, NULL));
    TRY(cuStreamEndCapture(stream, &others));
    return 0;
}

static int
make(CUgraph *graph, CUgraphNode *node, uint64_t what)
{
    CUDA_HOST_NODE_PARAMS params = adding(what);

    TRY(cuGraphCreate(graph, 0));
    TRY(cuGraphAddHostNode(node, *graph, NULL, 0, &params));
    return 0;
}

static int
nodes_are_given_functions_for_ever(void)
{
    CUDA_HOST_NODE_PARAMS params, got;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    if (make(&graph, &node, 0))
        return 1;
    for (unsigned i = 1; i <= TIMES; i++) {
        params = adding(i);
        TRY(cuGraphHostNodeSetParams(node, &params));
    }
    TRY(cuGraphHostNodeGetParams(node, &got));
    SAME(got.fn == add && got.userData == params.userData, 1);
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphLaunch(exec, stream));
    if (said(2, 2 * TIMES))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static int
nodes_of_any_kind_too(void)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST};
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;
    uint64_t sums = 0;

    TRY(cuGraphCreate(&graph, 0));
    params.host.fn = add;
    TRY(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 1; i <= TIMES; i++) {
        params.host.userData = (void *)(uintptr_t)i;
        TRY(cuGraphNodeSetParams(node, &params));
    }
    for (unsigned i = 1; i <= TIMES; i++) {
        params.host.userData = (void *)(uintptr_t)i;
        TRY(cuGraphExecNodeSetParams(exec, node, &params));
        if (i % 10 == 0) {
            TRY(cuGraphLaunch(exec, stream));
            sums += i;
        }
        if (i % 1000 == 0)
            TRY(cuStreamSynchronize(stream));
    }
    if (said(TIMES / 10, sums))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
executable_graphs_are_given_functions_for_ever(void)
{
    CUgraphExec exec, other;
    CUgraphNode node;
    CUgraph graph;
    uint64_t sums = 0;

    if (make(&graph, &node, 1))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphInstantiateWithFlags(&other, graph, 0));
    for (unsigned i = 1; i <= TIMES; i++) {
        CUDA_HOST_NODE_PARAMS params = adding(i);

        TRY(cuGraphExecHostNodeSetParams(exec, node, &params));
        TRY(cuGraphLaunch(exec, stream));
        sums += i;
        if (i % 64 == 0)
            TRY(cuStreamSynchronize(stream));
    }
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphLaunch(exec, stream));  /* the last one given */
    TRY(cuGraphLaunch(other, stream)); /* what it was made with */
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphExecDestroy(other));
    return said(TIMES + 2, sums + TIMES + 1);
}

static int
executable_graphs_that_are_gone_leave_no_functions(void)
{
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    if (make(&graph, &node, 1))
        return 1;
    for (unsigned i = 0; i < TIMES / 100; i++) {
        TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (unsigned k = 0; k < 100; k++) {
            CUDA_HOST_NODE_PARAMS params = adding(k);

            TRY(cuGraphExecHostNodeSetParams(exec, node, &params));
        }
        TRY(cuGraphLaunch(exec, stream));
        TRY(cuGraphExecDestroy(exec));
    }
    TRY(cuGraphDestroy(graph));
    return said(TIMES / 100, (uint64_t)(TIMES / 100) * 99);
}

/* The usual way to change many nodes at once: the graph, and then what was made of it.
 */
static int
updates_replace_functions_for_ever(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;
    uint64_t sums = 0;

    if (make(&graph, &node, 0))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 1; i <= TIMES; i++) {
        CUDA_HOST_NODE_PARAMS params = adding(i);

        TRY(cuGraphHostNodeSetParams(node, &params));
        TRY(cuGraphExecUpdate_v2(exec, graph, &info));
        if (i % 2) {
            params = adding(2 * i);
            TRY(cuGraphExecHostNodeSetParams(exec, node, &params));
        }
        TRY(cuGraphLaunch(exec, stream));
        sums += i % 2 ? 2 * i : i;
        if (i % 64 == 0)
            TRY(cuStreamSynchronize(stream));
    }
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return said(TIMES, sums);
}

static int
nodes_come_and_go_for_ever(void)
{
    CUgraphNode node, kept;
    CUgraphExec exec;
    CUgraph graph, clone;

    if (make(&graph, &kept, 5))
        return 1;
    for (unsigned i = 0; i < TIMES; i++) {
        CUDA_HOST_NODE_PARAMS params = adding(7);

        TRY(cuGraphAddHostNode(&node, graph, &kept, 1, &params));
        if (i == TIMES / 2) /* the clone keeps what the graph lets go of */
            TRY(cuGraphClone(&clone, graph));
        TRY(cuGraphDestroyNode(node));
    }
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphInstantiateWithFlags(&exec, clone, 0));
    TRY(cuGraphDestroy(clone));
    TRY(cuGraphLaunch(exec, stream));
    if (said(2, 12))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

/* A graph with a child graph of a child graph: the program is given the nodes inside by
 * the driver. */
static int
make_nested(CUgraph *outer, CUgraphNode *inner)
{
    CUgraph child, middle;
    CUgraphNode node;
    size_t n = 1;

    if (make(&child, &node, 0))
        return 1;
    TRY(cuGraphCreate(&middle, 0));
    TRY(cuGraphAddChildGraphNode(&node, middle, NULL, 0, child));
    TRY(cuGraphCreate(outer, 0));
    TRY(cuGraphAddChildGraphNode(&node, *outer, NULL, 0, middle));
    TRY(cuGraphDestroy(child));
    TRY(cuGraphDestroy(middle));
    for (int level = 0; level < 2; level++) {
        TRY(cuGraphChildGraphNodeGetGraph(node, &child));
        TRY(cuGraphGetNodes(child, &node, &n));
        SAME(n, 1);
    }
    *inner = node;
    return 0;
}

static int
nodes_of_child_graphs_are_given_functions_for_ever(void)
{
    CUDA_HOST_NODE_PARAMS params;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    if (make_nested(&graph, &node))
        return 1;
    for (unsigned i = 1; i <= TIMES; i++) {
        params = adding(i);
        TRY(cuGraphHostNodeSetParams(node, &params));
    }
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphLaunch(exec, stream));
    if (said(1, TIMES))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static const struct part parts[] = {
    {"another graph has most of the functions", fill_the_table},
    {"nodes are given functions for ever", nodes_are_given_functions_for_ever},
    {"nodes of child graphs are given functions for ever",
     nodes_of_child_graphs_are_given_functions_for_ever},
    {"nodes of any kind too", nodes_of_any_kind_too},
    {"executable graphs are given functions for ever",
     executable_graphs_are_given_functions_for_ever},
    {"executable graphs that are gone leave no functions",
     executable_graphs_that_are_gone_leave_no_functions},
    {"updates replace functions for ever", updates_replace_functions_for_ever},
    {"nodes come and go for ever", nodes_come_and_go_for_ever},
};

int
main(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
