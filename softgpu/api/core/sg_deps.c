/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_deps.h"

#include "gp_base.h"
#include "gp_table.h"

#include <errno.h>
#include <stdlib.h>

enum {
    FEW = 8, /* nodes that are looked for one by one */
};

/* Handles, none of which is 0. */
GP_TABLE_TYPE(seen, uint64_t);

static inline bool
seen_used(const uint64_t *e)
{
    return *e != 0;
}

static inline uint32_t
seen_hash(uint64_t handle)
{
    return (uint32_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static inline uint32_t
seen_hash_of(const uint64_t *e)
{
    return seen_hash(*e);
}

static inline bool
seen_is(const uint64_t *e, uint64_t handle)
{
    return *e == handle;
}

GP_TABLE(seen, uint64_t, uint64_t)

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

static void
deps_append(struct sg_deps *deps, const struct sg_deps *more, size_t i)
{
    deps->nodes[deps->n] = more->nodes[i];
    deps->edges[deps->n++] = more->edges ? more->edges[i] : (CUgraphEdgeData){0};
}

/* Both need room in @deps for all of @more. */
static void
add_few(struct sg_deps *deps, const struct sg_deps *more)
{
    for (size_t i = 0; i < more->n; i++) {
        size_t j = 0;

        while (j < deps->n && deps->nodes[j] != more->nodes[i])
            j++;
        if (j == deps->n)
            deps_append(deps, more, i);
    }
}

/* 1: @handle is new in @seen, 0: it was there, -ENOMEM. */
static int
see(struct seen *seen, uint64_t handle)
{
    uint64_t *at = seen_enter(seen, handle);
    int is_new;

    if (!at)
        return -ENOMEM;
    is_new = *at == 0;
    *at = handle;
    return is_new;
}

static CUresult
add_many(struct sg_deps *deps, const struct sg_deps *more)
{
    struct seen seen = {0};
    int r = 0;

    for (size_t i = 0; i < deps->n && r >= 0; i++)
        r = see(&seen, deps->nodes[i]);
    for (size_t i = 0; i < more->n && r >= 0; i++) {
        r = see(&seen, more->nodes[i]);
        if (r > 0)
            deps_append(deps, more, i);
    }
    seen_fini(&seen);
    return r >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
sg_deps_add(struct sg_deps *deps, const struct sg_deps *more)
{
    CUresult rc = deps_room(deps, deps->n + more->n);

    if (rc == CUDA_SUCCESS && more->n > FEW)
        rc = add_many(deps, more);
    else if (rc == CUDA_SUCCESS)
        add_few(deps, more);
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
