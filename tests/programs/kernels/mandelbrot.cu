/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escape-time Mandelbrot set: neighbouring threads leave the loop after very
 * different numbers of rounds, which is what divergence handling is for.
 */
#include "device.h"

/* The same as in ref_mandelbrot.h, which this file does without: that one needs
 * the C library's headers. */
#ifndef PROGRAMS_MANDELBROT_VIEW
#define PROGRAMS_MANDELBROT_VIEW
struct mandelbrot_view {
    float left, top, step;
    unsigned width, height, limit;
};
#endif

KERNEL
mandelbrot(struct mandelbrot_view view, unsigned short *rounds)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;

    if (x >= view.width || y >= view.height)
        return;

    float cr = view.left + view.step * (float)x;
    float ci = view.top + view.step * (float)y;
    float zr = 0.0f;
    float zi = 0.0f;
    unsigned i = 0;

    while (i < view.limit && zr * zr + zi * zi <= 4.0f) {
        float next = zr * zr - zi * zi + cr;

        zi = 2.0f * zr * zi + ci;
        zr = next;
        i++;
    }
    rounds[y * view.width + x] = (unsigned short)i;
}
