/* SPDX-License-Identifier: Apache-2.0 */
/* The five kernels by which the executor is measured; ref.c has the same in C. */
#define GLOBAL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))

static __attribute__((device)) inline int
thread_index(void)
{
    return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
           __nvvm_read_ptx_sreg_tid_x();
}

GLOBAL
fma_chain(float *out, float a, int rounds)
{
    float r[16], sum = 0;

#pragma unroll
    for (int k = 0; k < 16; k++)
        r[k] = (float)k;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++)
            r[k] = __builtin_fmaf(r[k], a, 0.5f);
    }
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += r[k];
    out[thread_index()] = sum;
}

GLOBAL
saxpy(const float *x, float *y, float a, int n)
{
    int i = thread_index();

    if (i < n)
        y[i] = a * x[i] + y[i];
}

GLOBAL
matmul(const float *a, const float *b, float *c, int n)
{
    SHARED float at[16][16], bt[16][16];
    int x = __nvvm_read_ptx_sreg_tid_x() & 15, y = __nvvm_read_ptx_sreg_tid_x() >> 4;
    int tiles = n / 16;
    int col = __nvvm_read_ptx_sreg_ctaid_x() % tiles * 16 + x;
    int row = __nvvm_read_ptx_sreg_ctaid_x() / tiles * 16 + y;
    float sum = 0;

    for (int k = 0; k < n; k += 16) {
        at[y][x] = a[row * n + k + x];
        bt[y][x] = b[(k + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            sum += at[y][j] * bt[j][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

GLOBAL
collatz(unsigned *out, int n)
{
    int i = thread_index();
    unsigned v = i + 1, steps = 0;

    if (i >= n)
        return;
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v >> 1;
        steps++;
    }
    out[i] = steps;
}

GLOBAL
mandelbrot(unsigned *out, int w, int h, int limit)
{
    int i = thread_index();
    float cx, cy, x = 0, y = 0;
    unsigned n = 0;

    if (i >= w * h)
        return;
    cx = (float)(i % w) * 3.0f / (float)w - 2.0f;
    cy = (float)(i / w) * 2.0f / (float)h - 1.0f;
    while (n < (unsigned)limit && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        n++;
    }
    out[i] = n;
}
