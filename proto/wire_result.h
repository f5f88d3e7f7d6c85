/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results that both ends must agree on: what a driver answers to a handle that is none,
 * so that it makes no difference which of them notices, and what no driver answers.
 * Pure function, any thread.
 */
#ifndef WIRE_RESULT_H
#define WIRE_RESULT_H

#include "cuda_abi_result.h"
#include "wire_format.h"

/* Not a driver's: the image that a load call named is not here (wire_image.h). */
#define WIRE_RESULT_WANT_IMAGE ((CUresult)0x67700001)

/* Not a driver's: nothing has happened, the copy would have to wait; send the bytes. */
#define WIRE_RESULT_SEND_BYTES ((CUresult)0x67700002)

static inline CUresult
wire_handle_error(enum wire_kind kind)
{
    switch (kind) {
    case WIRE_KIND_CTX:
        return CUDA_ERROR_INVALID_CONTEXT;
    case WIRE_KIND_GRAPH:
    case WIRE_KIND_GRAPHEXEC:
    case WIRE_KIND_GRAPHNODE:
    case WIRE_KIND_USEROBJ:
    case WIRE_KIND_MEMPOOL:
    case WIRE_KIND_MEMHANDLE:
    case WIRE_KIND_RESDESC:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_HANDLE;
    }
}

#endif
