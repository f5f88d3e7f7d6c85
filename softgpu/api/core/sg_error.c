/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetErrorName and cuGetErrorString; the words are those of the client stub.
 */
#include "sg_core.h"

#include "cuda_errors.h"

SG_CALL(cuGetErrorName, CUresult error, const char **pStr)
{
    const char *name = NULL, *text;
    bool known = cuda_error_words(error, &name, &text);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = name;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_CALL(cuGetErrorString, CUresult error, const char **pStr)
{
    const char *name, *text = NULL;
    bool known = cuda_error_words(error, &name, &text);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = text;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
