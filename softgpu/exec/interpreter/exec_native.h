/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a unit is compiled to machine code, and by whom.
 *
 * SOFTGPU_JIT=1: when it has executed enough to be worth it, by one thread of the
 * process, in the background; =wait: before its first launch (tests); else never.  Any
 * thread.
 */
#ifndef EXEC_NATIVE_H
#define EXEC_NATIVE_H

#include "gp_base.h"
#include "sg_unit.h"

#include <stdbool.h>

/* @unit is about to be launched. */
void sg_native_launch(struct sg_unit *unit);
/* It has executed @n warp instructions more, of which somebody wants to know: units are
 * compiled in the background. */
void sg_native_heat(struct sg_unit *unit, uint64_t n);

extern bool sg_native_counts; /* set once, before the first launch */

static inline bool
sg_native_wants_heat(void)
{
    return unlikely(sg_native_counts);
}

#endif
