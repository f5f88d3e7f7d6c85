/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every form of an instruction that calculates, for rk_probe.c: those of rk_ops.h and,
 * as text, what else the front end carries.
 *
 * Built once by rk_forms_init(), constant afterwards.
 */
#ifndef RK_FORMS_H
#define RK_FORMS_H

#include <stdbool.h>
#include <stdint.h>

struct rk_op;

struct rk_form {
    /* Instructions; %d is the result, %a, %b, %c and %e the sources.  Of the form
     * alone: what rk_op.form has, %own (8 bytes of global memory, the second word of
     * the results) and %sh (8 bytes of shared memory). */
    char text[320];
    char result; /* kinds of rk_operands.h */
    char sources[9];
    unsigned words;         /* of the results: 1; 2 with %own; 4 of a matrix */
    const struct rk_op *op; /* or NULL */
};

void rk_forms_init(void);
unsigned rk_forms(const struct rk_form **ret);

#endif
