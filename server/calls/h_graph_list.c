/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph lists, in parts: nodes, roots, edges, and neighbours of a node, of
 * graphs so large that no frame holds the list (gp_graph_list).
 *
 * The driver gives a list as a whole only, so that each part would cost as much as all
 * of it.  The list is therefore asked for with the first part and kept until the last
 * one, under the ids that the client knows: an object that ends in between leaves a
 * dead id and no dangling handle.  One list is kept, which is no longer than the
 * driver's own; a part of another one is asked for anew.  Receive thread only.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"

#include <stdlib.h>
#include <string.h>

/* Arrays of @n entries; those that were not asked for are NULL.  A driver's handles
 * are replaced by ids in place. */
struct list {
    uint64_t id; /* of the graph or node */
    uint64_t room, next, n;
    uint32_t what, wanted;
    CUgraphNode *nodes, *to;
    CUgraphEdgeData *data;
};

static struct list kept;

static void
list_end(struct list *l)
{
    free(l->nodes);
    free(l->to);
    free(l->data);
    memset(l, 0, sizeof(*l));
}

static CUresult
ask(struct wrk *w, const struct wire_args_gp_graph_list *a, const struct list *l,
    size_t *n)
{
    switch ((enum wire_graph_list)a->list) {
    case WIRE_GRAPH_NODES:
        return WRK_CALL(w, cuGraphGetNodes, a->hGraph, l->nodes, n);
    case WIRE_GRAPH_ROOTS:
        return WRK_CALL(w, cuGraphGetRootNodes, a->hGraph, l->nodes, n);
    case WIRE_GRAPH_EDGES:
        return WRK_CALL(w, cuGraphGetEdges, a->hGraph, l->nodes, l->to, n);
    case WIRE_GRAPH_EDGES_V2:
        return WRK_CALL(w, cuGraphGetEdges_v2, a->hGraph, l->nodes, l->to, l->data, n);
    case WIRE_GRAPH_DEPENDENCIES:
        return WRK_CALL(w, cuGraphNodeGetDependencies, a->hNode, l->nodes, n);
    case WIRE_GRAPH_DEPENDENCIES_V2:
        return WRK_CALL(w, cuGraphNodeGetDependencies_v2, a->hNode, l->nodes, l->data,
                        n);
    case WIRE_GRAPH_DEPENDENTS:
        return WRK_CALL(w, cuGraphNodeGetDependentNodes, a->hNode, l->nodes, n);
    case WIRE_GRAPH_DEPENDENTS_V2:
        return WRK_CALL(w, cuGraphNodeGetDependentNodes_v2, a->hNode, l->nodes, l->data,
                        n);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Room for @n entries, and one more: a pointer that is not NULL asks for the list. */
static bool
list_rooms(struct list *l, size_t n)
{
    if (l->wanted & WIRE_GRAPH_LIST_NODES)
        l->nodes = calloc(n + 1, sizeof(*l->nodes));
    if (l->wanted & WIRE_GRAPH_LIST_TO)
        l->to = calloc(n + 1, sizeof(*l->to));
    if (l->wanted & WIRE_GRAPH_LIST_DATA)
        l->data = calloc(n + 1, sizeof(*l->data));
    return (l->nodes || !(l->wanted & WIRE_GRAPH_LIST_NODES)) &&
           (l->to || !(l->wanted & WIRE_GRAPH_LIST_TO)) &&
           (l->data || !(l->wanted & WIRE_GRAPH_LIST_DATA));
}

static void
name_all(struct wrk *w, CUgraphNode *nodes, size_t n)
{
    for (size_t i = 0; nodes && i < n; i++)
        nodes[i] =
            (CUgraphNode)(uintptr_t)wrk_handle_name(w, WIRE_KIND_GRAPHNODE, nodes[i]);
}

static CUresult
list_begin(struct wrk *w, const struct wire_args_gp_graph_list *a, struct list *l)
{
    size_t n = 0, there;
    CUresult r = ask(w, a, &(struct list){0}, &n);

    if (r != CUDA_SUCCESS)
        return r;
    *l = (struct list){.id = a->hGraph ? a->hGraph_id : a->hNode_id,
                       .room = a->room,
                       .what = a->list,
                       .wanted = a->wanted};
    there = (size_t)gp_min((uint64_t)n, a->room);
    if (!list_rooms(l, there))
        return CUDA_ERROR_OUT_OF_MEMORY;
    n = there;
    r = ask(w, a, l, &n);
    if (r != CUDA_SUCCESS)
        return r;
    l->n = gp_min(n, there);
    name_all(w, l->nodes, l->n);
    name_all(w, l->to, l->n);
    return CUDA_SUCCESS;
}

static bool
is_kept(const struct wire_args_gp_graph_list *a)
{
    return kept.n && a->first && kept.next == a->first && kept.room == a->room &&
           kept.what == a->list && kept.wanted == a->wanted &&
           kept.id == (a->hGraph ? a->hGraph_id : a->hNode_id);
}

/* @n entries of the kept list from @first on. */
static void
part_reply(struct wrk *w, struct wrk_reply *rep, uint64_t first, uint32_t n)
{
    struct wire_gp_graph_list_rep fixed = {.total = kept.n,
                                           .n_nodes = kept.nodes ? n : 0,
                                           .n_to = kept.to ? n : 0,
                                           .n_edges = kept.data ? n : 0};
    struct wire_gp_graph_list_rep_room room;
    void *body;

    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_gp_graph_list_rep_size(&fixed));
    if (!body)
        return;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_graph_list_rep_place(&room, body);
    for (uint32_t i = 0; i < fixed.n_nodes; i++)
        room.nodes[i] = (uintptr_t)kept.nodes[first + i];
    for (uint32_t i = 0; i < fixed.n_to; i++)
        room.to[i] = (uintptr_t)kept.to[first + i];
    if (fixed.n_edges)
        memcpy(room.edges, kept.data + first, n * sizeof(*kept.data));
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
}

CUresult
h_gp_graph_list(struct wrk *w, const struct wire_args_gp_graph_list *a,
                struct wrk_reply *rep)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t first;

    if (!is_kept(a)) {
        list_end(&kept);
        r = list_begin(w, a, &kept);
    }
    if (r != CUDA_SUCCESS) {
        list_end(&kept);
        return r;
    }
    first = gp_min(a->first, kept.n);
    kept.next = first + gp_min(gp_min(a->count, WIRE_GRAPH_LIST_MAX), kept.n - first);
    part_reply(w, rep, first, (uint32_t)(kept.next - first));
    if (kept.next == kept.n)
        list_end(&kept);
    return CUDA_SUCCESS;
}
