/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering clusters and bulk copies.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

/* mapa d, a, rank: the same shared address in another member. */
void
lower_mapa(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool wide = lo_type_class(type) == SG_D;
    int32_t a, rank, low;

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "mapa: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    rank = lo_src(l, &insn->opds[2], PTX_W_u32);
    rank = lo_op(l, SG_OP_ADD_U32, NONE, rank, lo_const(l, SG_W, 1), NONE);
    rank = lo_op(l, SG_OP_SHL_W, NONE, rank, lo_const(l, SG_W, SG_CLUSTER_SHIFT), NONE);
    low = lo_op(l, SG_OP_AND_W, NONE, lo_widen(l, a, SG_W, false),
                lo_const(l, SG_W, SG_WIN_SIZE - 1), NONE);
    if (!wide) {
        lo_op(l, SG_OP_OR_W, lo_dst(l, &insn->opds[0], type), low, rank, NONE);
        return;
    }
    low = lo_op(l, SG_OP_OR_W, NONE, low, rank, NONE);
    lo_op(l, SG_OP_PACK64, lo_dst(l, &insn->opds[0], type), low,
          lo_op(l, SG_OP_HI32, NONE, a, NONE, NONE), NONE);
}

static int32_t
own_rank(struct lower *l)
{
    int32_t d = lo_temp(l, SG_W);
    struct sg_ir *ir = lo_emit(l, SG_OP_SREG_W);

    ir->d = d;
    ir->n = SG_SREG_CLUSTER_CTARANK;
    ir->guard = NONE;
    return d;
}

void
lower_getctarank(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    int32_t a, number, own;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "getctarank: operands");
        return;
    }
    a = lo_widen(l, lo_src(l, &insn->opds[1], type), SG_W, false);
    number =
        lo_op(l, SG_OP_SHR_U32, NONE, a, lo_const(l, SG_W, SG_CLUSTER_SHIFT), NONE);
    own = lo_op(l, SG_OP_SETP_EQ_W, NONE, number, lo_const(l, SG_W, 0), NONE);
    number = lo_op(l, SG_OP_SUB_U32, NONE, number, lo_const(l, SG_W, 1), NONE);
    lo_op(l, SG_OP_SELP_W, lo_dst(l, &insn->opds[0], PTX_W_u32), own_rank(l), number,
          own);
}

void
lower_cluster_barrier(struct lower *l, const struct ptx_insn *insn)
{
    if (insn->n_opds) {
        lo_fail(l, -EINVAL, "barrier.cluster: operands");
        return;
    }
    lo_emit(l, SG_OP_FENCE)->guard = NONE;
    lo_emit(l, lo_has(insn, PTX_W_wait) ? SG_OP_CLUSTER_WAIT : SG_OP_CLUSTER_ARRIVE);
}

/* --------------------------------------------------------------------- bulk copies */

/* Where the bytes go and come from: the first two spaces among the modifiers. */
static void
bulk_spaces(const struct ptx_insn *insn, unsigned space[2])
{
    unsigned n = 0;

    space[0] = space[1] = PTX_W_generic;
    for (unsigned i = 0; i < insn->n_mods && n < 2; i++) {
        unsigned w = insn->mods[i];
        if (w == PTX_W_global || w == PTX_W_shared__cta || w == PTX_W_shared__cluster)
            space[n++] = w == PTX_W_global ? PTX_W_global : PTX_W_shared;
    }
}

/* An address operand as one 64-bit register. */
static int32_t
bulk_address(struct lower *l, const struct ptx_opd *o, unsigned space)
{
    struct lo_addr addr;

    if (!lo_address(l, o, space, 1, &addr))
        return lo_const(l, SG_D, 0);
    return lo_op(l, SG_OP_ADD_U64, NONE, lo_address_d(l, &addr),
                 lo_const(l, SG_D, (uint64_t)addr.imm), NONE);
}

static uint16_t
bulk_flags(const struct ptx_insn *insn, const unsigned space[2])
{
    return (uint16_t)((space[0] == PTX_W_global ? SG_BULK_TO_GLOBAL : 0) |
                      (space[1] == PTX_W_shared ? SG_BULK_FROM_SHARED : 0) |
                      (lo_has(insn, PTX_W_mbarrier__complete_tx__bytes) ? SG_BULK_MBAR
                                                                        : 0) |
                      (lo_has(insn, PTX_W_multicast__cluster) ? SG_BULK_MULTICAST : 0));
}

static void
bulk_emit(struct lower *l, enum sg_opcode code, const int32_t *regs, unsigned n,
          uint16_t flags, uint32_t rank)
{
    struct sg_ir proto, *ir;

    if (l->failed || !lo_list_init(l, &proto, n))
        return;
    for (unsigned i = 0; i < n; i++)
        proto.list[i] = regs[i];
    proto.n_list = (uint8_t)n;
    proto.wide_list = true;
    ir = lo_emit_list(l, code, &proto);
    ir->n = flags;
    ir->x = rank;
}

/* cp.async.bulk [to], [from], bytes{, [mbar]}{, mask} */
void
lower_bulk(struct lower *l, const struct ptx_insn *insn)
{
    unsigned space[2];
    int32_t r[5];
    uint16_t flags;

    bulk_spaces(insn, space);
    flags = bulk_flags(insn, space);
    if (insn->n_opds <
        (flags & SG_BULK_MBAR ? 4u : 3u) + (flags & SG_BULK_MULTICAST ? 1u : 0u)) {
        lo_fail(l, -EINVAL, "cp.async.bulk: operands");
        return;
    }
    r[0] = bulk_address(l, &insn->opds[0], space[0]);
    r[1] = bulk_address(l, &insn->opds[1], space[1]);
    r[2] = lo_widen(l, lo_src(l, &insn->opds[2], PTX_W_u32), SG_D, false);
    r[3] = r[4] = lo_const(l, SG_D, 0);
    if (flags & SG_BULK_MBAR)
        r[3] = bulk_address(l, &insn->opds[3], PTX_W_shared);
    if (flags & SG_BULK_MULTICAST)
        r[4] = lo_widen(l, lo_src(l, &insn->opds[4], PTX_W_u16), SG_D, false);
    bulk_emit(l, SG_OP_BULK, r, 5, flags, 0);
}

/* [map, {c0, c1, ...}] */
static unsigned
tensor_coords(struct lower *l, const struct ptx_opd *o, int32_t *map, int32_t *c)
{
    const struct ptx_opd *v;

    if (o->kind != PTX_OPD_TEXADDR || o->n < 2 || o->sub[1].kind != PTX_OPD_VEC ||
        o->sub[1].n > 5) {
        lo_fail(l, -EINVAL, "a tensor copy needs [map, {coordinates}]");
        return 0;
    }
    *map = bulk_address(l, &o->sub[0], PTX_W_generic);
    v = &o->sub[1];
    for (uint32_t i = 0; i < v->n; i++)
        c[i] = lo_widen(l, lo_src(l, &v->sub[i], PTX_W_s32), SG_D, true);
    return v->n;
}

/* cp.async.bulk.tensor [smem], [map, {..}], [mbar]{, mask}; or [map, {..}], [smem] */
void
lower_bulk_tensor(struct lower *l, const struct ptx_insn *insn)
{
    unsigned space[2], rank, at;
    int32_t r[10];
    uint16_t flags;
    bool down;

    bulk_spaces(insn, space);
    flags = bulk_flags(insn, space);
    down = flags & SG_BULK_TO_GLOBAL;
    at = down ? 0 : 1;
    if (insn->n_opds < (down ? 2u : 3u) + (flags & SG_BULK_MULTICAST ? 1u : 0u)) {
        lo_fail(l, -EINVAL, "cp.async.bulk.tensor: operands");
        return;
    }
    for (unsigned i = 0; i < 10; i++)
        r[i] = lo_const(l, SG_D, 0);
    rank = tensor_coords(l, &insn->opds[at], &r[at], &r[5]);
    r[1 - at] = bulk_address(l, &insn->opds[1 - at], PTX_W_shared);
    if (flags & SG_BULK_MBAR)
        r[3] = bulk_address(l, &insn->opds[2], PTX_W_shared);
    if (flags & SG_BULK_MULTICAST)
        r[4] = lo_widen(l, lo_src(l, &insn->opds[3], PTX_W_u16), SG_D, false);
    bulk_emit(l, SG_OP_BULK_TENSOR, r, 10, flags, rank);
}

/* st.async [a], v, [mbar]: stored at once, and its bytes completed. */
void
lower_st_async(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type);
    unsigned n = lo_has(insn, PTX_W_v2) ? 2 : lo_has(insn, PTX_W_v4) ? 4 : 1;
    const struct ptx_opd *v = &insn->opds[1], *e = n > 1 ? v->sub : v;
    struct lo_addr addr;

    if (insn->n_opds != 3 || (n > 1 && (v->kind != PTX_OPD_VEC || v->n != n)) ||
        !lo_address(l, &insn->opds[0], PTX_W_shared, (uint64_t)size * n, &addr)) {
        lo_fail(l, -EINVAL, "st.async: operands");
        return;
    }
    for (unsigned i = 0; i < n && !l->failed; i++) {
        lo_store(l, &addr, type, lo_src(l, &e[i], type), i == 0 ? size * n - 1 : 0);
        addr.imm += size;
    }
    lo_mbar(l, &insn->opds[2], PTX_W_shared, SG_MBAR_COMPLETE_TX, NONE, NONE, NONE,
            lo_const(l, SG_D, (uint64_t)size * n));
}

/* A policy is a hint; any number does. */
void
lower_createpolicy(struct lower *l, const struct ptx_insn *insn)
{
    lo_op(l, SG_OP_MOV_D, lo_dst(l, &insn->opds[0], PTX_W_b64), lo_const(l, SG_D, 0),
          NONE, NONE);
}
