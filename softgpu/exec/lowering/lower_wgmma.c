/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering wgmma.mma_async: d, a (registers or a descriptor), b's descriptor, metadata
 * and selector if sparse, then what is done to the operands.
 */
#include "gp_err.h"
#include "insn_matrix.h"
#include "lower.h"

#include <errno.h>
#include <stdlib.h>

struct shape {
    unsigned n, k;
};

static struct shape
shape_of(const struct ptx_insn *insn)
{
    static const uint16_t ks[] = {8, 16, 32, 64, 256};

    for (unsigned i = 0; i < insn->n_mods; i++) {
        unsigned w = insn->mods[i];
        if (w >= PTX_W_m64n8k8 && w <= PTX_W_m64n256k256)
            return (struct shape){((w - PTX_W_m64n8k8) / 5 + 1) * 8,
                                  ks[(w - PTX_W_m64n8k8) % 5]};
    }
    return (struct shape){0, 0};
}

/* 32 bytes of k, of a sparse matrix twice as many. */
static bool
shape_fits(const struct shape *s, unsigned bits, bool sparse)
{
    return s->n && s->k * bits == (sparse ? 512u : 256u);
}

/* Operands behind the matrices, one by one: -1 and 1, or 0 and 1. */
static uint64_t
constant_flag(struct lower *l, const struct ptx_insn *insn, unsigned at, int64_t value,
              uint64_t flag)
{
    if (at >= insn->n_opds || insn->opds[at].kind != PTX_OPD_INT) {
        lo_fail(l, -EINVAL, "wgmma: operand %u is no constant", at);
        return 0;
    }
    return (int64_t)insn->opds[at].imm == value ? flag : 0;
}

static uint64_t
constant_flags(struct lower *l, const struct ptx_insn *insn, unsigned at, bool a_regs)
{
    unsigned type = lo_type(insn, 1);
    uint64_t flags = 0;

    if (lo_type(insn, 0) == PTX_W_s32)
        return 0;
    flags |= constant_flag(l, insn, at, -1, SG_MAT_A_NEG);
    flags |= constant_flag(l, insn, at + 1, -1, SG_MAT_B_NEG);
    if (type != PTX_W_f16 && type != PTX_W_bf16)
        return flags;
    if (!a_regs)
        flags |= constant_flag(l, insn, at + 2, 1, SG_MAT_A_TRANS);
    return flags | constant_flag(l, insn, at + (a_regs ? 2 : 3), 1, SG_MAT_B_TRANS);
}

/* d as result, d as what is added to, a if it is in registers. */
static bool
add_registers(struct lower *l, const struct ptx_insn *insn, const struct shape *s,
              struct sg_ir *proto)
{
    const struct ptx_opd *d = &insn->opds[0], *a = &insn->opds[1];
    unsigned n = lo_type(insn, 0) == PTX_W_f16 ? s->n / 4 : s->n / 2;

    if (d->kind != PTX_OPD_VEC || d->n != n || (a->kind == PTX_OPD_VEC && a->n != 4)) {
        lo_fail(l, -EINVAL, "wgmma: wrong number of registers");
        return false;
    }
    if (!lo_list_init(l, proto, 2 * n + 5))
        return false;
    for (unsigned i = 0; i < n; i++)
        proto->list[i] = lo_dst(l, &d->sub[i], PTX_W_b32);
    for (unsigned i = 0; i < n; i++)
        proto->list[n + i] = lo_src(l, &d->sub[i], PTX_W_b32);
    proto->n_list_dst = (uint16_t)n;
    proto->n_list = (uint16_t)(2 * n);
    for (unsigned i = 0; a->kind == PTX_OPD_VEC && i < 4; i++)
        proto->list[proto->n_list++] = lo_src(l, &a->sub[i], PTX_W_b32);
    return true;
}

void
lower_wgmma(struct lower *l, const struct ptx_insn *insn)
{
    bool sparse = lo_has(insn, PTX_W_sp), a_regs;
    unsigned at = sparse ? 5 : 3; /* where scale-d is */
    struct shape s = shape_of(insn);
    struct sg_ir proto, *ir;
    int32_t a = SG_NOREG, b, c;
    uint64_t imm = 0, flags;

    for (unsigned i = 0; i < 3; i++)
        imm |= (uint64_t)lo_mat_type(lo_type(insn, i)) << (4 * i);
    if (insn->n_opds <= at || !shape_fits(&s, sg_mat_bits(imm >> 4 & 15), sparse)) {
        lo_fail(l, -EINVAL, "wgmma: operands");
        return;
    }
    a_regs = insn->opds[1].kind == PTX_OPD_VEC;
    flags = constant_flags(l, insn, at + 1, a_regs) | (a_regs ? SG_MAT_A_REGS : 0) |
            (sparse ? SG_MAT_SPARSE : 0) |
            (lo_has(insn, PTX_W_satfinite) ? SG_MAT_SATFINITE : 0);
    if (sparse && (insn->opds[4].kind != PTX_OPD_INT || insn->opds[4].imm > 3))
        lo_fail(l, -EINVAL, "wgmma: the selector is no constant");
    if (l->failed || !add_registers(l, insn, &s, &proto))
        return;
    if (sparse) {
        flags |= insn->opds[4].imm << SG_MAT_SELECTOR_SHIFT;
        proto.list[proto.n_list++] = lo_src(l, &insn->opds[3], PTX_W_b32);
    }
    if (!a_regs)
        a = lo_src(l, &insn->opds[1], PTX_W_b64);
    b = lo_src(l, &insn->opds[2], PTX_W_b64);
    c = lo_src_pred(l, &insn->opds[at]);
    ir = lo_emit_list(l, SG_OP_WGMMA, &proto);
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->x = s.n | s.k << 16;
    ir->imm = (int64_t)(imm | flags << SG_MAT_FLAGS_SHIFT);
}
