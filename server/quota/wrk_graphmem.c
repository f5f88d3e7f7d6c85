/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_graphmem.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_quota.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Child graphs in child graphs: nobody nests them deeper. */
#define DEPTH_MAX 32
/* Nodes of a graph that we are ready to look through: 8 MiB of handles. */
#define NODES_MAX (1u << 20)

struct graph_alloc {
    CUdeviceptr ptr;
    uint64_t bytes;
    uint32_t slice;
    bool kept; /* no node of the same graph frees it */
    bool live; /* launched and not freed */
};

struct wrk_graphmem {
    CUgraphExec exec;
    struct wrk_graphmem *next;
    struct graph_alloc *allocs;
    CUdeviceptr *frees;
    uint32_t n_allocs, n_frees, cap_allocs, cap_frees;
};

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct wrk_graphmem *graphs;
static _Atomic uint32_t n_graphs; /* read without the lock, too */

/* In the quota's ledger addresses stand for ordinary allocations; they are even. */
static uint64_t
key_of(CUdeviceptr ptr)
{
    return ptr | 1;
}

static void
graphmem_free(struct wrk_graphmem *m)
{
    if (!m)
        return;
    free(m->allocs);
    free(m->frees);
    free(m);
}
DEFINE_CLEANUP(struct wrk_graphmem, graphmem_free)

/* ---- what is in a graph ---- */

/* Room for one more element of @size. */
static bool
room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t want = gp_max(*cap * 2, 8u);
    void *grown;

    if (n < *cap)
        return true;
    grown = want > NODES_MAX ? NULL : realloc(*(void **)array, want * size);
    if (!grown)
        return false;
    *(void **)array = grown;
    *cap = want;
    return true;
}

static CUresult
add_alloc(struct wrk *w, struct wrk_graphmem *m, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {0};
    CUresult r = WRK_CALL(w, cuGraphMemAllocNodeGetParams, node, &p);

    if (r != CUDA_SUCCESS)
        return r;
    if ((uint32_t)p.poolProps.location.id >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!room(&m->allocs, m->n_allocs, &m->cap_allocs, sizeof(*m->allocs)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->allocs[m->n_allocs++] =
        (struct graph_alloc){.ptr = p.dptr,
                             .bytes = p.bytesize,
                             .slice = (uint32_t)p.poolProps.location.id,
                             .kept = true};
    return CUDA_SUCCESS;
}

static CUresult
add_free(struct wrk *w, struct wrk_graphmem *m, CUgraphNode node)
{
    CUdeviceptr ptr = 0;
    CUresult r = WRK_CALL(w, cuGraphMemFreeNodeGetParams, node, &ptr);

    if (r != CUDA_SUCCESS)
        return r;
    if (!room(&m->frees, m->n_frees, &m->cap_frees, sizeof(*m->frees)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->frees[m->n_frees++] = ptr;
    return CUDA_SUCCESS;
}

static CUresult add_nodes(struct wrk *w, struct wrk_graphmem *m, CUgraph graph,
                          unsigned depth);

static CUresult
add_node(struct wrk *w, struct wrk_graphmem *m, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = NULL;
    CUresult r = WRK_CALL(w, cuGraphNodeGetType, node, &type);

    if (r != CUDA_SUCCESS)
        return r;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return add_alloc(w, m, node);
    if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return add_free(w, m, node);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_SUCCESS;
    r = WRK_CALL(w, cuGraphChildGraphNodeGetGraph, node, &child);
    return r == CUDA_SUCCESS ? add_nodes(w, m, child, depth + 1) : r;
}

static CUresult
add_nodes(struct wrk *w, struct wrk_graphmem *m, CUgraph graph, unsigned depth)
{
    CLEANUP_FREE CUgraphNode *nodes = NULL;
    size_t n = 0;
    CUresult r = WRK_CALL(w, cuGraphGetNodes, graph, NULL, &n);

    if (r != CUDA_SUCCESS || !n)
        return r;
    if (depth > DEPTH_MAX || n > NODES_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    nodes = calloc(n, sizeof(*nodes));
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuGraphGetNodes, graph, nodes, &n);
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = add_node(w, m, nodes[i], depth);
    return r;
}

static struct graph_alloc *
alloc_find(struct wrk_graphmem *m, CUdeviceptr ptr)
{
    for (uint32_t i = 0; i < m->n_allocs; i++) {
        if (m->allocs[i].ptr == ptr)
            return &m->allocs[i];
    }
    return NULL;
}

/* ---- counting ---- */

CUresult
wrk_graphmem_node(struct wrk *w, const CUmemPoolProps *props, uint64_t bytes)
{
    uint32_t slice = (uint32_t)props->location.id;

    if (props->location.type == CU_MEM_LOCATION_TYPE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED; /* as for pools (h_pool.c) */
    if (slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    return bytes <= wrk_quota_limit(w->priv->quota, slice) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Give back the first @n. */
static void
give(struct wrk *w, struct wrk_graphmem *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        wrk_quota_drop(w->priv->quota, key_of(m->allocs[i].ptr));
}

/* NOT_SUPPORTED: another executable graph has the memory, and a driver makes no second.
 */
static CUresult
take_one(struct wrk *w, const struct graph_alloc *a)
{
    struct wrk_quota *q = w->priv->quota;
    int r;

    if (!wrk_quota_take_soon(q, a->slice, a->bytes, WRK_QUOTA_SOON_NS))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_quota_note(q, key_of(a->ptr), a->slice, w->ctx_index, a->bytes);
    if (r == 0)
        return CUDA_SUCCESS;
    wrk_quota_give(q, a->slice, a->bytes);
    return r == -EEXIST ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
wrk_graphmem_take(struct wrk *w, CUgraph graph, struct wrk_graphmem **ret)
{
    CLEANUP(graphmem_freep) struct wrk_graphmem *m = calloc(1, sizeof(*m));
    CUresult r;

    *ret = NULL;
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = add_nodes(w, m, graph, 0);
    if (r != CUDA_SUCCESS || (!m->n_allocs && !m->n_frees))
        return r;
    for (uint32_t i = 0; i < m->n_frees; i++) {
        struct graph_alloc *a = alloc_find(m, m->frees[i]);

        if (a)
            a->kept = false;
    }
    for (uint32_t i = 0; i < m->n_allocs; i++) {
        r = take_one(w, &m->allocs[i]);
        if (r == CUDA_SUCCESS)
            continue;
        give(w, m, i);
        return r;
    }
    *ret = TAKE_PTR(m);
    return CUDA_SUCCESS;
}

void
wrk_graphmem_commit(struct wrk *w, struct wrk_graphmem *m, CUgraphExec exec)
{
    if (!m)
        return;
    if (!exec) {
        give(w, m, m->n_allocs);
        graphmem_free(m);
        return;
    }
    m->exec = exec;
    pthread_mutex_lock(&ledger);
    m->next = graphs;
    graphs = m;
    atomic_fetch_add(&n_graphs, 1);
    pthread_mutex_unlock(&ledger);
}

/* An address that is live no more, wherever it came from. */
static void
freed_locked(CUdeviceptr ptr)
{
    for (struct wrk_graphmem *m = graphs; m; m = m->next) {
        struct graph_alloc *a = alloc_find(m, ptr);

        if (a)
            a->live = false;
    }
}

/* What is freed has been launched, and its graph is entered before it is. */
GP_HOT void
wrk_graphmem_freed(CUdeviceptr ptr)
{
    if (likely(!atomic_load(&n_graphs)))
        return;
    pthread_mutex_lock(&ledger);
    freed_locked(ptr);
    pthread_mutex_unlock(&ledger);
}

void
wrk_graphmem_launched(struct wrk *w, CUgraphExec exec)
{
    struct wrk_graphmem *m;

    pthread_mutex_lock(&ledger);
    for (m = graphs; m && m->exec != exec; m = m->next)
        ;
    for (uint32_t i = 0; m && i < m->n_frees; i++) {
        if (alloc_find(m, m->frees[i]))
            continue;
        freed_locked(m->frees[i]);
        wrk_quota_drop(w->priv->quota, m->frees[i]);
    }
    for (uint32_t i = 0; m && i < m->n_allocs; i++)
        m->allocs[i].live = m->allocs[i].kept;
    pthread_mutex_unlock(&ledger);
}

/* What is still allocated becomes an allocation like any other. */
static void
outlive(struct wrk *w, const struct graph_alloc *a)
{
    struct wrk_quota *q = w->priv->quota;
    struct wrk_quota_held held;

    if (!wrk_quota_detach(q, key_of(a->ptr), &held))
        return; /* its context is gone */
    wrk_quota_drop(q, a->ptr);
    if (wrk_quota_note(q, a->ptr, held.slice, held.ctx, held.bytes) < 0)
        wrk_quota_give(q, held.slice, held.bytes);
}

void
wrk_graphmem_destroyed(struct wrk *w, CUgraphExec exec)
{
    struct wrk_graphmem **at, *m;

    pthread_mutex_lock(&ledger);
    for (at = &graphs; *at && (*at)->exec != exec; at = &(*at)->next)
        ;
    m = *at;
    if (m) {
        *at = m->next;
        atomic_fetch_sub(&n_graphs, 1);
    }
    pthread_mutex_unlock(&ledger);
    for (uint32_t i = 0; m && i < m->n_allocs; i++) {
        if (m->allocs[i].live)
            outlive(w, &m->allocs[i]);
        else
            wrk_quota_drop(w->priv->quota, key_of(m->allocs[i].ptr));
    }
    graphmem_free(m);
}
