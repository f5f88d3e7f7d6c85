/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.cu as C, one thread after the other, for gcc -O3: what the
 * executor is measured against.  Functions of one thread are inlined into the loop.
 * Compiled twice, as REF_TABLE says: with and without -ffast-math.
 */
#include "ref.h"

#include <math.h>
#include <string.h>

static void
fma_chain(float *out, int threads, float a, int rounds)
{
    for (int t = 0; t < threads; t++) {
        float r[16], sum = 0;
        for (int k = 0; k < 16; k++)
            r[k] = (float)k;
        for (int i = 0; i < rounds; i++)
            for (int k = 0; k < 16; k++)
                r[k] = fmaf(r[k], a, 0.5f);
        for (int k = 0; k < 16; k++)
            sum += r[k];
        out[t] = sum;
    }
}

static void
saxpy(const float *x, float *y, float a, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void
matmul(const float *a, const float *b, float *c, int n)
{
    for (int row = 0; row < n; row++) {
        for (int col = 0; col < n; col++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum = fmaf(a[row * n + k], b[k * n + col], sum);
            c[row * n + col] = sum;
        }
    }
}

/* By tiles of 64 x 64, whose rows the compiler turns into vectors. */
static void
matmul_tiled(const float *a, const float *b, float *c, int n)
{
    enum { TILE = 64 };

    memset(c, 0, sizeof(*c) * (size_t)n * (size_t)n);
    for (int k0 = 0; k0 < n; k0 += TILE)
        for (int col0 = 0; col0 < n; col0 += TILE)
            for (int row = 0; row < n; row++)
                for (int k = k0; k < k0 + TILE && k < n; k++)
                    for (int col = col0; col < col0 + TILE && col < n; col++)
                        c[row * n + col] =
                            fmaf(a[row * n + k], b[k * n + col], c[row * n + col]);
}

static void
collatz(unsigned *out, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned v = (unsigned)i + 1, steps = 0;
        while (v != 1) {
            v = v & 1 ? 3 * v + 1 : v >> 1;
            steps++;
        }
        out[i] = steps;
    }
}

/* Contracted where clang contracts the kernel, so that the counts are the same. */
static void
mandelbrot(unsigned *out, int w, int h, int limit)
{
    for (int i = 0; i < w * h; i++) {
        float cx = (float)(i % w) * 3.0f / (float)w - 2.0f;
        float cy = (float)(i / w) * 2.0f / (float)h - 1.0f;
        float x = 0, y = 0;
        unsigned n = 0;
        while (n < (unsigned)limit && x * x + y * y < 4.0f) {
            float t = x * x - y * y + cx;
            y = 2 * x * y + cy;
            x = t;
            n++;
        }
        out[i] = n;
    }
}

const struct ref REF_TABLE = {
    .fma_chain = fma_chain,
    .saxpy = saxpy,
    .matmul = matmul,
    .matmul_tiled = matmul_tiled,
    .collatz = collatz,
    .mandelbrot = mandelbrot,
};
