/* SPDX-License-Identifier: Apache-2.0 */
/* Tiled matrix multiply (shared memory, barriers) through the driver API. */
#include "prog.h"
#include "ref_matmul.h"

PROG_EMBED(matmul_ptx, "matmul.ptx");

int
main(int argc, char **argv)
{
    struct prog prog;
    float *a = util_alloc(1, MATMUL_A_BYTES);
    float *b = util_alloc(1, MATMUL_B_BYTES);
    float *c = util_alloc(1, MATMUL_C_BYTES);
    unsigned m = MATMUL_M, n = MATMUL_N, k = MATMUL_K;
    CUdeviceptr dev_a, dev_b, dev_c;
    size_t wrong = 0;
    int status;

    matmul_fill(a, b);
    prog_begin(&prog, argc, argv, "matmul", matmul_ptx);
    CUfunction kernel = prog_kernel(&prog, "matmul");

    CU(cuMemAlloc(&dev_a, MATMUL_A_BYTES));
    CU(cuMemAlloc(&dev_b, MATMUL_B_BYTES));
    CU(cuMemAlloc(&dev_c, MATMUL_C_BYTES));
    CU(cuMemcpyHtoD(dev_a, a, MATMUL_A_BYTES));
    CU(cuMemcpyHtoD(dev_b, b, MATMUL_B_BYTES));
    void *params[] = {&dev_a, &dev_b, &dev_c, &m, &n, &k};

    for (int round = 0; round < prog.rounds; round++) {
        CU(cuMemsetD8(dev_c, 0xff, MATMUL_C_BYTES));
        CU(cuLaunchKernel(kernel, MATMUL_GRID_X, MATMUL_GRID_Y, 1, MATMUL_TILE,
                          MATMUL_TILE, 1, 0, NULL, params, NULL));
        CU(cuMemcpyDtoH(c, dev_c, MATMUL_C_BYTES));
        wrong += matmul_count_wrong(a, b, c);
    }
    CU(cuMemFree(dev_a));
    CU(cuMemFree(dev_b));
    CU(cuMemFree(dev_c));
    prog_end(&prog);

    status = matmul_report(wrong, c);
    free(a);
    free(b);
    free(c);
    return status;
}
