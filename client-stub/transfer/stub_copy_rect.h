/* SPDX-License-Identifier: Apache-2.0 */
/* What copies of rectangles share with those of several servers.  No state. */
#ifndef STUB_COPY_RECT_H
#define STUB_COPY_RECT_H

#include "cuda_abi.h"

/* A rectangle as a box of depth one. */
void stub_rect_widen(CUDA_MEMCPY3D *to, const CUDA_MEMCPY2D *from);

#endif
