/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A condition: the value that a conditional node decides by.
 *
 * Made for a graph, set by kernels (cudaGraphSetConditional) or by the default at each
 * launch, and read by the one node that is made with it.  The graph, the node and the
 * node's copies in instances hold references; the handle lives as long as the first of
 * them.  Lock held for all functions but the hook.
 */
#ifndef SG_COND_H
#define SG_COND_H

#include <stdbool.h>
#include <stdint.h>

struct sg_graph;

struct sg_cond {
    uint64_t handle, ctx;         /* handle of the context, as the caller gave it */
    const struct sg_graph *graph; /* only compared */
    unsigned refs;
    unsigned value, initial, flags;
    bool used; /* a node was made with it */
};

struct sg_cond *sg_cond_ref(struct sg_cond *cond);
void sg_cond_unref(struct sg_cond *cond); /* NULL is a no-op */
/* Called by kernels, without the lock. */
void sg_cond_hook(void *user, uint64_t handle, uint32_t value);

#endif
