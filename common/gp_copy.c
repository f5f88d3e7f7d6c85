/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_copy.h"

void
gp_copy_in_steps(void *restrict to, const void *restrict from, size_t n)
{
    const uint8_t *source = from;
    uint8_t *target = to;

    for (; n > GP_COPY_STEP; n -= GP_COPY_STEP) {
        memcpy(target, source, GP_COPY_STEP);
        /* Else a compiler may make one copy of the loop again. */
        __asm__ volatile("" ::: "memory");
        target += GP_COPY_STEP;
        source += GP_COPY_STEP;
    }
    memcpy(target, source, n);
}
