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

static void
set_levels(struct sg_graph *graph, unsigned level)
{
    unsigned n;

    graph->level = level;
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

        for (unsigned k = 0; k < n; k++)
            set_levels(sub[k], level + 1);
    }
}

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

/* A graph that was to be moved and was not is the program's as before. */
static void
child_fini(struct sg_graph *child)
{
    if (child && child->handle && !child->child) {
        child->refs--;
        set_levels(child, 0);
    } else {
        sg_graph_free(child);
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
        child_fini(data->child);
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
    sg_graph_edges_free(node);
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
    for (struct sg_graph_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        node_free(node);
    }
    sg_userobj_release_all(&graph->users);
    for (size_t i = 0; i < graph->n_conds; i++)
        sg_cond_unref(graph->conds[i]);
    free(graph->conds);
    free(graph);
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

    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

        for (unsigned k = 0; k < n; k++)
            most = gp_max(most, height(sub[k]) + 1);
    }
    return most;
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
    return data->type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
           gp_tree_find(&graph->frees, data->free_ptr, 0);
}

static bool
is_memory(const struct sg_graph_node *node)
{
    return node->data.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           node->data.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/* @node, which has its data, becomes the last node of @graph. */
static void
enter(struct sg_graph *graph, struct sg_graph_node *node)
{
    node->graph = graph;
    node->prev = graph->last;
    *(graph->last ? &graph->last->next : &graph->first) = node;
    graph->last = node;
    graph->n_nodes++;
    graph->n_memory += is_memory(node);
    if (node->data.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        gp_tree_insert(&graph->frees, &node->by_free, node->data.free_ptr, 0);
    if (graph->indexed)
        gp_tree_insert(&graph->by_id, &node->by_id, node->id, 0);
}

static void
leave(struct sg_graph *graph, struct sg_graph_node *node)
{
    *(node->prev ? &node->prev->next : &graph->first) = node->next;
    *(node->next ? &node->next->prev : &graph->last) = node->prev;
    graph->n_nodes--;
    graph->n_memory -= is_memory(node);
    if (node->data.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        gp_tree_remove(&graph->frees, &node->by_free);
    if (graph->indexed)
        gp_tree_remove(&graph->by_id, &node->by_id);
}

static CUresult
check_new(struct sg_graph *graph, struct sg_node_data *data)
{
    CUresult rc =
        frees_again(graph, data) ? CUDA_ERROR_INVALID_VALUE : reserve_address(data);

    return rc == CUDA_SUCCESS ? place_inner(graph, data) : rc;
}

/* A node without edges and with the identity @id. */
static CUresult
node_new(struct sg_graph *graph, struct sg_node_data *data, uint64_t id,
         struct sg_graph_node **ret_node)
{
    struct sg_graph_node *node = calloc(1, sizeof(*node));
    CUresult rc = node ? check_new(graph, data) : CUDA_ERROR_OUT_OF_MEMORY;

    if (rc == CUDA_SUCCESS) {
        node->handle = sg_handle_new(SG_KIND_NODE, node);
        rc = node->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS) {
        sg_node_data_fini(data);
        free(node);
        return rc;
    }
    node->data = *data;
    node->id = id;
    node->enabled = true;
    enter(graph, node);
    *ret_node = node;
    return CUDA_SUCCESS;
}

CUresult
sg_graph_add(struct sg_graph *graph, struct sg_graph_node *const *deps, size_t n_deps,
             struct sg_node_data *data, struct sg_graph_node **ret_node)
{
    struct sg_graph_node *node;
    CUresult rc = node_new(graph, data, ++last_id, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    for (size_t i = 0; i < n_deps && rc == CUDA_SUCCESS; i++)
        rc = sg_graph_edge_add(deps[i], node, NULL);
    if (rc != CUDA_SUCCESS) {
        sg_graph_remove(node);
        return rc;
    }
    if (ret_node)
        *ret_node = node;
    return CUDA_SUCCESS;
}

void
sg_graph_remove(struct sg_graph_node *node)
{
    sg_graph_edges_remove(node);
    leave(node->graph, node);
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
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

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

    sg_graph_forget_index(graph);
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

        node->id = ++last_id;
        for (unsigned k = 0; k < n; k++)
            sg_graph_renumber(sub[k]);
    }
}

void
sg_graph_take_ids(struct sg_graph *graph, const struct sg_graph *from)
{
    const struct sg_graph_node *old = from->first;
    unsigned n, n_old;

    sg_graph_forget_index(graph);
    for (struct sg_graph_node *node = graph->first; node && old; node = node->next) {
        struct sg_graph *const *to = sg_node_graphs(&node->data, &n);
        struct sg_graph *const *sub = sg_node_graphs(&old->data, &n_old);

        node->id = old->id;
        node->enabled = old->enabled;
        for (unsigned k = 0; k < gp_min(n, n_old); k++)
            sg_graph_take_ids(to[k], sub[k]);
        old = old->next;
    }
}

/* ---------------------------------------------------------------- nodes by identity */

void
sg_graph_forget_index(struct sg_graph *graph)
{
    graph->by_id = (struct gp_tree){0};
    graph->indexed = false;
}

/* The first of several nodes with one identity counts: a graph that was launched twice
 * into a capture is inside twice. */
static void
index_inside(struct gp_tree *index, struct sg_graph *graph)
{
    unsigned n;

    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        struct sg_graph *const *sub = sg_node_graphs(&node->data, &n);

        if (!gp_tree_find(index, node->id, 0))
            gp_tree_insert(index, &node->by_id, node->id, 0);
        for (unsigned k = 0; k < n; k++)
            index_inside(index, sub[k]);
    }
}

static struct sg_graph_node *
find(const struct sg_graph *graph, uint64_t id)
{
    struct gp_tree_node *at = gp_tree_find(&graph->by_id, id, 0);

    return at ? container_of(at, struct sg_graph_node, by_id) : NULL;
}

struct sg_graph_node *
sg_graph_find_own(struct sg_graph *graph, uint64_t id)
{
    if (!graph->indexed)
        for (struct sg_graph_node *node = graph->first; node; node = node->next)
            gp_tree_insert(&graph->by_id, &node->by_id, node->id, 0);
    graph->indexed = true;
    return find(graph, id);
}

struct sg_graph_node *
sg_graph_find_inside(struct sg_graph *graph, uint64_t id)
{
    if (!graph->indexed)
        index_inside(&graph->by_id, graph);
    graph->indexed = true;
    return find(graph, id);
}

/* ------------------------------------------------------------------ copies and order
 */

bool
sg_graph_has_memory(const struct sg_graph *graph)
{
    return graph->n_memory != 0;
}

bool
sg_graph_is_clonable(const struct sg_graph *graph)
{
    if (graph->n_memory)
        return false;
    for (const struct sg_graph_node *node = graph->first; node; node = node->next)
        if (node->data.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
            (node->data.type == CU_GRAPH_NODE_TYPE_GRAPH &&
             !sg_graph_is_clonable(node->data.child)))
            return false;
    return true;
}

static CUresult
clone_node(struct sg_graph *copy, struct sg_graph_node *from)
{
    struct sg_node_data data;
    CUresult rc = sg_node_data_copy(&from->data, &data);

    if (rc != CUDA_SUCCESS) {
        sg_node_data_fini(&data);
        return rc;
    }
    rc = node_new(copy, &data, from->id, &from->copy);
    if (rc == CUDA_SUCCESS)
        from->copy->enabled = from->enabled;
    return rc;
}

CUresult
sg_graph_clone(const struct sg_graph *graph, struct sg_graph **ret_graph)
{
    struct sg_graph *copy;
    CUresult rc = sg_graph_new(&copy);

    if (rc != CUDA_SUCCESS)
        return rc;
    for (struct sg_graph_node *n = graph->first; n && rc == CUDA_SUCCESS; n = n->next)
        rc = clone_node(copy, n);
    for (struct sg_graph_node *n = graph->first; n; n = n->next)
        for (struct sg_graph_edge *e = n->deps.first; e; e = e->next_dep)
            if (rc == CUDA_SUCCESS)
                rc = sg_graph_edge_add(e->from->copy, n->copy, &e->data);
    if (rc == CUDA_SUCCESS)
        rc = sg_userobj_share(&graph->users, &copy->users);
    if (rc != CUDA_SUCCESS) {
        sg_graph_free(copy);
        return rc;
    }
    copy->clone_of = graph->id;
    *ret_graph = copy;
    return CUDA_SUCCESS;
}

void
sg_graph_number(const struct sg_graph *graph)
{
    size_t n = 0;

    for (struct sg_graph_node *node = graph->first; node; node = node->next)
        node->index = n++;
}

/* Kahn's algorithm.  A node's index is the number of edges to it that are left, and its
 * position in the end. */
CUresult
sg_graph_order(const struct sg_graph *graph, struct sg_graph_node ***ret_order)
{
    size_t head = 0, tail = 0;
    CLEANUP_FREE struct sg_graph_node **order =
        calloc(graph->n_nodes + 1, sizeof(*order));

    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        node->index = node->deps.n;
        if (!node->index)
            order[tail++] = node;
    }
    while (head < tail) {
        CLEANUP_FREE struct sg_graph_edge **out = sg_graph_edges_out(order[head]);

        if (!out)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < order[head]->outs.n; i++)
            if (--out[i]->to->index == 0)
                order[tail++] = out[i]->to;
        head++;
    }
    if (tail != graph->n_nodes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < tail; i++)
        order[i]->index = i;
    *ret_order = TAKE_PTR(order);
    return CUDA_SUCCESS;
}
