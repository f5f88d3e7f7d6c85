/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph nodes in the form that fits every kind: CUgraphNodeParams.
 *
 * The image of the structure arrives with ids in place of handles; kernel parameters,
 * the arrays that it points to (`tail`) and the token of a host function follow in the
 * frame.  Fields that the kind does not use are ignored.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_box.h"
#include "wrk_graph_end.h"
#include "wrk_graphmem.h"
#include "wrk_hostfn.h"
#include "wrk_hostfn_graph.h"
#include "wrk_params.h"
#include "wrk_struct.h"

#include <string.h>

#define GRAPHS_MAX 64u

/* What a node is made from, and what has to be undone if it is not. */
struct any_node {
    CUgraphNodeParams params;
    struct wrk_params extra;
    struct wrk_hostfn *host;
    CUgraph graphs[GRAPHS_MAX]; /* bodies of a conditional node */
};

/* One handle of @kind in place of the id at @field. */
static CUresult
any_handle(struct wrk *w, unsigned kind, void *field)
{
    uint64_t id;
    void *obj = NULL;
    CUresult r;

    memcpy(&id, field, sizeof(id));
    r = wrk_handle_get(w, kind, id, &obj);
    memcpy(field, &obj, sizeof(obj));
    return r;
}

/* Elements of @size that the tail must hold, or NULL. */
static const void *
any_tail(const uint8_t *tail, uint32_t tail_len, uint64_t n, size_t size, uint64_t max)
{
    return n && n <= max && tail_len == n * size ? tail : NULL;
}

static CUresult
any_kernel(struct wrk *w, struct any_node *n, const uint8_t *params,
           uint32_t params_len)
{
    CUDA_KERNEL_NODE_PARAMS_v2 v2;
    CUresult r;

    static_assert(sizeof(v2) == sizeof(n->params.kernel), "one layout for both");
    memcpy(&v2, &n->params.kernel, sizeof(v2));
    v2.kernelParams = NULL;
    v2.extra = wrk_params_fill(&n->extra, params, params_len);
    r = wrk_fix_in_CUDA_KERNEL_NODE_PARAMS_v2(w, &v2);
    memcpy(&n->params.kernel, &v2, sizeof(v2));
    return r;
}

/* Pageable memory of the client cannot be a node's: the client stages it or refuses. */
static CUresult
any_copy(struct wrk *w, CUDA_MEMCPY_NODE_PARAMS *p)
{
    CUresult r = any_handle(w, WIRE_KIND_CTX, &p->copyCtx);

    if (p->copyParams.srcMemoryType == CU_MEMORYTYPE_HOST ||
        p->copyParams.dstMemoryType == CU_MEMORYTYPE_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = wrk_fix_in_CUDA_MEMCPY3D_v2(w, &p->copyParams);
    return r == CUDA_SUCCESS ? wrk_box_on_card(&p->copyParams) : r;
}

static CUresult
any_memory(struct any_node *n, const uint8_t *tail, uint32_t tail_len)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p = &n->params.alloc;

    p->poolProps.win32SecurityAttributes = NULL;
    p->accessDescs =
        any_tail(tail, tail_len, p->accessDescCount, sizeof(CUmemAccessDesc), 64);
    return p->accessDescCount && !p->accessDescs ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_SUCCESS;
}

static CUresult
any_ops(struct wrk *w, struct any_node *n, const uint8_t *tail, uint32_t tail_len)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *p = &n->params.memOp;

    p->paramArray = (CUstreamBatchMemOpParams *)(uintptr_t)any_tail(
        tail, tail_len, p->count, sizeof(*p->paramArray), 256);
    if (p->count && !p->paramArray)
        return CUDA_ERROR_INVALID_VALUE;
    return any_handle(w, WIRE_KIND_CTX, &p->ctx);
}

static CUresult
any_host(struct wrk *w, struct any_node *n, uint64_t token)
{
    n->host = wrk_hostfn_new(w, WRK_HOST_GRAPH, token, 0);
    n->params.host.fn = wrk_hostfn_run;
    n->params.host.userData = n->host;
    return n->host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Handles for ids and our memory for the client's, by the node's kind. */
static CUresult
any_open(struct wrk *w, struct any_node *n, const uint8_t *params, uint32_t params_len,
         const uint8_t *tail, uint32_t tail_len, uint64_t token)
{
    switch ((int)n->params.type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return any_kernel(w, n, params, params_len);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return any_copy(w, &n->params.memcpy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return any_handle(w, WIRE_KIND_CTX, &n->params.memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return any_host(w, n, token);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return any_handle(w, WIRE_KIND_GRAPH, &n->params.graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return any_handle(w, WIRE_KIND_EVENT, &n->params.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return any_handle(w, WIRE_KIND_EVENT, &n->params.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return any_memory(n, tail, tail_len);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return any_ops(w, n, tail, tail_len);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        n->params.conditional.phGraph_out = NULL;
        return n->params.conditional.size <= GRAPHS_MAX
                   ? any_handle(w, WIRE_KIND_CTX, &n->params.conditional.ctx)
                   : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* What the driver filled in: an address, or the bodies of a conditional node. */
static void
any_answer(struct wrk *w, struct wrk_reply *rep,
           const struct wire_args_cuGraphAddNode_v2 *a, const struct any_node *n)
{
    struct wire_cuGraphAddNode_v2_rep fixed = {0};
    struct wire_cuGraphAddNode_v2_rep_room room;
    CUgraphNodeParams out = *a->nodeParams;
    void *body;

    if (out.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        out.alloc.dptr = n->params.alloc.dptr;
    if (out.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && n->params.conditional.phGraph_out)
        fixed.n_graphs = n->params.conditional.size;
    memcpy(fixed.nodeParams, &out, sizeof(out));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_cuGraphAddNode_v2_rep_size(&fixed));
    if (!body)
        return;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuGraphAddNode_v2_rep_place(&room, body);
    for (uint32_t i = 0; i < fixed.n_graphs; i++) {
        room.graphs[i] =
            wrk_handle_name(w, WIRE_KIND_GRAPH, n->params.conditional.phGraph_out[i]);
        wrk_graph_end_body(w, room.graphs[i], a->phGraphNode_id);
    }
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
}

CUresult
h_cuGraphAddNode_v2(struct wrk *w, const struct wire_args_cuGraphAddNode_v2 *a,
                    struct wrk_reply *rep)
{
    struct any_node n = {.params = *a->nodeParams};
    CUgraphNode node = NULL;
    CUresult r =
        any_open(w, &n, a->params, a->params_len, a->tail, a->tail_len, a->token);

    if (r == CUDA_SUCCESS && n.params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        r = wrk_graphmem_node(w, &n.params.alloc.poolProps, n.params.alloc.bytesize);
    if (r == CUDA_SUCCESS && n.host)
        wrk_hostfn_tie(n.host, a->hGraph);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphAddNode_v2, &node, a->hGraph, a->dependencies,
                     a->dependencyData, a->numDependencies, &n.params);
    if (r != CUDA_SUCCESS) {
        if (n.host)
            wrk_hostfn_untie(n.host, a->hGraph);
        return r;
    }
    wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    any_answer(w, rep, a, &n);
    return CUDA_SUCCESS;
}

CUresult
h_cuGraphNodeSetParams(struct wrk *w, const struct wire_args_cuGraphNodeSetParams *a,
                       struct wrk_reply *rep)
{
    struct wire_cuGraphNodeSetParams_rep *body = rep->body;
    struct any_node n = {.params = *a->nodeParams};
    struct wrk_hostfn_change change;
    CUresult r =
        any_open(w, &n, a->params, a->params_len, a->tail, a->tail_len, a->token);

    if (n.host)
        wrk_hostfn_change_begin(w, &change, a->hNode, n.host);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphNodeSetParams, a->hNode, &n.params);
    if (n.host)
        wrk_hostfn_change_end(w, &change, r);
    memcpy(body->nodeParams, a->nodeParams, sizeof(*a->nodeParams));
    return r;
}

CUresult
h_cuGraphExecNodeSetParams(struct wrk *w,
                           const struct wire_args_cuGraphExecNodeSetParams *a,
                           struct wrk_reply *rep)
{
    struct wire_cuGraphExecNodeSetParams_rep *body = rep->body;
    struct any_node n = {.params = *a->nodeParams};
    CUresult r =
        any_open(w, &n, a->params, a->params_len, a->tail, a->tail_len, a->token);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphExecNodeSetParams, a->hGraphExec, a->hNode, &n.params);
    if (n.host && r == CUDA_SUCCESS)
        wrk_hostfn_exec_given(w, a->hGraphExec, a->hNode, n.host);
    else if (n.host)
        wrk_hostfn_drop(n.host);
    memcpy(body->nodeParams, a->nodeParams, sizeof(*a->nodeParams));
    return r;
}
