/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory is registered.
 *
 * Pinned memory (xport_pin(): the worker's slots, an application's page-locked memory)
 * is registered when it is first used and until its owner takes it back; a link that
 * replaces another one over RDMA registers it again, for which it stays in the table.
 * Memory of a
 * card (xport_window_add()) at once.  Any other memory is registered for a transfer; it
 * stays registered only while the kernel tells us of its end (xport_guard.h).
 *
 * What is a source may be read by the peer and not written by anybody; what is a target
 * cannot be read by the peer.
 */
#include "xport_rdma.h"

#include "gp_err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned
access_of(const struct rdma_conn *rdma, bool source)
{
    if (source)
        return IBV_ACCESS_REMOTE_READ;
    /* iWARP answers a READ by writing to its target. */
    return IBV_ACCESS_LOCAL_WRITE | (rdma->has_imm ? 0u : IBV_ACCESS_REMOTE_WRITE);
}

static struct ibv_mr *
register_range(struct rdma_conn *rdma, uintptr_t addr, size_t len, unsigned access)
{
    return rdma->v->reg_mr(rdma->pd, (void *)addr, len, addr, access);
}

/* --- the table; under mr_lock ------------------------------------------------------
 */

static bool
covers(const struct rdma_mr *m, uintptr_t addr, size_t len)
{
    return addr >= m->addr && len <= m->len && addr - m->addr <= m->len - len;
}

/* Out of the table; onto @dead now, or with its last transfer. */
static void
table_drop(struct rdma_conn *rdma, struct rdma_mr **at, struct rdma_mr **dead)
{
    struct rdma_mr *m = *at;

    *at = m->next;
    if (m->kind == RDMA_MR_CACHED) {
        rdma->n_cached--;
        rdma->cached_bytes -= m->len;
    } else {
        rdma->n_pinned--;
    }
    m->gone = true;
    if (m->users)
        return;
    m->next = *dead;
    *dead = m;
}

static void
table_drop_stale(struct rdma_conn *rdma, struct rdma_mr **dead)
{
    struct rdma_mr **at = &rdma->mrs;

    while (*at) {
        if ((*at)->kind == RDMA_MR_CACHED && xport_guard_stale(&(*at)->guard))
            table_drop(rdma, at, dead);
        else
            at = &(*at)->next;
    }
}

/* The oldest cached ones, until so much more fits. */
static void
table_make_room(struct rdma_conn *rdma, size_t more, struct rdma_mr **dead)
{
    while (rdma->n_cached >= RDMA_CACHED_MAX ||
           (rdma->n_cached && rdma->cached_bytes + more > RDMA_CACHED_BYTES)) {
        struct rdma_mr **oldest = NULL;

        for (struct rdma_mr **at = &rdma->mrs; *at; at = &(*at)->next)
            if ((*at)->kind == RDMA_MR_CACHED &&
                (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
        table_drop(rdma, oldest, dead);
    }
}

static struct rdma_mr *
table_find(struct rdma_conn *rdma, uintptr_t addr, size_t len, bool source)
{
    for (struct rdma_mr *m = rdma->mrs; m; m = m->next)
        if (covers(m, addr, len) && (m->kind == RDMA_MR_WINDOW || m->source == source))
            return m;
    return NULL;
}

static void
table_insert(struct rdma_conn *rdma, struct rdma_mr *m)
{
    if (m->kind == RDMA_MR_CACHED) {
        rdma->n_cached++;
        rdma->cached_bytes += m->len;
    } else {
        rdma->n_pinned++;
    }
    m->used = ++rdma->mr_clock;
    m->next = rdma->mrs;
    rdma->mrs = m;
}

/* --- made and freed without the lock -----------------------------------------------
 */

static void
mr_free(struct rdma_conn *rdma, struct rdma_mr *m)
{
    if (m->mr)
        rdma->v->dereg_mr(m->mr);
    if (m->kind == RDMA_MR_CACHED)
        xport_guard_remove(&m->guard);
    free(m);
}

static void
free_dead(struct rdma_conn *rdma, struct rdma_mr *dead)
{
    while (dead) {
        struct rdma_mr *next = dead->next;

        mr_free(rdma, dead);
        dead = next;
    }
}

static struct rdma_mr *
mr_new(uintptr_t addr, size_t len, enum rdma_mr_kind kind, bool source)
{
    struct rdma_mr *m = calloc(1, sizeof(*m));

    if (m)
        *m = (struct rdma_mr){.addr = addr, .len = len, .kind = kind, .source = source};
    return m;
}

/* The limit of locked memory may be what is in the way: let the cache go and retry. */
static void
mr_register(struct rdma_conn *rdma, struct rdma_mr *m)
{
    unsigned access = access_of(rdma, m->source);
    struct rdma_mr *dead = NULL;

    m->mr = register_range(rdma, m->addr, m->len, access);
    if (m->mr || errno != ENOMEM)
        return;
    pthread_mutex_lock(&rdma->mr_lock);
    table_make_room(rdma, RDMA_CACHED_BYTES + 1, &dead);
    pthread_mutex_unlock(&rdma->mr_lock);
    free_dead(rdma, dead);
    m->mr = register_range(rdma, m->addr, m->len, access);
}

/* Registered for one transfer, or to stay if the memory can be watched. */
static struct rdma_mr *
mr_for_transfer(struct rdma_conn *rdma, uintptr_t addr, size_t len, bool source)
{
    struct rdma_mr *m = mr_new(addr, len, RDMA_MR_ONCE, source);

    if (!m)
        return NULL;
    if (len <= RDMA_CACHED_BYTES / 4 &&
        xport_guard_add(&m->guard, (void *)addr, len) == 0)
        m->kind = RDMA_MR_CACHED;
    mr_register(rdma, m);
    if (m->kind == RDMA_MR_CACHED && (!m->mr || !xport_guard_sound(&m->guard))) {
        xport_guard_remove(&m->guard);
        m->kind = RDMA_MR_ONCE;
    }
    if (!m->mr) {
        free(m);
        return NULL;
    }
    m->users = 1;
    return m;
}

struct rdma_mr *
rdma_mr_get(struct rdma_conn *rdma, const void *addr, size_t len, bool source)
{
    struct rdma_mr *m, *dead = NULL;

    pthread_mutex_lock(&rdma->mr_lock);
    table_drop_stale(rdma, &dead);
    m = table_find(rdma, (uintptr_t)addr, len, source);
    if (m && !m->mr) /* pinned, and wanted for the first time */
        m->mr = register_range(rdma, m->addr, m->len, access_of(rdma, source));
    if (m && m->mr) {
        m->users++;
        m->used = ++rdma->mr_clock;
    } else {
        m = NULL;
    }
    pthread_mutex_unlock(&rdma->mr_lock);
    free_dead(rdma, dead);
    if (m || len < RDMA_REGISTER_MIN)
        return m;
    m = mr_for_transfer(rdma, (uintptr_t)addr, len, source);
    if (!m || m->kind != RDMA_MR_CACHED)
        return m;
    dead = NULL;
    pthread_mutex_lock(&rdma->mr_lock);
    table_make_room(rdma, len, &dead);
    table_insert(rdma, m);
    pthread_mutex_unlock(&rdma->mr_lock);
    free_dead(rdma, dead);
    return m;
}

struct rdma_mr *
rdma_mr_window(struct rdma_conn *rdma, uint64_t addr, size_t len)
{
    struct rdma_mr *m;

    pthread_mutex_lock(&rdma->mr_lock);
    m = table_find(rdma, addr, len, true);
    if (m && m->kind == RDMA_MR_WINDOW)
        m->users++;
    else
        m = NULL;
    pthread_mutex_unlock(&rdma->mr_lock);
    return m;
}

void
rdma_mr_ref(struct rdma_conn *rdma, struct rdma_mr *m)
{
    pthread_mutex_lock(&rdma->mr_lock);
    m->users++;
    pthread_mutex_unlock(&rdma->mr_lock);
}

void
rdma_mr_put(struct rdma_conn *rdma, struct rdma_mr *m)
{
    bool last;

    if (!m)
        return;
    pthread_mutex_lock(&rdma->mr_lock);
    last = --m->users == 0 && (m->gone || m->kind == RDMA_MR_ONCE);
    pthread_mutex_unlock(&rdma->mr_lock);
    if (last)
        mr_free(rdma, m);
}

/* Nobody uses any of them.  Deregistered under the lock: who takes memory back must not
 * find that an adapter still knows it. */
void
rdma_mr_end(struct rdma_conn *rdma)
{
    struct rdma_mr **at = &rdma->mrs, *dead = NULL;

    pthread_mutex_lock(&rdma->mr_lock);
    while (*at) {
        struct rdma_mr *m = *at;

        if (m->kind != RDMA_MR_PINNED) {
            table_drop(rdma, at, &dead);
            continue;
        }
        if (m->mr)
            rdma->v->dereg_mr(TAKE_PTR(m->mr));
        at = &m->next;
    }
    rdma->mr_ended = true;
    free_dead(rdma, dead);
    pthread_mutex_unlock(&rdma->mr_lock);
}

void
rdma_mr_fini(struct rdma_conn *rdma)
{
    struct rdma_mr *all;

    pthread_mutex_lock(&rdma->mr_lock);
    all = TAKE_PTR(rdma->mrs);
    rdma->n_pinned = rdma->n_cached = 0;
    pthread_mutex_unlock(&rdma->mr_lock);
    free_dead(rdma, all);
}

/* --- what others hold ready ----------------------------------------------------------
 */

/* Whose adapter reaches the memory of those who use @conn; NULL: none does. */
static struct rdma_conn *
adapter_of(struct xport_conn *conn)
{
    if (conn->ops->below)
        conn = conn->ops->below(conn);
    return conn->ops == &xport_rdma_ops ? rdma_of(conn) : NULL;
}

/* Under mr_lock. */
static int
table_add(struct rdma_conn *rdma, struct rdma_mr *m)
{
    if (rdma->n_pinned >= RDMA_PINNED_MAX)
        return -ENOSPC;
    table_insert(rdma, m);
    return 0;
}

void
xport_pin(struct xport_conn *conn, const void *addr, size_t len)
{
    struct rdma_conn *rdma = adapter_of(conn);

    /* One for each direction: what the peer may read it must not be able to write. */
    for (int source = 0; rdma && source < 2; source++) {
        struct rdma_mr *m = mr_new((uintptr_t)addr, len, RDMA_MR_PINNED, source);

        pthread_mutex_lock(&rdma->mr_lock);
        if (m && table_add(rdma, m) < 0)
            free(m);
        pthread_mutex_unlock(&rdma->mr_lock);
    }
}

/* What nobody uses goes under the lock: what it was registered with may end as soon as
 * that is free. */
static void
table_remove(struct rdma_conn *rdma, uintptr_t addr, enum rdma_mr_kind kind)
{
    struct rdma_mr **at = &rdma->mrs, *dead = NULL;

    pthread_mutex_lock(&rdma->mr_lock);
    while (*at) {
        if ((*at)->addr == addr && (*at)->kind == kind)
            table_drop(rdma, at, &dead);
        else
            at = &(*at)->next;
    }
    free_dead(rdma, dead);
    pthread_mutex_unlock(&rdma->mr_lock);
}

void
xport_unpin(struct xport_conn *conn, const void *addr)
{
    struct rdma_conn *rdma = adapter_of(conn);

    if (rdma)
        table_remove(rdma, (uintptr_t)addr, RDMA_MR_PINNED);
}

/* Under mr_lock. */
static int
window_probe(struct rdma_conn *rdma, struct gp_err *err)
{
    struct ibv_mr *mr;

    if (rdma->mr_ended)
        return gp_err_set(err, -EOPNOTSUPP, "the connection is no RDMA any more");
    if (!rdma->v->reg_dmabuf_mr)
        return gp_err_set(err, -EOPNOTSUPP, "libibverbs knows no dma-buf");
    /* A kernel that has the call refuses the descriptor -1 with EBADF. */
    mr = rdma->v->reg_dmabuf_mr(rdma->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr)
        rdma->v->dereg_mr(mr);
    return mr || errno == EBADF
               ? 0
               : gp_err_set(err, -errno, "%s registers no dma-buf: %s",
                            rdma->id->verbs->device->name, strerror(errno));
}

int
xport_window_probe(struct xport_conn *conn, struct gp_err *err)
{
    struct rdma_conn *rdma = adapter_of(conn);
    int r;

    if (!rdma)
        return gp_err_set(err, -EOPNOTSUPP, "the connection is no RDMA");
    pthread_mutex_lock(&rdma->mr_lock);
    r = window_probe(rdma, err);
    pthread_mutex_unlock(&rdma->mr_lock);
    return r;
}

/* Under mr_lock. */
static int
window_add(struct rdma_conn *rdma, struct rdma_mr *m, int dmabuf_fd, struct gp_err *err)
{
    unsigned access = access_of(rdma, true) | access_of(rdma, false);
    int r;

    if (rdma->mr_ended)
        return gp_err_set(err, -EOPNOTSUPP, "the connection is no RDMA any more");
    m->mr = dmabuf_fd < 0 ? register_range(rdma, m->addr, m->len, access)
            : rdma->v->reg_dmabuf_mr
                ? rdma->v->reg_dmabuf_mr(rdma->pd, 0, m->len, m->addr, dmabuf_fd,
                                         (int)access)
                : NULL;
    r = m->mr ? table_add(rdma, m) : -errno;
    return r < 0 ? gp_err_set(err, r, "%s refuses a window of %zu bytes: %s",
                              rdma->id->verbs->device->name, m->len, strerror(-r))
                 : 0;
}

int
xport_window_add(struct xport_conn *conn, uint64_t addr, size_t len, int dmabuf_fd,
                 struct gp_err *err)
{
    struct rdma_conn *rdma = adapter_of(conn);
    struct rdma_mr *m;
    int r;

    if (!rdma)
        return gp_err_set(err, -EOPNOTSUPP, "the connection is no RDMA");
    m = mr_new(addr, len, RDMA_MR_WINDOW, true);
    if (!m)
        return gp_err_set(err, -ENOMEM, "out of memory");
    pthread_mutex_lock(&rdma->mr_lock);
    r = window_add(rdma, m, dmabuf_fd, err);
    if (r < 0)
        mr_free(rdma, m);
    pthread_mutex_unlock(&rdma->mr_lock);
    return r;
}

void
xport_window_remove(struct xport_conn *conn, uint64_t addr)
{
    struct rdma_conn *rdma = adapter_of(conn);

    if (rdma)
        table_remove(rdma, addr, RDMA_MR_WINDOW);
}
