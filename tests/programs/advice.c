/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory of which parts were advised and prefetched: what the parts say, and
 * what ranges say that are of several parts.
 */
#include "parts.h"

#include <stdbool.h>

#define PAGE 4096
#define PAGES 64

static CUdevice dev;
static CUdeviceptr mem; /* of each part anew */

static const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 7};

static int
allocated(void)
{
    TRY(cuMemAllocManaged(&mem, PAGES * PAGE, CU_MEM_ATTACH_GLOBAL));
    return 0;
}

static CUdeviceptr
page(int n)
{
    return mem + (size_t)n * PAGE;
}

/* What pages from @first on say of an attribute whose value is one number; -99 for an
 * error. */
static int
said(CUmem_range_attribute attr, int first, int n)
{
    int value = 77;

    return cuMemRangeGetAttribute(&value, sizeof(value), attr, page(first),
                                  (size_t)n * PAGE) == CUDA_SUCCESS
               ? value
               : -99;
}

static int
advise(CUmem_advise advice, int first, int n, CUmemLocation where)
{
    return (int)cuMemAdvise_v2(page(first), (size_t)n * PAGE, advice, where);
}

static CUmemLocation
card(void)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};
}

static int
parts_that_are_read_mostly(void)
{
    const CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;

    if (allocated())
        return 1;
    TRY(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, 8, 16, host));
    SAME(said(mostly, 8, 16), 1);
    SAME(said(mostly, 10, 2), 1);
    SAME(said(mostly, 0, PAGES), 0);
    SAME(said(mostly, 0, 8), 0);
    SAME(said(mostly, 7, 2), 0);
    SAME(said(mostly, 23, 2), 0);
    TRY(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, 24, 8, host)); /* beside it */
    SAME(said(mostly, 8, 24), 1);
    TRY(advise(CU_MEM_ADVISE_UNSET_READ_MOSTLY, 12, 1, host));
    SAME(said(mostly, 8, 24), 0);
    SAME(said(mostly, 8, 4), 1);
    SAME(said(mostly, 13, 19), 1);
    TRY(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, 0, PAGES, host));
    SAME(said(mostly, 0, PAGES), 1);
    TRY(cuMemFree_v2(mem));
    return 0;
}

/* Both ends are moved to the next page outside the range. */
static int
ranges_that_begin_and_end_within_pages(void)
{
    const CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    int value = 77;

    if (allocated())
        return 1;
    TRY(cuMemAdvise_v2(page(4) + 4000, 200, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    SAME(said(mostly, 4, 2), 1);
    SAME(said(mostly, 3, 2), 0);
    SAME(said(mostly, 5, 2), 0);
    TRY(cuMemRangeGetAttribute(&value, sizeof(value), mostly, page(5) + 4000, 96));
    SAME(value, 1);
    TRY(cuMemRangeGetAttribute(&value, sizeof(value), mostly, page(5) + 4000, 97));
    SAME(value, 0);
    TRY(cuMemFree_v2(mem));
    TRY(cuMemAllocManaged(&mem, PAGE + 100, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAdvise_v2(page(1), 100, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    SAME(said(mostly, 0, 1), 0);
    TRY(cuMemRangeGetAttribute(&value, sizeof(value), mostly, page(1), 50));
    SAME(value, 1);
    CODE(cuMemAdvise_v2(page(1), 101, CU_MEM_ADVISE_SET_READ_MOSTLY, host),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(mem));
    return 0;
}

static int
parts_that_prefer_a_place(void)
{
    const CUmem_range_attribute place = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                type = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
                                id = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID;
    CUmemLocation other_host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 3};

    if (allocated())
        return 1;
    TRY(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0, 16, card()));
    TRY(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 16, 16, host));
    SAME(said(place, 0, 16), dev);
    SAME(said(type, 0, 16), CU_MEM_LOCATION_TYPE_DEVICE);
    SAME(said(id, 3, 5), dev);
    SAME(said(place, 16, 16), CU_DEVICE_CPU);
    SAME(said(type, 16, 16), CU_MEM_LOCATION_TYPE_HOST);
    SAME(said(place, 15, 2), CU_DEVICE_INVALID);
    SAME(said(type, 0, 32), CU_MEM_LOCATION_TYPE_INVALID);
    SAME(said(place, 31, 2), CU_DEVICE_INVALID);
    SAME(said(type, 40, 2), CU_MEM_LOCATION_TYPE_INVALID);
    TRY(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 32, 8, other_host));
    SAME(said(place, 16, 24), CU_DEVICE_CPU); /* the host has no number */
    TRY(advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4, 4, host));
    SAME(said(place, 0, 16), CU_DEVICE_INVALID);
    SAME(said(place, 0, 4), dev);
    SAME(said(place, 8, 8), dev);
    TRY(cuMemFree_v2(mem));
    return 0;
}

static int
parts_that_were_prefetched(void)
{
    const CUmem_range_attribute place = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                type =
                                    CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
                                id = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID;

    if (allocated())
        return 1;
    SAME(said(place, 0, PAGES), CU_DEVICE_INVALID);
    TRY(cuMemPrefetchAsync(page(0), 32 * PAGE, dev, NULL));
    SAME(said(place, 0, 32), dev);
    SAME(said(place, 0, 33), CU_DEVICE_INVALID);
    SAME(said(type, 0, 33), CU_MEM_LOCATION_TYPE_INVALID);
    SAME(said(type, 5, 1), CU_MEM_LOCATION_TYPE_DEVICE);
    SAME(said(id, 5, 1), dev);
    TRY(cuMemPrefetchAsync_v2(page(32), 32 * PAGE, host, 0, NULL));
    SAME(said(place, 32, 32), CU_DEVICE_CPU);
    SAME(said(type, 32, 32), CU_MEM_LOCATION_TYPE_HOST);
    SAME(said(place, 0, PAGES), CU_DEVICE_INVALID);
    TRY(cuMemPrefetchAsync(page(32), 32 * PAGE, dev, NULL));
    SAME(said(place, 0, PAGES), dev);
    TRY(cuCtxSynchronize());
    TRY(cuMemFree_v2(mem));
    return 0;
}

static int
parts_prefetched_in_a_batch(void)
{
    const CUmem_range_attribute place = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    CUmemLocation where[] = {card(), host};
    size_t sizes[] = {8 * PAGE, 8 * PAGE, 8 * PAGE}, from[] = {0, 2};
    CUdeviceptr parts[3];
    CUstream stream;

    if (allocated())
        return 1;
    for (int i = 0; i < 3; i++)
        parts[i] = page(8 * i);
    TRY(cuStreamCreate(&stream, 0));
    TRY(cuMemPrefetchBatchAsync(parts, sizes, 3, where, from, 2, 0, stream));
    SAME(said(place, 0, 16), dev);
    SAME(said(place, 16, 8), CU_DEVICE_CPU);
    SAME(said(place, 8, 16), CU_DEVICE_INVALID);
    SAME(said(place, 24, 1), CU_DEVICE_INVALID);
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuMemFree_v2(mem));
    return 0;
}

/* Who of the host and the card is named, in whatever order: bits 1 and 2. */
static int
named(int first, int n)
{
    int who[4], bits = 0;

    if (cuMemRangeGetAttribute(who, sizeof(who), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                               page(first), (size_t)n * PAGE) != CUDA_SUCCESS)
        return -99;
    for (int i = 0; i < 4; i++)
        bits |= who[i] == CU_DEVICE_CPU ? 1 : who[i] == dev ? 2 : 0;
    return who[3] == CU_DEVICE_INVALID ? bits : -98;
}

static int
parts_that_somebody_accesses(void)
{
    CUmemLocation node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                     CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
    int who[2], mostly = 77;
    void *data[] = {who, &mostly};
    size_t sizes[] = {sizeof(who), sizeof(mostly)};

    if (allocated())
        return 1;
    SAME(named(0, PAGES), 0);
    TRY(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 0, 32, card()));
    TRY(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 16, 32, host));
    SAME(named(0, 32), 2);
    SAME(named(16, 16), 3);
    SAME(named(16, 32), 1);
    SAME(named(0, PAGES), 0);
    TRY(advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, 20, 2, card()));
    SAME(named(16, 16), 1);
    SAME(named(16, 4), 3);
    TRY(cuMemRangeGetAttributes(data, sizes, asked, 2, page(0), 16 * PAGE));
    SAME(who[0], dev);
    SAME(who[1], CU_DEVICE_INVALID);
    SAME(mostly, 0);
    CODE(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 0, 1, node), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(mem));
    return 0;
}

/* Every other page differs from its neighbours, and then none does. */
static int
parts_of_a_page_each(void)
{
    const CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;

    if (allocated())
        return 1;
    for (int i = 0; i < PAGES; i += 2)
        TRY(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, i, 1, host));
    for (int i = 0; i < PAGES; i++)
        SAME(said(mostly, i, 1), i % 2 == 0);
    for (int i = PAGES - 1; i > 0; i -= 2)
        TRY(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, i, 1, host));
    SAME(said(mostly, 0, PAGES), 1);
    TRY(cuMemFree_v2(mem));
    return 0;
}

/* Ranges at random, against a list of the pages. */
static int
ranges_at_random(void)
{
    const CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                place = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    int is_mostly[PAGES] = {0}, prefers[PAGES];
    unsigned seed = 12345;

    if (allocated())
        return 1;
    for (int i = 0; i < PAGES; i++)
        prefers[i] = CU_DEVICE_INVALID;
    for (int turn = 0; turn < 400; turn++) {
        int first, n, all = 1, where;
        bool set;

        seed = seed * 1664525 + 1013904223;
        first = (int)(seed >> 8) % PAGES;
        n = 1 + (int)(seed >> 16) % (PAGES - first);
        set = seed >> 30 & 1;
        if (seed >> 31) {
            TRY(advise(set ? CU_MEM_ADVISE_SET_READ_MOSTLY
                           : CU_MEM_ADVISE_UNSET_READ_MOSTLY,
                       first, n, host));
            for (int i = first; i < first + n; i++)
                is_mostly[i] = set;
        } else {
            TRY(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, first, n,
                       set ? card() : host));
            for (int i = first; i < first + n; i++)
                prefers[i] = set ? dev : CU_DEVICE_CPU;
        }
        first = (int)(seed >> 4) % PAGES;
        n = 1 + (int)(seed >> 12) % 4;
        if (n > PAGES - first)
            n = PAGES - first;
        where = prefers[first];
        for (int i = first; i < first + n; i++) {
            all &= is_mostly[i];
            if (prefers[i] != where)
                where = CU_DEVICE_INVALID;
        }
        SAME(said(mostly, first, n), all);
        SAME(said(place, first, n), where);
    }
    TRY(cuMemFree_v2(mem));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"read mostly", parts_that_are_read_mostly},
        {"within pages", ranges_that_begin_and_end_within_pages},
        {"preferred", parts_that_prefer_a_place},
        {"prefetched", parts_that_were_prefetched},
        {"prefetched in a batch", parts_prefetched_in_a_batch},
        {"accessed by", parts_that_somebody_accesses},
        {"pages", parts_of_a_page_each},
        {"at random", ranges_at_random},
    };
    CUcontext ctx;

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
