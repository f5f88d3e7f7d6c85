/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic that random kernels are made of: each form's text, the classes of its
 * registers, and what the PTX ISA says it gives.
 *
 * A value is the bits of a register, zero above its width.  The table is built once by
 * rk_ops_init() and constant afterwards.  Shares nothing with softgpu/exec; floating
 * point comes from sg_ref.h, which uses integers alone.
 */
#ifndef RK_OPS_H
#define RK_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ref_fmt;
struct rk_op;

#define RK_MAX_SOURCES 4

typedef uint64_t rk_ref(const struct rk_op *op, const uint64_t *x);

/* Classes of registers: 'H' 16 bits, 'W' 32, 'D' 64, 'P' a predicate; of sources also
 * '8', a constant of 8 bits. */
struct rk_op {
    char name[40];
    /* The text where it is more than "NAME %d, %a, %b, %c;": %t0 and %t1 are 32 bits
     * wide, %u0 64, %q0 a predicate, of the instruction alone. */
    const char *form;
    char sig[RK_MAX_SOURCES + 2]; /* the result's class, then the sources' */
    rk_ref *ref;
    uint8_t bits, from_bits; /* of the type; of a conversion's source */
    bool is_signed, from_signed;
    bool is_float;            /* constants are written 0f..., 0d... */
    bool ftz, sat, relu, nan; /* modifiers */
    bool nonzero;             /* the second source is made odd first */
    bool any_nan;             /* which NaN is not said: made canonical behind it */
    int mode;                 /* rounding, relation, variant: the family's own */
    int combine;              /* with a predicate: 0 no, else '&', '|', '^' */
    const struct ref_fmt *fmt, *from_fmt;
    unsigned family;
};

void rk_ops_init(void);
unsigned rk_ops_families(void);
/* The members of a family are neighbours: the first, and how many. */
const struct rk_op *rk_ops_family(unsigned family, unsigned *ret_n);

unsigned rk_class_bits(char class);
/* The result's bits, of its class's width. */
uint64_t rk_op_eval(const struct rk_op *op, const uint64_t *x);

#endif
