/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph lists: nodes, roots, edges, and neighbours of a node.
 *
 * A list that the program has room for in one frame is asked for by the call itself; a
 * longer one comes in parts (gp_graph_list), from workers that know them.  Threads
 * that change a graph while it is listed need a lock of their own, as CUDA says, so the
 * parts of one list belong together.  Any thread.
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "stub_call.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <string.h>

/* A list as the program asks for it; arrays that it does not ask for are NULL. */
struct list {
    uint64_t graph, node; /* one of them, the other 0 */
    enum wire_graph_list what;
    CUgraphNode *nodes, *to;
    CUgraphEdgeData *data;
    uint64_t room, n;
};

/* Entries that a frame of the call itself has room for (proto/api/graph.api). */
#define NODES_MAX 8192u
#define EDGES_MAX 4096u

/* Copy a part to its place; false: it is none. */
static bool
part_take(struct list *l, uint64_t first, const struct stub_call *call)
{
    struct wire_gp_graph_list_rep_view view;
    uint32_t n;

    if (!wire_gp_graph_list_rep_open(&view, call->reply, call->reply_size, 0))
        return false;
    l->n = view.f->total;
    if (l->n > l->room || first > l->n)
        return false;
    n = (uint32_t)gp_min(l->n - first, WIRE_GRAPH_LIST_MAX);
    if ((l->nodes && view.f->n_nodes != n) || (l->to && view.f->n_to != n) ||
        (l->data && view.f->n_edges != n))
        return false;
    for (uint32_t i = 0; l->nodes && i < n; i++)
        l->nodes[first + i] = (CUgraphNode)(uintptr_t)view.nodes[i];
    for (uint32_t i = 0; l->to && i < n; i++)
        l->to[first + i] = (CUgraphNode)(uintptr_t)view.to[i];
    if (l->data && n)
        memcpy(l->data + first, view.edges, n * sizeof(*l->data));
    return true;
}

/* The part from @first on, and how many entries there are. */
static CUresult
part_get(struct list *l, uint64_t first)
{
    struct wire_gp_graph_list_req *req;
    struct stub_call call;
    CUresult r =
        stub_call_begin(&call, WIRE_CALL_gp_graph_list, (uint32_t)sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = call.body;
    *req = (struct wire_gp_graph_list_req){
        .hGraph = l->graph,
        .hNode = l->node,
        .first = first,
        .room = l->room,
        .list = l->what,
        .wanted = (l->nodes ? WIRE_GRAPH_LIST_NODES : 0) |
                  (l->to ? WIRE_GRAPH_LIST_TO : 0) |
                  (l->data ? WIRE_GRAPH_LIST_DATA : 0),
        .count = WIRE_GRAPH_LIST_MAX,
    };
    r = stub_call_wait(&call);
    if (r == CUDA_SUCCESS && !part_take(l, first, &call)) {
        stub_call_end(&call);
        return stub_call_bad(WIRE_CALL_gp_graph_list);
    }
    stub_call_end(&call);
    return r == CUDA_SUCCESS ? (CUresult)call.result : r;
}

/* Entries behind the last one are set to NULL.  A server may say any number. */
static void
rest_clear(const struct list *l)
{
    if (l->n > l->room)
        return;
    if (l->nodes)
        memset(l->nodes + l->n, 0, (l->room - l->n) * sizeof(*l->nodes));
    if (l->to)
        memset(l->to + l->n, 0, (l->room - l->n) * sizeof(*l->to));
}

static CUresult
list_get(struct list *l, size_t *n)
{
    uint64_t first = 0;
    CUresult r;

    do {
        r = part_get(l, first);
        first += WIRE_GRAPH_LIST_MAX;
    } while (r == CUDA_SUCCESS && first < l->n);
    if (r != CUDA_SUCCESS)
        return r;
    rest_clear(l);
    *n = (size_t)l->n;
    return CUDA_SUCCESS;
}

/* The list may be longer than @most and the worker knows parts.  False as well where
 * the call itself finds out why it cannot be made.  Notes the program's room. */
static bool
in_parts(struct list *l, const size_t *n, size_t most)
{
    unsigned kind = l->graph ? WIRE_KIND_GRAPH : WIRE_KIND_GRAPHNODE;

    l->room = n ? *n : 0;
    return n && *n > most && (l->nodes || l->to) &&
           stub_handle_ok(kind, l->graph ? l->graph : l->node) &&
           stub_enter() == CUDA_SUCCESS &&
           stub_link_can(stub_link_here(), "graph-lists");
}

/* @r is the result of the call itself, which fills as many entries as its frame holds:
 * fewer than the program has room for where the worker knows no parts. */
static CUresult
in_one(struct list *l, const size_t *n, CUresult r)
{
    if (r == CUDA_SUCCESS && n) {
        l->n = *n;
        rest_clear(l);
    }
    return r;
}

/* ---- the calls -------------------------------------------------------------- */

CUresult
stub_impl_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    struct list l = {
        .graph = (uintptr_t)hGraph, .what = WIRE_GRAPH_NODES, .nodes = nodes};

    return in_parts(&l, numNodes, NODES_MAX)
               ? list_get(&l, numNodes)
               : in_one(&l, numNodes,
                        stub_gen_cuGraphGetNodes(hGraph, nodes, numNodes));
}

CUresult
stub_impl_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes,
                              size_t *numRootNodes)
{
    struct list l = {
        .graph = (uintptr_t)hGraph, .what = WIRE_GRAPH_ROOTS, .nodes = rootNodes};

    return in_parts(&l, numRootNodes, NODES_MAX)
               ? list_get(&l, numRootNodes)
               : in_one(&l, numRootNodes,
                        stub_gen_cuGraphGetRootNodes(hGraph, rootNodes, numRootNodes));
}

CUresult
stub_impl_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                          size_t *numEdges)
{
    struct list l = {
        .graph = (uintptr_t)hGraph, .what = WIRE_GRAPH_EDGES, .nodes = from, .to = to};

    return in_parts(&l, numEdges, EDGES_MAX)
               ? list_get(&l, numEdges)
               : in_one(&l, numEdges,
                        stub_gen_cuGraphGetEdges(hGraph, from, to, numEdges));
}

CUresult
stub_impl_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                             CUgraphEdgeData *edgeData, size_t *numEdges)
{
    struct list l = {.graph = (uintptr_t)hGraph,
                     .what = WIRE_GRAPH_EDGES_V2,
                     .nodes = from,
                     .to = to,
                     .data = edgeData};

    return in_parts(&l, numEdges, EDGES_MAX)
               ? list_get(&l, numEdges)
               : in_one(
                     &l, numEdges,
                     stub_gen_cuGraphGetEdges_v2(hGraph, from, to, edgeData, numEdges));
}

CUresult
stub_impl_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                     size_t *numDependencies)
{
    struct list l = {.node = (uintptr_t)hNode,
                     .what = WIRE_GRAPH_DEPENDENCIES,
                     .nodes = dependencies};

    return in_parts(&l, numDependencies, EDGES_MAX)
               ? list_get(&l, numDependencies)
               : in_one(&l, numDependencies,
                        stub_gen_cuGraphNodeGetDependencies(hNode, dependencies,
                                                            numDependencies));
}

CUresult
stub_impl_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                        CUgraphEdgeData *edgeData,
                                        size_t *numDependencies)
{
    struct list l = {.node = (uintptr_t)hNode,
                     .what = WIRE_GRAPH_DEPENDENCIES_V2,
                     .nodes = dependencies,
                     .data = edgeData};

    return in_parts(&l, numDependencies, EDGES_MAX)
               ? list_get(&l, numDependencies)
               : in_one(&l, numDependencies,
                        stub_gen_cuGraphNodeGetDependencies_v2(
                            hNode, dependencies, edgeData, numDependencies));
}

CUresult
stub_impl_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                       size_t *numDependentNodes)
{
    struct list l = {.node = (uintptr_t)hNode,
                     .what = WIRE_GRAPH_DEPENDENTS,
                     .nodes = dependentNodes};

    return in_parts(&l, numDependentNodes, EDGES_MAX)
               ? list_get(&l, numDependentNodes)
               : in_one(&l, numDependentNodes,
                        stub_gen_cuGraphNodeGetDependentNodes(hNode, dependentNodes,
                                                              numDependentNodes));
}

CUresult
stub_impl_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode,
                                          CUgraphNode *dependentNodes,
                                          CUgraphEdgeData *edgeData,
                                          size_t *numDependentNodes)
{
    struct list l = {.node = (uintptr_t)hNode,
                     .what = WIRE_GRAPH_DEPENDENTS_V2,
                     .nodes = dependentNodes,
                     .data = edgeData};

    return in_parts(&l, numDependentNodes, EDGES_MAX)
               ? list_get(&l, numDependentNodes)
               : in_one(&l, numDependentNodes,
                        stub_gen_cuGraphNodeGetDependentNodes_v2(
                            hNode, dependentNodes, edgeData, numDependentNodes));
}
