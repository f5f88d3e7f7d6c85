/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two stages of the pipeline program: each is a permutation of 32-bit
 * values, and they do not commute, so a stage that ran too early or twice shows
 * in the result.
 */
#include "device.h"

KERNEL
stage_scramble(unsigned *data, unsigned n, unsigned key)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        data[i] = (data[i] ^ key) * 2654435761u;
}

KERNEL
stage_rotate(unsigned *data, unsigned n, unsigned bits)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        data[i] = (data[i] << bits | data[i] >> (32 - bits)) + i;
}
