/* SPDX-License-Identifier: Apache-2.0 */
/* Vector addition through the CUDA runtime. */
#include "ref_vecadd.h"
#include "rt.h"
#include "vecadd.cu"

int
main(int argc, char **argv)
{
    int rounds = util_rounds(argc, argv);
    size_t bytes = VECADD_COUNT * sizeof(float);
    float *a = rt_host<float>(bytes);
    float *b = rt_host<float>(bytes);
    float *sum = rt_host<float>(bytes);
    size_t wrong = 0;

    vecadd_fill(a, b);
    float *dev_a = rt_device<float>(bytes);
    float *dev_b = rt_device<float>(bytes);
    float *dev_sum = rt_device<float>(bytes);

    for (int round = 0; round < rounds; round++) {
        RT(cudaMemcpy(dev_a, a, bytes, cudaMemcpyHostToDevice));
        RT(cudaMemcpy(dev_b, b, bytes, cudaMemcpyHostToDevice));
        RT(cudaMemset(dev_sum, 0, bytes));
        vecadd<<<VECADD_BLOCKS, VECADD_BLOCK>>>(dev_a, dev_b, dev_sum, VECADD_COUNT);
        RT(cudaGetLastError());
        RT(cudaMemcpy(sum, dev_sum, bytes, cudaMemcpyDeviceToHost));
        wrong += vecadd_count_wrong(a, b, sum);
    }
    RT(cudaFree(dev_a));
    RT(cudaFree(dev_b));
    RT(cudaFree(dev_sum));

    int status = vecadd_report(wrong, sum);
    free(a);
    free(b);
    free(sum);
    return status;
}
