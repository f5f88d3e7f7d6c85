/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a kernel's parameters lie.  A card has them behind constants of its own, and
 * what is aligned is the address there, not the offset from the first: parameters that
 * ask for more than 16 bytes lie differently on different cards.  The numbers are those
 * that machine code of each card has in its records.  Pure functions.
 */
#ifndef GP_PARAM_H
#define GP_PARAM_H

#include "gp_base.h"

/* The address that alignment is counted with for the first parameter, on a card of
 * compute capability @sm (86 for 8.6). */
static inline uint64_t
gp_param_base(unsigned sm)
{
    return sm < 70 ? 0x140 : sm < 90 ? 0x160 : sm < 100 ? 0x210 : 0;
}

/* The offset of a parameter aligned to @align, a power of two, that follows @end bytes.
 */
static inline uint64_t
gp_param_offset(uint64_t end, uint64_t align, unsigned sm)
{
    return GP_ALIGN_UP(gp_param_base(sm) + end, align) - gp_param_base(sm);
}

#endif
