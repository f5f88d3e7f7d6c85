/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that name more nodes of a graph than their frame holds.
 *
 * The nodes go ahead in frames of their own (gp_graph_nodes), to workers that know
 * those, and the call follows behind them.  Between begin and end no other thread sends
 * any, because the worker keeps those of one call.  A call with as few nodes as fit is
 * made as it is.  Any thread.
 */
#ifndef STUB_GRAPH_NODES_H
#define STUB_GRAPH_NODES_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stddef.h>

/* What the call is made with; on the stack of the thread that makes it. */
struct stub_graph_nodes {
    CUgraphNode *from, *to; /* the program's, or some that stand for those sent ahead */
    CUgraphEdgeData *data;
    size_t n;
    bool ahead;
};

CUresult stub_graph_nodes_send(struct stub_graph_nodes *nodes);
CUresult stub_graph_nodes_sent(CUresult r);

/* Nodes where edges begin, nodes where they end and data of edges, of which a call has
 * @n each; NULL for what it does not have.  stub_graph_nodes_end() follows, whatever
 * this returns. */
static inline CUresult
stub_graph_nodes_begin(struct stub_graph_nodes *nodes, const CUgraphNode *from,
                       const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
    *nodes = (struct stub_graph_nodes){(CUgraphNode *)(uintptr_t)from,
                                       (CUgraphNode *)(uintptr_t)to,
                                       (CUgraphEdgeData *)(uintptr_t)data, n, false};
    return likely(n <= WIRE_GRAPH_LIST_MAX) ? CUDA_SUCCESS
                                            : stub_graph_nodes_send(nodes);
}

/* @r: what the call answered, which is returned. */
static inline CUresult
stub_graph_nodes_end(const struct stub_graph_nodes *nodes, CUresult r)
{
    return unlikely(nodes->ahead) ? stub_graph_nodes_sent(r) : r;
}

#endif
