/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuIpc*MemHandle.
 */
#include "sg_ipc.h"

#include "sg_card.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IPC_MAGIC UINT64_C(0x6d656d2d75706773)

/* What a CUipcMemHandle holds. */
struct ipc_handle {
    uint64_t magic;
    uint8_t uuid[16]; /* of the card */
    uint64_t id;
    uint64_t size;
    uint32_t slot; /* the exporter's */
    uint32_t pad;
};

static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "fits the handle");

static uint64_t
page_round(uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (size + page - 1) & ~(page - 1);
}

static int
move_to_file(struct sg_alloc *alloc)
{
    char path[SG_CARD_PATH_MAX];
    int fd, r;

    sg_card_note_export(alloc->dev->card);
    sg_card_ipc_path(alloc->dev->card, sg_card_slot(alloc->dev->card), alloc->id, path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = sg_mem_move_to(alloc, fd);
    if (r < 0) {
        unlink(path);
        close(fd);
    }
    return r;
}

static struct sg_alloc *
exportable(CUdeviceptr dptr, bool pool)
{
    struct sg_alloc *alloc = sg_mem_find(dptr);

    if (!alloc || alloc->kind != SG_MEM_DEVICE || alloc->internal || alloc->graph)
        return NULL;
    return (pool ? alloc->pool != NULL : alloc->ctx != NULL) ? alloc : NULL;
}

CUresult
sg_ipc_export(CUdeviceptr dptr, bool pool, void *ret_handle)
{
    struct ipc_handle h = {.magic = IPC_MAGIC};
    struct sg_alloc *alloc = exportable(dptr, pool);

    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->fd < 0) {
        sg_streams_synchronize_all(); /* drops the lock */
        alloc = exportable(dptr, pool);
        if (!alloc)
            return CUDA_ERROR_INVALID_VALUE;
        if (alloc->fd < 0 && move_to_file(alloc) < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (alloc->dmabuf)
        return CUDA_ERROR_NOT_SUPPORTED;
    memcpy(h.uuid, alloc->dev->uuid, sizeof(h.uuid));
    h.id = alloc->id;
    h.size = alloc->size;
    h.slot = sg_card_slot(alloc->dev->card);
    memset(ret_handle, 0, sizeof(CUipcMemHandle));
    memcpy(ret_handle, &h, sizeof(h));
    return CUDA_SUCCESS;
}

SG_CALL(cuIpcGetMemHandle, CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(pHandle ? sg_ipc_export(dptr, false, pHandle)
                            : CUDA_ERROR_INVALID_VALUE);
}

/* The handle came from anywhere: the file itself is what is believed. */
static int
open_export(const struct sg_dev *dev, const struct ipc_handle *h)
{
    char path[SG_CARD_PATH_MAX];
    struct stat st;
    int fd;

    sg_card_ipc_path(dev->card, h->slot, h->id, path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        !h->size || h->size > dev->memory ||
        (uint64_t)st.st_size < page_round(h->size)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

/* Charged to nobody: the exporter pays while it lives. */
static CUresult
map_export(struct sg_ctx *ctx, struct sg_dev *dev, const struct ipc_handle *h, int fd,
           struct sg_alloc **ret_alloc)
{
    uint64_t base = sg_mem_reserve(dev, h->size), len = page_round(h->size);
    CUresult rc;

    if (!base) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (mmap((void *)(uintptr_t)base, len, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        close(fd);
        sg_mem_unreserve(dev, base, h->size);
        return CUDA_ERROR_MAP_FAILED;
    }
    rc = sg_mem_new_foreign(ctx, dev, base, h->size, SG_MEM_IPC, ret_alloc);
    if (rc != CUDA_SUCCESS) { /* the addresses stay lost: they are mapped */
        close(fd);
        return rc;
    }
    (*ret_alloc)->fd = fd;
    (*ret_alloc)->ipc_id = h->id;
    (*ret_alloc)->ipc_slot = h->slot;
    (*ret_alloc)->n_ipc_opens = 1;
    return CUDA_SUCCESS;
}

CUresult
sg_ipc_open(struct sg_ctx *ctx, const void *handle, CUdeviceptr *ret_dptr)
{
    struct ipc_handle h;
    struct sg_alloc *alloc;
    struct sg_dev *dev;
    CUresult rc;
    int fd;

    memcpy(&h, handle, sizeof(h));
    if (h.magic != IPC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    dev = sg_dev_by_uuid(h.uuid);
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    if (h.slot == sg_card_slot(dev->card)) /* our own */
        return CUDA_ERROR_INVALID_CONTEXT;
    alloc = sg_mem_find_ipc(ctx, h.slot, h.id);
    if (alloc) {
        alloc->n_ipc_opens++;
        *ret_dptr = alloc->base;
        return CUDA_SUCCESS;
    }
    fd = open_export(dev, &h);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    rc = map_export(ctx, dev, &h, fd, &alloc);
    if (rc == CUDA_SUCCESS)
        *ret_dptr = alloc->base;
    return rc;
}

SG_CALL(cuIpcOpenMemHandle_v2, CUdeviceptr *pdptr, CUipcMemHandle handle,
        unsigned int Flags)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(pdptr && Flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
                        ? sg_ipc_open(ctx, &handle, pdptr)
                        : CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuIpcCloseMemHandle, CUdeviceptr dptr)
{
    struct sg_alloc *alloc;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(dptr);
    if (!alloc || alloc->kind != SG_MEM_IPC || alloc->base != dptr || alloc->pool)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (--alloc->n_ipc_opens)
        return sg_leave(CUDA_SUCCESS);
    sg_streams_synchronize_all(); /* drops the lock */
    alloc = sg_mem_find(dptr);
    if (alloc && alloc->kind == SG_MEM_IPC && !alloc->n_ipc_opens)
        sg_mem_free(alloc);
    return sg_leave(CUDA_SUCCESS);
}
