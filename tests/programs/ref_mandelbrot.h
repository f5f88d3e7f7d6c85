/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mandelbrot set: view and the CPU's answer, for every variant.
 *
 * No side contracts multiply-add (-ffp-contract=off, -fmad=false, plain SSE on
 * the CPU), so the rounds must agree exactly.
 */
#ifndef PROGRAMS_REF_MANDELBROT_H
#define PROGRAMS_REF_MANDELBROT_H

#include "util.h"

#define MANDELBROT_WIDTH 180u
#define MANDELBROT_HEIGHT 101u
#define MANDELBROT_LIMIT 200u
#define MANDELBROT_BLOCK_X 32u
#define MANDELBROT_BLOCK_Y 4u
#define MANDELBROT_GRID_X                                                              \
    ((MANDELBROT_WIDTH + MANDELBROT_BLOCK_X - 1) / MANDELBROT_BLOCK_X)
#define MANDELBROT_GRID_Y                                                              \
    ((MANDELBROT_HEIGHT + MANDELBROT_BLOCK_Y - 1) / MANDELBROT_BLOCK_Y)
#define MANDELBROT_BYTES (MANDELBROT_WIDTH * MANDELBROT_HEIGHT * sizeof(unsigned short))

#ifndef PROGRAMS_MANDELBROT_VIEW
#define PROGRAMS_MANDELBROT_VIEW
struct mandelbrot_view {
    float left, top, step;
    unsigned width, height, limit;
};
#endif

static struct mandelbrot_view
mandelbrot_whole(void)
{
    struct mandelbrot_view view = {
        -2.2f, -1.2f, 0.0195f, MANDELBROT_WIDTH, MANDELBROT_HEIGHT, MANDELBROT_LIMIT,
    };

    return view;
}

static unsigned short
mandelbrot_point(const struct mandelbrot_view *view, unsigned x, unsigned y)
{
    float cr = view->left + view->step * (float)x;
    float ci = view->top + view->step * (float)y;
    float zr = 0.0f;
    float zi = 0.0f;
    unsigned i = 0;

    while (i < view->limit && zr * zr + zi * zi <= 4.0f) {
        float next = zr * zr - zi * zi + cr;

        zi = 2.0f * zr * zi + ci;
        zr = next;
        i++;
    }
    return (unsigned short)i;
}

static size_t
mandelbrot_count_wrong(const struct mandelbrot_view *view, const unsigned short *rounds)
{
    size_t wrong = 0;

    for (unsigned y = 0; y < view->height; y++)
        for (unsigned x = 0; x < view->width; x++)
            wrong += rounds[y * view->width + x] != mandelbrot_point(view, x, y);
    return wrong;
}

static int
mandelbrot_report(size_t wrong, const unsigned short *rounds)
{
    return util_report("mandelbrot", wrong, "%ux%u pixels, checksum %08x",
                       MANDELBROT_WIDTH, MANDELBROT_HEIGHT,
                       util_checksum(rounds, MANDELBROT_BYTES));
}

#endif
