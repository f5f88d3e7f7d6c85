/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram with atomics through the CUDA runtime. */
#include "histogram.cu"
#include "ref_histogram.h"
#include "rt.h"

#include <string.h>

int
main(int argc, char **argv)
{
    int rounds = util_rounds(argc, argv);
    unsigned char *in = rt_host<unsigned char>(HISTOGRAM_COUNT);
    uint32_t expected[HISTOGRAM_BINS];
    uint32_t got[HISTOGRAM_BINS];
    size_t wrong = 0;

    histogram_fill(in, expected);
    unsigned char *dev_in = rt_device<unsigned char>(HISTOGRAM_COUNT);
    uint32_t *dev_bins = rt_device<uint32_t>(sizeof(got));
    RT(cudaMemcpy(dev_in, in, HISTOGRAM_COUNT, cudaMemcpyHostToDevice));

    for (int round = 0; round < rounds; round++) {
        RT(cudaMemset(dev_bins, 0, sizeof(got)));
        histogram<<<HISTOGRAM_BLOCKS, HISTOGRAM_BLOCK>>>(dev_in, HISTOGRAM_COUNT,
                                                         dev_bins);
        RT(cudaGetLastError());
        memset(got, 0xff, sizeof(got));
        RT(cudaMemcpy(got, dev_bins, sizeof(got), cudaMemcpyDeviceToHost));
        wrong += histogram_count_wrong(expected, got);
    }
    RT(cudaFree(dev_in));
    RT(cudaFree(dev_bins));
    free(in);
    return histogram_report(wrong, got);
}
