/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: graphs of which a condition chooses one, or how often it runs.
 * Lock held for all functions.
 */
#ifndef SG_GRAPH_COND_H
#define SG_GRAPH_COND_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct sg_cond;
struct sg_graph;
struct sg_node_data;

/* Node data of a conditional node from the caller's structure, with empty bodies. */
CUresult sg_cond_build(const CUDA_CONDITIONAL_NODE_PARAMS *p,
                       struct sg_node_data *data);
/* Two conditional nodes that an instance could exchange. */
bool sg_cond_same(const struct sg_node_data *a, const struct sg_node_data *b);

/* The body that runs now, or NULL for none. */
struct sg_graph *sg_cond_choose(const struct sg_node_data *data);
/* A launch begins: what has a default gets it, in all bodies. */
void sg_cond_reset(const struct sg_graph *graph);
/* CUDA_ERROR_INVALID_VALUE: a condition of @graph without a node. */
CUresult sg_cond_check_used(const struct sg_graph *graph);

#endif
