/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_graph_nodes.h"

#include "gp_base.h"
#include "wire_format.h"
#include "wrk.h"

#include <stdlib.h>
#include <string.h>

static struct {
    uint64_t *from, *to;
    CUgraphEdgeData *data;
    size_t n, cap;
} ahead;

static void
forget(void)
{
    free(ahead.from);
    free(ahead.to);
    free(ahead.data);
    memset(&ahead, 0, sizeof(ahead));
}

/* Room for @n entries; arrays that the first part does not have never come. */
static bool
room(size_t n, const struct wrk_graph_part *part)
{
    size_t cap = gp_max(ahead.cap * 2, n);
    void *p;

    if (n <= ahead.cap)
        return true;
    p = reallocarray(ahead.from, cap, sizeof(*ahead.from));
    if (!p)
        return false;
    ahead.from = p;
    p = part->n_to ? reallocarray(ahead.to, cap, sizeof(*ahead.to)) : NULL;
    if (part->n_to && !p)
        return false;
    ahead.to = p;
    p = part->n_data ? reallocarray(ahead.data, cap, sizeof(*ahead.data)) : NULL;
    if (part->n_data && !p)
        return false;
    ahead.data = p;
    ahead.cap = cap;
    return true;
}

static bool
belongs(uint64_t first, const struct wrk_graph_part *part)
{
    if (first != ahead.n || part->n > WIRE_GRAPH_NODES_MAX - ahead.n ||
        (part->n_to && part->n_to != part->n) ||
        (part->n_data && part->n_data != part->n))
        return false;
    return !first || (!part->n_to == !ahead.to && !part->n_data == !ahead.data);
}

CUresult
wrk_graph_nodes_add(uint64_t first, const struct wrk_graph_part *part)
{
    CUresult r = CUDA_SUCCESS;

    if (!first)
        forget();
    if (!belongs(first, part))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!room(ahead.n + part->n, part))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS || !part->n) {
        if (r != CUDA_SUCCESS)
            forget();
        return r;
    }
    memcpy(ahead.from + ahead.n, part->from, part->n * sizeof(*part->from));
    if (part->n_to)
        memcpy(ahead.to + ahead.n, part->to, part->n * sizeof(*part->to));
    if (part->n_data)
        memcpy(ahead.data + ahead.n, part->data, part->n * sizeof(*part->data));
    ahead.n += part->n;
    return CUDA_SUCCESS;
}

/* The call names nodes that came ahead. */
static bool
names_ahead(const CUgraphNode *from, size_t n)
{
    return ahead.n && n == WIRE_GRAPH_AHEAD && from && !from[0] && !from[1];
}

static CUresult
look_up(struct wrk *w, const uint64_t *ids, size_t n, CUgraphNode *ret)
{
    CUresult r = CUDA_SUCCESS;
    void *obj;

    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        r = wrk_handle_get(w, WIRE_KIND_GRAPHNODE, ids[i], &obj);
        ret[i] = obj;
    }
    return r;
}

CUresult
wrk_graph_nodes_take(struct wrk *w, struct wrk_graph_nodes *nodes,
                     const CUgraphNode *from, const CUgraphNode *to,
                     const CUgraphEdgeData *data, size_t n)
{
    CUresult r;

    *nodes = (struct wrk_graph_nodes){from, to, data, n, NULL, NULL};
    if (likely(!names_ahead(from, n)))
        return CUDA_SUCCESS;
    nodes->n = ahead.n;
    nodes->own = calloc(2 * ahead.n, sizeof(*nodes->own));
    nodes->own_data = TAKE_PTR(ahead.data);
    r = nodes->own && !to == !ahead.to ? look_up(w, ahead.from, ahead.n, nodes->own)
        : nodes->own                   ? CUDA_ERROR_INVALID_VALUE
                                       : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && to)
        r = look_up(w, ahead.to, ahead.n, nodes->own + ahead.n);
    nodes->from = nodes->own;
    nodes->to = to ? nodes->own + ahead.n : NULL;
    nodes->data = nodes->own_data;
    forget();
    return r;
}

void
wrk_graph_nodes_fini(struct wrk_graph_nodes *nodes)
{
    free(nodes->own);
    free(nodes->own_data);
}
