/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph itself: nodes, edges, copies, order.
 */
#include "sg_graph.h"

#include "sg_cond.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_module.h"
#include "sg_userobj.h"

#include <stdlib.h>
#include <string.h>

static uint64_t last_id; /* of a node; lock held */

/* ------------------------------------------------------------------- node data */

static CUresult
kernel_copy(const struct sg_node_data *from, struct sg_node_data *to)
{
    struct sg_ctx *ctx = sg_handle_get(SG_KIND_CTX, from->ctx);
    struct sg_func *func;
    CUresult rc;

    to->kernel.params = NULL;
    to->kernel.param_ptrs = NULL;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    rc = sg_func_get(ctx, from->kernel.req.func, &func);
    if (rc != CUDA_SUCCESS)
        return rc;
    to->kernel.params = malloc(func->kernel->param_bytes + 1);
    if (!to->kernel.params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(to->kernel.params, from->kernel.params, func->kernel->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult
bodies_copy(const struct sg_node_data *from, struct sg_node_data *to)
{
    CUresult rc;

    sg_cond_ref(to->cond.cond);
    to->cond.handles = NULL;
    to->cond.n = from->cond.n;
    to->cond.bodies = calloc(from->cond.n, sizeof(*to->cond.bodies));
    if (!to->cond.bodies)
        to->cond.n = 0;
    rc = to->cond.bodies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < from->cond.n && rc == CUDA_SUCCESS; i++)
        rc = sg_graph_clone(from->cond.bodies[i], &to->cond.bodies[i]);
    return rc;
}

static void
bodies_fini(struct sg_node_data *data)
{
    for (unsigned i = 0; data->cond.bodies && i < data->cond.n; i++)
        sg_graph_free(data->cond.bodies[i]);
    free(data->cond.bodies);
    free(data->cond.handles);
    sg_cond_unref(data->cond.cond);
}

CUresult
sg_node_data_copy(const struct sg_node_data *from, struct sg_node_data *to)
{
    *to = *from;
    switch ((int)from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_copy(from, to);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        to->child = NULL;
        return sg_graph_clone(from->child, &to->child);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        to->memops.ops = malloc(from->memops.n * sizeof(*to->memops.ops) + 1);
        if (!to->memops.ops)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(to->memops.ops, from->memops.ops,
               from->memops.n * sizeof(*to->memops.ops));
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        sg_graph_mem_ref(to->alloc.mem);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return bodies_copy(from, to);
    default:
        return CUDA_SUCCESS;
    }
}

void
sg_node_data_fini(struct sg_node_data *data)
{
    switch ((int)data->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        free(data->kernel.params);
        free(data->kernel.param_ptrs);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        sg_graph_free(data->child);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        free(data->memops.ops);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        sg_graph_mem_unref(data->alloc.mem);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        bodies_fini(data);
        break;
    }
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

struct sg_graph *const *
sg_node_graphs(const struct sg_node_data *data, unsigned *ret_n)
{
    switch ((int)data->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
        *ret_n = data->child != NULL;
        return &data->child;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        *ret_n = data->cond.bodies ? data->cond.n : 0;
        return data->cond.bodies;
    default:
        *ret_n = 0;
        return NULL;
    }
}

/* ---------------------------------------------------------------------- graphs */

CUresult
sg_graph_new(struct sg_graph **ret_graph)
{
    static uint64_t last_graph_id;

    *ret_graph = calloc(1, sizeof(**ret_graph));
    if (!*ret_graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*ret_graph)->refs = 1;
    (*ret_graph)->id = ++last_graph_id;
    return CUDA_SUCCESS;
}

struct sg_graph *
sg_graph_ref(struct sg_graph *graph)
{
    graph->refs++;
    return graph;
}

static void
node_free(struct sg_graph_node *node)
{
    sg_handle_drop(node->handle);
    sg_node_data_fini(&node->data);
    free(node->deps);
    free(node->edges);
    free(node);
}

void
sg_graph_free(struct sg_graph *graph)
{
    if (!graph)
        return;
    sg_handle_drop(graph->handle);
    graph->handle = 0;
    if (--graph->refs)
        return;
    for (size_t i = 0; i < graph->n_nodes; i++)
        node_free(graph->nodes[i]);
    sg_userobj_release_all(&graph->users);
    for (size_t i = 0; i < graph->n_conds; i++)
        sg_cond_unref(graph->conds[i]);
    free(graph->conds);
    free(graph->nodes);
    free(graph);
}

static CUresult
room_for_node(struct sg_graph *graph)
{
    size_t cap = graph->cap_nodes ? graph->cap_nodes * 2 : 8;
    struct sg_graph_node **p;

    if (graph->n_nodes < graph->cap_nodes)
        return CUDA_SUCCESS;
    p = realloc(graph->nodes, cap * sizeof(*p));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->nodes = p;
    graph->cap_nodes = cap;
    return CUDA_SUCCESS;
}

/* An allocation node has its address from the beginning. */
static CUresult
reserve_address(struct sg_node_data *data)
{
    struct sg_dev *dev = sg_dev_get(data->alloc.props.location.id);

    if (data->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || data->alloc.mem)
        return CUDA_SUCCESS;
    return dev ? sg_graph_mem_new(dev, data->alloc.size, &data->alloc.mem)
               : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Levels of graphs below @graph, counting only as far as is allowed anyway. */
static unsigned
height(const struct sg_graph *graph)
{
    unsigned n, most = 0;

    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct sg_graph *const *sub = sg_node_graphs(&graph->nodes[i]->data, &n);

        for (unsigned k = 0; k < n; k++)
            most = gp_max(most, height(sub[k]) + 1);
    }
    return most;
}

static void
set_levels(struct sg_graph *graph, unsigned level)
{
    unsigned n;

    graph->level = level;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct sg_graph *const *sub = sg_node_graphs(&graph->nodes[i]->data, &n);

        for (unsigned k = 0; k < n; k++)
            set_levels(sub[k], level + 1);
    }
}

/* Every walk over graphs in graphs recurses: here is where depth is bounded. */
static CUresult
place_inner(const struct sg_graph *graph, const struct sg_node_data *data)
{
    unsigned n;
    struct sg_graph *const *sub = sg_node_graphs(data, &n);

    for (unsigned k = 0; k < n; k++) {
        if (graph->level + 1 + height(sub[k]) > SG_GRAPH_DEPTH)
            return CUDA_ERROR_NOT_SUPPORTED;
        set_levels(sub[k], graph->level + 1);
    }
    return CUDA_SUCCESS;
}

/* A graph frees what an allocation node gave once. */
static bool
frees_again(const struct sg_graph *graph, const struct sg_node_data *data)
{
    for (size_t i = 0; data->type == CU_GRAPH_NODE_TYPE_MEM_FREE && i < graph->n_nodes;
         i++)
        if (graph->nodes[i]->data.type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
            graph->nodes[i]->data.free_ptr == data->free_ptr)
            return true;
    return false;
}

CUresult
sg_graph_add(struct sg_graph *graph, struct sg_graph_node *const *deps, size_t n_deps,
             struct sg_node_data *data, struct sg_graph_node **ret_node)
{
    struct sg_graph_node *node = calloc(1, sizeof(*node));
    CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

    if (node && room_for_node(graph) == CUDA_SUCCESS)
        rc =
            frees_again(graph, data) ? CUDA_ERROR_INVALID_VALUE : reserve_address(data);
    if (rc == CUDA_SUCCESS)
        rc = place_inner(graph, data);
    if (rc == CUDA_SUCCESS) {
        node->deps = malloc((n_deps + 1) * sizeof(*node->deps));
        node->edges = calloc(n_deps + 1, sizeof(*node->edges));
        node->handle = sg_handle_new(SG_KIND_NODE, node);
        if (!node->deps || !node->edges || !node->handle)
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS) {
        sg_node_data_fini(data);
        if (node) {
            sg_handle_drop(node->handle);
            free(node->deps);
            free(node->edges);
        }
        free(node);
        return rc;
    }
    if (n_deps)
        memcpy(node->deps, deps, n_deps * sizeof(*deps));
    node->n_deps = n_deps;
    node->cap_deps = n_deps + 1;
    node->graph = graph;
    node->data = *data;
    node->id = ++last_id;
    node->enabled = true;
    graph->nodes[graph->n_nodes++] = node;
    if (ret_node)
        *ret_node = node;
    return CUDA_SUCCESS;
}

/* Programmatic edges lead from one kernel to another, ports from a kernel. */
CUresult
sg_graph_check_edge(const struct sg_graph_node *from, const struct sg_graph_node *to,
                    const CUgraphEdgeData *edge)
{
    static const CUgraphEdgeData plain;
    bool from_kernel = from->data.type == CU_GRAPH_NODE_TYPE_KERNEL;
    bool to_kernel = to->data.type == CU_GRAPH_NODE_TYPE_KERNEL;

    if (memcmp(edge->reserved, plain.reserved, sizeof(plain.reserved)) != 0 ||
        edge->to_port || edge->type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
        edge->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
        (edge->from_port && !from_kernel) ||
        (edge->type && (!from_kernel || !to_kernel || !edge->from_port)))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult
sg_graph_set_edges(struct sg_graph_node *node, const CUgraphEdgeData *edges)
{
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < node->n_deps && rc == CUDA_SUCCESS; i++)
        rc = sg_graph_check_edge(node->deps[i], node, &edges[i]);
    if (rc == CUDA_SUCCESS && node->n_deps)
        memcpy(node->edges, edges, node->n_deps * sizeof(*edges));
    return rc;
}

void
sg_graph_drop_dep(struct sg_graph_node *node, const struct sg_graph_node *dep)
{
    size_t n = 0;

    for (size_t i = 0; i < node->n_deps; i++)
        if (node->deps[i] != dep) {
            node->edges[n] = node->edges[i];
            node->deps[n++] = node->deps[i];
        }
    node->n_deps = n;
}

void
sg_graph_remove(struct sg_graph_node *node)
{
    struct sg_graph *graph = node->graph;
    size_t n = 0;

    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i] == node)
            continue;
        sg_graph_drop_dep(graph->nodes[i], node);
        graph->nodes[n++] = graph->nodes[i];
    }
    graph->n_nodes = n;
    node_free(node);
}

void
sg_graph_adopt(struct sg_graph *graph)
{
    graph->child = true;
    graph->refs--;
}

bool
sg_graph_contains(const struct sg_graph *graph, const struct sg_graph *inside)
{
    unsigned n;

    if (graph == inside)
        return true;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct sg_graph *const *sub = sg_node_graphs(&graph->nodes[i]->data, &n);

        for (unsigned k = 0; k < n; k++)
            if (sg_graph_contains(sub[k], inside))
                return true;
    }
    return false;
}

void
sg_graph_renumber(struct sg_graph *graph)
{
    unsigned n;

    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct sg_graph *const *sub = sg_node_graphs(&graph->nodes[i]->data, &n);

        graph->nodes[i]->id = ++last_id;
        for (unsigned k = 0; k < n; k++)
            sg_graph_renumber(sub[k]);
    }
}

void
sg_graph_take_ids(struct sg_graph *graph, const struct sg_graph *from)
{
    unsigned n, n_from;

    for (size_t i = 0; i < gp_min(graph->n_nodes, from->n_nodes); i++) {
        struct sg_graph *const *to = sg_node_graphs(&graph->nodes[i]->data, &n);
        struct sg_graph *const *sub = sg_node_graphs(&from->nodes[i]->data, &n_from);

        graph->nodes[i]->id = from->nodes[i]->id;
        for (unsigned k = 0; k < gp_min(n, n_from); k++)
            sg_graph_take_ids(to[k], sub[k]);
    }
}

struct sg_graph_node *
sg_graph_find_id(struct sg_graph *graph, uint64_t id)
{
    struct sg_graph_node *found = NULL;
    unsigned n;

    for (size_t i = 0; i < graph->n_nodes && !found; i++) {
        struct sg_graph *const *sub = sg_node_graphs(&graph->nodes[i]->data, &n);

        if (graph->nodes[i]->id == id)
            return graph->nodes[i];
        for (unsigned k = 0; k < n && !found; k++)
            found = sg_graph_find_id(sub[k], id);
    }
    return found;
}

bool
sg_graph_has_memory(const struct sg_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->data.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
            graph->nodes[i]->data.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return true;
    return false;
}

bool
sg_graph_is_clonable(const struct sg_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct sg_node_data *d = &graph->nodes[i]->data;

        if (d->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
            d->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
            d->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
            (d->type == CU_GRAPH_NODE_TYPE_GRAPH && !sg_graph_is_clonable(d->child)))
            return false;
    }
    return true;
}

CUresult
sg_graph_clone(const struct sg_graph *graph, struct sg_graph **ret_graph)
{
    struct sg_graph *copy;
    CUresult rc = sg_graph_new(&copy);

    for (size_t i = 0; rc == CUDA_SUCCESS && i < graph->n_nodes; i++) {
        struct sg_graph_node *from = graph->nodes[i], *node;
        struct sg_node_data data;

        from->index = i;
        rc = sg_node_data_copy(&from->data, &data);
        if (rc != CUDA_SUCCESS) {
            sg_node_data_fini(&data);
            break;
        }
        rc = sg_graph_add(copy, from->deps, from->n_deps, &data, &node);
        if (rc != CUDA_SUCCESS)
            break;
        node->id = from->id;
        node->enabled = from->enabled;
        memcpy(node->edges, from->edges, from->n_deps * sizeof(*from->edges));
    }
    if (rc == CUDA_SUCCESS)
        rc = sg_userobj_share(&graph->users, &copy->users);
    if (rc != CUDA_SUCCESS) {
        sg_graph_free(copy);
        return rc;
    }
    /* The edges still name the original's nodes. */
    for (size_t i = 0; i < copy->n_nodes; i++)
        for (size_t d = 0; d < copy->nodes[i]->n_deps; d++)
            copy->nodes[i]->deps[d] = copy->nodes[copy->nodes[i]->deps[d]->index];
    copy->clone_of = graph->id;
    *ret_graph = copy;
    return CUDA_SUCCESS;
}

/* Kahn's algorithm over dependency counts; quadratic only in the width of one
 * level's bookkeeping: successors are found through a reverse edge list. */
CUresult
sg_graph_order(const struct sg_graph *graph, struct sg_graph_node ***ret_order)
{
    size_t n = graph->n_nodes, n_edges = 0, head = 0, tail = 0;
    CLEANUP_FREE size_t *start = calloc(n + 2, sizeof(*start));
    CLEANUP_FREE size_t *missing = calloc(n + 1, sizeof(*missing));
    CLEANUP_FREE size_t *succ = NULL;
    CLEANUP_FREE struct sg_graph_node **order = calloc(n + 1, sizeof(*order));

    for (size_t i = 0; i < n; i++) {
        graph->nodes[i]->index = i;
        n_edges += graph->nodes[i]->n_deps;
    }
    succ = calloc(n_edges + 1, sizeof(*succ));
    if (!start || !missing || !succ || !order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < graph->nodes[i]->n_deps; d++)
            start[graph->nodes[i]->deps[d]->index + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < graph->nodes[i]->n_deps; d++)
            succ[start[graph->nodes[i]->deps[d]->index + 1]++] = i;
    for (size_t i = 0; i < n; i++) {
        missing[i] = graph->nodes[i]->n_deps;
        if (!missing[i])
            order[tail++] = graph->nodes[i];
    }
    while (head < tail) {
        size_t at = order[head++]->index;

        for (size_t e = start[at]; e < start[at + 1]; e++)
            if (--missing[succ[e]] == 0)
                order[tail++] = graph->nodes[succ[e]];
    }
    if (tail != n)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_order = TAKE_PTR(order);
    return CUDA_SUCCESS;
}
