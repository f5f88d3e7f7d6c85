/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar operations: one lane at a time, raw bits in, raw bits out.
 *
 * Everything that is not worth a vector loop.  Pure functions, any thread; the rounding
 * mode of the thread is to nearest on entry and on return.  Signatures: classes of the
 * result and of a, b, c.
 */
#ifndef EXEC_SCALAR_H
#define EXEC_SCALAR_H

#include "sg_insn.h"

#include <stdbool.h>
#include <stdint.h>

enum sg_fn_id {
#define FN(name, sig) SG_FN_##name,
#include "exec_fn.def"
#undef FN
    SG_N_FNS
};

struct sg_fn_info {
    const char *name;
    sg_fn *fn;
    const char *sig;
};

extern const struct sg_fn_info sg_fns[SG_N_FNS];

#define FN(name, sig) sg_fn sg_fn_##name;
#include "exec_fn.def"
#undef FN

/* Half-precision atomics; what: enum sg_atom. */
uint64_t sg_atom_half(unsigned what, uint64_t old, uint64_t b);

/* What a half outside of a tensor reads as, if its map asks for a NaN. */
#define SG_OOB_NAN 0x7fffu

/* Flags of the functions that round with random bits. */
#define SG_RS_SATFINITE 1u
#define SG_RS_RELU 2u

/* Conversions shared with other files.  One rounding, to nearest even. */
uint16_t sg_f64_to_f16(double v);
uint16_t sg_f64_to_bf16(double v);
double sg_f16_to_f64(uint16_t h);
double sg_bf16_to_f64(uint16_t h);

#endif
