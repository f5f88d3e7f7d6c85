/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools shared between processes on one card.
 *
 * The descriptor of a pool says which card it is on and nothing else: what is shared is
 * pointer by pointer, as exported allocations are (sg_ipc.h).  The exporter pays for
 * the memory; the importer frees what it imported, and the exporter what it exported.
 */
#include "sg_pool.h"

#include "gp_fsize.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_ipc.h"
#include "sg_mem.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_MAGIC UINT64_C(0x4c4f4f5055504753) /* "SGPUPOOL" */

/* What the descriptor holds. */
struct pool_file {
    uint64_t magic;
    uint8_t uuid[16];
};

static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(CUipcMemHandle), "one form");

static int
pool_file_new(const struct sg_dev *dev)
{
    struct pool_file file = {.magic = POOL_MAGIC};
    int fd = memfd_create("softgpu-pool", MFD_CLOEXEC);

    memcpy(file.uuid, dev->uuid, sizeof(file.uuid));
    if (fd >= 0 && gp_fsize_write(fd, &file, sizeof(file)) != (ssize_t)sizeof(file)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

SG_CALL(cuMemPoolExportToShareableHandle, void *handle_out, CUmemoryPool pool,
        CUmemAllocationHandleType handleType, unsigned long long flags)
{
    struct sg_pool *p;
    CUresult rc = sg_pool_enter(pool, &p);
    int fd;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!handle_out || flags ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !sg_pool_is_exportable(p))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    fd = pool_file_new(sg_pool_device(p));
    if (fd < 0)
        return sg_leave(CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(handle_out, &fd, sizeof(fd));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemPoolImportFromShareableHandle, CUmemoryPool *pool_out, void *handle,
        CUmemAllocationHandleType handleType, unsigned long long flags)
{
    int fd = (int)(intptr_t)handle;
    struct pool_file file;
    struct sg_pool *p;
    struct sg_dev *dev;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread(fd, &file, sizeof(file), 0) != (ssize_t)sizeof(file) ||
        file.magic != POOL_MAGIC)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    dev = sg_dev_by_uuid(file.uuid);
    if (!dev)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    rc = sg_pool_import(dev, &p);
    if (rc == CUDA_SUCCESS)
        *pool_out = (CUmemoryPool)(uintptr_t)sg_pool_handle(p);
    return sg_leave(rc);
}

SG_CALL(cuMemPoolExportPointer, CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(ptr);
    if (!shareData_out || !alloc || alloc->base != ptr || !alloc->pool ||
        !sg_pool_is_exportable(alloc->pool))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_ipc_export(ptr, true, shareData_out));
}

SG_CALL(cuMemPoolImportPointer, CUdeviceptr *ptr_out, CUmemoryPool pool,
        CUmemPoolPtrExportData *shareData)
{
    struct sg_pool *p;
    struct sg_ctx *ctx;
    CUdeviceptr ptr;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    p = SG_OBJ(sg_pool, SG_KIND_POOL, pool);
    if (!ptr_out || !shareData || !p || !sg_pool_is_imported(p))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_ipc_open(ctx, shareData, &ptr);
    if (rc == CUDA_SUCCESS) {
        sg_pool_take_import(p, sg_mem_find(ptr));
        *ptr_out = ptr;
    }
    return sg_leave(rc);
}
