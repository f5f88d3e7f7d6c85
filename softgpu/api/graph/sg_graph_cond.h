/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions: the values that conditional nodes decide by.
 *
 * A condition is made for a graph, set by kernels (cudaGraphSetConditional) or by the
 * default at each launch, and read by the one node that is made with it.  The graph,
 * the node and the node's copies in instances hold references; the handle lives as
 * long as the first of them.  Lock held for all functions but the hook.
 */
#ifndef SG_GRAPH_COND_H
#define SG_GRAPH_COND_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct sg_cond;
struct sg_graph;
struct sg_node_data;

struct sg_cond *sg_cond_ref(struct sg_cond *cond);
void sg_cond_unref(struct sg_cond *cond); /* NULL is a no-op */

/* Node data of a conditional node from the caller's structure, with empty bodies. */
CUresult sg_cond_build(const CUDA_CONDITIONAL_NODE_PARAMS *p,
                       struct sg_node_data *data);
CUresult sg_cond_copy(const struct sg_node_data *from, struct sg_node_data *to);
void sg_cond_fini(struct sg_node_data *data);
/* Two conditional nodes that an instance could exchange. */
bool sg_cond_same(const struct sg_node_data *a, const struct sg_node_data *b);

/* The body that runs now, or NULL for none. */
struct sg_graph *sg_cond_choose(const struct sg_node_data *data);
/* A launch begins: what has a default gets it, in all bodies. */
void sg_cond_reset(const struct sg_graph *graph);
/* CUDA_ERROR_INVALID_VALUE: a condition of @graph without a node. */
CUresult sg_cond_check_used(const struct sg_graph *graph);

/* Called by kernels, without the lock. */
void sg_cond_hook(void *user, uint64_t handle, uint32_t value);

#endif
