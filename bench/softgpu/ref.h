/* SPDX-License-Identifier: Apache-2.0 */
/* Plain C versions of kernels.cu; compiled -O3 for the machine at hand. */
#ifndef BENCH_SOFTGPU_REF_H
#define BENCH_SOFTGPU_REF_H

struct ref {
    void (*fma_chain)(float *out, int threads, float a, int rounds);
    void (*saxpy)(const float *x, float *y, float a, int n);
    void (*matmul)(const float *a, const float *b, float *c, int n);
    void (*matmul_tiled)(const float *a, const float *b, float *c, int n);
    void (*collatz)(unsigned *out, int n);
    void (*mandelbrot)(unsigned *out, int w, int h, int limit);
};

extern const struct ref ref_plain; /* what ISO C computes */
extern const struct ref ref_fast;  /* with -ffast-math: sums in any order */

#endif
