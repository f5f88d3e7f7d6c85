/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: one copy of every page, which host and all cards read and
 * write at any time.  Advice and prefetching move nothing; what was advised is
 * remembered, because it can be asked back.
 */
#include "sg_managed.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_stream.h"

#include <string.h>

SG_CALL(cuMemAllocManaged, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dptr)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *dptr = 0;
    if (!bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_capture_check_unsafe();
    if (rc == CUDA_SUCCESS)
        rc = sg_mem_new_managed(ctx, bytesize, flags, &alloc);
    if (rc == CUDA_SUCCESS)
        *dptr = alloc->base;
    return sg_leave(rc);
}

/* Every page of the range belongs to managed allocations. */
static CUresult
find_range(CUdeviceptr ptr, size_t count, struct sg_alloc **ret_alloc)
{
    struct sg_alloc *alloc = sg_mem_find(ptr);

    if (!count || !alloc || alloc->kind != SG_MEM_MANAGED ||
        count > alloc->base + alloc->size - ptr)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_alloc = alloc;
    return CUDA_SUCCESS;
}

static CUresult
check_location(const CUmemLocation *loc)
{
    switch ((int)loc->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sg_dev_get(loc->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
advise(struct sg_alloc *alloc, CUmem_advise advice, const CUmemLocation *loc)
{
    bool on_device = loc->type == CU_MEM_LOCATION_TYPE_DEVICE;

    switch ((int)advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        alloc->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        alloc->preferred.type = CU_MEM_LOCATION_TYPE_INVALID;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        if (check_location(loc) == CUDA_SUCCESS)
            alloc->preferred = *loc;
        return check_location(loc);
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        if (on_device && sg_dev_get(loc->id))
            alloc->accessed_by |= 1u << loc->id;
        return check_location(loc);
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        if (on_device && sg_dev_get(loc->id))
            alloc->accessed_by &= ~(1u << loc->id);
        return check_location(loc);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuMemAdvise_v2, CUdeviceptr devPtr, size_t count, CUmem_advise advice,
        CUmemLocation location)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_ctx_process_error();
    if (rc == CUDA_SUCCESS)
        rc = find_range(devPtr, count, &alloc);
    return sg_leave(rc == CUDA_SUCCESS ? advise(alloc, advice, &location) : rc);
}

static CUmemLocation
location_of(CUdevice dev)
{
    if (dev == CU_DEVICE_CPU)
        return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
}

SG_CALL(cuMemAdvise, CUdeviceptr devPtr, size_t count, CUmem_advise advice,
        CUdevice device)
{
    return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

CUresult
sg_managed_check(CUdeviceptr ptr, size_t count, const CUmemLocation *loc)
{
    struct sg_alloc *alloc;
    CUresult rc = loc ? check_location(loc) : CUDA_SUCCESS;

    return rc == CUDA_SUCCESS ? find_range(ptr, count, &alloc) : rc;
}

void
sg_managed_prefetched(CUdeviceptr ptr, const CUmemLocation *loc)
{
    sg_mem_find(ptr)->last_prefetch = *loc;
}

static CUresult
prefetch(CUdeviceptr ptr, size_t count, const CUmemLocation *loc, unsigned flags,
         CUstream hstream)
{
    struct sg_stream *stream;
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_none(stream);
    if (rc == CUDA_SUCCESS)
        rc = flags ? CUDA_ERROR_INVALID_VALUE : check_location(loc);
    if (rc == CUDA_SUCCESS)
        rc = find_range(ptr, count, &alloc);
    if (rc == CUDA_SUCCESS)
        alloc->last_prefetch = *loc;
    return sg_leave(rc);
}

SG_CALL(cuMemPrefetchAsync_v2, CUdeviceptr devPtr, size_t count, CUmemLocation location,
        unsigned int flags, CUstream hStream)
{
    return prefetch(devPtr, count, &location, flags, hStream);
}

SG_CALL(cuMemPrefetchAsync, CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
        CUstream hStream)
{
    CUmemLocation loc = location_of(dstDevice);

    return prefetch(devPtr, count, &loc, 0, hStream);
}

static int
device_or_invalid(const CUmemLocation *loc)
{
    if (loc->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return loc->id;
    return loc->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID
                                                     : CU_DEVICE_CPU;
}

static CUresult
range_attr(const struct sg_alloc *alloc, int attr, int *data, size_t size)
{
    size_t n = size / sizeof(int), k = 0;

    if (attr == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        if (!n || size % sizeof(int))
            return CUDA_ERROR_INVALID_VALUE;
        for (unsigned d = 0; d < sg_dev_count() && k < n; d++)
            if (alloc->accessed_by & (1u << d))
                data[k++] = (int)d;
        while (k < n)
            data[k++] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    }
    if (size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *data = alloc->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *data = device_or_invalid(&alloc->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *data = device_or_invalid(&alloc->last_prefetch);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *data = (int)alloc->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *data = alloc->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *data = (int)alloc->last_prefetch.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *data = alloc->last_prefetch.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuMemRangeGetAttribute, void *data, size_t dataSize,
        CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = data ? find_range(devPtr, count, &alloc) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = range_attr(alloc, (int)attribute, data, dataSize);
    return sg_leave(rc);
}

SG_CALL(cuMemRangeGetAttributes, void **data, size_t *dataSizes,
        CUmem_range_attribute *attributes, size_t numAttributes, CUdeviceptr devPtr,
        size_t count)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!data || !dataSizes || !attributes)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = find_range(devPtr, count, &alloc);
    for (size_t i = 0; i < numAttributes && rc == CUDA_SUCCESS; i++)
        rc = data[i] ? range_attr(alloc, (int)attributes[i], data[i], dataSizes[i])
                     : CUDA_ERROR_INVALID_VALUE;
    return sg_leave(rc);
}

SG_CALL(cuStreamAttachMemAsync, CUstream hStream, CUdeviceptr dptr, size_t length,
        unsigned int flags)
{
    struct sg_stream *stream;
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_none(stream);
    if (rc == CUDA_SUCCESS)
        rc = find_range(dptr, length ? length : 1, &alloc);
    if (rc == CUDA_SUCCESS &&
        (dptr != alloc->base || (length && length != alloc->size)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        alloc->flags = flags;
    return sg_leave(rc);
}
