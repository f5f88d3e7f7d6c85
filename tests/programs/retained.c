/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A further reference to memory that is mapped has the handle that was mapped, counts
 * as one more, and keeps the memory beyond the first.
 */
#include "parts.h"

static const CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc access_desc = {
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static CUcontext ctx;
static size_t bytes;
static CUdeviceptr at; /* room for two */

static CUresult
retain(CUmemGenericAllocationHandle *handle, CUdeviceptr addr)
{
    return cuMemRetainAllocationHandle(handle, (void *)(uintptr_t)addr);
}

static int
one_handle(void)
{
    CUmemGenericAllocationHandle first, second, third;
    unsigned value = 0;

    TRY(cuMemCreate(&first, bytes, &prop, 0));
    TRY(cuMemMap(at, bytes, 0, first, 0));
    TRY(cuMemMap(at + bytes, bytes, 0, first, 0));
    TRY(retain(&second, at));
    SAME(second == first, 1);
    TRY(retain(&third, at + 2 * bytes - 1));
    SAME(third == first, 1);
    TRY(cuMemSetAccess(at, 2 * bytes, &access_desc, 1));
    TRY(cuMemsetD32_v2(at, 7, bytes / 4));
    TRY(cuMemRelease(first));
    TRY(cuMemRelease(second));
    TRY(cuMemUnmap(at, 2 * bytes));
    TRY(cuMemMap(at, bytes, 0, third, 0)); /* which keeps it */
    TRY(cuMemSetAccess(at, bytes, &access_desc, 1));
    TRY(cuMemcpyDtoH_v2(&value, at, 4));
    SAME(value, 7);
    TRY(cuMemUnmap(at, bytes));
    TRY(cuMemRelease(third));
    CODE(settled(cuMemRelease(third)), CUDA_ERROR_INVALID_VALUE);
    CODE(retain(&third, at), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* The mappings keep it, and a reference can be had again. */
static int
without_a_reference(void)
{
    CUmemGenericAllocationHandle first, second, third;

    TRY(cuMemCreate(&first, bytes, &prop, 0));
    TRY(cuMemMap(at, bytes, 0, first, 0));
    TRY(cuMemMap(at + bytes, bytes, 0, first, 0));
    TRY(cuMemRelease(first));
    TRY(retain(&second, at));
    TRY(retain(&third, at + bytes));
    SAME(third == second, 1);
    TRY(cuMemUnmap(at, 2 * bytes));
    TRY(cuMemRelease(second));
    TRY(cuMemMap(at, bytes, 0, third, 0));
    TRY(cuMemUnmap(at, bytes));
    TRY(cuMemRelease(third));
    return 0;
}

static int
of_nothing(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr memory;

    CODE(retain(NULL, at), CUDA_ERROR_INVALID_VALUE);
    CODE(retain(&handle, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(retain(&handle, at), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAlloc_v2(&memory, 4096));
    CODE(retain(&handle, memory), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(memory));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"one handle", one_handle},
        {"memory without a reference", without_a_reference},
        {"a reference to nothing", of_nothing},
    };

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuMemGetAllocationGranularity(
            &bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        cuMemAddressReserve(&at, 2 * bytes, 0, 0, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
