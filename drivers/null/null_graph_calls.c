/* SPDX-License-Identifier: Apache-2.0 */
/* Building graphs and asking about them. */
#include "gp_base.h"
#include "null.h"
#include "null_graph.h"

#include <stdlib.h>
#include <string.h>

CUresult
cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    *phGraph = (CUgraph)null_graph_new();
    return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuGraphDestroy(CUgraph hGraph)
{
    struct null_graph *graph = null_graph_get(hGraph);

    if (!graph || graph->is_part)
        return CUDA_ERROR_INVALID_VALUE;
    null_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult
cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    if (!null_graph_get(originalGraph))
        return CUDA_ERROR_INVALID_VALUE;
    *phGraphClone = (CUgraph)null_graph_copy(null_graph_get(originalGraph));
    return *phGraphClone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                       CUgraph hClonedGraph)
{
    if (!null_node_get(hOriginalNode) || !null_graph_get(hClonedGraph))
        return CUDA_ERROR_INVALID_VALUE;
    *phNode = (CUgraphNode)null_graph_find(null_graph_get(hClonedGraph),
                                           null_node_get(hOriginalNode));
    return *phNode ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- nodes ---- */

/* Parameters are a union: who takes one kind for another finds pointers there. */
static bool
node_is(CUgraphNode node, CUgraphNodeType type)
{
    return null_node_get(node) && null_node_get(node)->params.type == type;
}

CUresult
cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                  const CUgraphNode *dependencies,
                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                  CUgraphNodeParams *nodeParams)
{
    if (!null_graph_get(hGraph))
        return CUDA_ERROR_INVALID_VALUE;
    return null_node_add(null_graph_get(hGraph), dependencies, numDependencies,
                         nodeParams, (struct null_node **)phGraphNode);
}

CUresult
cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    if (!null_node_get(hNode))
        return CUDA_ERROR_INVALID_VALUE;
    return null_node_set(null_node_get(hNode), nodeParams);
}

CUresult
cuGraphDestroyNode(CUgraphNode hNode)
{
    if (!null_node_get(hNode))
        return CUDA_ERROR_INVALID_VALUE;
    null_node_remove(null_node_get(hNode));
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                    const CUgraphNode *dependencies, size_t numDependencies)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t numDependencies,
                        const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                     const CUgraphNode *dependencies, size_t numDependencies,
                     const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                .memcpy.copyParams = *copyParams};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

static CUgraphNodeParams
fill_params(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};

    memcpy(&params.memset, fill, sizeof(*fill)); /* the newer form adds to its end */
    return params;
}

CUresult
cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                     const CUgraphNode *dependencies, size_t numDependencies,
                     const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    CUgraphNodeParams params = fill_params(memsetParams);

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                   const CUgraphNode *dependencies, size_t numDependencies,
                   const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                .host = {nodeParams->fn, nodeParams->userData}};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                         const CUgraphNode *dependencies, size_t numDependencies,
                         CUgraph childGraph)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH,
                                .graph.graph = childGraph};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                          const CUgraphNode *dependencies, size_t numDependencies,
                          CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                .eventRecord.event = event};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t numDependencies,
                        CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                                .eventWait.event = event};

    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             &params);
}

CUresult
cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                              const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_KERNEL))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS; /* no kernel runs */
}

CUresult
cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                              const CUkernelNodeAttrValue *value)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_KERNEL))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    if (!node_is(dst, CU_GRAPH_NODE_TYPE_KERNEL) ||
        !node_is(src, CU_GRAPH_NODE_TYPE_KERNEL))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult
cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_MEMCPY))
        return CUDA_ERROR_INVALID_VALUE;
    null_node_get(hNode)->params.memcpy.copyParams = *nodeParams;
    return CUDA_SUCCESS;
}

CUresult
cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_MEMCPY))
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = null_node_get(hNode)->params.memcpy.copyParams;
    return CUDA_SUCCESS;
}

CUresult
cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    null_node_get(hNode)->params = fill_params(nodeParams);
    return CUDA_SUCCESS;
}

CUresult
cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(nodeParams, &null_node_get(hNode)->params.memset, sizeof(*nodeParams));
    return CUDA_SUCCESS;
}

CUresult
cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    null_node_get(hNode)->params.host.fn = nodeParams->fn;
    null_node_get(hNode)->params.host.userData = nodeParams->userData;
    return CUDA_SUCCESS;
}

CUresult
cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    nodeParams->fn = null_node_get(hNode)->params.host.fn;
    nodeParams->userData = null_node_get(hNode)->params.host.userData;
    return CUDA_SUCCESS;
}

CUresult
cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    if (!node_is(hNode, CU_GRAPH_NODE_TYPE_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = null_node_get(hNode)->params.graph.graph;
    return CUDA_SUCCESS;
}

/* Kernels decide conditions, and none runs: every body stays undone. */
CUresult
cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                               CUcontext ctx, unsigned int defaultLaunchValue,
                               unsigned int flags)
{
    *pHandle_out = (uintptr_t)null_handle();
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

CUresult
cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    if (!null_node_get(hNode))
        return CUDA_ERROR_INVALID_VALUE;
    *type = null_node_get(hNode)->params.type;
    return CUDA_SUCCESS;
}

/* Nodes into @out, as many as *@n allows; *@n is how many were put there, or, without
 * @out, how many there are. */
struct listing {
    CUgraphNode *out;
    size_t room, n;
};

static void
list(struct listing *l, const struct null_node *node)
{
    if (l->out && l->n < l->room)
        l->out[l->n] = (CUgraphNode)(uintptr_t)node;
    if (!l->out || l->n < l->room)
        l->n++;
}

CUresult
cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    struct listing l = {nodes, *numNodes, 0};

    if (!null_graph_get(hGraph))
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct null_node *node = null_graph_get(hGraph)->first; node;
         node = node->next)
        list(&l, node);
    *numNodes = l.n;
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    struct listing l = {rootNodes, *numRootNodes, 0};

    if (!null_graph_get(hGraph))
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct null_node *node = null_graph_get(hGraph)->first; node;
         node = node->next)
        if (!node->n_deps)
            list(&l, node);
    *numRootNodes = l.n;
    return CUDA_SUCCESS;
}

static void
no_edge_data(CUgraphEdgeData *data, size_t n)
{
    if (data)
        memset(data, 0, n * sizeof(*data));
}

CUresult
cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                   CUgraphEdgeData *edgeData, size_t *numEdges)
{
    struct listing froms = {from, *numEdges, 0}, tos = {to, *numEdges, 0};

    if (!null_graph_get(hGraph))
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct null_node *node = null_graph_get(hGraph)->first; node;
         node = node->next)
        for (size_t i = 0; i < node->n_deps; i++) {
            list(&froms, node->deps[i]);
            list(&tos, node);
        }
    *numEdges = froms.n;
    no_edge_data(edgeData, froms.n);
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult
cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                              CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    struct listing l = {dependencies, *numDependencies, 0};

    if (!null_node_get(hNode))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < null_node_get(hNode)->n_deps; i++)
        list(&l, null_node_get(hNode)->deps[i]);
    *numDependencies = l.n;
    no_edge_data(edgeData, l.n);
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                           size_t *numDependencies)
{
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

CUresult
cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    const struct null_node *on = null_node_get(hNode);
    struct listing l = {dependentNodes, *numDependentNodes, 0};

    if (!null_node_get(hNode))
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct null_node *node = on->graph->first; node; node = node->next)
        for (size_t i = 0; i < node->n_deps; i++)
            if (node->deps[i] == on)
                list(&l, node);
    *numDependentNodes = l.n;
    no_edge_data(edgeData, l.n);
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                             size_t *numDependentNodes)
{
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL,
                                           numDependentNodes);
}

CUresult
cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                          const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                          size_t numDependencies)
{
    for (size_t i = 0; i < numDependencies; i++) {
        struct null_node *on = null_node_get(from[i]), *node = null_node_get(to[i]);

        if (!on || !node || on->graph != node->graph)
            return CUDA_ERROR_INVALID_VALUE;
        if (!null_node_depend(node, on))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                       size_t numDependencies)
{
    return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult
cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                             const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                             size_t numDependencies)
{
    for (size_t i = 0; i < numDependencies; i++)
        if (null_node_get(to[i]))
            null_node_undepend(null_node_get(to[i]), null_node_get(from[i]));
    return CUDA_SUCCESS;
}

CUresult
cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
                          const CUgraphNode *to, size_t numDependencies)
{
    return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
