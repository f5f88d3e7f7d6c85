/* SPDX-License-Identifier: Apache-2.0 */
/* Tiled matrix multiply through the CUDA runtime. */
#include "matmul.cu"
#include "ref_matmul.h"
#include "rt.h"

int
main(int argc, char **argv)
{
    int rounds = util_rounds(argc, argv);
    float *a = rt_host<float>(MATMUL_A_BYTES);
    float *b = rt_host<float>(MATMUL_B_BYTES);
    float *c = rt_host<float>(MATMUL_C_BYTES);
    dim3 grid(MATMUL_GRID_X, MATMUL_GRID_Y);
    dim3 block(MATMUL_TILE, MATMUL_TILE);
    size_t wrong = 0;

    matmul_fill(a, b);
    float *dev_a = rt_device<float>(MATMUL_A_BYTES);
    float *dev_b = rt_device<float>(MATMUL_B_BYTES);
    float *dev_c = rt_device<float>(MATMUL_C_BYTES);
    RT(cudaMemcpy(dev_a, a, MATMUL_A_BYTES, cudaMemcpyHostToDevice));
    RT(cudaMemcpy(dev_b, b, MATMUL_B_BYTES, cudaMemcpyHostToDevice));

    for (int round = 0; round < rounds; round++) {
        RT(cudaMemset(dev_c, 0xff, MATMUL_C_BYTES));
        matmul<<<grid, block>>>(dev_a, dev_b, dev_c, MATMUL_M, MATMUL_N, MATMUL_K);
        RT(cudaGetLastError());
        RT(cudaMemcpy(c, dev_c, MATMUL_C_BYTES, cudaMemcpyDeviceToHost));
        wrong += matmul_count_wrong(a, b, c);
    }
    RT(cudaFree(dev_a));
    RT(cudaFree(dev_b));
    RT(cudaFree(dev_c));

    int status = matmul_report(wrong, c);
    free(a);
    free(b);
    free(c);
    return status;
}
