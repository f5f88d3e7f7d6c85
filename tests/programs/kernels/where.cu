/* SPDX-License-Identifier: Apache-2.0 */
/* Which multiprocessors a grid ran on. */
#include "device.h"

/* used[m] = 1 for each multiprocessor m that a block of the grid saw. */
KERNEL
where(unsigned *used)
{
    unsigned m;

    asm volatile("mov.u32 %0, %%smid;" : "=r"(m));
    for (int i = 0; i < 8; i++)
        asm volatile("nanosleep.u32 500000;"); /* so that others take blocks as well */
    used[m] = 1;
}
