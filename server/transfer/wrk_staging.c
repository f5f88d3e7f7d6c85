/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_staging.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_evpool.h"
#include "xport.h"

#include <sys/mman.h>

#define HOSTREGISTER_PORTABLE 0x1u

CUresult
wrk_staging_ready(struct wrk *w, struct wrk_staging *slot, size_t size)
{
    bool small = slot->size && slot->size < size;
    CUresult r;

    if (slot->mem && slot->pinned && !small)
        return CUDA_SUCCESS;
    if (!slot->mem || small) {
        void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (mem == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        slot->mem = mem;
        slot->size = size;
        xport_pin(w->priv->conn, mem, size);
    }
    size = slot->size ? slot->size : size;
    r = WRK_CALL(w, cuMemHostRegister_v2, slot->mem, size, HOSTREGISTER_PORTABLE);
    /* Registered in a context that still exists. */
    if (r == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        r = CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        gp_log_warn("bulk",
                    "the driver does not register %zu bytes at %p for copies: error %d",
                    size, (void *)slot->mem, (int)r);
    slot->pinned = r == CUDA_SUCCESS;
    return r;
}

CUresult
wrk_staging_fence(struct wrk *w, struct wrk_staging *slot, uint32_t ctx_index,
                  CUstream stream)
{
    CUevent event = wrk_evpool_get(w, ctx_index);
    CUresult r;

    slot->ctx_index = ctx_index;
    if (!event)
        return WRK_CALL(w, cuStreamSynchronize, stream);
    r = WRK_CALL(w, cuEventRecord, event, stream);
    if (r == CUDA_SUCCESS) {
        slot->event = event;
        return r;
    }
    wrk_evpool_put(w, ctx_index, event);
    WRK_CALL(w, cuStreamSynchronize, stream);
    return r;
}

bool
wrk_staging_idle(struct wrk *w, struct wrk_staging *slot)
{
    if (slot->event && WRK_CALL(w, cuEventQuery, slot->event) == CUDA_ERROR_NOT_READY)
        return false;
    wrk_staging_unfence(w, slot);
    return true;
}

void
wrk_staging_wait(struct wrk *w, struct wrk_staging *slot)
{
    if (slot->event)
        WRK_CALL(w, cuEventSynchronize, slot->event);
    wrk_staging_unfence(w, slot);
}

CUresult
wrk_staging_result(struct wrk *w, struct wrk_staging *slot, uint64_t spin_until_ns)
{
    CUresult r = CUDA_SUCCESS;

    if (slot->event) {
        do
            r = WRK_CALL(w, cuEventQuery, slot->event);
        while (r == CUDA_ERROR_NOT_READY && gp_now_ns() < spin_until_ns);
        if (r == CUDA_ERROR_NOT_READY)
            r = WRK_CALL(w, cuEventSynchronize, slot->event);
    }
    wrk_staging_unfence(w, slot);
    return r;
}

bool
wrk_staging_done(struct wrk *w, const struct wrk_staging *slot)
{
    return !slot->event ||
           WRK_CALL(w, cuEventQuery, slot->event) != CUDA_ERROR_NOT_READY;
}

void
wrk_staging_unfence(struct wrk *w, struct wrk_staging *slot)
{
    if (slot->event)
        wrk_evpool_put(w, slot->ctx_index, slot->event);
    slot->event = NULL;
}

void
wrk_staging_forget(struct wrk_staging *slot, uint32_t ctx_index)
{
    if (slot->ctx_index == ctx_index)
        slot->event = NULL;
    slot->pinned = false;
}
