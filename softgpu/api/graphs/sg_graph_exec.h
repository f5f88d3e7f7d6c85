/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: a private copy of a graph, and its launches.
 *
 * Two launches of one instance run one after the other.  Lock held.
 */
#ifndef SG_GRAPH_EXEC_H
#define SG_GRAPH_EXEC_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct sg_graph;
struct sg_graph_node;
struct sg_work;

struct sg_graph_exec {
    uint64_t handle;
    struct sg_graph *graph;
    struct sg_work *last; /* reference: the end of the last launch */
    uint64_t flags;
};

/* Both sides of two copies are of the same kinds of memory. */
bool sg_graph_same_memory(const CUDA_MEMCPY3D *x, const CUDA_MEMCPY3D *y);

/* An instance's part that is @old may get what @graph's nodes say: the same shape, and
 * no change that CUDA excludes. */
bool sg_graph_may_become(const struct sg_graph *old, const struct sg_graph *graph);

/* The copy of @node inside the instance, NULL when it has none. */
struct sg_graph_node *sg_graph_exec_find(struct sg_graph_exec *exec,
                                         const struct sg_graph_node *node);
/* Before a change: launches that are still being made keep the old version. */
CUresult sg_graph_exec_own(struct sg_graph_exec *exec);

#endif
