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

struct managed_physmem {
    struct managed_physmem *next;
    uint64_t start, size;
    CUmemGenericAllocationHandle handle;
    uint32_t link;
    uint32_t users; /* ranges that lie in it, wholly or not */
};

static struct managed_physmem *allocations;

/* ---- one phys -------------------------------------------------------------- */

static CUmemAllocationProp
physmem_kind(void)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = stub_tls.ctx->dev},
    };
}

static CUresult
physmem_reserve(const struct managed_physmem *phys)
{
    CUdeviceptr at = 0;
    CUresult r = stub_vmm_reserve(&at, phys->size, 0, phys->start, 0);

    if (r != CUDA_SUCCESS || at == phys->start)
        return r;
    stub_impl_cuMemAddressFree(at, phys->size);
    gp_log_warn("stub", "server %u has no room at address %" PRIx64, phys->link,
                phys->start);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Every card of the server reaches it. */
static CUresult
physmem_show(const struct managed_physmem *phys)
{
    CUmemAccessDesc desc[STUB_DEVICES_MAX];
    size_t n = 0;

    for (uint32_t i = 0; i < stub_device_count; i++)
        if (stub_devices[i].link == stub_link_here())
            desc[n++] = (CUmemAccessDesc){
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)i},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    /* The generated call notes nothing: a copy may use the range, not all of this. */
    return stub_gen_cuMemSetAccess(phys->start, phys->size, desc, n);
}

static CUresult
physmem_fill(struct managed_physmem *phys)
{
    CUmemAllocationProp kind = physmem_kind();
    CUresult r = cuMemCreate(&phys->handle, phys->size, &kind, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = cuMemMap(phys->start, phys->size, 0, phys->handle, 0);
    if (r == CUDA_SUCCESS) {
        r = physmem_show(phys);
        if (r == CUDA_SUCCESS)
            return r;
        cuMemUnmap(phys->start, phys->size);
    }
    cuMemRelease(phys->handle);
    return r;
}

static CUresult
physmem_new(uint64_t start, uint64_t size)
{
    struct managed_physmem *phys = calloc(1, sizeof(*phys));
    CUresult r;

    if (!phys)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phys = (struct managed_physmem){
        .start = start, .size = size, .link = stub_link_here()->number};
    r = physmem_reserve(phys);
    if (r == CUDA_SUCCESS) {
        r = physmem_fill(phys);
        if (r != CUDA_SUCCESS)
            stub_impl_cuMemAddressFree(start, size);
    }
    if (r != CUDA_SUCCESS) {
        free(phys);
        return r;
    }
    phys->next = allocations;
    allocations = phys;
    return CUDA_SUCCESS;
}

void
managed_mirror_close(struct managed_physmem *list)
{
    struct managed_physmem *phys;
    bool alive;

    while ((phys = list)) {
        list = phys->next;
        if (stub_ctx_push_on(phys->link, 0, &alive) == 0) {
            if (cuMemUnmap(phys->start, phys->size) == CUDA_SUCCESS) {
                cuMemRelease(phys->handle);
                stub_impl_cuMemAddressFree(phys->start, phys->size);
            }
            stub_ctx_pop();
        }
        free(phys);
    }
}

/* ---- what ranges lie in ----------------------------------------------------- */

/* The phys that holds @at, or with @next the first one behind it. */
static struct managed_physmem *
mirror_find(uint32_t link, uint64_t at, bool next)
{
    struct managed_physmem *best = NULL;

    for (struct managed_physmem *p = allocations; p; p = p->next) {
        bool fits = next ? p->start > at : at - p->start < p->size;

        if (p->link == link && fits && (!best || p->start < best->start))
            best = p;
    }
    return best;
}

static void
mirror_use(uint32_t link, uint64_t start, uint64_t end)
{
    for (struct managed_physmem *p = allocations; p; p = p->next)
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
        const struct managed_physmem *p = mirror_find(link, at, false), *behind;

        if (!p) {
            behind = mirror_find(link, at, true);
            r = physmem_new(at, gp_min(behind ? behind->start : end, end) - at);
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
                     struct managed_physmem **list)
{
    struct managed_physmem **at = &allocations, *p;

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
