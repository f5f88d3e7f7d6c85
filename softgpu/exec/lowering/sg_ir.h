/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intermediate representation (IR) of one function, and the passes over it.
 *
 * IR has the opcodes of the bytecode; its operands are virtual registers, which become
 * byte offsets into the register file when the function is laid out (lower_unit.c).  It
 * is the contract with a later block compiler: typed virtual registers, labels by
 * number, explicit guards, memory operations with resolved state space, one table
 * (sg_insns.def) of what an operation is.
 *
 * A function's IR lives while its unit is being built.  One thread, under the program's
 * lock.
 */
#ifndef SG_IR_H
#define SG_IR_H

#include "sg_insn.h"

#include "gp_base.h"
#include "gp_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gp_err;
struct ptx_func;
struct ptx_var;

struct sg_vreg {
    uint8_t cls;
    bool temp;     /* made by lowering, written and read within one instruction */
    bool kept;     /* constant in a launch: its slot is nobody else's */
    bool uniform;  /* kept, and the same in all lanes */
    int32_t konst; /* index of the constant it is, or -1 */
    int32_t slot;  /* after allocation, -1 = never used */
};

#define SG_NOREG (-1)
/* Longest list of registers: a warpgroup's accumulator, twice, and a few. */
#define SG_LIST_MAX 264

struct sg_ir {
    uint16_t code; /* enum sg_opcode */
    uint16_t n;    /* operation's own: sub-operation, count */
    uint8_t guard_neg;
    uint8_t watch;               /* SG_WATCH_*, for checks */
    bool wide_list;              /* its registers are 64 bits wide */
    uint8_t wide_first;          /* or only so many of them, the first */
    uint16_t n_list, n_list_dst; /* list: results first, then sources */
    int32_t guard;               /* P register or SG_NOREG */
    int32_t d, e;                /* results */
    int32_t a, b, c, f;
    uint32_t x; /* operation's own: label, flags, offset */
    uint32_t y; /* LDGI, STGI: the index's scale, SG_INDEX_SIGNED */
    uint32_t line;
    int64_t imm;
    int32_t *list;
};

struct sg_const_slot {
    uint32_t hash;
    uint32_t vreg1; /* the register plus one; 0: free */
};

GP_TABLE_TYPE(sg_const_table, struct sg_const_slot);

struct sg_ir_func {
    const struct ptx_func *ast;
    struct sg_ir *code;
    uint32_t n_code, cap_code;
    uint32_t n_first; /* operations before the body: once a warp and launch */
    struct sg_vreg *vregs;
    uint32_t n_vregs, cap_vregs;
    struct sg_const *consts;
    uint32_t n_consts, cap_consts;
    struct sg_const_table const_table; /* constant -> vreg (lower_opd.c) */
    uint32_t n_labels;
    uint32_t out_bytes; /* local memory for the arguments of its largest call */
    uint32_t n_regs;    /* of 32 bits, that a card would need: see sg_ir_allocate() */
};

const char *sg_op_name(unsigned code);
const char *sg_op_sig(unsigned code); /* "d e a b c f" classes; see sg_insns.def */

/* Registers that an operation reads and writes. */
struct sg_operands {
    int32_t reads[8 + SG_LIST_MAX], writes[2 + SG_LIST_MAX];
    unsigned n_reads, n_writes;
    bool kills; /* writes every lane that runs */
};
void sg_ir_operands(const struct sg_ir *ir, struct sg_operands *ret);

/* Whether the operation's result depends on its operands and the launch alone. */
bool sg_ir_is_pure(const struct sg_ir *ir);
/* Loads from addresses that are known to be a kernel's parameters read those; @window
 * is the generic address of the first one (ir_params.c). */
int sg_ir_params(struct sg_ir_func *func, uint64_t window, struct gp_err *err);
/* Then: move what a launch fixes before the body (ir_hoist.c). */
int sg_ir_hoist(struct sg_ir_func *func, struct gp_err *err);
/* Then: memory operations that use it, and what has no use any more (ir_address.c). */
int sg_ir_addresses(struct sg_ir_func *func, struct gp_err *err);

/* Liveness and slots: fills vreg.slot, sg_const.off and *ret_size.  n_regs is what is
 * live at once, without what a card keeps outside of a thread's registers. */
int sg_ir_allocate(struct sg_ir_func *func, struct sg_frame_size *ret_size,
                   struct gp_err *err);
/* After the allocation (ir_verify.c): -EINVAL names what is wrong. */
int sg_ir_verify(const struct sg_ir_func *func, struct gp_err *err);
/* In words, with virtual registers (ir_dump.c). */
void sg_ir_print(const struct sg_ir_func *func, FILE *f);
void sg_ir_fini(struct sg_ir_func *func);

#endif
