/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions and the nodes that read them: see sg_graph_cond.h.
 */
#include "sg_graph_cond.h"

#include "sg_cond.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_graph.h"
#include "sg_handle.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Bodies of one switch; a driver has no documented limit, our memory has. */
    MAX_BODIES = 1024,
    MAX_CONDS = 65536, /* of one graph, for the same reason */
};

static CUresult
cond_new(struct sg_graph *graph, uint64_t ctx, unsigned initial, unsigned flags,
         struct sg_cond **ret_cond)
{
    struct sg_cond *cond, **p;

    if (graph->n_conds == MAX_CONDS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p = realloc(graph->conds, (graph->n_conds + 1) * sizeof(*p));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->conds = p;
    cond = calloc(1, sizeof(*cond));
    if (!cond)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cond->handle = sg_handle_new(SG_KIND_COND, cond);
    if (!cond->handle) {
        free(cond);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cond->ctx = ctx;
    cond->graph = graph;
    cond->refs = 1;
    cond->initial = initial;
    cond->flags = flags;
    graph->conds[graph->n_conds++] = cond;
    *ret_cond = cond;
    return CUDA_SUCCESS;
}

SG_CALL(cuGraphConditionalHandleCreate, CUgraphConditionalHandle *pHandle_out,
        CUgraph hGraph, CUcontext ctx, unsigned int defaultLaunchValue,
        unsigned int flags)
{
    struct sg_graph *graph;
    struct sg_cond *cond;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hGraph);
    if (!graph || !pHandle_out || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    /* The current one does not stand in for NULL. */
    if (!sg_handle_get(SG_KIND_CTX, (uintptr_t)ctx))
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    rc = cond_new(graph, (uintptr_t)ctx, defaultLaunchValue, flags, &cond);
    if (rc == CUDA_SUCCESS)
        *pHandle_out = cond->handle;
    return sg_leave(rc);
}

/* ------------------------------------------------------------------------ nodes */

static bool
size_fits(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
    switch ((int)p->type) {
    case CU_GRAPH_COND_TYPE_IF:
        return p->size == 1 || p->size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
        return p->size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
        return p->size >= 1 && p->size <= MAX_BODIES;
    default:
        return false;
    }
}

/* The caller fills the bodies later: each gets a handle. */
static CUresult
bodies_new(struct sg_node_data *data)
{
    CUresult rc = CUDA_SUCCESS;

    data->cond.handles = calloc(data->cond.n, sizeof(*data->cond.handles));
    if (!data->cond.handles)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < data->cond.n && rc == CUDA_SUCCESS; i++) {
        struct sg_graph *body;

        rc = sg_graph_new(&body);
        if (rc != CUDA_SUCCESS)
            break;
        data->cond.bodies[i] = body;
        body->child = true;
        body->handle = sg_handle_new(SG_KIND_GRAPH, body);
        data->cond.handles[i] = (CUgraph)(uintptr_t)body->handle;
        rc = body->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}

CUresult
sg_cond_build(const CUDA_CONDITIONAL_NODE_PARAMS *p, struct sg_node_data *data)
{
    struct sg_cond *cond = sg_handle_get(SG_KIND_COND, p->handle);
    CUresult rc;

    if (!p->ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!cond || cond->used || !size_fits(p) || (uintptr_t)p->ctx != cond->ctx)
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    data->ctx = cond->ctx;
    data->cond.cond = sg_cond_ref(cond);
    data->cond.type = p->type;
    data->cond.n = p->size;
    data->cond.bodies = calloc(p->size, sizeof(*data->cond.bodies));
    rc = data->cond.bodies ? bodies_new(data) : CUDA_ERROR_OUT_OF_MEMORY;
    cond->used = rc == CUDA_SUCCESS;
    return rc;
}

bool
sg_cond_same(const struct sg_node_data *a, const struct sg_node_data *b)
{
    return a->cond.type == b->cond.type && a->cond.n == b->cond.n;
}

struct sg_graph *
sg_cond_choose(const struct sg_node_data *data)
{
    unsigned value = data->cond.cond->value, at;

    if (data->cond.type == CU_GRAPH_COND_TYPE_SWITCH)
        at = value;
    else
        at = value ? 0 : data->cond.type == CU_GRAPH_COND_TYPE_IF ? 1 : UINT32_MAX;
    return at < data->cond.n ? data->cond.bodies[at] : NULL;
}

void
sg_cond_reset(const struct sg_graph *graph)
{
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        const struct sg_node_data *d = &node->data;

        if (d->type == CU_GRAPH_NODE_TYPE_GRAPH)
            sg_cond_reset(d->child);
        if (d->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
            continue;
        if (d->cond.cond->flags & CU_GRAPH_COND_ASSIGN_DEFAULT)
            d->cond.cond->value = d->cond.cond->initial;
        for (unsigned b = 0; b < d->cond.n; b++)
            sg_cond_reset(d->cond.bodies[b]);
    }
}

CUresult
sg_cond_check_used(const struct sg_graph *graph)
{
    for (size_t i = 0; i < graph->n_conds; i++)
        if (!graph->conds[i]->used)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
