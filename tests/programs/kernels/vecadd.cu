/* SPDX-License-Identifier: Apache-2.0 */
/* Vector addition: one element per thread, the last block partly idle. */
#include "device.h"

KERNEL
vecadd(const float *a, const float *b, float *sum, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        sum[i] = a[i] + b[i];
}
