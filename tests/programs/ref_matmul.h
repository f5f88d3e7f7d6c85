/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix multiply: shape, input and the CPU's answer, for every variant.
 *
 * The entries are small integers, so every product and sum is exact in a float
 * and no order of additions can excuse a difference.
 */
#ifndef PROGRAMS_REF_MATMUL_H
#define PROGRAMS_REF_MATMUL_H

#include "util.h"

#define MATMUL_M 130u
#define MATMUL_N 97u
#define MATMUL_K 75u
#define MATMUL_TILE 16u
#define MATMUL_GRID_X ((MATMUL_N + MATMUL_TILE - 1) / MATMUL_TILE)
#define MATMUL_GRID_Y ((MATMUL_M + MATMUL_TILE - 1) / MATMUL_TILE)

#define MATMUL_A_BYTES (MATMUL_M * MATMUL_K * sizeof(float))
#define MATMUL_B_BYTES (MATMUL_K * MATMUL_N * sizeof(float))
#define MATMUL_C_BYTES (MATMUL_M * MATMUL_N * sizeof(float))

static void
matmul_fill(float *a, float *b)
{
    uint64_t random = 2;

    for (size_t i = 0; i < MATMUL_M * MATMUL_K; i++)
        a[i] = (float)(util_random(&random) % 64) - 32.0f;
    for (size_t i = 0; i < MATMUL_K * MATMUL_N; i++)
        b[i] = (float)(util_random(&random) % 64) - 32.0f;
}

static size_t
matmul_count_wrong(const float *a, const float *b, const float *c)
{
    size_t wrong = 0;

    for (size_t row = 0; row < MATMUL_M; row++) {
        for (size_t col = 0; col < MATMUL_N; col++) {
            float sum = 0.0f;

            for (size_t i = 0; i < MATMUL_K; i++)
                sum += a[row * MATMUL_K + i] * b[i * MATMUL_N + col];
            wrong += sum != c[row * MATMUL_N + col];
        }
    }
    return wrong;
}

static int
matmul_report(size_t wrong, const float *c)
{
    return util_report("matmul", wrong, "%ux%ux%u, checksum %08x", MATMUL_M, MATMUL_N,
                       MATMUL_K, util_checksum(c, MATMUL_C_BYTES));
}

#endif
