/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering barriers and warp operations.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

void
lower_bar(struct lower *l, const struct ptx_insn *insn)
{
    bool red = lo_has(insn, PTX_W_red), popc = red && lo_has(insn, PTX_W_popc);
    unsigned n_red = red ? 2 : 0, at = red ? 1 : 0;
    int32_t a, b = SG_NOREG, c = SG_NOREG, d = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds < n_red + 1) {
        lo_fail(l, -EINVAL, "bar: operands");
        return;
    }
    a = lo_src(l, &insn->opds[at], PTX_W_u32);
    if (insn->n_opds > n_red + 1)
        b = lo_src(l, &insn->opds[at + 1], PTX_W_u32);
    if (red) {
        c = lo_src_pred(l, &insn->opds[insn->n_opds - 1]);
        d = popc ? lo_dst(l, &insn->opds[0], PTX_W_u32)
                 : lo_dst_pred(l, &insn->opds[0]);
    }
    ir = lo_emit(l, popc ? SG_OP_BAR_RED_POPC : SG_OP_BAR);
    ir->d = d;
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->n = lo_has(insn, PTX_W_arrive) ? SG_BAR_ARRIVE
            : !red                     ? SG_BAR_SYNC
            : popc                     ? SG_BAR_RED_POPC
            : lo_has(insn, PTX_W_or)   ? SG_BAR_RED_OR
                                       : SG_BAR_RED_AND;
    if (insn->op == PTX_W_bar || lo_has(insn, PTX_W_aligned))
        ir->watch = SG_WATCH_ALIGNED;
}

void
lower_bar_warp(struct lower *l, const struct ptx_insn *insn)
{
    int32_t a;

    if (insn->n_opds != 1) {
        lo_fail(l, -EINVAL, "bar.warp.sync needs a member mask");
        return;
    }
    a = lo_src(l, &insn->opds[0], PTX_W_u32);
    lo_emit(l, SG_OP_BAR_WARP)->a = a;
}

void
lower_nanosleep(struct lower *l, const struct ptx_insn *insn)
{
    (void)insn;
    lo_emit(l, SG_OP_YIELD);
}

static const struct ptx_opd *
pair_split(const struct ptx_opd *o, const struct ptx_opd **ret_second)
{
    *ret_second = NULL;
    if (o->kind != PTX_OPD_PAIR)
        return o;
    *ret_second = &o->sub[1];
    return &o->sub[0];
}

void
lower_shfl(struct lower *l, const struct ptx_insn *insn)
{
    bool sync = lo_has(insn, PTX_W_sync);
    const struct ptx_opd *first, *second;
    int32_t a, b, c, f = SG_NOREG, d, e = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds != (sync ? 5u : 4u)) {
        lo_fail(l, -EINVAL, "shfl: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b32);
    b = lo_src(l, &insn->opds[2], PTX_W_u32);
    c = lo_src(l, &insn->opds[3], PTX_W_u32);
    if (sync)
        f = lo_src(l, &insn->opds[4], PTX_W_u32);
    first = pair_split(&insn->opds[0], &second);
    d = lo_dst(l, first, PTX_W_b32);
    if (second)
        e = lo_dst_pred(l, second);
    ir = lo_emit(l, SG_OP_SHFL);
    ir->d = d;
    ir->e = e;
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->f = f;
    ir->n = lo_has(insn, PTX_W_up)     ? SG_SHFL_UP
            : lo_has(insn, PTX_W_down) ? SG_SHFL_DOWN
            : lo_has(insn, PTX_W_bfly) ? SG_SHFL_BFLY
                                       : SG_SHFL_IDX;
}

void
lower_vote(struct lower *l, const struct ptx_insn *insn)
{
    bool sync = lo_has(insn, PTX_W_sync), ballot = lo_has(insn, PTX_W_ballot);
    int32_t b, c = SG_NOREG, d;
    struct sg_ir *ir;

    if (insn->n_opds != (sync ? 3u : 2u)) {
        lo_fail(l, -EINVAL, "vote: operands");
        return;
    }
    b = lo_src_pred(l, &insn->opds[1]);
    if (sync)
        c = lo_src(l, &insn->opds[2], PTX_W_u32);
    d = ballot ? lo_dst(l, &insn->opds[0], PTX_W_b32) : lo_dst_pred(l, &insn->opds[0]);
    ir = lo_emit(l, ballot ? SG_OP_BALLOT : SG_OP_VOTE);
    ir->d = d;
    ir->b = b;
    ir->c = c;
    ir->n = lo_has(insn, PTX_W_all)   ? SG_VOTE_ALL
            : lo_has(insn, PTX_W_any) ? SG_VOTE_ANY
                                      : SG_VOTE_UNI;
}

void
lower_activemask(struct lower *l, const struct ptx_insn *insn)
{
    int32_t d = lo_dst(l, &insn->opds[0], PTX_W_b32);

    lo_emit(l, SG_OP_ACTIVEMASK)->d = d;
}

void
lower_match(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool wide = lo_type_class(type) == SG_D;
    const struct ptx_opd *first, *second;
    int32_t a, b, d, e = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "match: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], PTX_W_u32);
    first = pair_split(&insn->opds[0], &second);
    d = lo_dst(l, first, PTX_W_b32);
    if (second)
        e = lo_dst_pred(l, second);
    ir = lo_emit(l, wide ? SG_OP_MATCH_D : SG_OP_MATCH_W);
    ir->d = d;
    ir->e = e;
    ir->a = a;
    ir->b = b;
    ir->n = lo_has(insn, PTX_W_all);
}

void
lower_redux(struct lower *l, const struct ptx_insn *insn)
{
    bool sgn = lo_type_signed(lo_type(insn, 0));
    int32_t a, b, d;
    struct sg_ir *ir;

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "redux: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b32);
    b = lo_src(l, &insn->opds[2], PTX_W_u32);
    d = lo_dst(l, &insn->opds[0], PTX_W_b32);
    ir = lo_emit(l, SG_OP_REDUX);
    ir->d = d;
    ir->a = a;
    ir->b = b;
    if (lo_type(insn, 0) == PTX_W_f32) {
        ir->n =
            (uint16_t)(SG_REDUX_FLOAT | (lo_has(insn, PTX_W_max) ? SG_REDUX_MAX : 0) |
                       (lo_has(insn, PTX_W_NaN) ? SG_REDUX_NAN : 0) |
                       (lo_has(insn, PTX_W_abs) ? SG_REDUX_ABS : 0));
        return;
    }
    ir->n = lo_has(insn, PTX_W_add)   ? SG_ATOM_ADD
            : lo_has(insn, PTX_W_min) ? (sgn ? SG_ATOM_MIN_S : SG_ATOM_MIN_U)
            : lo_has(insn, PTX_W_max) ? (sgn ? SG_ATOM_MAX_S : SG_ATOM_MAX_U)
            : lo_has(insn, PTX_W_and) ? SG_ATOM_AND
            : lo_has(insn, PTX_W_or)  ? SG_ATOM_OR
                                      : SG_ATOM_XOR;
}

void
lower_elect(struct lower *l, const struct ptx_insn *insn)
{
    const struct ptx_opd *first, *second;
    int32_t a, d = SG_NOREG, e = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds != 2 || insn->opds[0].kind != PTX_OPD_PAIR) {
        lo_fail(l, -EINVAL, "elect: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_u32);
    first = pair_split(&insn->opds[0], &second);
    if (first->kind != PTX_OPD_SINK)
        d = lo_dst(l, first, PTX_W_b32);
    e = lo_dst_pred(l, second);
    ir = lo_emit(l, SG_OP_ELECT);
    ir->d = d;
    ir->e = e;
    ir->a = a;
}
