/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs that hold more than numbers and handles: kernels, host functions,
 * memory, and what a driver tells of them.
 *
 * Nodes given in the one form that fits all kinds are in h_graph_params.c.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_graph_end.h"
#include "wrk_graphmem.h"
#include "wrk_hostfn.h"
#include "wrk_hostfn_graph.h"
#include "wrk_kernels.h"
#include "wrk_log_mute.h"
#include "wrk_params.h"
#include "wrk_struct.h"

#include <string.h>

/* The caps of the description, for what we copy into answers. */
#define PARAM_BYTES_MAX 32768u
#define ACCESS_MAX 64u
#define OPS_MAX 256u
#define NODES_MAX 4096u

/* ---- kernels ---- */

static CUDA_KERNEL_NODE_PARAMS
kernel_node(const CUDA_KERNEL_NODE_PARAMS *from, struct wrk_params *p,
            const uint8_t *params, uint32_t len)
{
    CUDA_KERNEL_NODE_PARAMS node = *from;

    node.kernelParams = NULL;
    node.extra = wrk_params_fill(p, params, len);
    return node;
}

CUresult
h_cuGraphAddKernelNode_v2(struct wrk *w,
                          const struct wire_args_cuGraphAddKernelNode_v2 *a,
                          struct wrk_reply *rep)
{
    struct wrk_params p;
    CUDA_KERNEL_NODE_PARAMS params =
        kernel_node(a->nodeParams, &p, a->params, a->params_len);
    CUgraphNode node = NULL;
    CUresult r = WRK_CALL(w, cuGraphAddKernelNode_v2, &node, a->hGraph, a->dependencies,
                          a->numDependencies, &params);

    (void)rep;
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    return r;
}

CUresult
h_cuGraphKernelNodeSetParams_v2(struct wrk *w,
                                const struct wire_args_cuGraphKernelNodeSetParams_v2 *a,
                                struct wrk_reply *rep)
{
    struct wrk_params p;
    CUDA_KERNEL_NODE_PARAMS params =
        kernel_node(a->nodeParams, &p, a->params, a->params_len);

    (void)rep;
    return WRK_CALL(w, cuGraphKernelNodeSetParams_v2, a->hNode, &params);
}

CUresult
h_cuGraphExecKernelNodeSetParams_v2(
    struct wrk *w, const struct wire_args_cuGraphExecKernelNodeSetParams_v2 *a,
    struct wrk_reply *rep)
{
    struct wrk_params p;
    CUDA_KERNEL_NODE_PARAMS params =
        kernel_node(a->nodeParams, &p, a->params, a->params_len);

    (void)rep;
    return WRK_CALL(w, cuGraphExecKernelNodeSetParams_v2, a->hGraphExec, a->hNode,
                    &params);
}

/* Copy the parameters one by one to the offsets that the kernel has for them; *ret is
 * the end of the last. */
static CUresult
gather_params(struct wrk *w, const CUDA_KERNEL_NODE_PARAMS *p, uint8_t *to,
              uint32_t *ret)
{
    CLEANUP_FREE struct wrk_kernel_params *known = malloc(sizeof(*known));
    struct wrk_ctx_lent lent;
    CUresult r;

    if (!known)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_ctx_lend(w, &lent);
    r = wrk_kernels_params(w, p->func ? p->func : (CUfunction)p->kern, !p->func, known);
    wrk_ctx_take_back(w, &lent);
    if (r != CUDA_SUCCESS)
        return r;
    if (known->bytes > PARAM_BYTES_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; i < known->n; i++)
        memcpy(to + known->params[i].offset, p->kernelParams[i], known->params[i].size);
    *ret = known->bytes;
    return CUDA_SUCCESS;
}

/* The buffer form: a list of pairs. */
static uint32_t
copy_extra(void *const *extra, uint8_t *to)
{
    const void *buffer = NULL;
    size_t size = 0;

    for (size_t i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END && i < 4; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[i + 1];
    }
    if (!buffer || size > PARAM_BYTES_MAX)
        return 0;
    memcpy(to, buffer, size);
    return (uint32_t)size;
}

/* A function that the client did not know: it lives as long as its module. */
static void
note_module(struct wrk *w, CUfunction func, uint64_t func_id)
{
    CUmodule module = NULL;
    uint64_t id;

    if (!func || WRK_CALL(w, cuFuncGetModule, &module, func) != CUDA_SUCCESS)
        return;
    id = wrk_handles_id_of(&w->handles, WIRE_KIND_MODULE, module);
    if (id)
        wrk_handle_of(w, func_id, id);
}

CUresult
h_cuGraphKernelNodeGetParams_v2(struct wrk *w,
                                const struct wire_args_cuGraphKernelNodeGetParams_v2 *a,
                                struct wrk_reply *rep)
{
    CLEANUP_FREE uint8_t *bytes = calloc(1, PARAM_BYTES_MAX);
    struct wire_cuGraphKernelNodeGetParams_v2_rep fixed = {0};
    struct wire_cuGraphKernelNodeGetParams_v2_rep_room room;
    CUDA_KERNEL_NODE_PARAMS params = {0};
    CUfunction func;
    bool known;
    CUresult r;
    void *body;

    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuGraphKernelNodeGetParams_v2, a->hNode, &params);
    if (r != CUDA_SUCCESS)
        return r;
    if (!params.kernelParams)
        fixed.params_len = copy_extra(params.extra, bytes);
    else
        r = gather_params(w, &params, bytes, &fixed.params_len);
    if (r != CUDA_SUCCESS)
        return r;
    params.kernelParams = NULL;
    params.extra = NULL;
    func = params.func;
    known = wrk_func_id_of(w, func) != 0;
    wrk_fix_out_CUDA_KERNEL_NODE_PARAMS_v2(w, &params);
    if (!known)
        note_module(w, func, (uint64_t)(uintptr_t)params.func);
    memcpy(fixed.nodeParams, &params, sizeof(params));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req,
                             wire_cuGraphKernelNodeGetParams_v2_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuGraphKernelNodeGetParams_v2_rep_place(&room, body);
    if (room.params)
        memcpy(room.params, bytes, fixed.params_len);
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

/* ---- host functions ---- */

CUresult
h_cuGraphAddHostNode(struct wrk *w, const struct wire_args_cuGraphAddHostNode *a,
                     struct wrk_reply *rep)
{
    struct wrk_hostfn *host = wrk_hostfn_new(w, WRK_HOST_GRAPH, a->token, 0);
    CUDA_HOST_NODE_PARAMS params = {wrk_hostfn_run, host};
    CUgraphNode node = NULL;
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_hostfn_tie(host, a->hGraph);
    r = WRK_CALL(w, cuGraphAddHostNode, &node, a->hGraph, a->dependencies,
                 a->numDependencies, &params);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    else
        wrk_hostfn_untie(host, a->hGraph);
    return r;
}

CUresult
h_cuGraphHostNodeSetParams(struct wrk *w,
                           const struct wire_args_cuGraphHostNodeSetParams *a,
                           struct wrk_reply *rep)
{
    struct wrk_hostfn *host = wrk_hostfn_new(w, WRK_HOST_GRAPH, a->token, 0);
    CUDA_HOST_NODE_PARAMS params = {wrk_hostfn_run, host};
    struct wrk_hostfn_change change;
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_hostfn_change_begin(w, &change, a->hNode, host);
    r = WRK_CALL(w, cuGraphHostNodeSetParams, a->hNode, &params);
    wrk_hostfn_change_end(w, &change, r);
    return r;
}

CUresult
h_cuGraphExecHostNodeSetParams(struct wrk *w,
                               const struct wire_args_cuGraphExecHostNodeSetParams *a,
                               struct wrk_reply *rep)
{
    struct wrk_hostfn *host = wrk_hostfn_new(w, WRK_HOST_GRAPH, a->token, 0);
    CUDA_HOST_NODE_PARAMS params = {wrk_hostfn_run, host};
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuGraphExecHostNodeSetParams, a->hGraphExec, a->hNode, &params);
    if (r == CUDA_SUCCESS)
        wrk_hostfn_exec_given(w, a->hGraphExec, a->hNode, host);
    else
        wrk_hostfn_drop(host);
    return r;
}

CUresult
h_cuGraphDestroy(struct wrk *w, const struct wire_args_cuGraphDestroy *a,
                 struct wrk_reply *rep)
{
    struct wrk_graph_end end;
    CUresult r;

    (void)rep;
    wrk_graph_end_begin(w, &end, a->hGraph, a->hGraph_id);
    r = WRK_CALL(w, cuGraphDestroy, a->hGraph);
    if (r == CUDA_SUCCESS)
        wrk_handle_del(w, WIRE_KIND_GRAPH, a->hGraph_id);
    wrk_graph_end_done(w, &end, r);
    return r;
}

CUresult
h_cuGraphDestroyNode(struct wrk *w, const struct wire_args_cuGraphDestroyNode *a,
                     struct wrk_reply *rep)
{
    struct wrk_hostfn_change change;
    struct wrk_graph_end end;
    CUresult r;

    (void)rep;
    wrk_graph_end_node(w, &end, a->hNode_id);
    wrk_hostfn_change_begin(w, &change, a->hNode, NULL);
    r = WRK_CALL(w, cuGraphDestroyNode, a->hNode);
    wrk_hostfn_change_end(w, &change, r);
    wrk_handle_del(w, WIRE_KIND_GRAPHNODE, a->hNode_id);
    wrk_graph_end_done(w, &end, r);
    return r;
}

/* --- memory
 * --------------------------------------------------------------------------- */

/* It costs the session something once it is executable: wrk_graphmem.h. */
CUresult
h_cuGraphAddMemAllocNode(struct wrk *w,
                         const struct wire_args_cuGraphAddMemAllocNode *a,
                         struct wrk_reply *rep)
{
    struct wire_cuGraphAddMemAllocNode_rep *body = rep->body;
    CUDA_MEM_ALLOC_NODE_PARAMS *p = a->nodeParams;
    CUgraphNode node = NULL;
    CUresult r = wrk_graphmem_node(w, &p->poolProps, p->bytesize);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphAddMemAllocNode, &node, a->hGraph, a->dependencies,
                     a->numDependencies, p);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    p->accessDescs = NULL;
    memcpy(body->nodeParams, p, sizeof(*p));
    return CUDA_SUCCESS;
}

CUresult
h_cuGraphMemAllocNodeGetParams(struct wrk *w,
                               const struct wire_args_cuGraphMemAllocNodeGetParams *a,
                               struct wrk_reply *rep)
{
    struct wire_cuGraphMemAllocNodeGetParams_rep fixed = {0};
    struct wire_cuGraphMemAllocNodeGetParams_rep_room room;
    const CUmemAccessDesc *access;
    CUDA_MEM_ALLOC_NODE_PARAMS p = {0};
    CUresult r = WRK_CALL(w, cuGraphMemAllocNodeGetParams, a->hNode, &p);
    void *body;

    if (r != CUDA_SUCCESS)
        return r;
    access = p.accessDescs;
    p.accessDescs = NULL;
    p.accessDescCount = access ? gp_min(p.accessDescCount, (size_t)ACCESS_MAX) : 0;
    fixed.n_access = (uint32_t)p.accessDescCount;
    memcpy(fixed.params_out, &p, sizeof(p));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req,
                             wire_cuGraphMemAllocNodeGetParams_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuGraphMemAllocNodeGetParams_rep_place(&room, body);
    if (room.access)
        memcpy(room.access, access, fixed.n_access * sizeof(*access));
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

CUresult
h_cuGraphBatchMemOpNodeGetParams(
    struct wrk *w, const struct wire_args_cuGraphBatchMemOpNodeGetParams *a,
    struct wrk_reply *rep)
{
    struct wire_cuGraphBatchMemOpNodeGetParams_rep fixed = {0};
    struct wire_cuGraphBatchMemOpNodeGetParams_rep_room room;
    const CUstreamBatchMemOpParams *ops;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {0};
    CUresult r = WRK_CALL(w, cuGraphBatchMemOpNodeGetParams, a->hNode, &p);
    void *body;

    if (r != CUDA_SUCCESS)
        return r;
    ops = p.paramArray;
    p.paramArray = NULL;
    p.count = ops ? gp_min(p.count, OPS_MAX) : 0;
    fixed.n_ops = p.count;
    wrk_fix_out_CUDA_BATCH_MEM_OP_NODE_PARAMS_v1(w, &p);
    memcpy(fixed.nodeParams_out, &p, sizeof(p));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req,
                             wire_cuGraphBatchMemOpNodeGetParams_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuGraphBatchMemOpNodeGetParams_rep_place(&room, body);
    if (room.ops)
        memcpy(room.ops, ops, fixed.n_ops * sizeof(*ops));
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

/* ---- captures ---- */

static void
name_nodes(struct wrk *w, uint64_t *to, const CUgraphNode *nodes, uint32_t n)
{
    for (uint32_t i = 0; to && i < n; i++)
        to[i] = wrk_handle_name(w, WIRE_KIND_GRAPHNODE, nodes[i]);
}

CUresult
h_cuStreamGetCaptureInfo_v2(struct wrk *w,
                            const struct wire_args_cuStreamGetCaptureInfo_v2 *a,
                            struct wrk_reply *rep)
{
    struct wire_cuStreamGetCaptureInfo_v2_rep fixed = {0};
    struct wire_cuStreamGetCaptureInfo_v2_rep_room room;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    CUgraph graph = NULL;
    cuuint64_t id = 0;
    size_t n = 0;
    CUresult r = WRK_CALL(w, cuStreamGetCaptureInfo_v2, a->hStream, &status, &id,
                          &graph, &nodes, &n);
    void *body;

    if (r != CUDA_SUCCESS)
        return r;
    if (n > NODES_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    fixed.captureStatus_out = (int32_t)status;
    fixed.id_out = id;
    fixed.graph_out = wrk_handle_name(w, WIRE_KIND_GRAPH, graph);
    fixed.n_nodes = nodes ? (uint32_t)n : 0;
    rep->taken = true;
    body =
        wrk_reply_reserve(w, rep->req, wire_cuStreamGetCaptureInfo_v2_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuStreamGetCaptureInfo_v2_rep_place(&room, body);
    name_nodes(w, room.nodes, nodes, fixed.n_nodes);
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

CUresult
h_cuStreamGetCaptureInfo_v3(struct wrk *w,
                            const struct wire_args_cuStreamGetCaptureInfo_v3 *a,
                            struct wrk_reply *rep)
{
    struct wire_cuStreamGetCaptureInfo_v3_rep fixed = {0};
    struct wire_cuStreamGetCaptureInfo_v3_rep_room room;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphEdgeData *edges = NULL;
    const CUgraphNode *nodes = NULL;
    CUgraph graph = NULL;
    cuuint64_t id = 0;
    size_t n = 0;
    CUresult r = WRK_CALL(w, cuStreamGetCaptureInfo_v3, a->hStream, &status, &id,
                          &graph, &nodes, &edges, &n);
    void *body;

    if (r != CUDA_SUCCESS)
        return r;
    if (n > NODES_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    fixed.captureStatus_out = (int32_t)status;
    fixed.id_out = id;
    fixed.graph_out = wrk_handle_name(w, WIRE_KIND_GRAPH, graph);
    fixed.n_nodes = nodes ? (uint32_t)n : 0;
    fixed.n_edges = edges ? (uint32_t)n : 0;
    rep->taken = true;
    body =
        wrk_reply_reserve(w, rep->req, wire_cuStreamGetCaptureInfo_v3_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuStreamGetCaptureInfo_v3_rep_place(&room, body);
    name_nodes(w, room.nodes, nodes, fixed.n_nodes);
    if (room.edges)
        memcpy(room.edges, edges, fixed.n_edges * sizeof(*edges));
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}
