/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory is registered.
 *
 * Only memory whose owner promised to say when it goes (xport_pin(), xport_unpin():
 * pinned host memory, the worker's slots) stays registered: nothing tells a library
 * that an application unmapped its pages, and a stale registration would read whatever
 * lies there now.  Other memory is registered for one transfer.
 */
#include "xport_rdma.h"

#include <errno.h>

#define MR_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_mr *
register_range(struct rdma_conn *rdma, const void *addr, size_t len)
{
    struct ibv_mr *mr = rdma->v->reg_mr(rdma->pd, (void *)(uintptr_t)addr, len,
                                        (uintptr_t)addr, MR_ACCESS);

    /* A source may be read-only memory; then it cannot be a target either. */
    if (!mr)
        mr = rdma->v->reg_mr(rdma->pd, (void *)(uintptr_t)addr, len, (uintptr_t)addr,
                             IBV_ACCESS_REMOTE_READ);
    return mr;
}

static struct rdma_mr *
find_pinned(struct rdma_conn *rdma, uintptr_t addr, size_t len)
{
    for (unsigned i = 0; i < rdma->n_pinned; i++) {
        struct rdma_mr *m = &rdma->pinned[i];

        if (addr >= m->addr && len <= m->len && addr - m->addr <= m->len - len)
            return m;
    }
    return NULL;
}

struct ibv_mr *
rdma_mr_get(struct rdma_conn *rdma, const void *addr, size_t len, bool *ret_temp)
{
    struct ibv_mr *mr = NULL;
    struct rdma_mr *m;

    pthread_mutex_lock(&rdma->mr_lock);
    m = find_pinned(rdma, (uintptr_t)addr, len);
    if (m && !m->mr)
        m->mr = register_range(rdma, (void *)m->addr, m->len);
    if (m)
        mr = m->mr;
    pthread_mutex_unlock(&rdma->mr_lock);
    *ret_temp = !mr;
    return mr ? mr : register_range(rdma, addr, len);
}

void
rdma_mr_put(struct rdma_conn *rdma, struct ibv_mr *mr, bool temp)
{
    if (temp)
        rdma->v->dereg_mr(mr);
}

void
rdma_mr_fini(struct rdma_conn *rdma)
{
    for (unsigned i = 0; i < rdma->n_pinned; i++)
        if (rdma->pinned[i].mr)
            rdma->v->dereg_mr(rdma->pinned[i].mr);
    rdma->n_pinned = 0;
}

void
xport_pin(struct xport_conn *conn, const void *addr, size_t len)
{
    struct rdma_conn *rdma;

    if (conn->ops != &xport_rdma_ops)
        return;
    rdma = rdma_of(conn);
    pthread_mutex_lock(&rdma->mr_lock);
    if (rdma->n_pinned < RDMA_PINNED_MAX)
        rdma->pinned[rdma->n_pinned++] = (struct rdma_mr){(uintptr_t)addr, len, NULL};
    pthread_mutex_unlock(&rdma->mr_lock);
}

void
xport_unpin(struct xport_conn *conn, const void *addr)
{
    struct rdma_conn *rdma;

    if (conn->ops != &xport_rdma_ops)
        return;
    rdma = rdma_of(conn);
    pthread_mutex_lock(&rdma->mr_lock);
    for (unsigned i = 0; i < rdma->n_pinned; i++) {
        struct rdma_mr *m = &rdma->pinned[i];

        if (m->addr != (uintptr_t)addr)
            continue;
        if (m->mr)
            rdma->v->dereg_mr(m->mr);
        *m = rdma->pinned[--rdma->n_pinned];
        break;
    }
    pthread_mutex_unlock(&rdma->mr_lock);
}
