/* SPDX-License-Identifier: Apache-2.0 */
/* See wrk_graph_end.h. */
#include "wrk_graph_end.h"

#include "drv.h"
#include "gp_base.h"
#include "wire_format.h"
#include "wrk.h"
#include "wrk_object.h"
#include "wrk_reply.h"

#include <stdlib.h>

/* Ids of one message. */
#define MESSAGE_IDS 1024u

static void
add(struct wrk_graph_end *end, uint64_t id)
{
    size_t room = end->room ? 2 * end->room : 64;
    uint64_t *ids;

    if (end->n == end->room) {
        ids = reallocarray(end->ids, room, sizeof(*ids));
        if (!ids)
            return;
        end->ids = ids;
        end->room = room;
    }
    end->ids[end->n++] = id;
}

static void
add_graph(struct wrk *w, struct wrk_graph_end *end, CUgraph graph)
{
    uint64_t id = wrk_handles_id_of(&w->handles, WIRE_KIND_GRAPH, graph);

    if (id)
        add(end, id);
}

/* What wrk_graph_end_body() noted: no driver of ours can be asked for the bodies. */
static uint32_t
key_of_node(uint64_t node_id)
{
    return wire_handle_index(node_id) + 1;
}

static void
add_bodies(struct wrk *w, struct wrk_graph_end *end, uint64_t node_id)
{
    const struct wrk_handle_array *graphs = &w->handles.server[WIRE_KIND_GRAPH];

    for (uint32_t i = 0; i < graphs->cap; i++)
        if (graphs->slots[i].obj && graphs->slots[i].user == key_of_node(node_id))
            add_graph(w, end, graphs->slots[i].obj);
}

/* The graphs inside a node. */
static void
add_inside(struct wrk *w, struct wrk_graph_end *end, CUgraphNode node, uint64_t id)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = NULL;

    if (WRK_CALL(w, cuGraphNodeGetType, node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        add_bodies(w, end, id);
    else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
             WRK_CALL(w, cuGraphChildGraphNodeGetGraph, node, &child) == CUDA_SUCCESS)
        add_graph(w, end, child);
}

static void
add_nodes(struct wrk *w, struct wrk_graph_end *end, CUgraph graph)
{
    CLEANUP_FREE CUgraphNode *nodes = NULL;
    size_t n = 0, room;
    uint64_t id;

    if (WRK_CALL(w, cuGraphGetNodes, graph, NULL, &n) != CUDA_SUCCESS || !n)
        return;
    room = n;
    nodes = calloc(room, sizeof(*nodes));
    if (!nodes || WRK_CALL(w, cuGraphGetNodes, graph, nodes, &n) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < gp_min(n, room); i++) {
        id = wrk_handles_id_of(&w->handles, WIRE_KIND_GRAPHNODE, nodes[i]);
        if (!id)
            continue;
        add(end, id);
        add_inside(w, end, nodes[i], id);
    }
}

/* Ids of graphs and nodes that there are. */
static size_t
all_ids(const struct wrk *w)
{
    const struct wrk_handles *t = &w->handles;

    return (size_t)t->client[WIRE_KIND_GRAPH].count + t->server[WIRE_KIND_GRAPH].count +
           t->client[WIRE_KIND_GRAPHNODE].count + t->server[WIRE_KIND_GRAPHNODE].count;
}

/* Of all graphs among the ids; further ones come behind them meanwhile.  Graphs may be
 * nested as deep as a client likes, so this does not call itself.  A client that gives
 * the number of a conditional node again, inside its body, makes graphs that seem to be
 * in themselves: there are more ids then than can end. */
static void
add_nodes_of_graphs(struct wrk *w, struct wrk_graph_end *end)
{
    const struct wrk_handle_slot *slot;
    size_t most = all_ids(w);

    for (size_t i = 0; i < end->n && end->n <= most; i++) {
        slot = wrk_handles_find(&w->handles, WIRE_KIND_GRAPH, end->ids[i]);
        if (slot)
            add_nodes(w, end, slot->obj);
    }
}

/* Programs that only capture have no ids of nodes, and nothing is asked. */
static bool
knows_nodes(const struct wrk *w)
{
    return w->handles.client[WIRE_KIND_GRAPHNODE].count ||
           w->handles.server[WIRE_KIND_GRAPHNODE].count;
}

/* A capture that came to nothing leaves the id that its graph had meanwhile, and the
 * driver may have made this one at the same address. */
static void
add_other_names(struct wrk *w, struct wrk_graph_end *end, CUgraph graph, uint64_t id)
{
    const struct wrk_handle_array *graphs = &w->handles.server[WIRE_KIND_GRAPH];
    uint64_t last = wrk_handles_id_of(&w->handles, WIRE_KIND_GRAPH, graph), other;

    if (last && last != id)
        add(end, last);
    for (uint32_t i = 0; i < graphs->cap; i++) {
        if (graphs->slots[i].obj != graph)
            continue;
        other = wire_handle_make(WIRE_KIND_GRAPH, graphs->slots[i].gen,
                                 WIRE_INDEX_SERVER + i) |
                w->handles.link;
        if (other != id && other != last)
            add(end, other);
    }
}

void
wrk_graph_end_begin(struct wrk *w, struct wrk_graph_end *end, CUgraph graph,
                    uint64_t graph_id)
{
    *end = (struct wrk_graph_end){0};
    if (!graph)
        return;
    if (knows_nodes(w)) {
        add_nodes(w, end, graph);
        add_nodes_of_graphs(w, end);
    }
    add_other_names(w, end, graph, graph_id);
}

void
wrk_graph_end_node(struct wrk *w, struct wrk_graph_end *end, uint64_t node_id)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_GRAPHNODE, node_id);

    *end = (struct wrk_graph_end){0};
    if (!slot)
        return;
    add_inside(w, end, slot->obj, node_id);
    add_nodes_of_graphs(w, end);
}

static void
tell(struct wrk *w, const struct wrk_graph_end *end)
{
    for (size_t at = 0; at < end->n; at += MESSAGE_IDS) {
        struct wire_event_graph_ended event = {
            .n_ids = (uint32_t)gp_min(end->n - at, (size_t)MESSAGE_IDS)};

        wrk_unsolicited(w, WIRE_EVENT_GRAPH_ENDED, &event, sizeof(event), end->ids + at,
                        event.n_ids * (uint32_t)sizeof(*end->ids));
    }
}

void
wrk_graph_end_done(struct wrk *w, struct wrk_graph_end *end, CUresult r)
{
    if (r == CUDA_SUCCESS && end->n) {
        for (size_t i = 0; i < end->n; i++)
            wrk_handle_del(w, wire_handle_kind(end->ids[i]), end->ids[i]);
        tell(w, end);
    }
    free(end->ids);
    *end = (struct wrk_graph_end){0};
}

void
wrk_graph_end_body(struct wrk *w, uint64_t graph_id, uint64_t node_id)
{
    struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_GRAPH, graph_id);

    if (slot && wire_handle_index(graph_id) >= WIRE_INDEX_SERVER)
        slot->user = key_of_node(node_id);
}
