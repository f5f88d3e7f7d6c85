/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that release an object and need only the queue of wrk_release.h, because a
 * driver may wait in them for work that needs the receive thread.
 */
#include "drv.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_opaque.h"
#include "wrk_release.h"

/* Textures and surfaces that are none, or are none any more, are destroyed without an
 * error, as by a card's driver: programs destroy them twice. */

static CUresult
texobj_destroy(struct wrk *w, uint64_t obj, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuTexObjectDestroy, obj);
}

CUresult
h_cuTexObjectDestroy(struct wrk *w, const struct wire_args_cuTexObjectDestroy *a,
                     struct wrk_reply *rep)
{
    if (wrk_opaque_leave(WRK_OPAQUE_TEXTURE, a->texObject) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    return wrk_release(
        w, rep, &(struct wrk_release_what){.fn = texobj_destroy, .obj = a->texObject});
}

static CUresult
surfobj_destroy(struct wrk *w, uint64_t obj, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuSurfObjectDestroy, obj);
}

CUresult
h_cuSurfObjectDestroy(struct wrk *w, const struct wire_args_cuSurfObjectDestroy *a,
                      struct wrk_reply *rep)
{
    if (wrk_opaque_leave(WRK_OPAQUE_SURFACE, a->surfObject) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    return wrk_release(
        w, rep,
        &(struct wrk_release_what){.fn = surfobj_destroy, .obj = a->surfObject});
}

static CUresult
pool_trim(struct wrk *w, uint64_t pool, uint64_t size)
{
    return WRK_CALL(w, cuMemPoolTrimTo, (CUmemoryPool)(uintptr_t)pool, size);
}

CUresult
h_cuMemPoolTrimTo(struct wrk *w, const struct wire_args_cuMemPoolTrimTo *a,
                  struct wrk_reply *rep)
{
    return wrk_release(w, rep,
                       &(struct wrk_release_what){.fn = pool_trim,
                                                  .obj = (uintptr_t)a->pool,
                                                  .size = a->minBytesToKeep});
}

static CUresult
graph_trim(struct wrk *w, uint64_t device, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuDeviceGraphMemTrim, (CUdevice)device);
}

CUresult
h_cuDeviceGraphMemTrim(struct wrk *w, const struct wire_args_cuDeviceGraphMemTrim *a,
                       struct wrk_reply *rep)
{
    return wrk_release(
        w, rep,
        &(struct wrk_release_what){.fn = graph_trim, .obj = (uint64_t)a->device});
}

static CUresult
ipc_close(struct wrk *w, uint64_t ptr, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuIpcCloseMemHandle, ptr);
}

CUresult
h_cuIpcCloseMemHandle(struct wrk *w, const struct wire_args_cuIpcCloseMemHandle *a,
                      struct wrk_reply *rep)
{
    return wrk_release(w, rep,
                       &(struct wrk_release_what){.fn = ipc_close, .obj = a->dptr});
}
