/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a matrix operation is described between lowering and executor.
 *
 * op.x: m | n << 8 | k << 16; op.imm: element types of d a b c (4 bits each), register
 * counts of d a b c (6 bits each), flags; the registers are in the operand list, d
 * first. Loads and stores use only d.
 */
#ifndef EXEC_MATRIX_H
#define EXEC_MATRIX_H

#include <stdint.h>

enum sg_mat_type {
    SG_MAT_F16,
    SG_MAT_BF16,
    SG_MAT_TF32,
    SG_MAT_F32,
    SG_MAT_F64,
    SG_MAT_S8,
    SG_MAT_U8,
    SG_MAT_S4,
    SG_MAT_U4,
    SG_MAT_B1,
    SG_MAT_S32,
    SG_MAT_E4M3,
    SG_MAT_E5M2,
};

enum { SG_MAT_D, SG_MAT_A, SG_MAT_B, SG_MAT_C, SG_MAT_OPERANDS };

#define SG_MAT_FLAGS_SHIFT 40
#define SG_MAT_WMMA 1u
#define SG_MAT_SATFINITE 2u
#define SG_MAT_XOR 4u
#define SG_MAT_COL 8u /* of the memory of a load or store */
#define SG_MAT_IS_A 16u
#define SG_MAT_IS_B 32u

#endif
