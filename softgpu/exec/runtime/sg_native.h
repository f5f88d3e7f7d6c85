/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for parts of a unit: what the interpreter, the code and the compiler
 * (softgpu/jit, a plug-in) agree on.
 *
 * A compiler turns regions of a unit's operations into functions.  At some of their
 * operations, the entries, the interpreter finds SG_OP_NATIVE in place of the operation
 * and calls the region's function, which executes from there on and comes back with the
 * operation that the interpreter goes on with.  Everything that may block, split a
 * fragment or call the outside stays with the interpreter.
 *
 * Ownership: a unit owns its native code (sg_unit.native), from the time when it is
 * compiled until the unit is freed.  Threads: entries and code are complete before the
 * first operation is replaced, and do not change afterwards.
 */
#ifndef SG_NATIVE_H
#define SG_NATIVE_H

#include "sg_cta.h"

#include <stdbool.h>

struct gp_err;

/* Changes with everything that the plug-in is compiled against. */
#define SG_NATIVE_ABI                                                                  \
    (2u << 24 | (SG_N_OPS << 12) | (sizeof(struct sg_cta) ^ sizeof(struct sg_warp)))

/* How native code ends; run->pc says where. */
enum sg_native_end {
    SG_NATIVE_STEP,  /* the interpreter executes the operation at pc itself */
    SG_NATIVE_GO,    /* the same, but another region may begin there */
    SG_NATIVE_POLL,  /* the last back edge of the budget was taken, to pc */
    SG_NATIVE_PICK,  /* at a JOIN where another fragment comes first */
    SG_NATIVE_FAULT, /* the fault is recorded */
};

struct sg_native_run {
    struct sg_cta *cta;
    struct sg_warp *warp;
    char *wb, *db, *pb; /* frames, by class */
    uint64_t executed;  /* by the native code */
    uint32_t mask;      /* of the running fragment */
    uint32_t limit;     /* the index at which it has to stop: sg_warp_limit() */
    uint32_t pc;
};

/* Returns an enum sg_native_end. */
typedef uint32_t sg_native_fn(struct sg_native_run *run);

/* By operation.  An entry has a function and the opcode it replaces. */
struct sg_native_entry {
    sg_native_fn *fn; /* NULL: not an entry */
    uint16_t code;
};

struct sg_native {
    struct sg_native_entry *entries; /* [unit->n_ops] */
    uint32_t n_entries;
    bool straight; /* set by the host: the kernel's body begins in native code, and no
                    * operation of the kernel jumps back */
    void *code;    /* the compiler's */
    void (*free_code)(void *code);
};

/* One access of a whole warp, as the interpreter does it: @a holds addresses (or
 * indexes, with the base in @b), @v what is loaded or stored.  @code is the operation's
 * own.  False: the fault is recorded. */
typedef bool sg_native_mem_fn(struct sg_cta *cta, struct sg_warp *warp,
                              const struct sg_insn *op, uint32_t code, const void *a,
                              const void *b, void *v, uint32_t m);
sg_native_mem_fn sg_native_mem_v3, sg_native_mem_v4;

/* A scalar operation for the lanes of @m: registers of 32 lanes, or predicate words. */
typedef void sg_native_scalar_fn(const struct sg_insn *op, void *d, const void *a,
                                 const void *b, const void *c, uint32_t m);
sg_native_scalar_fn sg_native_scalar_v3, sg_native_scalar_v4;
/* Lane by lane. */
sg_native_scalar_fn sg_native_scalar;

/* What the compiler gets from its host. */
struct sg_native_host {
    uint32_t level; /* of x86-64: 3 or 4 */
    sg_native_mem_fn *mem;
    sg_native_scalar_fn *scalar;
};

/* The plug-in's symbol: sg_jit.  0, and the entries and the code of @native set up, or
 * -errno; -ENOENT: there is nothing in the unit that is worth compiling. */
struct sg_jit {
    uint32_t abi;
    const char *name; /* of the code generator, with its version */
    int (*compile)(const struct sg_native_host *host, const struct sg_unit *unit,
                   struct sg_native *native, struct gp_err *err);
};

#endif
