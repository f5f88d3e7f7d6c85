/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sum and maximum of an array by warp shuffles.
 *
 * Each warp folds its lanes with shuffles, the first warp folds the warps'
 * results from shared memory, and one thread per block adds to the global
 * result: sum modulo 2^32 and maximum, both exact in any order.
 */
#include "device.h"

#define FULL_WARP 0xffffffffu

static __device__ unsigned
warp_sum(unsigned value)
{
    for (unsigned delta = 16; delta > 0; delta /= 2)
        value += __shfl_down_sync(FULL_WARP, value, delta);
    return value;
}

static __device__ unsigned
warp_max(unsigned value)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        unsigned other = __shfl_xor_sync(FULL_WARP, value, lanes);

        value = other > value ? other : value;
    }
    return value;
}

KERNEL
reduce(const unsigned *in, unsigned n, unsigned *sum_max)
{
    __shared__ unsigned sums[32];
    __shared__ unsigned maxima[32];
    unsigned lane = threadIdx.x % 32;
    unsigned warp = threadIdx.x / 32;
    unsigned warps = blockDim.x / 32;
    unsigned step = gridDim.x * blockDim.x;
    unsigned sum = 0;
    unsigned max = 0;

    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        sum += in[i];
        max = in[i] > max ? in[i] : max;
    }
    sum = warp_sum(sum);
    max = warp_max(max);
    if (lane == 0) {
        sums[warp] = sum;
        maxima[warp] = max;
    }
    __syncthreads();
    if (warp != 0)
        return;

    sum = warp_sum(lane < warps ? sums[lane] : 0);
    max = warp_max(lane < warps ? maxima[lane] : 0);
    if (lane == 0) {
        atomicAdd(&sum_max[0], sum);
        atomicMax(&sum_max[1], max);
    }
}
