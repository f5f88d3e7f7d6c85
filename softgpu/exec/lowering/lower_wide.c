/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering what is wider than 64 bits: 128-bit registers, and atomics over vectors,
 * which are atomics over their elements.
 *
 * A 128-bit register is two 64-bit ones, the low half first.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

bool
lo_halves(struct lower *l, const struct ptx_opd *o, bool dst, int32_t v[2])
{
    if (o->kind == PTX_OPD_VEC && o->n == 2) {
        for (int k = 0; k < 2; k++)
            v[k] = dst ? lo_dst(l, &o->sub[k], PTX_W_b64)
                       : lo_src(l, &o->sub[k], PTX_W_b64);
        return !l->failed;
    }
    if (o->kind != PTX_OPD_REG || l->func->regs[o->reg].vec > 1 ||
        ptx_type_size(l->func->regs[o->reg].type) != 16) {
        lo_fail(l, -EINVAL, "expected a 128-bit register");
        return false;
    }
    v[0] = l->reg_map[o->reg];
    v[1] = v[0] + 1;
    return true;
}

void
lower_mov128(struct lower *l, const struct ptx_insn *insn)
{
    int32_t d[2], a[2];

    if (insn->n_opds != 2 || !lo_halves(l, &insn->opds[1], false, a) ||
        !lo_halves(l, &insn->opds[0], true, d))
        return;
    for (int k = 0; k < 2; k++)
        lo_op(l, SG_OP_MOV_D, d[k], a[k], NONE, NONE);
}

void
lower_atom128(struct lower *l, const struct ptx_insn *insn)
{
    bool cas = lo_has(insn, PTX_W_cas);
    int32_t d[2], b[2], c[2];
    struct sg_ir proto, *ir;
    struct lo_addr addr;
    int32_t base;

    if (insn->n_opds < (cas ? 4u : 3u) || !lo_halves(l, &insn->opds[0], true, d) ||
        !lo_halves(l, &insn->opds[2], false, b) ||
        (cas && !lo_halves(l, &insn->opds[3], false, c)) ||
        !lo_address(l, &insn->opds[1], lo_space(insn), 16, &addr)) {
        lo_fail(l, -EINVAL, "atom.b128: operands");
        return;
    }
    base = lo_address_d(l, &addr);
    if (!lo_list_init(l, &proto, 6))
        return;
    for (int k = 0; k < 2; k++) {
        proto.list[k] = d[k];
        proto.list[2 + k] = b[k];
        proto.list[4 + k] = cas ? c[k] : b[k];
    }
    proto.n_list = 6;
    proto.n_list_dst = 2;
    proto.wide_list = true;
    ir = lo_emit_list(l, SG_OP_ATOM_Q, &proto);
    ir->a = base;
    ir->n = cas ? SG_ATOM_CAS : SG_ATOM_EXCH;
    ir->x = addr.space;
    ir->imm = addr.imm;
    lo_emit(l, SG_OP_POLL)->guard = SG_NOREG;
}

/* atom and red over .v2, .v4, .v8: each element by itself, as on a card. */
void
lower_atom_vector(struct lower *l, const struct ptx_insn *insn)
{
    bool red = insn->op == PTX_W_red;
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type), at = red ? 0 : 1;
    unsigned n = lo_vector_count(insn);
    int kind = lo_atom_kind(insn, type);
    const struct ptx_opd *src = &insn->opds[at + 1], *dst = &insn->opds[0];
    int32_t base, b[8], d[8];
    struct lo_addr addr;
    struct sg_ir *ir;

    if (insn->n_opds < at + 2 || kind == 255 || src->kind != PTX_OPD_VEC ||
        src->n != n || (!red && (dst->kind != PTX_OPD_VEC || dst->n != n))) {
        lo_fail(l, -EINVAL, "vector atomic: operands");
        return;
    }
    if (!lo_address(l, &insn->opds[at], lo_space(insn), (uint64_t)size * n, &addr))
        return;
    base = lo_op(l, SG_OP_MOV_D, NONE, lo_address_d(l, &addr), NONE, NONE);
    for (unsigned i = 0; i < n; i++)
        b[i] = lo_src(l, &src->sub[i], type);
    for (unsigned i = 0; i < n; i++)
        d[i] = red ? NONE : lo_dst(l, &dst->sub[i], type);
    for (unsigned i = 0; i < n; i++) {
        ir = lo_emit(l, size == 2 ? SG_OP_ATOM_H : SG_OP_ATOM_W);
        ir->d = d[i];
        ir->a = base;
        ir->b = b[i];
        ir->n = (uint16_t)kind;
        ir->x = addr.space | (i == 0 ? (size * n - 1) << SG_ATOM_ALIGN_SHIFT : 0);
        ir->imm = addr.imm + (int64_t)(i * size);
    }
}
