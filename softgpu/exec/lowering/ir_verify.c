/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier: what must be true of a function's IR whatever lowering and the passes
 * did.  Every function of every unit goes through it, in every build: it is the last
 * line of defence between a hostile module and the register file.
 *
 * Checked: operands have the classes that sg_insns.def says and slots inside the frame;
 * every jump has a place to go; launch constants are written before the body alone, by
 * operations that nothing can stop.
 */
#include "exec_scalar.h"
#include "gp_err.h"
#include "sg_ir.h"

#include <errno.h>
#include <stdlib.h>

static bool
class_fits(const struct sg_ir_func *f, int32_t v, char sig)
{
    static const char letters[] = {[SG_W] = 'W', [SG_D] = 'D', [SG_P] = 'P'};

    return v == SG_NOREG || sig == '*' ||
           (v >= 0 && (uint32_t)v < f->n_vregs && f->vregs[v].slot >= 0 &&
            letters[f->vregs[v].cls] == sig);
}

/* An operand of the wrong class would be an access outside the register file. */
static bool
classes_fit(const struct sg_ir_func *f, const struct sg_ir *ir)
{
    const char *sig = sg_op_sig(ir->code);
    const int32_t v[6] = {ir->d, ir->e, ir->a, ir->b, ir->c, ir->f};

    for (int k = 0; k < 6; k++)
        if (!class_fits(f, v[k], sig[k]) || (v[k] != SG_NOREG && sig[k] == '-'))
            return false;
    if (ir->code == SG_OP_FN) {
        const char *fsig = sg_fns[ir->imm].sig;
        if (!class_fits(f, ir->d, fsig[0]) || !class_fits(f, ir->a, fsig[1]) ||
            !class_fits(f, ir->b, fsig[2]) || !class_fits(f, ir->c, fsig[3]))
            return false;
    }
    for (unsigned k = 0; k < ir->n_list; k++)
        if (!class_fits(f, ir->list[k],
                        ir->wide_list || k < ir->wide_first ? 'D' : 'W'))
            return false;
    return class_fits(f, ir->guard, 'P');
}

static bool
writes_kept(const struct sg_ir_func *f, const struct sg_ir *ir)
{
    struct sg_operands o;

    sg_ir_operands(ir, &o);
    for (unsigned k = 0; k < o.n_writes; k++)
        if (f->vregs[o.writes[k]].kept || f->vregs[o.writes[k]].konst >= 0)
            return true;
    return false;
}

/* Before the body: straight, unguarded, without effects beyond registers. */
static bool
may_come_first(const struct sg_ir *ir)
{
    return ir->guard == SG_NOREG &&
           (sg_ir_is_pure(ir) || ir->code == SG_OP_READY || ir->code == SG_OP_SHAPE_W ||
            ir->code == SG_OP_SHAPE_D);
}

static bool
jumps_have_targets(const struct sg_ir_func *f, const bool *placed)
{
    for (uint32_t i = 0; i < f->n_code; i++)
        if ((f->code[i].code == SG_OP_BRA || f->code[i].code == SG_OP_BRC) &&
            (f->code[i].x >= f->n_labels || !placed[f->code[i].x]))
            return false;
    return true;
}

int
sg_ir_verify(const struct sg_ir_func *f, struct gp_err *err)
{
    CLEANUP_FREE bool *placed = calloc(f->n_labels + 1u, sizeof(*placed));

    if (!placed)
        return gp_err_set(err, -ENOMEM, "no memory to verify a function");
    for (uint32_t i = 0; i < f->n_code; i++) {
        const struct sg_ir *ir = &f->code[i];
        if (!classes_fit(f, ir))
            return gp_err_set(err, -EINVAL, "line %u: operands of %s have wrong types",
                              ir->line, sg_op_name(ir->code));
        if (i < f->n_first ? !may_come_first(ir) : writes_kept(f, ir))
            return gp_err_set(err, -EINVAL, "line %u: %s and launch constants",
                              ir->line, sg_op_name(ir->code));
        if (ir->code == SG_OP_JOIN && ir->x < f->n_labels)
            placed[ir->x] = true;
    }
    if (f->n_first && f->code[f->n_first - 1].code != SG_OP_READY)
        return gp_err_set(err, -EINVAL, "launch constants without READY");
    if (!jumps_have_targets(f, placed))
        return gp_err_set(err, -EINVAL, "a jump to a label that is nowhere");
    return 0;
}
