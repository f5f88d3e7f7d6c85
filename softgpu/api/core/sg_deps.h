/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dependencies of a node that is still to be captured: handles of nodes, and the
 * edges from them.  Owned by a stream, an event or a capture.  Lock held.
 */
#ifndef SG_DEPS_H
#define SG_DEPS_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct sg_deps {
    uint64_t *nodes;
    CUgraphEdgeData *edges;
    size_t n;
};

void sg_deps_clear(struct sg_deps *deps);
/* Adds @more, whose edges are ordinary ones if NULL; a node that is there already keeps
 * its edge. */
CUresult sg_deps_add(struct sg_deps *deps, const struct sg_deps *more);
CUresult sg_deps_set(struct sg_deps *deps, const struct sg_deps *from);

#endif
