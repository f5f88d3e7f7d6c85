/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_graph_edge.h"

#include "gp_base.h"

#include <stdlib.h>
#include <string.h>

/* Programmatic edges lead from one kernel to another, ports from a kernel. */
static CUresult
check(const struct sg_graph_node *from, const struct sg_graph_node *to,
      const CUgraphEdgeData *data)
{
    static const CUgraphEdgeData plain;
    bool from_kernel = from->data.type == CU_GRAPH_NODE_TYPE_KERNEL;
    bool to_kernel = to->data.type == CU_GRAPH_NODE_TYPE_KERNEL;

    if (memcmp(data->reserved, plain.reserved, sizeof(plain.reserved)) != 0 ||
        data->to_port || data->type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
        data->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
        (data->from_port && !from_kernel) ||
        (data->type && (!from_kernel || !to_kernel || !data->from_port)))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void
link_dep(struct sg_graph_edges *list, struct sg_graph_edge *edge)
{
    edge->prev_dep = list->last;
    *(list->last ? &list->last->next_dep : &list->first) = edge;
    list->last = edge;
    list->n++;
}

static void
link_out(struct sg_graph_edges *list, struct sg_graph_edge *edge)
{
    edge->prev_out = list->last;
    *(list->last ? &list->last->next_out : &list->first) = edge;
    list->last = edge;
    list->n++;
}

CUresult
sg_graph_edge_add(struct sg_graph_node *from, struct sg_graph_node *to,
                  const CUgraphEdgeData *data)
{
    struct sg_graph_edge *edge;

    if (data && check(from, to, data) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    edge = malloc(sizeof(*edge));
    if (!edge)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *edge = (struct sg_graph_edge){.from = from, .to = to};
    if (data)
        edge->data = *data;
    link_dep(&to->deps, edge);
    link_out(&from->outs, edge);
    return CUDA_SUCCESS;
}

struct sg_graph_edge *
sg_graph_edge_find(const struct sg_graph_node *from, const struct sg_graph_node *to)
{
    struct sg_graph_edge *dep = to->deps.first, *out = from->outs.first;

    for (; dep && out; dep = dep->next_dep, out = out->next_out) {
        if (dep->from == from)
            return dep;
        if (out->to == to)
            return out;
    }
    return NULL;
}

void
sg_graph_edge_remove(struct sg_graph_edge *edge)
{
    struct sg_graph_edges *deps = &edge->to->deps, *outs = &edge->from->outs;

    *(edge->prev_dep ? &edge->prev_dep->next_dep : &deps->first) = edge->next_dep;
    *(edge->next_dep ? &edge->next_dep->prev_dep : &deps->last) = edge->prev_dep;
    deps->n--;
    *(edge->prev_out ? &edge->prev_out->next_out : &outs->first) = edge->next_out;
    *(edge->next_out ? &edge->next_out->prev_out : &outs->last) = edge->prev_out;
    outs->n--;
    free(edge);
}

void
sg_graph_edges_remove(struct sg_graph_node *node)
{
    while (node->deps.first)
        sg_graph_edge_remove(node->deps.first);
    while (node->outs.first)
        sg_graph_edge_remove(node->outs.first);
}

void
sg_graph_edges_free(struct sg_graph_node *node)
{
    struct sg_graph_edge *edge = node->deps.first, *next;

    for (; edge; edge = next) {
        next = edge->next_dep;
        free(edge);
    }
    node->deps = node->outs = (struct sg_graph_edges){0};
}

CUresult
sg_graph_edges_set(struct sg_graph_node *node, const CUgraphEdgeData *data)
{
    CUresult rc = CUDA_SUCCESS;
    size_t i = 0;

    for (struct sg_graph_edge *e = node->deps.first; e; e = e->next_dep)
        if (rc == CUDA_SUCCESS)
            rc = check(e->from, node, &data[i++]);
    i = 0;
    for (struct sg_graph_edge *e = node->deps.first; e; e = e->next_dep)
        if (rc == CUDA_SUCCESS)
            e->data = data[i++];
    return rc;
}

/* Nodes are older the smaller their identities are, in any one graph. */
static int
by_age(const void *a, const void *b)
{
    const struct sg_graph_edge *const *x = a, *const *y = b;

    return (*x)->to->id < (*y)->to->id ? -1 : (*x)->to->id > (*y)->to->id;
}

struct sg_graph_edge **
sg_graph_edges_out(const struct sg_graph_node *node)
{
    struct sg_graph_edge **out = malloc((node->outs.n + 1) * sizeof(*out));
    bool sorted = true;
    size_t n = 0;

    if (!out)
        return NULL;
    for (struct sg_graph_edge *e = node->outs.first; e; e = e->next_out) {
        sorted = sorted && (!n || out[n - 1]->to->id < e->to->id);
        out[n++] = e;
    }
    if (!sorted)
        qsort(out, n, sizeof(struct sg_graph_edge *), by_age);
    return out;
}
