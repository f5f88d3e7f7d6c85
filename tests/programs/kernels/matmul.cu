/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiled matrix multiply, row-major: c[m][n] = a[m][k] * b[k][n].
 *
 * Tiles go through shared memory with a barrier on each side of their use; no
 * dimension needs to be a multiple of the tile, so barriers are reached by
 * threads that have no element of their own.
 */
#include "device.h"

#define TILE 16

KERNEL
matmul(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE + 1];
    unsigned row = blockIdx.y * TILE + threadIdx.y;
    unsigned col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    for (unsigned base = 0; base < k; base += TILE) {
        unsigned ka = base + threadIdx.x;
        unsigned kb = base + threadIdx.y;

        tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
        __syncthreads();

        for (unsigned i = 0; i < TILE; i++)
            sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }

    if (row < m && col < n)
        c[row * n + col] = sum;
}
