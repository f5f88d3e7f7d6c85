/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram of bytes: input and the CPU's answer, for every variant. */
#ifndef PROGRAMS_REF_HISTOGRAM_H
#define PROGRAMS_REF_HISTOGRAM_H

#include "util.h"

#define HISTOGRAM_COUNT 250013u
#define HISTOGRAM_BINS 256u
#define HISTOGRAM_BLOCK 128u
#define HISTOGRAM_BLOCKS 20u

/* The smaller of two random bytes: low bins are crowded, so atomics collide. */
static void
histogram_fill(unsigned char *in, uint32_t *expected)
{
    uint64_t random = 4;

    for (size_t i = 0; i < HISTOGRAM_BINS; i++)
        expected[i] = 0;
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++) {
        unsigned one = util_random(&random) % HISTOGRAM_BINS;
        unsigned two = util_random(&random) % HISTOGRAM_BINS;

        in[i] = (unsigned char)(one < two ? one : two);
        expected[in[i]]++;
    }
}

static size_t
histogram_count_wrong(const uint32_t *expected, const uint32_t *got)
{
    size_t wrong = 0;

    for (size_t i = 0; i < HISTOGRAM_BINS; i++)
        wrong += got[i] != expected[i];
    return wrong;
}

static int
histogram_report(size_t wrong, const uint32_t *got)
{
    return util_report("histogram", wrong, "%u bytes in %u bins, checksum %08x",
                       HISTOGRAM_COUNT, HISTOGRAM_BINS,
                       util_checksum(got, HISTOGRAM_BINS * sizeof(uint32_t)));
}

#endif
