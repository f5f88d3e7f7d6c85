/* SPDX-License-Identifier: Apache-2.0 */
/* The two copies of a range, and what moves between them; see stub_managed_range.h. */
#include "stub_managed_range.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_bits.h"
#include "gp_copy.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_managed_runs.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_registered.h"
#include "stub_unified.h"
#include "stub_written.h"
#include "wire_runs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE_PAGE 4096u
/* Where both sides may write at a time, no more than this is taken for one change. */
#define RANGE_GRAIN 64u
#define RANGE_CHUNK (UINT64_C(4) << 20)
/* Smaller ranges are compared sooner than the kernel is asked. */
#define RANGE_WATCHED_MIN (UINT64_C(1) << 20)
/* A program that writes most pages pays a fault for each; it is left alone for a while
 * once more than one page in this many was written. */
#define RANGE_DENSE 8u

static void *
range_pages(uint64_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* A page at the end may be a neighbour's too: it stays, so it may hold old bytes.  All
 * others are empty. */
static bool
range_open(struct managed_range *range)
{
    uint64_t dev = range->copy[range->home].dev;

    if (!stub_memory_open(dev, range->size))
        return false;
    range->host = (uint8_t *)(uintptr_t)dev;
    for (uint64_t at = 0; at < range->size;) {
        uint64_t page = RANGE_PAGE - (dev + at) % RANGE_PAGE;
        uint64_t n = gp_min(page, range->size - at);

        if (n < RANGE_PAGE)
            memset(range->host + at, 0, n);
        at += n == RANGE_PAGE ? (range->size - at) / RANGE_PAGE * RANGE_PAGE : n;
    }
    return true;
}

static struct managed_copy *
range_here(struct managed_range *range)
{
    return &range->copy[stub_link_here()->number];
}

/* ---- what the host has written ---------------------------------------------- */

static uint64_t
range_pages_of(const struct managed_range *range)
{
    uint64_t start = (uintptr_t)range->host;

    return (start + range->size - 1) / RANGE_PAGE - start / RANGE_PAGE + 1;
}

static bool
stale_new(const struct managed_range *range, struct managed_copy *copy, bool all)
{
    uint64_t words = (range_pages_of(range) + 63) / 64;

    copy->stale = malloc(words * sizeof(*copy->stale));
    if (copy->stale)
        memset(copy->stale, all ? 0xff : 0, words * sizeof(*copy->stale));
    return copy->stale != NULL;
}

static void
stale_set(const struct managed_range *range, uint64_t page, uint64_t n)
{
    for (uint32_t i = 0; i < STUB_LINKS_MAX; i++)
        for (uint64_t p = page; range->copy[i].stale && p < page + n; p++)
            range->copy[i].stale[p / 64] |= UINT64_C(1) << p % 64;
}

/* Pages at the ends are partly a neighbour's; they are always looked at.  All others
 * are new, and as empty as the shadow. */
static void
range_watch(struct managed_range *range)
{
    uint64_t start = GP_ALIGN_UP((uintptr_t)range->host, (uint64_t)RANGE_PAGE);
    uint64_t end = ((uintptr_t)range->host + range->size) & ~(uint64_t)(RANGE_PAGE - 1);
    uint64_t n;

    if (range->size < RANGE_WATCHED_MIN || !stale_new(range, range_here(range), false))
        return;
    range->watched = stub_written_watch((void *)(uintptr_t)start, end - start);
    while (range->watched && start < end && (n = stub_written_take(&start, end))) {
        range->watched = n != UINT64_MAX;
        start += n;
    }
}

/* Asks what has been written since the last time. */
static void
range_look(struct managed_range *range)
{
    const uint64_t first = (uintptr_t)range->host / RANGE_PAGE;
    const uint64_t pages = range_pages_of(range);
    uint64_t at = GP_ALIGN_UP((uintptr_t)range->host, (uint64_t)RANGE_PAGE);
    uint64_t end = ((uintptr_t)range->host + range->size) & ~(uint64_t)(RANGE_PAGE - 1);
    uint64_t n = 0, found = 0;

    if (range->dense) {
        range->dense--;
        stale_set(range, 0, pages);
        return;
    }
    stale_set(range, 0, 1);
    stale_set(range, pages - 1, 1);
    while (at < end && (n = stub_written_take(&at, end)) && n != UINT64_MAX) {
        stale_set(range, at / RANGE_PAGE - first, n / RANGE_PAGE);
        found += n / RANGE_PAGE;
        at += n;
    }
    if (n == UINT64_MAX) {
        range->watched = false;
        stale_set(range, 0, pages);
    }
    if (found > pages / RANGE_DENSE)
        range->dense = RANGE_DENSE;
}

/* The next bytes from *@at on that have to be compared, up to the page that has @limit;
 * *@at is their start and the result their end. */
static uint64_t
range_next_stale(struct managed_range *range, uint64_t *at, uint64_t limit)
{
    const uint64_t first = (uintptr_t)range->host / RANGE_PAGE;
    const uint64_t head = (uintptr_t)range->host % RANGE_PAGE;
    const uint64_t pages =
        ((uintptr_t)range->host + limit - 1) / RANGE_PAGE - first + 1;
    struct managed_copy *copy = range_here(range);
    uint64_t page, end;

    if (!copy->stale)
        return limit;
    page = gp_bits_next(
        copy->stale, ((uintptr_t)range->host + *at) / RANGE_PAGE - first, pages, true);
    end = gp_bits_next(copy->stale, page, pages, false);
    for (uint64_t p = page; p < end; p++)
        copy->stale[p / 64] &= ~(UINT64_C(1) << p % 64);
    *at = page * RANGE_PAGE > head ? page * RANGE_PAGE - head : 0;
    return gp_min(end * RANGE_PAGE - head, range->size);
}

struct managed_range *
managed_range_new(uint64_t dev, uint8_t *host, uint64_t size)
{
    struct managed_range *range = calloc(1, sizeof(*range));

    if (!range)
        return NULL;
    *range = (struct managed_range){
        .size = size,
        .host = host,
        .home = stub_link_here()->number,
        .eager = host != NULL,
    };
    *range_here(range) = (struct managed_copy){.dev = dev, .shadow = range_pages(size)};
    range->own = !host && range_here(range)->shadow && range_open(range);
    if (!range_here(range)->shadow || (!host && !range->own)) {
        managed_range_free(range);
        return NULL;
    }
    if (range->own)
        range_watch(range);
    return range;
}

struct managed_range *
managed_range_new_pages(uint64_t dev, uint8_t *host, uint64_t size)
{
    struct managed_range *range = calloc(1, sizeof(*range));

    if (range)
        *range = (struct managed_range){
            .size = size,
            .host = host,
            .home = stub_link_here()->number,
            .eager = true,
            .pages = dev,
        };
    return range;
}

void
managed_range_free(struct managed_range *range)
{
    if (range->own)
        stub_memory_close(range->copy[range->home].dev, range->size);
    for (uint32_t i = 0; i < STUB_LINKS_MAX; i++) {
        if (range->copy[i].shadow)
            munmap(range->copy[i].shadow, range->size);
        free(range->copy[i].stale);
    }
    free(range->name);
    free(range);
}

bool
managed_range_is_gone(const struct managed_range *range)
{
    const struct stub_ctx *ctx = stub_ctx_get((CUcontext)(uintptr_t)range->ctx);

    return !ctx || !atomic_load(&ctx->alive);
}

uint32_t
managed_range_count_gone(const struct managed_range *list)
{
    uint32_t n = 0;

    for (; list; list = list->next)
        n += managed_range_is_gone(list);
    return n;
}

CUresult
managed_range_join(struct managed_range *range, uint64_t dev, CUstream stream)
{
    struct managed_copy *copy = range_here(range);
    uint8_t *shadow = range_pages(range->size);
    CUresult r;

    if (!shadow)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = cuMemsetD8Async(dev, 0, range->size, stream);
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(stream);
    if (r != CUDA_SUCCESS) {
        munmap(shadow, range->size);
        return r;
    }
    *copy = (struct managed_copy){.dev = dev, .shadow = shadow};
    if (range->watched)
        stale_new(range, copy, true);
    return managed_runs_usable() ? managed_runs_agreed(dev, range->size) : CUDA_SUCCESS;
}

/* ---- up --------------------------------------------------------------------- */

/* The first byte at or behind @at of a grain that the host changed, or @end. */
static uint64_t
range_next_change(const struct managed_range *range, uint64_t at, uint64_t end,
                  uint64_t grain, bool changed)
{
    const uint8_t *shadow = range->copy[stub_link_here()->number].shadow;

    while (at < end) {
        uint64_t n = gp_min(grain - at % grain, end - at);

        if ((memcmp(range->host + at, shadow + at, n) != 0) == changed)
            return at;
        at += n;
    }
    return end;
}

static CUresult
range_send(struct managed_range *range, uint64_t at, uint64_t n, struct managed_up *up)
{
    const struct managed_copy *copy = range_here(range);
    CUresult r;

    /* From the shadow, which no thread of the program writes meanwhile. */
    gp_copy(copy->shadow + at, range->host + at, n);
    if (stub_memory_is_waiting())
        stub_unified_seek(copy->shadow + at, n);
    if (up->runs && n <= WIRE_RUN_BYTES_MAX)
        return managed_runs_bytes(copy->dev + at, copy->shadow + at, n);
    up->sent = true;
    r = stub_impl_cuMemcpyHtoDAsync_v2(copy->dev + at, copy->shadow + at, n, up->stream,
                                       false);
    if (r != CUDA_SUCCESS || !up->runs)
        return r;
    return up->quiet ? managed_runs_agreed(copy->dev + at, n)
                     : managed_runs_stale(copy->dev + at, n);
}

/* The bytes of [at, limit) that differ. */
static CUresult
range_send_changes(struct managed_range *range, uint64_t at, uint64_t limit,
                   struct managed_up *up)
{
    uint64_t grain = up->fine || range->eager ? RANGE_GRAIN : RANGE_PAGE;
    CUresult r = CUDA_SUCCESS;
    uint64_t end;

    while (r == CUDA_SUCCESS &&
           (at = range_next_change(range, at, limit, RANGE_PAGE, true)) < limit) {
        at = range_next_change(range, at, limit, grain, true);
        end = range_next_change(range, at, limit, grain, false);
        end = gp_min(end, at + RANGE_CHUNK);
        r = range_send(range, at, end - at, up);
        at = end;
    }
    return r;
}

CUresult
managed_range_send(struct managed_range *range, uint64_t from, uint64_t limit,
                   struct managed_up *up)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t at = from, end;

    if (stub_registered_is_gone(range->host, range->size))
        return CUDA_SUCCESS;
    if (range->watched)
        range_look(range);
    while (r == CUDA_SUCCESS && at < limit) {
        end = range->watched ? range_next_stale(range, &at, limit) : limit;
        r = range_send_changes(range, at, end, up);
        at = end;
    }
    return r;
}

/* ---- down ------------------------------------------------------------------- */

/* The card changed something in these @n bytes, of which it has @got. */
static void
range_merge(struct managed_range *range, uint64_t at, const uint8_t *got, uint64_t n)
{
    uint8_t *host = range->host + at, *shadow = range_here(range)->shadow + at;

    if (memcmp(host, shadow, n) == 0) {
        gp_copy(host, got, n);
    } else {
        for (uint64_t i = 0; i < n; i++)
            if (host[i] == shadow[i] && got[i] != shadow[i])
                host[i] = got[i];
    }
    gp_copy(shadow, got, n);
}

void
managed_range_take(struct managed_range *range, uint64_t at, const uint8_t *got,
                   uint64_t n)
{
    const uint8_t *shadow = range_here(range)->shadow;

    if (stub_registered_is_gone(range->host, range->size))
        return;
    for (uint64_t i = 0; i < n;) {
        uint64_t part = gp_min((uint64_t)RANGE_PAGE, n - i);

        if (memcmp(shadow + at + i, got + i, part) != 0)
            range_merge(range, at + i, got + i, part);
        i += part;
    }
}

CUresult
managed_range_fetch(struct managed_range *range, uint64_t at, uint64_t n,
                    CUstream stream)
{
    const uint64_t end = at + n, room = gp_min(n, RANGE_CHUNK);
    CLEANUP_FREE uint8_t *got = malloc(room);
    CUresult r = got ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    for (; r == CUDA_SUCCESS && at < end; at += n) {
        n = gp_min(room, end - at);
        r = stub_impl_cuMemcpyDtoHAsync_v2(got, range_here(range)->dev + at, n, stream,
                                           false);
        if (r == CUDA_SUCCESS)
            managed_range_take(range, at, got, n);
    }
    return r;
}
