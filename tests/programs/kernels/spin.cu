/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for tests of limits: one that never ends, one that goes astray. */
#include "device.h"

/* Runs until somebody writes to word[0]; nobody does. */
KERNEL
spin(volatile unsigned *word, unsigned n)
{
    while (word[0] == n)
        ;
}

/* Writes far outside of every allocation. */
KERNEL
astray(unsigned *word, unsigned n)
{
    word[0x1000000000ull + n] = n;
}

/* word[i] += n, to see that work was done, and done once. */
KERNEL
bump(unsigned *word, unsigned n)
{
    word[blockIdx.x * blockDim.x + threadIdx.x] += n;
}
