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

#include "sg_launch.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_ctx;
struct sg_graph;
struct sg_graph_node;
struct sg_stream;

struct sg_node_data {
    CUgraphNodeType type;
    uint64_t ctx; /* handle of the context it runs in */
    union {
        struct {
            struct sg_launch_req req;
            void *params;      /* owned; the kernel's buffer */
            void **param_ptrs; /* owned; into params, for GetParams */
        } kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct {
            CUhostFn fn;
            void *arg;
        } host;
        struct sg_graph *child; /* owned */
        uint64_t event;         /* handle */
        struct {
            CUstreamBatchMemOpParams *ops; /* owned */
            unsigned n, flags;
        } memops;
        struct {
            CUmemPoolProps props;
            uint64_t size;
            CUdeviceptr dptr;
            bool moved; /* its address belongs to another copy of the node */
        } alloc;
        CUdeviceptr free_ptr;
    };
};

struct sg_graph_node {
    uint64_t handle;
    struct sg_graph *graph;
    struct sg_node_data data;
    struct sg_graph_node **deps; /* what it comes after */
    size_t n_deps, cap_deps;
    struct sg_graph_node *clone_of; /* only compared, never followed */
    uint64_t id;  /* of the node it was first made as, over all clones */
    size_t index; /* scratch of one walk */
    bool enabled;
};

struct sg_user_ref {
    struct sg_user_object *object;
    unsigned count;
};

struct sg_graph {
    uint64_t handle;              /* 0: inside another object */
    struct sg_graph_node **nodes; /* in the order they were added */
    size_t n_nodes, cap_nodes;
    struct sg_user_ref *users;
    size_t n_users;
    bool child; /* owned by a node: may not be destroyed on its own */
};

CUresult sg_graph_new(struct sg_graph **ret_graph);
void sg_graph_free(struct sg_graph *graph); /* NULL is a no-op */
/* Takes over what @data owns, also on failure. */
CUresult sg_graph_add(struct sg_graph *graph, struct sg_graph_node *const *deps,
                      size_t n_deps, struct sg_node_data *data,
                      struct sg_graph_node **ret_node);
void sg_graph_remove(struct sg_graph_node *node);
CUresult sg_graph_clone(const struct sg_graph *graph, struct sg_graph **ret_graph);
/* Positions of all nodes in an order that respects the edges; to be freed.
 * CUDA_ERROR_INVALID_VALUE: a cycle. */
CUresult sg_graph_order(const struct sg_graph *graph,
                        struct sg_graph_node ***ret_order);

/* A deep copy of what a node holds. */
CUresult sg_node_data_copy(const struct sg_node_data *from, struct sg_node_data *to);
void sg_node_data_fini(struct sg_node_data *data);
struct sg_node_data *sg_graph_node_data(struct sg_graph_node *node);

#endif
