/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of matrices: what the files that multiply them share.  Pure functions.
 */
#ifndef EXEC_MATRIX_H
#define EXEC_MATRIX_H

#include "insn_matrix.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_cta;
struct sg_insn;
struct sg_warp;

/* An MMA operation; MMA_QUADS, wmma's loads and stores too. */
struct sg_mat {
    unsigned m, n, k;
    unsigned type[SG_MAT_OPERANDS];  /* d a b c */
    unsigned bits[SG_MAT_OPERANDS];  /* of an element */
    unsigned count[SG_MAT_OPERANDS]; /* registers */
    unsigned flags;
    const uint32_t *list[SG_MAT_OPERANDS]; /* where they are in the frame */
    const uint32_t *more;                  /* metadata, scales */
};

void sg_mat_unpack(const struct sg_cta *cta, const struct sg_insn *op,
                   struct sg_mat *mat);

bool sg_mat_is_float(unsigned type);
double sg_mat_double(uint64_t raw, unsigned type);
int64_t sg_mat_int(uint64_t raw, unsigned type);
uint64_t sg_mat_from_double(double v, unsigned type);

/* Sums of cards: products and the addend are cut so many bits below the largest of
 * their exponents; those of zeros, and of what is no number. */
#define SG_CUT_BITS 25
#define SG_CUT_ZERO (-8000)
#define SG_CUT_NONE 20000
/* The addend @c and the products of @k elements of @a and @b, @stride_b apart, which
 * both are f16, bf16 or tf32 of SG_MAT_A's and SG_MAT_B's type, as the type of D. */
double sg_mat_dot_cut(const struct sg_mat *mat, const float *a, const float *b,
                      unsigned stride_b, double c);

/* What a wmma.load or wmma.store touches: a run of bytes for each row, or column, of
 * the matrix.  Returns how many there are, at most 32. */
struct sg_mat_span {
    uint64_t addr;
    uint32_t bytes;
};
uint32_t sg_wmma_spans(const struct sg_cta *cta, const struct sg_warp *warp,
                       const struct sg_insn *op, unsigned lane,
                       struct sg_mat_span ret[32]);

/* Where in its row of @k elements the stored element @at of row @row (0..15) of a
 * sparse matrix stands.  @meta: the register of each lane. */
unsigned sg_mat_sparse_place(const uint32_t *meta, unsigned selector, unsigned bits,
                             unsigned k, unsigned row, unsigned at);

#endif
