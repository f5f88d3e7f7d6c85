/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a unit: a kernel and what it calls, lowered and laid out as one code array.
 *
 * Shared variables are placed as they are met, so a kernel pays only for what it and
 * its callees mention.  Functions are numbered in the order of discovery; the kernel is
 * number 0.
 */
#include "lower_unit.h"

#include "gp_err.h"
#include "insn_watch.h"
#include "lower.h"
#include "sg_prog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct built {
    const struct ptx_func *ast;
    struct sg_ir_func ir;
    uint32_t local_bytes;
    uint32_t *callees; /* indexes; what it calls directly */
    uint32_t n_callees, cap_callees;
    bool indirect;
};

struct shared_var {
    const struct ptx_var *var;
    uint32_t off;
    bool dynamic;
};

struct unit_builder {
    const struct sg_prog *prog;
    struct built *funcs;
    uint32_t n_funcs, cap_funcs, cur;
    struct shared_var *shared;
    uint32_t n_shared, cap_shared;
    uint64_t shared_bytes;
    uint32_t dyn_align;
    uint32_t *tables; /* label ids of the function being lowered, then op indexes */
    uint32_t n_tables, cap_tables;
    bool failed, reserved;
    bool dyn_stack; /* alloca: takes from the context's stack */
};

static int
grow(void *pp, uint32_t n, uint32_t *cap, size_t size)
{
    void **p = pp, *q;
    uint32_t to;

    if (n < *cap)
        return 0;
    to = *cap ? *cap * 2 : 16;
    q = reallocarray(*p, to, size);
    if (!q)
        return -ENOMEM;
    *p = q;
    *cap = to;
    return 0;
}

int32_t
ub_function(struct unit_builder *ub, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < ub->n_funcs; i++)
        if (ub->funcs[i].ast == func)
            return (int32_t)i;
    if (grow(&ub->funcs, ub->n_funcs, &ub->cap_funcs, sizeof(*ub->funcs)) < 0)
        return -1;
    ub->funcs[ub->n_funcs] = (struct built){.ast = func};
    return (int32_t)ub->n_funcs++;
}

void
ub_all_functions(struct unit_builder *ub)
{
    const struct ptx_module *mod = sg_prog_module(ub->prog);

    ub->funcs[ub->cur].indirect = true;
    for (uint32_t i = 0; i < mod->n_funcs; i++)
        if (!mod->funcs[i]->is_entry && mod->funcs[i]->has_body)
            ub->failed |= ub_function(ub, mod->funcs[i]) < 0;
}

void
ub_calls(struct unit_builder *ub, const struct ptx_func *from, int32_t callee)
{
    struct built *b = &ub->funcs[ub->cur];

    (void)from;
    if (callee < 0)
        return;
    if (grow(&b->callees, b->n_callees, &b->cap_callees, sizeof(*b->callees)) < 0) {
        ub->failed = true;
        return;
    }
    b->callees[b->n_callees++] = (uint32_t)callee;
}

int
ub_shared(struct unit_builder *ub, const struct ptx_var *var, uint32_t *ret_off,
          bool *ret_dynamic)
{
    bool dynamic = var->size == 0;
    uint32_t align = gp_max(var->align, 1u);
    uint64_t at;

    for (uint32_t i = 0; i < ub->n_shared; i++) {
        if (ub->shared[i].var == var) {
            *ret_off = ub->shared[i].off;
            *ret_dynamic = ub->shared[i].dynamic;
            return 0;
        }
    }
    if (grow(&ub->shared, ub->n_shared, &ub->cap_shared, sizeof(*ub->shared)) < 0)
        return -ENOMEM;
    at = dynamic ? 0 : GP_ALIGN_UP(ub->shared_bytes, (uint64_t)align);
    if (at + var->size > SG_MAX_STATIC_SHARED)
        return -E2BIG;
    if (dynamic)
        ub->dyn_align = gp_max(ub->dyn_align, align);
    else
        ub->shared_bytes = at + var->size;
    ub->shared[ub->n_shared++] = (struct shared_var){var, (uint32_t)at, dynamic};
    *ret_off = (uint32_t)at;
    *ret_dynamic = dynamic;
    return 0;
}

void
ub_reserved(struct unit_builder *ub)
{
    ub->reserved = true;
}

void
ub_stack(struct unit_builder *ub)
{
    ub->dyn_stack = true;
}

uint32_t
ub_table(struct unit_builder *ub, uint32_t label)
{
    if (grow(&ub->tables, ub->n_tables, &ub->cap_tables, sizeof(*ub->tables)) < 0)
        return UINT32_MAX;
    ub->tables[ub->n_tables] = label;
    return ub->n_tables++;
}

/* ------------------------------------------------------------------- bytecode */

static uint32_t
offset_of(const struct sg_ir_func *f, int32_t v)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};

    if (v == SG_NOREG)
        return SG_OFF_NONE;
    return (uint32_t)f->vregs[v].slot * bytes[f->vregs[v].cls];
}

/* A program that is checked looks at what touches memory or puts threads in order. */
static void
emit_check(struct sg_unit *unit, const struct sg_ir_func *f, const struct sg_ir *ir,
           unsigned when)
{
    if (ir->guard != SG_NOREG) {
        unit->lines[unit->n_ops] = ir->line;
        unit->ops[unit->n_ops++] = (struct sg_insn){
            .code = SG_OP_GUARD, .n = ir->guard_neg, .a = offset_of(f, ir->guard)};
    }
    unit->lines[unit->n_ops] = ir->line;
    unit->ops[unit->n_ops++] =
        (struct sg_insn){.code = SG_OP_CHECK, .n = (uint16_t)(ir->watch | when)};
}

static void
emit_op(struct sg_unit *unit, const struct sg_ir_func *f, const struct sg_ir *ir)
{
    struct sg_insn *op = &unit->ops[unit->n_ops];

    if ((ir->code == SG_OP_MOV_W || ir->code == SG_OP_MOV_D ||
         ir->code == SG_OP_MOV_P) &&
        offset_of(f, ir->d) == offset_of(f, ir->a))
        return; /* the allocator gave both one slot */
    if (ir->guard != SG_NOREG) {
        unit->lines[unit->n_ops] = ir->line;
        *op++ = (struct sg_insn){
            .code = SG_OP_GUARD, .n = ir->guard_neg, .a = offset_of(f, ir->guard)};
        unit->n_ops++;
    }
    *op = (struct sg_insn){
        .code = ir->code,
        .n = ir->n,
        .x = ir->x,
        .imm = ir->imm,
        .d = offset_of(f, ir->d),
        .e = offset_of(f, ir->e),
        .a = offset_of(f, ir->a),
        .b = offset_of(f, ir->b),
        .c = offset_of(f, ir->c),
        .f = offset_of(f, ir->f),
    };
    if (ir->n_list) {
        op->f = unit->n_lists;
        for (unsigned k = 0; k < ir->n_list; k++)
            unit->lists[unit->n_lists++] = offset_of(f, ir->list[k]);
    }
    if (ir->y)
        op->f = ir->y;
    unit->lines[unit->n_ops++] = ir->line;
}

/* Two factors of a sum from shared memory and the multiply-add that takes them get one
 * dispatch, the sum being there before the factors.  They stay where they are:
 * jumps into the middle and the lines of faults are as before. */
static void
fuse_ops(struct sg_insn *op, uint32_t n)
{
    for (uint32_t i = 0; i + 2 < n; i++, op++) {
        if (op[0].code != op[1].code || op[2].code != SG_OP_FMA_F32 ||
            op[2].c == op[0].d || op[2].c == op[1].d)
            continue;
        if (op->code == SG_OP_LDSX_32)
            op->code = SG_OP_LDSX2_FMA;
        else if (op->code == SG_OP_LDTX_32)
            op->code = SG_OP_LDTX2_FMA;
    }
}

/* Append one function; branch operands become operation indexes. */
static int
emit_function(struct sg_unit *unit, struct sg_unit_func *uf, const struct sg_ir_func *f,
              bool checked, uint32_t table_from, uint32_t table_to, uint32_t *tables,
              struct gp_err *err)
{
    CLEANUP_FREE uint32_t *at = malloc((f->n_labels + 1u) * sizeof(*at));
    uint32_t start = unit->n_ops;

    if (!at)
        return -ENOMEM;
    memset(at, 0xff, (f->n_labels + 1u) * sizeof(*at));
    for (uint32_t i = 0; i < f->n_code; i++) {
        if (f->code[i].code == SG_OP_JOIN)
            at[f->code[i].x] = unit->n_ops;
        if (i == f->n_first)
            uf->body = unit->n_ops;
        if (checked && sg_watch_before(f->code[i].code))
            emit_check(unit, f, &f->code[i], 0);
        emit_op(unit, f, &f->code[i]);
        if (checked && sg_watch_after(f->code[i].code))
            emit_check(unit, f, &f->code[i], SG_WATCH_AFTER);
    }
    for (uint32_t i = start; i < unit->n_ops; i++)
        if ((unit->ops[i].code == SG_OP_BRA || unit->ops[i].code == SG_OP_BRC) &&
            (unit->ops[i].x = at[unit->ops[i].x]) == UINT32_MAX)
            return gp_err_set(err, -EINVAL, "a jump to a label that is nowhere");
    fuse_ops(unit->ops + start, unit->n_ops - start);
    for (uint32_t i = table_from; i < table_to; i++)
        if ((tables[i] = at[tables[i]]) == UINT32_MAX)
            return gp_err_set(err, -EINVAL, "a jump to a label that is nowhere");
    return 0;
}

static int
take_consts(struct sg_unit_func *uf, struct sg_ir_func *f, uint32_t dyn_shared)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};
    uint32_t n = 0;

    uf->consts = malloc((f->n_consts + 1u) * sizeof(*uf->consts));
    if (!uf->consts)
        return -ENOMEM;
    for (uint32_t v = 0; v < f->n_vregs; v++) {
        struct sg_const c;
        if (f->vregs[v].konst < 0 || f->vregs[v].slot < 0)
            continue;
        c = f->consts[f->vregs[v].konst];
        c.off = (uint32_t)f->vregs[v].slot * bytes[c.cls];
        if (c.kind == SG_CONST_DYN_SHARED) {
            c.kind = SG_CONST_VALUE;
            c.value += dyn_shared;
        }
        uf->consts[n++] = c;
    }
    uf->n_consts = n;
    return 0;
}

/* Local bytes from function @i downwards; recursion is cut and noted. */
static uint64_t
local_need(struct unit_builder *ub, uint32_t i, uint8_t *state, uint64_t *memo,
           bool *dynamic, unsigned depth)
{
    struct built *b = &ub->funcs[i];
    uint64_t deepest = 0;

    if (state[i] == 2)
        return memo[i];
    if (state[i] == 1 || depth > 256) {
        *dynamic = true;
        return 0;
    }
    state[i] = 1;
    *dynamic |= b->indirect;
    for (uint32_t k = 0; k < b->n_callees; k++) {
        uint64_t need = local_need(ub, b->callees[k], state, memo, dynamic, depth + 1);
        deepest = gp_max(deepest, need);
    }
    state[i] = 2;
    return memo[i] = b->local_bytes + gp_max(deepest, (uint64_t)b->ir.out_bytes);
}

static int
size_local(struct unit_builder *ub, struct sg_unit *unit, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *state = calloc(ub->n_funcs, 1);
    CLEANUP_FREE uint64_t *memo = calloc(ub->n_funcs, 8);
    uint32_t max = sg_prog_target(ub->prog)->max_local_per_thread;
    uint64_t need;

    if (!state || !memo)
        return -ENOMEM;
    need = local_need(ub, 0, state, memo, &unit->uses_dyn_stack, 0);
    unit->uses_dyn_stack |= ub->dyn_stack;
    if (need > max)
        return gp_err_set(err, -E2BIG, "kernel needs %llu bytes of local memory of %u",
                          (unsigned long long)need, max);
    unit->local_bytes = (uint32_t)need;
    return 0;
}

/* What the kernel's own body declares counts as its shared memory, used or not, as on a
 * card; variables of the module count where they are used. */
static int
declared_shared(struct unit_builder *ub)
{
    const struct ptx_func *kernel = ub->funcs[0].ast;
    uint32_t off;
    bool dynamic;
    int r = 0;

    for (uint32_t i = 0; i < kernel->n_vars && r == 0; i++)
        if (kernel->vars[i]->space == PTX_SPACE_SHARED && kernel->vars[i]->size)
            r = ub_shared(ub, kernel->vars[i], &off, &dynamic);
    return r;
}

static int
unit_finish(struct unit_builder *ub, struct sg_unit *unit, const uint32_t *table_at,
            struct gp_err *err)
{
    const bool checked = sg_prog_target(ub->prog)->check;
    uint64_t total = 0, lists = 0;
    uint32_t dyn;
    int r;

    for (uint32_t i = 0; i < ub->n_funcs; i++)
        for (uint32_t k = 0; k < ub->funcs[i].ir.n_code; k++)
            total += 1 + (ub->funcs[i].ir.code[k].guard != SG_NOREG),
                lists += ub->funcs[i].ir.code[k].n_list;
    if (total > SG_MAX_UNIT_OPS)
        return gp_err_set(err, -E2BIG, "kernel and its callees are too long");
    total += 1 + SG_N_SHAPES; /* READY and SHAPE */
    if (checked)
        total *= 3; /* one before and one behind */
    unit->ops = calloc(total + 1, sizeof(*unit->ops));
    unit->lines = calloc(total + 1, sizeof(*unit->lines));
    unit->lists = calloc(lists + 1, sizeof(*unit->lists));
    unit->funcs = calloc(ub->n_funcs, sizeof(*unit->funcs));
    unit->n_func_ids = sg_prog_module(ub->prog)->n_funcs;
    unit->func_by_id = malloc((unit->n_func_ids + 1u) * sizeof(int32_t));
    if (!unit->ops || !unit->lines || !unit->lists || !unit->funcs || !unit->func_by_id)
        return -ENOMEM;
    memset(unit->func_by_id, 0xff, (unit->n_func_ids + 1u) * sizeof(int32_t));
    unit->n_funcs = ub->n_funcs;
    unit->uses_reserved = ub->reserved;
    r = declared_shared(ub);
    if (r < 0)
        return gp_err_set(err, r, "kernel declares too much shared memory");
    dyn = (uint32_t)GP_ALIGN_UP(ub->shared_bytes, (uint64_t)gp_max(ub->dyn_align, 16u));
    unit->static_shared = ub->dyn_align ? dyn : (uint32_t)ub->shared_bytes;
    if (unit->static_shared > sg_prog_target(ub->prog)->max_shared_per_cta)
        return gp_err_set(err, -E2BIG, "kernel needs %u bytes of shared memory of %u",
                          unit->static_shared,
                          sg_prog_target(ub->prog)->max_shared_per_cta);
    for (uint32_t i = 0; i < ub->n_funcs; i++) {
        struct sg_unit_func *uf = &unit->funcs[i];
        struct built *b = &ub->funcs[i];
        uf->ast = b->ast;
        uf->local_bytes = b->local_bytes;
        uf->out_bytes = b->ir.out_bytes;
        uf->entry = unit->n_ops;
        /* A check knows the plain forms of memory operations alone. */
        r = i == 0 && !checked ? sg_ir_hoist(&b->ir, err) : 0;
        if (r == 0 && i == 0 && !checked)
            r = sg_ir_addresses(&b->ir, err);
        if (r == 0)
            r = sg_ir_allocate(&b->ir, &uf->frame, err);
        if (r == 0)
            r = sg_ir_verify(&b->ir, err);
        if (r == 0 && getenv("SOFTGPU_IR")) /* for people who debug the executor */
            sg_ir_print(&b->ir, stderr);
        if (r == 0)
            r = emit_function(unit, uf, &b->ir, checked, table_at[i], table_at[i + 1],
                              ub->tables, err);
        if (r == 0)
            r = take_consts(uf, &b->ir, dyn);
        if (r < 0)
            return r;
        uf->end = unit->n_ops;
        unit->func_by_id[sg_prog_func_index(ub->prog, b->ast)] = (int32_t)i;
    }
    for (uint32_t i = 0; i < unit->n_ops; i++)
        if (unit->ops[i].code == SG_OP_CALL)
            unit->ops[i].e = unit->funcs[unit->ops[i].x].entry;
    unit->tables = TAKE_PTR(ub->tables);
    unit->n_tables = ub->n_tables;
    return size_local(ub, unit, err);
}

static void
builder_fini(struct unit_builder *ub)
{
    for (uint32_t i = 0; i < ub->n_funcs; i++) {
        sg_ir_fini(&ub->funcs[i].ir);
        free(ub->funcs[i].callees);
    }
    free(ub->funcs);
    free(ub->shared);
    free(ub->tables);
}

static int
build(struct unit_builder *ub, const struct ptx_func *kernel, struct sg_unit *unit,
      struct gp_err *err)
{
    CLEANUP_FREE uint32_t *table_at = NULL;
    uint32_t cap = 0;
    int r = 0;

    if (ub_function(ub, kernel) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < ub->n_funcs; i++) {
        struct sg_ir_func ir = {0};
        uint32_t local;
        if (grow(&table_at, i + 1, &cap, sizeof(*table_at)) < 0)
            return -ENOMEM;
        table_at[i] = ub->n_tables;
        ub->cur = i;
        r = lower_function(ub->prog, ub, ub->funcs[i].ast, &ir, &local, err);
        ub->funcs[i].ir = ir; /* lowering may have moved the array */
        ub->funcs[i].local_bytes = local;
        if (r == 0 && ub->failed)
            r = -ENOMEM;
        if (r < 0)
            return gp_err_wrap(err, r, "function %s", ub->funcs[i].ast->name->name);
        table_at[i + 1] = ub->n_tables;
    }
    /* A check knows the plain forms of memory operations alone. */
    if (!sg_prog_target(ub->prog)->check)
        r = sg_ir_params(&ub->funcs[0].ir, sg_prog_param_window(ub->prog), err);
    return r < 0 ? r : unit_finish(ub, unit, table_at, err);
}

int
sg_unit_build(const struct sg_prog *prog, const struct ptx_func *kernel,
              struct sg_unit **ret_unit, uint32_t *ret_regs, struct gp_err *err)
{
    CLEANUP(sg_unit_freep) struct sg_unit *unit = calloc(1, sizeof(*unit));
    struct unit_builder ub = {.prog = prog};
    uint32_t regs;
    int r;

    if (!unit)
        return -ENOMEM;
    r = build(&ub, kernel, unit, err);
    regs = r < 0 ? 0 : ub.funcs[0].ir.n_regs;
    builder_fini(&ub);
    if (r < 0)
        return r;
    *ret_regs = regs;
    *ret_unit = TAKE_PTR(unit);
    return 0;
}
