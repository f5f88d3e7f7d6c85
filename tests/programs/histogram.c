/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram with shared and global atomics through the driver API. */
#include "prog.h"
#include "ref_histogram.h"

#include <string.h>

PROG_EMBED(histogram_ptx, "histogram.ptx");

int
main(int argc, char **argv)
{
    struct prog prog;
    unsigned char *in = util_alloc(HISTOGRAM_COUNT, 1);
    uint32_t expected[HISTOGRAM_BINS];
    uint32_t got[HISTOGRAM_BINS];
    unsigned count = HISTOGRAM_COUNT;
    CUdeviceptr dev_in, dev_bins;
    size_t wrong = 0;

    histogram_fill(in, expected);
    prog_begin(&prog, argc, argv, "histogram", histogram_ptx);
    CUfunction kernel = prog_kernel(&prog, "histogram");

    CU(cuMemAlloc(&dev_in, HISTOGRAM_COUNT));
    CU(cuMemAlloc(&dev_bins, sizeof(got)));
    CU(cuMemcpyHtoD(dev_in, in, HISTOGRAM_COUNT));
    void *params[] = {&dev_in, &count, &dev_bins};

    for (int round = 0; round < prog.rounds; round++) {
        CU(cuMemsetD32(dev_bins, 0, HISTOGRAM_BINS));
        CU(cuLaunchKernel(kernel, HISTOGRAM_BLOCKS, 1, 1, HISTOGRAM_BLOCK, 1, 1, 0,
                          NULL, params, NULL));
        memset(got, 0xff, sizeof(got));
        CU(cuMemcpyDtoH(got, dev_bins, sizeof(got)));
        wrong += histogram_count_wrong(expected, got);
    }
    CU(cuMemFree(dev_in));
    CU(cuMemFree(dev_bins));
    prog_end(&prog);
    free(in);
    return histogram_report(wrong, got);
}
