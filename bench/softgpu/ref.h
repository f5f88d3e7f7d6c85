/* SPDX-License-Identifier: Apache-2.0 */
/* Plain C versions of kernels.cu; compiled -O3 for the machine at hand. */
#ifndef BENCH_SOFTGPU_REF_H
#define BENCH_SOFTGPU_REF_H

void ref_fma_chain(float *out, int threads, float a, int rounds);
void ref_saxpy(const float *x, float *y, float a, int n);
void ref_matmul(const float *a, const float *b, float *c, int n);
void ref_collatz(unsigned *out, int n);
void ref_mandelbrot(unsigned *out, int w, int h, int limit);

#endif
