/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-stage pipeline: chunks, keys and the CPU's answer, for every variant.
 *
 * The stages are permutations that do not commute, and each chunk has its own
 * key, so a stage that ran early, late or on the wrong chunk shows.
 */
#ifndef PROGRAMS_REF_PIPELINE_H
#define PROGRAMS_REF_PIPELINE_H

#include "util.h"

#define PIPELINE_CHUNKS 8u
#define PIPELINE_CHUNK 20011u
#define PIPELINE_BUFFERS 2u
#define PIPELINE_BLOCK 256u
#define PIPELINE_BLOCKS ((PIPELINE_CHUNK + PIPELINE_BLOCK - 1) / PIPELINE_BLOCK)
#define PIPELINE_CHUNK_BYTES (PIPELINE_CHUNK * sizeof(uint32_t))
#define PIPELINE_BYTES (PIPELINE_CHUNKS * PIPELINE_CHUNK_BYTES)

static unsigned
pipeline_key(unsigned chunk)
{
    return 0x9e3779b9u * (chunk + 1);
}

static unsigned
pipeline_bits(unsigned chunk)
{
    return 1 + chunk % 31;
}

static void
pipeline_fill(uint32_t *in)
{
    uint64_t random = 6;

    for (size_t i = 0; i < PIPELINE_CHUNKS * PIPELINE_CHUNK; i++)
        in[i] = util_random(&random);
}

static size_t
pipeline_count_wrong(const uint32_t *in, const uint32_t *out)
{
    size_t wrong = 0;

    for (unsigned chunk = 0; chunk < PIPELINE_CHUNKS; chunk++) {
        unsigned bits = pipeline_bits(chunk);

        for (unsigned i = 0; i < PIPELINE_CHUNK; i++) {
            size_t at = (size_t)chunk * PIPELINE_CHUNK + i;
            uint32_t value = (in[at] ^ pipeline_key(chunk)) * 2654435761u;

            value = (value << bits | value >> (32 - bits)) + i;
            wrong += out[at] != value;
        }
    }
    return wrong;
}

static int
pipeline_report(size_t wrong, const uint32_t *out)
{
    return util_report("pipeline", wrong, "%u chunks on 2 streams, checksum %08x",
                       PIPELINE_CHUNKS, util_checksum(out, PIPELINE_BYTES));
}

#endif
