/* SPDX-License-Identifier: Apache-2.0 */
/* What a pointer into the card's memory is. */
#include "gp_base.h"
#include "null.h"

#include <string.h>

/* Of the attributes that are numbers of 64 bits. */
static CUresult
wide(uint64_t *ret, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CUdeviceptr base = ptr;
    size_t size = 0;
    CUcontext ctx = NULL;
    CUresult r = CUDA_SUCCESS;

    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        r = cuDevicePrimaryCtxRetain(&ctx, gp_max(null_current_device(), 0));
        *ret = (uintptr_t)ctx;
        return r;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *ret = ptr;
        return r;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        r = cuMemGetAddressRange_v2(&base, &size, ptr);
        *ret = base;
        return r;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        r = cuMemGetAddressRange_v2(&base, &size, ptr);
        *ret = size;
        return r;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* Of those of 32 bits. */
static CUresult
narrow(uint32_t *ret, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *ret = null_host_holds(ptr, 1) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *ret = (uint32_t)gp_max(null_current_device(), 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *ret = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *ret = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *ret = !null_vmm_holds(ptr, 1); /* what is mapped has no such name */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult
cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    uint32_t small = 0;
    uint64_t large = 0;
    CUresult r;

    if (!null_mem_holds(ptr, 1))
        return CUDA_ERROR_INVALID_VALUE;
    r = narrow(&small, attribute, ptr);
    if (r == CUDA_SUCCESS) {
        memcpy(data, &small, sizeof(small));
        return r;
    }
    r = wide(&large, attribute, ptr);
    if (r == CUDA_SUCCESS)
        memcpy(data, &large, sizeof(large));
    return r;
}
