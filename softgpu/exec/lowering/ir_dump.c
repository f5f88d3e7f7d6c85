/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytecode and IR in words, for people who debug the executor.
 *
 *     12  ADD_U32   w3 = w1 w2        ; line 40
 *
 * In bytecode w, d and p number the slots of the frame by class, in IR virtual
 * registers; there a constant is its value, and launch constants carry a '!'.
 */
#include "exec_scalar.h"
#include "gp_err.h"
#include "ptx_ast.h"
#include "sg_ir.h"
#include "sg_prog.h"
#include "sg_unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void
dump_operand(FILE *f, char cls, uint32_t off)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};

    if (cls == '-' || off == SG_OFF_NONE)
        return;
    if (cls == '*')
        fprintf(f, " +%u", off);
    else
        fprintf(f, " %c%u",
                cls == 'W'   ? 'w'
                : cls == 'D' ? 'd'
                             : 'p',
                off / bytes[cls == 'W'   ? SG_W
                            : cls == 'D' ? SG_D
                                         : SG_P]);
}

static void
dump_op(FILE *f, const struct sg_unit *unit, uint32_t at)
{
    const struct sg_insn *op = &unit->ops[at];
    const char *sig = sg_op_sig(op->code);

    fprintf(f, "%6u  %-14s", at, sg_op_name(op->code));
    dump_operand(f, sig[0], op->d);
    dump_operand(f, sig[1], op->e);
    if (sig[0] != '-' || sig[1] != '-')
        fprintf(f, " =");
    dump_operand(f, sig[2], op->a);
    dump_operand(f, sig[3], op->b);
    dump_operand(f, sig[4], op->c);
    dump_operand(f, sig[5], op->f);
    if (op->code == SG_OP_FN)
        fprintf(f, " %s", sg_fns[op->imm].name);
    else if (op->imm)
        fprintf(f, " imm %" PRId64, op->imm);
    if (op->code == SG_OP_BRA || op->code == SG_OP_BRC || op->code == SG_OP_CALL)
        fprintf(f, " -> %u", op->x);
    if (op->n)
        fprintf(f, " n %u", op->n);
    fprintf(f, "  ; line %u\n", unit->lines[at]);
}

static void
dump_func(FILE *f, const struct sg_unit *unit, const struct sg_unit_func *func)
{
    fprintf(f, "function %s: frame %u+%u+%u bytes, local %u+%u\n",
            func->ast->name->name, func->frame.bytes[SG_W], func->frame.bytes[SG_D],
            func->frame.bytes[SG_P], func->local_bytes, func->out_bytes);
    for (uint32_t i = 0; i < func->n_consts; i++) {
        const struct sg_const *c = &func->consts[i];
        fprintf(f, "        %c%u = %s0x%" PRIx64 "\n", c->cls == SG_W ? 'w' : 'd',
                c->off / (c->cls == SG_W ? SG_SLOT_W : SG_SLOT_D),
                c->kind == SG_CONST_GLOBAL ? "global + " : "", c->value);
    }
    for (uint32_t i = func->entry; i < func->end; i++)
        dump_op(f, unit, i);
}

/* -------------------------------------------------------------------------- IR */

static void
print_reg(FILE *f, const struct sg_ir_func *func, int32_t v)
{
    static const char letters[] = {[SG_W] = 'w', [SG_D] = 'd', [SG_P] = 'p'};
    const struct sg_vreg *reg = &func->vregs[v];

    if (reg->konst >= 0 && func->consts[reg->konst].kind == SG_CONST_VALUE)
        fprintf(f, " 0x%" PRIx64, func->consts[reg->konst].value);
    else
        fprintf(f, " %c%d%s", letters[reg->cls], v, reg->kept ? "!" : "");
}

static void
print_ir(FILE *f, const struct sg_ir_func *func, const struct sg_ir *ir)
{
    const int32_t v[6] = {ir->d, ir->e, ir->a, ir->b, ir->c, ir->f};
    bool results = ir->d != SG_NOREG || ir->e != SG_NOREG;

    fprintf(f, "  %-14s", sg_op_name(ir->code));
    for (int k = 0; k < 6; k++) {
        if (v[k] != SG_NOREG)
            print_reg(f, func, v[k]);
        if (k == 1 && results)
            fprintf(f, " =");
    }
    for (unsigned k = 0; k < ir->n_list; k++) {
        fprintf(f, k == 0 ? " {" : k == ir->n_list_dst ? " <-" : "");
        print_reg(f, func, ir->list[k]);
    }
    fprintf(f, "%s", ir->n_list ? " }" : "");
    if (ir->guard != SG_NOREG) {
        fprintf(f, " @%s", ir->guard_neg ? "!" : "");
        print_reg(f, func, ir->guard);
    }
    if (ir->code == SG_OP_FN)
        fprintf(f, " %s", sg_fns[ir->imm].name);
    else if (ir->imm)
        fprintf(f, " imm %" PRId64, ir->imm);
    if (ir->n)
        fprintf(f, " n %u", ir->n);
    if (ir->x)
        fprintf(f, " x %u", ir->x);
    if (ir->y)
        fprintf(f, " scale %u%s", ir->y & ~SG_INDEX_SIGNED,
                ir->y & SG_INDEX_SIGNED ? " signed" : "");
    fprintf(f, "  ; line %u\n", ir->line);
}

void
sg_ir_print(const struct sg_ir_func *func, FILE *f)
{
    fprintf(f, "ir of %s: %u registers, %u constants\n",
            func->ast ? func->ast->name->name : "?", func->n_vregs, func->n_consts);
    for (uint32_t i = 0; i < func->n_code; i++) {
        if (func->n_first && i == func->n_first)
            fprintf(f, " body:\n");
        print_ir(f, func, &func->code[i]);
    }
}

int
sg_kernel_dump(const struct sg_kernel *kernel, int fd, struct gp_err *err)
{
    const struct sg_unit *unit = sg_kernel_unit(kernel);
    FILE *f;
    int own;

    if (!unit)
        return gp_err_set(err, -EINVAL, "kernel is not prepared");
    own = dup(fd);
    f = own < 0 ? NULL : fdopen(own, "w");
    if (!f) {
        if (own >= 0)
            close(own);
        return gp_err_set(err, -EIO, "cannot write the dump");
    }
    fprintf(f, "kernel %s: shared %u, local %u\n", kernel->name, unit->static_shared,
            unit->local_bytes);
    for (uint32_t i = 0; i < unit->n_funcs; i++)
        dump_func(f, unit, &unit->funcs[i]);
    fclose(f);
    return 0;
}
