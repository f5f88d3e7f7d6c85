/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime-API test programs share: the check around every call.
 *
 * These are ordinary .cu programs, built by nvcc where there is one, with the
 * same kernels and the same expected results as the driver-API programs.  They
 * are the "nobody rebuilt it" case: static and shared CUDA runtime, <<<>>>,
 * registration of images before main().
 */
#ifndef PROGRAMS_CUDART_RT_H
#define PROGRAMS_CUDART_RT_H

#include "util.h"

#define RT(call) rt_check(call, #call, __FILE__, __LINE__)

static inline void
rt_check(cudaError_t result, const char *call, const char *file, int line)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, cudaGetErrorName(result),
            (int)result);
    exit(2);
}

template <typename type>
static inline type *
rt_device(size_t bytes)
{
    void *memory = NULL;

    RT(cudaMalloc(&memory, bytes));
    return static_cast<type *>(memory);
}

template <typename type>
static inline type *
rt_host(size_t bytes)
{
    return static_cast<type *>(util_alloc(1, bytes));
}

#endif
