/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel nodes of graphs: parameters are packed as for a launch.
 */
#include "cuda_api.h"
#include "stub_accepted.h"
#include "stub_args.h"
#include "stub_call.h"
#include "stub_func.h"
#include "stub_graph.h"
#include "stub_graph_accepted.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_replica.h"
#include "wire_api.h"

#include <string.h>

/* The function that the parameters name, in either of the two fields. */
static CUfunction
node_func(const CUDA_KERNEL_NODE_PARAMS *p)
{
    return p->func ? p->func : (CUfunction)p->kern;
}

/* Graphs are of one server.  A driver with both cards would take the function for a new
 * node, and for a node of this kind that was not instantiated. */
static CUresult
node_of_another_server(uint16_t call, CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;

    if (call == WIRE_CALL_cuGraphExecKernelNodeSetParams_v2 ||
        (node && (cuGraphNodeGetType(node, &type) != CUDA_SUCCESS ||
                  type != CU_GRAPH_NODE_TYPE_KERNEL)))
        return CUDA_ERROR_INVALID_VALUE;
    return stub_unsupported(call);
}

/* Check and pack for @call, and for @node if there is one; @image gets the structure as
 * it is sent. */
static CUresult
node_open(uint16_t call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p,
          struct stub_args *args, void *image)
{
    CUDA_KERNEL_NODE_PARAMS copy;
    CUresult r = stub_enter();
    CUfunction f;

    if (r != CUDA_SUCCESS)
        return r;
    if (!p || !node_func(p))
        return CUDA_ERROR_INVALID_VALUE;
    /* A kernel of a library may be used in the graph of any server. */
    f = (CUfunction)(uintptr_t)stub_replica_func((uintptr_t)node_func(p));
    if (unlikely(stub_handle_ok(WIRE_KIND_FUNC, (uintptr_t)f) &&
                 wire_handle_link((uintptr_t)f) != stub_link_here()->number))
        return node_of_another_server(call, node);
    r = stub_args_open(args, f, p->kernelParams, p->extra);
    copy = *p;
    if (p->func)
        copy.func = f;
    else
        copy.kern = (CUkernel)f;
    copy.kernelParams = NULL;
    copy.extra = NULL;
    memcpy(image, &copy, sizeof(copy));
    return r;
}

CUresult
stub_impl_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies,
                                  size_t numDependencies,
                                  const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphAddKernelNode_v2_req head = {.hGraph = (uintptr_t)hGraph,
                                                    .numDependencies = numDependencies};
    struct wire_cuGraphAddKernelNode_v2_req_room room;
    struct stub_args args;
    struct stub_call c;
    uint32_t size;
    CUresult r = node_open(WIRE_CALL_cuGraphAddKernelNode_v2, NULL, nodeParams, &args,
                           head.nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    if (!phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    head.params_len = args.len;
    size = wire_cuGraphAddKernelNode_v2_req_size(&head);
    if (!size)
        return stub_unsupported(WIRE_CALL_cuGraphAddKernelNode_v2);
    head.phGraphNode = stub_handle_new(WIRE_KIND_GRAPHNODE);
    if (!head.phGraphNode)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphAddKernelNode_v2, size);
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_cuGraphAddKernelNode_v2_req_place(&room, c.body);
        if (room.dependencies)
            memcpy(room.dependencies, dependencies, numDependencies * sizeof(uint64_t));
        if (room.params)
            stub_args_put(&args, room.params);
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS)
        *phGraphNode = (CUgraphNode)(uintptr_t)head.phGraphNode;
    else
        stub_handle_del(WIRE_KIND_GRAPHNODE, head.phGraphNode);
    return r;
}

CUresult
stub_impl_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphKernelNodeSetParams_v2_req head = {.hNode = (uintptr_t)hNode};
    struct wire_cuGraphKernelNodeSetParams_v2_req_room room;
    struct stub_args args;
    struct stub_call c;
    CUresult r = node_open(WIRE_CALL_cuGraphKernelNodeSetParams_v2, hNode, nodeParams,
                           &args, head.nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    head.params_len = args.len;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphKernelNodeSetParams_v2,
                        wire_cuGraphKernelNodeSetParams_v2_req_size(&head));
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuGraphKernelNodeSetParams_v2_req_place(&room, c.body);
    if (room.params)
        stub_args_put(&args, room.params);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    stub_accepted_forget();
    return r;
}

CUresult
stub_impl_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphExecKernelNodeSetParams_v2_req head = {
        .hGraphExec = (uintptr_t)hGraphExec, .hNode = (uintptr_t)hNode};
    struct wire_cuGraphExecKernelNodeSetParams_v2_req_room room;
    struct stub_graph_accepted accepted;
    struct stub_args args;
    struct stub_call c;
    bool known;
    CUresult r = node_open(WIRE_CALL_cuGraphExecKernelNodeSetParams_v2, hNode,
                           nodeParams, &args, head.nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    head.params_len = args.len;
    stub_graph_accepted_init(&accepted, hGraphExec, hNode, head.nodeParams);
    known = stub_graph_accepted_known(&accepted);
    r = stub_call_begin(&c, WIRE_CALL_cuGraphExecKernelNodeSetParams_v2,
                        wire_cuGraphExecKernelNodeSetParams_v2_req_size(&head));
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuGraphExecKernelNodeSetParams_v2_req_place(&room, c.body);
    if (room.params)
        stub_args_put(&args, room.params);
    if (known)
        return stub_call_post(&c);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    if (r == CUDA_SUCCESS)
        stub_graph_accepted_note(&accepted);
    return r;
}

CUresult
stub_impl_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                        CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphKernelNodeGetParams_v2_req *req;
    struct wire_cuGraphKernelNodeGetParams_v2_rep_view view;
    uint8_t params[STUB_PARAM_BYTES_MAX];
    CUDA_KERNEL_NODE_PARAMS p;
    struct stub_call c;
    uint32_t len = 0;
    CUresult r;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphKernelNodeGetParams_v2, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hNode = (uintptr_t)hNode;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS) {
        if (wire_cuGraphKernelNodeGetParams_v2_rep_open(&view, c.reply, c.reply_size,
                                                        0)) {
            memcpy(&p, view.f->nodeParams, sizeof(p));
            len = view.f->params_len;
            if (len)
                memcpy(params, view.params, len);
        } else {
            r = stub_call_bad(WIRE_CALL_cuGraphKernelNodeGetParams_v2);
        }
    }
    stub_call_end(&c);
    if (r != CUDA_SUCCESS)
        return r;
    /* Outside the call: the layout of an unknown kernel is a question of its own. */
    p.kernelParams = NULL;
    p.extra = NULL;
    if (len) {
        p.kernelParams =
            stub_graph_keep_params((uintptr_t)hNode, node_func(&p), params, len);
        if (!p.kernelParams)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *nodeParams = p;
    return CUDA_SUCCESS;
}

/* ---- the form without kernel and context ------------------------------------ */

static CUDA_KERNEL_NODE_PARAMS
params_from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = p->func,
        .gridDimX = p->gridDimX,
        .gridDimY = p->gridDimY,
        .gridDimZ = p->gridDimZ,
        .blockDimX = p->blockDimX,
        .blockDimY = p->blockDimY,
        .blockDimZ = p->blockDimZ,
        .sharedMemBytes = p->sharedMemBytes,
        .kernelParams = p->kernelParams,
        .extra = p->extra,
    };
}

CUresult
stub_impl_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    p = params_from_v1(nodeParams);
    return stub_impl_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies,
                                             numDependencies, &p);
}

CUresult
stub_impl_cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    p = params_from_v1(nodeParams);
    return stub_impl_cuGraphKernelNodeSetParams_v2(hNode, &p);
}

CUresult
stub_impl_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                         const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    p = params_from_v1(nodeParams);
    return stub_impl_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &p);
}

CUresult
stub_impl_cuGraphKernelNodeGetParams(CUgraphNode hNode,
                                     CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    CUresult r;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_impl_cuGraphKernelNodeGetParams_v2(hNode, &p);
    if (r == CUDA_SUCCESS)
        *nodeParams = (CUDA_KERNEL_NODE_PARAMS_v1){
            .func = node_func(&p),
            .gridDimX = p.gridDimX,
            .gridDimY = p.gridDimY,
            .gridDimZ = p.gridDimZ,
            .blockDimX = p.blockDimX,
            .blockDimY = p.blockDimY,
            .blockDimZ = p.blockDimZ,
            .sharedMemBytes = p.sharedMemBytes,
            .kernelParams = p.kernelParams,
        };
    return r;
}
