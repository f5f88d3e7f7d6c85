/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_box.h"

#include "gp_base.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) &&
                  offsetof(CUDA_MEMCPY3D, srcArray) ==
                      offsetof(CUDA_MEMCPY3D_PEER, srcArray) &&
                  offsetof(CUDA_MEMCPY3D, dstArray) ==
                      offsetof(CUDA_MEMCPY3D_PEER, dstArray),
              "one layout for both forms");

void
wrk_box_clear(CUDA_MEMCPY3D *box)
{
    box->srcHost = NULL;
    box->dstHost = NULL;
    if (box->srcMemoryType != CU_MEMORYTYPE_DEVICE &&
        box->srcMemoryType != CU_MEMORYTYPE_UNIFIED)
        box->srcDevice = 0;
    if (box->dstMemoryType != CU_MEMORYTYPE_DEVICE &&
        box->dstMemoryType != CU_MEMORYTYPE_UNIFIED)
        box->dstDevice = 0;
    if (box->srcMemoryType != CU_MEMORYTYPE_ARRAY)
        box->srcArray = NULL;
    if (box->dstMemoryType != CU_MEMORYTYPE_ARRAY)
        box->dstArray = NULL;
}

void
wrk_box_clear_peer(CUDA_MEMCPY3D_PEER *box)
{
    CUDA_MEMCPY3D plain;

    memcpy(&plain, box, sizeof(plain));
    wrk_box_clear(&plain);
    memcpy(box, &plain, sizeof(*box));
}

CUresult
wrk_box_on_card(CUDA_MEMCPY3D *box)
{
    if (box->srcMemoryType == CU_MEMORYTYPE_HOST ||
        box->dstMemoryType == CU_MEMORYTYPE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    wrk_box_clear(box);
    if (box->srcMemoryType == CU_MEMORYTYPE_UNIFIED)
        box->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    if (box->dstMemoryType == CU_MEMORYTYPE_UNIFIED)
        box->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
}
