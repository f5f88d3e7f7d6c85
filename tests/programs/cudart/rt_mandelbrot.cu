/* SPDX-License-Identifier: Apache-2.0 */
/* Mandelbrot set through the CUDA runtime. */
#include "mandelbrot.cu"
#include "ref_mandelbrot.h"
#include "rt.h"

#include <string.h>

int
main(int argc, char **argv)
{
    int count = util_rounds(argc, argv);
    struct mandelbrot_view view = mandelbrot_whole();
    unsigned short *rounds = rt_host<unsigned short>(MANDELBROT_BYTES);
    dim3 grid(MANDELBROT_GRID_X, MANDELBROT_GRID_Y);
    dim3 block(MANDELBROT_BLOCK_X, MANDELBROT_BLOCK_Y);
    size_t wrong = 0;

    unsigned short *dev_rounds = rt_device<unsigned short>(MANDELBROT_BYTES);

    for (int round = 0; round < count; round++) {
        memset(rounds, 0xff, MANDELBROT_BYTES);
        RT(cudaMemcpy(dev_rounds, rounds, MANDELBROT_BYTES, cudaMemcpyHostToDevice));
        mandelbrot<<<grid, block>>>(view, dev_rounds);
        RT(cudaGetLastError());
        RT(cudaMemcpy(rounds, dev_rounds, MANDELBROT_BYTES, cudaMemcpyDeviceToHost));
        wrong += mandelbrot_count_wrong(&view, rounds);
    }
    RT(cudaFree(dev_rounds));

    int status = mandelbrot_report(wrong, rounds);
    free(rounds);
    return status;
}
