/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: one copy of every page, which host and all cards read and
 * write at any time.  Advice and prefetching move nothing; what was advised is
 * remembered, because it can be asked back.
 */
#include "sg_managed.h"

#include "sg_advice.h"
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_stream.h"

#include <unistd.h>

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

/* As it is kept: only a card and a node of the host have a number, and the node that
 * the thread is nearest to is the only one that a software card knows. */
static CUmemLocation
kept_location(const CUmemLocation *loc)
{
    CUmemLocation kept = *loc;

    if (kept.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        kept = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    if (kept.type == CU_MEM_LOCATION_TYPE_HOST)
        kept.id = 0;
    return kept;
}

struct change {
    CUmem_advise advice;
    CUmemLocation loc;
};

static void
apply_advice(struct sg_advised *run, const void *arg)
{
    const struct change *c = arg;
    bool set = c->advice == CU_MEM_ADVISE_SET_ACCESSED_BY;

    switch ((int)c->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        run->read_mostly = c->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        run->preferred = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID};
        return;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        run->preferred = kept_location(&c->loc);
        return;
    default:
        break;
    }
    if (c->loc.type == CU_MEM_LOCATION_TYPE_HOST)
        run->accessed_by_host = set;
    else if (set)
        run->accessed_by |= 1u << c->loc.id;
    else
        run->accessed_by &= ~(1u << c->loc.id);
}

static void
apply_prefetch(struct sg_advised *run, const void *arg)
{
    run->prefetched = kept_location(arg);
}

/* The whole pages of a range of @alloc, as offsets. */
struct extent {
    uint64_t from, end;
};

static struct extent
pages_of(const struct sg_alloc *alloc, CUdeviceptr ptr, size_t count)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t from = ptr - alloc->base;

    return (struct extent){from & ~(page - 1), (from + count + page - 1) & ~(page - 1)};
}

static CUresult
change_range(struct sg_alloc *alloc, CUdeviceptr ptr, size_t count, sg_advice_fn *fn,
             const void *arg)
{
    struct extent e = pages_of(alloc, ptr, count);

    return sg_advice_change(&alloc->advice, e.from, e.end, fn, arg);
}

static CUresult
check_advice(CUmem_advise advice, const CUmemLocation *loc)
{
    switch ((int)advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        return check_location(loc);
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        if (loc->type != CU_MEM_LOCATION_TYPE_DEVICE &&
            loc->type != CU_MEM_LOCATION_TYPE_HOST)
            return CUDA_ERROR_INVALID_VALUE;
        return check_location(loc);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuMemAdvise_v2, CUdeviceptr devPtr, size_t count, CUmem_advise advice,
        CUmemLocation location)
{
    struct change c = {advice, location};
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_ctx_process_error();
    if (rc == CUDA_SUCCESS)
        rc = find_range(devPtr, count, &alloc);
    if (rc == CUDA_SUCCESS)
        rc = check_advice(advice, &location);
    return sg_leave(
        rc == CUDA_SUCCESS ? change_range(alloc, devPtr, count, apply_advice, &c) : rc);
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

CUresult
sg_managed_prefetched(CUdeviceptr ptr, size_t count, const CUmemLocation *loc)
{
    return change_range(sg_mem_find(ptr), ptr, count, apply_prefetch, loc);
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
        rc = change_range(alloc, ptr, count, apply_prefetch, loc);
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

/* Who accesses all of a range: cards, and the host. */
static void
put_accessed_by(const struct sg_advised *is, int *data, size_t n)
{
    size_t k = 0;

    for (unsigned d = 0; d < sg_dev_count() && k < n; d++)
        if (is->accessed_by & (1u << d))
            data[k++] = (int)d;
    if (is->accessed_by_host && k < n)
        data[k++] = CU_DEVICE_CPU;
    while (k < n)
        data[k++] = CU_DEVICE_INVALID;
}

static CUresult
range_attr(const struct sg_advised *is, int attr, int *data, size_t size)
{
    if (attr == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        if (!size || size % sizeof(int))
            return CUDA_ERROR_INVALID_VALUE;
        put_accessed_by(is, data, size / sizeof(int));
        return CUDA_SUCCESS;
    }
    if (size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *data = is->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *data = device_or_invalid(&is->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *data = device_or_invalid(&is->prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *data = (int)is->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *data = is->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *data = (int)is->prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *data = is->prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static struct sg_advised
advised(const struct sg_alloc *alloc, CUdeviceptr ptr, size_t count)
{
    struct extent e = pages_of(alloc, ptr, count);

    return sg_advice_of(alloc->advice, e.from, e.end);
}

SG_CALL(cuMemRangeGetAttribute, void *data, size_t dataSize,
        CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
    struct sg_advised is = {0};
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = data ? find_range(devPtr, count, &alloc) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        is = advised(alloc, devPtr, count);
    if (rc == CUDA_SUCCESS)
        rc = range_attr(&is, (int)attribute, data, dataSize);
    return sg_leave(rc);
}

SG_CALL(cuMemRangeGetAttributes, void **data, size_t *dataSizes,
        CUmem_range_attribute *attributes, size_t numAttributes, CUdeviceptr devPtr,
        size_t count)
{
    struct sg_advised is = {0};
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!data || !dataSizes || !attributes)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = find_range(devPtr, count, &alloc);
    if (rc == CUDA_SUCCESS)
        is = advised(alloc, devPtr, count);
    for (size_t i = 0; i < numAttributes && rc == CUDA_SUCCESS; i++)
        rc = data[i] ? range_attr(&is, (int)attributes[i], data[i], dataSizes[i])
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
