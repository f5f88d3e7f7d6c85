/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetErrorName and cuGetErrorString.  The texts are constant and never freed; they
 * need no server and no cuInit.
 */
#include "cuda_errors.h"
#include "stub_manual.h"

CUresult
stub_impl_cuGetErrorName(CUresult error, const char **pStr)
{
    const char *name = NULL, *text;
    bool known = cuda_error_words(error, &name, &text);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = name;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
stub_impl_cuGetErrorString(CUresult error, const char **pStr)
{
    const char *name, *text = NULL;
    bool known = cuda_error_words(error, &name, &text);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = text;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
