/* SPDX-License-Identifier: Apache-2.0 */
/* Mandelbrot set (divergence) through the driver API; a struct goes by value. */
#include "prog.h"
#include "ref_mandelbrot.h"

#include <string.h>

PROG_EMBED(mandelbrot_ptx, "mandelbrot.ptx");

int
main(int argc, char **argv)
{
    struct prog prog;
    struct mandelbrot_view view = mandelbrot_whole();
    unsigned short *rounds = util_alloc(1, MANDELBROT_BYTES);
    CUdeviceptr dev_rounds;
    size_t wrong = 0;
    int status;

    prog_begin(&prog, argc, argv, "mandelbrot", mandelbrot_ptx);
    CUfunction kernel = prog_kernel(&prog, "mandelbrot");

    CU(cuMemAlloc(&dev_rounds, MANDELBROT_BYTES));
    void *params[] = {&view, &dev_rounds};

    for (int round = 0; round < prog.rounds; round++) {
        memset(rounds, 0xff, MANDELBROT_BYTES);
        CU(cuMemcpyHtoD(dev_rounds, rounds, MANDELBROT_BYTES));
        CU(cuLaunchKernel(kernel, MANDELBROT_GRID_X, MANDELBROT_GRID_Y, 1,
                          MANDELBROT_BLOCK_X, MANDELBROT_BLOCK_Y, 1, 0, NULL, params,
                          NULL));
        CU(cuMemcpyDtoH(rounds, dev_rounds, MANDELBROT_BYTES));
        wrong += mandelbrot_count_wrong(&view, rounds);
    }
    CU(cuMemFree(dev_rounds));
    prog_end(&prog);

    status = mandelbrot_report(wrong, rounds);
    free(rounds);
    return status;
}
