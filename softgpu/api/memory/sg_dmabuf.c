/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as a dma-buf, for a network card that reads and writes it by itself.
 *
 * The allocation moves into a sealed memfd, of which /dev/udmabuf makes dma-bufs; where
 * the kernel has no such device the card does not have the feature.  Such memory cannot
 * be exported to other processes any more: its file has no name.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_mem.h"
#include "sg_stream.h"
#include "sg_udmabuf.h"

#include "gp_log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Never smaller again: what a dma-buf is made of must stay. */
static int
move_to_memfd(struct sg_alloc *alloc)
{
    CLEANUP_FD int fd = memfd_create("softgpu-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -errno;
    r = sg_mem_move_to(alloc, fd);
    if (r < 0)
        return r;
    alloc->dmabuf = true;
    TAKE_FD(fd); /* it is the allocation's now */
    return 0;
}

static struct sg_alloc *
exportable(CUdeviceptr dptr, size_t size)
{
    struct sg_alloc *alloc = sg_mem_find(dptr);

    if (!alloc || alloc->kind != SG_MEM_DEVICE || alloc->internal || alloc->graph ||
        alloc->pool || size > alloc->size || dptr - alloc->base > alloc->size - size)
        return NULL;
    return alloc;
}

/* May drop the lock. */
static CUresult
export_range(CUdeviceptr dptr, size_t size, int *ret_fd)
{
    struct sg_alloc *alloc = exportable(dptr, size);
    struct udmabuf_create create = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = size};
    int fd;

    if (alloc && alloc->fd < 0) {
        sg_streams_synchronize_all(); /* drops the lock */
        alloc = exportable(dptr, size);
    }
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->fd < 0 && move_to_memfd(alloc) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!alloc->dmabuf) /* a file that others have opened by its name */
        return CUDA_ERROR_NOT_SUPPORTED;
    create.memfd = (uint32_t)alloc->fd;
    create.offset = dptr - alloc->base;
    fd = ioctl(sg_udmabuf(), UDMABUF_CREATE, &create);
    if (fd < 0) {
        gp_log_info("softgpu", "/dev/udmabuf: %zu bytes: %s", size, strerror(errno));
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *ret_fd = fd;
    return CUDA_SUCCESS;
}

SG_CALL(cuMemGetHandleForAddressRange, void *handle, CUdeviceptr dptr, size_t size,
        CUmemRangeHandleType handleType, unsigned long long flags)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!handle || !size || (dptr | size) & (page - 1) ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    /* There is no bus whose mapping a flag could ask for. */
    if (flags || sg_udmabuf() < 0)
        return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
    return sg_leave(export_range(dptr, size, handle));
}
