/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported forms of cuGetProcAddress (see sg_proc.c).
 */
#include "sg_core.h"

CUresult sg_get_proc_address(const char *symbol, void **pfn, int version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *status);

SG_CALL(cuGetProcAddress_v2, const char *symbol, void **pfn, int cudaVersion,
        cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    CUdriverProcAddressQueryResult status;
    CUresult rc = sg_get_proc_address(symbol, pfn, cudaVersion, flags, &status);

    if (rc == CUDA_SUCCESS && symbolStatus)
        *symbolStatus = status;
    return rc;
}

/* The first version has no status, so that a name without a function is an error. */

SG_CALL(cuGetProcAddress, const char *symbol, void **pfn, int cudaVersion,
        cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *fn = NULL;
    CUresult rc = sg_get_proc_address(symbol, &fn, cudaVersion, flags, &status);

    if (rc != CUDA_SUCCESS || !pfn)
        return rc != CUDA_SUCCESS ? rc : CUDA_ERROR_INVALID_VALUE;
    if (status != CU_GET_PROC_ADDRESS_SUCCESS)
        return CUDA_ERROR_NOT_FOUND;
    *pfn = fn;
    return CUDA_SUCCESS;
}
