/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histogram of bytes: atomics in shared memory within a block, then one global
 * atomic per bin and block.
 */
#include "device.h"

#define BINS 256

KERNEL
histogram(const unsigned char *in, unsigned n, unsigned *bins)
{
    __shared__ unsigned local[BINS];
    unsigned step = gridDim.x * blockDim.x;

    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        local[i] = 0;
    __syncthreads();

    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        atomicAdd(&local[in[i]], 1);
    __syncthreads();

    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        if (local[i] != 0)
            atomicAdd(&bins[i], local[i]);
}
