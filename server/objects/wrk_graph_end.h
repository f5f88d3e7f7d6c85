/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids that end with a graph: those of its nodes, of the graphs in its nodes, and of
 * their nodes.
 *
 * A driver frees all of them with the graph and tells nobody.  Ids that outlived them
 * would lead the driver to freed memory, or to nodes of a younger graph at the same
 * address, and both sides have room for only so many.  So what the graph holds is asked
 * for before it ends, and the client is told which ids are free again
 * (WIRE_EVENT_GRAPH_ENDED).
 *
 * A struct wrk_graph_end lives from begin to done or to a failure of the driver's call.
 * Receive thread only.
 */
#ifndef WRK_GRAPH_END_H
#define WRK_GRAPH_END_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct wrk;

struct wrk_graph_end {
    uint64_t *ids; /* that end; without memory for them they stay as they are */
    size_t n, room;
};

/* @graph is about to be destroyed under this id, which is not one of them. */
void wrk_graph_end_begin(struct wrk *w, struct wrk_graph_end *end, CUgraph graph,
                         uint64_t graph_id);
/* The node with this id is about to be destroyed.  Its own id is not one of them. */
void wrk_graph_end_node(struct wrk *w, struct wrk_graph_end *end, uint64_t node_id);
/* The driver has returned @r.  After an error nothing has ended. */
void wrk_graph_end_done(struct wrk *w, struct wrk_graph_end *end, CUresult r);

/* The graph @graph_id is a body of the conditional node @node_id and ends with it. */
void wrk_graph_end_body(struct wrk *w, uint64_t graph_id, uint64_t node_id);

#endif
