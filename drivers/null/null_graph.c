/* SPDX-License-Identifier: Apache-2.0 */
#include "null_graph.h"

#include "gp_base.h"
#include "null.h"
#include "null_live.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- user objects ---- */

struct object {
    CUhostFn destroy;
    void *ptr;
    atomic_uint refs;
};

struct null_graph_user {
    struct null_graph_user *next;
    struct object *object;
    unsigned count;
};

CUresult
cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                   unsigned int initialRefcount, unsigned int flags)
{
    struct object *object = malloc(sizeof(*object));

    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct object){.destroy = destroy, .ptr = ptr, .refs = initialRefcount};
    if (!null_live_enter(object, NULL_LIVE_OBJECT)) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object_out = (CUuserObject)object;
    return CUDA_SUCCESS;
}

CUresult
cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    if (!null_live_is(object, NULL_LIVE_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&((struct object *)object)->refs, count);
    return CUDA_SUCCESS;
}

CUresult
cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    struct object *o = (struct object *)object;

    if (!null_live_is(o, NULL_LIVE_OBJECT) || atomic_load(&o->refs) < count)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_fetch_sub(&o->refs, count) == count) {
        null_live_leave(o);
        o->destroy(o->ptr);
        free(o);
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                        unsigned int flags)
{
    struct null_graph *g = null_graph_get(graph);
    struct null_graph_user *user;

    if (!g || !null_live_is(object, NULL_LIVE_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    user = malloc(sizeof(*user));
    if (!user)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *user = (struct null_graph_user){g->users, (struct object *)object, count};
    g->users = user;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        cuUserObjectRetain(object, count);
    return CUDA_SUCCESS;
}

CUresult
cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    struct null_graph *g = null_graph_get(graph);
    struct null_graph_user **at, *user;

    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    at = &g->users;
    while (*at && ((*at)->object != (struct object *)object || (*at)->count != count))
        at = &(*at)->next;
    user = *at;
    if (!user)
        return CUDA_ERROR_INVALID_VALUE;
    *at = user->next;
    free(user);
    return cuUserObjectRelease(object, count);
}

static bool
users_copy(struct null_graph *to, const struct null_graph *from)
{
    for (const struct null_graph_user *u = from->users; u; u = u->next)
        if (cuGraphRetainUserObject((CUgraph)to, (CUuserObject)u->object, u->count,
                                    0) != CUDA_SUCCESS)
            return false;
    return true;
}

static void
users_free(struct null_graph *graph)
{
    while (graph->users) {
        struct null_graph_user *user = graph->users;

        graph->users = user->next;
        cuUserObjectRelease((CUuserObject)user->object, user->count);
        free(user);
    }
}

/* ---- graphs ---- */

struct null_graph *
null_graph_get(CUgraph handle)
{
    struct null_graph *graph = (struct null_graph *)handle;

    return null_live_is(graph, NULL_LIVE_GRAPH) && !graph->is_instance ? graph : NULL;
}

struct null_graph *
null_graph_get_instance(CUgraphExec handle)
{
    struct null_graph *graph = (struct null_graph *)handle;

    return null_live_is(graph, NULL_LIVE_GRAPH) && graph->is_instance ? graph : NULL;
}

struct null_graph *
null_graph_new(void)
{
    struct null_graph *graph = calloc(1, sizeof(*graph));

    if (!graph || !null_live_enter(graph, NULL_LIVE_GRAPH)) {
        free(graph);
        return NULL;
    }
    graph->end = &graph->first;
    return graph;
}

/* A copy that is a node's. */
static CUgraph
part_new(const struct null_graph *of)
{
    struct null_graph *graph = of ? null_graph_copy(of) : null_graph_new();

    if (graph)
        graph->is_part = true;
    return (CUgraph)graph;
}

static void
node_params_free(CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        null_graph_free((struct null_graph *)params->graph.graph);
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
        params->conditional.phGraph_out) {
        for (unsigned i = 0; i < params->conditional.size; i++)
            null_graph_free((struct null_graph *)params->conditional.phGraph_out[i]);
        free(params->conditional.phGraph_out);
    }
}

static void
node_free(struct null_node *node)
{
    null_live_leave(node);
    node_params_free(&node->params);
    free(node->deps);
    free(node);
}

void
null_graph_free(struct null_graph *graph)
{
    if (!graph)
        return;
    while (graph->first) {
        struct null_node *node = graph->first;

        graph->first = node->next;
        node_free(node);
    }
    null_live_leave(graph);
    users_free(graph);
    free(graph);
}

/* The copy in @copy of a node that @copy's origin has. */
static struct null_node *
copied(const struct null_graph *copy, const struct null_node *origin)
{
    struct null_node *node = copy->first;

    while (node && node->origin != origin)
        node = node->next;
    return node;
}

/* The dependencies of @copy's nodes, which are all there, from those they were made of.
 */
static bool
deps_copy(struct null_graph *copy)
{
    for (struct null_node *node = copy->first; node; node = node->next) {
        const struct null_node *from = node->origin;

        for (size_t i = 0; i < from->n_deps; i++)
            if (!null_node_depend(node, copied(copy, from->deps[i])))
                return false;
    }
    return true;
}

struct null_graph *
null_graph_copy(const struct null_graph *graph)
{
    struct null_graph *copy = null_graph_new();
    bool ok = copy && users_copy(copy, graph);

    for (const struct null_node *from = graph->first; ok && from; from = from->next) {
        CUgraphNodeParams params = from->params;
        struct null_node *node;

        ok = null_node_add(copy, NULL, 0, &params, &node) == CUDA_SUCCESS;
        if (ok) {
            node->origin = from;
            node->disabled = from->disabled;
        }
    }
    if (ok && deps_copy(copy))
        return copy;
    null_graph_free(copy);
    return NULL;
}

struct null_node *
null_graph_find(const struct null_graph *copy, const struct null_node *origin)
{
    struct null_node *found = copied(copy, origin);

    for (const struct null_node *node = copy->first; node && !found; node = node->next)
        if (node->params.type == CU_GRAPH_NODE_TYPE_GRAPH)
            found = null_graph_find((const struct null_graph *)node->params.graph.graph,
                                    origin);
    return found;
}

/* ---- nodes ---- */

struct null_node *
null_node_get(CUgraphNode handle)
{
    return null_live_is(handle, NULL_LIVE_NODE) ? (struct null_node *)handle : NULL;
}

/* The bodies of @from, copied if it has any. */
static CUresult
params_copy_bodies(CUDA_CONDITIONAL_NODE_PARAMS *to,
                   const CUDA_CONDITIONAL_NODE_PARAMS *from)
{
    bool ok;

    to->phGraph_out = calloc(from->size + 1, sizeof(CUgraph));
    ok = to->phGraph_out != NULL;
    for (unsigned i = 0; ok && i < from->size; i++) {
        to->phGraph_out[i] = part_new(
            from->phGraph_out ? (struct null_graph *)from->phGraph_out[i] : NULL);
        ok = to->phGraph_out[i] != NULL;
    }
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What a node keeps of @from: what it points to is copied or forgotten. */
static CUresult
params_copy(CUgraphNodeParams *to, const CUgraphNodeParams *from)
{
    *to = *from;
    switch ((int)from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        to->kernel.kernelParams = NULL;
        to->kernel.extra = NULL;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (!null_graph_get(from->graph.graph))
            return CUDA_ERROR_INVALID_VALUE;
        to->graph.graph = part_new(null_graph_get(from->graph.graph));
        return to->graph.graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return params_copy_bodies(&to->conditional, &from->conditional);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void
null_node_undepend(struct null_node *node, const struct null_node *on)
{
    size_t kept = 0;

    for (size_t i = 0; i < node->n_deps; i++)
        if (node->deps[i] != on)
            node->deps[kept++] = node->deps[i];
    node->n_deps = kept;
}

bool
null_node_depend(struct null_node *node, struct null_node *on)
{
    struct null_node **deps =
        realloc(node->deps, (node->n_deps + 1) * sizeof(struct null_node *));

    if (!deps)
        return false;
    node->deps = deps;
    node->deps[node->n_deps++] = on;
    return true;
}

CUresult
null_node_add(struct null_graph *graph, const CUgraphNode *deps, size_t n_deps,
              CUgraphNodeParams *params, struct null_node **ret_node)
{
    struct null_node *node = calloc(1, sizeof(*node));
    CUresult r = node && null_live_enter(node, NULL_LIVE_NODE)
                     ? params_copy(&node->params, params)
                     : CUDA_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; r == CUDA_SUCCESS && i < n_deps; i++) {
        struct null_node *on = null_node_get(deps[i]);

        if (!on || on->graph != graph)
            r = CUDA_ERROR_INVALID_VALUE;
        else if (!null_node_depend(node, on))
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        if (node)
            node_free(node);
        return r;
    }
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        params->conditional.phGraph_out = node->params.conditional.phGraph_out;
    node->graph = graph;
    *graph->end = node;
    graph->end = &node->next;
    *ret_node = node;
    return CUDA_SUCCESS;
}

CUresult
null_node_set(struct null_node *node, const CUgraphNodeParams *params)
{
    CUgraphNodeParams copy;
    CUresult r;

    if (params->type != node->params.type)
        return CUDA_ERROR_INVALID_VALUE;
    r = params_copy(&copy, params);
    if (r == CUDA_SUCCESS)
        node_params_free(&node->params);
    else
        node_params_free(&copy);
    if (r == CUDA_SUCCESS)
        node->params = copy;
    return r;
}

/* @node leaves its graph, and is what no other waits for. */
void
null_node_remove(struct null_node *node)
{
    struct null_graph *graph = node->graph;
    struct null_node **at = &graph->first;

    while (*at != node) {
        null_node_undepend(*at, node);
        at = &(*at)->next;
    }
    *at = node->next;
    if (!*at)
        graph->end = at;
    for (struct null_node *later = *at; later; later = later->next)
        null_node_undepend(later, node);
    node_free(node);
}
