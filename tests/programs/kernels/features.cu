/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the features program: module variables, constants, dynamic shared
 * memory, parameters of many sizes. */
#include "device.h"

extern "C" {
__constant__ unsigned feature_factor[4] = {1, 1, 1, 1};
__device__ unsigned feature_launches = 5;
__device__ unsigned long long feature_table[8];
}

/* data[i] *= feature_factor[i % 4]; one count per launch. */
KERNEL
feature_scale(unsigned *data, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        data[i] *= feature_factor[i % 4];
    if (i == 0)
        atomicAdd(&feature_launches, 1);
}

struct feature_mixed {
    char one;
    double real;
    short two[3];
};

/* Every parameter must arrive at its own place and size. */
KERNEL
feature_params(unsigned char a, double b, unsigned short c, struct feature_mixed d,
               unsigned long long *out, float e)
{
    out[0] = a;
    out[1] = (unsigned long long)(b * 2);
    out[2] = c;
    out[3] = (unsigned long long)d.one;
    out[4] = (unsigned long long)(d.real * 4);
    out[5] = (unsigned long long)d.two[0] + d.two[1] * 10 + d.two[2] * 100;
    out[6] = (unsigned long long)(e * 8);
}

extern "C" __global__ void __attribute__((launch_bounds(64)))
feature_bounded(unsigned *data)
{
    data[0] = 1;
}

extern __shared__ unsigned feature_dynamic[];

/* Reverses each block's part through dynamic shared memory. */
KERNEL
feature_reverse(unsigned *data)
{
    unsigned *mine = data + blockIdx.x * blockDim.x;

    feature_dynamic[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = feature_dynamic[blockDim.x - 1 - threadIdx.x];
}
