/* SPDX-License-Identifier: Apache-2.0 */
/* Which multiprocessors a grid ran on. */
#include "device.h"

static inline __device__ unsigned
multiprocessor(void)
{
    unsigned m;

    asm volatile("mov.u32 %0, %%smid;" : "=r"(m));
    return m;
}

/* used[m] = 1 for each multiprocessor m that a block of the grid saw. */
KERNEL
where(unsigned *used)
{
    for (int i = 0; i < 8; i++)
        asm volatile("nanosleep.u32 500000;"); /* so that others may take blocks */
    used[multiprocessor()] = 1;
}

/* The same for blocks that stay until @blocks of them have come: a grid of as many ends
 * only where all of them run at the same time.  One thread a block. */
KERNEL
meet(unsigned *used, volatile unsigned *came, unsigned blocks)
{
    used[multiprocessor()] = 1;
    atomicAdd((unsigned *)came, 1);
    while (*came < blocks)
        asm volatile("nanosleep.u32 1000;");
}
