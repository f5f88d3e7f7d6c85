/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of graphs, which are copies of them, and their launches.
 *
 * A launch copies and fills at once, in the order of the nodes.  A graph that calls
 * functions of the host is run by the thread that calls those (null_hostfn.c), because
 * its copies may need what a function does.
 */
#include "gp_base.h"
#include "null.h"
#include "null_box.h"
#include "null_graph.h"

#include <string.h>

/* @node's copy in the instance, or NULL. */
static struct null_node *
inside(CUgraphExec exec, CUgraphNode node)
{
    const struct null_graph *instance = null_graph_get_instance(exec);
    const struct null_node *origin = null_node_get(node);

    return instance && origin ? null_graph_find(instance, origin) : NULL;
}

CUresult
cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                            unsigned long long flags)
{
    const struct null_graph *graph = null_graph_get(hGraph);
    struct null_graph *instance;

    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    instance = null_graph_copy(graph);
    if (!instance)
        return CUDA_ERROR_OUT_OF_MEMORY;
    instance->is_instance = true;
    *phGraphExec = (CUgraphExec)instance;
    return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                      CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult
cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    CUresult r = cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);

    instantiateParams->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                                      : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CUresult
cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    null_graph_free(null_graph_get_instance(hGraphExec));
    return CUDA_SUCCESS;
}

CUresult
cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    *flags = 0;
    return CUDA_SUCCESS;
}

CUresult
cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    return CUDA_SUCCESS;
}

/* ---- changes ---- */

CUresult
cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                         CUgraphNodeParams *nodeParams)
{
    struct null_node *node = inside(hGraphExec, hNode);

    return node ? null_node_set(node, nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    return inside(hGraphExec, hNode) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                               const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct null_node *node = inside(hGraphExec, hNode);

    return node ? cuGraphMemcpyNodeSetParams((CUgraphNode)node, copyParams)
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                               const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                               CUcontext ctx)
{
    struct null_node *node = inside(hGraphExec, hNode);

    return node ? cuGraphMemsetNodeSetParams((CUgraphNode)node, memsetParams)
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                             const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct null_node *node = inside(hGraphExec, hNode);

    return node ? cuGraphHostNodeSetParams((CUgraphNode)node, nodeParams)
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                   CUgraph childGraph)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH,
                                .graph.graph = childGraph};

    return cuGraphExecNodeSetParams(hGraphExec, hNode, &params);
}

CUresult
cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    struct null_node *node = inside(hGraphExec, hNode);

    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    node->disabled = !isEnabled;
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                      unsigned int *isEnabled)
{
    const struct null_node *node = inside(hGraphExec, hNode);

    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *isEnabled = !node->disabled;
    return CUDA_SUCCESS;
}

/* The first node of @graph that has no counterpart in the instance. */
static const struct null_node *
first_unlike(const struct null_graph *instance, const struct null_graph *graph,
             CUgraphExecUpdateResult *ret_why)
{
    const struct null_node *mine = instance->first, *theirs = graph->first;

    while (mine && theirs && mine->params.type == theirs->params.type) {
        mine = mine->next;
        theirs = theirs->next;
    }
    *ret_why = mine && theirs   ? CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
               : mine || theirs ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
                                : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return theirs;
}

/* The instance's nodes stay those that its own graph's are called by. */
CUresult
cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                     CUgraphExecUpdateResultInfo *resultInfo)
{
    const struct null_graph *graph = null_graph_get(hGraph);
    struct null_node *mine;
    CUresult r = CUDA_SUCCESS;

    if (!null_graph_get_instance(hGraphExec) || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    mine = null_graph_get_instance(hGraphExec)->first;
    *resultInfo = (CUgraphExecUpdateResultInfo){0};
    resultInfo->errorNode = (CUgraphNode)(uintptr_t)first_unlike(
        null_graph_get_instance(hGraphExec), graph, &resultInfo->result);
    if (resultInfo->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    for (const struct null_node *theirs = graph->first; theirs && r == CUDA_SUCCESS;
         theirs = theirs->next, mine = mine->next)
        r = null_node_set(mine, &theirs->params);
    return r;
}

/* ---- launches ---- */

static bool
calls_host(const struct null_graph *graph)
{
    const struct null_node *node = graph->first;

    while (node && node->params.type != CU_GRAPH_NODE_TYPE_HOST &&
           !(node->params.type == CU_GRAPH_NODE_TYPE_GRAPH &&
             calls_host((const struct null_graph *)node->params.graph.graph)))
        node = node->next;
    return node != NULL;
}

static CUresult run_node(const struct null_node *node);

static CUresult
run(const struct null_graph *graph)
{
    CUresult r = CUDA_SUCCESS;

    for (const struct null_node *node = graph->first; node && r == CUDA_SUCCESS;
         node = node->next)
        if (!node->disabled)
            r = run_node(node);
    return r;
}

static CUresult
run_node(const struct null_node *node)
{
    switch ((int)node->params.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return null_box_copy(&node->params.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return null_box_fill(&node->params.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        node->params.host.fn(node->params.host.userData);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return run((const struct null_graph *)node->params.graph.graph);
    default:
        return CUDA_SUCCESS;
    }
}

static void
run_and_free(void *graph)
{
    run(graph);
    null_graph_free(graph);
}

CUresult
cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    struct null_graph *copy;
    CUresult r;

    if (!null_graph_get_instance(hGraphExec))
        return CUDA_ERROR_INVALID_VALUE;
    if (!calls_host(null_graph_get_instance(hGraphExec)))
        return run(null_graph_get_instance(hGraphExec));
    copy = null_graph_copy(
        null_graph_get_instance(hGraphExec)); /* it may be destroyed meanwhile */
    r = copy ? cuLaunchHostFunc(hStream, run_and_free, copy) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS)
        null_graph_free(copy);
    return r;
}
