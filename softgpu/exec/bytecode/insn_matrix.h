/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How matrix instructions encode their shape, types and registers.
 *
 * MMA: x: m | n << 8 | k << 16; imm: element types of d a b c (4 bits each),
 * register counts of d a b c (6 bits each), flags; the registers are in the operand
 * list: d, a, b, c, then metadata if sparse, then a's and b's scales, byte and thread
 * selectors if there are scales.  Loads and stores use only d.
 *
 * WGMMA: x: n | k << 16; imm: types of d a b, flags from bit 40; list: d, d again
 * as what is added to, a's four registers if it is in registers, metadata if sparse.
 */
#ifndef INSN_MATRIX_H
#define INSN_MATRIX_H

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
    SG_MAT_E3M2, /* six bits, in the low ones of a byte */
    SG_MAT_E2M3,
    SG_MAT_E2M1, /* four, in the middle of a byte; SG_MAT_PACKED: two to a byte */
};

enum { SG_MAT_D, SG_MAT_A, SG_MAT_B, SG_MAT_C, SG_MAT_OPERANDS };

#define SG_MAT_FLAGS_SHIFT 40
#define SG_MAT_WMMA 1u
#define SG_MAT_SATFINITE 2u
#define SG_MAT_XOR 4u
#define SG_MAT_COL 8u /* of the memory of a load or store */
#define SG_MAT_IS_A 16u
#define SG_MAT_IS_B 32u
#define SG_MAT_SPARSE 64u
#define SG_MAT_PACKED 128u
#define SG_MAT_SELECTOR_SHIFT 8 /* two bits: which threads bring the metadata */
#define SG_MAT_SCALES_SHIFT 10  /* three bits: scales of a row, 0: there are none */
#define SG_MAT_UE4M3 (1u << 13) /* the scales' type, else ue8m0 */
#define SG_MAT_ROUND_SHIFT 14   /* two bits, f64: nearest, rz, rm, rp */
#define SG_MAT_A_COL (1u << 16) /* MMA_QUADS: as the instruction's .row and .col */
#define SG_MAT_B_COL (1u << 17)
#define SG_MAT_A_REGS (1u << 18) /* WGMMA from here */
#define SG_MAT_A_TRANS (1u << 19)
#define SG_MAT_B_TRANS (1u << 20)
#define SG_MAT_A_NEG (1u << 21)
#define SG_MAT_B_NEG (1u << 22)

/* LDMATRIX, STMATRIX: n has the number of matrices, and */
#define SG_LDM_TRANS 0x100u
#define SG_LDM_SHAPE_SHIFT 9 /* enum sg_ldm_shape, two bits */
#define SG_LDM_SIX 0x800u    /* memory has elements of six bits, 12 of 16 bytes */
#define SG_LDM_FOUR 0x1000u  /* of four, 8 of 16 bytes */
enum sg_ldm_shape { SG_LDM_HALVES, SG_LDM_M16N16, SG_LDM_M8N16, SG_LDM_M16N8 };

/* Bits that an element takes; of SG_MAT_E2M1 in a byte of its own. */
static inline unsigned
sg_mat_bits(unsigned type)
{
    static const uint8_t bits[] = {
        [SG_MAT_F16] = 16, [SG_MAT_BF16] = 16, [SG_MAT_TF32] = 32, [SG_MAT_F32] = 32,
        [SG_MAT_F64] = 64, [SG_MAT_S8] = 8,    [SG_MAT_U8] = 8,    [SG_MAT_S4] = 4,
        [SG_MAT_U4] = 4,   [SG_MAT_B1] = 1,    [SG_MAT_S32] = 32,  [SG_MAT_E4M3] = 8,
        [SG_MAT_E5M2] = 8, [SG_MAT_E3M2] = 8,  [SG_MAT_E2M3] = 8,  [SG_MAT_E2M1] = 8,
    };

    return bits[type];
}

#endif
