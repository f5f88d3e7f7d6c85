/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a graph as their edges see them, and the edges between them.
 *
 * An edge is in two lists: of what its second node depends on, and of what depends on
 * its first node, each in the order in which the edges were added.  So one that goes
 * costs the same whatever else its nodes have, and looking for one costs as much as the
 * shorter of the two lists.  A node owns the edges to it.  Lock held for all functions.
 */
#ifndef SG_GRAPH_EDGE_H
#define SG_GRAPH_EDGE_H

#include "sg_node.h"

#include "cuda_abi.h"
#include "gp_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_graph;
struct sg_graph_node;

struct sg_graph_edge {
    struct sg_graph_node *from, *to;
    CUgraphEdgeData data; /* remembered; every edge is waited for */
    struct sg_graph_edge *next_dep, *prev_dep; /* to the same node */
    struct sg_graph_edge *next_out, *prev_out; /* from the same node */
};

/* Edges to a node, or from one. */
struct sg_graph_edges {
    struct sg_graph_edge *first, *last;
    size_t n;
};

struct sg_graph_node {
    uint64_t handle;
    struct sg_graph *graph;
    struct sg_node_data data;
    struct sg_graph_node *next, *prev; /* of the graph, in the order they were added */
    struct sg_graph_edges deps;        /* to what it comes after */
    struct sg_graph_edges outs;        /* to what comes after it */
    uint64_t
        id; /* of the node it was first made as, over all clones; ascends in a graph */
    struct gp_tree_node by_id;   /* in the graph's index */
    struct gp_tree_node by_free; /* a free node: in the graph's list of those */
    size_t index;                /* scratch of one walk */
    struct sg_graph_node *copy;  /* the same */
    uint64_t mark;               /* of the last list of dependencies it was in */
    bool enabled;
};

/* An edge that is not there yet, which the caller has made sure of; @data NULL: an
 * ordinary one.  CUDA_ERROR_INVALID_VALUE: the nodes cannot have such an edge. */
CUresult sg_graph_edge_add(struct sg_graph_node *from, struct sg_graph_node *to,
                           const CUgraphEdgeData *data);
/* The edge from @from to @to, or NULL. */
struct sg_graph_edge *sg_graph_edge_find(const struct sg_graph_node *from,
                                         const struct sg_graph_node *to);
/* Takes it out of both lists and frees it. */
void sg_graph_edge_remove(struct sg_graph_edge *edge);
/* All edges to and from @node. */
void sg_graph_edges_remove(struct sg_graph_node *node);
/* The same without care for the lists of the other nodes, which are freed as well. */
void sg_graph_edges_free(struct sg_graph_node *node);
/* The edges to a node that was just added, if they are not the ordinary ones. */
CUresult sg_graph_edges_set(struct sg_graph_node *node, const CUgraphEdgeData *data);
/* The edges from @node by the order of the nodes that they lead to; to be freed.
 * NULL: no memory. */
struct sg_graph_edge **sg_graph_edges_out(const struct sg_graph_node *node);

#endif
