/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_window.h"

#include "drv.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_segment.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
/* Refusals in a row after which it is not tried any more. */
#define REFUSALS_MAX 16

struct wrk_window {
    uint64_t addr, len; /* 0 bytes: unused */
    uint64_t alloc;     /* whose it is */
    unsigned users;
    bool lost; /* of a link that was replaced */
    uint64_t used;
};

struct known {
    uint64_t addr, size;
    uint32_t ctx_index;
};

struct wrk_windows {
    struct wrk *w;
    bool may_dmabuf, may_peermem;

    pthread_mutex_t lock;
    pthread_cond_t idle; /* a window has no users any more */
    _Atomic(enum wrk_gdr_mode) gdr_mode;
    unsigned refusals;
    struct wrk_window window[WRK_WINDOWS_MAX];
    uint64_t clock;
    struct known *known; /* in no order */
    size_t n_known, room;
};

/* ---- the ladder; under the lock ---- */

static int
open_dmabuf(struct wrk_windows *ws, uint64_t addr, uint64_t len, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    CUresult r = WRK_CALL(ws->w, cuMemGetHandleForAddressRange, &fd, addr, len,
                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

    if (r != CUDA_SUCCESS)
        return gp_err_set(err, -EOPNOTSUPP, "the driver gives no dma-buf (%d)", (int)r);
    return xport_window_add(ws->w->priv->conn, addr, len, fd, err);
}

static int
open_peermem(struct wrk_windows *ws, uint64_t addr, uint64_t len, struct gp_err *err)
{
    return xport_window_add(ws->w->priv->conn, addr, len, -1, err);
}

/* Whether the processor reads that address as well: a card's does not let it. */
static bool
is_ordinary_memory(uint64_t addr)
{
    int fd[2];
    bool yes;

    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    yes = write(fd[1], (const void *)(uintptr_t)addr, 1) == 1;
    close(fd[0]);
    close(fd[1]);
    return yes;
}

static void
gdr_mode_set(struct wrk_windows *ws, enum wrk_gdr_mode gdr_mode)
{
    struct wrk_priv *p = ws->w->priv;

    ws->gdr_mode = gdr_mode;
    atomic_store(&p->usage->gdr_mode, (uint32_t)gdr_mode);
    gp_log_info("worker", "RDMA and the cards' memory: %s",
                wrk_gdr_mode_name(gdr_mode));
}

/* The first window: which gdr_mode holds. */
static int
gdr_mode_find(struct wrk_windows *ws, uint64_t addr, uint64_t len)
{
    struct gp_err err = {0};
    int r = -EOPNOTSUPP;

    if (ws->may_dmabuf) {
        r = xport_window_probe(ws->w->priv->conn, &err);
        if (r == 0)
            r = open_dmabuf(ws, addr, len, &err);
        if (r == 0)
            gdr_mode_set(ws, WRK_GDR_DMABUF);
        else
            gp_log_info("worker", "not dmabuf: %s", gp_err_msg(&err, r));
    }
    if (r < 0 && ws->may_peermem) {
        r = open_peermem(ws, addr, len, &err);
        if (r == 0)
            gdr_mode_set(ws,
                         is_ordinary_memory(addr) ? WRK_GDR_MAPPED : WRK_GDR_PEERMEM);
        else
            gp_log_info("worker", "not peermem: %s", gp_err_msg(&err, r));
    }
    if (r < 0)
        gdr_mode_set(ws, WRK_GDR_STAGED);
    return r;
}

static int
open_window(struct wrk_windows *ws, uint64_t addr, uint64_t len)
{
    switch (atomic_load(&ws->gdr_mode)) {
    case WRK_GDR_NONE:
        return gdr_mode_find(ws, addr, len);
    case WRK_GDR_DMABUF:
        return open_dmabuf(ws, addr, len, NULL);
    case WRK_GDR_PEERMEM:
    case WRK_GDR_MAPPED:
        return open_peermem(ws, addr, len, NULL);
    default:
        return -EOPNOTSUPP;
    }
}

/* ---- windows; under the lock ---- */

static void
window_close(struct wrk_windows *ws, struct wrk_window *window)
{
    xport_window_remove(ws->w->priv->conn, window->addr);
    *window = (struct wrk_window){0};
}

static struct wrk_window *
window_find(struct wrk_windows *ws, uint64_t addr)
{
    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++)
        if (!ws->window[i].lost && addr - ws->window[i].addr < ws->window[i].len)
            return &ws->window[i];
    return NULL;
}

/* One that is free, or the one that was not used for longest; NULL: all are in use. */
static struct wrk_window *
window_spare(struct wrk_windows *ws, bool must_close)
{
    struct wrk_window *oldest = NULL;

    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++) {
        struct wrk_window *window = &ws->window[i];

        if (!window->len && !must_close)
            return window;
        if (window->len && !window->users && (!oldest || window->used < oldest->used))
            oldest = window;
    }
    if (oldest)
        window_close(ws, oldest);
    return oldest;
}

/* The window for an address within @known; whole pages of it. */
static struct wrk_window *
window_open(struct wrk_windows *ws, const struct known *known, uint64_t addr)
{
    uint64_t start = addr & ~(WRK_WINDOW_SIZE - 1), end = start + WRK_WINDOW_SIZE;
    struct wrk_window *window = window_spare(ws, false);
    int r;

    start = gp_max(start, GP_ALIGN_UP(known->addr, (uint64_t)PAGE));
    end = gp_min(end, (known->addr + known->size) & ~(uint64_t)(PAGE - 1));
    if (!window || addr < start || addr >= end)
        return NULL;
    r = open_window(ws, start, end - start);
    /* Perhaps there is no room for one more: for one instead of another. */
    if (r < 0 && ws->gdr_mode != WRK_GDR_STAGED && window_spare(ws, true))
        r = open_window(ws, start, end - start);
    if (r < 0) {
        if (ws->gdr_mode != WRK_GDR_STAGED && ++ws->refusals == REFUSALS_MAX)
            gdr_mode_set(ws, WRK_GDR_STAGED);
        return NULL;
    }
    ws->refusals = 0;
    *window =
        (struct wrk_window){.addr = start, .len = end - start, .alloc = known->addr};
    return window;
}

static const struct known *
known_find(const struct wrk_windows *ws, uint64_t addr)
{
    for (size_t i = 0; i < ws->n_known; i++)
        if (addr - ws->known[i].addr < ws->known[i].size)
            return &ws->known[i];
    return NULL;
}

uint64_t
wrk_window_take(struct wrk_windows *ws, uint64_t addr, uint64_t len,
                struct wrk_window **ret)
{
    struct wrk_window *window;
    const struct known *known;
    uint64_t n = 0;

    if (!ws || len < WRK_WINDOW_MIN ||
        xport_link_kind(ws->w->priv->conn) != XPORT_KIND_RDMA)
        return 0;
    pthread_mutex_lock(&ws->lock);
    window = window_find(ws, addr);
    if (!window && ws->gdr_mode != WRK_GDR_STAGED) {
        known = known_find(ws, addr);
        window = known ? window_open(ws, known, addr) : NULL;
    }
    if (window)
        n = gp_min(len, window->addr + window->len - addr);
    if (n >= WRK_WINDOW_MIN) {
        window->users++;
        window->used = ++ws->clock;
        *ret = window;
    } else {
        n = 0;
    }
    pthread_mutex_unlock(&ws->lock);
    return n;
}

void
wrk_window_put(struct wrk_windows *ws, struct wrk_window *window)
{
    pthread_mutex_lock(&ws->lock);
    if (--window->users == 0) {
        if (window->lost)
            window_close(ws, window);
        pthread_cond_broadcast(&ws->idle);
    }
    pthread_mutex_unlock(&ws->lock);
}

void
wrk_windows_link_replaced(struct wrk *w)
{
    struct wrk_windows *ws = w->priv->windows;

    if (!ws)
        return;
    pthread_mutex_lock(&ws->lock);
    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++) {
        ws->window[i].lost = ws->window[i].len && ws->window[i].users;
        if (ws->window[i].len && !ws->window[i].users)
            window_close(ws, &ws->window[i]);
    }
    pthread_mutex_unlock(&ws->lock);
}

/* ---- which memory ---- */

void
wrk_windows_know(struct wrk_windows *ws, uint64_t addr, uint64_t size,
                 uint32_t ctx_index)
{
    size_t room;
    void *more;

    if (!ws || size < WRK_WINDOW_MIN)
        return;
    pthread_mutex_lock(&ws->lock);
    if (ws->n_known == ws->room && ws->room < WRK_WINDOW_ALLOCS_MAX) {
        room = ws->room ? 2 * ws->room : 64;
        more = realloc(ws->known, room * sizeof(*ws->known));
        if (more) {
            ws->known = more;
            ws->room = room;
        }
    }
    if (ws->n_known < ws->room)
        ws->known[ws->n_known++] = (struct known){addr, size, ctx_index};
    pthread_mutex_unlock(&ws->lock);
}

bool
wrk_windows_busy(struct wrk_windows *ws, uint64_t addr)
{
    bool busy = false;

    if (!ws)
        return false;
    pthread_mutex_lock(&ws->lock);
    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++)
        busy |= ws->window[i].len && ws->window[i].alloc == addr && ws->window[i].users;
    pthread_mutex_unlock(&ws->lock);
    return busy;
}

static void
windows_close(struct wrk_windows *ws, uint64_t addr)
{
    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++) {
        struct wrk_window *window = &ws->window[i];

        while (window->len && window->alloc == addr && window->users)
            pthread_cond_wait(&ws->idle, &ws->lock);
        if (window->len && window->alloc == addr)
            window_close(ws, window);
    }
}

void
wrk_windows_forget(struct wrk_windows *ws, uint64_t addr)
{
    if (!ws)
        return;
    pthread_mutex_lock(&ws->lock);
    windows_close(ws, addr);
    for (size_t i = 0; i < ws->n_known; i++)
        if (ws->known[i].addr == addr)
            ws->known[i--] = ws->known[--ws->n_known];
    pthread_mutex_unlock(&ws->lock);
}

void
wrk_windows_forget_ctx(struct wrk_windows *ws, uint32_t ctx_index)
{
    if (!ws)
        return;
    pthread_mutex_lock(&ws->lock);
    for (size_t i = 0; i < ws->n_known; i++) {
        if (ws->known[i].ctx_index != ctx_index)
            continue;
        windows_close(ws, ws->known[i].addr);
        ws->known[i--] = ws->known[--ws->n_known];
    }
    pthread_mutex_unlock(&ws->lock);
}

/* ---- what the card sees ---- */

static int32_t
card_attribute(const struct wrk_windows *ws, uint32_t slice, CUdevice_attribute a)
{
    return ws->w->priv->cards.card[slice].attributes[a - 1];
}

/* Writes of others are in order with the card's own reads without a flush. */
static bool
in_order(const struct wrk_windows *ws, uint32_t slice)
{
    return ws->gdr_mode == WRK_GDR_MAPPED ||
           card_attribute(ws, slice,
                          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
               CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
}

bool
wrk_windows_writable(struct wrk_windows *ws, uint32_t slice)
{
    if (!ws)
        return false;
    /* Before the first window nobody knows; that a flush works is enough then. */
    return ws->gdr_mode == WRK_GDR_NONE || in_order(ws, slice) ||
           (card_attribute(ws, slice,
                           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
}

CUresult
wrk_windows_flush(struct wrk_windows *ws, uint32_t slice)
{
    if (in_order(ws, slice))
        return CUDA_SUCCESS;
    return WRK_CALL(ws->w, cuFlushGPUDirectRDMAWrites,
                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

/* ---- life ---- */

int
wrk_windows_new(struct wrk *w, const char *allowed, struct wrk_windows **ret)
{
    bool all = strcmp(allowed, "auto") == 0;
    struct wrk_windows *ws;

    if (!xport_can(w->priv->conn, XPORT_CAN_WINDOWS))
        return -EOPNOTSUPP;
    ws = calloc(1, sizeof(*ws));
    if (!ws)
        return -ENOMEM;
    ws->w = w;
    ws->may_dmabuf = all || strcmp(allowed, "dmabuf") == 0;
    ws->may_peermem = all || strcmp(allowed, "peermem") == 0;
    pthread_mutex_init(&ws->lock, NULL);
    pthread_cond_init(&ws->idle, NULL);
    if (!ws->may_dmabuf && !ws->may_peermem)
        gdr_mode_set(ws, WRK_GDR_STAGED);
    *ret = ws;
    return 0;
}

void
wrk_windows_free(struct wrk_windows *ws)
{
    if (!ws)
        return;
    for (size_t i = 0; i < WRK_WINDOWS_MAX; i++)
        if (ws->window[i].len)
            window_close(ws, &ws->window[i]);
    pthread_cond_destroy(&ws->idle);
    pthread_mutex_destroy(&ws->lock);
    free(ws->known);
    free(ws);
}
