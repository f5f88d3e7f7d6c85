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

#include "sg_graph_edge.h"
#include "sg_userobj.h"

#include "cuda_abi.h"
#include "gp_base.h"
#include "gp_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_cond;
struct sg_ctx;
struct sg_graph;
struct sg_graph_mem;
struct sg_stream;

struct sg_graph {
    uint64_t handle;       /* 0: inside another object */
    uint64_t id, clone_of; /* of this graph, of the one it was copied from */
    uint64_t instance;     /* handle of the last one made of it, which may be gone */
    struct sg_graph_node *first, *last; /* its nodes */
    size_t n_nodes;
    size_t n_memory;      /* allocation and free nodes among them */
    struct gp_tree by_id; /* if @indexed; in instances also of inner graphs */
    bool indexed;
    struct gp_tree frees; /* free nodes, by address */
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
/* Takes over what @data owns, also on failure.  No node is twice in @deps. */
CUresult sg_graph_add(struct sg_graph *graph, struct sg_graph_node *const *deps,
                      size_t n_deps, struct sg_node_data *data,
                      struct sg_graph_node **ret_node);
void sg_graph_remove(struct sg_graph_node *node);
CUresult sg_graph_clone(const struct sg_graph *graph, struct sg_graph **ret_graph);
/* All nodes in an order that respects the edges, to be freed; each node's index is its
 * place in it.  CUDA_ERROR_INVALID_VALUE: a cycle. */
CUresult sg_graph_order(const struct sg_graph *graph,
                        struct sg_graph_node ***ret_order);

/* Each node's index is its place in the order in which they were added. */
void sg_graph_number(const struct sg_graph *graph);

/* Makes @graph the property of a node that holds a reference of its own. */
void sg_graph_adopt(struct sg_graph *graph);
/* @graph is @inside or somewhere in it. */
bool sg_graph_contains(const struct sg_graph *graph, const struct sg_graph *inside);
/* Nodes get identities of their own: a copy that is changed for itself. */
void sg_graph_renumber(struct sg_graph *graph);
/* The same identities in the same places, as far as the shapes agree; what is disabled
 * stays so. */
void sg_graph_take_ids(struct sg_graph *graph, const struct sg_graph *from);
/* The node of @graph itself that has this identity; or NULL. */
struct sg_graph_node *sg_graph_find_own(struct sg_graph *graph, uint64_t id);
/* The same at any depth, of an instance's graph, which no program can change. */
struct sg_graph_node *sg_graph_find_inside(struct sg_graph *graph, uint64_t id);
/* Graphs inside changed: what was found before is looked for anew. */
void sg_graph_forget_index(struct sg_graph *graph);
/* It has allocation or free nodes: none of its nodes and edges may go. */
bool sg_graph_has_memory(const struct sg_graph *graph);
/* No memory or conditional nodes, here and in child graphs. */
bool sg_graph_is_clonable(const struct sg_graph *graph);

/* A deep copy of what a node holds. */
CUresult sg_node_data_copy(const struct sg_node_data *from, struct sg_node_data *to);
void sg_node_data_fini(struct sg_node_data *data);

#endif
