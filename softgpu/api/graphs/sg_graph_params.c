/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and changing the parameters of existing nodes.
 */
#include "sg_graph_build.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_graph.h"
#include "sg_graph_exec.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_launch.h"
#include "sg_module.h"

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------- reading */

static CUresult
enter_node(CUgraphNode handle, CUgraphNodeType type, const void *out,
           struct sg_graph_node **ret_node)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_node = SG_OBJ(sg_graph_node, SG_KIND_NODE, handle);
    if (!*ret_node || !out || (*ret_node)->data.type != type)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Pointers into the node's own copy of the arguments, as the caller's were. */
static CUresult
param_pointers(struct sg_node_data *d, void ***ret)
{
    struct sg_ctx *ctx = sg_handle_get(SG_KIND_CTX, d->ctx);
    struct sg_func *func;
    CUresult rc = ctx ? sg_func_get(ctx, d->kernel.req.func, &func)
                      : CUDA_ERROR_CONTEXT_IS_DESTROYED;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!d->kernel.param_ptrs) {
        d->kernel.param_ptrs = calloc(func->kernel->n_params + 1, sizeof(void *));
        if (!d->kernel.param_ptrs)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < func->kernel->n_params; i++)
            d->kernel.param_ptrs[i] =
                (char *)d->kernel.params + func->kernel->params[i].offset;
    }
    *ret = d->kernel.param_ptrs;
    return CUDA_SUCCESS;
}

SG_CALL(cuGraphKernelNodeGetParams_v2, CUgraphNode hNode,
        CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    const struct sg_launch_req *req;
    struct sg_graph_node *node;
    void **ptrs;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = param_pointers(&node->data, &ptrs);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    req = &node->data.kernel.req;
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS){
        .gridDimX = req->grid[0],
        .gridDimY = req->grid[1],
        .gridDimZ = req->grid[2],
        .blockDimX = req->block[0],
        .blockDimY = req->block[1],
        .blockDimZ = req->block[2],
        .sharedMemBytes = req->shared,
        .kernelParams = ptrs,
        .ctx = (CUcontext)(uintptr_t)node->data.ctx,
    };
    if (sg_handle_kind((uintptr_t)req->func) == SG_KIND_KERNEL)
        nodeParams->kern = (CUkernel)req->func;
    else
        nodeParams->func = req->func;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphKernelNodeGetParams, CUgraphNode hNode,
        CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    CUresult rc = cuGraphKernelNodeGetParams_v2(hNode, &p);

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        memcpy(nodeParams, &p, sizeof(*nodeParams));
        if (!nodeParams->func)
            nodeParams->func = (CUfunction)p.kern;
    }
    return rc;
}

SG_CALL(cuGraphMemcpyNodeGetParams, CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *nodeParams = node->data.copy;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphMemsetNodeGetParams, CUgraphNode hNode,
        CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *nodeParams = node->data.set;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphHostNodeGetParams, CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    nodeParams->fn = node->data.host.fn;
    nodeParams->userData = node->data.host.arg;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphChildGraphNodeGetGraph, CUgraphNode hNode, CUgraph *phGraph)
{
    struct sg_graph_node *node;
    struct sg_graph *child;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    child = node->data.child;
    child->child = true;
    if (!child->handle)
        child->handle = sg_handle_new(SG_KIND_GRAPH, child);
    *phGraph = (CUgraph)(uintptr_t)child->handle;
    return sg_leave(child->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

SG_CALL(cuGraphEventRecordNodeGetEvent, CUgraphNode hNode, CUevent *event_out)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *event_out = (CUevent)(uintptr_t)node->data.event;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphEventWaitNodeGetEvent, CUgraphNode hNode, CUevent *event_out)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *event_out = (CUevent)(uintptr_t)node->data.event;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphBatchMemOpNodeGetParams, CUgraphNode hNode,
        CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    struct sg_graph_node *node;
    CUresult rc =
        enter_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        .ctx = (CUcontext)(uintptr_t)node->data.ctx,
        .count = node->data.memops.n,
        .paramArray = node->data.memops.ops,
        .flags = node->data.memops.flags,
    };
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphMemAllocNodeGetParams, CUgraphNode hNode,
        CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = node->data.alloc.props,
        .bytesize = node->data.alloc.size,
        .dptr = sg_graph_mem_base(node->data.alloc.mem),
    };
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphMemFreeNodeGetParams, CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    *dptr_out = node->data.free_ptr;
    return sg_leave(CUDA_SUCCESS);
}

/* -------------------------------------------------------------------- changing */

/* The node to change: the graph's, or its copy in @hexec. */
static struct sg_graph_node *
target(CUgraphExec hexec, bool in_exec, CUgraphNode hnode)
{
    struct sg_graph_node *node = SG_OBJ(sg_graph_node, SG_KIND_NODE, hnode);
    struct sg_graph_exec *exec;

    if (!node || !in_exec)
        return node;
    exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, hexec);
    if (!exec || sg_graph_exec_own(exec) != CUDA_SUCCESS)
        return NULL;
    return sg_graph_exec_find(exec, node);
}

static CUresult
enter_target(CUgraphExec hexec, bool in_exec, CUgraphNode hnode, CUgraphNodeType type,
             struct sg_graph_node **ret_node)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_node = target(hexec, in_exec, hnode);
    if (!*ret_node || (*ret_node)->data.type != type)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Puts @data in the node's place when building it went well.  Unlocks. */
static CUresult
replace(CUresult rc, CUgraphExec hexec, bool in_exec, CUgraphNode hnode,
        struct sg_node_data *data)
{
    struct sg_graph_node *node = target(hexec, in_exec, hnode);

    if (!node) /* building dropped the lock, and somebody took the node away */
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        if (data->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            sg_graph_take_ids(data->child, node->data.child);
            if (in_exec)
                sg_graph_forget_index(
                    SG_OBJ(sg_graph_exec, SG_KIND_EXEC, hexec)->graph);
        }
        sg_node_data_fini(&node->data);
        node->data = *data;
    } else {
        sg_node_data_fini(data);
    }
    return sg_leave(rc);
}

/* What an instance allows of a copy: one dimension before and after, some bytes, and
 * memory of the same kinds. */
static CUresult
check_copy_update(const struct sg_graph_node *node, const CUDA_MEMCPY3D *p)
{
    const CUDA_MEMCPY3D *old = &node->data.copy;

    return p && p->WidthInBytes && p->Height == 1 && p->Depth == 1 &&
                   old->Height == 1 && old->Depth == 1 && sg_graph_same_memory(old, p)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* And of a fill: its height stays, and a fill of two dimensions keeps them all. */
static CUresult
check_fill_update(const struct sg_graph_node *node, const CUDA_MEMSET_NODE_PARAMS *p)
{
    const CUDA_MEMSET_NODE_PARAMS *old = &node->data.set;

    if (!p || !p->width || !p->height || p->height != old->height)
        return CUDA_ERROR_INVALID_VALUE;
    return old->height == 1 || (p->width == old->width && p->pitch == old->pitch &&
                                p->elementSize == old->elementSize)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
update_copy(const struct sg_graph_node *node, const CUDA_MEMCPY3D *p, CUcontext ctx,
            struct sg_node_data *data)
{
    CUresult rc = check_copy_update(node, p);

    return rc == CUDA_SUCCESS ? sg_build_copy(p, ctx, data) : rc;
}

static CUresult
update_fill(const struct sg_graph_node *node, const CUDA_MEMSET_NODE_PARAMS *p,
            CUcontext ctx, struct sg_node_data *data)
{
    CUresult rc = check_fill_update(node, p);

    return rc == CUDA_SUCCESS ? sg_build_fill(p, ctx, data) : rc;
}

/* The shape of a child stays, with all that an update may not change. */
static CUresult
check_child_update(const struct sg_graph_node *node, CUgraph child)
{
    const struct sg_graph *graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, child);

    return graph && sg_graph_may_become(node->data.child, graph)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
update_child(const struct sg_graph_node *node, CUgraph child, struct sg_node_data *data)
{
    CUresult rc = check_child_update(node, child);

    return rc == CUDA_SUCCESS ? sg_build_child(child, data) : rc;
}

#define SET(exec, in_exec, kind, build)                                                \
    struct sg_node_data data = {.type = CU_GRAPH_NODE_TYPE_EMPTY};                     \
    struct sg_graph_node *node;                                                        \
    CUresult rc = enter_target(exec, in_exec, hNode, kind, &node);                     \
                                                                                       \
    if (rc != CUDA_SUCCESS)                                                            \
        return rc;                                                                     \
    return replace(build, exec, in_exec, hNode, &data)

SG_CALL(cuGraphKernelNodeSetParams_v2, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_KERNEL,
        sg_build_kernel(nodeParams, &node->data, &data));
}

SG_CALL(cuGraphKernelNodeSetParams, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p = sg_build_widen(nodeParams);

    SET(NULL, false, CU_GRAPH_NODE_TYPE_KERNEL,
        sg_build_kernel(nodeParams ? &p : NULL, &node->data, &data));
}

SG_CALL(cuGraphExecKernelNodeSetParams_v2, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_KERNEL,
        sg_build_kernel(nodeParams, &node->data, &data));
}

SG_CALL(cuGraphExecKernelNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p = sg_build_widen(nodeParams);

    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_KERNEL,
        sg_build_kernel(nodeParams ? &p : NULL, &node->data, &data));
}

SG_CALL(cuGraphMemcpyNodeSetParams, CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_MEMCPY,
        sg_build_copy(nodeParams, (CUcontext)(uintptr_t)node->data.ctx, &data));
}

SG_CALL(cuGraphExecMemcpyNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_MEMCPY,
        update_copy(node, copyParams, ctx, &data));
}

SG_CALL(cuGraphMemsetNodeSetParams, CUgraphNode hNode,
        const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_MEMSET,
        sg_build_fill(nodeParams, (CUcontext)(uintptr_t)node->data.ctx, &data));
}

SG_CALL(cuGraphExecMemsetNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_MEMSET,
        update_fill(node, memsetParams, ctx, &data));
}

SG_CALL(cuGraphHostNodeSetParams, CUgraphNode hNode,
        const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_HOST, sg_build_host(nodeParams, &data));
}

SG_CALL(cuGraphExecHostNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_HOST, sg_build_host(nodeParams, &data));
}

SG_CALL(cuGraphExecChildGraphNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        CUgraph childGraph)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_GRAPH,
        update_child(node, childGraph, &data));
}

SG_CALL(cuGraphEventRecordNodeSetEvent, CUgraphNode hNode, CUevent event)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        sg_build_event(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &data));
}

SG_CALL(cuGraphExecEventRecordNodeSetEvent, CUgraphExec hGraphExec, CUgraphNode hNode,
        CUevent event)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        sg_build_event(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &data));
}

SG_CALL(cuGraphEventWaitNodeSetEvent, CUgraphNode hNode, CUevent event)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        sg_build_event(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &data));
}

SG_CALL(cuGraphExecEventWaitNodeSetEvent, CUgraphExec hGraphExec, CUgraphNode hNode,
        CUevent event)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        sg_build_event(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &data));
}

SG_CALL(cuGraphBatchMemOpNodeSetParams, CUgraphNode hNode,
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    SET(NULL, false, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        sg_build_memops(nodeParams, &data));
}

SG_CALL(cuGraphExecBatchMemOpNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    SET(hGraphExec, true, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        sg_build_memops(nodeParams, &data));
}

static CUresult
update_any(const struct sg_graph_node *node, bool in_exec, const CUgraphNodeParams *p,
           struct sg_node_data *data)
{
    const CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = p->memset.dst,
        .pitch = p->memset.pitch,
        .value = p->memset.value,
        .elementSize = p->memset.elementSize,
        .width = p->memset.width,
        .height = p->memset.height,
    };
    CUresult rc = CUDA_SUCCESS;

    if (in_exec && p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        rc = check_copy_update(node, &p->memcpy.copyParams);
    if (in_exec && p->type == CU_GRAPH_NODE_TYPE_MEMSET)
        rc = check_fill_update(node, &fill);
    if (in_exec && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        rc = check_child_update(node, p->graph.graph);
    return rc == CUDA_SUCCESS ? sg_build_any(p, &node->data, data) : rc;
}

/* Allocation nodes cannot change: their address is already known; nor can conditional
 * nodes, only what is in their bodies. */
static CUresult
set_any(CUgraphExec hexec, bool in_exec, CUgraphNode hNode, const CUgraphNodeParams *p)
{
    if (!p || p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        p->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
        p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    SET(hexec, in_exec, p->type, update_any(node, in_exec, p, &data));
}

SG_CALL(cuGraphNodeSetParams, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    return set_any(NULL, false, hNode, nodeParams);
}

SG_CALL(cuGraphExecNodeSetParams, CUgraphExec hGraphExec, CUgraphNode hNode,
        CUgraphNodeParams *nodeParams)
{
    return set_any(hGraphExec, true, hNode, nodeParams);
}

/* ----------------------------------------------------------- kernel attributes */

SG_CALL(cuGraphKernelNodeGetAttribute, CUgraphNode hNode, CUkernelNodeAttrID attr,
        CUkernelNodeAttrValue *value_out)
{
    const struct sg_kernel_hints *hints;
    const struct sg_launch_req *req;
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value_out, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    req = &node->data.kernel.req;
    hints = &node->data.kernel.hints;
    memset(value_out, 0, sizeof(*value_out));
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        value_out->cooperative = req->cooperative;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value_out->priority = req->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        value_out->clusterDim.x = req->cluster[0];
        value_out->clusterDim.y = req->cluster[1];
        value_out->clusterDim.z = req->cluster[2];
        break;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value_out->accessPolicyWindow = hints->window;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value_out->memSyncDomainMap = hints->domain_map;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value_out->memSyncDomain = hints->domain;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        value_out->clusterSchedulingPolicyPreference = hints->scheduling;
        break;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        value_out->preferredClusterDim.x = hints->preferred[0];
        value_out->preferredClusterDim.y = hints->preferred[1];
        value_out->preferredClusterDim.z = hints->preferred[2];
        break;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        value_out->sharedMemCarveout = hints->carveout;
        break;
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        value_out->nvlinkUtilCentricScheduling = hints->nvlink;
        break;
    default:
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphKernelNodeSetAttribute, CUgraphNode hNode, CUkernelNodeAttrID attr,
        const CUkernelNodeAttrValue *value)
{
    struct sg_launch_req *req;
    struct sg_graph_node *node;
    const struct sg_ctx *ctx;
    CUresult rc = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, node->data.ctx);
    if (ctx && !sg_launch_has_domain(ctx->dev, (int)attr, value))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    req = &node->data.kernel.req;
    if (sg_launch_hint(&node->data.kernel.hints, (int)attr, value, &rc))
        return sg_leave(rc);
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        req->cooperative = value->cooperative != 0;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        req->priority = value->priority;
        req->has_priority = true;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        req->cluster[0] = value->clusterDim.x;
        req->cluster[1] = value->clusterDim.y;
        req->cluster[2] = value->clusterDim.z;
        break;
    default:
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphKernelNodeCopyAttributes, CUgraphNode dst, CUgraphNode src)
{
    struct sg_graph_node *from, *to;
    CUresult rc = enter_node(src, CU_GRAPH_NODE_TYPE_KERNEL, dst, &from);

    if (rc != CUDA_SUCCESS)
        return rc;
    to = SG_OBJ(sg_graph_node, SG_KIND_NODE, dst);
    if (!to || to->data.type != CU_GRAPH_NODE_TYPE_KERNEL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    to->data.kernel.req.cooperative = from->data.kernel.req.cooperative;
    memcpy(to->data.kernel.req.cluster, from->data.kernel.req.cluster,
           sizeof(to->data.kernel.req.cluster));
    to->data.kernel.req.priority = from->data.kernel.req.priority;
    to->data.kernel.req.has_priority = from->data.kernel.req.has_priority;
    to->data.kernel.hints = from->data.kernel.hints;
    return sg_leave(CUDA_SUCCESS);
}
