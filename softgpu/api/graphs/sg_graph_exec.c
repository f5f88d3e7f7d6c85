/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiating, updating and launching graphs: the calls.
 */
#include "sg_graph_exec.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_graph.h"
#include "sg_graph_cond.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_stream.h"
#include "sg_work.h"

#include <stdlib.h>
#include <string.h>

struct sg_graph_node *
sg_graph_exec_find(struct sg_graph_exec *exec, const struct sg_graph_node *node)
{
    return sg_graph_find_inside(exec->graph, node->id);
}

CUresult
sg_graph_exec_own(struct sg_graph_exec *exec)
{
    struct sg_graph *copy;
    CUresult rc;

    if (exec->graph->refs == 1)
        return CUDA_SUCCESS;
    rc = sg_graph_clone(exec->graph, &copy);
    if (rc != CUDA_SUCCESS)
        return rc;
    sg_graph_free(exec->graph);
    exec->graph = copy;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------- instances */

static bool
may_be_in_body(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
           type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
           type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

/* All inner graphs can be ordered, and bodies hold nothing but what they may. */
static CUresult
check_nodes(const struct sg_graph *graph, bool in_body, struct sg_graph_node **ret_bad)
{
    CLEANUP_FREE struct sg_graph_node **order = NULL;
    CUresult rc = sg_graph_order(graph, &order);
    unsigned n;

    for (struct sg_graph_node *node = graph->first; node && rc == CUDA_SUCCESS;
         node = node->next) {
        const struct sg_node_data *d = &node->data;
        struct sg_graph *const *sub = sg_node_graphs(d, &n);

        *ret_bad = node;
        if (in_body && !may_be_in_body(d->type))
            rc = CUDA_ERROR_INVALID_VALUE;
        for (unsigned k = 0; k < n && rc == CUDA_SUCCESS; k++)
            rc = check_nodes(
                sub[k], in_body || d->type == CU_GRAPH_NODE_TYPE_CONDITIONAL, ret_bad);
    }
    return rc;
}

/* Allocation or free nodes, here or in graphs inside. */
static bool
holds_memory(const struct sg_graph *graph)
{
    unsigned n;

    if (sg_graph_has_memory(graph))
        return true;
    for (const struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

        for (unsigned k = 0; k < n; k++)
            if (holds_memory(sub[k]))
                return true;
    }
    return false;
}

static CUresult
instantiate(struct sg_graph *graph, uint64_t flags, struct sg_graph_exec **ret_exec,
            struct sg_graph_node **ret_bad)
{
    struct sg_graph_exec *exec;
    CUresult rc;

    *ret_bad = NULL;
    if (sg_ctx_process_error() != CUDA_SUCCESS)
        return sg_ctx_process_error();
    if (graph->child && graph->level) /* a node's own: goes with its graph */
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & ~(uint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                            CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
        return CUDA_ERROR_INVALID_VALUE;
    /* As documented: the nodes' memory is one instance's. */
    if (sg_handle_get(SG_KIND_EXEC, graph->instance) && holds_memory(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    rc = check_nodes(graph, false, ret_bad);
    if (rc == CUDA_SUCCESS)
        rc = sg_cond_check_used(graph);
    if (rc != CUDA_SUCCESS)
        return rc;
    exec = calloc(1, sizeof(*exec));
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sg_graph_clone(graph, &exec->graph);
    if (rc == CUDA_SUCCESS) {
        exec->handle = sg_handle_new(SG_KIND_EXEC, exec);
        rc = exec->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS) {
        sg_graph_free(exec->graph);
        free(exec);
        return rc;
    }
    exec->flags = flags;
    graph->instance = exec->handle;
    *ret_exec = exec;
    return CUDA_SUCCESS;
}

SG_CALL(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
        unsigned long long flags)
{
    struct sg_graph_node *bad;
    struct sg_graph_exec *exec;
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    /* There is no stream to upload in. */
    if (!phGraphExec || flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = instantiate(graph, flags, &exec, &bad);
    if (rc == CUDA_SUCCESS)
        *phGraphExec = (CUgraphExec)(uintptr_t)exec->handle;
    return sg_leave(rc);
}

SG_CALL(cuGraphInstantiate_v2, CUgraphExec *phGraphExec, CUgraph hGraph,
        CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        *logBuffer = '\0';
    return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

SG_CALL(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
        CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    struct sg_graph_node *bad = NULL;
    struct sg_graph_exec *exec;
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phGraphExec || !instantiateParams)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = instantiate(graph, instantiateParams->flags, &exec, &bad);
    if (rc == CUDA_SUCCESS)
        *phGraphExec = (CUgraphExec)(uintptr_t)exec->handle;
    instantiateParams->hErrNode_out =
        rc == CUDA_SUCCESS || !bad ? NULL : (CUgraphNode)(uintptr_t)bad->handle;
    instantiateParams->result_out =
        rc == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
        : rc == CUDA_ERROR_NOT_SUPPORTED
            ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
        : sg_cond_check_used(graph) ? CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED
        : rc == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                         : CUDA_GRAPH_INSTANTIATE_ERROR;
    return sg_leave(rc);
}

static CUresult
enter_exec(CUgraphExec handle, struct sg_graph_exec **ret_exec)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, handle);
    return *ret_exec ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
    struct sg_graph_exec *exec;
    CUresult rc = enter_exec(hGraphExec, &exec);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_handle_drop(exec->handle); /* launches have their own copies of everything */
    sg_work_unref(exec->last);
    sg_graph_free(exec->graph);
    free(exec);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphExecGetFlags, CUgraphExec hGraphExec, cuuint64_t *flags)
{
    struct sg_graph_exec *exec;
    CUresult rc = enter_exec(hGraphExec, &exec);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    /* Uploading does not change the instance: documented not to be told.  Nor does a
     * driver tell of priorities. */
    *flags = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    return sg_leave(CUDA_SUCCESS);
}

/* Nothing to upload: an instance is ready when it is made. */
SG_CALL(cuGraphUpload, CUgraphExec hGraphExec, CUstream hStream)
{
    struct sg_graph_exec *exec;
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, hGraphExec);
    if (!exec)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_stream_get(ctx, hStream, &stream));
}

/* ---------------------------------------------------------------------- updates */

/* The first difference: a node of the new graph, and one that it comes after. */
struct difference {
    const struct sg_graph_node *node, *from; /* NULL: none in particular */
};

static CUgraphExecUpdateResult same_shape(const struct sg_graph *a,
                                          const struct sg_graph *b,
                                          struct difference *ret_at);

/* The kind of memory of one side of a copy.  A unified address names memory that has a
 * kind of its own, and is no kind besides the others. */
static CUmemorytype
side_type(CUmemorytype type, CUdeviceptr addr)
{
    return type == CU_MEMORYTYPE_UNIFIED ? sg_mem_type(addr) : type;
}

bool
sg_graph_same_memory(const CUDA_MEMCPY3D *x, const CUDA_MEMCPY3D *y)
{
    return side_type(x->srcMemoryType, x->srcDevice) ==
               side_type(y->srcMemoryType, y->srcDevice) &&
           side_type(x->dstMemoryType, x->dstDevice) ==
               side_type(y->dstMemoryType, y->dstDevice);
}

/* A fill of one dimension may get others; one of two keeps its own. */
static bool
same_extent(const CUDA_MEMSET_NODE_PARAMS *x, const CUDA_MEMSET_NODE_PARAMS *y)
{
    return x->height == 1 || (x->height == y->height && x->width == y->width &&
                              x->pitch == y->pitch && x->elementSize == y->elementSize);
}

/* What may not change between two versions of a node. */
static CUgraphExecUpdateResult
same_node(const struct sg_node_data *x, const struct sg_node_data *y,
          struct difference *ret_at)
{
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    struct sg_graph *const *in_x, *const *in_y;
    unsigned n, n_y;

    if (x->type != y->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (x->type == CU_GRAPH_NODE_TYPE_KERNEL && x->ctx != y->ctx)
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    if (x->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
        !sg_graph_same_memory(&x->copy, &y->copy))
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (x->type == CU_GRAPH_NODE_TYPE_MEMSET && !same_extent(&x->set, &y->set))
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (x->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && x->alloc.mem != y->alloc.mem)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    in_x = sg_node_graphs(x, &n);
    in_y = sg_node_graphs(y, &n_y);
    if (x->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && !sg_cond_same(x, y))
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    for (unsigned k = 0; k < n && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; k++)
        result = same_shape(in_x[k], in_y[k], ret_at);
    return result;
}

/* The same nodes before it, by their places, and the same edges from them.  *ret_from:
 * the first that differs; NULL when their number does. */
static bool
same_deps(const struct sg_graph_node *x, const struct sg_graph_node *y,
          const struct sg_graph_node **ret_from)
{
    const struct sg_graph_edge *e = x->deps.first, *f = y->deps.first;

    *ret_from = NULL;
    if (x->deps.n != y->deps.n)
        return false;
    for (; e && f; e = e->next_dep, f = f->next_dep) {
        if (e->from->index == f->from->index &&
            memcmp(&e->data, &f->data, sizeof(e->data)) == 0)
            continue;
        *ret_from = f->from;
        return false;
    }
    return true;
}

/* @ret_at names no node when the number of nodes differs. */
static CUgraphExecUpdateResult
same_shape(const struct sg_graph *a, const struct sg_graph *b,
           struct difference *ret_at)
{
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

    *ret_at = (struct difference){0};
    if (a->n_nodes != b->n_nodes)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    sg_graph_number(a);
    sg_graph_number(b);
    for (struct sg_graph_node *x = a->first, *y = b->first; x && !result;
         x = x->next, y = y->next) {
        struct difference at = {0};

        result = same_deps(x, y, &at.from)
                     ? same_node(&x->data, &y->data, &at)
                     : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        *ret_at = at.node ? at : (struct difference){y, at.from};
    }
    return result;
}

bool
sg_graph_may_become(const struct sg_graph *old, const struct sg_graph *graph)
{
    struct difference at;

    return same_shape(old, graph, &at) == CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphNode
node_handle(const struct sg_graph_node *node)
{
    return node ? (CUgraphNode)(uintptr_t)node->handle : NULL;
}

SG_CALL(cuGraphExecUpdate_v2, CUgraphExec hGraphExec, CUgraph hGraph,
        CUgraphExecUpdateResultInfo *resultInfo)
{
    struct sg_graph *graph, *copy;
    struct sg_graph_exec *exec;
    struct difference at;
    CUresult rc = enter_exec(hGraphExec, &exec);

    if (rc != CUDA_SUCCESS)
        return rc;
    graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hGraph);
    if (!graph || !resultInfo)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof(*resultInfo));
    resultInfo->result = same_shape(exec->graph, graph, &at);
    if (resultInfo->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        resultInfo->errorNode = node_handle(at.node);
        resultInfo->errorFromNode = node_handle(at.from);
        return sg_leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
    rc = sg_graph_clone(graph, &copy);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sg_graph_take_ids(copy, exec->graph); /* handles of nodes keep working */
    sg_graph_free(exec->graph);
    exec->graph = copy;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphExecUpdate, CUgraphExec hGraphExec, CUgraph hGraph,
        CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult rc;

    if (!updateResult_out)
        return CUDA_ERROR_INVALID_VALUE;
    rc = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (hErrorNode_out)
        *hErrorNode_out = info.errorNode;
    *updateResult_out = rc == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                        : info.result      ? info.result
                                           : CU_GRAPH_EXEC_UPDATE_ERROR;
    return rc;
}
