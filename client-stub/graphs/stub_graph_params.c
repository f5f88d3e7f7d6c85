/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs by CUgraphNodeParams, the one form that fits every kind.  The
 * structure is sent with ids in place of handles; what it points to follows in the
 * frame, by the node's kind.  The worker ignores fields that the kind does not have.
 */
#include "stub_accepted.h"
#include "stub_args.h"
#include "stub_call.h"
#include "stub_event.h"
#include "stub_gen.h"
#include "stub_graph.h"
#include "stub_graph_hostmem.h"
#include "stub_hostfn.h"
#include "stub_manual.h"
#include "stub_replica.h"
#include "wire_api.h"

#include <string.h>

/* What goes behind the image. */
struct any {
    CUgraphNodeParams params;
    struct stub_args args; /* kernel */
    bool packed;           /* args is in use */
    const void *tail;      /* memory: access list; operations: themselves */
    uint32_t tail_len;
    uint64_t token; /* host function */
};

/* The largest lists that the worker takes. */
#define ACCESS_MAX 64u
#define OPS_MAX 256u

static CUresult
any_tail(struct any *any, const void *list, uint64_t n, size_t size, uint64_t max)
{
    if (n && !list)
        return CUDA_ERROR_INVALID_VALUE;
    if (n > max)
        return CUDA_ERROR_NOT_SUPPORTED;
    any->tail = list;
    any->tail_len = (uint32_t)(n * size);
    return CUDA_SUCCESS;
}

static CUresult
any_kernel(struct any *any)
{
    CUDA_KERNEL_NODE_PARAMS_v3 *p = &any->params.kernel;
    CUfunction named = p->func ? p->func : (CUfunction)p->kern;
    CUfunction f = (CUfunction)(uintptr_t)stub_replica_func((uintptr_t)named);
    CUresult r = f ? stub_args_open(&any->args, f, p->kernelParams, p->extra)
                   : CUDA_ERROR_INVALID_VALUE;

    any->packed = r == CUDA_SUCCESS;
    if (p->func)
        p->func = f;
    else
        p->kern = (CUkernel)f;
    p->kernelParams = NULL;
    p->extra = NULL;
    return r;
}

static CUresult
any_host(struct any *any)
{
    CUDA_HOST_NODE_PARAMS_v2 *p = &any->params.host;

    if (!p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    any->token = stub_hostfn_add(p->fn, NULL, NULL, p->userData, true);
    p->fn = NULL;
    p->userData = NULL;
    return any->token ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult
any_memory(struct any *any)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p = &any->params.alloc;
    CUresult r = any_tail(any, p->accessDescs, p->accessDescCount,
                          sizeof(*p->accessDescs), ACCESS_MAX);

    p->accessDescs = NULL;
    stub_wire_CUDA_MEM_ALLOC_NODE_PARAMS_v1((CUDA_MEM_ALLOC_NODE_PARAMS_v1 *)(void *)p);
    return r;
}

/* Take apart what the application gave. */
static CUresult
any_open(struct any *any, const CUgraphNodeParams *params, uint16_t call)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memset(any, 0, sizeof(*any));
    any->params = *params;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return any_kernel(any);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        return any_host(any);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return any_memory(any);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        any->params.memOp.paramArray = NULL;
        if (params->memOp.count > OPS_MAX) /* no batch has as many */
            return CUDA_ERROR_INVALID_VALUE;
        return any_tail(any, params->memOp.paramArray, params->memOp.count,
                        sizeof(*params->memOp.paramArray), OPS_MAX);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        any->params.conditional.phGraph_out = NULL;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return stub_unsupported(call);
    default:
        return CUDA_SUCCESS;
    }
}

/* A copy that touches memory of this process has a way of its own. */
static bool
any_is_staged(const CUgraphNodeParams *p)
{
    return p && p->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
           stub_graph_copy_is_local(&p->memcpy.copyParams);
}

static bool
any_edges_are_plain(const CUgraphEdgeData *edges, size_t n)
{
    for (size_t i = 0; edges && i < n; i++)
        if (edges[i].type || edges[i].from_port || edges[i].to_port)
            return false;
    return true;
}

static void
any_fill(const struct any *any, uint8_t *params, uint8_t *tail)
{
    if (params && any->packed)
        stub_args_put(&any->args, params);
    if (!tail)
        return;
    memcpy(tail, any->tail, any->tail_len);
    if (any->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        for (size_t i = 0; i < any->tail_len / sizeof(CUmemAccessDesc); i++)
            stub_wire_CUmemAccessDesc_v1((CUmemAccessDesc *)(void *)tail + i);
}

static void
any_forget(const struct any *any)
{
    if (any->token)
        stub_hostfn_forget(any->token);
}

/* What the driver decided: an address, or the bodies of a conditional node. */
static CUresult
any_take(struct wire_cuGraphAddNode_v2_rep_view *view, uint64_t node,
         CUgraphNodeParams *params)
{
    CUgraphNodeParams out;

    memcpy(&out, view->f->nodeParams, sizeof(out));
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        params->alloc.dptr = out.alloc.dptr;
        stub_graph_enter_memory(out.alloc.dptr, params->alloc.bytesize);
    }
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        params->conditional.phGraph_out =
            stub_graph_keep(node, view->graphs, view->f->n_graphs * sizeof(uint64_t));
        if (!params->conditional.phGraph_out)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult
any_add(struct any *any, struct wire_cuGraphAddNode_v2_req *head,
        const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
        CUgraphNodeParams *params)
{
    struct wire_cuGraphAddNode_v2_req_room room;
    struct wire_cuGraphAddNode_v2_rep_view view;
    uint32_t size = wire_cuGraphAddNode_v2_req_size(head);
    struct stub_call c;
    CUresult r;

    if (!size)
        return stub_unsupported(WIRE_CALL_cuGraphAddNode_v2);
    r = stub_call_begin(&c, WIRE_CALL_cuGraphAddNode_v2, size);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, head, sizeof(*head));
    wire_cuGraphAddNode_v2_req_place(&room, c.body);
    if (room.dependencies)
        memcpy(room.dependencies, dependencies,
               head->numDependencies * sizeof(uint64_t));
    if (room.dependencyData)
        memcpy(room.dependencyData, edges, head->numDependencies * sizeof(*edges));
    any_fill(any, room.params, room.tail);
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        r = wire_cuGraphAddNode_v2_rep_open(&view, c.reply, c.reply_size, 0)
                ? any_take(&view, head->phGraphNode, params)
                : stub_call_bad(WIRE_CALL_cuGraphAddNode_v2);
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies,
                            const CUgraphEdgeData *dependencyData,
                            size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    struct wire_cuGraphAddNode_v2_req head = {
        .hGraph = (uintptr_t)hGraph,
        .numDependencies = numDependencies,
        .given = dependencyData ? WIRE_GIVEN_cuGraphAddNode_v2_dependencyData : 0};
    struct any any;
    CUresult r;

    stub_event_in_graphs();
    if (!phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    if (any_is_staged(nodeParams))
        return any_edges_are_plain(dependencyData, numDependencies)
                   ? stub_graph_hostmem_add(
                         phGraphNode, hGraph, dependencies, numDependencies,
                         &nodeParams->memcpy.copyParams, nodeParams->memcpy.copyCtx)
                   : stub_unsupported(WIRE_CALL_cuGraphAddNode_v2);
    r = any_open(&any, nodeParams, WIRE_CALL_cuGraphAddNode_v2);
    if (r != CUDA_SUCCESS)
        return r;
    head.phGraphNode = stub_handle_new(WIRE_KIND_GRAPHNODE);
    head.token = any.token;
    head.params_len = any.packed ? any.args.len : 0;
    head.tail_len = any.tail_len;
    memcpy(head.nodeParams, &any.params, sizeof(any.params));
    r = head.phGraphNode
            ? any_add(&any, &head, dependencies, dependencyData, nodeParams)
            : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        *phGraphNode = (CUgraphNode)(uintptr_t)head.phGraphNode;
        if (nodeParams->type == CU_GRAPH_NODE_TYPE_HOST)
            stub_graph_set_host(head.phGraphNode, head.token,
                                (const CUDA_HOST_NODE_PARAMS *)&nodeParams->host);
        return r;
    }
    any_forget(&any);
    if (head.phGraphNode)
        stub_handle_del(WIRE_KIND_GRAPHNODE, head.phGraphNode);
    return r;
}

CUresult
stub_impl_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                         const CUgraphNode *dependencies, size_t numDependencies,
                         CUgraphNodeParams *nodeParams)
{
    return stub_impl_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL,
                                       numDependencies, nodeParams);
}

CUresult
stub_impl_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    struct wire_cuGraphNodeSetParams_req head = {.hNode = (uintptr_t)hNode};
    struct wire_cuGraphNodeSetParams_req_room room;
    struct stub_call c;
    struct any any;
    CUresult r;

    stub_event_in_graphs();
    if (any_is_staged(nodeParams))
        return stub_graph_hostmem_set(NULL, hNode, &nodeParams->memcpy.copyParams,
                                      nodeParams->memcpy.copyCtx);
    r = any_open(&any, nodeParams, WIRE_CALL_cuGraphNodeSetParams);

    if (r != CUDA_SUCCESS)
        return r;
    head.token = any.token;
    head.params_len = any.packed ? any.args.len : 0;
    head.tail_len = any.tail_len;
    memcpy(head.nodeParams, &any.params, sizeof(any.params));
    r = stub_call_begin(&c, WIRE_CALL_cuGraphNodeSetParams,
                        wire_cuGraphNodeSetParams_req_size(&head));
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_cuGraphNodeSetParams_req_place(&room, c.body);
        any_fill(&any, room.params, room.tail);
        r = stub_call_wait(&c);
        stub_call_end(&c);
        stub_accepted_forget();
    }
    if (r != CUDA_SUCCESS)
        any_forget(&any);
    else if (nodeParams->type == CU_GRAPH_NODE_TYPE_HOST)
        stub_graph_set_host(head.hNode, head.token,
                            (const CUDA_HOST_NODE_PARAMS *)&nodeParams->host);
    return r;
}

CUresult
stub_impl_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                   CUgraphNodeParams *nodeParams)
{
    struct wire_cuGraphExecNodeSetParams_req head = {
        .hGraphExec = (uintptr_t)hGraphExec, .hNode = (uintptr_t)hNode};
    struct wire_cuGraphExecNodeSetParams_req_room room;
    struct stub_call c;
    struct any any;
    CUresult r;

    stub_event_in_graphs();
    if (any_is_staged(nodeParams))
        return stub_graph_hostmem_set(hGraphExec, hNode, &nodeParams->memcpy.copyParams,
                                      nodeParams->memcpy.copyCtx);
    r = any_open(&any, nodeParams, WIRE_CALL_cuGraphExecNodeSetParams);

    if (r != CUDA_SUCCESS)
        return r;
    head.token = any.token;
    head.params_len = any.packed ? any.args.len : 0;
    head.tail_len = any.tail_len;
    memcpy(head.nodeParams, &any.params, sizeof(any.params));
    r = stub_call_begin(&c, WIRE_CALL_cuGraphExecNodeSetParams,
                        wire_cuGraphExecNodeSetParams_req_size(&head));
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_cuGraphExecNodeSetParams_req_place(&room, c.body);
        any_fill(&any, room.params, room.tail);
        r = stub_call_wait(&c);
        stub_call_end(&c);
        stub_accepted_forget();
    }
    if (r != CUDA_SUCCESS)
        any_forget(&any);
    return r;
}
