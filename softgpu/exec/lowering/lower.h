/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering: one PTX function from the syntax tree to IR.
 *
 * Internal to softgpu/exec; one thread, under the program's lock.  Errors are sticky:
 * the first one is kept in l->err, everything after it is emitted into the void, and
 * the caller checks once per instruction.
 */
#ifndef LOWER_H
#define LOWER_H

#include "exec_scalar.h"
#include "ptx_ast.h"
#include "sg_insn.h"
#include "sg_ir.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct isa_row;
struct sg_prog;
struct unit_builder;

struct lower {
    const struct sg_prog *prog;
    struct unit_builder *ub;
    const struct ptx_func *func;
    bool is_kernel;
    struct sg_ir_func *ir;
    int32_t *reg_map;     /* first vreg of each PTX register */
    uint32_t *var_off;    /* by ptx_var.id of the function's own variables */
    uint32_t local_bytes; /* frame: parameters, results, .local variables */
    uint32_t n_labels;    /* PTX labels come first */
    uint32_t n_sites;

    const struct ptx_insn *insn;
    const struct isa_row *row;
    int32_t guard;
    bool guard_neg;
    int32_t cc; /* carry, a P register, made on first use */
    struct {
        int32_t temp, real;
        bool sx;
        uint16_t type;
    } fixes[16];
    unsigned n_fixes;
    int failed;
    struct gp_err *err;
};

typedef void lower_fn(struct lower *l, const struct ptx_insn *insn);

/* lower_opd.c: emitting and operands */
void lo_fail(struct lower *l, int code, const char *fmt, ...) GP_PRINTF(3, 4);
struct sg_ir *lo_emit(struct lower *l, enum sg_opcode code);
int32_t lo_temp(struct lower *l, enum sg_class cls);
/* A register that lives across instructions. */
int32_t lo_variable(struct lower *l, enum sg_class cls);
int32_t lo_const(struct lower *l, enum sg_class cls, uint64_t value);
int32_t lo_const_ref(struct lower *l, enum sg_class cls, enum sg_const_kind kind,
                     uint32_t ref, uint64_t value);
/* Emit with result @d (SG_NOREG: a fresh one of the operation's class); returns it. */
int32_t lo_op(struct lower *l, enum sg_opcode code, int32_t d, int32_t a, int32_t b,
              int32_t c);
int32_t lo_call_fn(struct lower *l, enum sg_fn_id fn, int32_t d, int32_t a, int32_t b,
                   int32_t c);
uint32_t lo_label(struct lower *l);
void lo_place(struct lower *l, uint32_t label);
void lo_branch(struct lower *l, uint32_t label, int32_t pred, bool neg);

bool lo_has(const struct ptx_insn *insn, unsigned mod);
unsigned lo_type(const struct ptx_insn *insn, unsigned n);
enum sg_class lo_type_class(unsigned type);
bool lo_type_signed(unsigned type);
bool lo_type_float(unsigned type);
enum sg_class lo_class(const struct lower *l, int32_t vreg);

/* The value of an operand as @type says: a register of that type's class. */
int32_t lo_src(struct lower *l, const struct ptx_opd *opd, unsigned type);
int32_t lo_src_pred(struct lower *l, const struct ptx_opd *opd);
/* Where to put a result of @type; lo_finish() moves it where it belongs if the named
 * register is wider or narrower. */
int32_t lo_dst(struct lower *l, const struct ptx_opd *opd, unsigned type);
int32_t lo_dst_pred(struct lower *l, const struct ptx_opd *opd);
void lo_finish(struct lower *l);
int32_t lo_widen(struct lower *l, int32_t v, enum sg_class cls, bool sx);
/* The operand itself: `{a}` is `a` where no vector is asked for.  Triton writes so. */
static inline const struct ptx_opd *
lo_lone(const struct ptx_opd *opd)
{
    return opd->kind == PTX_OPD_VEC && opd->n == 1 ? opd->sub : opd;
}

/* The vreg behind a register operand, without conversion; SG_NOREG if it is none. */
int32_t lo_reg(struct lower *l, const struct ptx_opd *opd);
/* Address of a symbol, in its own space (or generic), as a register of @cls. */
int32_t lo_symbol(struct lower *l, const struct ptx_opd *opd, enum sg_class cls);

/* lower_mem.c */
struct lo_addr {
    enum sg_mem_space space;
    bool frame;   /* fixed offset of the frame: imm */
    bool param;   /* kernel parameter: imm */
    int32_t base; /* W or D register; SG_NOREG with frame and param */
    int64_t imm;
};
bool lo_address(struct lower *l, const struct ptx_opd *opd, unsigned space,
                uint64_t size, struct lo_addr *ret);
unsigned lo_space(const struct ptx_insn *insn); /* PTX_W_global...; PTX_W_generic */
int32_t lo_address_d(struct lower *l, const struct lo_addr *addr); /* 64-bit base */
void lo_load(struct lower *l, const struct lo_addr *addr, unsigned type, int32_t d,
             uint32_t align);
void lo_store(struct lower *l, const struct lo_addr *addr, unsigned type, int32_t v,
              uint32_t align);

/* The registers of @proto's list, @bytes of memory in one access: 8 or 16. */
void lo_access_list(struct lower *l, const struct lo_addr *addr, bool store,
                    unsigned bytes, struct sg_ir *proto, uint32_t align);
/* After a load: a 16-bit register holds its value zero-extended. */
void lo_fit_register(struct lower *l, const struct ptx_opd *opd, unsigned type,
                     int32_t d);
/* Before a store: what its ordering words ask for. */
void lo_order_before(struct lower *l, const struct ptx_insn *insn);
/* lower_vector.c */
unsigned lo_vector_count(const struct ptx_insn *insn); /* of .v2, .v4, .v8; 1 */
/* lower_vector.c: between the two halves of lower_ld() and lower_st() */
void lower_vector(struct lower *l, const struct ptx_insn *insn);
/* lower_wide.c: the halves of a 128-bit register, or of { lo, hi } */
bool lo_halves(struct lower *l, const struct ptx_opd *o, bool dst, int32_t v[2]);

/* lower_mem.c: what its modifiers say of the operation, and of the order */
int lo_atom_kind(const struct ptx_insn *insn, unsigned type); /* 255: there is none */
/* After a load: what its ordering words ask for. */
void lo_order(struct lower *l, const struct ptx_insn *insn);

/* lower_alu.c: one half of @v, of a type with one or two halves, as f32 */
int32_t lo_half_as_f32(struct lower *l, int32_t v, unsigned type, bool high);

/* lower_matrix.c: operations with a list of registers.  The list is collected in
 * @proto before the operation exists. */
bool lo_list_init(struct lower *l, struct sg_ir *proto, uint32_t n);
/* One operation on the mbarrier at @where; @kind: enum sg_mbar. */
void lo_mbar(struct lower *l, const struct ptx_opd *where, unsigned space,
             unsigned kind, int32_t d, int32_t e, int32_t b, int32_t c);
/* enum sg_mat_type of a type word, or -1. */
int lo_mat_type(unsigned word);
struct sg_ir *lo_emit_list(struct lower *l, enum sg_opcode code, struct sg_ir *proto);

/* lower_func.c */
int lower_function(const struct sg_prog *prog, struct unit_builder *ub,
                   const struct ptx_func *func, struct sg_ir_func *ir,
                   uint32_t *ret_local_bytes, struct gp_err *err);

/* clang-format off */
#define LOWER_FNS(X)                                                                   \
    X(addcc) X(madcc) X(shift16) X(mov) X(setp) X(set) X(slct) X(lop3) X(bfi) X(cvt)   \
    X(cvt_pack) X(cvta) X(isspacep) X(ld) X(st) X(atom) X(nothing) X(fence) X(bra)     \
    X(brx) X(call) X(ret) X(exit) X(trap) X(bar) X(bar_warp) X(nanosleep) X(shfl)      \
    X(vote) X(activemask) X(match) X(redux) X(elect) X(selp) X(logic_pred) X(mma)      \
    X(wmma_move) X(ldmatrix) X(movmatrix) X(cp_async) X(cp_mbar) X(mbarrier)           \
    X(video) X(video_simd) X(cvt_narrow) X(mapa) X(getctarank) X(cluster_barrier)      \
    X(bulk) X(bulk_tensor) X(st_async) X(createpolicy) X(mov128) X(f32x2) X(mixed)     \
    X(minmax3) X(cvt_rs) X(cvt_integers) X(st_bulk) X(red_async) X(mma_quads)          \
    X(wgmma) X(tmap_replace) X(tmap_copy) X(cancel) X(cancel_query) X(istypep)         \
    X(stack) X(move128) X(atom128) X(atom_vector) X(vmad) X(texture) X(txq)            \
    X(surface) X(multimem)
/* clang-format on */
#define X(name) lower_fn lower_##name;
LOWER_FNS(X)
#undef X

#endif
