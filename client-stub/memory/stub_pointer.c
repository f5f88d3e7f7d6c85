/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of pointers: cuPointerGetAttribute and its plural,
 * cuMemRangeGetAttributes.
 *
 * Allocations of this process and ordinary host memory are answered here; only an
 * address that is neither (a module's global, memory of a pool) is queried from the
 * server.
 */
#include "attach.pb-c.h"
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_gen.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "wire_api.h"

#include <string.h>
#include <sys/mman.h>

/* Mapped in this process, and not merely reserved: the application's own memory. */
static bool
pointer_is_plain_host(uint64_t ptr)
{
    unsigned char resident;

    return ptr < UINT64_C(1) << 47 && !stub_memory_is_device(ptr) &&
           mincore((void *)(uintptr_t)(ptr & ~UINT64_C(4095)), 4096, &resident) == 0;
}

static void
pointer_put_u64(void *data, uint64_t value)
{
    memcpy(data, &value, sizeof(value));
}

static void
pointer_put_u32(void *data, uint32_t value)
{
    memcpy(data, &value, sizeof(value));
}

/* Attributes of a range in the registry that every kind has. */
static CUresult
pointer_known(void *data, CUpointer_attribute attribute, uint64_t ptr,
              const struct stub_memory *m)
{
    bool host = m->kind == STUB_MEMORY_HOST || m->kind == STUB_MEMORY_REGISTERED;
    bool ordered = m->kind == STUB_MEMORY_DEVICE && m->flags & STUB_MEMORY_ORDERED;
    uint64_t dev;

    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        pointer_put_u64(data, ordered ? 0 : m->ctx);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        pointer_put_u32(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        dev = host && m->reach == STUB_REACH_NONE ? stub_managed_device(ptr) : ptr;
        if (!dev)
            return CUDA_ERROR_INVALID_VALUE;
        pointer_put_u64(data, dev);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && m->kind != STUB_MEMORY_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        pointer_put_u64(data, ptr);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        pointer_put_u64(data, m->id);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        pointer_put_u32(data, m->kind == STUB_MEMORY_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        if (ordered && stub_device_count > 1)
            return CUDA_ERROR_NOT_FOUND; /* the server knows the pool */
        pointer_put_u32(data, (uint32_t)m->dev);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        pointer_put_u64(data, m->range.start);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        pointer_put_u64(data, m->range.size);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        pointer_put_u32(data, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        if (!host)
            return CUDA_ERROR_NOT_FOUND;
        pointer_put_u32(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        if (!host) /* the server has the host's at another address, or not at all */
            return CUDA_ERROR_NOT_FOUND;
        pointer_put_u32(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        if (!host)
            return CUDA_ERROR_NOT_FOUND;
        pointer_put_u64(
            data, attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE        ? m->range.size
                  : attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ? m->range.start
                                                                        : m->id);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        if (!host)
            return CUDA_ERROR_NOT_FOUND;
        pointer_put_u64(data, 0);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_FOUND; /* not known here: ask the server */
    }
}

/* The server numbers devices differently. */
static void
pointer_put_reply(void *data, CUpointer_attribute attribute, uint32_t size,
                  uint64_t value)
{
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        value = (uint32_t)stub_device_from_wire((int32_t)value);
    stub_gen_store(data, size, value);
}

static CUresult
pointer_query(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    uint32_t size = stub_size_CUpointer_attribute(attribute);
    struct wire_cuPointerGetAttribute_rep_view rep = {0};
    struct wire_cuPointerGetAttribute_req *req;
    struct stub_call c;
    CUresult r;

    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuPointerGetAttribute, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->attribute = (int32_t)attribute;
    req->ptr = ptr;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS) {
        if (wire_cuPointerGetAttribute_rep_open(&rep, c.reply, c.reply_size, 0))
            pointer_put_reply(data, attribute, size, rep.f->data);
        else
            r = stub_call_bad(WIRE_CALL_cuPointerGetAttribute);
    }
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                CUdeviceptr ptr)
{
    struct stub_memory m;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !ptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (stub_memory_find(ptr, &m)) {
        r = pointer_known(data, attribute, ptr, &m);
        if (r != CUDA_ERROR_NOT_FOUND)
            return r;
        if (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED)
            return CUDA_ERROR_INVALID_VALUE;
    } else if (stub_memory_is_rest(ptr) || pointer_is_plain_host(ptr)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return pointer_query(data, attribute, ptr);
}

/* The server's block may be longer than what the program has of it. */
CUresult
stub_impl_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct stub_memory m;
    CUresult r = stub_gen_cuMemGetAddressRange_v2(pbase, psize, dptr);

    if (r != CUDA_SUCCESS)
        return r;
    if (stub_memory_is_rest(dptr))
        return CUDA_ERROR_NOT_FOUND;
    if (psize && stub_memory_find(dptr, &m) && m.pool)
        *psize = m.range.size;
    return r;
}

/* What the plural form says about memory that CUDA does not know: success and zeros,
 * and no device. */
static void
pointer_put_unknown(void *data, CUpointer_attribute attribute, uint32_t size)
{
    uint64_t value = attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                         ? (uint32_t)CU_DEVICE_INVALID
                         : 0;

    stub_gen_store(data, size, value);
}

CUresult
stub_impl_cuPointerGetAttributes(unsigned int numAttributes,
                                 CUpointer_attribute *attributes, void **data,
                                 CUdeviceptr ptr)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (numAttributes && (!attributes || !data))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < numAttributes; i++) {
        uint32_t size = stub_size_CUpointer_attribute(attributes[i]);

        if (!data[i] || !size) /* no room, or no attribute */
            return CUDA_ERROR_INVALID_VALUE;
        r = stub_impl_cuPointerGetAttribute(data[i], attributes[i], ptr);
        if (r == CUDA_ERROR_INVALID_VALUE)
            pointer_put_unknown(data[i], attributes[i], size);
        else if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
                                  CUmem_range_attribute *attributes,
                                  size_t numAttributes, CUdeviceptr devPtr,
                                  size_t count)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && (!data || !dataSizes || !attributes || !numAttributes))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; r == CUDA_SUCCESS && i < numAttributes; i++)
        r = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    return r;
}
