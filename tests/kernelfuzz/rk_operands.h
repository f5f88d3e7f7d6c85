/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special operands: the edges of every type, combined, and noise.
 *
 * A kind is a letter for what a register holds.
 *     f f32   d f64   h f16   b bf16   g f16x2   c bf16x2
 *     s, i, l integers of 16, 32, 64 bits   x 16 bits of any kind   p a predicate
 *     m, n numbers of bits or lanes up to 31, and from -33 to 33, in 32 bits
 * and, for the 64 bits of two or more registers of a matrix:
 *     1 f16   2 bf16   3 f32   4 f64   5 bits   6 e4m3   7 e5m2
 */
#ifndef RK_OPERANDS_H
#define RK_OPERANDS_H

#include <stdint.h>

#define RK_ROW_WORDS 8

/* The class (rk_op.sig) of a register of this kind. */
char rk_kind_class(char kind);
/* The width of what is compared in it: a lane of a pair, of a matrix. */
unsigned rk_kind_lane_bits(char kind);

/* How many rows cover a form with sources of these @kinds, at most RK_MAX_ROWS. */
#define RK_MAX_ROWS 65536
unsigned rk_operands_rows(const char *kinds);
/* Row r of source i at in[r * RK_ROW_WORDS + i]; always the same. */
void rk_operands_fill(const char *kinds, unsigned rows, uint64_t *in);

#endif
