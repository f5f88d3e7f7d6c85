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

#include "sg_unit.h"

/* @unit is about to be launched. */
void sg_native_launch(struct sg_unit *unit);
/* It has executed @n warp instructions more. */
void sg_native_heat(struct sg_unit *unit, uint64_t n);

#endif
