/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_mirror.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_memory.h"

#include <inttypes.h>
#include <stdlib.h>

/* What servers map in, unless they ask for more; of both kinds of cards there are. */
#define MIRROR_GRANULE (UINT64_C(2) << 20)

struct managed_piece {
    struct managed_piece *next;
    uint64_t start, size;
    CUmemGenericAllocationHandle handle;
    uint32_t link;
    uint32_t users; /* ranges that lie in it, wholly or not */
};

static struct managed_piece *pieces;

/* ---- one piece -------------------------------------------------------------- */

static CUmemAllocationProp
piece_kind(void)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = stub_tls.ctx->dev},
    };
}

static CUresult
piece_reserve(const struct managed_piece *piece)
{
    CUdeviceptr at = 0;
    CUresult r = stub_vmm_reserve(&at, piece->size, 0, piece->start, 0);

    if (r != CUDA_SUCCESS || at == piece->start)
        return r;
    stub_impl_cuMemAddressFree(at, piece->size);
    gp_log_warn("stub", "server %u has no room at address %" PRIx64, piece->link,
                piece->start);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Every card of the server reaches it. */
static CUresult
piece_show(const struct managed_piece *piece)
{
    CUmemAccessDesc desc[STUB_DEVICES_MAX];
    size_t n = 0;

    for (uint32_t i = 0; i < stub_device_count; i++)
        if (stub_devices[i].link == stub_link_here())
            desc[n++] = (CUmemAccessDesc){
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)i},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemSetAccess(piece->start, piece->size, desc, n);
}

static CUresult
piece_fill(struct managed_piece *piece)
{
    CUmemAllocationProp kind = piece_kind();
    CUresult r = cuMemCreate(&piece->handle, piece->size, &kind, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = cuMemMap(piece->start, piece->size, 0, piece->handle, 0);
    if (r == CUDA_SUCCESS) {
        r = piece_show(piece);
        if (r == CUDA_SUCCESS)
            return r;
        cuMemUnmap(piece->start, piece->size);
    }
    cuMemRelease(piece->handle);
    return r;
}

static CUresult
piece_new(uint64_t start, uint64_t size)
{
    struct managed_piece *piece = calloc(1, sizeof(*piece));
    CUresult r;

    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *piece = (struct managed_piece){
        .start = start, .size = size, .link = stub_link_here()->number};
    r = piece_reserve(piece);
    if (r == CUDA_SUCCESS) {
        r = piece_fill(piece);
        if (r != CUDA_SUCCESS)
            stub_impl_cuMemAddressFree(start, size);
    }
    if (r != CUDA_SUCCESS) {
        free(piece);
        return r;
    }
    piece->next = pieces;
    pieces = piece;
    return CUDA_SUCCESS;
}

void
managed_mirror_close(struct managed_piece *list)
{
    struct managed_piece *piece;

    while ((piece = list)) {
        list = piece->next;
        if (stub_ctx_push(stub_ctx_on(piece->link, 0)) == 0) {
            if (cuMemUnmap(piece->start, piece->size) == CUDA_SUCCESS) {
                cuMemRelease(piece->handle);
                stub_impl_cuMemAddressFree(piece->start, piece->size);
            }
            stub_ctx_pop();
        }
        free(piece);
    }
}

/* ---- what ranges lie in ----------------------------------------------------- */

/* The piece that holds @at, or with @next the first one behind it. */
static struct managed_piece *
mirror_find(uint32_t link, uint64_t at, bool next)
{
    struct managed_piece *best = NULL;

    for (struct managed_piece *p = pieces; p; p = p->next) {
        bool fits = next ? p->start > at : at - p->start < p->size;

        if (p->link == link && fits && (!best || p->start < best->start))
            best = p;
    }
    return best;
}

static void
mirror_use(uint32_t link, uint64_t start, uint64_t end)
{
    for (struct managed_piece *p = pieces; p; p = p->next)
        if (p->link == link && p->start < end && p->start + p->size > start)
            p->users++;
}

/* Allocations that were made before another one failed stay without users, and are
 * used by the next range at that address. */
CUresult
managed_mirror_open(uint64_t dev, uint64_t size)
{
    uint64_t start = dev & ~(MIRROR_GRANULE - 1);
    uint64_t end = GP_ALIGN_UP(dev + size, MIRROR_GRANULE);
    uint32_t link = stub_link_here()->number;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = start; at < end && r == CUDA_SUCCESS;) {
        const struct managed_piece *p = mirror_find(link, at, false), *behind;

        if (!p) {
            behind = mirror_find(link, at, true);
            r = piece_new(at, gp_min(behind ? behind->start : end, end) - at);
        } else {
            at = p->start + p->size;
        }
    }
    if (r == CUDA_SUCCESS)
        mirror_use(link, start, end);
    return r;
}

void
managed_mirror_leave(uint32_t link, uint64_t dev, uint64_t size,
                     struct managed_piece **list)
{
    struct managed_piece **at = &pieces, *p;

    while ((p = *at)) {
        bool ours =
            p->link == link && p->start < dev + size && p->start + p->size > dev;

        if (ours && p->users)
            p->users--;
        if (!ours || p->users) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = *list;
        *list = p;
    }
}
