/* SPDX-License-Identifier: Apache-2.0 */
/* Vector addition: size, input and the CPU's answer, for every variant. */
#ifndef PROGRAMS_REF_VECADD_H
#define PROGRAMS_REF_VECADD_H

#include "util.h"

#define VECADD_COUNT 200003u /* odd on purpose: the last block is partly idle */
#define VECADD_BLOCK 256u
#define VECADD_BLOCKS ((VECADD_COUNT + VECADD_BLOCK - 1) / VECADD_BLOCK)

static void
vecadd_fill(float *a, float *b)
{
    uint64_t random = 1;

    for (size_t i = 0; i < VECADD_COUNT; i++) {
        a[i] = (float)(util_random(&random) % 100000) / 8.0f;
        b[i] = (float)(util_random(&random) % 100000) / 3.0f;
    }
}

static size_t
vecadd_count_wrong(const float *a, const float *b, const float *sum)
{
    size_t wrong = 0;

    for (size_t i = 0; i < VECADD_COUNT; i++)
        wrong += sum[i] != a[i] + b[i];
    return wrong;
}

static int
vecadd_report(size_t wrong, const float *sum)
{
    return util_report("vecadd", wrong, "%u floats, checksum %08x", VECADD_COUNT,
                       util_checksum(sum, VECADD_COUNT * sizeof(float)));
}

#endif
