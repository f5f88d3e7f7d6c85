/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is this pointer?  cuPointerGetAttribute and its kin.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_pool.h"

#include <string.h>

enum {
    /* Attribute numbers of the interface end far below. */
    MAX_ATTRS = 64,
};

static bool
is_host_kind(const struct sg_alloc *alloc)
{
    return alloc->kind == SG_MEM_HOST || alloc->kind == SG_MEM_REGISTERED;
}

CUmemorytype
sg_mem_type(uint64_t addr)
{
    const struct sg_alloc *alloc = sg_mem_find(addr);

    return (alloc ? is_host_kind(alloc) : !sg_mem_is_arena(addr))
               ? CU_MEMORYTYPE_HOST
               : CU_MEMORYTYPE_DEVICE;
}

static CUresult
put(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
    return CUDA_SUCCESS;
}

#define PUT(type, value) put(data, &(type){value}, sizeof(type))

static CUresult
known_pointer(const struct sg_alloc *alloc, CUdeviceptr ptr, int attr, void *data)
{
    switch (attr) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return PUT(CUcontext,
                   (CUcontext)(uintptr_t)(alloc->ctx ? alloc->ctx->handle : 0));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return PUT(unsigned,
                   is_host_kind(alloc) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return PUT(CUdeviceptr, ptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host_kind(alloc) && alloc->kind != SG_MEM_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        return PUT(void *, (void *)(uintptr_t)ptr);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return PUT(unsigned, alloc->sync_memops || alloc->kind == SG_MEM_MANAGED);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return PUT(unsigned long long, alloc->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return PUT(unsigned, alloc->kind == SG_MEM_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return PUT(int, alloc->dev->ordinal);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return PUT(unsigned, alloc->kind == SG_MEM_DEVICE && !alloc->pool);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return PUT(CUdeviceptr, alloc->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return PUT(size_t, alloc->size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return PUT(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return PUT(unsigned long long, alloc->handle_types);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return PUT(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return PUT(unsigned,
                   alloc->kind == SG_MEM_MAPPED
                       ? alloc->access
                       : (alloc->read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return PUT(CUmemoryPool, (CUmemoryPool)(uintptr_t)sg_pool_handle(alloc->pool));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return PUT(size_t, alloc->size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return PUT(CUdeviceptr, alloc->base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return PUT(unsigned long long, alloc->id);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return PUT(unsigned, 0);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* cuPointerGetAttributes answers "nothing" for memory it does not know. */
static CUresult
unknown_pointer(int attr, void *data)
{
    switch (attr) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return PUT(void *, NULL);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return PUT(unsigned long long, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return PUT(int, CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return PUT(unsigned, 0);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuPointerGetAttribute, void *data, CUpointer_attribute attribute,
        CUdeviceptr ptr)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(ptr);
    if (!data || !alloc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(known_pointer(alloc, ptr, (int)attribute, data));
}

SG_CALL(cuPointerGetAttributes, unsigned int numAttributes,
        CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!attributes || !data || numAttributes > MAX_ATTRS)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    alloc = sg_mem_find(ptr);
    for (unsigned i = 0; i < numAttributes; i++) {
        int attr = (int)attributes[i];

        if (!data[i])
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        rc = unknown_pointer(attr, data[i]);
        if (rc != CUDA_SUCCESS)
            return sg_leave(rc);
        if (alloc)
            known_pointer(alloc, ptr, attr, data[i]);
    }
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuPointerSetAttribute, const void *value, CUpointer_attribute attribute,
        CUdeviceptr ptr)
{
    struct sg_alloc *alloc;
    unsigned on;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(ptr);
    if (!value || !alloc || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(&on, value, sizeof(on));
    alloc->sync_memops = on != 0;
    return sg_leave(CUDA_SUCCESS);
}
