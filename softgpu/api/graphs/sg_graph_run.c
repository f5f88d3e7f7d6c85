/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching graphs.
 *
 * A launch turns every node into an operation, all behind one head operation of
 * the stream and before one tail.  All of them are made before the first is
 * submitted, so a launch that fails for want of memory has done nothing.
 *
 * A conditional node is two operations: one that decides, and the end that others
 * wait for.  Deciding makes the operations of the chosen body and puts the end
 * behind them, and behind one more decision if the node is a loop.
 */
#include "sg_capture.h"
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_event.h"
#include "sg_graph.h"
#include "sg_graph_cond.h"
#include "sg_graph_exec.h"
#include "sg_graph_mem.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_hostfn.h"
#include "sg_ipc_event.h"
#include "sg_launch.h"
#include "sg_stream.h"
#include "sg_work.h"

#include <stdlib.h>
#include <string.h>

static const struct sg_work_class empty_class = {
    .name = "graph-empty",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

/* The operations of one launch, in an order that respects the edges. */
struct batch {
    struct sg_work **ops;
    size_t n, cap;
    struct sg_stream *stream;
    struct sg_graph *root; /* of the instance */
    bool again;            /* memory that was not given back is used again */
    struct sg_graph_mem **taken;
    size_t n_taken;
};

static CUresult
batch_push(struct batch *b, struct sg_work *work)
{
    struct sg_work **p;

    if (b->n == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 64;
        p = realloc(b->ops, b->cap * sizeof(*p));
        if (!p) {
            sg_work_unref(work);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        b->ops = p;
    }
    b->ops[b->n++] = work;
    return CUDA_SUCCESS;
}

static CUresult
empty_work(struct sg_ctx *ctx, struct sg_work **ret_work)
{
    struct sg_work *work = calloc(1, sizeof(*work));

    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &empty_class, ctx);
    *ret_work = work;
    return CUDA_SUCCESS;
}

static CUresult
copy_work(struct sg_ctx *ctx, const struct sg_node_data *data,
          struct sg_work **ret_work)
{
    struct sg_box box;
    CUresult rc = sg_copy_resolve(&data->copy, false, &box);

    return rc == CUDA_SUCCESS ? sg_copy_work(ctx, &box, ret_work) : rc;
}

static CUresult
fill_work(struct sg_ctx *ctx, const struct sg_node_data *data,
          struct sg_work **ret_work)
{
    CUresult rc = sg_fill_check(&data->set, false);

    return rc == CUDA_SUCCESS ? sg_fill_work(ctx, &data->set, ret_work) : rc;
}

/* A record is seen by waits and queries that come after the launch. */
static CUresult
record_work(struct sg_ctx *ctx, const struct sg_node_data *data,
            struct sg_work **ret_work)
{
    struct sg_event *event = sg_handle_get(SG_KIND_EVENT, data->event);
    CUresult rc;

    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->ipc)
        return sg_ipc_event_record_work(event->ipc, ctx, ret_work);
    rc = empty_work(ctx, ret_work);
    if (rc == CUDA_SUCCESS) {
        sg_work_unref(event->record);
        event->record = sg_work_ref(*ret_work);
    }
    return rc;
}

static CUresult
wait_work(struct sg_ctx *ctx, const struct sg_node_data *data,
          struct sg_work **ret_work)
{
    struct sg_event *event = sg_handle_get(SG_KIND_EVENT, data->event);
    CUresult rc;

    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->ipc)
        return sg_ipc_event_wait_work(event->ipc, ctx, ret_work);
    rc = empty_work(ctx, ret_work);
    if (rc == CUDA_SUCCESS && sg_work_after(*ret_work, event->record) < 0) {
        sg_work_unref(*ret_work);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}

static CUresult
free_work(struct sg_ctx *ctx, const struct sg_node_data *data,
          struct sg_work **ret_work)
{
    struct sg_graph_mem *mem = sg_graph_mem_find(data->free_ptr);

    return mem ? sg_graph_mem_give_work(ctx, mem, ret_work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
node_work(struct sg_graph_node *node, struct sg_stream *stream,
          struct sg_work **ret_work)
{
    const struct sg_node_data *d = &node->data;
    struct sg_ctx *ctx = d->ctx ? sg_handle_get(SG_KIND_CTX, d->ctx) : stream->ctx;
    struct sg_sm_set sms;

    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (ctx->error != CUDA_SUCCESS)
        return ctx->error;
    if (!node->enabled)
        return empty_work(ctx, ret_work);
    switch ((int)d->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        sms = sg_green_part(stream);
        return sg_launch_work(ctx, &d->kernel.req, d->kernel.params, &sms, ret_work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(ctx, d, ret_work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return fill_work(ctx, d, ret_work);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sg_hostfn_work(ctx, d->host.fn, d->host.arg, ret_work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return empty_work(ctx, ret_work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return record_work(ctx, d, ret_work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return wait_work(ctx, d, ret_work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sg_memops_work(ctx, d->memops.n, d->memops.ops, ret_work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* taken before the first node was made */
        return empty_work(ctx, ret_work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return free_work(ctx, d, ret_work);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult batch_graph(struct batch *b, struct sg_graph *graph,
                            struct sg_work *entry, unsigned depth,
                            struct sg_work **ret_exit);

/* ----------------------------------------------------------- conditional nodes */

struct decision {
    struct sg_work work;   /* first */
    struct sg_work *end;   /* reference */
    struct sg_graph *root; /* reference: @data is inside */
    const struct sg_node_data *data;
    struct sg_stream *stream; /* reference */
    unsigned depth;
};

static CUresult decide(struct sg_work *work);

static void
decision_fini(struct sg_work *work)
{
    struct decision *d = container_of(work, struct decision, work);

    sg_work_unref(d->end);
    sg_graph_free(d->root);
    sg_stream_unref(d->stream);
}

static const struct sg_work_class decision_class = {
    .name = "graph-condition",
    .queue = SG_QUEUE_COPY, /* making a body takes a while */
    .run = decide,
    .fini = decision_fini,
};

/* @end: what waits for the node, NULL if it is still to be made. */
static CUresult
decision_work(struct batch *b, const struct sg_node_data *data, unsigned depth,
              struct sg_work *end, struct sg_work **ret_work)
{
    struct sg_ctx *ctx = sg_handle_get(SG_KIND_CTX, data->ctx);
    struct decision *d;

    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    d = calloc(1, sizeof(*d));
    if (!d)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&d->work, &decision_class, ctx);
    d->end = sg_work_ref(end);
    d->root = sg_graph_ref(b->root);
    d->data = data;
    d->stream = sg_stream_ref(b->stream);
    d->depth = depth;
    *ret_work = &d->work;
    return CUDA_SUCCESS;
}

static CUresult
decision_end(struct batch *b, struct sg_work *work, struct sg_work **ret_end)
{
    struct decision *d = container_of(work, struct decision, work);
    struct sg_work *end;
    CUresult rc = empty_work(work->ctx, &end);

    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, end);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (sg_work_after(end, work) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->end = sg_work_ref(end);
    *ret_end = end;
    return CUDA_SUCCESS;
}

static void
batch_submit(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        sg_work_submit(b->ops[i]);
        sg_work_unref(b->ops[i]);
    }
    free(b->ops);
}

/* Nothing was submitted: every operation goes, with its edges. */
static void
batch_drop(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        sg_work_unref(b->ops[i]);
    free(b->ops);
}

/* The operations of @body, all before the node's end. */
static CUresult
body_batch(struct decision *d, struct sg_graph *body, struct batch *b)
{
    struct sg_work *head, *last = NULL, *again;
    CUresult rc = empty_work(d->work.ctx, &head);

    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, head);
    if (rc == CUDA_SUCCESS)
        rc = batch_graph(b, body, head, d->depth + 1, &last);
    if (rc == CUDA_SUCCESS && d->data->cond.type == CU_GRAPH_COND_TYPE_WHILE) {
        rc = decision_work(b, d->data, d->depth, d->end, &again);
        if (rc == CUDA_SUCCESS)
            rc = batch_push(b, again);
        if (rc == CUDA_SUCCESS && sg_work_after(again, last) < 0)
            rc = CUDA_ERROR_OUT_OF_MEMORY;
        last = again;
    }
    if (rc == CUDA_SUCCESS && sg_work_after(d->end, last) < 0)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    return rc;
}

/* The end waits for this operation too, so it cannot run before the body is there. */
static CUresult
decide(struct sg_work *work)
{
    struct decision *d = container_of(work, struct decision, work);
    struct batch b = {.stream = d->stream, .root = d->root};
    struct sg_graph *body;
    CUresult rc = CUDA_SUCCESS;

    sg_lock();
    body = sg_cond_choose(d->data);
    if (body) {
        rc = body_batch(d, body, &b);
        if (rc == CUDA_SUCCESS)
            batch_submit(&b);
        else
            batch_drop(&b);
    }
    sg_unlock();
    return rc;
}

/* ------------------------------------------------------------------ whole graphs */

/* Puts @work behind what its node depends on. */
static CUresult
batch_place(struct batch *b, const struct sg_graph_node *node, struct sg_work *entry,
            struct sg_work *const *ends, struct sg_work *work)
{
    CUresult rc;
    int r = 0;

    if (!work->has_priority)
        work->priority = b->stream->priority;
    rc = batch_push(b, work);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!node->deps.n)
        r = sg_work_after(work, entry);
    for (struct sg_graph_edge *e = node->deps.first; e && r == 0; e = e->next_dep)
        r = sg_work_after(work, ends[e->from->index]);
    return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* ends[i]: what those wait for that come after the node in place i. */
static CUresult
batch_node(struct batch *b, struct sg_graph_node *node, struct sg_work *entry,
           struct sg_work **ends, unsigned depth)
{
    struct sg_work *work;
    CUresult rc;

    if (node->data.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        rc = decision_work(b, &node->data, depth, NULL, &work);
    else if (node->data.type == CU_GRAPH_NODE_TYPE_GRAPH && node->enabled)
        rc = empty_work(b->stream->ctx, &work);
    else
        rc = node_work(node, b->stream, &work);
    if (rc == CUDA_SUCCESS)
        rc = batch_place(b, node, entry, ends, work);
    if (rc != CUDA_SUCCESS)
        return rc;
    ends[node->index] = work;
    if (node->data.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return decision_end(b, work, &ends[node->index]);
    if (node->data.type == CU_GRAPH_NODE_TYPE_GRAPH && node->enabled)
        return batch_graph(b, node->data.child, work, depth + 1, &ends[node->index]);
    return CUDA_SUCCESS;
}

/* Everything of @graph behind @entry and before *ret_exit. */
static CUresult
batch_graph(struct batch *b, struct sg_graph *graph, struct sg_work *entry,
            unsigned depth, struct sg_work **ret_exit)
{
    CLEANUP_FREE struct sg_work **ends = calloc(graph->n_nodes + 1, sizeof(*ends));
    CLEANUP_FREE struct sg_graph_node **order = NULL;
    struct sg_work *tail;
    CUresult rc;

    if (!ends)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sg_graph_order(graph, &order);
    for (size_t i = 0; i < graph->n_nodes && rc == CUDA_SUCCESS; i++)
        rc = batch_node(b, order[i], entry, ends, depth);
    if (rc == CUDA_SUCCESS)
        rc = empty_work(b->stream->ctx, &tail);
    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, tail);
    if (rc != CUDA_SUCCESS)
        return rc;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (sg_work_after(tail, ends[i]) < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    if (!graph->n_nodes && sg_work_after(tail, entry) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_exit = tail;
    return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------- a launch */

struct head_work {
    struct sg_work work;   /* first */
    struct sg_graph *root; /* reference */
};

/* Behind everything before: an earlier launch may still decide by the values. */
static CUresult
head_run(struct sg_work *work)
{
    sg_cond_reset(container_of(work, struct head_work, work)->root);
    return CUDA_SUCCESS;
}

static void
head_fini(struct sg_work *work)
{
    sg_graph_free(container_of(work, struct head_work, work)->root);
}

static const struct sg_work_class head_class = {
    .name = "graph-begin",
    .queue = SG_QUEUE_INLINE,
    .always = true,
    .run = head_run,
    .fini = head_fini,
};

/* What the graph holds, user objects above all, is held until the launch is over, even
 * if the executable graph goes before. */
static const struct sg_work_class tail_class = {
    .name = "graph-end",
    .queue = SG_QUEUE_INLINE,
    .always = true,
    .fini = head_fini,
};

static CUresult
head_new(struct sg_ctx *ctx, const struct sg_work_class *class, struct sg_graph *root,
         struct sg_work **ret_work)
{
    struct head_work *h = calloc(1, sizeof(*h));

    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&h->work, class, ctx);
    h->root = sg_graph_ref(root);
    *ret_work = &h->work;
    return CUDA_SUCCESS;
}

/* The memory that allocation nodes promise; given back if the launch fails. */
static CUresult
take_memory(struct batch *b, const struct sg_graph *graph)
{
    CUresult rc = CUDA_SUCCESS;
    bool taken;

    for (struct sg_graph_node *node = graph->first; node && rc == CUDA_SUCCESS;
         node = node->next) {
        const struct sg_node_data *d = &node->data;
        struct sg_graph_mem **p;

        if (d->type == CU_GRAPH_NODE_TYPE_GRAPH)
            rc = take_memory(b, d->child);
        if (d->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            continue;
        p = realloc(b->taken, (b->n_taken + 1) * sizeof(*p));
        if (!p)
            return CUDA_ERROR_OUT_OF_MEMORY;
        b->taken = p;
        rc = sg_graph_mem_take(d->alloc.mem, b->again, &taken);
        if (taken)
            b->taken[b->n_taken++] = sg_graph_mem_ref(d->alloc.mem);
    }
    return rc;
}

/* An earlier launch's bytes are just being freed. */
static bool
memory_is_leaving(const struct sg_graph *graph)
{
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        const struct sg_node_data *d = &node->data;

        if (d->type == CU_GRAPH_NODE_TYPE_GRAPH && memory_is_leaving(d->child))
            return true;
        if (d->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            sg_graph_mem_is_leaving(d->alloc.mem))
            return true;
    }
    return false;
}

static void
release_memory(struct batch *b, bool give)
{
    for (size_t i = 0; i < b->n_taken; i++) {
        if (give)
            sg_graph_mem_give(b->taken[i]);
        sg_graph_mem_unref(b->taken[i]);
    }
    free(b->taken);
}

static CUresult
tail_new(struct batch *b, struct sg_work *last, struct sg_work **ret_tail)
{
    CUresult rc = head_new(b->stream->ctx, &tail_class, b->root, ret_tail);

    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, *ret_tail);
    if (rc == CUDA_SUCCESS && sg_work_after(*ret_tail, last) < 0)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    return rc;
}

/* Every operation between a head and *ret_tail, none submitted. */
static CUresult
prepare(struct batch *b, struct sg_work **ret_head, struct sg_work **ret_tail)
{
    CUresult rc = take_memory(b, b->root);
    struct sg_work *last = NULL;

    if (rc == CUDA_SUCCESS)
        rc = head_new(b->stream->ctx, &head_class, b->root, ret_head);
    if (rc == CUDA_SUCCESS)
        rc = batch_push(b, *ret_head);
    if (rc == CUDA_SUCCESS)
        rc = batch_graph(b, b->root, *ret_head, 0, &last);
    return rc == CUDA_SUCCESS ? tail_new(b, last, ret_tail) : rc;
}

static CUresult
run(struct sg_graph_exec *exec, struct sg_stream *stream)
{
    struct batch b = {
        .stream = stream,
        .root = exec->graph,
        .again = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
    };
    struct sg_work *head = NULL, *tail = NULL;
    CUresult rc = prepare(&b, &head, &tail);

    if (rc == CUDA_SUCCESS)
        rc = sg_stream_enqueue(stream, sg_work_ref(head), exec->last);
    release_memory(&b, rc != CUDA_SUCCESS);
    if (rc != CUDA_SUCCESS) {
        batch_drop(&b);
        return rc;
    }
    sg_work_unref(exec->last);
    exec->last = sg_work_ref(tail);
    for (size_t i = 0; i < b.n; i++) {
        if (b.ops[i] == tail)
            rc = sg_stream_enqueue(stream, sg_work_ref(tail), NULL);
        else if (b.ops[i] != head)
            sg_work_submit(b.ops[i]);
        sg_work_unref(b.ops[i]);
    }
    free(b.ops);
    return rc;
}

/* Enters a call that launches @handle, once its memory can be taken. */
static CUresult
enter_launch(CUgraphExec handle, struct sg_ctx **ret_ctx,
             struct sg_graph_exec **ret_exec)
{
    CUresult rc = sg_enter(ret_ctx);

    while (rc == CUDA_SUCCESS) {
        *ret_exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, handle);
        if (!*ret_exec)
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        if (!memory_is_leaving((*ret_exec)->graph))
            break;
        sg_wait();
        sg_leave(CUDA_SUCCESS);
        rc = sg_enter(ret_ctx); /* the handle may be another's by now */
    }
    return rc;
}

SG_CALL(cuGraphLaunch, CUgraphExec hGraphExec, CUstream hStream)
{
    struct sg_graph_exec *exec;
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = enter_launch(hGraphExec, &ctx, &exec);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (stream->capture) { /* becomes a child graph */
        struct sg_node_data data = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

        rc = sg_graph_clone(exec->graph, &data.child);
        return sg_leave(rc == CUDA_SUCCESS ? sg_capture_add(stream, &data, NULL) : rc);
    }
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = run(exec, stream);
    return sg_leave(rc);
}
