/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a unit: a kernel and what it calls, lowered and laid out as one code array.
 *
 * The unit_builder lives for one sg_unit_build(), on one thread, under the program's
 * lock.  The functions that lower one function ask it for what belongs to the unit.
 */
#ifndef LOWER_UNIT_H
#define LOWER_UNIT_H

#include "sg_unit.h"

#include "gp_base.h"

struct gp_err;
struct ptx_func;
struct ptx_var;
struct sg_prog;
struct unit_builder;

/* *ret_regs: the registers per thread that a card would need for the kernel itself. */
int sg_unit_build(const struct sg_prog *prog, const struct ptx_func *kernel,
                  struct sg_unit **ret_unit, uint32_t *ret_regs, struct gp_err *err);

/* Where the arguments of a call lie in the callee's local frame. */
uint32_t sg_call_param_offset(const struct ptx_func *proto, uint32_t index);
uint32_t sg_call_ret_offset(const struct ptx_func *proto, uint32_t index);

/* For the functions of lower.h: what one function needs from the rest of the unit. */
int32_t ub_function(struct unit_builder *ub, const struct ptx_func *func);
void ub_all_functions(struct unit_builder *ub); /* an indirect call: all are callees */
void ub_calls(struct unit_builder *ub, const struct ptx_func *from, int32_t callee);
int ub_shared(struct unit_builder *ub, const struct ptx_var *var, uint32_t *ret_off,
              bool *ret_dynamic);
void ub_stack(struct unit_builder *ub);    /* some function takes stack as it runs */
void ub_reserved(struct unit_builder *ub); /* the kernel uses reserved shared memory */
uint32_t ub_table(struct unit_builder *ub, uint32_t label);

#endif
