/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes ahead of a call that names more of them than its frame holds.
 */
#include "wrk_args.h"
#include "wrk_graph_nodes.h"

CUresult
h_gp_graph_nodes(struct wrk *w, const struct wire_args_gp_graph_nodes *a,
                 struct wrk_reply *rep)
{
    const struct wrk_graph_part part = {(const uint64_t *)a->from,
                                        (const uint64_t *)a->to,
                                        a->edges,
                                        a->n_from,
                                        a->n_to,
                                        a->n_edges};

    (void)w;
    (void)rep;
    return wrk_graph_nodes_add(a->first, &part);
}
