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
    return sg_get_proc_address(symbol, pfn, cudaVersion, flags, symbolStatus);
}

SG_CALL(cuGetProcAddress, const char *symbol, void **pfn, int cudaVersion,
        cuuint64_t flags)
{
    return sg_get_proc_address(symbol, pfn, cudaVersion, flags, NULL);
}
