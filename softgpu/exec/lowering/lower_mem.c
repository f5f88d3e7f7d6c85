/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering loads, stores, atomics and address conversions.
 *
 * Vectors are in lower_vector.c.  Offsets that are known here (parameters, variables of
 * the frame) are checked here, so that the executor need not.
 */
#include "gp_err.h"
#include "lower.h"
#include "lower_unit.h"
#include "sg_prog.h"

#include <errno.h>
#include <string.h>

unsigned
lo_space(const struct ptx_insn *insn)
{
    for (unsigned i = 0; i < insn->n_mods; i++) {
        switch (insn->mods[i]) {
        case PTX_W_global:
        case PTX_W_const:
        case PTX_W_local:
        case PTX_W_param:
        case PTX_W_shared:
            return insn->mods[i];
        case PTX_W_shared__cta:
        case PTX_W_shared__cluster:
            return PTX_W_shared;
        case PTX_W_param__entry:
        case PTX_W_param__func:
            return PTX_W_param;
        default:
            break;
        }
    }
    return PTX_W_generic;
}

static unsigned
var_space(const struct ptx_var *var)
{
    switch (var->space) {
    case PTX_SPACE_SHARED:
        return PTX_W_shared;
    case PTX_SPACE_LOCAL:
        return PTX_W_local;
    case PTX_SPACE_PARAM:
        return PTX_W_param;
    case PTX_SPACE_CONST:
        return PTX_W_const;
    default:
        return PTX_W_global;
    }
}

/* Whether [off, off + size) lies in a variable of @bytes. */
static bool
within(struct lower *l, uint64_t off, uint64_t size, uint64_t bytes, const char *what)
{
    if (off <= bytes && size <= bytes - off)
        return true;
    lo_fail(l, -EINVAL, "access at offset %lld lies outside %s", (long long)off, what);
    return false;
}

static bool
address_param(struct lower *l, const struct ptx_opd *opd, uint64_t size,
              struct lo_addr *ret)
{
    const struct ptx_var *var = opd->var;

    if (var->func == l->func && l->is_kernel && var->id < l->func->n_params &&
        l->func->params[var->id] == var) {
        if (!within(l, var->offset + opd->imm, size, l->func->param_bytes,
                    "the parameters"))
            return false;
        *ret = (struct lo_addr){.space = SG_MEM_PARAM,
                                .param = true,
                                .base = SG_NOREG,
                                .imm = (int64_t)(var->offset + opd->imm)};
        return true;
    }
    *ret = (struct lo_addr){.space = SG_MEM_LOCAL, .frame = true, .base = SG_NOREG};
    if (!within(l, opd->imm, size, var->size, var->name ? var->name->name : "_"))
        return false;
    if (var->id < l->func->n_params && l->func->params[var->id] == var)
        ret->imm = sg_call_param_offset(l->func, var->id);
    else if (var->id < l->func->n_rets && l->func->rets[var->id] == var)
        ret->imm = sg_call_ret_offset(l->func, var->id);
    else if (var->id < l->func->n_vars && l->func->vars[var->id] == var &&
             l->var_off[var->id] != UINT32_MAX)
        ret->imm = l->var_off[var->id];
    else {
        lo_fail(l, -ENOSYS, "parameter %s belongs to no call",
                var->name ? var->name->name : "_");
        return false;
    }
    ret->imm += (int64_t)opd->imm;
    return true;
}

/* base + register: one of the two becomes an addition. */
static void
address_index(struct lower *l, const struct ptx_opd *opd, struct lo_addr *ret)
{
    struct ptx_opd reg = {.kind = PTX_OPD_REG, .reg = opd->reg};
    int32_t index = lo_src(l, &reg, PTX_W_s64);

    if (ptx_opd_scale(opd) > 1)
        index = lo_op(l, SG_OP_MUL_U64, SG_NOREG, index,
                      lo_const(l, SG_D, ptx_opd_scale(opd)), SG_NOREG);
    ret->base = lo_op(l, SG_OP_ADD_U64, SG_NOREG, lo_widen(l, ret->base, SG_D, false),
                      index, SG_NOREG);
}

static enum sg_mem_space
space_of(unsigned word)
{
    switch (word) {
    case PTX_W_global:
        return SG_MEM_GLOBAL;
    case PTX_W_const:
        return SG_MEM_CONST;
    case PTX_W_shared:
        return SG_MEM_SHARED;
    case PTX_W_local:
        return SG_MEM_LOCAL;
    default:
        return SG_MEM_GENERIC; /* a parameter's address is a generic one here */
    }
}

bool
lo_address(struct lower *l, const struct ptx_opd *opd, unsigned space, uint64_t size,
           struct lo_addr *ret)
{
    *ret = (struct lo_addr){
        .space = space_of(space), .base = SG_NOREG, .imm = (int64_t)opd->imm};
    if (opd->kind != PTX_OPD_ADDR) {
        lo_fail(l, -EINVAL, "expected an address in [ ]");
        return false;
    }
    if (opd->base == PTX_OPD_VAR) {
        struct ptx_opd sym = {.kind = PTX_OPD_VAR, .var = opd->var};
        bool indexed = opd->reg != PTX_REG_NONE;
        if (opd->var->space == PTX_SPACE_PARAM && !indexed)
            return address_param(l, opd, size, ret);
        if (opd->var->space == PTX_SPACE_LOCAL && !indexed) {
            if (!within(l, opd->imm, size, opd->var->size, opd->var->name->name))
                return false;
            ret->frame = true;
            ret->imm += l->var_off[opd->var->id];
            ret->space = SG_MEM_LOCAL;
            return true;
        }
        /* A variable's own space wins: [x] without .shared still means x. */
        ret->space = space_of(var_space(opd->var));
        ret->base = lo_symbol(l, &sym, ret->space == SG_MEM_SHARED ? SG_W : SG_D);
        if (indexed)
            address_index(l, opd, ret);
        return !l->failed;
    }
    if (opd->base == PTX_OPD_INT) {
        ret->base = lo_const(l, SG_D, 0);
        return true;
    }
    if (opd->base == PTX_OPD_REG) {
        struct ptx_opd reg = {.kind = PTX_OPD_REG, .reg = opd->reg};
        int32_t v = lo_reg(l, &reg);
        if (v == SG_NOREG || lo_class(l, v) == SG_P) {
            lo_fail(l, -EINVAL, "the address is no number");
            return false;
        }
        if (ret->space != SG_MEM_SHARED)
            v = lo_widen(l, v, SG_D, false);
        ret->base = v;
        return true;
    }
    lo_fail(l, -ENOSYS, "address form is not carried");
    return false;
}

int32_t
lo_address_d(struct lower *l, const struct lo_addr *addr)
{
    struct sg_ir *ir;
    int32_t d;

    if (addr->frame) {
        d = lo_temp(l, SG_D);
        ir = lo_emit(l, SG_OP_FRAME_D);
        ir->imm = 0;
        ir->guard = SG_NOREG;
        ir->d = d;
        return d;
    }
    if (addr->param)
        return lo_const(l, SG_D, sg_prog_param_window(l->prog));
    return lo_widen(l, addr->base, SG_D, false);
}

/* Column in the groups of memory operations: u8 s8 u16 s16 32 64. */
static int
load_column(unsigned type)
{
    switch (ptx_type_size(type)) {
    case 1:
        return lo_type_signed(type) ? 1 : 0;
    case 2:
        return lo_type_signed(type) ? 3 : 2;
    case 4:
        return 4;
    default:
        return 5;
    }
}

static int
load_opcode(const struct lower *l, const struct lo_addr *addr, unsigned type)
{
    int col = load_column(type);

    if (addr->param)
        return SG_OP_LDP_U8 + col;
    if (addr->frame)
        return SG_OP_LDF_U8 + col;
    switch (addr->space) {
    case SG_MEM_SHARED:
        return (lo_class(l, addr->base) == SG_W ? SG_OP_LDS_U8 : SG_OP_LDT_U8) + col;
    case SG_MEM_LOCAL:
        return SG_OP_LDL_U8 + col;
    case SG_MEM_GENERIC:
        return SG_OP_LDA_U8 + col;
    default:
        return SG_OP_LDG_U8 + col;
    }
}

static int
store_opcode(const struct lower *l, const struct lo_addr *addr, unsigned type)
{
    int col = gp_max(load_column(type) - 2, 0);
    unsigned size = ptx_type_size(type);

    col = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    if (addr->frame)
        return SG_OP_STF_8 + col;
    switch (addr->space) {
    case SG_MEM_SHARED:
        return (lo_class(l, addr->base) == SG_W ? SG_OP_STS_8 : SG_OP_STT_8) + col;
    case SG_MEM_LOCAL:
        return SG_OP_STL_8 + col;
    case SG_MEM_GENERIC:
        return SG_OP_STA_8 + col;
    default:
        return SG_OP_STG_8 + col;
    }
}

/* What other threads may look at while it is under way. */
static uint8_t
strong_access(const struct lower *l)
{
    static const unsigned words[] = {PTX_W_volatile, PTX_W_relaxed, PTX_W_acquire,
                                     PTX_W_release, PTX_W_mmio};

    for (size_t i = 0; l->insn && i < ARRAY_SIZE(words); i++)
        if (lo_has(l->insn, words[i]))
            return SG_WATCH_STRONG;
    return 0;
}

static void
fill_access(struct lower *l, struct sg_ir *ir, const struct lo_addr *addr,
            uint32_t align, unsigned type)
{
    ir->a = addr->frame || addr->param ? SG_NOREG : addr->base;
    ir->imm = addr->imm;
    ir->x = align ? align : ptx_type_size(type) - 1;
    ir->watch = strong_access(l);
    ir->n = (uint16_t)(l->n_sites++ % SG_TLB_SITES);
}

void
lo_load(struct lower *l, const struct lo_addr *addr, unsigned type, int32_t d,
        uint32_t align)
{
    struct sg_ir *ir;

    if (ptx_type_size(type) == 0 || ptx_type_size(type) > 8) {
        lo_fail(l, -ENOSYS, "a load of this type is not carried");
        return;
    }
    ir = lo_emit(l, load_opcode(l, addr, type));
    ir->d = d;
    fill_access(l, ir, addr, align, type);
}

void
lo_store(struct lower *l, const struct lo_addr *addr, unsigned type, int32_t v,
         uint32_t align)
{
    struct sg_ir *ir;

    if (addr->param || addr->space == SG_MEM_CONST) {
        lo_fail(l, -EINVAL, "a store to read-only memory");
        return;
    }
    if (ptx_type_size(type) == 0 || ptx_type_size(type) > 8) {
        lo_fail(l, -ENOSYS, "a store of this type is not carried");
        return;
    }
    ir = lo_emit(l, store_opcode(l, addr, type));
    ir->b = v;
    fill_access(l, ir, addr, align, type);
}

void
lo_order_before(struct lower *l, const struct ptx_insn *insn)
{
    if (lo_has(insn, PTX_W_sc) || lo_has(insn, PTX_W_acquire) ||
        lo_has(insn, PTX_W_release))
        lo_emit(l, SG_OP_FENCE)->guard = SG_NOREG;
}

void
lo_fit_register(struct lower *l, const struct ptx_opd *opd, unsigned type, int32_t d)
{
    opd = lo_lone(opd);
    if (lo_type_signed(type) && ptx_type_size(type) < 4 && opd->kind == PTX_OPD_REG &&
        ptx_type_size(l->func->regs[opd->reg].type) == 2)
        lo_op(l, SG_OP_ZX16, d, d, SG_NOREG, SG_NOREG);
}

/* Loads that a spin loop would make: the scheduler wants to know. */
static void
poll_for(struct lower *l, const struct ptx_insn *insn)
{
    if (lo_has(insn, PTX_W_volatile) || lo_has(insn, PTX_W_acquire) ||
        lo_has(insn, PTX_W_relaxed) || lo_has(insn, PTX_W_mmio))
        lo_emit(l, SG_OP_POLL)->guard = SG_NOREG;
}

void
lo_order(struct lower *l, const struct ptx_insn *insn)
{
    lo_order_before(l, insn);
    poll_for(l, insn);
}

void
lo_access_list(struct lower *l, const struct lo_addr *addr, bool store, unsigned bytes,
               struct sg_ir *proto, uint32_t align)
{
    static const uint16_t first[][2] = {
        [SG_MEM_GLOBAL] = {SG_OP_LDG_2X32, SG_OP_STG_2X32},
        [SG_MEM_CONST] = {SG_OP_LDG_2X32, SG_OP_STG_2X32},
        [SG_MEM_GENERIC] = {SG_OP_LDA_2X32, SG_OP_STA_2X32},
        [SG_MEM_SHARED] = {SG_OP_LDT_2X32, SG_OP_STT_2X32},
    };
    unsigned code = first[addr->space][store];
    struct sg_ir *ir;

    if (store && addr->space == SG_MEM_CONST) {
        lo_fail(l, -EINVAL, "a store to read-only memory");
        return;
    }
    if (addr->space == SG_MEM_SHARED && lo_class(l, addr->base) == SG_W)
        code = store ? SG_OP_STS_2X32 : SG_OP_LDS_2X32;
    ir = lo_emit_list(l, code + (bytes == 8 ? 0 : proto->wide_list ? 2 : 1), proto);
    ir->a = addr->base;
    ir->imm = addr->imm;
    ir->x = align;
    ir->watch = strong_access(l);
    ir->n = (uint16_t)(l->n_sites++ % SG_TLB_SITES);
}

void
lower_ld(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type);
    struct lo_addr addr;
    int32_t d;

    if (insn->n_opds < 2) {
        lo_fail(l, -EINVAL, "ld: operands");
        return;
    }
    if (lo_vector_count(insn) > 1) {
        lower_vector(l, insn);
    } else if (lo_address(l, &insn->opds[1], lo_space(insn), size, &addr)) {
        d = lo_dst(l, &insn->opds[0], type);
        lo_load(l, &addr, type, d, 0);
        lo_fit_register(l, &insn->opds[0], type, d);
    }
    lo_order(l, insn);
}

void
lower_st(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type);
    struct lo_addr addr;

    if (insn->n_opds < 2) {
        lo_fail(l, -EINVAL, "st: operands");
        return;
    }
    lo_order_before(l, insn);
    if (lo_vector_count(insn) > 1)
        lower_vector(l, insn);
    else if (lo_address(l, &insn->opds[0], lo_space(insn), size, &addr) &&
             insn->opds[1].kind != PTX_OPD_SINK)
        lo_store(l, &addr, type, lo_src(l, &insn->opds[1], type), 0);
    if (lo_has(insn, PTX_W_sc))
        lo_order_before(l, insn);
}

/* ------------------------------------------------------------------- atomics */

int
lo_atom_kind(const struct ptx_insn *insn, unsigned type)
{
    static const struct {
        uint16_t word;
        uint8_t plain, sgn;
    } ints[] = {
        {PTX_W_add, SG_ATOM_ADD, SG_ATOM_ADD},
        {PTX_W_min, SG_ATOM_MIN_U, SG_ATOM_MIN_S},
        {PTX_W_max, SG_ATOM_MAX_U, SG_ATOM_MAX_S},
        {PTX_W_inc, SG_ATOM_INC, SG_ATOM_INC},
        {PTX_W_dec, SG_ATOM_DEC, SG_ATOM_DEC},
        {PTX_W_and, SG_ATOM_AND, SG_ATOM_AND},
        {PTX_W_or, SG_ATOM_OR, SG_ATOM_OR},
        {PTX_W_xor, SG_ATOM_XOR, SG_ATOM_XOR},
        {PTX_W_exch, SG_ATOM_EXCH, SG_ATOM_EXCH},
        {PTX_W_cas, SG_ATOM_CAS, SG_ATOM_CAS},
    };
    static const struct {
        uint16_t type;
        uint8_t add, min, max;
    } floats[] = {
        {PTX_W_f32, SG_ATOM_ADD_F32, 255, 255},
        {PTX_W_f64, SG_ATOM_ADD_F64, 255, 255},
        {PTX_W_f16, SG_ATOM_ADD_F16, SG_ATOM_MIN_F16, SG_ATOM_MAX_F16},
        {PTX_W_f16x2, SG_ATOM_ADD_F16X2, SG_ATOM_MIN_F16X2, SG_ATOM_MAX_F16X2},
        {PTX_W_bf16, SG_ATOM_ADD_BF16, SG_ATOM_MIN_BF16, SG_ATOM_MAX_BF16},
        {PTX_W_bf16x2, SG_ATOM_ADD_BF16X2, SG_ATOM_MIN_BF16X2, SG_ATOM_MAX_BF16X2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(floats); i++) {
        if (floats[i].type != type)
            continue;
        return lo_has(insn, PTX_W_add)   ? floats[i].add
               : lo_has(insn, PTX_W_min) ? floats[i].min
               : lo_has(insn, PTX_W_max) ? floats[i].max
                                         : 255;
    }
    for (size_t i = 0; i < ARRAY_SIZE(ints); i++)
        if (lo_has(insn, ints[i].word))
            return lo_type_signed(type) ? ints[i].sgn : ints[i].plain;
    return 255;
}

void
lower_atom(struct lower *l, const struct ptx_insn *insn)
{
    bool red = insn->op == PTX_W_red;
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type), at = red ? 0 : 1;
    int kind = lo_atom_kind(insn, type);
    struct lo_addr addr;
    struct sg_ir *ir;
    int32_t base, b, c = SG_NOREG, d = SG_NOREG;

    if (kind == 255 || insn->n_opds < at + 2) {
        lo_fail(l, -ENOSYS, "atomic form is not carried");
        return;
    }
    if (!lo_address(l, &insn->opds[at], lo_space(insn), size, &addr))
        return;
    if (addr.param || addr.space == SG_MEM_CONST) {
        lo_fail(l, -EINVAL, "an atomic on read-only memory");
        return;
    }
    base = lo_address_d(l, &addr);
    b = lo_src(l, &insn->opds[at + 1], type);
    if (kind == SG_ATOM_CAS) {
        if (insn->n_opds < at + 3) {
            lo_fail(l, -EINVAL, "atom.cas needs two values");
            return;
        }
        c = lo_src(l, &insn->opds[at + 2], type);
    }
    if (!red && insn->opds[0].kind != PTX_OPD_SINK)
        d = lo_dst(l, &insn->opds[0], type);
    ir = lo_emit(l, size == 8 ? SG_OP_ATOM_D : size == 2 ? SG_OP_ATOM_H : SG_OP_ATOM_W);
    ir->d = d;
    ir->a = base;
    ir->b = b;
    ir->c = c;
    ir->n = (uint16_t)kind;
    ir->x = addr.space;
    ir->imm = addr.imm;
    if (d != SG_NOREG && (kind == SG_ATOM_CAS || kind == SG_ATOM_EXCH))
        lo_emit(l, SG_OP_POLL)->guard = SG_NOREG;
}

/* ----------------------------------------------------------------- addresses */

static uint64_t
window_of(unsigned space)
{
    return space == PTX_W_shared  ? SG_WIN_SHARED
           : space == PTX_W_local ? SG_WIN_LOCAL
                                  : 0;
}

void
lower_cvta(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    uint64_t win = window_of(lo_space(insn));
    bool to = lo_has(insn, PTX_W_to), wide = lo_type_class(type) == SG_D;
    const struct ptx_opd *src = &insn->opds[insn->n_opds > 1 ? 1 : 0];
    int32_t a, d;

    if (insn->n_opds != 2 || (!wide && win)) {
        lo_fail(l, -ENOSYS, "cvta on 32-bit generic addresses is not carried");
        return;
    }
    a = lo_src(l, src, type);
    d = lo_dst(l, &insn->opds[0], type);
    if (win == 0)
        lo_op(l, wide ? SG_OP_MOV_D : SG_OP_MOV_W, d, a, SG_NOREG, SG_NOREG);
    else
        lo_op(l, to ? SG_OP_SUB_U64 : SG_OP_ADD_U64, d, a, lo_const(l, SG_D, win),
              SG_NOREG);
}

void
lower_isspacep(struct lower *l, const struct ptx_insn *insn)
{
    unsigned space = lo_space(insn);
    struct sg_ir *ir;
    int32_t a, d;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "isspacep: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b64);
    d = lo_dst_pred(l, &insn->opds[0]);
    ir = lo_emit(l, SG_OP_ISSPACE);
    ir->d = d;
    ir->a = a;
    ir->n = (uint16_t)(space == PTX_W_param                  ? SG_MEM_PARAM
                       : lo_has(insn, PTX_W_shared__cluster) ? SG_MEM_CLUSTER
                                                             : (int)space_of(space));
}

void
lower_fence(struct lower *l, const struct ptx_insn *insn)
{
    (void)insn;
    lo_emit(l, SG_OP_FENCE)->guard = SG_NOREG;
}

/* stacksave d; stackrestore a; alloca d, bytes{, alignment} */
void
lower_stack(struct lower *l, const struct ptx_insn *insn)
{
    bool take = insn->op == PTX_W_alloca, restore = insn->op == PTX_W_stackrestore;
    unsigned type = lo_type(insn, 0);
    uint64_t align = take && insn->n_opds == 3 ? insn->opds[2].imm : 8;
    int32_t a = SG_NOREG, d = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds < (take ? 2u : 1u) ||
        (take && insn->n_opds == 3 && insn->opds[2].kind != PTX_OPD_INT) ||
        align == 0 || (align & (align - 1)) || align > 1u << 23) {
        lo_fail(l, -EINVAL, "alloca: operands");
        return;
    }
    ub_stack(l->ub);
    if (take || restore)
        a = lo_widen(l, lo_src(l, &insn->opds[take ? 1 : 0], type), SG_D, false);
    if (!restore)
        d = lo_dst(l, &insn->opds[0], PTX_W_u64);
    ir = lo_emit(l, SG_OP_STACK);
    ir->d = d;
    ir->a = a;
    ir->n = take ? SG_STACK_ALLOCA : restore ? SG_STACK_RESTORE : SG_STACK_SAVE;
    ir->x = (uint32_t)align;
}
