/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on a graph's shape: creation, edges, queries.
 */
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_graph.h"
#include "sg_graph_exec.h"
#include "sg_handle.h"
#include "sg_module.h"

#include "gp_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult
sg_graph_enter(CUgraph handle, struct sg_graph **ret_graph)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, handle);
    return *ret_graph ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

static CUresult
enter_node(CUgraphNode handle, struct sg_graph_node **ret_node)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_node = SG_OBJ(sg_graph_node, SG_KIND_NODE, handle);
    return *ret_node ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

static CUgraphNode
to_handle(const struct sg_graph_node *node)
{
    return (CUgraphNode)(uintptr_t)node->handle;
}

SG_CALL(cuGraphCreate, CUgraph *phGraph, unsigned int flags)
{
    struct sg_graph *graph;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phGraph || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_graph_new(&graph);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    graph->handle = sg_handle_new(SG_KIND_GRAPH, graph);
    if (!graph->handle) {
        sg_graph_free(graph);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *phGraph = (CUgraph)(uintptr_t)graph->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphDestroy, CUgraph hGraph)
{
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (graph->child || sg_capture_uses(graph))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sg_graph_free(graph);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphClone, CUgraph *phGraphClone, CUgraph originalGraph)
{
    struct sg_graph *graph, *copy;
    CUresult rc = sg_graph_enter(originalGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phGraphClone)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_graph_is_clonable(graph))
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED); /* as documented */
    rc = sg_graph_clone(graph, &copy);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    copy->handle = sg_handle_new(SG_KIND_GRAPH, copy);
    if (!copy->handle) {
        sg_graph_free(copy);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *phGraphClone = (CUgraph)(uintptr_t)copy->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphNodeFindInClone, CUgraphNode *phNode, CUgraphNode hOriginalNode,
        CUgraph hClonedGraph)
{
    struct sg_graph_node *node;
    struct sg_graph *graph;
    CUresult rc = enter_node(hOriginalNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hClonedGraph);
    if (!graph || !phNode || graph->clone_of != node->graph->id)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    node = sg_graph_find_own(graph, node->id);
    if (!node)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *phNode = to_handle(node);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphNodeGetType, CUgraphNode hNode, CUgraphNodeType *type)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!type)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *type = node->data.type;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphDestroyNode, CUgraphNode hNode)
{
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (sg_graph_has_memory(node->graph))
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED); /* as documented */
    sg_graph_remove(node);
    return sg_leave(CUDA_SUCCESS);
}

/* --------------------------------------------------------------------- queries */

/* The common shape of the list calls: *n is room on entry, count on return; with
 * no array only the count is asked for. */
struct lister {
    CUgraphNode *out;
    size_t room, n;
};

static void
list_put(struct lister *l, const struct sg_graph_node *node)
{
    if (l->out && l->n < l->room)
        l->out[l->n] = to_handle(node);
    l->n++;
}

static void
list_end(struct lister *l, size_t *n)
{
    for (size_t i = l->n; l->out && i < l->room; i++)
        l->out[i] = NULL;
    *n = l->out ? gp_min(l->n, l->room) : l->n;
}

static CUresult
list_nodes(CUgraph hGraph, CUgraphNode *nodes, size_t *n, bool roots)
{
    struct lister l = {.out = nodes};
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!n)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    l.room = *n;
    for (struct sg_graph_node *node = graph->first; node; node = node->next)
        if (!roots || !node->deps.n)
            list_put(&l, node);
    list_end(&l, n);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphGetNodes, CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    return list_nodes(hGraph, nodes, numNodes, false);
}

SG_CALL(cuGraphGetRootNodes, CUgraph hGraph, CUgraphNode *rootNodes,
        size_t *numRootNodes)
{
    return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

/* The data of edges beside their nodes.  Who does not ask for it must not overlook
 * that an edge is no ordinary one. */
struct edges {
    CUgraphEdgeData *out;
    size_t room, n;
    bool lossy;
};

static void
edges_put(struct edges *e, const CUgraphEdgeData *data)
{
    static const CUgraphEdgeData plain;

    if (e->out && e->n < e->room)
        e->out[e->n] = *data;
    e->n++;
    e->lossy |= !e->out && memcmp(data, &plain, sizeof(plain)) != 0;
}

static CUresult
edges_end(const struct edges *e, bool asked)
{
    return asked && e->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

SG_CALL(cuGraphNodeGetDependencies_v2, CUgraphNode hNode, CUgraphNode *dependencies,
        CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    struct lister l = {.out = dependencies};
    struct edges e = {.out = dependencies ? edgeData : NULL};
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!numDependencies)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    l.room = e.room = *numDependencies;
    for (const struct sg_graph_edge *d = node->deps.first; d; d = d->next_dep) {
        list_put(&l, d->from);
        edges_put(&e, &d->data);
    }
    list_end(&l, numDependencies);
    return sg_leave(edges_end(&e, dependencies != NULL));
}

SG_CALL(cuGraphNodeGetDependencies, CUgraphNode hNode, CUgraphNode *dependencies,
        size_t *numDependencies)
{
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

SG_CALL(cuGraphNodeGetDependentNodes_v2, CUgraphNode hNode, CUgraphNode *dependentNodes,
        CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    struct lister l = {.out = dependentNodes};
    struct edges e = {.out = dependentNodes ? edgeData : NULL};
    CLEANUP_FREE struct sg_graph_edge **out = NULL;
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!numDependentNodes)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    l.room = e.room = *numDependentNodes;
    out = sg_graph_edges_out(node);
    if (!out)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < node->outs.n; i++) {
        list_put(&l, out[i]->to);
        edges_put(&e, &out[i]->data);
    }
    list_end(&l, numDependentNodes);
    return sg_leave(edges_end(&e, dependentNodes != NULL));
}

SG_CALL(cuGraphNodeGetDependentNodes, CUgraphNode hNode, CUgraphNode *dependentNodes,
        size_t *numDependentNodes)
{
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL,
                                           numDependentNodes);
}

SG_CALL(cuGraphGetEdges_v2, CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
        CUgraphEdgeData *edgeData, size_t *numEdges)
{
    struct lister heads = {.out = from}, tails = {.out = to};
    struct edges e = {.out = from ? edgeData : NULL};
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!numEdges || !from != !to)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    heads.room = tails.room = e.room = *numEdges;
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        for (const struct sg_graph_edge *d = node->deps.first; d; d = d->next_dep) {
            list_put(&heads, d->from);
            list_put(&tails, node);
            edges_put(&e, &d->data);
        }
    }
    list_end(&heads, numEdges);
    list_end(&tails, numEdges);
    return sg_leave(edges_end(&e, from != NULL));
}

SG_CALL(cuGraphGetEdges, CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
        size_t *numEdges)
{
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

/* ----------------------------------------------------------------------- edges */

static CUresult
edge_ends(struct sg_graph *graph, CUgraphNode from, CUgraphNode to,
          struct sg_graph_node **ret_from, struct sg_graph_node **ret_to)
{
    *ret_from = SG_OBJ(sg_graph_node, SG_KIND_NODE, from);
    *ret_to = SG_OBJ(sg_graph_node, SG_KIND_NODE, to);
    if (!*ret_from || !*ret_to || *ret_from == *ret_to || (*ret_from)->graph != graph ||
        (*ret_to)->graph != graph)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

SG_CALL(cuGraphAddDependencies_v2, CUgraph hGraph, const CUgraphNode *from,
        const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    struct sg_graph_node *a, *b;
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (numDependencies && (!from || !to))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numDependencies && rc == CUDA_SUCCESS; i++) {
        rc = edge_ends(graph, from[i], to[i], &a, &b);
        if (rc == CUDA_SUCCESS && sg_graph_edge_find(a, b))
            rc = CUDA_ERROR_INVALID_VALUE;
        if (rc == CUDA_SUCCESS)
            rc = sg_graph_edge_add(a, b, edgeData ? &edgeData[i] : NULL);
    }
    return sg_leave(rc);
}

SG_CALL(cuGraphAddDependencies, CUgraph hGraph, const CUgraphNode *from,
        const CUgraphNode *to, size_t numDependencies)
{
    return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

SG_CALL(cuGraphRemoveDependencies_v2, CUgraph hGraph, const CUgraphNode *from,
        const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    struct sg_graph_node *a, *b;
    struct sg_graph_edge *edge;
    struct sg_graph *graph;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (numDependencies && (!from || !to))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (numDependencies && sg_graph_has_memory(graph))
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED); /* as documented */
    (void)edgeData; /* an edge goes whatever its data is, as a driver has it */
    for (size_t i = 0; i < numDependencies && rc == CUDA_SUCCESS; i++) {
        rc = edge_ends(graph, from[i], to[i], &a, &b);
        edge = rc == CUDA_SUCCESS ? sg_graph_edge_find(a, b) : NULL;
        if (edge)
            sg_graph_edge_remove(edge);
        else
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    return sg_leave(rc);
}

SG_CALL(cuGraphRemoveDependencies, CUgraph hGraph, const CUgraphNode *from,
        const CUgraphNode *to, size_t numDependencies)
{
    return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

SG_CALL(cuGraphNodeSetEnabled, CUgraphExec hGraphExec, CUgraphNode hNode,
        unsigned int isEnabled)
{
    struct sg_graph_exec *exec;
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, hGraphExec);
    node = exec && sg_graph_exec_own(exec) == CUDA_SUCCESS
               ? sg_graph_exec_find(exec, node)
               : NULL;
    if (!node || (node->data.type != CU_GRAPH_NODE_TYPE_KERNEL &&
                  node->data.type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                  node->data.type != CU_GRAPH_NODE_TYPE_MEMSET))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    node->enabled = isEnabled != 0;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphNodeGetEnabled, CUgraphExec hGraphExec, CUgraphNode hNode,
        unsigned int *isEnabled)
{
    struct sg_graph_exec *exec;
    struct sg_graph_node *node;
    CUresult rc = enter_node(hNode, &node);

    if (rc != CUDA_SUCCESS)
        return rc;
    exec = SG_OBJ(sg_graph_exec, SG_KIND_EXEC, hGraphExec);
    node = exec ? sg_graph_exec_find(exec, node) : NULL;
    if (!node || !isEnabled)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *isEnabled = node->enabled;
    return sg_leave(CUDA_SUCCESS);
}

static const char *
type_name(CUgraphNodeType type)
{
    static const char *const names[] = {
        "KERNEL",         "MEMCPY",       "MEMSET",
        "HOST",           "GRAPH",        "EMPTY",
        "WAIT_EVENT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
        "EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
        "BATCH_MEM_OP",   "CONDITIONAL",
    };

    return (unsigned)type < ARRAY_SIZE(names) ? names[type] : "?";
}

SG_CALL(cuGraphDebugDotPrint, CUgraph hGraph, const char *path, unsigned int flags)
{
    struct sg_graph *graph;
    FILE *f;
    CUresult rc = sg_graph_enter(hGraph, &graph);

    if (rc != CUDA_SUCCESS)
        return rc;
    f = path ? fopen(path, "we") : NULL;
    if (!f)
        return sg_leave(path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE);
    fprintf(f, "digraph graph_1 {\n");
    sg_graph_number(graph);
    for (struct sg_graph_node *node = graph->first; node; node = node->next) {
        const struct sg_node_data *data = &node->data;
        const char *kernel = data->type == CU_GRAPH_NODE_TYPE_KERNEL
                                 ? sg_func_name(data->kernel.req.func)
                                 : NULL;

        fprintf(f, "  n%zu [label=\"%zu\\n%s%s%s\"];\n", node->index, node->index,
                type_name(data->type), kernel ? "\\n" : "", kernel ? kernel : "");
    }
    for (struct sg_graph_node *node = graph->first; node; node = node->next)
        for (const struct sg_graph_edge *d = node->deps.first; d; d = d->next_dep)
            fprintf(f, "  n%zu -> n%zu;\n", d->from->index, node->index);
    fprintf(f, "}\n");
    return sg_leave(fclose(f) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}
