/* SPDX-License-Identifier: Apache-2.0 */
/* Vector addition through the driver API, checked element by element. */
#include "prog.h"
#include "ref_vecadd.h"

PROG_EMBED(vecadd_ptx, "vecadd.ptx");

int
main(int argc, char **argv)
{
    struct prog prog;
    size_t bytes = VECADD_COUNT * sizeof(float);
    float *a = util_alloc(1, bytes);
    float *b = util_alloc(1, bytes);
    float *sum = util_alloc(1, bytes);
    CUdeviceptr dev_a, dev_b, dev_sum;
    unsigned count = VECADD_COUNT;
    size_t wrong = 0;
    int status;

    vecadd_fill(a, b);
    prog_begin(&prog, argc, argv, "vecadd", vecadd_ptx);
    CUfunction kernel = prog_kernel(&prog, "vecadd");

    CU(cuMemAlloc(&dev_a, bytes));
    CU(cuMemAlloc(&dev_b, bytes));
    CU(cuMemAlloc(&dev_sum, bytes));
    void *params[] = {&dev_a, &dev_b, &dev_sum, &count};

    for (int round = 0; round < prog.rounds; round++) {
        CU(cuMemcpyHtoD(dev_a, a, bytes));
        CU(cuMemcpyHtoD(dev_b, b, bytes));
        CU(cuMemsetD32(dev_sum, 0, VECADD_COUNT));
        CU(cuLaunchKernel(kernel, VECADD_BLOCKS, 1, 1, VECADD_BLOCK, 1, 1, 0, NULL,
                          params, NULL));
        CU(cuMemcpyDtoH(sum, dev_sum, bytes));
        wrong += vecadd_count_wrong(a, b, sum);
    }
    CU(cuMemFree(dev_a));
    CU(cuMemFree(dev_b));
    CU(cuMemFree(dev_sum));
    prog_end(&prog);

    status = vecadd_report(wrong, sum);
    free(a);
    free(b);
    free(sum);
    return status;
}
