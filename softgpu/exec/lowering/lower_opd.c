/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emitting IR and turning PTX operands into registers; see lower.h.
 */
#include "gp_err.h"
#include "lower.h"
#include "lower_unit.h"
#include "sg_prog.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
lo_fail(struct lower *l, int code, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (l->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    l->failed =
        gp_err_set(l->err, code, "line %u: %s", l->insn ? l->insn->line : 0, text);
}

struct sg_ir *
lo_emit(struct lower *l, enum sg_opcode code)
{
    static struct sg_ir nowhere;
    struct sg_ir_func *f = l->ir;
    struct sg_ir *ir = &nowhere;

    if (f->n_code == f->cap_code) {
        uint32_t cap = f->cap_code ? f->cap_code * 2 : 256;
        struct sg_ir *p =
            cap > SG_MAX_UNIT_OPS ? NULL : reallocarray(f->code, cap, sizeof(*p));
        if (!p)
            lo_fail(l, -E2BIG, "function is too long");
        else
            f->code = p, f->cap_code = cap;
    }
    if (f->n_code < f->cap_code)
        ir = &f->code[f->n_code++];
    *ir = (struct sg_ir){
        .code = (uint16_t)code,
        .guard = l->guard,
        .guard_neg = l->guard_neg,
        .d = SG_NOREG,
        .e = SG_NOREG,
        .a = SG_NOREG,
        .b = SG_NOREG,
        .c = SG_NOREG,
        .f = SG_NOREG,
        .line = l->insn ? l->insn->line : 0,
    };
    return ir;
}

static int32_t
vreg_new(struct lower *l, enum sg_class cls, int32_t konst, bool temp)
{
    struct sg_ir_func *f = l->ir;

    if (f->n_vregs == f->cap_vregs) {
        uint32_t cap = f->cap_vregs ? f->cap_vregs * 2 : 256;
        struct sg_vreg *p = reallocarray(f->vregs, cap, sizeof(*p));
        if (!p) {
            lo_fail(l, -ENOMEM, "out of memory");
            return 0;
        }
        f->vregs = p;
        f->cap_vregs = cap;
    }
    f->vregs[f->n_vregs] =
        (struct sg_vreg){.cls = (uint8_t)cls, .temp = temp, .konst = konst, .slot = -1};
    return (int32_t)f->n_vregs++;
}

int32_t
lo_temp(struct lower *l, enum sg_class cls)
{
    return vreg_new(l, cls, -1, true);
}

int32_t
lo_variable(struct lower *l, enum sg_class cls)
{
    return vreg_new(l, cls, -1, false);
}

struct const_key {
    const struct sg_ir_func *f;
    const struct sg_const *c;
    uint32_t hash;
};

static inline bool
sg_const_table_used(const struct sg_const_slot *e)
{
    return e->vreg1 != 0;
}

static inline uint32_t
sg_const_table_hash(struct const_key key)
{
    return key.hash;
}

static inline uint32_t
sg_const_table_hash_of(const struct sg_const_slot *e)
{
    return e->hash;
}

static inline bool
sg_const_table_is(const struct sg_const_slot *e, struct const_key key)
{
    const struct sg_const *c = &key.f->consts[key.f->vregs[e->vreg1 - 1].konst];

    return c->cls == key.c->cls && c->kind == key.c->kind && c->ref == key.c->ref &&
           c->value == key.c->value;
}

GP_TABLE(sg_const_table, struct sg_const_slot, struct const_key)

static uint32_t
const_hash(const struct sg_const *c)
{
    uint64_t h =
        c->value * 0x9e3779b97f4a7c15ull + c->ref * 31u + c->kind * 7u + c->cls;

    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

/* Room for one more constant and its entry in the table. */
static int
consts_room(struct sg_ir_func *f)
{
    if (f->n_consts == f->cap_consts) {
        uint32_t cap = f->cap_consts ? f->cap_consts * 2 : 64;
        struct sg_const *p = reallocarray(f->consts, cap, sizeof(*p));

        if (!p)
            return -ENOMEM;
        f->consts = p;
        f->cap_consts = cap;
    }
    return sg_const_table_room(&f->const_table);
}

int32_t
lo_const_ref(struct lower *l, enum sg_class cls, enum sg_const_kind kind, uint32_t ref,
             uint64_t value)
{
    struct sg_ir_func *f = l->ir;
    struct sg_const c = {.cls = (uint8_t)cls,
                         .kind = (uint8_t)kind,
                         .ref = ref,
                         .value = cls == SG_W ? value & UINT32_MAX : value};
    struct const_key key = {f, &c, const_hash(&c)};
    const struct sg_const_slot *known = sg_const_table_find(&f->const_table, key);
    int32_t v;

    if (known)
        return (int32_t)known->vreg1 - 1;
    if (consts_room(f) < 0) {
        lo_fail(l, -ENOMEM, "out of memory");
        return 0;
    }
    f->consts[f->n_consts] = c;
    v = vreg_new(l, cls, (int32_t)f->n_consts++, false);
    *sg_const_table_enter(&f->const_table, key) =
        (struct sg_const_slot){.hash = key.hash, .vreg1 = (uint32_t)v + 1};
    return v;
}

int32_t
lo_const(struct lower *l, enum sg_class cls, uint64_t value)
{
    return lo_const_ref(l, cls, SG_CONST_VALUE, 0, value);
}

static enum sg_class
sig_class(char c)
{
    return c == 'D' ? SG_D : c == 'P' ? SG_P : SG_W;
}

int32_t
lo_op(struct lower *l, enum sg_opcode code, int32_t d, int32_t a, int32_t b, int32_t c)
{
    struct sg_ir *ir;

    if (d == SG_NOREG)
        d = lo_temp(l, sig_class(sg_op_sig(code)[0]));
    ir = lo_emit(l, code);
    ir->d = d;
    ir->a = a;
    ir->b = b;
    ir->c = c;
    if (l->ir->vregs[d].temp) /* pure, and dead where the guard is off */
        ir->guard = SG_NOREG;
    return d;
}

int32_t
lo_call_fn(struct lower *l, enum sg_fn_id fn, int32_t d, int32_t a, int32_t b,
           int32_t c)
{
    const struct sg_fn_info *info = &sg_fns[fn];
    enum sg_class cls[4];
    struct sg_ir *ir;

    for (int k = 0; k < 4; k++)
        cls[k] = sig_class(info->sig[k]);
    if (d == SG_NOREG)
        d = lo_temp(l, cls[0]);
    ir = lo_emit(l, SG_OP_FN);
    ir->d = d;
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->imm = fn;
    ir->x = (uint32_t)SG_FN_CLASSES(cls[0], cls[1], cls[2], cls[3]);
    if (l->ir->vregs[d].temp)
        ir->guard = SG_NOREG;
    return d;
}

uint32_t
lo_label(struct lower *l)
{
    return l->ir->n_labels++;
}

void
lo_place(struct lower *l, uint32_t label)
{
    struct sg_ir *ir = lo_emit(l, SG_OP_JOIN);

    ir->guard = SG_NOREG;
    ir->x = label;
}

void
lo_branch(struct lower *l, uint32_t label, int32_t pred, bool neg)
{
    struct sg_ir *ir = lo_emit(l, pred == SG_NOREG ? SG_OP_BRA : SG_OP_BRC);

    ir->guard = SG_NOREG;
    ir->a = pred;
    ir->n = neg;
    ir->x = label;
}

/* ------------------------------------------------------------------ modifiers */

bool
lo_has(const struct ptx_insn *insn, unsigned mod)
{
    for (unsigned i = 0; i < insn->n_mods; i++)
        if (insn->mods[i] == mod)
            return true;
    return false;
}

unsigned
lo_type(const struct ptx_insn *insn, unsigned n)
{
    for (unsigned i = 0; i < insn->n_mods; i++)
        if (ptx_word_is_type(insn->mods[i]) && n-- == 0)
            return insn->mods[i];
    return PTX_W_NONE;
}

enum sg_class
lo_type_class(unsigned type)
{
    if (type == PTX_W_pred)
        return SG_P;
    return ptx_type_size(type) > 4 ? SG_D : SG_W;
}

bool
lo_type_signed(unsigned type)
{
    return type == PTX_W_s8 || type == PTX_W_s16 || type == PTX_W_s32 ||
           type == PTX_W_s64;
}

bool
lo_type_float(unsigned type)
{
    return type == PTX_W_f16 || type == PTX_W_bf16 || type == PTX_W_f32 ||
           type == PTX_W_f64;
}

enum sg_class
lo_class(const struct lower *l, int32_t vreg)
{
    return l->ir->vregs[vreg].cls;
}

/* ------------------------------------------------------------------- operands */

int32_t
lo_reg(struct lower *l, const struct ptx_opd *opd)
{
    const struct ptx_reg *reg;
    uint32_t comp = 0;

    opd = lo_lone(opd);
    if (opd->kind != PTX_OPD_REG)
        return SG_NOREG;
    reg = &l->func->regs[opd->reg];
    if (ptx_type_size(reg->type) > 8) {
        lo_fail(l, -ENOSYS, "128-bit registers are not carried");
        return SG_NOREG;
    }
    if (reg->vec > 1) {
        if (opd->comp < PTX_COMP_X || opd->comp > PTX_COMP_W) {
            lo_fail(l, -ENOSYS, "a whole vector register is no operand here");
            return SG_NOREG;
        }
        comp = (uint32_t)opd->comp - PTX_COMP_X;
        if (comp >= reg->vec) {
            lo_fail(l, -EINVAL, "the register has %u components", reg->vec);
            return SG_NOREG;
        }
    }
    return l->reg_map[opd->reg] + (int32_t)comp;
}

int32_t
lo_widen(struct lower *l, int32_t v, enum sg_class cls, bool sx)
{
    enum sg_class have = lo_class(l, v);

    if (have == cls)
        return v;
    if (have == SG_P || cls == SG_P) {
        lo_fail(l, -EINVAL, "a predicate where a number is wanted, or the reverse");
        return cls == SG_P ? lo_temp(l, SG_P) : lo_const(l, cls, 0);
    }
    if (cls == SG_W)
        return lo_op(l, SG_OP_LO32, SG_NOREG, v, SG_NOREG, SG_NOREG);
    return lo_op(l, sx ? SG_OP_SX32 : SG_OP_ZX32, SG_NOREG, v, SG_NOREG, SG_NOREG);
}

static const struct {
    uint16_t sreg;
    uint8_t per_comp;
    uint8_t wide;
    uint16_t id;
} sreg_table[] = {
    {PTX_SREG_tid, 1, 0, SG_SREG_TID_X},
    {PTX_SREG_ntid, 1, 0, SG_SREG_NTID_X},
    {PTX_SREG_ctaid, 1, 0, SG_SREG_CTAID_X},
    {PTX_SREG_nctaid, 1, 0, SG_SREG_NCTAID_X},
    {PTX_SREG_laneid, 0, 0, SG_SREG_LANEID},
    {PTX_SREG_warpid, 0, 0, SG_SREG_WARPID},
    {PTX_SREG_nwarpid, 0, 0, SG_SREG_NWARPID},
    {PTX_SREG_smid, 0, 0, SG_SREG_SMID},
    {PTX_SREG_nsmid, 0, 0, SG_SREG_NSMID},
    {PTX_SREG_gridid, 0, 1, SG_SREG_GRIDID},
    {PTX_SREG_lanemask_eq, 0, 0, SG_SREG_LANEMASK_EQ},
    {PTX_SREG_lanemask_le, 0, 0, SG_SREG_LANEMASK_LE},
    {PTX_SREG_lanemask_lt, 0, 0, SG_SREG_LANEMASK_LT},
    {PTX_SREG_lanemask_ge, 0, 0, SG_SREG_LANEMASK_GE},
    {PTX_SREG_lanemask_gt, 0, 0, SG_SREG_LANEMASK_GT},
    {PTX_SREG_clock, 0, 0, SG_SREG_CLOCK},
    {PTX_SREG_clock_hi, 0, 0, SG_SREG_CLOCK_HI},
    {PTX_SREG_clock64, 0, 1, SG_SREG_CLOCK64},
    {PTX_SREG_globaltimer, 0, 1, SG_SREG_GLOBALTIMER},
    {PTX_SREG_globaltimer_lo, 0, 0, SG_SREG_GLOBALTIMER_LO},
    {PTX_SREG_globaltimer_hi, 0, 0, SG_SREG_GLOBALTIMER_HI},
    {PTX_SREG_total_smem_size, 0, 0, SG_SREG_TOTAL_SMEM},
    {PTX_SREG_aggr_smem_size, 0, 0, SG_SREG_TOTAL_SMEM},
    {PTX_SREG_dynamic_smem_size, 0, 0, SG_SREG_DYNAMIC_SMEM},
    {PTX_SREG_reserved_smem_offset_begin, 0, 0, SG_SREG_RESERVED},
    {PTX_SREG_reserved_smem_offset_end, 0, 0, SG_SREG_RESERVED_END},
    {PTX_SREG_reserved_smem_offset_cap, 0, 0, SG_SREG_RESERVED_CAP},
    {PTX_SREG_is_explicit_cluster, 0, 0, SG_SREG_IS_CLUSTER},
    {PTX_SREG_clusterid, 1, 0, SG_SREG_CLUSTERID_X},
    {PTX_SREG_nclusterid, 1, 0, SG_SREG_NCLUSTERID_X},
    {PTX_SREG_cluster_ctaid, 1, 0, SG_SREG_CLUSTER_CTAID_X},
    {PTX_SREG_cluster_nctaid, 1, 0, SG_SREG_CLUSTER_NCTAID_X},
    {PTX_SREG_cluster_ctarank, 0, 0, SG_SREG_CLUSTER_CTARANK},
    {PTX_SREG_cluster_nctarank, 0, 0, SG_SREG_CLUSTER_NCTARANK},
};

static int32_t
sreg_read(struct lower *l, const struct ptx_opd *opd)
{
    unsigned comp = opd->comp >= PTX_COMP_X ? (unsigned)opd->comp - PTX_COMP_X : 0;
    int id = -1;
    bool wide = false;
    struct sg_ir *ir;
    int32_t d;

    if (opd->reg == PTX_SREG_envreg) {
        id = opd->imm == 1   ? SG_SREG_ENVREG1
             : opd->imm == 2 ? SG_SREG_ENVREG2
                             : SG_SREG_ZERO;
    } else if (opd->reg == PTX_SREG_pm || opd->reg == PTX_SREG_pm_64 ||
               opd->reg == PTX_SREG_current_graph_exec) {
        return lo_const(l, SG_W, 0); /* no monitor counts, no graph launched us */
    } else if (opd->reg == PTX_SREG_reserved_smem_offset) {
        id = opd->imm == 1 ? SG_SREG_RESERVED_1 : SG_SREG_RESERVED;
    } else if (comp == 3) {
        id = opd->reg == PTX_SREG_ntid || opd->reg == PTX_SREG_nctaid ? SG_SREG_ONE
                                                                      : SG_SREG_ZERO;
    } else {
        for (size_t i = 0; i < ARRAY_SIZE(sreg_table); i++) {
            if (sreg_table[i].sreg != opd->reg)
                continue;
            id = sreg_table[i].id + (sreg_table[i].per_comp == 1 ? (int)comp : 0);
            wide = sreg_table[i].wide;
        }
    }
    if (id < 0) {
        lo_fail(l, -ENOSYS, "special register %%%s is not carried",
                ptx_sreg_name(opd->reg));
        return lo_const(l, SG_W, 0);
    }
    if (id >= SG_SREG_RESERVED && id <= SG_SREG_RESERVED_END)
        ub_reserved(l->ub);
    d = lo_temp(l, wide ? SG_D : SG_W);
    ir = lo_emit(l, wide ? SG_OP_SREG_D : SG_OP_SREG_W);
    ir->d = d;
    ir->n = (uint16_t)id;
    ir->guard = SG_NOREG;
    return d;
}

int32_t
lo_symbol(struct lower *l, const struct ptx_opd *opd, enum sg_class cls)
{
    const struct ptx_var *var = opd->var;
    uint32_t off;
    int32_t index;
    bool dynamic;
    struct sg_ir *ir;

    if (opd->kind == PTX_OPD_FUNC) {
        /* Its address is taken: whoever calls indirectly finds it in the unit. */
        return lo_const(
            l, cls,
            SG_WIN_CODE + 16 * (1 + (uint64_t)sg_prog_func_index(l->prog, opd->func)));
    }
    switch (var->space) {
    case PTX_SPACE_SHARED:
        if (ub_shared(l->ub, var, &off, &dynamic) < 0) {
            lo_fail(l, -E2BIG, "more shared memory than a block may have");
            return lo_const(l, cls, 0);
        }
        return lo_const_ref(l, cls, dynamic ? SG_CONST_DYN_SHARED : SG_CONST_VALUE, 0,
                            off + opd->imm);
    case PTX_SPACE_LOCAL:
        ir = lo_emit(l, cls == SG_D ? SG_OP_FRAME_D : SG_OP_FRAME_W);
        ir->imm = (int64_t)(l->var_off[var->id] + opd->imm);
        ir->guard = SG_NOREG;
        ir->d = lo_temp(l, cls);
        return l->ir->code[l->ir->n_code - 1].d;
    case PTX_SPACE_PARAM:
        if (l->is_kernel && var->offset + opd->imm <= l->func->param_bytes)
            return lo_const(l, cls,
                            sg_prog_param_window(l->prog) + var->offset + opd->imm);
        if (!l->is_kernel && var->id < l->func->n_params &&
            l->func->params[var->id] == var) {
            ir = lo_emit(l, SG_OP_FRAME_D);
            ir->imm = (int64_t)(SG_WIN_LOCAL + sg_call_param_offset(l->func, var->id) +
                                opd->imm);
            ir->guard = SG_NOREG;
            ir->d = lo_temp(l, SG_D);
            return lo_widen(l, l->ir->code[l->ir->n_code - 1].d, cls, false);
        }
        lo_fail(l, -ENOSYS, "the address of this parameter is not available");
        return lo_const(l, cls, 0);
    default:
        index = sg_prog_global_index(l->prog, var);
        if (index < 0) {
            lo_fail(l, -ENOENT, "variable %s has no memory", var->name->name);
            return lo_const(l, cls, 0);
        }
        return lo_const_ref(l, cls, SG_CONST_GLOBAL, (uint32_t)index, opd->imm);
    }
}

static uint64_t
immediate_bits(const struct ptx_opd *opd, unsigned type)
{
    double f64;
    float f32;
    uint32_t u32;

    if (opd->kind == PTX_OPD_INT) {
        if (type == PTX_W_f64 || type == PTX_W_f32) { /* 0, 1: a number, as a float */
            f64 = (double)(int64_t)opd->imm;
            f32 = (float)(int64_t)opd->imm;
            memcpy(&u32, &f32, 4);
            if (type == PTX_W_f32)
                return u32;
            memcpy(&u32, &f32, 4);
            uint64_t u64;
            memcpy(&u64, &f64, 8);
            return u64;
        }
        return opd->imm;
    }
    if (opd->kind == PTX_OPD_F32) {
        if (type != PTX_W_f64)
            return opd->imm & UINT32_MAX;
        u32 = (uint32_t)opd->imm;
        memcpy(&f32, &u32, 4);
        f64 = (double)f32;
        uint64_t u64;
        memcpy(&u64, &f64, 8);
        return u64;
    }
    if (lo_type_class(type) == SG_D)
        return opd->imm;
    memcpy(&f64, &opd->imm, 8);
    f32 = (float)f64;
    memcpy(&u32, &f32, 4);
    return u32;
}

int32_t
lo_src(struct lower *l, const struct ptx_opd *opd, unsigned type)
{
    enum sg_class cls = lo_type_class(type);
    uint64_t bits;
    int32_t v;

    opd = lo_lone(opd);
    switch (opd->kind) {
    case PTX_OPD_REG:
        v = lo_reg(l, opd);
        if (v == SG_NOREG)
            return lo_const(l, cls, 0);
        return lo_widen(l, v, cls, lo_type_signed(type));
    case PTX_OPD_INT:
    case PTX_OPD_F32:
    case PTX_OPD_F64:
        bits = immediate_bits(opd, type);
        if (ptx_type_size(type) == 2)
            bits &= 0xffff;
        else if (ptx_type_size(type) == 1)
            bits &= 0xff;
        return lo_const(l, cls, bits);
    case PTX_OPD_SREG:
        return lo_widen(l, sreg_read(l, opd), cls, false);
    case PTX_OPD_VAR:
    case PTX_OPD_FUNC:
        return lo_symbol(l, opd, cls);
    default:
        lo_fail(l, -ENOSYS, "operand form is not carried here");
        return lo_const(l, cls, 0);
    }
}

int32_t
lo_src_pred(struct lower *l, const struct ptx_opd *opd)
{
    int32_t v;

    opd = lo_lone(opd);
    if (opd->kind == PTX_OPD_INT) { /* some front ends write a constant here */
        struct sg_ir *ir = lo_emit(l, SG_OP_PSET);
        ir->n = opd->imm != 0;
        ir->guard = SG_NOREG;
        v = lo_temp(l, SG_P);
        l->ir->code[l->ir->n_code - 1].d = v;
        return v;
    }
    if (opd->kind == PTX_OPD_SREG)
        return lo_op(l, SG_OP_SETP_NE_W, SG_NOREG, sreg_read(l, opd),
                     lo_const(l, SG_W, 0), SG_NOREG);
    v = lo_reg(l, opd);
    if (v == SG_NOREG || lo_class(l, v) != SG_P) {
        lo_fail(l, -EINVAL, "expected a predicate");
        return lo_temp(l, SG_P);
    }
    if (opd->flags & PTX_OPF_NOT)
        return lo_op(l, SG_OP_PNOT, SG_NOREG, v, SG_NOREG, SG_NOREG);
    return v;
}

int32_t
lo_dst(struct lower *l, const struct ptx_opd *opd, unsigned type)
{
    enum sg_class cls = lo_type_class(type);
    int32_t v;

    opd = lo_lone(opd);
    if (opd->kind == PTX_OPD_SINK)
        return lo_temp(l, cls);
    v = lo_reg(l, opd);
    if (v == SG_NOREG) {
        lo_fail(l, -EINVAL, "expected a register as the result");
        return lo_temp(l, cls);
    }
    if (lo_class(l, v) == cls)
        return v;
    if (l->n_fixes == ARRAY_SIZE(l->fixes)) {
        lo_fail(l, -ENOSYS, "too many results");
        return lo_temp(l, cls);
    }
    l->fixes[l->n_fixes].real = v;
    l->fixes[l->n_fixes].temp = lo_temp(l, cls);
    l->fixes[l->n_fixes].sx = lo_type_signed(type);
    return l->fixes[l->n_fixes++].temp;
}

int32_t
lo_dst_pred(struct lower *l, const struct ptx_opd *opd)
{
    int32_t v;

    opd = lo_lone(opd);
    if (opd->kind == PTX_OPD_SINK)
        return lo_temp(l, SG_P);
    v = lo_reg(l, opd);
    if (v == SG_NOREG || lo_class(l, v) != SG_P) {
        lo_fail(l, -EINVAL, "expected a predicate as the result");
        return lo_temp(l, SG_P);
    }
    return v;
}

void
lo_finish(struct lower *l)
{
    for (unsigned i = 0; i < l->n_fixes; i++) {
        enum sg_class to = lo_class(l, l->fixes[i].real);
        enum sg_opcode code = to == SG_W       ? SG_OP_LO32
                              : l->fixes[i].sx ? SG_OP_SX32
                                               : SG_OP_ZX32;
        if (to == SG_P || lo_class(l, l->fixes[i].temp) == SG_P)
            lo_fail(l, -EINVAL, "result register has the wrong type");
        else
            lo_op(l, code, l->fixes[i].real, l->fixes[i].temp, SG_NOREG, SG_NOREG);
    }
    l->n_fixes = 0;
}
