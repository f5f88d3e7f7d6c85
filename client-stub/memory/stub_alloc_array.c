/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays are allocated: what captures forbid is looked for before. */
#include "stub_capture.h"
#include "stub_manual.h"

static CUresult
array_check(const void *ret_array, const void *desc)
{
    return ret_array && desc ? stub_capture_check() : CUDA_SUCCESS;
}

CUresult
stub_impl_cuArrayCreate_v2(CUarray *pHandle,
                           const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CUresult r = array_check(pHandle, pAllocateArray);

    return r == CUDA_SUCCESS ? stub_gen_cuArrayCreate_v2(pHandle, pAllocateArray) : r;
}

CUresult
stub_impl_cuArray3DCreate_v2(CUarray *pHandle,
                             const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    CUresult r = array_check(pHandle, pAllocateArray);

    return r == CUDA_SUCCESS ? stub_gen_cuArray3DCreate_v2(pHandle, pAllocateArray) : r;
}

CUresult
stub_impl_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                 const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                 unsigned int numMipmapLevels)
{
    CUresult r = array_check(pHandle, pMipmappedArrayDesc);

    return r == CUDA_SUCCESS ? stub_gen_cuMipmappedArrayCreate(
                                   pHandle, pMipmappedArrayDesc, numMipmapLevels)
                             : r;
}
