/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What batches of hints need to know of managed memory.  Lock held.
 */
#ifndef SG_MANAGED_H
#define SG_MANAGED_H

#include "cuda_abi.h"
#include "gp_base.h"

/* All of the range is managed memory; @loc (or NULL) is a place it can be sent to. */
CUresult sg_managed_check(CUdeviceptr ptr, size_t count, const CUmemLocation *loc);
/* Remembers where a checked range was sent last; CUDA_ERROR_OUT_OF_MEMORY. */
CUresult sg_managed_prefetched(CUdeviceptr ptr, size_t count, const CUmemLocation *loc);

#endif
