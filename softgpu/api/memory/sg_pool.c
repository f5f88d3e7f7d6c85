/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools and the stream-ordered allocator.
 *
 * The memory of cuMemAllocAsync is there when the call returns; that is a legal
 * order, and the pointer may be used by later work of the stream.  Freeing is an
 * operation of the stream.
 */
#include "sg_pool.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_node.h"
#include "sg_stream.h"
#include "sg_work.h"

#include <stdlib.h>
#include <string.h>

struct sg_pool {
    uint64_t handle;
    unsigned refs; /* 1 for the handle, 1 per allocation */
    struct sg_dev *dev;
    CUmemPoolProps props;
    uint64_t threshold;
    uint64_t used, used_high; /* of the application: freed in stream order is not */
    uint64_t reserved, reserved_high; /* backed by memory */
    int reuse[3];                     /* CU_MEMPOOL_ATTR_REUSE_*, in their order */
    unsigned access;                  /* bit per ordinal that may use its memory */
    bool is_default, imported;
};

static void
pool_unref(struct sg_pool *pool)
{
    if (--pool->refs == 0)
        free(pool);
}

static CUresult
pool_new(struct sg_dev *dev, const CUmemPoolProps *props, struct sg_pool **ret_pool)
{
    struct sg_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->handle = sg_handle_new(SG_KIND_POOL, pool);
    if (!pool->handle) {
        free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->refs = 1;
    pool->dev = dev;
    pool->props = *props;
    pool->access = 1u << dev->ordinal;
    for (int i = 0; i < 3; i++)
        pool->reuse[i] = 1;
    *ret_pool = pool;
    return CUDA_SUCCESS;
}

/* The device's own pool, made on first use; NULL without memory for it. */
static struct sg_pool *
default_pool(struct sg_dev *dev)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev->ordinal},
    };

    if (!dev->default_pool && pool_new(dev, &props, &dev->default_pool) == CUDA_SUCCESS)
        dev->default_pool->is_default = true;
    return dev->default_pool;
}

uint64_t
sg_pool_handle(const struct sg_pool *pool)
{
    return pool ? pool->handle : 0;
}

static struct sg_pool *
current_pool(struct sg_dev *dev)
{
    return dev->current_pool ? dev->current_pool : default_pool(dev);
}

bool
sg_pool_is_exportable(const struct sg_pool *pool)
{
    return pool->props.handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
           !pool->imported;
}

bool
sg_pool_is_imported(const struct sg_pool *pool)
{
    return pool->imported;
}

struct sg_dev *
sg_pool_device(const struct sg_pool *pool)
{
    return pool->dev;
}

CUresult
sg_pool_import(struct sg_dev *dev, struct sg_pool **ret_pool)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev->ordinal},
    };
    CUresult rc = pool_new(dev, &props, ret_pool);

    if (rc == CUDA_SUCCESS)
        (*ret_pool)->imported = true;
    return rc;
}

static void
pool_count(struct sg_pool *pool, uint64_t size)
{
    pool->refs++;
    pool->used += size;
    pool->used_high = gp_max(pool->used_high, pool->used);
    pool->reserved += size;
    pool->reserved_high = gp_max(pool->reserved_high, pool->reserved);
}

/* A pointer that is imported again is the same memory, opened once more. */
void
sg_pool_take_import(struct sg_pool *pool, struct sg_alloc *alloc)
{
    if (alloc->pool)
        return;
    alloc->pool = pool;
    pool_count(pool, alloc->size);
}

/* Memory that is usable now. */
static CUresult
pool_alloc(struct sg_pool *pool, uint64_t size, struct sg_alloc **ret_alloc)
{
    struct sg_alloc *alloc;
    uint64_t total;
    CUresult rc;

    if (pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (!gp_add_ok(pool->reserved, size, &total) ||
        (pool->props.maxSize && total > pool->props.maxSize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sg_mem_new_on(pool->dev, NULL, size, &alloc);
    if (rc != CUDA_SUCCESS)
        return rc;
    alloc->pool = pool;
    alloc->accessed_by = pool->access;
    if (pool->access != 1u << pool->dev->ordinal)
        rc = sg_mem_reshow(alloc);
    if (rc != CUDA_SUCCESS) {
        sg_mem_free(alloc);
        return rc;
    }
    pool_count(pool, size);
    sg_mem_undefine(alloc);
    *ret_alloc = alloc;
    return CUDA_SUCCESS;
}

/* The application uses it no more, whenever the memory itself goes. */
static void
give_back(struct sg_alloc *alloc)
{
    if (!alloc->given_back && alloc->pool)
        alloc->pool->used -= alloc->size;
    alloc->given_back = true;
}

void
sg_pool_free(struct sg_alloc *alloc)
{
    struct sg_pool *pool = alloc->pool;

    if (alloc->kind == SG_MEM_IPC && --alloc->n_ipc_opens)
        return;
    give_back(alloc);
    pool->reserved -= alloc->size;
    sg_mem_free(alloc);
    pool_unref(pool);
}

/* ----------------------------------------------------------- the async allocator */

static CUresult
capture_alloc(struct sg_stream *stream, struct sg_pool *pool, CUdeviceptr *dptr,
              size_t size)
{
    struct sg_node_data data = {
        .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        .ctx = stream->ctx->handle,
        .alloc = {.props = pool->props, .size = size},
    };
    struct sg_graph_node *node;
    CUresult rc = sg_capture_add(stream, &data, &node);

    if (rc == CUDA_SUCCESS)
        *dptr = sg_graph_mem_base(sg_capture_node_data(node)->alloc.mem);
    return rc;
}

static CUresult
alloc_async(CUdeviceptr *dptr, size_t size, CUmemoryPool hpool, bool use_pool,
            CUstream hstream)
{
    struct sg_stream *stream;
    struct sg_alloc *alloc;
    struct sg_pool *pool;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dptr)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *dptr = 0;
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (!size) /* of nothing there is something to be had: nothing */
        return sg_leave(CUDA_SUCCESS);
    pool = use_pool ? SG_OBJ(sg_pool, SG_KIND_POOL, hpool)
                    : current_pool(stream->ctx->dev);
    if (!pool)
        return sg_leave(use_pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY);
    if (stream->capture)
        return sg_leave(capture_alloc(stream, pool, dptr, size));
    rc = sg_capture_check_unsafe();
    if (rc == CUDA_SUCCESS)
        rc = pool_alloc(pool, size, &alloc);
    if (rc == CUDA_SUCCESS)
        *dptr = alloc->base;
    return sg_leave(rc);
}

SG_CALL(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return alloc_async(dptr, bytesize, NULL, false, hStream);
}

SG_CALL(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
        CUstream hStream)
{
    return alloc_async(dptr, bytesize, pool, true, hStream);
}

struct free_work {
    struct sg_work work; /* first */
    CUdeviceptr dptr;
    uint64_t id;
};

static CUresult
free_run(struct sg_work *work)
{
    struct free_work *f = container_of(work, struct free_work, work);
    struct sg_alloc *alloc;

    sg_lock();
    alloc = sg_mem_find(f->dptr);
    if (alloc && alloc->base == f->dptr && alloc->id == f->id) {
        if (alloc->pool)
            sg_pool_free(alloc);
        else
            sg_mem_free(alloc);
    }
    sg_unlock();
    return CUDA_SUCCESS;
}

static const struct sg_work_class free_class = {
    .name = "free",
    .queue = SG_QUEUE_COPY, /* hiding a range may wait for running blocks */
    .always = true,
    .run = free_run,
};

SG_CALL(cuMemFreeAsync, CUdeviceptr dptr, CUstream hStream)
{
    struct sg_stream *stream;
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    struct free_work *f;
    struct sg_work *work;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (stream->capture) {
        struct sg_node_data data = {
            .type = CU_GRAPH_NODE_TYPE_MEM_FREE,
            .ctx = stream->ctx->handle,
            .free_ptr = dptr,
        };

        return sg_leave(sg_graph_mem_find(dptr) ? sg_capture_add(stream, &data, NULL)
                                                : CUDA_ERROR_INVALID_VALUE);
    }
    if (!dptr)
        return sg_leave(CUDA_SUCCESS);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    alloc = sg_mem_find(dptr);
    if (!alloc || alloc->base != dptr || alloc->internal || alloc->given_back ||
        (alloc->kind != SG_MEM_DEVICE && !(alloc->kind == SG_MEM_IPC && alloc->pool)))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (alloc->graph) { /* the graph may be launched again before this is done */
        rc = sg_graph_mem_give_work(stream->ctx, alloc->graph, &work);
        return sg_leave(rc == CUDA_SUCCESS ? sg_stream_enqueue(stream, work, NULL)
                                           : rc);
    }
    f = calloc(1, sizeof(*f));
    if (!f)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    sg_work_init(&f->work, &free_class, stream->ctx);
    f->dptr = dptr;
    f->id = alloc->id;
    if (alloc->kind != SG_MEM_IPC) /* which may have been opened more than once */
        give_back(alloc);
    return sg_leave(sg_stream_enqueue(stream, &f->work, NULL));
}

/* ----------------------------------------------------------------------- pools */

CUresult
sg_pool_enter(CUmemoryPool handle, struct sg_pool **ret_pool)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_pool = SG_OBJ(sg_pool, SG_KIND_POOL, handle);
    return *ret_pool ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Pools of managed memory are not made. */
static bool
is_known_type(CUmemAllocationType type)
{
    return type == CU_MEM_ALLOCATION_TYPE_PINNED ||
           type == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

SG_CALL(cuMemPoolCreate, CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    struct sg_pool *p;
    struct sg_dev *dev;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pool || !poolProps || !is_known_type(poolProps->allocType))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ||
        poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
         poolProps->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
    dev = sg_dev_get(poolProps->location.id);
    if (!dev)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = pool_new(dev, poolProps, &p);
    if (rc == CUDA_SUCCESS)
        *pool = (CUmemoryPool)(uintptr_t)p->handle;
    return sg_leave(rc);
}

SG_CALL(cuMemPoolDestroy, CUmemoryPool pool)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (p->is_default)
        return sg_leave(CUDA_ERROR_NOT_PERMITTED);
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    for (unsigned i = 0; i < sg_dev_count(); i++)
        if (sg_dev_get((CUdevice)i)->current_pool == p)
            sg_dev_get((CUdevice)i)->current_pool = NULL;
    sg_handle_drop(p->handle);
    p->handle = 0;
    pool_unref(p);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemPoolTrimTo, CUmemoryPool pool, size_t minBytesToKeep)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);

    return rc == CUDA_SUCCESS ? sg_leave(sg_capture_check_unsafe())
                              : rc; /* nothing is kept */
}

static CUresult
pool_attr(struct sg_pool *p, int attr, void *value, bool set)
{
    uint64_t v64 = 0, *high;

    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        attr -= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
        if (set)
            memcpy(&p->reuse[attr], value, sizeof(int));
        else
            memcpy(value, &p->reuse[attr], sizeof(int));
        return CUDA_SUCCESS;
    }
    if (set)
        memcpy(&v64, value, sizeof(v64));
    switch (attr) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        if (set)
            p->threshold = v64;
        v64 = p->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        high =
            attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? &p->used_high : &p->reserved_high;
        if (set && v64 != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (set)
            *high = high == &p->used_high ? p->used : p->reserved;
        v64 = *high;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        if (set)
            return CUDA_ERROR_INVALID_VALUE;
        v64 = attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? p->used : p->reserved;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!set)
        memcpy(value, &v64, sizeof(v64));
    return CUDA_SUCCESS;
}

SG_CALL(cuMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(value ? pool_attr(p, (int)attr, value, true)
                          : CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuMemPoolGetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(value ? pool_attr(p, (int)attr, value, false)
                          : CUDA_ERROR_INVALID_VALUE);
}

/* What *@access becomes by @map. */
static CUresult
change_access(const struct sg_pool *p, const CUmemAccessDesc *map, size_t count,
              unsigned *access)
{
    for (size_t i = 0; i < count; i++) {
        unsigned bit;

        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            !sg_dev_get(map[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        bit = 1u << map[i].location.id;
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            *access |= bit;
        else if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                 map[i].location.id != p->dev->ordinal)
            *access &= ~bit;
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

SG_CALL(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    unsigned access;
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (count && !map)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    access = p->access;
    rc = change_access(p, map, count, &access);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    p->access = access;
    p->refs++;
    rc = sg_mem_set_pool_access(p, access);
    pool_unref(p);
    return sg_leave(rc);
}

SG_CALL(cuMemPoolGetAccess, CUmemAccess_flags *flags, CUmemoryPool memPool,
        CUmemLocation *location)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(memPool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sg_dev_get(location->id))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = p->access & (1u << location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                              : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
pool_of_device(CUmemoryPool *pool_out, CUdevice dev, bool current)
{
    struct sg_pool *pool;
    struct sg_dev *d;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    d = sg_dev_get(dev);
    if (!d)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!pool_out)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    pool = current ? current_pool(d) : default_pool(d);
    if (!pool)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *pool_out = (CUmemoryPool)(uintptr_t)pool->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetDefaultMemPool, CUmemoryPool *pool_out, CUdevice dev)
{
    return pool_of_device(pool_out, dev, false);
}

SG_CALL(cuDeviceGetMemPool, CUmemoryPool *pool, CUdevice dev)
{
    return pool_of_device(pool, dev, true);
}

SG_CALL(cuDeviceSetMemPool, CUdevice dev, CUmemoryPool pool)
{
    struct sg_pool *p;
    struct sg_dev *d;
    CUresult rc = sg_pool_enter(pool, &p);

    if (rc != CUDA_SUCCESS)
        return rc;
    d = sg_dev_get(dev);
    if (!d)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (p->dev != d || p->imported) /* nothing is allocated from an imported one */
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    d->current_pool = p;
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
check_location(const CUmemLocation *location, CUmemAllocationType type)
{
    if (!location || !is_known_type(type))
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

SG_CALL(cuMemGetDefaultMemPool, CUmemoryPool *pool_out, CUmemLocation *location,
        CUmemAllocationType type)
{
    CUresult rc = check_location(location, type);

    return rc == CUDA_SUCCESS ? pool_of_device(pool_out, location->id, false) : rc;
}

SG_CALL(cuMemGetMemPool, CUmemoryPool *pool, CUmemLocation *location,
        CUmemAllocationType type)
{
    CUresult rc = check_location(location, type);

    return rc == CUDA_SUCCESS ? pool_of_device(pool, location->id, true) : rc;
}

SG_CALL(cuMemSetMemPool, CUmemLocation *location, CUmemAllocationType type,
        CUmemoryPool pool)
{
    CUresult rc = sg_handle_kind((uintptr_t)pool) == SG_KIND_POOL
                      ? check_location(location, type)
                      : CUDA_ERROR_INVALID_VALUE;

    return rc == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : rc;
}
