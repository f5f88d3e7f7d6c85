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

bool sg_mat_is_float(unsigned type);
double sg_mat_double(uint64_t raw, unsigned type);
int64_t sg_mat_int(uint64_t raw, unsigned type);
uint64_t sg_mat_from_double(double v, unsigned type);

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
