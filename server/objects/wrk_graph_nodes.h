/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of a graph that a call names and that came in front of it, because its frame
 * does not hold as many (gp_graph_nodes).
 *
 * They are kept as ids and looked up when the call is made: a node that is destroyed in
 * between is one that the call does not find.  The next call about dependencies takes
 * them and they are gone; there are never more than WIRE_GRAPH_NODES_MAX.  For the one
 * worker of the process; receive thread only.
 */
#ifndef WRK_GRAPH_NODES_H
#define WRK_GRAPH_NODES_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct wrk;

/* Entries of each kind, NULL and 0 for none.  @from has @n, the others as many or
 * none. */
struct wrk_graph_part {
    const uint64_t *from, *to;
    const CUgraphEdgeData *data;
    uint32_t n, n_to, n_data;
};

/* Adds the entries from @first on, 0 for the first ones.  CUDA_ERROR_INVALID_VALUE:
 * they do not belong behind what is there, or are too many; nothing is kept then. */
CUresult wrk_graph_nodes_add(uint64_t first, const struct wrk_graph_part *part);

/* What a driver is given for the arguments of a call. */
struct wrk_graph_nodes {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *data;
    size_t n;
    CUgraphNode *own; /* to be freed */
    CUgraphEdgeData *own_data;
};

/* The arguments, or what came ahead in their place.  wrk_graph_nodes_fini() follows,
 * whatever this returns.  The error of a node that is not there;
 * CUDA_ERROR_OUT_OF_MEMORY. */
CUresult wrk_graph_nodes_take(struct wrk *w, struct wrk_graph_nodes *nodes,
                              const CUgraphNode *from, const CUgraphNode *to,
                              const CUgraphEdgeData *data, size_t n);
void wrk_graph_nodes_fini(struct wrk_graph_nodes *nodes);

#endif
