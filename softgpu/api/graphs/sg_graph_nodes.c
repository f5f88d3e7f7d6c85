/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding nodes to graphs.
 */
#include "sg_graph_build.h"

#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_graph.h"
#include "sg_graph_exec.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_hostfn.h"
#include "sg_mem.h"
#include "sg_module.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------- adding */

static CUresult
resolve_deps(struct sg_graph *graph, const CUgraphNode *deps, size_t n,
             struct sg_graph_node ***ret_nodes)
{
    CLEANUP_FREE struct sg_graph_node **nodes = NULL;
    static uint64_t last_mark; /* so that no node counts twice; lock held */

    last_mark++;
    if ((n && !deps) || n > graph->n_nodes)
        return CUDA_ERROR_INVALID_VALUE;
    nodes = calloc(n + 1, sizeof(*nodes));
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        nodes[i] = SG_OBJ(sg_graph_node, SG_KIND_NODE, deps[i]);
        if (!nodes[i] || nodes[i]->graph != graph || nodes[i]->mark == last_mark)
            return CUDA_ERROR_INVALID_VALUE;
        nodes[i]->mark = last_mark;
    }
    *ret_nodes = TAKE_PTR(nodes);
    return CUDA_SUCCESS;
}

/* What all the add calls share: @rc is what building @data came to. */
static CUresult
add_node(CUresult rc, CUgraph hgraph, const CUgraphNode *deps, size_t n_deps,
         struct sg_node_data *data, CUgraphNode *ret_handle,
         struct sg_graph_node **ret_node)
{
    CLEANUP_FREE struct sg_graph_node **nodes = NULL;
    struct sg_graph *graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hgraph);
    struct sg_graph_node *node;

    if (rc == CUDA_SUCCESS &&
        (!graph || !ret_handle ||
         (data->type == CU_GRAPH_NODE_TYPE_GRAPH && /* moved into itself */
          sg_graph_contains(data->child, graph))))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = resolve_deps(graph, deps, n_deps, &nodes);
    if (rc != CUDA_SUCCESS) {
        sg_node_data_fini(data);
        return rc;
    }
    rc = sg_graph_add(graph, nodes, n_deps, data, &node);
    if (rc == CUDA_SUCCESS) {
        *ret_handle = (CUgraphNode)(uintptr_t)node->handle;
        if (ret_node)
            *ret_node = node;
    }
    return rc;
}

/* An empty one, so that add_node() may always end it. */
#define NO_DATA                                                                        \
    {                                                                                  \
        .type = CU_GRAPH_NODE_TYPE_EMPTY                                               \
    }

#define ADD_ARGS                                                                       \
    CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,         \
        size_t numDependencies

#define ADD(build)                                                                     \
    struct sg_node_data data = NO_DATA;                                                \
    CUresult rc = sg_enter_init();                                                     \
                                                                                       \
    if (rc != CUDA_SUCCESS)                                                            \
        return rc;                                                                     \
    if (sg_handle_kind((uintptr_t)hGraph) != SG_KIND_GRAPH)                            \
        return sg_leave(CUDA_ERROR_INVALID_VALUE);                                     \
    return sg_leave(add_node(build, hGraph, dependencies, numDependencies, &data,      \
                             phGraphNode, NULL))

SG_CALL(cuGraphAddKernelNode_v2, ADD_ARGS, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    ADD(sg_build_kernel(nodeParams, NULL, &data));
}

SG_CALL(cuGraphAddKernelNode, ADD_ARGS, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p = sg_build_widen(nodeParams);

    ADD(sg_build_kernel(nodeParams ? &p : NULL, NULL, &data));
}

SG_CALL(cuGraphAddMemcpyNode, ADD_ARGS, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    ADD(sg_build_copy(copyParams, ctx, &data));
}

SG_CALL(cuGraphAddMemsetNode, ADD_ARGS, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
        CUcontext ctx)
{
    ADD(sg_build_fill(memsetParams, ctx, &data));
}

SG_CALL(cuGraphAddHostNode, ADD_ARGS, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    ADD(sg_build_host(nodeParams, &data));
}

SG_CALL(cuGraphAddChildGraphNode, ADD_ARGS, CUgraph childGraph)
{
    ADD(sg_build_child(childGraph, &data));
}

SG_CALL(cuGraphAddEmptyNode, ADD_ARGS)
{
    ADD(CUDA_SUCCESS);
}

SG_CALL(cuGraphAddEventRecordNode, ADD_ARGS, CUevent event)
{
    ADD(sg_build_event(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &data));
}

SG_CALL(cuGraphAddEventWaitNode, ADD_ARGS, CUevent event)
{
    ADD(sg_build_event(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &data));
}

SG_CALL(cuGraphAddBatchMemOpNode, ADD_ARGS,
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    ADD(sg_build_memops(nodeParams, &data));
}

SG_CALL(cuGraphAddMemFreeNode, ADD_ARGS, CUdeviceptr dptr)
{
    ADD(sg_build_free(dptr, &data));
}

SG_CALL(cuGraphAddMemAllocNode, ADD_ARGS, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    struct sg_node_data data = NO_DATA;
    struct sg_graph_node *node = NULL;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = nodeParams ? sg_build_alloc(nodeParams, &data) : CUDA_ERROR_INVALID_VALUE;
    rc = add_node(rc, hGraph, dependencies, numDependencies, &data, phGraphNode, &node);
    if (rc == CUDA_SUCCESS)
        nodeParams->dptr = sg_graph_mem_base(node->data.alloc.mem);
    return sg_leave(rc);
}

/* What the caller learns of a new node through its own structure. */
static void
tell(struct sg_graph_node *node, CUgraphNodeParams *p)
{
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        p->alloc.dptr = sg_graph_mem_base(node->data.alloc.mem);
    if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        p->conditional.phGraph_out = node->data.cond.handles;
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH &&
        p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
        sg_graph_adopt(node->data.child);
}

SG_CALL(cuGraphAddNode_v2, CUgraphNode *phGraphNode, CUgraph hGraph,
        const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    struct sg_node_data data = NO_DATA;
    struct sg_graph_node *node = NULL;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!nodeParams || sg_handle_kind((uintptr_t)hGraph) != SG_KIND_GRAPH)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_build_any(nodeParams, NULL, &data);
    rc = add_node(rc, hGraph, dependencies, numDependencies, &data, phGraphNode, &node);
    if (rc == CUDA_SUCCESS && dependencyData) {
        rc = sg_graph_edges_set(node, dependencyData);
        if (rc != CUDA_SUCCESS)
            sg_graph_remove(node);
    }
    if (rc == CUDA_SUCCESS)
        tell(node, nodeParams);
    return sg_leave(rc);
}

SG_CALL(cuGraphAddNode, CUgraphNode *phGraphNode, CUgraph hGraph,
        const CUgraphNode *dependencies, size_t numDependencies,
        CUgraphNodeParams *nodeParams)
{
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                             nodeParams);
}
