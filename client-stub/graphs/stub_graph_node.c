/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs that hold copies, host functions or memory.  A copy that reads or
 * writes the client's own memory uses graph host memory (stub_graph_hostmem.h).
 */
#include "stub_call.h"
#include "stub_gen.h"
#include "stub_graph.h"
#include "stub_graph_hostmem.h"
#include "stub_hostfn.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <string.h>

/* ---- copies ----------------------------------------------------------------- */

static CUresult
copy_check(const CUDA_MEMCPY3D *p)
{
    CUresult r = stub_enter();

    return r == CUDA_SUCCESS && !p ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult
stub_impl_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct wire_cuGraphAddMemcpyNode_req head = {.hGraph = (uintptr_t)hGraph,
                                                 .ctx = (uintptr_t)ctx,
                                                 .numDependencies = numDependencies};
    struct wire_cuGraphAddMemcpyNode_req_room room;
    struct stub_call c;
    uint32_t size;
    CUresult r = copy_check(copyParams);

    if (r != CUDA_SUCCESS)
        return r;
    if (!phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    if (stub_graph_copy_is_local(copyParams))
        return stub_graph_hostmem_add(phGraphNode, hGraph, dependencies,
                                      numDependencies, copyParams, ctx);
    memcpy(head.copyParams, copyParams, sizeof(*copyParams));
    size = wire_cuGraphAddMemcpyNode_req_size(&head);
    if (!size)
        return stub_unsupported(WIRE_CALL_cuGraphAddMemcpyNode);
    head.phGraphNode = stub_handle_new(WIRE_KIND_GRAPHNODE);
    if (!head.phGraphNode)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphAddMemcpyNode, size);
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_cuGraphAddMemcpyNode_req_place(&room, c.body);
        if (room.dependencies)
            memcpy(room.dependencies, dependencies, numDependencies * sizeof(uint64_t));
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
stub_impl_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    struct wire_cuGraphMemcpyNodeSetParams_req *req;
    struct stub_call c;
    CUresult r = copy_check(nodeParams);

    if (r == CUDA_SUCCESS && stub_graph_copy_is_local(nodeParams))
        return stub_graph_hostmem_set(NULL, hNode, nodeParams, NULL);
    if (r == CUDA_SUCCESS)
        r = stub_call_begin(&c, WIRE_CALL_cuGraphMemcpyNodeSetParams, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->hNode = (uintptr_t)hNode;
    memcpy(req->nodeParams, nodeParams, sizeof(*nodeParams));
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                         const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct wire_cuGraphExecMemcpyNodeSetParams_req *req;
    struct stub_call c;
    CUresult r = copy_check(copyParams);

    if (r == CUDA_SUCCESS && stub_graph_copy_is_local(copyParams))
        return stub_graph_hostmem_set(hGraphExec, hNode, copyParams, ctx);
    if (r == CUDA_SUCCESS)
        r = stub_call_begin(&c, WIRE_CALL_cuGraphExecMemcpyNodeSetParams, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->hGraphExec = (uintptr_t)hGraphExec;
    req->hNode = (uintptr_t)hNode;
    req->ctx = (uintptr_t)ctx;
    memcpy(req->copyParams, copyParams, sizeof(*copyParams));
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* ---- host functions --------------------------------------------------------- */

/* The token of a node's function.  The server gives it back (WIRE_EVENT_HOST_GONE) when
 * nothing can run it any more: executable graphs keep it after the node has gone. */
static uint64_t
host_token(const CUDA_HOST_NODE_PARAMS *p, CUresult *r)
{
    uint64_t token = 0;

    *r = stub_enter();
    if (*r != CUDA_SUCCESS)
        return 0;
    if (!p || !p->fn) {
        *r = CUDA_ERROR_INVALID_VALUE;
        return 0;
    }
    token = stub_hostfn_add(p->fn, NULL, NULL, p->userData, true);
    if (!token)
        *r = CUDA_ERROR_OUT_OF_MEMORY;
    return token;
}

CUresult
stub_impl_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies,
                             const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphAddHostNode_req head = {.hGraph = (uintptr_t)hGraph,
                                               .numDependencies = numDependencies};
    struct wire_cuGraphAddHostNode_req_room room;
    struct stub_call c;
    uint32_t size;
    CUresult r;

    if (!phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    size = wire_cuGraphAddHostNode_req_size(&head);
    if (!size)
        return stub_unsupported(WIRE_CALL_cuGraphAddHostNode);
    head.token = host_token(nodeParams, &r);
    if (!head.token)
        return r;
    head.phGraphNode = stub_handle_new(WIRE_KIND_GRAPHNODE);
    r = head.phGraphNode ? stub_call_begin(&c, WIRE_CALL_cuGraphAddHostNode, size)
                         : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_cuGraphAddHostNode_req_place(&room, c.body);
        if (room.dependencies)
            memcpy(room.dependencies, dependencies, numDependencies * sizeof(uint64_t));
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS) {
        *phGraphNode = (CUgraphNode)(uintptr_t)head.phGraphNode;
        stub_graph_set_host(head.phGraphNode, head.token, nodeParams);
        return r;
    }
    stub_hostfn_forget(head.token);
    if (head.phGraphNode)
        stub_handle_del(WIRE_KIND_GRAPHNODE, head.phGraphNode);
    return r;
}

CUresult
stub_impl_cuGraphHostNodeSetParams(CUgraphNode hNode,
                                   const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphHostNodeSetParams_req *req;
    struct stub_call c;
    CUresult r;
    uint64_t token = host_token(nodeParams, &r);

    if (!token)
        return r;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphHostNodeSetParams, sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuGraphHostNodeSetParams_req){.hNode = (uintptr_t)hNode,
                                                          .token = token};
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS)
        stub_graph_set_host((uintptr_t)hNode, token, nodeParams);
    else
        stub_hostfn_forget(token);
    return r;
}

CUresult
stub_impl_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphExecHostNodeSetParams_req *req;
    struct stub_call c;
    CUresult r;
    uint64_t token = host_token(nodeParams, &r);

    if (!token)
        return r;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphExecHostNodeSetParams, sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuGraphExecHostNodeSetParams_req){.hGraphExec =
                                                                  (uintptr_t)hGraphExec,
                                                              .hNode = (uintptr_t)hNode,
                                                              .token = token};
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r != CUDA_SUCCESS)
        stub_hostfn_forget(token);
    return r;
}

CUresult
stub_impl_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                             unsigned int initialRefcount, unsigned int flags)
{
    CUDA_HOST_NODE_PARAMS fn = {destroy, ptr};
    struct wire_cuUserObjectCreate_req *req;
    struct stub_call c;
    uint64_t token, id;
    CUresult r;

    if (!object_out)
        return CUDA_ERROR_INVALID_VALUE;
    token = host_token(&fn, &r);
    if (!token)
        return r;
    id = stub_handle_new(WIRE_KIND_USEROBJ);
    r = id ? stub_call_begin(&c, WIRE_CALL_cuUserObjectCreate, sizeof(*req))
           : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuUserObjectCreate_req){.object_out = id,
                                                    .token = token,
                                                    .initialRefcount = initialRefcount,
                                                    .flags = flags};
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS) {
        *object_out = (CUuserObject)(uintptr_t)id;
        return r;
    }
    stub_hostfn_forget(token);
    if (id)
        stub_handle_del(WIRE_KIND_USEROBJ, id);
    return r;
}

/* ---- memory ----------------------------------------------------------------- */

/* The frame of a memory node, with the list that the structure points to. */
static CUresult
memory_add(const struct wire_cuGraphAddMemAllocNode_req *head, uint32_t size,
           const CUgraphNode *dependencies, const CUmemAccessDesc *access,
           CUDA_MEM_ALLOC_NODE_PARAMS *ret)
{
    struct wire_cuGraphAddMemAllocNode_req_room room;
    struct wire_cuGraphAddMemAllocNode_rep_view view;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuGraphAddMemAllocNode, size);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, head, sizeof(*head));
    wire_cuGraphAddMemAllocNode_req_place(&room, c.body);
    if (room.dependencies)
        memcpy(room.dependencies, dependencies,
               head->numDependencies * sizeof(uint64_t));
    for (size_t i = 0; room.nodeParams_accessDescs && i < ret->accessDescCount; i++) {
        room.nodeParams_accessDescs[i] = access[i];
        stub_wire_CUmemAccessDesc_v1(&room.nodeParams_accessDescs[i]);
    }
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS) {
        if (wire_cuGraphAddMemAllocNode_rep_open(&view, c.reply, c.reply_size, 0))
            memcpy(ret, view.f->nodeParams, sizeof(*ret));
        else
            r = stub_call_bad(WIRE_CALL_cuGraphAddMemAllocNode);
    }
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies,
                                 size_t numDependencies,
                                 CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    struct wire_cuGraphAddMemAllocNode_req head = {.hGraph = (uintptr_t)hGraph,
                                                   .numDependencies = numDependencies};
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    uint32_t size;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!phGraphNode || !nodeParams || (numDependencies && !dependencies) ||
        (nodeParams->accessDescCount && !nodeParams->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    p = *nodeParams;
    stub_wire_CUDA_MEM_ALLOC_NODE_PARAMS_v1(&p);
    p.accessDescs = NULL;
    memcpy(head.nodeParams, &p, sizeof(p));
    size = wire_cuGraphAddMemAllocNode_req_size(&head);
    if (!size)
        return stub_unsupported(WIRE_CALL_cuGraphAddMemAllocNode);
    head.phGraphNode = stub_handle_new(WIRE_KIND_GRAPHNODE);
    if (!head.phGraphNode)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = memory_add(&head, size, dependencies, nodeParams->accessDescs, &p);
    if (r != CUDA_SUCCESS) {
        stub_handle_del(WIRE_KIND_GRAPHNODE, head.phGraphNode);
        return r;
    }
    nodeParams->dptr = p.dptr;
    stub_graph_enter_memory(p.dptr, p.bytesize);
    *phGraphNode = (CUgraphNode)(uintptr_t)head.phGraphNode;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    struct wire_cuGraphMemAllocNodeGetParams_req *req;
    struct wire_cuGraphMemAllocNodeGetParams_rep_view view = {0};
    struct stub_call c;
    CUresult r;

    if (!params_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphMemAllocNodeGetParams, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hNode = (uintptr_t)hNode;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuGraphMemAllocNodeGetParams_rep_open(&view, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuGraphMemAllocNodeGetParams);
    if (r == CUDA_SUCCESS) {
        memcpy(params_out, view.f->params_out, sizeof(*params_out));
        stub_unwire_CUDA_MEM_ALLOC_NODE_PARAMS_v1(params_out);
        params_out->accessDescs =
            view.f->n_access ? stub_graph_keep((uintptr_t)hNode, view.access,
                                               view.f->n_access * sizeof(*view.access))
                             : NULL;
    }
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                         CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    struct wire_cuGraphBatchMemOpNodeGetParams_req *req;
    struct wire_cuGraphBatchMemOpNodeGetParams_rep_view view = {0};
    struct stub_call c;
    CUresult r;

    if (!nodeParams_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuGraphBatchMemOpNodeGetParams, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hNode = (uintptr_t)hNode;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuGraphBatchMemOpNodeGetParams_rep_open(&view, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuGraphBatchMemOpNodeGetParams);
    if (r == CUDA_SUCCESS) {
        memcpy(nodeParams_out, view.f->nodeParams_out, sizeof(*nodeParams_out));
        nodeParams_out->paramArray =
            view.f->n_ops ? stub_graph_keep((uintptr_t)hNode, view.ops,
                                            view.f->n_ops * sizeof(*view.ops))
                          : NULL;
    }
    stub_call_end(&c);
    return r;
}
