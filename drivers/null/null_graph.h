/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph: its nodes in the order in which they were added, which is the order in
 * which a launch goes through them.
 *
 * Whoever made it owns it (null_graph_free()); a node of kind "graph" owns a copy of
 * the graph that it was given, an instance is a copy, too.  As with every driver, one
 * thread at a time may use a graph.
 */
#ifndef NULL_GRAPH_H
#define NULL_GRAPH_H

#include "cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

struct null_node {
    struct null_node *next;
    struct null_graph *graph;       /* that it is in */
    const struct null_node *origin; /* that it was copied from, or NULL */
    CUgraphNodeParams params;       /* without pointers to memory of the caller's */
    bool disabled;                  /* in an instance */
    size_t n_deps;
    struct null_node **deps; /* nodes of the same graph */
};

struct null_graph {
    struct null_node *first, **end;
    bool is_part;                  /* of a node, which frees it */
    bool is_instance;              /* no program has it as a graph */
    struct null_graph_user *users; /* user objects that live as long as it does */
};

/* NULL: it is none, or gone. */
struct null_graph *null_graph_get(CUgraph handle);
struct null_graph *null_graph_get_instance(CUgraphExec handle);
struct null_node *null_node_get(CUgraphNode handle);

struct null_graph *null_graph_new(void);
void null_graph_free(struct null_graph *graph); /* NULL is a no-op */
struct null_graph *null_graph_copy(const struct null_graph *graph);

/* The copy of @origin in @copy or in a graph inside it, or NULL. */
struct null_node *null_graph_find(const struct null_graph *copy,
                                  const struct null_node *origin);

/* @params are copied; for a graph, so is that.  For a conditional node the bodies are
 * made, and are the node's. */
CUresult null_node_add(struct null_graph *graph, const CUgraphNode *deps, size_t n_deps,
                       CUgraphNodeParams *params, struct null_node **ret_node);
CUresult null_node_set(struct null_node *node, const CUgraphNodeParams *params);
void null_node_remove(struct null_node *node);
bool null_node_depend(struct null_node *node,
                      struct null_node *on); /* false: no memory */
void null_node_undepend(struct null_node *node, const struct null_node *on);

#endif
