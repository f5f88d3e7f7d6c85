/* SPDX-License-Identifier: Apache-2.0 */
/* Sum modulo 2^32 and maximum: input and the CPU's answer, for every variant. */
#ifndef PROGRAMS_REF_REDUCE_H
#define PROGRAMS_REF_REDUCE_H

#include "util.h"

#define REDUCE_COUNT 300007u
#define REDUCE_BLOCK 256u
#define REDUCE_BLOCKS 24u
#define REDUCE_BYTES (REDUCE_COUNT * sizeof(uint32_t))

struct reduce_result {
    uint32_t sum, max;
};

static struct reduce_result
reduce_fill(uint32_t *in)
{
    struct reduce_result expected = {0, 0};
    uint64_t random = 3;

    for (size_t i = 0; i < REDUCE_COUNT; i++) {
        in[i] = util_random(&random);
        expected.sum += in[i];
        expected.max = in[i] > expected.max ? in[i] : expected.max;
    }
    return expected;
}

static int
reduce_report(size_t wrong, struct reduce_result got)
{
    return util_report("reduce", wrong, "%u values, sum %08x, max %08x", REDUCE_COUNT,
                       got.sum, got.max);
}

#endif
