/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and freeing allocations, and which context sees which.
 *
 * Every allocation starts on a granule of the executor's range table and is
 * followed by an unused granule, so that the check of one lane access is one
 * lookup and a small overrun is a fault, not a neighbour's data.
 */
#include "sg_mem.h"

#include "gp_fsize.h"
#include "sg_advice.h"
#include "sg_arena.h"
#include "sg_card.h"
#include "sg_check.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_notice.h"

#include "sg_exec.h"
#include "sg_memview.h"
#include "sg_shadow.h"
#include "sg_written.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cuMemAlloc promises 256; what cards do is twice that. */
#define CARD_STEP 512u

static struct sg_alloc **table; /* sorted by base */
static size_t n_allocs, cap_allocs;
static struct sg_va managed_va;

/* ------------------------------------------------------------------ the table */

/* Index of the first allocation above @addr. */
static size_t
table_upper(uint64_t addr)
{
    size_t lo = 0, hi = n_allocs;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (table[mid]->base <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int
table_insert(struct sg_alloc *alloc)
{
    size_t i = table_upper(alloc->base), cap;
    struct sg_alloc **p;

    if (n_allocs == cap_allocs) {
        cap = cap_allocs ? cap_allocs * 2 : 256;
        p = realloc(table, cap * sizeof(*p));
        if (!p)
            return -ENOMEM;
        table = p;
        cap_allocs = cap;
    }
    memmove(&table[i + 1], &table[i], (n_allocs - i) * sizeof(*table));
    table[i] = alloc;
    n_allocs++;
    return 0;
}

static void
table_remove(struct sg_alloc *alloc)
{
    size_t i = table_upper(alloc->base);

    if (i == 0 || table[i - 1] != alloc)
        return;
    memmove(&table[i - 1], &table[i], (n_allocs - i) * sizeof(*table));
    n_allocs--;
}

struct sg_alloc *
sg_mem_find(uint64_t addr)
{
    size_t i = table_upper(addr);

    if (i == 0 || addr - table[i - 1]->base >= table[i - 1]->size)
        return NULL;
    return table[i - 1];
}

struct sg_alloc *
sg_mem_find_ipc(const struct sg_ctx *ctx, uint32_t slot, uint64_t id)
{
    for (size_t i = 0; i < n_allocs; i++)
        if (table[i]->kind == SG_MEM_IPC && table[i]->ctx == ctx &&
            table[i]->ipc_slot == slot && table[i]->ipc_id == id)
            return table[i];
    return NULL;
}

bool
sg_mem_holds(uint64_t addr, uint64_t len)
{
    while (len) {
        struct sg_alloc *alloc = sg_mem_find(addr);
        uint64_t here;

        if (!alloc || (alloc->kind == SG_MEM_MAPPED && !alloc->access))
            return false;
        here = alloc->base + alloc->size - addr;
        if (len <= here)
            return true;
        addr += here;
        len -= here;
    }
    return true;
}

/* ----------------------------------------------------------------- visibility */

static bool
is_peer(const struct sg_ctx *ctx, const struct sg_ctx *owner)
{
    for (unsigned i = 0; i < ctx->n_peers; i++)
        if (ctx->peers[i] == owner)
            return true;
    return false;
}

static bool
is_visible(const struct sg_ctx *ctx, const struct sg_alloc *alloc)
{
    switch (alloc->kind) {
    case SG_MEM_HOST:
    case SG_MEM_REGISTERED:
    case SG_MEM_MANAGED:
        return true;
    case SG_MEM_MAPPED:
        return alloc->access && (alloc->accessed_by & (1u << ctx->dev->ordinal));
    case SG_MEM_DEVICE:
    case SG_MEM_IPC:
        break;
    }
    if (!alloc->ctx) /* pool memory belongs to the device */
        return ctx->dev == alloc->dev ||
               (alloc->accessed_by & (1u << ctx->dev->ordinal));
    return ctx == alloc->ctx || is_peer(ctx, alloc->ctx);
}

/* A card hands out memory in steps, and programs exist that read a little past the end
 * of what they asked for.  What lies there is nobody's and zero. */
static uint64_t
reachable_size(const struct sg_ctx *ctx, const struct sg_alloc *alloc)
{
    bool ours = alloc->kind != SG_MEM_HOST && alloc->kind != SG_MEM_REGISTERED;

    return ours && !ctx->dev->exact ? GP_ALIGN_UP(alloc->size, CARD_STEP) : alloc->size;
}

static CUresult
show(struct sg_ctx *ctx, const struct sg_alloc *alloc)
{
    bool read_only =
        alloc->read_only || (alloc->kind == SG_MEM_MAPPED &&
                             !(alloc->written_by & (1u << ctx->dev->ordinal)));
    int r;

    if (!ctx->view || !is_visible(ctx, alloc))
        return CUDA_SUCCESS;
    r = sg_memview_add(ctx->view, alloc->base, reachable_size(ctx, alloc),
                       read_only        ? SG_RANGE_READ_ONLY
                       : alloc->watched ? SG_RANGE_WATCHED
                                        : 0);
    return r == -EEXIST ? CUDA_SUCCESS : sg_result(r);
}

static CUresult
show_everywhere(const struct sg_alloc *alloc)
{
    CUresult rc = CUDA_SUCCESS;

    for (struct sg_ctx *c = sg_ctx_list; c && rc == CUDA_SUCCESS; c = c->next)
        rc = show(c, alloc);
    return rc;
}

/* References to all contexts that see memory, in an array to be freed; NULL: no memory
 * for it. */
static struct sg_ctx **
ctxs_with_view(size_t *ret_n)
{
    struct sg_ctx **ctxs;
    size_t n = 0;

    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next)
        n++;
    ctxs = calloc(n + 1, sizeof(*ctxs));
    if (!ctxs)
        return NULL;
    n = 0;
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next)
        if (c->view)
            ctxs[n++] = sg_ctx_ref(c);
    *ret_n = n;
    return ctxs;
}

/* Removal waits for running blocks, and those may want the lock (device heap,
 * printf), so it is done without. */
static void
hide_everywhere(uint64_t base)
{
    struct sg_ctx **ctxs;
    size_t n;

    ctxs = ctxs_with_view(&n);
    if (!ctxs)
        return; /* stays visible: its pages are still ours */
    sg_unlock();
    for (size_t i = 0; i < n; i++)
        sg_memview_remove(ctxs[i]->view, base);
    sg_lock();
    for (size_t i = 0; i < n; i++)
        sg_ctx_unref(ctxs[i]);
    free(ctxs);
}

/* @fn for every view, without the lock. */
static int
with_views(void (*fn)(struct sg_memview *view, uint64_t arg), uint64_t arg)
{
    struct sg_ctx **ctxs;
    size_t n;

    ctxs = ctxs_with_view(&n);
    if (!ctxs)
        return -ENOMEM;
    sg_unlock();
    for (size_t i = 0; i < n; i++)
        fn(ctxs[i]->view, arg);
    sg_lock();
    for (size_t i = 0; i < n; i++)
        sg_ctx_unref(ctxs[i]);
    free(ctxs);
    return 0;
}

int
sg_mem_show_watched(uint64_t base)
{
    return with_views(sg_memview_watch, base);
}

static void
flush_view(struct sg_memview *view, uint64_t unused)
{
    (void)unused;
    sg_memview_flush(view);
}

int
sg_mem_flush_views(void)
{
    return with_views(flush_view, 0);
}

CUresult
sg_mem_reshow(struct sg_alloc *alloc)
{
    uint64_t base = alloc->base;

    hide_everywhere(base); /* drops the lock */
    alloc = sg_mem_find(base);
    return alloc ? show_everywhere(alloc) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
sg_mem_attach_ctx(struct sg_ctx *ctx)
{
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < n_allocs && rc == CUDA_SUCCESS; i++)
        rc = show(ctx, table[i]);
    return rc;
}

CUresult
sg_mem_show_peer(struct sg_ctx *ctx, struct sg_ctx *peer)
{
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < n_allocs && rc == CUDA_SUCCESS; i++)
        if (table[i]->ctx == peer)
            rc = show(ctx, table[i]);
    return rc;
}

void
sg_mem_hide_peer(struct sg_ctx *ctx, struct sg_ctx *peer)
{
    uint64_t base = 0;

    sg_ctx_ref(ctx);
    for (size_t i = 0; (i = table_upper(base)) < n_allocs;) {
        struct sg_alloc *alloc = table[i];

        base = alloc->base; /* the table may change while the lock is dropped */
        if (alloc->ctx != peer || is_visible(ctx, alloc))
            continue;
        sg_unlock();
        sg_memview_remove(ctx->view, base);
        sg_lock();
    }
    sg_ctx_unref(ctx);
}

/* @ctx stops seeing what it may not see of @pool; drops the lock. */
static void
hide_pool_from(struct sg_ctx *ctx, const struct sg_pool *pool)
{
    uint64_t base = 0;

    for (size_t i = 0; (i = table_upper(base)) < n_allocs;) {
        struct sg_alloc *alloc = table[i];

        base = alloc->base; /* the table may change while the lock is dropped */
        if (alloc->pool != pool || is_visible(ctx, alloc))
            continue;
        sg_unlock();
        sg_memview_remove(ctx->view, base);
        sg_lock();
    }
}

CUresult
sg_mem_set_pool_access(const struct sg_pool *pool, unsigned accessed_by)
{
    CUresult rc = CUDA_SUCCESS;
    unsigned lost = 0;
    struct sg_ctx **ctxs;
    size_t n;

    for (size_t i = 0; i < n_allocs && rc == CUDA_SUCCESS; i++) {
        if (table[i]->pool != pool)
            continue;
        lost |= table[i]->accessed_by & ~accessed_by;
        table[i]->accessed_by = accessed_by;
        rc = show_everywhere(table[i]);
    }
    if (rc != CUDA_SUCCESS || !lost)
        return rc;
    ctxs = ctxs_with_view(&n);
    if (!ctxs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (lost & (1u << ctxs[i]->dev->ordinal))
            hide_pool_from(ctxs[i], pool);
        sg_ctx_unref(ctxs[i]);
    }
    free(ctxs);
    return CUDA_SUCCESS;
}

/* -------------------------------------------------------------- birth and death */

static CUresult
alloc_publish(struct sg_alloc *alloc, struct sg_alloc **ret_alloc)
{
    static uint64_t last_id;
    CUresult rc;

    alloc->id = ++last_id;
    if (table_insert(alloc) < 0) {
        sg_mem_free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rc = show_everywhere(alloc);
    if (rc != CUDA_SUCCESS) {
        sg_mem_free(alloc);
        return rc;
    }
    *ret_alloc = alloc;
    return CUDA_SUCCESS;
}

static struct sg_alloc *
alloc_new(enum sg_mem_kind kind, struct sg_ctx *ctx, struct sg_dev *dev, uint64_t size)
{
    struct sg_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc)
        return NULL;
    alloc->kind = kind;
    alloc->ctx = ctx;
    alloc->dev = dev;
    alloc->size = size;
    alloc->fd = -1;
    return alloc;
}

/* Granules for @size bytes and the guard behind them; 0 on overflow. */
static uint64_t
span_of(uint64_t size)
{
    uint64_t span;

    if (!gp_add_ok(size, (uint64_t)SG_GRANULE * 2 - 1, &span))
        return 0;
    return span & ~(uint64_t)(SG_GRANULE - 1);
}

/* Takes addresses for @alloc, with the guard granule behind. */
static bool
alloc_take_va(struct sg_alloc *alloc, struct sg_va *va)
{
    alloc->span = span_of(alloc->size);
    if (!alloc->span)
        return false;
    alloc->base = sg_va_take(va, alloc->span, SG_GRANULE);
    if (alloc->base && !sg_arena_open(alloc->base, alloc->size)) {
        sg_va_give(va, alloc->base, alloc->span);
        alloc->base = 0;
    }
    if (!alloc->base)
        alloc->span = 0;
    return alloc->base != 0;
}

/* Charged memory at addresses of @va. */
static CUresult
new_charged(struct sg_alloc *alloc, struct sg_va *va, struct sg_alloc **ret_alloc)
{
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_card_charge(alloc->dev->card, alloc->size) < 0) {
        free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_notice_took(alloc->dev, alloc->size);
    if (!alloc_take_va(alloc, va)) {
        sg_mem_free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return alloc_publish(alloc, ret_alloc);
}

CUresult
sg_mem_new_on(struct sg_dev *dev, struct sg_ctx *ctx, uint64_t size,
              struct sg_alloc **ret_alloc)
{
    return new_charged(alloc_new(SG_MEM_DEVICE, ctx, dev, size), &dev->va, ret_alloc);
}

CUresult
sg_mem_new(struct sg_ctx *ctx, uint64_t size, struct sg_alloc **ret_alloc)
{
    return sg_mem_new_on(ctx->dev, ctx, size, ret_alloc);
}

CUresult
sg_mem_new_managed(struct sg_ctx *ctx, uint64_t size, unsigned flags,
                   struct sg_alloc **ret_alloc)
{
    struct sg_alloc *alloc = alloc_new(SG_MEM_MANAGED, ctx, ctx->dev, size);

    if (alloc)
        alloc->flags = flags;
    return new_charged(alloc, &managed_va, ret_alloc);
}

uint64_t
sg_mem_reserve(struct sg_dev *dev, uint64_t size)
{
    uint64_t span = span_of(size);

    return span ? sg_va_take(&dev->va, span, SG_GRANULE) : 0;
}

void
sg_mem_unreserve(struct sg_dev *dev, uint64_t base, uint64_t size)
{
    sg_va_give(&dev->va, base, span_of(size));
}

CUresult
sg_mem_new_reserved(struct sg_dev *dev, uint64_t base, uint64_t size,
                    struct sg_graph_mem *graph, void (*gone)(struct sg_graph_mem *),
                    struct sg_alloc **ret_alloc)
{
    struct sg_alloc *alloc = alloc_new(SG_MEM_DEVICE, NULL, dev, size);

    if (!alloc || sg_card_charge(dev->card, size) < 0) {
        free(alloc);
        gone(graph);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_notice_took(dev, size);
    alloc->base = base;
    alloc->span = span_of(size);
    alloc->graph = graph;
    alloc->graph_gone = gone;
    if (!sg_arena_open(base, size)) {
        sg_mem_free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return alloc_publish(alloc, ret_alloc);
}

CUresult
sg_mem_new_host(struct sg_ctx *ctx, uint64_t size, unsigned flags,
                struct sg_alloc **ret_alloc)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), raw, base, len;
    struct sg_alloc *alloc;
    char *p;

    if (!gp_add_ok(size, page - 1 + SG_GRANULE, &raw))
        return CUDA_ERROR_OUT_OF_MEMORY;
    raw &= ~(page - 1);
    p = mmap(NULL, raw, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* Start on a granule and give the surplus back. */
    base = GP_ALIGN_UP((uint64_t)(uintptr_t)p, (uint64_t)SG_GRANULE);
    len = (size + page - 1) & ~(page - 1);
    if (base > (uint64_t)(uintptr_t)p)
        munmap(p, base - (uint64_t)(uintptr_t)p);
    if ((uint64_t)(uintptr_t)p + raw > base + len)
        munmap((void *)(uintptr_t)(base + len),
               (uint64_t)(uintptr_t)p + raw - base - len);
    alloc = alloc_new(SG_MEM_HOST, ctx, ctx->dev, size);
    if (!alloc) {
        munmap((void *)(uintptr_t)base, len);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    alloc->base = base;
    alloc->span = len;
    alloc->flags = flags;
    return alloc_publish(alloc, ret_alloc);
}

CUresult
sg_mem_new_registered(struct sg_ctx *ctx, void *p, uint64_t size, unsigned flags,
                      struct sg_alloc **ret_alloc)
{
    uint64_t base = (uint64_t)(uintptr_t)p, end;
    struct sg_alloc *alloc;
    size_t i;

    if (!gp_add_ok(base, size, &end))
        return CUDA_ERROR_INVALID_VALUE;
    i = table_upper(base);
    if ((i > 0 && base - table[i - 1]->base < table[i - 1]->size) ||
        (i < n_allocs && table[i]->base < end))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    alloc = alloc_new(SG_MEM_REGISTERED, ctx, ctx->dev, size);
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    alloc->base = base;
    alloc->flags = flags;
    alloc->read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
    return alloc_publish(alloc, ret_alloc);
}

CUresult
sg_mem_new_foreign(struct sg_ctx *ctx, struct sg_dev *dev, uint64_t base, uint64_t size,
                   enum sg_mem_kind kind, struct sg_alloc **ret_alloc)
{
    struct sg_alloc *alloc = alloc_new(kind, ctx, dev, size);

    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    alloc->base = base;
    if (kind == SG_MEM_IPC)
        alloc->span = span_of(size); /* of the card's arena */
    return alloc_publish(alloc, ret_alloc);
}

int
sg_mem_move_to(struct sg_alloc *alloc, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t len = (alloc->size + page - 1) & ~(page - 1);
    void *base = (void *)(uintptr_t)alloc->base, *copy;
    /* All of it now: a full file system is an error here, not a signal later. */
    int r = gp_fsize_reserve(fd, len);

    if (r < 0)
        return r;
    copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (copy == MAP_FAILED)
        return -ENOMEM;
    memcpy(copy, base, alloc->size);
    if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, base) == MAP_FAILED) {
        munmap(copy, len);
        return -ENOMEM;
    }
    alloc->fd = fd;
    sg_shadow_define(alloc->base, alloc->size); /* others write to it unseen */
    alloc->watched = false;
    return 0;
}

/* The pages of [base, base + span) are private and zero again. */
static void
pages_drop(struct sg_alloc *alloc)
{
    sg_arena_drop(alloc->base, alloc->span, alloc->fd >= 0);
    if (alloc->fd >= 0) /* it was shared with other processes */
        close(alloc->fd);
}

static void
give_back(struct sg_alloc *alloc)
{
    switch (alloc->kind) {
    case SG_MEM_DEVICE:
    case SG_MEM_MANAGED:
        sg_card_uncharge(alloc->dev->card, alloc->size);
        sg_notice_gave(alloc->dev, alloc->size);
        if (alloc->span && !alloc->graph)
            sg_va_give(alloc->kind == SG_MEM_MANAGED ? &managed_va : &alloc->dev->va,
                       alloc->base, alloc->span);
        break;
    case SG_MEM_HOST:
        munmap((void *)(uintptr_t)alloc->base, alloc->span);
        break;
    case SG_MEM_IPC:
        sg_va_give(&alloc->dev->va, alloc->base, alloc->span);
        break;
    case SG_MEM_REGISTERED:
    case SG_MEM_MAPPED:
        break; /* whoever made them knows the pages */
    }
}

/* No process can open it any more (sg_ipc.c). */
static void
unexport(const struct sg_alloc *alloc)
{
    char path[SG_CARD_PATH_MAX];

    sg_card_ipc_path(alloc->dev->card, sg_card_slot(alloc->dev->card), alloc->id, path);
    unlink(path);
}

void
sg_mem_free(struct sg_alloc *alloc)
{
    if (!alloc)
        return;
    table_remove(alloc);
    if (alloc->fd >= 0 && alloc->kind == SG_MEM_DEVICE)
        unexport(alloc);
    if (alloc->base) {
        hide_everywhere(alloc->base);
        if (alloc->span && alloc->kind != SG_MEM_HOST) {
            sg_unlock();
            pages_drop(alloc);
            sg_lock();
        }
        sg_shadow_define(alloc->base, alloc->size); /* zeros for the next owner */
        if (alloc->watched)
            sg_written_unwatch(alloc->base, alloc->span ? alloc->span : alloc->size);
    }
    give_back(alloc);
    if (alloc->graph)
        alloc->graph_gone(alloc->graph);
    sg_advice_free(alloc->advice);
    free(alloc);
}

void
sg_mem_undefine(const struct sg_alloc *alloc)
{
    if (sg_check_flags() & SG_CHECK_INIT)
        sg_shadow_undefine(alloc->base, alloc->size);
}

/* ----------------------------------------------------------------------- leaks */

static void (*leak_sink)(struct sg_ctx *ctx, const char *text, size_t len);

void
sg_mem_on_leak(void (*fn)(struct sg_ctx *ctx, const char *text, size_t len))
{
    leak_sink = fn;
}

/* The call that made it; NULL: the program cannot free it by itself. */
static const char *
maker_of(const struct sg_alloc *alloc)
{
    if (alloc->internal || alloc->graph || alloc->given_back)
        return NULL;
    switch (alloc->kind) {
    case SG_MEM_DEVICE:
        return alloc->pool ? "cuMemAllocAsync" : "cuMemAlloc";
    case SG_MEM_HOST:
        return "cuMemHostAlloc";
    case SG_MEM_MANAGED:
        return "cuMemAllocManaged";
    case SG_MEM_MAPPED:
        return "cuMemMap";
    case SG_MEM_REGISTERED:
    case SG_MEM_IPC:
        break;
    }
    return NULL;
}

/* Drops the lock. */
static void
report_leak(const struct sg_alloc *alloc, const char *when)
{
    const char *maker = maker_of(alloc);
    struct sg_ctx *ctx = alloc->ctx;
    char what[256], text[SG_CHECK_TEXT];
    size_t len;

    if (!maker)
        return;
    snprintf(what, sizeof(what),
             "%" PRIu64 " bytes at 0x%" PRIx64 " of %s, allocation %" PRIu64
             ", were not freed when %s",
             alloc->size, alloc->base, maker, alloc->id, when);
    len = sg_check_leak(what, text);
    if (len && leak_sink) {
        sg_unlock();
        leak_sink(ctx, text, len);
        sg_lock();
    }
}

void
sg_mem_report_leaks(void)
{
    uint64_t base = 0;

    sg_lock();
    for (size_t i = 0; (i = table_upper(base)) < n_allocs;) {
        base = table[i]->base; /* the table may change while the lock is dropped */
        report_leak(table[i], "the process ended");
    }
    sg_unlock();
}

static void
report_leaks_of(const struct sg_ctx *ctx)
{
    uint64_t base = 0;

    for (size_t i = 0; (i = table_upper(base)) < n_allocs;) {
        base = table[i]->base;
        if (table[i]->ctx == ctx)
            report_leak(table[i], "their context was destroyed");
    }
}

/* Nothing of the context runs any more. */
void
sg_mem_detach_ctx(struct sg_ctx *ctx)
{
    if (sg_check_flags() & SG_CHECK_LEAKS)
        report_leaks_of(ctx);
    for (size_t i = 0; i < n_allocs;) {
        struct sg_alloc *alloc = table[i];

        if (alloc->ctx != ctx) {
            i++;
            continue;
        }
        sg_mem_free(alloc);
        i = 0; /* the table may have changed meanwhile */
    }
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next)
        for (unsigned i = 0; i < c->n_peers; i++)
            if (c->peers[i] == ctx)
                c->peers[i--] = c->peers[--c->n_peers];
}

static bool
va_covers(const struct sg_va *va, uint64_t addr)
{
    return addr - va->base < va->size;
}

bool
sg_mem_is_arena(uint64_t addr)
{
    for (unsigned i = 0; i < sg_dev_count(); i++)
        if (va_covers(&sg_dev_get((CUdevice)i)->va, addr))
            return true;
    return va_covers(&managed_va, addr);
}

int
sg_mem_init(void)
{
    uint64_t base = SG_MANAGED_BASE, size = SG_MANAGED_SIZE;
    int r;

    for (unsigned i = 0; i < sg_dev_count(); i++) {
        struct sg_dev *dev = sg_dev_get((CUdevice)i);

        r = sg_arena_map(dev->va.base, dev->va.size);
        if (r < 0)
            return r;
    }
    sg_dev_slot(&base, &size);
    r = sg_arena_map(base, size);
    return r < 0 ? r : sg_va_init(&managed_va, base, size);
}
