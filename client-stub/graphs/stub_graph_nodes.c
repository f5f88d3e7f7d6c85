/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_graph_nodes.h"

#include "gp_lock.h"
#include "stub_call.h"
#include "stub_link.h"
#include "wire_api.h"

#include <string.h>

static struct gp_lock
    lock; /* from the first frame of nodes to the answer of the call */

/* Without a reply, and so is an error: the call behind it gets it. */
static CUresult
post(const struct stub_graph_nodes *nodes, uint64_t first, uint32_t n)
{
    struct wire_gp_graph_nodes_req head = {.first = first,
                                           .n_from = n,
                                           .n_to = nodes->to ? n : 0,
                                           .n_edges = nodes->data ? n : 0};
    struct wire_gp_graph_nodes_req_room room;
    struct stub_call call;
    CUresult r = stub_call_begin(&call, WIRE_CALL_gp_graph_nodes,
                                 wire_gp_graph_nodes_req_size(&head));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(call.body, &head, sizeof(head));
    wire_gp_graph_nodes_req_place(&room, call.body);
    if (n)
        memcpy(room.from, nodes->from + first, n * sizeof(*nodes->from));
    if (head.n_to)
        memcpy(room.to, nodes->to + first, n * sizeof(*nodes->to));
    if (head.n_edges)
        memcpy(room.edges, nodes->data + first, n * sizeof(*nodes->data));
    return stub_call_post(&call);
}

/* Where they cannot go ahead, the call itself says what is wrong with it. */
static bool
can_go_ahead(const struct stub_graph_nodes *nodes)
{
    return nodes->from && nodes->n <= WIRE_GRAPH_NODES_MAX &&
           stub_enter() == CUDA_SUCCESS &&
           stub_link_can(stub_link_here(), "graph-nodes");
}

CUresult
stub_graph_nodes_send(struct stub_graph_nodes *nodes)
{
    static CUgraphNode none[WIRE_GRAPH_AHEAD];
    static CUgraphEdgeData plain[WIRE_GRAPH_AHEAD];
    CUresult r = CUDA_SUCCESS;

    if (!can_go_ahead(nodes))
        return CUDA_SUCCESS;
    gp_lock_take(&lock);
    nodes->ahead = true;
    for (uint64_t first = 0; first < nodes->n && r == CUDA_SUCCESS;
         first += WIRE_GRAPH_LIST_MAX)
        r = post(nodes, first,
                 (uint32_t)gp_min(nodes->n - first, (uint64_t)WIRE_GRAPH_LIST_MAX));
    nodes->from = none;
    nodes->to = nodes->to ? none : NULL;
    nodes->data = nodes->data ? plain : NULL;
    nodes->n = WIRE_GRAPH_AHEAD;
    return r;
}

/* A call that failed may never have come to the worker: no other gets its nodes. */
CUresult
stub_graph_nodes_sent(CUresult r)
{
    const struct stub_graph_nodes none = {0};

    if (r != CUDA_SUCCESS)
        (void)post(&none, 0, 0);
    gp_lock_release(&lock);
    return r;
}
