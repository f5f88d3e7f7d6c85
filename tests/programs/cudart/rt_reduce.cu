/* SPDX-License-Identifier: Apache-2.0 */
/* Sum and maximum by warp shuffles through the CUDA runtime. */
#include "reduce.cu"
#include "ref_reduce.h"
#include "rt.h"

int
main(int argc, char **argv)
{
    int rounds = util_rounds(argc, argv);
    uint32_t *in = rt_host<uint32_t>(REDUCE_BYTES);
    struct reduce_result expected = reduce_fill(in);
    struct reduce_result got = {0, 0};
    size_t wrong = 0;

    uint32_t *dev_in = rt_device<uint32_t>(REDUCE_BYTES);
    uint32_t *dev_out = rt_device<uint32_t>(sizeof(got));
    RT(cudaMemcpy(dev_in, in, REDUCE_BYTES, cudaMemcpyHostToDevice));

    for (int round = 0; round < rounds; round++) {
        RT(cudaMemset(dev_out, 0, sizeof(got)));
        reduce<<<REDUCE_BLOCKS, REDUCE_BLOCK>>>(dev_in, REDUCE_COUNT, dev_out);
        RT(cudaGetLastError());
        RT(cudaDeviceSynchronize());
        RT(cudaMemcpy(&got, dev_out, sizeof(got), cudaMemcpyDeviceToHost));
        wrong += got.sum != expected.sum;
        wrong += got.max != expected.max;
    }
    RT(cudaFree(dev_in));
    RT(cudaFree(dev_out));
    free(in);
    return reduce_report(wrong, got);
}
