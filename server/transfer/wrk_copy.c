/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_copy.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_copygate.h"
#include "wrk_ctx.h"
#include "wrk_wait.h"

uint64_t
wrk_copy_chunk(const struct wrk_copy *copy, uint64_t offset, uint64_t most)
{
    uint64_t len = gp_min(copy->len - offset, most);

    if (copy->grain > 1 && len < copy->len - offset)
        len = copy->grain > most ? copy->grain : len - len % copy->grain;
    return gp_min(len, copy->len - offset);
}

/* Ranges that adjoin are mappings of cuMemMap, which one copy may cross. */
CUresult
wrk_copy_check_range(struct wrk *w, uint64_t base, uint64_t len)
{
    uint64_t at = base, end;

    if (!gp_add_ok(base, len, &end))
        return CUDA_ERROR_INVALID_VALUE;
    while (at < end) {
        CUdeviceptr start = 0;
        size_t size = 0;

        if (WRK_CALL(w, cuMemGetAddressRange_v2, &start, &size, at) != CUDA_SUCCESS ||
            at < start || at - start >= size)
            return at == base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        at = start + size;
    }
    return CUDA_SUCCESS;
}

/* 0: not known. */
static uint64_t
element_bytes(const CUDA_ARRAY_DESCRIPTOR *d)
{
    switch (d->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return d->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return UINT64_C(2) * d->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return UINT64_C(4) * d->NumChannels;
    default:
        return 0;
    }
}

CUresult
wrk_copy_check_array(struct wrk *w, CUarray array, uint64_t offset, uint64_t len)
{
    CUDA_ARRAY_DESCRIPTOR d;
    uint64_t element, row, end;

    if (WRK_CALL(w, cuArrayGetDescriptor_v2, &d, array) != CUDA_SUCCESS || d.Height > 1)
        return CUDA_SUCCESS;
    element = element_bytes(&d);
    if (!element || !gp_mul_ok(element, (uint64_t)d.Width, &row))
        return CUDA_SUCCESS;
    return gp_add_ok(offset, len, &end) && end <= row && offset % element == 0 &&
                   len % element == 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

void
wrk_copy_account(struct wrk *w, uint32_t slice, uint64_t bytes)
{
    uint64_t until = wrk_copygate_take(w, slice, bytes);

    if (unlikely(until))
        wrk_copygate_wait(w, slice, until);
}

/* Replies that are due are not delayed by the receive thread that waits here. */
void
wrk_copy_account_receive(struct wrk *w, uint64_t bytes)
{
    uint32_t slice = wrk_ctx_slice(w, w->ctx_index);
    uint64_t until = wrk_copygate_take(w, slice, bytes);

    if (likely(!until))
        return;
    wrk_flush(w);
    wrk_wait_hand_over(w);
    wrk_copygate_wait(w, slice, until);
}
