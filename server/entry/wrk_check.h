/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `gpupool-worker --probe --check N`: does card N work?  It is used once as a program
 * would: a context, memory, a fill, a copy back.  One thread; the process then ends.
 */
#ifndef WRK_CHECK_H
#define WRK_CHECK_H

#include <stdbool.h>

struct drv;

/* The exit status: 0, or 1 after a line on stdout that says what is wrong.  A card that
 * is full, so that nothing can be said, counts as well. */
int wrk_check(const struct drv *drv, int card);

#endif
