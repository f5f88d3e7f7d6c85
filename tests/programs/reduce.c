/* SPDX-License-Identifier: Apache-2.0 */
/* Sum and maximum by warp shuffles through the driver API. */
#include "prog.h"
#include "ref_reduce.h"

PROG_EMBED(reduce_ptx, "reduce.ptx");

int
main(int argc, char **argv)
{
    struct prog prog;
    uint32_t *in = util_alloc(1, REDUCE_BYTES);
    struct reduce_result expected = reduce_fill(in);
    struct reduce_result got = {0, 0};
    unsigned count = REDUCE_COUNT;
    CUdeviceptr dev_in, dev_out;
    size_t wrong = 0;

    prog_begin(&prog, argc, argv, "reduce", reduce_ptx);
    CUfunction kernel = prog_kernel(&prog, "reduce");

    CU(cuMemAlloc(&dev_in, REDUCE_BYTES));
    CU(cuMemAlloc(&dev_out, sizeof(got)));
    CU(cuMemcpyHtoD(dev_in, in, REDUCE_BYTES));
    void *params[] = {&dev_in, &count, &dev_out};

    for (int round = 0; round < prog.rounds; round++) {
        CU(cuMemsetD32(dev_out, 0, 2));
        CU(cuLaunchKernel(kernel, REDUCE_BLOCKS, 1, 1, REDUCE_BLOCK, 1, 1, 0, NULL,
                          params, NULL));
        CU(cuCtxSynchronize());
        CU(cuMemcpyDtoH(&got, dev_out, sizeof(got)));
        wrong += got.sum != expected.sum;
        wrong += got.max != expected.max;
    }
    CU(cuMemFree(dev_in));
    CU(cuMemFree(dev_out));
    prog_end(&prog);
    free(in);
    return reduce_report(wrong, got);
}
