/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiating, updating and launching graphs.
 *
 * A launch turns every node into an operation, all behind one head operation of
 * the stream and before one tail.  All of them are made before the first is
 * submitted, so a launch that fails for want of memory has done nothing.
 */
#include "sg_graph_exec.h"

#include "sg_capture.h"
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_graph.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_hostfn.h"
#include "sg_launch.h"
#include "sg_mem.h"
#include "sg_op.h"
#include "sg_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Child graphs in child graphs: recursion depth of copying and launching. */
    MAX_DEPTH = 64,
};

static const struct sg_op_class empty_class = {
    .name = "graph-empty",
    .lane = SG_LANE_INLINE,
    .always = true,
};

/* The operations of one launch, in an order that respects the edges. */
struct batch {
    struct sg_op **ops;
    size_t n, cap;
    struct sg_stream *stream;
};

static CUresult
batch_push(struct batch *b, struct sg_op *op)
{
    struct sg_op **p;

    if (b->n == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 64;
        p = realloc(b->ops, b->cap * sizeof(*p));
        if (!p) {
            sg_op_unref(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        b->ops = p;
    }
    b->ops[b->n++] = op;
    return CUDA_SUCCESS;
}

static CUresult
empty_op(struct sg_ctx *ctx, struct sg_op **ret_op)
{
    struct sg_op *op = calloc(1, sizeof(*op));

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_op_init(op, &empty_class, ctx);
    *ret_op = op;
    return CUDA_SUCCESS;
}

static CUresult
copy_op(struct sg_ctx *ctx, const struct sg_node_data *data, struct sg_op **ret_op)
{
    struct sg_box box;
    CUresult rc = sg_copy_resolve(&data->copy, &box);

    return rc == CUDA_SUCCESS ? sg_copy_op(ctx, &box, ret_op) : rc;
}

static CUresult
fill_op(struct sg_ctx *ctx, const struct sg_node_data *data, struct sg_op **ret_op)
{
    CUresult rc = sg_fill_check(&data->set);

    return rc == CUDA_SUCCESS ? sg_fill_op(ctx, &data->set, ret_op) : rc;
}

/* A record is seen by waits and queries that come after the launch. */
static CUresult
record_op(struct sg_ctx *ctx, const struct sg_node_data *data, struct sg_op **ret_op)
{
    struct sg_event *event = sg_handle_get(SG_KIND_EVENT, data->event);
    CUresult rc;

    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = empty_op(ctx, ret_op);
    if (rc == CUDA_SUCCESS) {
        sg_op_unref(event->record);
        event->record = sg_op_ref(*ret_op);
    }
    return rc;
}

static CUresult
wait_op(struct sg_ctx *ctx, const struct sg_node_data *data, struct sg_op **ret_op)
{
    struct sg_event *event = sg_handle_get(SG_KIND_EVENT, data->event);
    CUresult rc;

    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = empty_op(ctx, ret_op);
    if (rc == CUDA_SUCCESS && sg_op_after(*ret_op, event->record) < 0) {
        sg_op_unref(*ret_op);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}

struct mem_op {
    struct sg_op op; /* first */
    CUdeviceptr dptr;
    uint64_t size;
    struct sg_dev *dev; /* NULL: frees */
};

static CUresult
mem_run(struct sg_op *op)
{
    struct mem_op *m = container_of(op, struct mem_op, op);
    struct sg_alloc *alloc;
    CUresult rc = CUDA_SUCCESS;

    sg_lock();
    if (m->dev) {
        rc = sg_mem_new_reserved(m->dev, m->dptr, m->size, &alloc);
    } else {
        alloc = sg_mem_find(m->dptr);
        if (alloc && alloc->base == m->dptr && !alloc->internal && !alloc->pool)
            sg_mem_free(alloc);
        else
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    sg_unlock();
    return rc;
}

static const struct sg_op_class mem_class = {
    .name = "graph-memory",
    .lane = SG_LANE_COPY,
    .run = mem_run,
};

static CUresult
mem_op(struct sg_ctx *ctx, const struct sg_node_data *data, struct sg_op **ret_op)
{
    struct mem_op *m = calloc(1, sizeof(*m));

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_op_init(&m->op, &mem_class, ctx);
    if (data->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        m->dev = sg_dev_get(data->alloc.props.location.id);
        m->dptr = data->alloc.dptr;
        m->size = data->alloc.size;
    } else {
        m->dptr = data->free_ptr;
    }
    *ret_op = &m->op;
    return CUDA_SUCCESS;
}

static CUresult
node_op(struct sg_graph_node *node, struct sg_stream *stream, struct sg_op **ret_op)
{
    const struct sg_node_data *d = &node->data;
    struct sg_ctx *ctx = d->ctx ? sg_handle_get(SG_KIND_CTX, d->ctx) : stream->ctx;
    unsigned sm_first, n_sms;

    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (ctx->error != CUDA_SUCCESS)
        return ctx->error;
    if (!node->enabled)
        return empty_op(ctx, ret_op);
    switch ((int)d->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        sg_green_part(stream, &sm_first, &n_sms);
        return sg_launch_op(ctx, &d->kernel.req, d->kernel.params, sm_first, n_sms,
                            ret_op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_op(ctx, d, ret_op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return fill_op(ctx, d, ret_op);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sg_hostfn_op(ctx, d->host.fn, d->host.arg, ret_op);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return empty_op(ctx, ret_op);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return record_op(ctx, d, ret_op);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return wait_op(ctx, d, ret_op);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sg_memops_op(ctx, d->memops.n, d->memops.ops, ret_op);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return mem_op(ctx, d, ret_op);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult batch_graph(struct batch *b, struct sg_graph *graph,
                            struct sg_op *entry, unsigned depth,
                            struct sg_op **ret_exit);

/* @begins[i], @ends[i]: what node i is waited for by, first and last operation. */
static CUresult
batch_node(struct batch *b, struct sg_graph_node *node, struct sg_op *entry,
           struct sg_op **ends, unsigned depth)
{
    struct sg_op *op;
    CUresult rc;
    int r = 0;

    if (node->data.type == CU_GRAPH_NODE_TYPE_GRAPH && node->enabled)
        rc = empty_op(b->stream->ctx, &op);
    else
        rc = node_op(node, b->stream, &op);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!op->has_priority)
        op->priority = b->stream->priority;
    rc = batch_push(b, op);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!node->n_deps)
        r = sg_op_after(op, entry);
    for (size_t i = 0; i < node->n_deps && r == 0; i++)
        r = sg_op_after(op, ends[node->deps[i]->index]);
    if (r < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ends[node->index] = op;
    if (node->data.type == CU_GRAPH_NODE_TYPE_GRAPH && node->enabled)
        return batch_graph(b, node->data.child, op, depth + 1, &ends[node->index]);
    return CUDA_SUCCESS;
}

/* Everything of @graph behind @entry and before *ret_exit. */
static CUresult
batch_graph(struct batch *b, struct sg_graph *graph, struct sg_op *entry,
            unsigned depth, struct sg_op **ret_exit)
{
    CLEANUP_FREE struct sg_op **ends = calloc(graph->n_nodes + 1, sizeof(*ends));
    CLEANUP_FREE struct sg_graph_node **order = NULL;
    struct sg_op *tail;
    CUresult rc;

    if (!ends)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (depth > MAX_DEPTH)
        return CUDA_ERROR_NOT_SUPPORTED;
    rc = sg_graph_order(graph, &order);
    for (size_t i = 0; i < graph->n_nodes && rc == CUDA_SUCCESS; i++)
        rc = batch_node(b, order[i], entry, ends, depth);
    if (rc == CUDA_SUCCESS)
        rc = empty_op(b->stream->ctx, &tail);
    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, tail);
    if (rc != CUDA_SUCCESS)
        return rc;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (sg_op_after(tail, ends[i]) < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    if (!graph->n_nodes && sg_op_after(tail, entry) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_exit = tail;
    return CUDA_SUCCESS;
}

static CUresult
launch(struct sg_graph_exec *exec, struct sg_stream *stream)
{
    struct batch b = {.stream = stream};
    struct sg_op *head, *tail = NULL;
    CUresult rc = empty_op(stream->ctx, &head);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = batch_graph(&b, exec->graph, head, 0, &tail);
    if (rc == CUDA_SUCCESS) {
        sg_op_ref(head);
        rc = sg_stream_enqueue(stream, head, exec->last);
    }
    if (rc != CUDA_SUCCESS) {
        sg_op_unref(head); /* with its edges everything else goes */
        for (size_t i = 0; i < b.n; i++)
            sg_op_unref(b.ops[i]);
        free(b.ops);
        return rc;
    }
    sg_op_unref(exec->last);
    exec->last = sg_op_ref(tail);
    for (size_t i = 0; i < b.n; i++) {
        if (b.ops[i] == tail)
            rc = sg_stream_enqueue(stream, sg_op_ref(tail), NULL);
        else
            sg_op_submit(b.ops[i]);
        sg_op_unref(b.ops[i]);
    }
    sg_op_unref(head);
    free(b.ops);
    return rc;
}

struct sg_graph_node *
sg_graph_exec_find(struct sg_graph_exec *exec, const struct sg_graph_node *node)
{
    struct sg_graph *graph = exec->graph;

    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->id == node->id)
            return graph->nodes[i];
    return NULL;
}

/* ------------------------------------------------------------------- instances */

static CUresult
check_nodes(const struct sg_graph *graph, unsigned depth,
            struct sg_graph_node **ret_bad)
{
    CUresult rc = CUDA_SUCCESS;

    if (depth > MAX_DEPTH)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < graph->n_nodes && rc == CUDA_SUCCESS; i++) {
        *ret_bad = graph->nodes[i];
        if (graph->nodes[i]->data.type == CU_GRAPH_NODE_TYPE_GRAPH)
            rc = check_nodes(graph->nodes[i]->data.child, depth + 1, ret_bad);
    }
    return rc;
}

static CUresult
instantiate(struct sg_graph *graph, uint64_t flags, struct sg_graph_exec **ret_exec,
            struct sg_graph_node **ret_bad)
{
    CLEANUP_FREE struct sg_graph_node **order = NULL;
    struct sg_graph_exec *exec;
    CUresult rc;

    *ret_bad = NULL;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & ~(uint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                            CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_graph_order(graph, &order);
    if (rc == CUDA_SUCCESS)
        rc = check_nodes(graph, 0, ret_bad);
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
    *ret_exec = exec;
    return CUDA_SUCCESS;
}

static CUresult
enter_graph(CUgraph handle, struct sg_graph **ret_graph)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, handle);
    return *ret_graph ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
        unsigned long long flags)
{
    struct sg_graph_node *bad;
    struct sg_graph_exec *exec;
    struct sg_graph *graph;
    CUresult rc = enter_graph(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phGraphExec)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
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

SG_CALL(cuGraphInstantiate, CUgraphExec *phGraphExec, CUgraph hGraph,
        CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer,
                                 bufferSize);
}

SG_CALL(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
        CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    struct sg_graph_node *bad = NULL;
    struct sg_graph_exec *exec;
    struct sg_graph *graph;
    CUresult rc = enter_graph(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phGraphExec || !instantiateParams)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = instantiate(graph, instantiateParams->flags, &exec, &bad);
    if (rc == CUDA_SUCCESS)
        *phGraphExec = (CUgraphExec)(uintptr_t)exec->handle;
    instantiateParams->hErrNode_out =
        rc == CUDA_SUCCESS || !bad ? NULL : (CUgraphNode)(uintptr_t)bad->handle;
    instantiateParams->result_out =
        rc == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
        : rc == CUDA_ERROR_NOT_SUPPORTED
            ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
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
    sg_handle_drop(exec->handle); /* launches have their own copies of everything */
    sg_op_unref(exec->last);
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
    *flags = exec->flags;
    return sg_leave(CUDA_SUCCESS);
}

/* Memory that the last launch allocated and nobody freed. */
static void
auto_free(struct sg_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct sg_node_data *d = &graph->nodes[i]->data;
        struct sg_alloc *alloc;

        if (d->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            continue;
        alloc = sg_mem_find(d->alloc.dptr);
        if (alloc && alloc->base == d->alloc.dptr)
            sg_mem_free(alloc);
    }
}

SG_CALL(cuGraphLaunch, CUgraphExec hGraphExec, CUstream hStream)
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
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (stream->capture) { /* becomes a child graph */
        struct sg_node_data data = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

        rc = sg_graph_clone(exec->graph, &data.child);
        return sg_leave(rc == CUDA_SUCCESS ? sg_capture_add(stream, &data, NULL) : rc);
    }
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS &&
        (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) &&
        sg_op_is_done(exec->last))
        auto_free(exec->graph);
    if (rc == CUDA_SUCCESS)
        rc = launch(exec, stream);
    return sg_leave(rc);
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

static CUgraphExecUpdateResult
same_shape(const struct sg_graph *a, const struct sg_graph *b, size_t *ret_at)
{
    *ret_at = 0;
    if (a->n_nodes != b->n_nodes)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < a->n_nodes; i++) {
        a->nodes[i]->index = i;
        b->nodes[i]->index = i;
    }
    for (size_t i = 0; i < a->n_nodes; i++) {
        const struct sg_graph_node *x = a->nodes[i], *y = b->nodes[i];

        *ret_at = i;
        if (x->data.type != y->data.type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (x->n_deps != y->n_deps)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t d = 0; d < x->n_deps; d++)
            if (x->deps[d]->index != y->deps[d]->index)
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (x->data.type == CU_GRAPH_NODE_TYPE_KERNEL && x->data.ctx != y->data.ctx)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

SG_CALL(cuGraphExecUpdate_v2, CUgraphExec hGraphExec, CUgraph hGraph,
        CUgraphExecUpdateResultInfo *resultInfo)
{
    struct sg_graph *graph, *copy;
    struct sg_graph_exec *exec;
    size_t at;
    CUresult rc = enter_exec(hGraphExec, &exec);

    if (rc != CUDA_SUCCESS)
        return rc;
    graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hGraph);
    if (!graph || !resultInfo)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof(*resultInfo));
    resultInfo->result = same_shape(exec->graph, graph, &at);
    if (resultInfo->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        if (at < graph->n_nodes)
            resultInfo->errorNode = (CUgraphNode)(uintptr_t)graph->nodes[at]->handle;
        return sg_leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
    rc = sg_graph_clone(graph, &copy);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    for (size_t i = 0; i < copy->n_nodes; i++) { /* handles of nodes keep working */
        copy->nodes[i]->id = exec->graph->nodes[i]->id;
        copy->nodes[i]->enabled = exec->graph->nodes[i]->enabled;
    }
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
