/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that use page-locked memory of the host at the host's address. */
#include "device.h"

struct table {
    const unsigned *in;
    unsigned *out;
    unsigned n;
};

/* out[i] = in[i] + 1 */
KERNEL
add_one(const unsigned *in, unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = in[i] + 1;
}

/* The same, with pointers that lie in memory. */
KERNEL
add_one_by_table(const struct table *t)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < t->n)
        t->out[i] = t->in[i] + 1;
}

/* For round 1 to n: waits for *go to say the round, answers in *done. */
KERNEL
answer(const volatile unsigned *go, volatile unsigned *done, unsigned n)
{
    for (unsigned round = 1; round <= n; round++) {
        while (*go != round)
            ;
        *done = round;
    }
}

/* Waits for *go, then stores. */
KERNEL
store_after(const volatile unsigned *go, volatile unsigned *to, unsigned value)
{
    while (*go != value)
        ;
    *to = value;
}

/* Once *go is 1: says what it reads in memory[0], plus 100, and stores 7 in memory[64];
 * ends once *go is 2. */
KERNEL
look_and_store(const volatile unsigned *go, volatile unsigned *memory,
               volatile unsigned *said)
{
    while (*go != 1)
        ;
    memory[64] = 7;
    *said = memory[0] + 100;
    while (*go != 2)
        ;
}
