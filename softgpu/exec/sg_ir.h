/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intermediate representation of one function, and the bytecode it becomes.
 *
 * IR and bytecode have the same operations; in IR operands are virtual registers, in
 * bytecode byte offsets into the register file.  The IR is the contract with a later
 * block compiler: typed virtual registers, labels by number, explicit guards, memory
 * operations with resolved state space, one table (sg_insns.def) of what an operation
 * is.
 *
 * Register classes: W = 32 lanes x 32 bit (also 8 and 16 bit values, zero-extended),
 * D = 32 lanes x 64 bit, P = 32 predicate bits.  Constants are registers that a frame
 * finds filled in.
 *
 * Owned by the unit (one kernel and what it calls); immutable once built.
 */
#ifndef SG_IR_H
#define SG_IR_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gp_err;
struct ptx_func;
struct ptx_var;

enum sg_opcode {
#define OP(name, sig) SG_OP_##name,
#include "sg_insns.def"
#undef OP
    SG_N_OPS,
    SG_OP_FIRST_ALU = SG_OP_ADD_U32 /* from here on: results of the operands alone */
};

enum sg_class { SG_W, SG_D, SG_P, SG_N_CLASSES };

/* What a constant is made of when an instance runs it. */
enum sg_const_kind {
    SG_CONST_VALUE,      /* value */
    SG_CONST_GLOBAL,     /* address of global ref, plus value */
    SG_CONST_TEXREF,     /* handle bound to reference ref */
    SG_CONST_DYN_SHARED, /* value plus where dynamic shared memory starts; the unit
                            resolves it to SG_CONST_VALUE when it is complete */
};

struct sg_const {
    uint8_t cls;  /* enum sg_class, W or D */
    uint8_t kind; /* enum sg_const_kind */
    uint32_t ref;
    uint32_t off; /* byte offset of its slot in the frame, after allocation */
    uint64_t value;
};

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

struct sg_ir_func {
    const struct ptx_func *ast;
    struct sg_ir *code;
    uint32_t n_code, cap_code;
    uint32_t n_first; /* operations before the body: once a warp and launch */
    struct sg_vreg *vregs;
    uint32_t n_vregs, cap_vregs;
    struct sg_const *consts;
    uint32_t n_consts, cap_consts;
    int32_t *const_hash; /* constant -> vreg, open addressing, -1 = empty */
    uint32_t cap_hash;   /* a power of two */
    uint32_t n_labels;
    uint32_t out_bytes; /* local memory for the arguments of its largest call */
};

/* One operation as it is executed.  Offsets are bytes from the frame's base of the
 * operand's class; label operands are indexes into the unit's code. */
struct sg_insn {
    uint16_t code;
    uint16_t n;
    uint32_t d, e, a, b, c, f;
    uint32_t x;
    int64_t imm;
};

#define SG_INDEX_SIGNED 0x80000000u

#define SG_LANES 32
#define SG_SLOT_W (SG_LANES * 4)
#define SG_SLOT_D (SG_LANES * 8)
#define SG_SLOT_P 4

/* Sizes of a frame in bytes, by class. */
struct sg_frame_size {
    uint32_t bytes[SG_N_CLASSES];
};

/* A scalar operation, one lane: operands and result as raw bits. */
typedef uint64_t sg_fn(uint64_t a, uint64_t b, uint64_t c);

/* FN operations: x holds the classes of d, a, b, c, two bits each. */
#define SG_FN_CLASSES(d, a, b, c) ((d) | (a) << 2 | (b) << 4 | (c) << 6)

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
/* Move what a launch fixes before the body (sg_hoist.c). */
int sg_ir_hoist(struct sg_ir_func *func, struct gp_err *err);
/* Then: memory operations that use it, and what has no use any more (sg_address.c). */
int sg_ir_addresses(struct sg_ir_func *func, struct gp_err *err);

/* Liveness and slots: fills vreg.slot, sg_const.off and *ret_size. */
int sg_ir_allocate(struct sg_ir_func *func, struct sg_frame_size *ret_size,
                   struct gp_err *err);
/* After the allocation (sg_verify.c): -EINVAL names what is wrong. */
int sg_ir_verify(const struct sg_ir_func *func, struct gp_err *err);
/* In words, with virtual registers (sg_dump.c). */
void sg_ir_print(const struct sg_ir_func *func, FILE *f);
void sg_ir_fini(struct sg_ir_func *func);
int sg_ir_grow_hash(struct sg_ir_func *func);
uint32_t sg_const_hash(unsigned cls, unsigned kind, uint32_t ref, uint64_t value);

#endif
