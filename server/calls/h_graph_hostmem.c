/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of graphs from and to memory of the client: nodes that stand for them, and
 * what the client asks about those.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_box.h"
#include "wrk_ctx.h"
#include "wrk_graph_hostmem.h"
#include "wrk_struct.h"

#include <string.h>

#define PIECE_MAX 32768u

/* The driver has a copy of @inner, or refused it. */
static void
inner_end(struct wrk *w, CUgraph inner, uint64_t token, CUresult r)
{
    if (r != CUDA_SUCCESS)
        wrk_graph_hostmem_refused(token);
    WRK_CALL(w, cuGraphDestroy, inner);
}

CUresult
h_gp_stage_node(struct wrk *w, const struct wire_args_gp_stage_node *a,
                struct wrk_reply *rep)
{
    CUgraphNode node = NULL;
    CUgraph inner;
    CUresult r =
        wrk_graph_hostmem_graph(w, a->copyParams, a->ctx, a->token, a->end, &inner);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuGraphAddChildGraphNode, &node, a->hGraph, a->dependencies,
                 a->numDependencies, inner);
    inner_end(w, inner, a->token, r);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    return r;
}

/* The node goes behind what the stream has captured, and becomes its last.  As with a
 * node that the driver captures, its context is the stream's, whichever is current. */
CUresult
h_gp_stage_capture(struct wrk *w, const struct wire_args_gp_stage_capture *a,
                   struct wrk_reply *rep)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct wrk_handle_slot *ctx =
        wrk_handles_at(&w->handles, WIRE_KIND_CTX, wrk_ctx_of_stream(w, a->hStream));
    const CUgraphNode *deps = NULL;
    CUgraph graph = NULL, inner;
    CUgraphNode node = NULL;
    size_t n = 0;
    CUresult r = WRK_CALL(w, cuStreamGetCaptureInfo_v2, a->hStream, &status, NULL,
                          &graph, &deps, &n);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = wrk_graph_hostmem_graph(w, a->copyParams, ctx->obj, a->token, a->end, &inner);
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuGraphAddChildGraphNode, &node, graph, deps, n, inner);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuStreamUpdateCaptureDependencies, a->hStream, &node, 1,
                     CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    inner_end(w, inner, a->token, r);
    return r;
}

CUresult
h_gp_stage_set(struct wrk *w, const struct wire_args_gp_stage_set *a,
               struct wrk_reply *rep)
{
    CUDA_MEMCPY3D old;
    CUgraph inner;
    CUresult r;

    (void)rep;
    if (!a->hGraphExec)
        return wrk_graph_hostmem_replace(w, a->hNode, a->copyParams, a->token, a->end);
    if (!wrk_graph_hostmem_of(w, a->hNode, &old) ||
        old.srcMemoryType != a->copyParams->srcMemoryType ||
        old.dstMemoryType != a->copyParams->dstMemoryType)
        return CUDA_ERROR_INVALID_VALUE;
    r = wrk_graph_hostmem_graph(w, a->copyParams, a->ctx, a->token, a->end, &inner);
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuGraphExecChildGraphNodeSetParams, a->hGraphExec, a->hNode, inner);
    inner_end(w, inner, a->token, r);
    return r;
}

CUresult
h_gp_stage_write(struct wrk *w, const struct wire_args_gp_stage_write *a,
                 struct wrk_reply *rep)
{
    (void)w;
    (void)rep;
    return wrk_graph_hostmem_write(a->token, a->offset, a->data, a->n)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult
h_gp_stage_fill(struct wrk *w, const struct wire_args_gp_stage_fill *a,
                struct wrk_reply *rep)
{
    (void)rep;
    return wrk_graph_hostmem_fill(w, a->ticket, a->token, a->offset, a->data, a->n)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult
h_gp_stage_read(struct wrk *w, const struct wire_args_gp_stage_read *a,
                struct wrk_reply *rep)
{
    struct wire_gp_stage_read_rep fixed = {.len = a->n};
    struct wire_gp_stage_read_rep_room room;
    uint8_t piece[PIECE_MAX];
    void *body;

    if (a->n > PIECE_MAX || !wrk_graph_hostmem_read(a->token, a->offset, piece, a->n))
        return CUDA_ERROR_INVALID_VALUE;
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_gp_stage_read_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_stage_read_rep_place(&room, body);
    if (room.data)
        memcpy(room.data, piece, a->n);
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

CUresult
h_cuGraphNodeGetType(struct wrk *w, const struct wire_args_cuGraphNodeGetType *a,
                     struct wrk_reply *rep)
{
    struct wire_cuGraphNodeGetType_rep *body = rep->body;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_MEMCPY3D copy;
    CUresult r = WRK_CALL(w, cuGraphNodeGetType, a->hNode, &type);

    if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH &&
        wrk_graph_hostmem_of(w, a->hNode, &copy))
        type = CU_GRAPH_NODE_TYPE_MEMCPY;
    body->type = (int32_t)type;
    return r;
}

/* The child graph of such a node is internal to the worker: for the client the node is
 * a copy, which has no graph. */
CUresult
h_cuGraphChildGraphNodeGetGraph(struct wrk *w,
                                const struct wire_args_cuGraphChildGraphNodeGetGraph *a,
                                struct wrk_reply *rep)
{
    struct wire_cuGraphChildGraphNodeGetGraph_rep *body = rep->body;
    CUDA_MEMCPY3D copy;
    CUgraph graph = NULL;
    CUresult r;

    if (a->hNode && wrk_graph_hostmem_of(w, a->hNode, &copy))
        return CUDA_ERROR_INVALID_VALUE;
    r = WRK_CALL(w, cuGraphChildGraphNodeGetGraph, a->hNode, &graph);
    if (r == CUDA_SUCCESS)
        body->phGraph = wrk_handle_name(w, WIRE_KIND_GRAPH, graph);
    return r;
}

CUresult
h_cuGraphMemcpyNodeGetParams(struct wrk *w,
                             const struct wire_args_cuGraphMemcpyNodeGetParams *a,
                             struct wrk_reply *rep)
{
    struct wire_cuGraphMemcpyNodeGetParams_rep *body = rep->body;
    CUDA_MEMCPY3D copy = {0};
    CUresult r = CUDA_SUCCESS;

    if (!wrk_graph_hostmem_of(w, a->hNode, &copy)) {
        r = WRK_CALL(w, cuGraphMemcpyNodeGetParams, a->hNode, &copy);
        /* A host pointer that the driver knows is a stage's, hence the worker's. */
        wrk_box_clear(&copy);
    }
    if (r != CUDA_SUCCESS)
        return r;
    wrk_fix_out_CUDA_MEMCPY3D_v2(w, &copy);
    memcpy(body->nodeParams, &copy, sizeof(copy));
    return CUDA_SUCCESS;
}
