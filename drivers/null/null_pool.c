/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: a name for allocations that are what others are. */
#include "null.h"

#include <string.h>

CUresult
cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    *pool = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolDestroy(CUmemoryPool pool)
{
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    return CUDA_SUCCESS;
}

/* The first three are numbers of 32 bits, all others of 64; none is kept. */
CUresult
cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    memset(value, 0, attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? 4 : 8);
    return CUDA_SUCCESS;
}

CUresult
cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                        CUstream hStream)
{
    return cuMemAllocAsync(dptr, bytesize, hStream);
}

CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    static char pools[NULL_CARDS_MAX];

    *pool_out = (CUmemoryPool)&pools[dev % NULL_CARDS_MAX];
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return cuDeviceGetDefaultMemPool(pool, dev);
}

CUresult
cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    return CUDA_SUCCESS;
}
