/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, edges, instances.
 *
 * A node holds a private copy of everything it needs (struct sg_node_data).  A
 * graph owns its nodes; an instance owns a flat copy of a graph, child graphs
 * expanded, so the graph may change or go away afterwards.  Lock held for all
 * functions.
 */
#ifndef SG_GRAPH_H
#define SG_GRAPH_H

#include "sg_node.h"
#include "sg_userobj.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_cond;
struct sg_ctx;
struct sg_graph;
struct sg_graph_mem;
struct sg_graph_node;
struct sg_stream;

struct sg_graph_node {
    uint64_t handle;
    struct sg_graph *graph;
    struct sg_node_data data;
    struct sg_graph_node **deps; /* what it comes after */
    CUgraphEdgeData *edges;      /* one for each; remembered, and all are waited for */
    size_t n_deps, cap_deps;
    struct sg_graph_node *clone_of; /* only compared, never followed */
    uint64_t id;  /* of the node it was first made as, over all clones */
    size_t index; /* scratch of one walk */
    bool enabled;
};

struct sg_graph {
    uint64_t handle;              /* 0: inside another object */
    uint64_t id, clone_of;        /* of this graph, of the one it was copied from */
    struct sg_graph_node **nodes; /* in the order they were added */
    size_t n_nodes, cap_nodes;
    struct sg_user_refs users;
    struct sg_cond **conds; /* references: conditions made for this graph */
    size_t n_conds;
    bool child;     /* owned by a node: may not be destroyed on its own */
    unsigned level; /* graphs around it */
    unsigned refs;
};

enum {
    /* Graphs in graphs, as children or bodies: the depth that walks may recurse. */
    SG_GRAPH_DEPTH = 64,
};

/* The graphs inside a node: a child, bodies, or none. */
struct sg_graph *const *sg_node_graphs(const struct sg_node_data *data,
                                       unsigned *ret_n);

/* sg_enter_init() for a call about @handle (sg_graph_api.c); CUDA_ERROR_INVALID_VALUE,
 * and the lock is not held, when it is no graph. */
CUresult sg_graph_enter(CUgraph handle, struct sg_graph **ret_graph);
CUresult sg_graph_new(struct sg_graph **ret_graph);
/* Launches whose conditional nodes are still to be decided hold on to it. */
struct sg_graph *sg_graph_ref(struct sg_graph *graph);
/* Drops the handle, and with the last reference everything; NULL is a no-op. */
void sg_graph_free(struct sg_graph *graph);
/* Takes over what @data owns, also on failure. */
CUresult sg_graph_add(struct sg_graph *graph, struct sg_graph_node *const *deps,
                      size_t n_deps, struct sg_node_data *data,
                      struct sg_graph_node **ret_node);
/* The edges of a node that was just added, if they are not the ordinary ones. */
CUresult sg_graph_set_edges(struct sg_graph_node *node, const CUgraphEdgeData *edges);
CUresult sg_graph_check_edge(const struct sg_graph_node *from,
                             const struct sg_graph_node *to,
                             const CUgraphEdgeData *edge);
void sg_graph_drop_dep(struct sg_graph_node *node, const struct sg_graph_node *dep);
void sg_graph_remove(struct sg_graph_node *node);
CUresult sg_graph_clone(const struct sg_graph *graph, struct sg_graph **ret_graph);
/* Positions of all nodes in an order that respects the edges; to be freed.
 * CUDA_ERROR_INVALID_VALUE: a cycle. */
CUresult sg_graph_order(const struct sg_graph *graph,
                        struct sg_graph_node ***ret_order);

/* Makes @graph the property of a node that holds a reference of its own. */
void sg_graph_adopt(struct sg_graph *graph);
/* @graph is @inside or somewhere in it. */
bool sg_graph_contains(const struct sg_graph *graph, const struct sg_graph *inside);
/* Nodes get identities of their own: a copy that is changed for itself. */
void sg_graph_renumber(struct sg_graph *graph);
/* The same identities in the same places, as far as the shapes agree. */
void sg_graph_take_ids(struct sg_graph *graph, const struct sg_graph *from);
/* The node that @node was copied to or from, at any depth; or NULL. */
struct sg_graph_node *sg_graph_find_id(struct sg_graph *graph, uint64_t id);
/* It has allocation or free nodes: none of its nodes and edges may go. */
bool sg_graph_has_memory(const struct sg_graph *graph);
/* No memory or conditional nodes, here and in child graphs. */
bool sg_graph_is_clonable(const struct sg_graph *graph);

/* A deep copy of what a node holds. */
CUresult sg_node_data_copy(const struct sg_node_data *from, struct sg_node_data *to);
void sg_node_data_fini(struct sg_node_data *data);

#endif
