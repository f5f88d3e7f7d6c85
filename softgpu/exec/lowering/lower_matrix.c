/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering matrix operations, asynchronous copies and mbarriers.
 */
#include "gp_err.h"
#include "insn_matrix.h"
#include "lower.h"

#include <errno.h>
#include <stdlib.h>

int
lo_mat_type(unsigned word)
{
    switch (word) {
    case PTX_W_f16:
    case PTX_W_f16x2:
        return SG_MAT_F16;
    case PTX_W_bf16:
        return SG_MAT_BF16;
    case PTX_W_tf32:
        return SG_MAT_TF32;
    case PTX_W_f32:
        return SG_MAT_F32;
    case PTX_W_f64:
        return SG_MAT_F64;
    case PTX_W_s8:
        return SG_MAT_S8;
    case PTX_W_u8:
        return SG_MAT_U8;
    case PTX_W_s4:
        return SG_MAT_S4;
    case PTX_W_u4:
        return SG_MAT_U4;
    case PTX_W_b1:
        return SG_MAT_B1;
    case PTX_W_s32:
        return SG_MAT_S32;
    case PTX_W_e4m3:
        return SG_MAT_E4M3;
    case PTX_W_e5m2:
        return SG_MAT_E5M2;
    case PTX_W_e3m2:
        return SG_MAT_E3M2;
    case PTX_W_e2m3:
        return SG_MAT_E2M3;
    case PTX_W_e2m1:
        return SG_MAT_E2M1;
    default:
        return -1;
    }
}

static uint32_t
mat_shape(const struct ptx_insn *insn)
{
    static const struct {
        uint16_t word;
        uint8_t m, n;
        uint16_t k;
    } shapes[] = {
        {PTX_W_m16n16k16, 16, 16, 16}, {PTX_W_m8n32k16, 8, 32, 16},
        {PTX_W_m32n8k16, 32, 8, 16},   {PTX_W_m16n16k8, 16, 16, 8},
        {PTX_W_m8n8k4, 8, 8, 4},       {PTX_W_m8n8k16, 8, 8, 16},
        {PTX_W_m8n8k32, 8, 8, 32},     {PTX_W_m8n8k128, 8, 8, 128},
        {PTX_W_m16n8k4, 16, 8, 4},     {PTX_W_m16n8k8, 16, 8, 8},
        {PTX_W_m16n8k16, 16, 8, 16},   {PTX_W_m16n8k32, 16, 8, 32},
        {PTX_W_m16n8k64, 16, 8, 64},   {PTX_W_m16n8k128, 16, 8, 128},
        {PTX_W_m16n8k256, 16, 8, 256},
    };

    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
        if (lo_has(insn, shapes[i].word))
            return shapes[i].m | (uint32_t)shapes[i].n << 8 |
                   (uint32_t)shapes[i].k << 16;
    return 0;
}

/* Registers of a fragment: @input of wmma of f16 is held twice, of narrow shapes four
 * times.  The executor relies on it: more would be read and written than there is. */
static bool
count_fits(unsigned rows, unsigned cols, unsigned elem_bits, uint32_t n, bool input)
{
    uint32_t bits = rows * cols * elem_bits, per_reg = elem_bits == 64 ? 64 : 32;
    uint32_t have = n * per_reg * SG_LANES;

    return have == bits || (input && (have == 2 * bits || have == 4 * bits));
}

/* The elements of { } (or one register), as vregs appended to the list. */
static void
list_add(struct lower *l, struct sg_ir *ir, const struct ptx_opd *o, int type, bool dst)
{
    unsigned word = type == SG_MAT_F64 ? PTX_W_b64 : PTX_W_b32;
    const struct ptx_opd *e = o->kind == PTX_OPD_VEC ? o->sub : o;
    uint32_t n = o->kind == PTX_OPD_VEC ? o->n : 1;

    ir->wide_list |= type == SG_MAT_F64;
    for (uint32_t i = 0; i < n && !l->failed; i++)
        ir->list[ir->n_list++] = dst ? lo_dst(l, &e[i], word) : lo_src(l, &e[i], word);
    if (dst)
        ir->n_list_dst = ir->n_list;
}

static uint32_t
opd_count(const struct ptx_opd *o)
{
    return o->kind == PTX_OPD_VEC ? o->n : 1;
}

struct sg_ir *
lo_emit_list(struct lower *l, enum sg_opcode code, struct sg_ir *proto)
{
    struct sg_ir *ir = lo_emit(l, code);

    ir->list = proto->list;
    ir->n_list = proto->n_list;
    ir->n_list_dst = proto->n_list_dst;
    ir->wide_list = proto->wide_list;
    return ir;
}

bool
lo_list_init(struct lower *l, struct sg_ir *proto, uint32_t n)
{
    *proto = (struct sg_ir){0};
    if (n == 0 || n > SG_LIST_MAX) {
        lo_fail(l, -EINVAL, "matrix operand of %u registers", n);
        return false;
    }
    proto->list = malloc(n * sizeof(*proto->list));
    if (!proto->list)
        lo_fail(l, -ENOMEM, "out of memory");
    return proto->list != NULL;
}

/* Types of d a b c from the modifiers: two (d c, inputs f16), or four, and then that of
 * the scales if there are any. */
static bool
mma_types(struct lower *l, const struct ptx_insn *insn, int type[4])
{
    unsigned n = 0, w[4];

    for (; n < 4 && lo_type(insn, n); n++)
        w[n] = lo_type(insn, n);
    if (n == 2) {
        type[SG_MAT_D] = lo_mat_type(w[0]);
        type[SG_MAT_C] = lo_mat_type(w[1]);
        type[SG_MAT_A] = type[SG_MAT_B] = SG_MAT_F16;
    } else if (n == 4) {
        for (int i = 0; i < 4; i++)
            type[i] = lo_mat_type(w[i]);
    } else {
        lo_fail(l, -EINVAL, "matrix operation needs two or four types");
        return false;
    }
    for (int i = 0; i < 4; i++)
        if (type[i] < 0) {
            lo_fail(l, -ENOSYS, "matrix of this type is not carried");
            return false;
        }
    return true;
}

static bool
is_sparse(const struct ptx_insn *insn)
{
    return lo_has(insn, PTX_W_sp) || lo_has(insn, PTX_W_sp__ordered_metadata);
}

static uint64_t
mma_flags(const struct ptx_insn *insn)
{
    bool four = lo_has(insn, PTX_W_kind__mxf4) || lo_has(insn, PTX_W_kind__mxf4nvf4);
    uint64_t scales = !lo_has(insn, PTX_W_block_scale)    ? 0
                      : lo_has(insn, PTX_W_scale_vec__4X) ? 4
                      : four                              ? 2
                                                          : 1;
    uint64_t round = lo_has(insn, PTX_W_rz)   ? 1
                     : lo_has(insn, PTX_W_rm) ? 2
                     : lo_has(insn, PTX_W_rp) ? 3
                                              : 0;

    return (insn->op == PTX_W_wmma ? SG_MAT_WMMA : 0) |
           (lo_has(insn, PTX_W_satfinite) ? SG_MAT_SATFINITE : 0) |
           (lo_has(insn, PTX_W_xor) ? SG_MAT_XOR : 0) |
           (is_sparse(insn) ? SG_MAT_SPARSE : 0) | (four ? SG_MAT_PACKED : 0) |
           scales << SG_MAT_SCALES_SHIFT | round << SG_MAT_ROUND_SHIFT |
           (lo_type(insn, 4) == PTX_W_ue4m3 ? SG_MAT_UE4M3 : 0);
}

/* scale, {byte, thread} for a and then for b, from operand @at on. */
static void
scales_add(struct lower *l, struct sg_ir *proto, const struct ptx_insn *insn,
           unsigned at)
{
    for (unsigned i = 0; i < 2 && !l->failed; i++) {
        const struct ptx_opd *o = &insn->opds[at + 2 * i], *ids = o + 1;
        if (ids->kind != PTX_OPD_VEC || ids->n != 2) {
            lo_fail(l, -EINVAL, "mma: scales come with {byte, thread}");
            return;
        }
        if (o->kind == PTX_OPD_VEC)
            o = o->sub;
        proto->list[proto->n_list++] = lo_src(l, o, PTX_W_b32);
        for (int k = 0; k < 2; k++)
            proto->list[proto->n_list++] = lo_src(l, &ids->sub[k], PTX_W_u16);
    }
}

/* The four matrices: counts and types into @imm, registers into @proto. */
static bool
mma_matrices(struct lower *l, const struct ptx_insn *insn, uint32_t shape,
             struct sg_ir *proto, uint64_t *imm)
{
    unsigned m = shape & 0xff, n = shape >> 8 & 0xff, k = shape >> 16, more = 8;
    const unsigned rows[4] = {m, m, n, m}, cols[4] = {n, k, k, n};
    bool packed = *imm >> SG_MAT_FLAGS_SHIFT & SG_MAT_PACKED;
    uint32_t total = 0;
    int type[4];

    if (!mma_types(l, insn, type))
        return false;
    for (int i = 0; i < 4; i++) {
        uint32_t c = opd_count(&insn->opds[i]);
        unsigned bits =
            packed && type[i] == SG_MAT_E2M1 ? 4 : sg_mat_bits((unsigned)type[i]);
        unsigned stored = i == SG_MAT_A && is_sparse(insn) ? cols[i] / 2 : cols[i];
        bool input = insn->op == PTX_W_wmma && (i == SG_MAT_A || i == SG_MAT_B);
        if (c > 63 || !count_fits(rows[i], stored, bits, c, input)) {
            lo_fail(l, -EINVAL, "mma: operand %d has %u registers", i, c);
            return false;
        }
        total += c;
        *imm |= (uint64_t)type[i] << (4 * i) | (uint64_t)c << (16 + 6 * i);
    }
    if (!lo_list_init(l, proto, total + more))
        return false;
    for (int i = 0; i < 4; i++)
        list_add(l, proto, &insn->opds[i], type[i], i == 0);
    return !l->failed;
}

void
lower_mma(struct lower *l, const struct ptx_insn *insn)
{
    bool sparse = is_sparse(insn), scaled = lo_has(insn, PTX_W_block_scale);
    unsigned want = 4 + (sparse ? 2 : 0) + (scaled ? 4 : 0);
    uint32_t shape = mat_shape(insn);
    uint64_t imm = mma_flags(insn) << SG_MAT_FLAGS_SHIFT;
    struct sg_ir proto = {0}, *ir;

    if (insn->n_opds != want || !shape ||
        (sparse && (insn->opds[5].kind != PTX_OPD_INT || insn->opds[5].imm > 3))) {
        lo_fail(l, -EINVAL, "mma: operands");
        return;
    }
    if (!mma_matrices(l, insn, shape, &proto, &imm)) {
        free(proto.list);
        return;
    }
    if (sparse) {
        imm |= insn->opds[5].imm << (SG_MAT_FLAGS_SHIFT + SG_MAT_SELECTOR_SHIFT);
        proto.list[proto.n_list++] = lo_src(l, &insn->opds[4], PTX_W_b32);
    }
    if (scaled)
        scales_add(l, &proto, insn, sparse ? 6 : 4);
    ir = lo_emit_list(l, SG_OP_MMA, &proto);
    ir->imm = (int64_t)imm;
    ir->x = shape;
}

/* m8n8k4 of halves: four products at once. */
void
lower_mma_quads(struct lower *l, const struct ptx_insn *insn)
{
    static const uint8_t counts[2] = {4, 8}; /* accumulators of f16, f32 */
    struct sg_ir proto, *ir;
    uint64_t flags = 0;
    unsigned order = 0;
    int type[4];

    if (insn->n_opds != 4 || !mma_types(l, insn, type) ||
        opd_count(&insn->opds[0]) != counts[type[0] == SG_MAT_F32] ||
        opd_count(&insn->opds[3]) != counts[type[3] == SG_MAT_F32] ||
        opd_count(&insn->opds[1]) != 2 || opd_count(&insn->opds[2]) != 2) {
        lo_fail(l, -EINVAL, "mma: operands");
        return;
    }
    for (unsigned i = 0; i < insn->n_mods; i++) {
        unsigned w = insn->mods[i];
        if (w != PTX_W_row && w != PTX_W_col)
            continue;
        if (w == PTX_W_col)
            flags |= order ? SG_MAT_B_COL : SG_MAT_A_COL;
        order++;
    }
    if (!lo_list_init(l, &proto, 20))
        return;
    for (int i = 0; i < 4; i++)
        list_add(l, &proto, &insn->opds[i], type[i], i == 0);
    ir = lo_emit_list(l, SG_OP_MMA_QUADS, &proto);
    ir->imm = (int64_t)(flags << SG_MAT_FLAGS_SHIFT);
    for (int i = 0; i < 4; i++)
        ir->imm |= (int64_t)type[i] << (4 * i) | (int64_t)opd_count(&insn->opds[i])
                                                     << (16 + 6 * i);
}

/* An address as one 64-bit register with its displacement added. */
static int32_t
flat_address(struct lower *l, const struct ptx_opd *opd, unsigned space,
             enum sg_mem_space *ret_space)
{
    struct lo_addr addr;
    int32_t base;

    if (!lo_address(l, opd, space, 1, &addr))
        return lo_const(l, SG_D, 0);
    base = lo_address_d(l, &addr);
    *ret_space = addr.space;
    if (addr.imm == 0)
        return base;
    return lo_op(l, SG_OP_ADD_U64, SG_NOREG, base,
                 lo_const(l, SG_D, (uint64_t)addr.imm), SG_NOREG);
}

/* wmma.load.{a,b,c} r, [p], stride and wmma.store.d [p], r, stride */
void
lower_wmma_move(struct lower *l, const struct ptx_insn *insn)
{
    bool store = lo_has(insn, PTX_W_store), col = lo_has(insn, PTX_W_col);
    bool is_a = lo_has(insn, PTX_W_a), is_b = lo_has(insn, PTX_W_b);
    uint32_t shape = mat_shape(insn);
    unsigned m = shape & 0xff, n = shape >> 8 & 0xff, k = shape >> 16;
    unsigned rows = is_b ? k : m, cols = is_a ? k : n;
    int type = lo_mat_type(lo_type(insn, 0));
    const struct ptx_opd *regs = &insn->opds[store ? 1 : 0];
    const struct ptx_opd *where = &insn->opds[store ? 0 : 1];
    enum sg_mem_space space = SG_MEM_GENERIC;
    struct sg_ir proto, *ir;
    int32_t a, b;
    uint64_t flags = SG_MAT_WMMA;

    if (insn->n_opds < 2 || !shape || type < 0 ||
        !count_fits(rows, cols, sg_mat_bits((unsigned)type), opd_count(regs),
                    is_a || is_b)) {
        lo_fail(l, -ENOSYS, "this wmma form is not carried");
        return;
    }
    a = flat_address(l, where, lo_space(insn), &space);
    b = insn->n_opds > 2 ? lo_src(l, &insn->opds[2], PTX_W_u32)
                         : lo_const(l, SG_W, col ? rows : cols);
    if (!lo_list_init(l, &proto, opd_count(regs)))
        return;
    list_add(l, &proto, regs, type, !store);
    flags |=
        (col ? SG_MAT_COL : 0) | (is_a ? SG_MAT_IS_A : 0) | (is_b ? SG_MAT_IS_B : 0);
    ir = lo_emit_list(l, store ? SG_OP_WMMA_ST : SG_OP_WMMA_LD, &proto);
    ir->a = a;
    ir->b = b;
    ir->n = (uint16_t)space;
    ir->x = shape;
    ir->imm = (int64_t)((uint64_t)type | (uint64_t)opd_count(regs) << 16 |
                        flags << SG_MAT_FLAGS_SHIFT);
}

void
lower_ldmatrix(struct lower *l, const struct ptx_insn *insn)
{
    bool store = insn->op == PTX_W_stmatrix;
    const struct ptx_opd *regs = &insn->opds[store ? 1 : 0];
    unsigned n = lo_has(insn, PTX_W_x4) ? 4 : lo_has(insn, PTX_W_x2) ? 2 : 1;
    enum sg_ldm_shape shape = lo_has(insn, PTX_W_m16n16)  ? SG_LDM_M16N16
                              : lo_has(insn, PTX_W_m8n16) ? SG_LDM_M8N16
                              : lo_has(insn, PTX_W_m16n8) ? SG_LDM_M16N8
                                                          : SG_LDM_HALVES;
    unsigned each = shape == SG_LDM_M16N16 ? 2 : 1; /* registers of a matrix */
    struct sg_ir proto, *ir;
    struct lo_addr addr;
    int32_t base;

    if (insn->n_opds != 2 || opd_count(regs) != n * each) {
        lo_fail(l, -EINVAL, "ldmatrix: operands");
        return;
    }
    if (!lo_address(l, &insn->opds[store ? 0 : 1], lo_space(insn), 16, &addr))
        return;
    base = lo_address_d(l, &addr);
    if (!lo_list_init(l, &proto, n * each))
        return;
    list_add(l, &proto, regs, SG_MAT_F32, !store);
    ir = lo_emit_list(l, store ? SG_OP_STMATRIX : SG_OP_LDMATRIX, &proto);
    ir->a = base;
    ir->x = addr.space;
    ir->imm = addr.imm;
    ir->n = (uint16_t)(n | (lo_has(insn, PTX_W_trans) ? SG_LDM_TRANS : 0) |
                       (unsigned)shape << SG_LDM_SHAPE_SHIFT |
                       (lo_has(insn, PTX_W_b6x16_p32) ? SG_LDM_SIX : 0) |
                       (lo_has(insn, PTX_W_b4x16_p64) ? SG_LDM_FOUR : 0));
}

void
lower_movmatrix(struct lower *l, const struct ptx_insn *insn)
{
    int32_t a = lo_src(l, &insn->opds[1], PTX_W_b32), d;
    struct sg_ir *ir;

    d = lo_dst(l, &insn->opds[0], PTX_W_b32);
    ir = lo_emit(l, SG_OP_MOVMATRIX);
    ir->d = d;
    ir->a = a;
}

/* ------------------------------------------------------------------ cp.async */

void
lower_cp_async(struct lower *l, const struct ptx_insn *insn)
{
    enum sg_mem_space space = SG_MEM_SHARED;
    int32_t a, b, c = SG_NOREG;
    struct sg_ir *ir;

    if (insn->n_opds < 3 || insn->opds[2].kind != PTX_OPD_INT ||
        (insn->opds[2].imm != 4 && insn->opds[2].imm != 8 && insn->opds[2].imm != 16)) {
        lo_fail(l, -EINVAL, "cp.async: size must be 4, 8 or 16");
        return;
    }
    a = flat_address(l, &insn->opds[0], PTX_W_shared, &space);
    b = flat_address(l, &insn->opds[1], PTX_W_global, &space);
    if (insn->n_opds > 3 && !lo_has(insn, PTX_W_L2__cache_hint)) {
        const struct ptx_opd *o = &insn->opds[3];
        int32_t v = o->kind == PTX_OPD_REG ? lo_reg(l, o) : SG_NOREG;
        if (v != SG_NOREG && lo_class(l, v) == SG_P) /* ignore-src */
            c = lo_op(l, SG_OP_SELP_W, SG_NOREG, lo_const(l, SG_W, 0),
                      lo_const(l, SG_W, insn->opds[2].imm), lo_src_pred(l, o));
        else
            c = lo_src(l, o, PTX_W_u32);
    }
    ir = lo_emit(l, SG_OP_CPASYNC);
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->n = (uint16_t)insn->opds[2].imm;
}

/* ------------------------------------------------------------------ mbarrier */

void
lo_mbar(struct lower *l, const struct ptx_opd *where, unsigned space, unsigned kind,
        int32_t d, int32_t e, int32_t b, int32_t c)
{
    struct lo_addr addr;
    struct sg_ir *ir;
    int32_t base;

    if (!lo_address(l, where, space, 8, &addr))
        return;
    base = lo_address_d(l, &addr);
    ir = lo_emit(l, SG_OP_MBAR);
    ir->d = d;
    ir->e = e;
    ir->a = base;
    ir->b = b;
    ir->c = c;
    ir->n = (uint16_t)kind;
    ir->x = addr.space;
    ir->imm = addr.imm;
}

/* cp.async.mbarrier.arrive: the copies are done, so this is the arrival. */
void
lower_cp_mbar(struct lower *l, const struct ptx_insn *insn)
{
    if (insn->n_opds != 1) {
        lo_fail(l, -EINVAL, "cp.async.mbarrier.arrive: operands");
        return;
    }
    if (lo_has(insn, PTX_W_noinc))
        lo_mbar(l, &insn->opds[0], lo_space(insn), SG_MBAR_ARRIVE, SG_NOREG, SG_NOREG,
                lo_const(l, SG_D, 1), SG_NOREG);
}

static void
mbar_wait(struct lower *l, const struct ptx_insn *insn)
{
    bool parity = lo_has(insn, PTX_W_parity);
    unsigned kind = parity ? SG_MBAR_WAIT_PARITY : SG_MBAR_WAIT_STATE;
    int32_t b;

    if (insn->n_opds < 3) {
        lo_fail(l, -EINVAL, "mbarrier: operands");
        return;
    }
    b = parity ? lo_widen(l, lo_src(l, &insn->opds[2], PTX_W_u32), SG_D, false)
               : lo_src(l, &insn->opds[2], PTX_W_b64);
    lo_mbar(l, &insn->opds[1], lo_space(insn), kind, SG_NOREG,
            lo_dst_pred(l, &insn->opds[0]), b, SG_NOREG);
}

static void
mbar_arrive(struct lower *l, const struct ptx_insn *insn)
{
    bool drop = lo_has(insn, PTX_W_arrive_drop), tx = lo_has(insn, PTX_W_expect_tx);
    unsigned at = insn->opds[0].kind == PTX_OPD_ADDR ? 0 : 1;
    int32_t d = SG_NOREG, b = lo_const(l, SG_D, 1), c = SG_NOREG;

    if (insn->n_opds < at + 1u) {
        lo_fail(l, -EINVAL, "mbarrier: operands");
        return;
    }
    if (at && insn->opds[0].kind != PTX_OPD_SINK)
        d = lo_dst(l, &insn->opds[0], PTX_W_b64);
    if (insn->n_opds > at + 1u) {
        int32_t v = lo_widen(l, lo_src(l, &insn->opds[at + 1], PTX_W_u32), SG_D, false);
        if (tx)
            c = v;
        else
            b = v;
    }
    lo_mbar(l, &insn->opds[at], lo_space(insn), drop ? SG_MBAR_DROP : SG_MBAR_ARRIVE, d,
            SG_NOREG, b, c);
}

void
lower_mbarrier(struct lower *l, const struct ptx_insn *insn)
{
    int32_t v = SG_NOREG;

    if (lo_has(insn, PTX_W_test_wait) || lo_has(insn, PTX_W_try_wait)) {
        mbar_wait(l, insn);
        return;
    }
    if (lo_has(insn, PTX_W_arrive) || lo_has(insn, PTX_W_arrive_drop)) {
        mbar_arrive(l, insn);
        return;
    }
    if (lo_has(insn, PTX_W_pending_count)) {
        v = lo_op(l, SG_OP_SHR_U64, SG_NOREG, lo_src(l, &insn->opds[1], PTX_W_b64),
                  lo_const(l, SG_W, 20), SG_NOREG);
        v = lo_op(l, SG_OP_LO32, SG_NOREG, v, SG_NOREG, SG_NOREG);
        lo_op(l, SG_OP_AND_W, lo_dst(l, &insn->opds[0], PTX_W_u32), v,
              lo_const(l, SG_W, 0xfffff), SG_NOREG);
        return;
    }
    if (insn->n_opds > 1)
        v = lo_widen(l, lo_src(l, &insn->opds[1], PTX_W_u32), SG_D, false);
    if (lo_has(insn, PTX_W_init))
        lo_mbar(l, &insn->opds[0], lo_space(insn), SG_MBAR_INIT, SG_NOREG, SG_NOREG, v,
                SG_NOREG);
    else if (lo_has(insn, PTX_W_inval))
        lo_mbar(l, &insn->opds[0], lo_space(insn), SG_MBAR_INVAL, SG_NOREG, SG_NOREG,
                SG_NOREG, SG_NOREG);
    else
        lo_mbar(l, &insn->opds[0], lo_space(insn),
                lo_has(insn, PTX_W_expect_tx) ? SG_MBAR_EXPECT_TX : SG_MBAR_COMPLETE_TX,
                SG_NOREG, SG_NOREG, SG_NOREG, v);
}
