/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering a function: registers, local frame, labels, guards, and control flow.
 *
 * Operations that may block or leave the fragment (calls, returns, barriers, warp
 * operations) never carry a guard: a branch around them does it, so that the executor
 * sees them with the fragment's whole mask.
 */
#include "gp_err.h"
#include "lower.h"
#include "lower_unit.h"
#include "sg_isa.h"
#include "sg_prog.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t
layout_offset(const struct ptx_func *proto, uint32_t param, uint32_t ret,
              uint32_t *ret_end)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < proto->n_params && i <= param; i++) {
        at = GP_ALIGN_UP(at, (uint64_t)proto->params[i]->align);
        if (i == param)
            return (uint32_t)at;
        at += gp_max(proto->params[i]->size, 1u);
    }
    at = GP_ALIGN_UP(at, 16u);
    for (uint32_t i = 0; i < proto->n_rets && i <= ret; i++) {
        at = GP_ALIGN_UP(at, (uint64_t)proto->rets[i]->align);
        if (i == ret)
            return (uint32_t)at;
        at += gp_max(proto->rets[i]->size, 1u);
    }
    at = GP_ALIGN_UP(at, 16u);
    *ret_end = (uint32_t)gp_min(at, (uint64_t)UINT32_MAX / 2);
    return 0;
}

uint32_t
sg_call_param_offset(const struct ptx_func *proto, uint32_t index)
{
    uint32_t end;

    return layout_offset(proto, index, UINT32_MAX, &end);
}

uint32_t
sg_call_ret_offset(const struct ptx_func *proto, uint32_t index)
{
    uint32_t end;

    return layout_offset(proto, UINT32_MAX, index, &end);
}

static uint32_t
call_bytes(const struct ptx_func *proto)
{
    uint32_t end = 0;

    layout_offset(proto, UINT32_MAX, UINT32_MAX, &end);
    return end;
}

/* Give every PTX register a virtual register (one per component). */
static int
map_registers(struct lower *l)
{
    const struct ptx_func *f = l->func;

    l->reg_map = calloc(f->n_regs + 1u, sizeof(*l->reg_map));
    if (!l->reg_map)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n_regs; i++) {
        const struct ptx_reg *reg = &f->regs[i];
        l->reg_map[i] = lo_variable(l, lo_type_class(reg->type));
        if (ptx_type_size(reg->type) == 16) /* its high half */
            lo_variable(l, SG_D);
        for (unsigned c = 1; c < reg->vec; c++)
            lo_variable(l, lo_type_class(reg->type));
    }
    return l->failed;
}

/* Frame of local memory: own parameters and results, then .local variables.  Outgoing
 * arguments lie behind it, where the callee's frame begins. */
static int
layout_frame(struct lower *l)
{
    const struct ptx_func *f = l->func;
    uint64_t at = l->is_kernel ? 0 : call_bytes(f);

    l->var_off = malloc((f->n_vars + 1u) * sizeof(*l->var_off));
    if (!l->var_off)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n_vars; i++) {
        const struct ptx_var *var = f->vars[i];
        l->var_off[i] = UINT32_MAX;
        if (var->space != PTX_SPACE_LOCAL)
            continue;
        at = GP_ALIGN_UP(at, (uint64_t)gp_max(var->align, 4u));
        l->var_off[i] = (uint32_t)at;
        at += var->size;
        if (at > sg_prog_target(l->prog)->max_local_per_thread) {
            lo_fail(l, -E2BIG, "local variables of %s need more than %u bytes",
                    f->name->name, sg_prog_target(l->prog)->max_local_per_thread);
            return l->failed;
        }
    }
    l->local_bytes = (uint32_t)GP_ALIGN_UP(at, 16u);
    return 0;
}

struct call_parts {
    const struct ptx_opd *rets, *args, *target;
    const struct ptx_func *proto;
    const struct ptx_label *label;
};

static struct call_parts
call_split(const struct ptx_insn *insn)
{
    struct call_parts p = {0};

    for (unsigned i = 0; i < insn->n_opds; i++) {
        const struct ptx_opd *o = &insn->opds[i];
        if (o->kind == PTX_OPD_LIST && !p.target)
            p.rets = o;
        else if (o->kind == PTX_OPD_LIST)
            p.args = o;
        else if (!p.target)
            p.target = o;
        else if (o->kind == PTX_OPD_LABEL)
            p.label = o->label;
    }
    if (p.label && p.label->kind == PTX_LABEL_PROTOTYPE)
        p.proto = p.label->proto;
    else if (p.label && p.label->kind == PTX_LABEL_CALLS && p.label->n)
        p.proto = p.label->funcs[0];
    else if (p.target && p.target->kind == PTX_OPD_FUNC)
        p.proto = p.target->func;
    return p;
}

/* Results that another module believes the function to have, as linkers let it: their
 * place behind the call's own area, where nobody writes. */
#define MAX_SURPLUS 1
#define SURPLUS_BYTES 64u

static uint32_t
surplus_offset(const struct ptx_func *proto, uint32_t i)
{
    return GP_ALIGN_UP(call_bytes(proto), 16u) +
           (i > proto->n_rets ? i - proto->n_rets : 0) * SURPLUS_BYTES;
}

static void
map_variable(struct lower *l, const struct ptx_var *var, const struct ptx_var *param,
             uint32_t off)
{
    uint32_t *at = &l->var_off[var->id];

    if (var->size >
        (var == param ? SURPLUS_BYTES
                      : param->size)) { /* a store to its end would leave the frame */
        lo_fail(l, -EINVAL, "argument %s is larger than the parameter",
                var->name ? var->name->name : "_");
        return;
    }
    if (*at != UINT32_MAX && *at != off)
        lo_fail(l, -ENOSYS, "parameter %s belongs to two calls of different shape",
                var->name ? var->name->name : "_");
    *at = off;
}

/* A variable that a call passes is stored straight into the callee's frame. */
static void
map_call_variables(struct lower *l, const struct ptx_insn *insn)
{
    struct call_parts p = call_split(insn);

    if (!p.proto)
        return;
    if (call_bytes(p.proto) > sg_prog_target(l->prog)->max_local_per_thread) {
        lo_fail(l, -E2BIG, "arguments of a call are too large");
        return;
    }
    for (uint32_t i = 0; p.args && i < p.args->n && i < p.proto->n_params; i++) {
        const struct ptx_opd *o = &p.args->sub[i];
        if (o->kind == PTX_OPD_VAR && o->var->space == PTX_SPACE_PARAM &&
            o->var->func == l->func && o->var->id < l->func->n_vars)
            map_variable(l, o->var, p.proto->params[i],
                         l->local_bytes + sg_call_param_offset(p.proto, i));
    }
    for (uint32_t i = 0; p.rets && i < p.rets->n; i++) {
        const struct ptx_opd *o = &p.rets->sub[i];
        bool surplus = i >= p.proto->n_rets;
        if (o->kind == PTX_OPD_VAR && o->var->space == PTX_SPACE_PARAM &&
            o->var->func == l->func && o->var->id < l->func->n_vars)
            map_variable(l, o->var, surplus ? o->var : p.proto->rets[i],
                         l->local_bytes + (surplus ? surplus_offset(p.proto, i)
                                                   : sg_call_ret_offset(p.proto, i)));
    }
}

static bool
blocks(const struct ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_W_call:
    case PTX_W_ret:
    case PTX_W_exit:
    case PTX_W_trap:
    case PTX_W_brx:
    case PTX_W_bar:
    case PTX_W_barrier:
    case PTX_W_shfl:
    case PTX_W_vote:
    case PTX_W_match:
    case PTX_W_redux:
    case PTX_W_elect:
    case PTX_W_activemask:
    case PTX_W_nanosleep:
    case PTX_W_mbarrier:
    case PTX_W_mma:
    case PTX_W_wmma:
    case PTX_W_wgmma:
    case PTX_W_ldmatrix:
    case PTX_W_stmatrix:
        return true;
    default:
        return false;
    }
}

static void lower_row(struct lower *l, const struct ptx_insn *insn);

static void
form_name(const struct lower *l, const struct ptx_insn *insn, char *buf, size_t size)
{
    const struct ptx_module *mod = sg_prog_module(l->prog);
    size_t at = (size_t)snprintf(buf, size, "%s", ptx_word_name(mod, insn->op));

    for (unsigned i = 0; i < insn->n_mods && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, ".%s",
                               ptx_word_name(mod, insn->mods[i]));
}

static void
lower_insn(struct lower *l, const struct ptx_insn *insn)
{
    uint32_t skip = UINT32_MAX;
    char form[160];

    l->insn = insn;
    l->guard = SG_NOREG;
    l->guard_neg = false;
    l->row = isa_find(insn);
    if (!l->row || (insn->flags & PTX_INSN_OPAQUE)) {
        form_name(l, insn, form, sizeof(form));
        lo_fail(l, -ENOSYS, "instruction %s is not carried", form);
        return;
    }
    if (insn->flags & PTX_INSN_GUARD) {
        int32_t g = l->reg_map[insn->guard];
        bool neg = insn->flags & PTX_INSN_NEG;
        if (lo_class(l, g) != SG_P) {
            lo_fail(l, -EINVAL, "the guard is no predicate");
            return;
        }
        if (insn->op == PTX_W_bra) {
            l->guard = g; /* becomes the branch's own condition */
            l->guard_neg = neg;
        } else if (blocks(insn)) {
            skip = lo_label(l);
            lo_branch(l, skip, g, !neg);
        } else {
            if (insn->op == PTX_W_setp || insn->op == PTX_W_mov)
                g = lo_op(l, SG_OP_MOV_P, SG_NOREG, g, SG_NOREG, SG_NOREG);
            l->guard = g;
            l->guard_neg = neg;
        }
    }
    lower_row(l, insn);
    lo_finish(l);
    l->guard = SG_NOREG;
    if (skip != UINT32_MAX)
        lo_place(l, skip);
}

/* .ftz and .sat of half operations, around their scalar function. */
static void
lower_half(struct lower *l, const struct ptx_insn *insn, unsigned type, int32_t d,
           int32_t s[3])
{
    bool pair = type == PTX_W_f16x2 || type == PTX_W_bf16x2;
    bool sat = lo_has(insn, PTX_W_sat), ftz = lo_has(insn, PTX_W_ftz);
    bool relu = lo_has(insn, PTX_W_relu);
    int32_t r = d;

    (void)pair;
    for (int k = 0; ftz && k < 3; k++)
        if (s[k] != SG_NOREG)
            s[k] = lo_call_fn(l, SG_FN_ftz_f16x2, SG_NOREG, s[k], SG_NOREG, SG_NOREG);
    if (sat || ftz || relu)
        r = lo_temp(l, SG_W);
    lo_call_fn(l, l->row->code, r, s[0], s[1], s[2]);
    if (ftz)
        r = lo_call_fn(l, SG_FN_ftz_f16x2, sat || relu ? SG_NOREG : d, r, SG_NOREG,
                       SG_NOREG);
    if (sat)
        lo_call_fn(l,
                   type == PTX_W_bf16 || type == PTX_W_bf16x2 ? SG_FN_sat_bf16x2
                                                              : SG_FN_sat_f16x2,
                   d, r, SG_NOREG, SG_NOREG);
    else if (relu)
        lo_call_fn(l,
                   type == PTX_W_bf16 || type == PTX_W_bf16x2 ? SG_FN_relu_bf16x2
                                                              : SG_FN_relu_f16x2,
                   d, r, SG_NOREG, SG_NOREG);
}

/* Class of source k of the row's operation, as a PTX type to read the operand by. */
static unsigned
source_type(const struct ptx_insn *insn, int k, char sig, unsigned type)
{
    /* What mad.wide adds is twice as wide as what it multiplies. */
    if (k == 2 && ptx_type_size(type) == 2 && lo_has(insn, PTX_W_wide))
        return PTX_W_b32;
    if (sig == 'P')
        return PTX_W_pred;
    if (sig == 'D')
        return ptx_type_size(type) == 8 ? type : PTX_W_b64;
    return ptx_type_size(type) <= 4 ? type : PTX_W_b32;
}

/* What ptxas (13.0) refuses of constants: in operations on lanes of integers, and of
 * positions and lengths of fields above 255. */
static void
check_constants(struct lower *l, const struct ptx_insn *insn, unsigned type)
{
    bool lanes = type == PTX_W_u16x2 || type == PTX_W_s16x2 || type == PTX_W_u8x4 ||
                 type == PTX_W_s8x4;
    unsigned field = insn->op == PTX_W_bfe ? 2 : insn->op == PTX_W_bfi ? 3 : UINT_MAX;

    for (unsigned i = 1; i < insn->n_opds; i++) {
        if (insn->opds[i].kind != PTX_OPD_INT)
            continue;
        if (lanes)
            lo_fail(l, -EINVAL, "operand %u: a constant cannot be lanes of integers",
                    i);
        else if (i >= field && insn->opds[i].imm > 255)
            lo_fail(l, -EINVAL, "operand %u: out of the range from 0 to 255", i);
    }
}

static void
lower_row(struct lower *l, const struct ptx_insn *insn)
{
    const struct isa_row *row = l->row;
    unsigned type = lo_type(insn, 0);
    const char *sig;
    int32_t s[3] = {SG_NOREG, SG_NOREG, SG_NOREG}, d, r;
    bool ftz, sat;

    check_constants(l, insn, type);
    if (row->kind == ISA_DO) {
        row->lower(l, insn);
        return;
    }
    sig = row->kind == ISA_FN || row->kind == ISA_FNH ? sg_fns[row->code].sig
                                                      : sg_op_sig(row->code);
    if (row->kind != ISA_FN && row->kind != ISA_FNH)
        sig++; /* operations have a second result in between */
    if (insn->n_opds < 1 || insn->n_opds > 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    for (int k = 0; k < 3 && k + 1 < insn->n_opds; k++) {
        char want = sig[k + 1];
        if (want == '-') {
            lo_fail(l, -EINVAL, "too many operands");
            return;
        }
        s[k] = want == 'P'
                   ? lo_src_pred(l, &insn->opds[k + 1])
                   : lo_src(l, &insn->opds[k + 1], source_type(insn, k, want, type));
        if (row->kind == ISA_S16)
            s[k] = lo_op(l, SG_OP_SX16, SG_NOREG, s[k], SG_NOREG, SG_NOREG);
    }
    for (int k = 0; k < 3; k++) {
        if (sig[k + 1] != '-' && s[k] == SG_NOREG) {
            lo_fail(l, -EINVAL, "too few operands");
            return;
        }
    }
    if ((row->kind == ISA_FN || row->kind == ISA_FNH ? sig[0]
                                                     : sg_op_sig(row->code)[0]) == 'P')
        d = lo_dst_pred(l, &insn->opds[0]);
    else
        d = lo_dst(l, &insn->opds[0],
                   (row->kind == ISA_FN || row->kind == ISA_FNH
                        ? sig[0]
                        : sg_op_sig(row->code)[0]) == 'D'
                       ? PTX_W_b64
                   : lo_type_signed(type) ? PTX_W_s32
                                          : PTX_W_b32);
    ftz = row->kind == ISA_FN && lo_has(insn, PTX_W_ftz) && type == PTX_W_f32;
    sat = lo_has(insn, PTX_W_sat) && type == PTX_W_f32;
    if (row->kind == ISA_FNH) {
        lower_half(l, insn, type, d, s);
        return;
    }
    if (row->kind == ISA_A16 || row->kind == ISA_S16) {
        r = lo_op(l, row->code, SG_NOREG, s[0], s[1], s[2]);
        lo_op(l, SG_OP_ZX16, d, r, SG_NOREG, SG_NOREG);
        return;
    }
    if (row->kind == ISA_FN && (type == PTX_W_f16 || type == PTX_W_bf16)) {
        /* functions work on both halves of a word */
        r = lo_call_fn(l, row->code, SG_NOREG, s[0], s[1], s[2]);
        lo_op(l, SG_OP_ZX16, d, r, SG_NOREG, SG_NOREG);
        return;
    }
    for (int k = 0; ftz && k < 3; k++)
        if (s[k] != SG_NOREG)
            s[k] = lo_op(l, SG_OP_FTZ_F32, SG_NOREG, s[k], SG_NOREG, SG_NOREG);
    r = sat || ftz ? SG_NOREG : d;
    r = row->kind == ISA_FN ? lo_call_fn(l, row->code, r, s[0], s[1], s[2])
                            : lo_op(l, row->code, r, s[0], s[1], s[2]);
    if (ftz)
        r = lo_op(l, SG_OP_FTZ_F32, sat ? SG_NOREG : d, r, SG_NOREG, SG_NOREG);
    if (sat)
        lo_op(l, SG_OP_SAT_F32, d, r, SG_NOREG, SG_NOREG);
}

/* -------------------------------------------------------------- control flow */

void
lower_nothing(struct lower *l, const struct ptx_insn *insn)
{
    (void)l, (void)insn;
}

void
lower_bra(struct lower *l, const struct ptx_insn *insn)
{
    if (insn->n_opds != 1 || insn->opds[0].kind != PTX_OPD_LABEL ||
        insn->opds[0].label->kind != PTX_LABEL_CODE) {
        lo_fail(l, -EINVAL, "bra needs a label");
        return;
    }
    lo_branch(l, insn->opds[0].label->id, l->guard, l->guard_neg);
    if (l->guard != SG_NOREG && insn->opds[0].label->at <= l->insn - l->func->insns)
        lo_place(l, lo_label(l)); /* lanes that leave a loop wait here */
}

void
lower_brx(struct lower *l, const struct ptx_insn *insn)
{
    const struct ptx_label *targets;
    uint32_t first = 0;
    struct sg_ir *ir;
    int32_t index;

    if (insn->n_opds != 2 || insn->opds[1].kind != PTX_OPD_LABEL ||
        insn->opds[1].label->kind != PTX_LABEL_BRANCHES || !insn->opds[1].label->n) {
        lo_fail(l, -EINVAL, "brx.idx needs an index and a list of labels");
        return;
    }
    targets = insn->opds[1].label;
    if (targets->n > UINT16_MAX) {
        lo_fail(l, -E2BIG, "brx.idx: too many labels");
        return;
    }
    index = lo_src(l, &insn->opds[0], PTX_W_u32);
    for (uint32_t i = 0; i < targets->n; i++) {
        uint32_t at;
        if (targets->labels[i]->kind != PTX_LABEL_CODE) {
            lo_fail(l, -EINVAL, "brx.idx: %s is no place to jump to",
                    targets->labels[i]->name->name);
            return;
        }
        at = ub_table(l->ub, targets->labels[i]->id);
        if (at == UINT32_MAX) {
            lo_fail(l, -ENOMEM, "out of memory");
            return;
        }
        if (i == 0)
            first = at;
    }
    ir = lo_emit(l, SG_OP_BRX);
    ir->a = index;
    ir->x = first;
    ir->n = (uint16_t)targets->n;
}

/* A place in local memory, from the start of the function's frame. */
static struct lo_addr
in_frame(int64_t at)
{
    return (struct lo_addr){
        .space = SG_MEM_LOCAL, .frame = true, .base = SG_NOREG, .imm = at};
}

/* Parameters and results of a function that are registers (`.func (.reg .u32 r) f(.reg
 * .u64 a)`) pass through the call's area of the frame like those in .param space: the
 * function takes its parameters from there when it begins, and leaves its results there
 * when it returns. */
static bool
is_scalar_register(struct lower *l, const struct ptx_var *var)
{
    if (var->space != PTX_SPACE_REG || !var->name)
        return false;
    if (l->func->regs[var->reg].vec > 1)
        lo_fail(l, -ENOSYS, "%s: a vector of registers as a parameter is not carried",
                var->name->name);
    return true;
}

static void
take_register_params(struct lower *l)
{
    const struct ptx_func *f = l->func;

    for (uint32_t i = 0; i < f->n_params; i++) {
        const struct ptx_var *param = f->params[i];
        const struct lo_addr at = in_frame(sg_call_param_offset(f, i));

        if (is_scalar_register(l, param))
            lo_load(l, &at, param->type, l->reg_map[param->reg], 0);
    }
}

static void
leave_register_results(struct lower *l)
{
    const struct ptx_func *f = l->func;

    for (uint32_t i = 0; i < f->n_rets; i++) {
        const struct ptx_var *ret = f->rets[i];
        const struct lo_addr at = in_frame(sg_call_ret_offset(f, i));

        if (is_scalar_register(l, ret))
            lo_store(l, &at, ret->type, l->reg_map[ret->reg], 0);
    }
}

static void
emit_return(struct lower *l)
{
    if (!l->is_kernel)
        leave_register_results(l);
    lo_emit(l, l->is_kernel ? SG_OP_EXIT : SG_OP_RET);
}

void
lower_ret(struct lower *l, const struct ptx_insn *insn)
{
    (void)insn;
    emit_return(l);
}

void
lower_exit(struct lower *l, const struct ptx_insn *insn)
{
    (void)insn;
    lo_emit(l, SG_OP_EXIT);
}

void
lower_trap(struct lower *l, const struct ptx_insn *insn)
{
    (void)insn;
    lo_emit(l, SG_OP_TRAP)->n = SG_FAULT_LAUNCH_FAILED;
}

/* ------------------------------------------------------------------- calls */

static void
call_store_args(struct lower *l, const struct call_parts *p)
{
    for (uint32_t i = 0; p->args && i < p->args->n; i++) {
        const struct ptx_opd *o = &p->args->sub[i];
        const struct ptx_var *param = p->proto->params[i];
        struct lo_addr at =
            in_frame(l->local_bytes + sg_call_param_offset(p->proto, i));

        if (o->kind == PTX_OPD_VAR && o->var->space == PTX_SPACE_PARAM &&
            o->var->func == l->func && o->var->id < l->func->n_vars)
            continue; /* stored in place by st.param */
        lo_store(l, &at, param->type, lo_src(l, o, param->type), 0);
    }
}

static void
call_load_rets(struct lower *l, const struct call_parts *p)
{
    for (uint32_t i = 0; p->rets && i < gp_min(p->rets->n, p->proto->n_rets); i++) {
        const struct ptx_opd *o = &p->rets->sub[i];
        const struct ptx_var *ret = p->proto->rets[i];
        struct lo_addr at = in_frame(l->local_bytes + sg_call_ret_offset(p->proto, i));

        if (o->kind == PTX_OPD_VAR || o->kind == PTX_OPD_SINK)
            continue;
        lo_load(l, &at, ret->type, lo_dst(l, o, ret->type), 0);
    }
}

static int32_t
builtin_word(struct lower *l, const struct call_parts *p, uint32_t i)
{
    struct lo_addr at = in_frame(l->local_bytes + sg_call_param_offset(p->proto, i));
    int32_t d = lo_temp(l, SG_W);

    lo_load(l, &at, PTX_W_b32, d, 0);
    return d;
}

static int32_t
builtin_arg(struct lower *l, const struct call_parts *p, uint32_t i)
{
    struct lo_addr at = in_frame(l->local_bytes + sg_call_param_offset(p->proto, i));
    int32_t d = lo_temp(l, SG_D);

    lo_load(l, &at, PTX_W_b64, d, 0);
    return d;
}

/* Functions that the device runtime provides, by name. */
static bool
call_builtin(struct lower *l, const struct call_parts *p)
{
    const char *name = p->proto->name ? p->proto->name->name : "";
    struct lo_addr ret = in_frame(0);
    unsigned n = p->proto->n_params;
    int32_t a, b, d;

    if (p->proto->has_body)
        return false;
    if (p->proto->n_rets)
        ret.imm = l->local_bytes + sg_call_ret_offset(p->proto, 0);
    if (strcmp(name, "vprintf") == 0 && n == 2 && p->proto->n_rets <= 1) {
        a = builtin_arg(l, p, 0);
        b = builtin_arg(l, p, 1);
        d = lo_op(l, SG_OP_VPRINTF, SG_NOREG, a, b, SG_NOREG);
        if (p->proto->n_rets) /* a declaration may leave the count out */
            lo_store(l, &ret, PTX_W_b32, d, 0);
    } else if (strcmp(name, "malloc") == 0 && n == 1 && p->proto->n_rets == 1) {
        a = builtin_arg(l, p, 0);
        d = lo_op(l, SG_OP_MALLOC, SG_NOREG, a, SG_NOREG, SG_NOREG);
        lo_store(l, &ret, PTX_W_b64, d, 0);
    } else if (strcmp(name, "free") == 0 && n == 1) {
        a = builtin_arg(l, p, 0);
        lo_emit(l, SG_OP_FREE)->a = a;
    } else if (strcmp(name, "cudaGraphSetConditional") == 0 && n == 2) {
        struct sg_ir *ir;
        a = builtin_arg(l, p, 0);
        b = builtin_word(l, p, 1);
        ir = lo_emit(l, SG_OP_SETCOND);
        ir->a = a;
        ir->b = b;
    } else if (strcmp(name, SG_LAUNCH_FUNCTION) == 0 && n == 1 &&
               p->proto->n_rets == 1) {
        a = builtin_arg(l, p, 0);
        d = lo_op(l, SG_OP_LAUNCH, SG_NOREG, a, SG_NOREG, SG_NOREG);
        lo_store(l, &ret, PTX_W_b32, d, 0);
    } else if (strcmp(name, "__assertfail") == 0 && n >= 4) {
        /* message, file, line, function */
        struct sg_ir *ir = lo_emit(l, SG_OP_ASSERTFAIL);
        ir->imm = l->local_bytes;
        ir->x = sg_call_param_offset(p->proto, 2);
        ir->n = (uint16_t)sg_call_param_offset(p->proto, 3);
    } else {
        return false;
    }
    return true;
}

void
lower_call(struct lower *l, const struct ptx_insn *insn)
{
    struct call_parts p = call_split(insn);
    const struct ptx_func *callee;
    size_t n_rets = p.rets ? p.rets->n : 0;
    struct sg_ir *ir;
    int32_t index;

    if (!p.target || !p.proto || (p.args ? p.args->n : 0) != p.proto->n_params ||
        n_rets < p.proto->n_rets || n_rets > p.proto->n_rets + MAX_SURPLUS) {
        lo_fail(l, -EINVAL, "call: arguments do not fit the function");
        return;
    }
    l->ir->out_bytes =
        gp_max(l->ir->out_bytes, surplus_offset(p.proto, (uint32_t)n_rets));
    call_store_args(l, &p);
    if (p.target->kind == PTX_OPD_FUNC) {
        callee = p.target->func;
        for (int hops = 0; callee->alias && hops < 16; hops++)
            callee = callee->alias;
        if (call_builtin(l, &p)) {
            call_load_rets(l, &p);
            return;
        }
        if (!callee->has_body) {
            lo_fail(l, -ENOENT, "call: function %s is defined nowhere",
                    callee->name->name);
            return;
        }
        index = ub_function(l->ub, callee);
        if (index < 0) {
            lo_fail(l, -ENOMEM, "out of memory");
            return;
        }
        ub_calls(l->ub, l->func, index);
        lo_emit(l, SG_OP_CALL)->x = (uint32_t)index;
    } else {
        int32_t a = lo_src(l, p.target, PTX_W_b64);
        ub_all_functions(l->ub);
        ub_calls(l->ub, l->func, -1);
        ir = lo_emit(l, SG_OP_CALLI);
        ir->a = a;
    }
    call_load_rets(l, &p);
}

/* ------------------------------------------------------------------ the body */

static bool
is_target(const struct ptx_func *f, const struct ptx_label *label)
{
    (void)f;
    return label->kind == PTX_LABEL_CODE;
}

/* Labels by the instruction they stand before, in order. */
static int
label_order(const void *a, const void *b)
{
    const struct ptx_label *la = *(const struct ptx_label *const *)a;
    const struct ptx_label *lb = *(const struct ptx_label *const *)b;

    return la->at < lb->at ? -1 : la->at > lb->at;
}

static int
lower_body(struct lower *l)
{
    const struct ptx_func *f = l->func;
    CLEANUP_FREE const struct ptx_label **order = NULL;
    uint32_t n = 0, next = 0;

    order = malloc((f->n_labels + 1u) * sizeof(*order));
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n_labels; i++)
        if (is_target(f, f->labels[i]))
            order[n++] = f->labels[i];
    qsort(order, n, sizeof(*order), label_order);
    l->ir->n_labels = f->n_labels;
    for (uint32_t i = 0; i < f->n_insns; i++)
        if (f->insns[i].op == PTX_W_call)
            map_call_variables(l, &f->insns[i]);
    if (!l->is_kernel)
        take_register_params(l);
    for (uint32_t i = 0; i <= f->n_insns; i++) {
        l->guard = SG_NOREG;
        while (next < n && order[next]->at == i)
            lo_place(l, order[next++]->id);
        if (i < f->n_insns)
            lower_insn(l, &f->insns[i]);
        if (l->failed)
            return l->failed;
    }
    l->insn = NULL;
    emit_return(l); /* falling off the end */
    return l->failed;
}

int
lower_function(const struct sg_prog *prog, struct unit_builder *ub,
               const struct ptx_func *func, struct sg_ir_func *ir,
               uint32_t *ret_local_bytes, struct gp_err *err)
{
    struct lower l = {.prog = prog,
                      .ub = ub,
                      .func = func,
                      .ir = ir,
                      .err = err,
                      .is_kernel = func->is_entry,
                      .guard = SG_NOREG,
                      .cc = SG_NOREG};
    int r;

    ir->ast = func;
    r = map_registers(&l);
    if (r == 0)
        r = layout_frame(&l);
    if (r == 0)
        r = lower_body(&l);
    *ret_local_bytes = l.local_bytes;
    free(l.reg_map);
    free(l.var_off);
    return r;
}
