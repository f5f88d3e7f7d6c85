/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_deps.h"

#include "gp_base.h"

#include <stdlib.h>

void
sg_deps_clear(struct sg_deps *deps)
{
    free(deps->nodes);
    free(deps->edges);
    *deps = (struct sg_deps){0};
}

/* Room for @n of them, and one more so that there is something for none. */
static CUresult
deps_room(struct sg_deps *deps, size_t n)
{
    uint64_t *nodes = realloc(deps->nodes, (n + 1) * sizeof(*nodes));
    CUgraphEdgeData *edges;

    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    deps->nodes = nodes;
    edges = realloc(deps->edges, (n + 1) * sizeof(*edges));
    if (!edges)
        return CUDA_ERROR_OUT_OF_MEMORY;
    deps->edges = edges;
    return CUDA_SUCCESS;
}

CUresult
sg_deps_add(struct sg_deps *deps, const struct sg_deps *more)
{
    CUresult rc = deps_room(deps, deps->n + more->n);

    for (size_t i = 0; rc == CUDA_SUCCESS && i < more->n; i++) {
        size_t j = 0;

        while (j < deps->n && deps->nodes[j] != more->nodes[i])
            j++;
        if (j < deps->n)
            continue;
        deps->nodes[deps->n] = more->nodes[i];
        deps->edges[deps->n++] = more->edges ? more->edges[i] : (CUgraphEdgeData){0};
    }
    return rc;
}

CUresult
sg_deps_set(struct sg_deps *deps, const struct sg_deps *from)
{
    CUresult rc = deps_room(deps, from->n);

    if (rc == CUDA_SUCCESS) {
        deps->n = 0;
        rc = sg_deps_add(deps, from);
    }
    return rc;
}
