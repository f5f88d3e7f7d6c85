/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of the video instructions: scalar ones (vadd ... vset, vmad), which take
 * bytes and halves of their operands, and those on two or four lanes of a word.
 *
 * Everything is computed in 64 bits, where no intermediate of theirs overflows, then
 * saturated and put in its place.  No hardware of the last ten years has most of them;
 * code that uses them still exists (GCC emits vadd and vsub), so they must be right,
 * not fast.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

static int32_t
op1(struct lower *l, enum sg_opcode code, int32_t a)
{
    return lo_op(l, code, NONE, a, NONE, NONE);
}

static int32_t
op2(struct lower *l, enum sg_opcode code, int32_t a, int32_t b)
{
    return lo_op(l, code, NONE, a, b, NONE);
}

static int32_t
const_w(struct lower *l, uint32_t value)
{
    return lo_const(l, SG_W, value);
}

static int32_t
const_d(struct lower *l, int64_t value)
{
    return lo_const(l, SG_D, (uint64_t)value);
}

/* The whole word of an operand, whatever part of it is selected. */
static int32_t
word_of(struct lower *l, const struct ptx_opd *opd)
{
    struct ptx_opd plain = *opd;

    plain.flags = 0;
    if (opd->kind == PTX_OPD_REG) {
        plain.comp = PTX_COMP_NONE;
        plain.n = 0;
    }
    return lo_src(l, &plain, PTX_W_b32);
}

/* Lane @index of @bits bits, extended to 64. */
static int32_t
lane_of(struct lower *l, int32_t word, unsigned bits, unsigned index, bool is_signed)
{
    if (index)
        word = op2(l, SG_OP_SHR_U32, word, const_w(l, bits * index));
    if (bits == 8)
        word = op1(l, is_signed ? SG_OP_SX8 : SG_OP_ZX8, word);
    else if (bits == 16)
        word = op1(l, is_signed ? SG_OP_SX16 : SG_OP_ZX16, word);
    return op1(l, is_signed ? SG_OP_SX32 : SG_OP_ZX32, word);
}

/* Which part of a word a component names. */
static void
selected(const struct ptx_opd *opd, unsigned *ret_bits, unsigned *ret_index)
{
    *ret_bits = 32;
    *ret_index = 0;
    if (opd->kind != PTX_OPD_REG)
        return;
    if (opd->comp >= PTX_COMP_B0 && opd->comp <= PTX_COMP_B3) {
        *ret_bits = 8;
        *ret_index = opd->comp - PTX_COMP_B0;
    } else if (opd->comp == PTX_COMP_H0 || opd->comp == PTX_COMP_H1) {
        *ret_bits = 16;
        *ret_index = opd->comp - PTX_COMP_H0;
    }
}

static int32_t
scalar_source(struct lower *l, const struct ptx_opd *opd, unsigned type)
{
    unsigned bits, index;
    int32_t v;

    selected(opd, &bits, &index);
    v = lane_of(l, word_of(l, opd), bits, index, type == PTX_W_s32);
    return opd->flags & PTX_OPF_NEG ? op1(l, SG_OP_NEG_S64, v) : v;
}

static int32_t
compare(struct lower *l, int32_t a, int32_t b)
{
    static const struct {
        uint16_t mod, code;
    } table[] = {
        {PTX_W_eq, SG_OP_SETP_EQ_D},   {PTX_W_ne, SG_OP_SETP_NE_D},
        {PTX_W_lt, SG_OP_SETP_LT_S64}, {PTX_W_le, SG_OP_SETP_LE_S64},
        {PTX_W_gt, SG_OP_SETP_GT_S64}, {PTX_W_ge, SG_OP_SETP_GE_S64},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (lo_has(l->insn, table[i].mod))
            return lo_op(l, SG_OP_SELP_D, NONE, const_d(l, 1), const_d(l, 0),
                         op2(l, (enum sg_opcode)table[i].code, a, b));
    }
    lo_fail(l, -EINVAL, "expected a comparison");
    return a;
}

/* Shift amounts beyond a word: clamped to 32, or taken modulo 32. */
static int32_t
shift(struct lower *l, bool left, int32_t a, int32_t b)
{
    int32_t n = lo_has(l->insn, PTX_W_clamp) ? op2(l, SG_OP_MIN_U64, b, const_d(l, 32))
                                             : op2(l, SG_OP_AND_D, b, const_d(l, 31));

    return op2(l, left ? SG_OP_SHL_D : SG_OP_SHR_S64, a, op1(l, SG_OP_LO32, n));
}

/* The operation itself on two 64-bit values. */
static int32_t
operate(struct lower *l, int32_t a, int32_t b)
{
    switch (l->insn->op) {
    case PTX_W_vadd:
    case PTX_W_vadd2:
    case PTX_W_vadd4:
        return op2(l, SG_OP_ADD_U64, a, b);
    case PTX_W_vsub:
    case PTX_W_vsub2:
    case PTX_W_vsub4:
        return op2(l, SG_OP_SUB_U64, a, b);
    case PTX_W_vabsdiff:
    case PTX_W_vabsdiff2:
    case PTX_W_vabsdiff4:
        return op1(l, SG_OP_ABS_S64, op2(l, SG_OP_SUB_U64, a, b));
    case PTX_W_vavrg2:
    case PTX_W_vavrg4: /* up by one half, but not what is below zero */
        a = op2(l, SG_OP_ADD_U64, a, b);
        b = op2(l, SG_OP_ADD_U64, const_d(l, 1),
                op2(l, SG_OP_SHR_S64, a, const_w(l, 63)));
        return op2(l, SG_OP_SHR_S64, op2(l, SG_OP_ADD_U64, a, b), const_w(l, 1));
    case PTX_W_vmin:
    case PTX_W_vmin2:
    case PTX_W_vmin4:
        return op2(l, SG_OP_MIN_S64, a, b);
    case PTX_W_vmax:
    case PTX_W_vmax2:
    case PTX_W_vmax4:
        return op2(l, SG_OP_MAX_S64, a, b);
    case PTX_W_vshl:
    case PTX_W_vshr:
        return shift(l, l->insn->op == PTX_W_vshl, a, b);
    default:
        return compare(l, a, b);
    }
}

/* Into the range of a type of @bits bits. */
static int32_t
saturate(struct lower *l, int32_t v, unsigned bits, bool is_signed)
{
    int64_t hi = (INT64_C(1) << (bits - is_signed)) - 1;

    v = op2(l, SG_OP_MAX_S64, v, const_d(l, is_signed ? -hi - 1 : 0));
    return op2(l, SG_OP_MIN_S64, v, const_d(l, hi));
}

/* Lane @index of @word becomes the low bits of @lane. */
static int32_t
insert(struct lower *l, int32_t word, int32_t lane, unsigned bits, unsigned index)
{
    uint32_t mask = ((1u << bits) - 1) << bits * index;

    lane = op2(l, SG_OP_SHL_W, lane, const_w(l, bits * index));
    lane = op2(l, SG_OP_AND_W, lane, const_w(l, mask));
    return op2(l, SG_OP_OR_W, lane, op2(l, SG_OP_AND_W, word, const_w(l, ~mask)));
}

static void
store_word(struct lower *l, const struct ptx_opd *opd, int32_t word)
{
    struct ptx_opd plain = *opd;

    if (opd->kind == PTX_OPD_REG) {
        plain.comp = PTX_COMP_NONE;
        plain.n = 0;
        plain.imm = 0;
        plain.flags = 0;
    }
    lo_op(l, SG_OP_MOV_W, lo_dst(l, &plain, PTX_W_b32), word, NONE, NONE);
}

/* The second operation with c, if the instruction has one. */
static int32_t
second(struct lower *l, int32_t word, int32_t c, bool is_signed)
{
    if (lo_has(l->insn, PTX_W_add))
        return op2(l, SG_OP_ADD_U32, word, c);
    if (lo_has(l->insn, PTX_W_min))
        return op2(l, is_signed ? SG_OP_MIN_S32 : SG_OP_MIN_U32, word, c);
    if (lo_has(l->insn, PTX_W_max))
        return op2(l, is_signed ? SG_OP_MAX_S32 : SG_OP_MAX_U32, word, c);
    return NONE;
}

/* d[.part] = a[.part] op b[.part] [, c] */
void
lower_video(struct lower *l, const struct ptx_insn *insn)
{
    bool is_set = insn->op == PTX_W_vset;
    unsigned dtype = is_set ? PTX_W_u32 : lo_type(insn, 0), bits, index;
    int32_t v, c = NONE, word;

    if (insn->n_opds != 3 && insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    if (insn->n_opds == 4)
        c = word_of(l, &insn->opds[3]);
    v = operate(l, scalar_source(l, &insn->opds[1], lo_type(insn, is_set ? 0 : 1)),
                scalar_source(l, &insn->opds[2], lo_type(insn, is_set ? 1 : 2)));
    selected(&insn->opds[0], &bits, &index);
    if (lo_has(insn, PTX_W_sat))
        v = saturate(l, v, bits, dtype == PTX_W_s32);
    word = op1(l, SG_OP_LO32, v);
    if (c != NONE && bits < 32)
        word = insert(l, c, word, bits, index);
    else if (c != NONE)
        word = second(l, word, c, dtype == PTX_W_s32);
    if (word == NONE || (c == NONE && bits < 32)) {
        lo_fail(l, -EINVAL,
                "a third source goes with a second operation or a part of d");
        return;
    }
    store_word(l, &insn->opds[0], word);
}

/* d = a * b + c, one more for .po, then shifted right */
void
lower_vmad(struct lower *l, const struct ptx_insn *insn)
{
    bool is_signed = lo_type(insn, 1) == PTX_W_s32 || lo_type(insn, 2) == PTX_W_s32;
    unsigned by = lo_has(insn, PTX_W_shr7) ? 7 : lo_has(insn, PTX_W_shr15) ? 15 : 0;
    bool negative;
    int32_t v;

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    negative = (insn->opds[1].flags ^ insn->opds[2].flags) & PTX_OPF_NEG;
    if (negative && insn->opds[3].flags & PTX_OPF_NEG) { /* as ptxas says */
        lo_fail(l, -EINVAL, "vmad: either the product or c is negated");
        return;
    }
    for (unsigned i = 1; i < 4; i++)
        is_signed |= (insn->opds[i].flags & PTX_OPF_NEG) != 0;
    v = op2(l, SG_OP_MUL_U64, scalar_source(l, &insn->opds[1], lo_type(insn, 1)),
            scalar_source(l, &insn->opds[2], lo_type(insn, 2)));
    v = op2(l, SG_OP_ADD_U64, v,
            scalar_source(l, &insn->opds[3], is_signed ? PTX_W_s32 : PTX_W_u32));
    if (lo_has(insn, PTX_W_po))
        v = op2(l, SG_OP_ADD_U64, v, const_d(l, 1));
    if (by)
        v = op2(l, is_signed ? SG_OP_SHR_S64 : SG_OP_SHR_U64, v, const_w(l, by));
    if (lo_has(insn, PTX_W_sat)) {
        if (is_signed)
            v = saturate(l, v, 32, lo_type(insn, 0) == PTX_W_s32);
        else
            v = op2(l, SG_OP_MIN_U64, v,
                    const_d(l, lo_type(insn, 0) == PTX_W_s32 ? INT32_MAX : UINT32_MAX));
    }
    store_word(l, &insn->opds[0], op1(l, SG_OP_LO32, v));
}

/* ---- two and four lanes ---- */

struct lanes {
    unsigned count, bits;
    int32_t a, b; /* words */
};

/* Source lane @i of operand @opd: its selector says which of a's and b's lanes. */
static int32_t
simd_source(struct lower *l, const struct lanes *ln, const struct ptx_opd *opd,
            unsigned i, unsigned first, bool is_signed)
{
    unsigned pick = first + i;

    if (opd->kind == PTX_OPD_REG && opd->comp == PTX_COMP_SELECT && opd->n == ln->count)
        pick = (unsigned)(opd->imm >> 4 * i) & 7;
    if (pick < ln->count)
        return lane_of(l, ln->a, ln->bits, pick, is_signed);
    return lane_of(l, ln->b, ln->bits, pick % ln->count, is_signed);
}

/* Is lane @i of the result asked for?  .h1 and .b20 name some of them. */
static bool
simd_wanted(const struct ptx_opd *d, unsigned i)
{
    if (d->kind != PTX_OPD_REG || d->comp == PTX_COMP_NONE)
        return true;
    if (d->comp == PTX_COMP_SELECT) {
        for (unsigned k = 0; k < d->n; k++) {
            if ((d->imm >> 4 * k & 7) == i)
                return true;
        }
        return false;
    }
    return d->comp == (d->comp >= PTX_COMP_H0 ? PTX_COMP_H0 : PTX_COMP_B0) + i;
}

void
lower_video_simd(struct lower *l, const struct ptx_insn *insn)
{
    bool is_set = insn->op == PTX_W_vset2 || insn->op == PTX_W_vset4;
    bool sum = lo_has(insn, PTX_W_add), is_signed;
    struct lanes ln;
    int32_t word;

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    ln.count = insn->op == PTX_W_vadd4 || insn->op == PTX_W_vsub4 ||
                       insn->op == PTX_W_vabsdiff4 || insn->op == PTX_W_vmin4 ||
                       insn->op == PTX_W_vmax4 || insn->op == PTX_W_vset4 ||
                       insn->op == PTX_W_vavrg4
                   ? 4
                   : 2;
    ln.bits = 32 / ln.count;
    ln.a = word_of(l, &insn->opds[1]);
    ln.b = word_of(l, &insn->opds[2]);
    is_signed = !is_set && lo_type(insn, 0) == PTX_W_s32;
    word = word_of(l, &insn->opds[3]);
    for (unsigned i = 0; i < ln.count; i++) {
        int32_t v = operate(l,
                            simd_source(l, &ln, &insn->opds[1], i, 0,
                                        lo_type(insn, is_set ? 0 : 1) == PTX_W_s32),
                            simd_source(l, &ln, &insn->opds[2], i, ln.count,
                                        lo_type(insn, is_set ? 1 : 2) == PTX_W_s32));

        if (!simd_wanted(&insn->opds[0], i))
            continue;
        if (lo_has(insn, PTX_W_sat))
            v = saturate(l, v, ln.bits, is_signed);
        v = op1(l, SG_OP_LO32, v);
        word = sum ? op2(l, SG_OP_ADD_U32, word, v) : insert(l, word, v, ln.bits, i);
    }
    store_word(l, &insn->opds[0], word);
}
