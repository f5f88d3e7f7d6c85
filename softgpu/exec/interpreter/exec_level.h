/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files share that are compiled once for each level of the processor: SG_ISA
 * is v2, v3 or v4, and names of functions end with it.
 */
#ifndef EXEC_LEVEL_H
#define EXEC_LEVEL_H

#include <stdint.h>

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

/* Elements of registers, as exec_alu.def and exec_warp_fn.def name them. */
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#endif
