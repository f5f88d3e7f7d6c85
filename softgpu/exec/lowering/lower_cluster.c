/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering clusters, bulk copies and what is done to tensor maps.
 */
#include "gp_err.h"
#include "insn_tex.h"
#include "lower.h"
#include "sg_exec.h"
#include "sg_tmap.h"

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
                      (lo_has(insn, PTX_W_multicast__cluster) ? SG_BULK_MULTICAST : 0) |
                      (lo_has(insn, PTX_W_reduce) ? SG_BULK_REDUCE : 0) |
                      (lo_has(insn, PTX_W_cp_mask) ? SG_BULK_BYTES : 0));
}

/* The operation over a list of @n 64-bit registers; @imm and @x as it wants them. */
static void
bulk_emit(struct lower *l, enum sg_opcode code, const int32_t *regs, unsigned n,
          uint16_t flags, uint32_t x, uint32_t imm)
{
    struct sg_ir proto, *ir;

    if (l->failed || !lo_list_init(l, &proto, n))
        return;
    for (unsigned i = 0; i < n; i++)
        proto.list[i] = regs[i];
    proto.n_list = (uint16_t)n;
    proto.wide_list = true;
    ir = lo_emit_list(l, code, &proto);
    ir->n = flags;
    ir->x = x;
    ir->imm = imm;
}

/* cp{.reduce}.async.bulk [to], [from], bytes{, [mbar]}{, policy}{, mask} */
void
lower_bulk(struct lower *l, const struct ptx_insn *insn)
{
    unsigned space[2], type = lo_type(insn, 0), masks, last = insn->n_opds - 1u;
    uint32_t imm = 0;
    int32_t r[SG_BULK_ARGS];
    uint16_t flags;

    bulk_spaces(insn, space);
    flags = bulk_flags(insn, space);
    masks = flags & (SG_BULK_MULTICAST | SG_BULK_BYTES) ? 1 : 0;
    if (flags & SG_BULK_REDUCE)
        imm = (uint32_t)lo_atom_kind(insn, type) | ptx_type_size(type) << 8;
    if (insn->n_opds < (flags & SG_BULK_MBAR ? 4u : 3u) + masks ||
        (imm & 0xff) == 255) {
        lo_fail(l, -EINVAL, "cp.async.bulk: operands");
        return;
    }
    r[0] = bulk_address(l, &insn->opds[0], space[0]);
    r[1] = bulk_address(l, &insn->opds[1], space[1]);
    r[2] = lo_widen(l, lo_src(l, &insn->opds[2], PTX_W_u32), SG_D, false);
    r[3] = r[4] = lo_const(l, SG_D, 0);
    if (flags & SG_BULK_MBAR)
        r[3] = bulk_address(l, &insn->opds[3], PTX_W_shared);
    if (masks) /* a policy stands before the mask of bytes, behind that of members */
        r[4] = lo_widen(
            l, lo_src(l, &insn->opds[flags & SG_BULK_BYTES ? last : 4], PTX_W_u16),
            SG_D, false);
    bulk_emit(l, SG_OP_BULK, r, SG_BULK_ARGS, flags, 0, imm);
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

static unsigned
tensor_rank(const struct ptx_insn *insn)
{
    return lo_has(insn, PTX_W_1d)   ? 1
           : lo_has(insn, PTX_W_2d) ? 2
           : lo_has(insn, PTX_W_3d) ? 3
           : lo_has(insn, PTX_W_4d) ? 4
                                    : 5;
}

static enum sg_bulk_mode
tensor_mode(const struct ptx_insn *insn)
{
    if (lo_has(insn, PTX_W_im2col) || lo_has(insn, PTX_W_im2col_no_offs))
        return SG_BULK_IM2COL;
    return lo_has(insn, PTX_W_tile__gather4) || lo_has(insn, PTX_W_tile__scatter4)
               ? SG_BULK_ROWS
               : SG_BULK_TILE;
}

static uint32_t
tensor_reduction(const struct ptx_insn *insn)
{
    static const uint16_t words[] = {PTX_W_add, PTX_W_min, PTX_W_max, PTX_W_inc,
                                     PTX_W_dec, PTX_W_and, PTX_W_or,  PTX_W_xor};

    for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
        if (lo_has(insn, words[i]))
            return i;
    return 0;
}

/* {offsets}: one fewer than dimensions that are neither channels nor images. */
static bool
tensor_offsets(struct lower *l, const struct ptx_insn *insn, unsigned at, unsigned n,
               int32_t *r)
{
    const struct ptx_opd *v = &insn->opds[at];

    if (at >= insn->n_opds || v->kind != PTX_OPD_VEC || v->n != n) {
        lo_fail(l, -EINVAL, "im2col needs an offset for each dimension of a pixel");
        return false;
    }
    for (unsigned i = 0; i < n; i++)
        r[i] = lo_widen(l, lo_src(l, &v->sub[i], PTX_W_u16), SG_D, false);
    return true;
}

/* cp.async.bulk.tensor [smem], [map, {..}], [mbar]{, {..}}{, mask}; or [map, {..}],
 * [smem] */
void
lower_bulk_tensor(struct lower *l, const struct ptx_insn *insn)
{
    enum sg_bulk_mode mode = tensor_mode(insn);
    unsigned space[2], rank = tensor_rank(insn), n, at, next = 3;
    int32_t r[SG_BULK_LIST];
    uint16_t flags;
    bool down;

    bulk_spaces(insn, space);
    flags = bulk_flags(insn, space);
    down = flags & SG_BULK_TO_GLOBAL;
    at = down ? 0 : 1;
    if (insn->n_opds < (down ? 2u : 3u)) {
        lo_fail(l, -EINVAL, "cp.async.bulk.tensor: operands");
        return;
    }
    for (unsigned i = 0; i < SG_BULK_LIST; i++)
        r[i] = lo_const(l, SG_D, 0);
    n = tensor_coords(l, &insn->opds[at], &r[at], &r[SG_BULK_COORDS]);
    if (n != (mode == SG_BULK_ROWS ? 5 : rank) ||
        (mode == SG_BULK_IM2COL && rank < 3)) {
        lo_fail(l, -EINVAL, "wrong number of coordinates");
        return;
    }
    r[1 - at] = bulk_address(l, &insn->opds[1 - at], PTX_W_shared);
    if (flags & SG_BULK_MBAR)
        r[3] = bulk_address(l, &insn->opds[2], PTX_W_shared);
    if (mode == SG_BULK_IM2COL && !down &&
        !tensor_offsets(l, insn, next++, rank - 2, &r[SG_BULK_OFFSETS]))
        return;
    if (flags & SG_BULK_MULTICAST) {
        if (next >= insn->n_opds)
            lo_fail(l, -EINVAL, "cp.async.bulk.tensor: no mask");
        else
            r[4] = lo_widen(l, lo_src(l, &insn->opds[next], PTX_W_u16), SG_D, false);
    }
    bulk_emit(l, SG_OP_BULK_TENSOR, r, SG_BULK_LIST, flags, rank | mode << 4,
              tensor_reduction(insn));
}

/* tensormap.replace.tile.field [map], {index,} value */
void
lower_tmap_replace(struct lower *l, const struct ptx_insn *insn)
{
    static const struct {
        uint16_t word;
        uint8_t field;
        bool indexed;
    } fields[] = {
        {PTX_W_global_address, SG_TMAP_SET_ADDRESS, false},
        {PTX_W_rank, SG_TMAP_SET_RANK, false},
        {PTX_W_box_dim, SG_TMAP_SET_BOX, true},
        {PTX_W_global_dim, SG_TMAP_SET_DIM, true},
        {PTX_W_global_stride, SG_TMAP_SET_STRIDE, true},
        {PTX_W_element_stride, SG_TMAP_SET_STEP, true},
        {PTX_W_elemtype, SG_TMAP_SET_TYPE, false},
        {PTX_W_interleave_layout, SG_TMAP_SET_INTERLEAVE, false},
        {PTX_W_swizzle_mode, SG_TMAP_SET_SWIZZLE, false},
        {PTX_W_fill_mode, SG_TMAP_SET_FILL, false},
        {PTX_W_swizzle_atomicity, SG_TMAP_SET_ATOM, false},
    };
    unsigned i = 0, space = lo_space(insn), index = 0;
    struct sg_ir *ir;
    int32_t a, b;

    while (i + 1 < ARRAY_SIZE(fields) && !lo_has(insn, fields[i].word))
        i++;
    if (insn->n_opds != (fields[i].indexed ? 3u : 2u) ||
        (fields[i].indexed &&
         (insn->opds[1].kind != PTX_OPD_INT || insn->opds[1].imm >= SG_TMAP_DIMS))) {
        lo_fail(l, -EINVAL, "tensormap.replace: operands");
        return;
    }
    if (fields[i].indexed)
        index = (unsigned)insn->opds[1].imm;
    a = bulk_address(l, &insn->opds[0], space);
    b = lo_widen(l,
                 lo_src(l, &insn->opds[insn->n_opds - 1],
                        lo_has(insn, PTX_W_b64) ? PTX_W_b64 : PTX_W_b32),
                 SG_D, false);
    ir = lo_emit(l, SG_OP_TMAP_REPLACE);
    ir->a = a;
    ir->b = b;
    ir->n = (uint16_t)(fields[i].field | index << 8);
    ir->x = space == PTX_W_shared   ? SG_MEM_SHARED
            : space == PTX_W_global ? SG_MEM_GLOBAL
                                    : SG_MEM_GENERIC;
}

/* tensormap.cp_fenceproxy [to], [from], 128: global from shared memory. */
void
lower_tmap_copy(struct lower *l, const struct ptx_insn *insn)
{
    int32_t r[SG_BULK_ARGS];

    if (insn->n_opds != 3 || insn->opds[2].kind != PTX_OPD_INT ||
        insn->opds[2].imm != 128) {
        lo_fail(l, -EINVAL, "tensormap.cp_fenceproxy: operands");
        return;
    }
    r[0] = bulk_address(l, &insn->opds[0], PTX_W_global);
    r[1] = bulk_address(l, &insn->opds[1], PTX_W_shared);
    r[2] = lo_const(l, SG_D, 128);
    r[3] = r[4] = lo_const(l, SG_D, 0);
    bulk_emit(l, SG_OP_BULK, r, SG_BULK_ARGS, SG_BULK_TO_GLOBAL | SG_BULK_FROM_SHARED,
              0, 0);
    lo_emit(l, SG_OP_FENCE)->guard = NONE;
}

/* clusterlaunchcontrol.try_cancel [answer], [mbar]: no launch is ever cancelled, which
 * programs must expect; the answer is zeros. */
void
lower_cancel(struct lower *l, const struct ptx_insn *insn)
{
    bool all = lo_has(insn, PTX_W_multicast__cluster__all);
    int32_t r[SG_BULK_ARGS], n;
    struct sg_ir *ir;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "clusterlaunchcontrol: operands");
        return;
    }
    r[0] = bulk_address(l, &insn->opds[0], PTX_W_shared);
    r[1] = r[4] = lo_const(l, SG_D, 0);
    r[2] = lo_const(l, SG_D, 16);
    r[3] = bulk_address(l, &insn->opds[1], PTX_W_shared);
    if (all) { /* bits for as many members as there are */
        n = lo_temp(l, SG_W);
        ir = lo_emit(l, SG_OP_SREG_W);
        ir->d = n;
        ir->n = SG_SREG_CLUSTER_NCTARANK;
        ir->guard = NONE;
        n = lo_op(l, SG_OP_SHL_W, NONE, lo_const(l, SG_W, 1), n, NONE);
        n = lo_op(l, SG_OP_SUB_U32, NONE, n, lo_const(l, SG_W, 1), NONE);
        r[4] = lo_widen(l, n, SG_D, false);
    }
    bulk_emit(l, SG_OP_BULK, r, SG_BULK_ARGS,
              SG_BULK_ZERO | SG_BULK_MBAR | (all ? SG_BULK_MULTICAST : 0), 1, 0);
}

void
lower_cancel_query(struct lower *l, const struct ptx_insn *insn)
{
    const struct ptx_opd *d = &insn->opds[0];
    struct sg_ir *ir;
    int32_t v;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "clusterlaunchcontrol: operands");
    } else if (lo_has(insn, PTX_W_is_canceled)) {
        v = lo_dst_pred(l, d);
        ir = lo_emit(l, SG_OP_PSET);
        ir->d = v;
        ir->n = 0;
    } else {
        const struct ptx_opd *e = d->kind == PTX_OPD_VEC ? d->sub : d;
        for (uint32_t i = 0; i < (d->kind == PTX_OPD_VEC ? d->n : 1); i++)
            lo_op(l, SG_OP_MOV_W, lo_dst(l, &e[i], PTX_W_b32), lo_const(l, SG_W, 0),
                  NONE, NONE);
    }
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

/* red.async [a], v, [mbar]: the same with an atomic operation. */
void
lower_red_async(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0), size = ptx_type_size(type);
    struct lo_addr addr;
    struct sg_ir *ir;
    int32_t base, b;

    if (insn->n_opds != 3 ||
        !lo_address(l, &insn->opds[0], PTX_W_shared, size, &addr)) {
        lo_fail(l, -EINVAL, "red.async: operands");
        return;
    }
    base = lo_address_d(l, &addr);
    b = lo_src(l, &insn->opds[1], type);
    ir = lo_emit(l, size == 8 ? SG_OP_ATOM_D : SG_OP_ATOM_W);
    ir->a = base;
    ir->b = b;
    ir->n = (uint16_t)lo_atom_kind(insn, type);
    ir->x = addr.space;
    ir->imm = addr.imm;
    lo_mbar(l, &insn->opds[2], PTX_W_shared, SG_MBAR_COMPLETE_TX, NONE, NONE, NONE,
            lo_const(l, SG_D, size));
}

/* st.bulk [a], bytes, 0 */
void
lower_st_bulk(struct lower *l, const struct ptx_insn *insn)
{
    int32_t r[SG_BULK_ARGS];

    if (insn->n_opds != 3 || insn->opds[2].kind != PTX_OPD_INT || insn->opds[2].imm) {
        lo_fail(l, -EINVAL, "st.bulk: operands");
        return;
    }
    for (int k = 0; k < SG_BULK_ARGS; k++)
        r[k] = lo_const(l, SG_D, 0);
    r[0] = bulk_address(l, &insn->opds[0], lo_space(insn));
    r[2] = lo_src(l, &insn->opds[1], PTX_W_u64);
    bulk_emit(l, SG_OP_BULK, r, SG_BULK_ARGS, SG_BULK_ZERO,
              lo_space(insn) == PTX_W_shared, 0);
}

/* Its addresses are those of multicast objects, and the driver API makes none: a kernel
 * may contain it, and ends where it runs it. */
void
lower_multimem(struct lower *l, const struct ptx_insn *insn)
{
    const struct ptx_opd *at = NULL;
    struct lo_addr addr;
    struct sg_ir *ir;
    int32_t reg;

    for (uint32_t i = 0; i < insn->n_opds && !at; i++)
        if (insn->opds[i].kind == PTX_OPD_ADDR)
            at = &insn->opds[i];
    if (!at) {
        lo_fail(l, -EINVAL, "multimem: no address");
        return;
    }
    if (!lo_address(l, at, PTX_W_global, 1, &addr))
        return;
    reg = lo_address_d(l, &addr);
    ir = lo_emit(l, SG_OP_NO_SUCH);
    ir->a = reg;
    ir->n = NO_SUCH_MULTICAST;
}

/* A policy is a hint; any number does. */
void
lower_createpolicy(struct lower *l, const struct ptx_insn *insn)
{
    lo_op(l, SG_OP_MOV_D, lo_dst(l, &insn->opds[0], PTX_W_b64), lo_const(l, SG_D, 0),
          NONE, NONE);
}
