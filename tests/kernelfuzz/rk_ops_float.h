/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on floating point, for rk_ops.c. */
#ifndef RK_OPS_FLOAT_H
#define RK_OPS_FLOAT_H

#include <stdint.h>

void rk_ops_add_floats(void);
/* @v, or the one NaN of 32 or 64 bits where it is any. */
uint64_t rk_one_nan(unsigned bits, uint64_t v);

#endif
