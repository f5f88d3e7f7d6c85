/* SPDX-License-Identifier: Apache-2.0 */
/* What copies of every shape share (stub_copy.c, stub_copy_rect.c).  No state. */
#ifndef STUB_COPY_H
#define STUB_COPY_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Is all of [addr, addr + n) inside one device allocation of ours? */
bool stub_copy_inside(uint64_t addr, uint64_t n);

/* Is it all inside one range of the host's pinned memory? */
bool stub_copy_is_host(uint64_t addr, uint64_t n);

/* Must a blocking copy of @n bytes to the card be there when it returns?  Then it is
 * answered.  CUDA lets up to 64 KiB of pageable memory be under way still, and where
 * the program has made no streams, nothing it calls could overtake more. */
bool stub_copy_answered(uint64_t n);

/* A rectangle as a box of depth one. */
void stub_rect_widen(CUDA_MEMCPY3D *to, const CUDA_MEMCPY2D *from);

#endif
