/* SPDX-License-Identifier: Apache-2.0 */
/* The two copies of a range, and what moves between them; see stub_managed_range.h. */
#include "stub_managed_range.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_unified.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE_PAGE 4096u
/* Where both sides may write at a time, no more than this is taken for one change. */
#define RANGE_GRAIN 64u
#define RANGE_CHUNK (UINT64_C(4) << 20)

static void *
range_pages(uint64_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* A page at the end may be a neighbour's too: it stays, so it may hold old bytes. */
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
    for (uint32_t i = 0; i < STUB_LINKS_MAX; i++)
        if (range->copy[i].shadow)
            munmap(range->copy[i].shadow, range->size);
    free(range->name);
    free(range);
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
        r = stub_impl_cuStreamSynchronize(stream, false);
    if (r != CUDA_SUCCESS) {
        munmap(shadow, range->size);
        return r;
    }
    *copy = (struct managed_copy){.dev = dev, .shadow = shadow};
    return CUDA_SUCCESS;
}

/* ---- up --------------------------------------------------------------------- */

/* The first byte at or behind @at of a grain that the host changed, or the end. */
static uint64_t
range_next_change(const struct managed_range *range, uint64_t at, uint64_t grain,
                  bool changed)
{
    const uint8_t *shadow = range->copy[stub_link_here()->number].shadow;

    while (at < range->size) {
        uint64_t n = gp_min(grain - at % grain, range->size - at);

        if ((memcmp(range->host + at, shadow + at, n) != 0) == changed)
            break;
        at += n;
    }
    return at;
}

static CUresult
range_send(struct managed_range *range, uint64_t at, uint64_t n, CUstream stream)
{
    const struct managed_copy *copy = range_here(range);

    /* From the shadow, which no thread of the program writes meanwhile. */
    memcpy(copy->shadow + at, range->host + at, n);
    if (stub_memory_is_waiting())
        stub_unified_seek(copy->shadow + at, n);
    return stub_impl_cuMemcpyHtoDAsync_v2(copy->dev + at, copy->shadow + at, n, stream,
                                          false);
}

CUresult
managed_range_send(struct managed_range *range, bool fine, CUstream stream, bool *sent)
{
    uint64_t grain = fine || range->eager ? RANGE_GRAIN : RANGE_PAGE;
    CUresult r = CUDA_SUCCESS;
    uint64_t at = 0, end;

    while (r == CUDA_SUCCESS &&
           (at = range_next_change(range, at, RANGE_PAGE, true)) < range->size) {
        at = range_next_change(range, at, grain, true);
        end = range_next_change(range, at, grain, false);
        end = gp_min(end, at + RANGE_CHUNK);
        r = range_send(range, at, end - at, stream);
        *sent = true;
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
        memcpy(host, got, n);
    } else {
        for (uint64_t i = 0; i < n; i++)
            if (host[i] == shadow[i] && got[i] != shadow[i])
                host[i] = got[i];
    }
    memcpy(shadow, got, n);
}

static void
range_take(struct managed_range *range, uint64_t at, const uint8_t *got, uint64_t n)
{
    const uint8_t *shadow = range_here(range)->shadow;

    for (uint64_t i = 0; i < n;) {
        uint64_t part = gp_min((uint64_t)RANGE_PAGE, n - i);

        if (memcmp(shadow + at + i, got + i, part) != 0)
            range_merge(range, at + i, got + i, part);
        i += part;
    }
}

CUresult
managed_range_receive(struct managed_range *range, CUstream stream)
{
    uint64_t room = gp_min(range->size, RANGE_CHUNK);
    CLEANUP_FREE uint8_t *got = malloc(room);
    CUresult r = got ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    for (uint64_t at = 0, n; r == CUDA_SUCCESS && at < range->size; at += n) {
        n = gp_min(room, range->size - at);
        r = stub_impl_cuMemcpyDtoHAsync_v2(got, range_here(range)->dev + at, n, stream,
                                           false);
        if (r == CUDA_SUCCESS)
            range_take(range, at, got, n);
    }
    return r;
}
