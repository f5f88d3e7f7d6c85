/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler of the software GPU: regions of a unit's operations to machine code,
 * with LLVM.
 *
 * One struct jit per function of a unit that is compiled, one region of it at a time.
 * In a region a register is a value (of 32 lanes) that is computed for all lanes, those
 * that do not run included; it is written to the register file for the lanes that run,
 * where the region ends.  Which registers these are is what jit_flow.c finds out.  One
 * thread.
 */
#ifndef JIT_H
#define JIT_H

#include "sg_native.h"

#include <llvm-c/Core.h>
#include <stdbool.h>

struct gp_err;

/* ---------------------------------------------------------------- jit_flow.c */

/* A set of registers of a function: those of class W, D and P, in this order. */
struct jit_flow {
    const struct sg_unit *unit;
    const struct sg_unit_func *func;
    uint32_t first[SG_N_CLASSES + 1]; /* numbers of the registers of each class */
    uint32_t n_words;                 /* of a set, 64 registers each */
    uint8_t *leads;                   /* [ops of the function]: begins a block */
    uint32_t *block_of;               /* likewise: number of the block */
    uint32_t *blocks;                 /* first operation of each, and the end */
    uint32_t n_blocks;
    uint64_t *live; /* [n_blocks][n_words]: at the beginning of each */
};

/* Operands of an operation, as registers; -1: none. */
struct jit_operands {
    int32_t write[2];
    int32_t read[4];
    bool all; /* what it reads is not known */
};

/* -E2BIG: more than is worth it. */
int jit_flow_init(struct jit_flow *f, const struct sg_unit *unit,
                  const struct sg_unit_func *func);
void jit_flow_fini(struct jit_flow *f);
void jit_operands(const struct jit_flow *f, const struct sg_insn *op,
                  struct jit_operands *o);
/* The registers that somebody may read before writing them, from the beginning of
 * operation @at of the unit, which leads a block. */
const uint64_t *jit_flow_live(const struct jit_flow *f, uint32_t at);
int32_t jit_register(const struct jit_flow *f, enum sg_class cls, uint32_t off);
static inline bool
jit_in(const uint64_t *set, uint32_t reg)
{
    return set[reg / 64] >> (reg % 64) & 1;
}
/* What the compiler knows; everything else ends a region. */
bool jit_known(const struct sg_insn *op);
bool jit_is_memory(unsigned code);

/* ------------------------------------------------------------------ the rest */

#define JIT_LANES SG_LANES

struct jit {
    const struct sg_native_host *host;
    const struct sg_unit *unit;
    struct jit_flow flow;
    uint32_t lo, hi; /* operations of the region */

    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMTypeRef i1, i8, i16, i32, i64, ptr;
    LLVMTypeRef w, d, f, g, p;   /* 32 lanes: of 32 and 64 bits, floats, booleans */
    LLVMValueRef run, cta, warp; /* pointers */
    LLVMValueRef frame[SG_N_CLASSES];
    LLVMValueRef mask, lanes, full; /* i32, 32 booleans, all 32 */
    LLVMValueRef limit;
    LLVMValueRef edges, executed; /* variables */
    LLVMValueRef buf[4];          /* of 32 times 64 bits, for what is called */
    LLVMValueRef *var;            /* by register: its variable, or NULL */
    LLVMValueRef *constant;       /* by register: its value, if it is one */
    LLVMValueRef *odd;            /* by register: variable, see jit_value.c; or NULL */
    bool *written;                /* by register: in the region */
    LLVMBasicBlockRef *at;        /* by operation of the region that leads a block */
    uint32_t span;                /* operations of the block so far */
    LLVMValueRef guard;           /* of the operation: 32 booleans, or NULL */
    LLVMValueRef m;               /* its lanes: i32 */
};

/* jit_value.c: registers as values */
LLVMValueRef jit_get_w(struct jit *j, uint32_t off);
LLVMValueRef jit_get_d(struct jit *j, uint32_t off);
LLVMValueRef jit_get_f(struct jit *j, uint32_t off); /* for float arithmetic alone */
LLVMValueRef jit_get_g(struct jit *j, uint32_t off);
LLVMValueRef jit_get_p(struct jit *j, uint32_t off);     /* i32 */
LLVMValueRef jit_get_lanes(struct jit *j, uint32_t off); /* 32 booleans */
LLVMValueRef jit_get_exact(struct jit *j, uint32_t reg); /* as the interpreter has it */
void jit_set_w(struct jit *j, uint32_t off, LLVMValueRef v);
void jit_set_d(struct jit *j, uint32_t off, LLVMValueRef v);
void jit_set_p(struct jit *j, uint32_t off, LLVMValueRef v);
/* A float result, whose NaN has yet to become the one NaN. */
void jit_set_f(struct jit *j, uint32_t off, LLVMValueRef v);
LLVMValueRef jit_splat(struct jit *j, LLVMTypeRef vec, LLVMValueRef scalar);
LLVMValueRef jit_splat_int(LLVMTypeRef vec, uint64_t v);
LLVMValueRef jit_mask(struct jit *j, LLVMValueRef lanes); /* 32 booleans to i32 */
LLVMValueRef jit_lanes(struct jit *j, LLVMValueRef mask);
LLVMValueRef jit_field(struct jit *j, LLVMTypeRef type, LLVMValueRef base, size_t at);
LLVMValueRef jit_pointer(struct jit *j, LLVMTypeRef to, LLVMValueRef base,
                         LLVMValueRef bytes);
LLVMValueRef jit_address(struct jit *j, LLVMTypeRef type, const void *p);
LLVMBasicBlockRef jit_block(struct jit *j, const char *name);
/* A branch of which one side is rare. */
void jit_rarely(struct jit *j, LLVMValueRef cond, LLVMBasicBlockRef rare,
                LLVMBasicBlockRef usual);

/* jit_alu.c: false if it is not arithmetic */
bool jit_alu(struct jit *j, const struct sg_insn *op);
bool jit_alu_knows(unsigned code);

/* jit_mem.c */
void jit_memory(struct jit *j, uint32_t at);
void jit_scalar(struct jit *j, uint32_t at);

/* jit_region.c */
void jit_leave(struct jit *j, enum sg_native_end end, uint32_t pc);
int jit_region(struct jit *j, uint32_t lo, uint32_t hi, const uint32_t *entries,
               uint32_t n_entries);

#endif
