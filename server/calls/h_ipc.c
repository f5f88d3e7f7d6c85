/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events of one process in another process of the session, and pointers into
 * pools that processes share.
 *
 * A driver accepts an IPC handle from any process that knows or guesses it.  So the
 * supervisor notes in the session's segment which handles its workers have handed out,
 * and no other handle is opened.
 */
#include "drv.h"
#include "gp_blake3.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_desk.h"

#include <string.h>

static uint64_t
handle_name(const void *handle, size_t size)
{
    uint8_t hash[GP_BLAKE3_SIZE];
    uint64_t name;

    gp_blake3(handle, size, hash);
    memcpy(&name, hash, sizeof(name));
    return name ? name : 1; /* 0 is a place that nobody took */
}

static bool
handle_is_ours(const struct wrk *w, uint64_t name)
{
    const struct wrk_segment *seg = w->priv->desks->segment;
    uint64_t n = gp_min(atomic_load(&seg->n_exports), (uint64_t)WRK_EXPORTS_MAX);

    for (uint64_t i = 0; i < n; i++)
        if (atomic_load_explicit(&seg->exports[i], memory_order_relaxed) == name)
            return true;
    return false;
}

/* When the list is full the oldest handle is dropped; its memory is long gone by then.
 */
static void
handle_note(struct wrk *w, const void *handle, size_t size)
{
    uint64_t name = handle_name(handle, size);

    if (!handle_is_ours(w, name))
        wrk_desks_call(w->priv->desks, WRK_CALL_NAME, 0, name);
}

/* Is the handle one that was handed out in the session? */
static CUresult
handle_check(struct wrk *w, const void *handle, size_t size)
{
    return handle_is_ours(w, handle_name(handle, size)) ? CUDA_SUCCESS
                                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult
h_cuIpcGetMemHandle(struct wrk *w, const struct wire_args_cuIpcGetMemHandle *a,
                    struct wrk_reply *rep)
{
    struct wire_cuIpcGetMemHandle_rep *out = rep->body;
    CUipcMemHandle handle;
    CUresult r = WRK_CALL(w, cuIpcGetMemHandle, &handle, a->dptr);

    if (r == CUDA_SUCCESS) {
        handle_note(w, &handle, sizeof(handle));
        memcpy(out->pHandle, &handle, sizeof(handle));
    }
    return r;
}

CUresult
h_cuIpcGetEventHandle(struct wrk *w, const struct wire_args_cuIpcGetEventHandle *a,
                      struct wrk_reply *rep)
{
    struct wire_cuIpcGetEventHandle_rep *out = rep->body;
    CUipcEventHandle handle;
    CUresult r = WRK_CALL(w, cuIpcGetEventHandle, &handle, a->event);

    if (r == CUDA_SUCCESS) {
        handle_note(w, &handle, sizeof(handle));
        memcpy(out->pHandle, &handle, sizeof(handle));
    }
    return r;
}

CUresult
h_cuIpcOpenMemHandle_v2(struct wrk *w, const struct wire_args_cuIpcOpenMemHandle_v2 *a,
                        struct wrk_reply *rep)
{
    struct wire_cuIpcOpenMemHandle_v2_rep *out = rep->body;
    CUresult r = handle_check(w, a->handle, sizeof(*a->handle));
    CUdeviceptr at;

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuIpcOpenMemHandle_v2, &at, *a->handle, a->Flags);
    if (r == CUDA_SUCCESS)
        out->pdptr = at;
    return r;
}

CUresult
h_cuIpcOpenEventHandle(struct wrk *w, const struct wire_args_cuIpcOpenEventHandle *a,
                       struct wrk_reply *rep)
{
    CUresult r = handle_check(w, a->handle, sizeof(*a->handle));
    CUevent event;

    (void)rep;
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuIpcOpenEventHandle, &event, *a->handle);
    else if (r == CUDA_ERROR_INVALID_VALUE)
        r = CUDA_ERROR_MAP_FAILED; /* what a driver says of one that nobody made */
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_EVENT, a->phEvent_id, event);
    return r;
}

CUresult
h_cuMemPoolExportPointer(struct wrk *w,
                         const struct wire_args_cuMemPoolExportPointer *a,
                         struct wrk_reply *rep)
{
    struct wire_cuMemPoolExportPointer_rep *out = rep->body;
    CUmemPoolPtrExportData data;
    CUresult r = WRK_CALL(w, cuMemPoolExportPointer, &data, a->ptr);

    if (r == CUDA_SUCCESS) {
        handle_note(w, &data, sizeof(data));
        memcpy(out->shareData_out, &data, sizeof(data));
    }
    return r;
}

CUresult
h_cuMemPoolImportPointer(struct wrk *w,
                         const struct wire_args_cuMemPoolImportPointer *a,
                         struct wrk_reply *rep)
{
    struct wire_cuMemPoolImportPointer_rep *out = rep->body;
    CUmemPoolPtrExportData data = *a->shareData;
    CUresult r = handle_check(w, &data, sizeof(data));
    CUdeviceptr at;

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuMemPoolImportPointer, &at, a->pool, &data);
    if (r == CUDA_SUCCESS)
        out->ptr_out = at;
    return r;
}
