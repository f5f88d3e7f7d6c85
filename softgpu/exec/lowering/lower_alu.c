/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering moves, comparisons, carries and other forms that are more than one
 * operation.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

static int32_t
mov_to(struct lower *l, int32_t d, int32_t a)
{
    enum sg_class cls = lo_class(l, d);

    if (lo_class(l, a) != cls) {
        lo_fail(l, -EINVAL, "operand sizes differ");
        return d;
    }
    return lo_op(l,
                 cls == SG_D   ? SG_OP_MOV_D
                 : cls == SG_P ? SG_OP_MOV_P
                               : SG_OP_MOV_W,
                 d, a, NONE, NONE);
}

/* ---------------------------------------------------------------------- carry */

static int32_t
carry_flag(struct lower *l)
{
    if (l->cc == NONE)
        l->cc = lo_variable(l, SG_P);
    return l->cc;
}

/* d = a + b + carry, or a - b - borrow, and the carry out of it.
 *
 * After a subtraction CC.CF is set where nothing was borrowed, as in a + ~b + 1.  The
 * ISA calls it the borrow, which is the same for chains of one kind.  ptxas mixes them
 * so, and nvcc's division of 128-bit integers relies on it: it reads the end of a chain
 * of subc.cc with addc. */
static void
add_with_carry(struct lower *l, int32_t d, int32_t a, int32_t b, bool wide, bool sub,
               bool in, bool out)
{
    enum sg_opcode op = wide ? (sub ? SG_OP_SUB_U64 : SG_OP_ADD_U64)
                             : (sub ? SG_OP_SUB_U32 : SG_OP_ADD_U32);
    enum sg_opcode lt = wide ? SG_OP_SETP_LT_U64 : SG_OP_SETP_LT_U32;
    enum sg_opcode ge = wide ? SG_OP_SETP_GE_U64 : SG_OP_SETP_GE_U32;
    enum sg_class cls = wide ? SG_D : SG_W;
    int32_t t = lo_op(l, op, NONE, a, b, NONE), c1, c2 = NONE;

    /* carry: the sum is below a; no borrow: a is not below b */
    c1 = sub ? lo_op(l, ge, NONE, a, b, NONE) : lo_op(l, lt, NONE, t, a, NONE);
    if (in) {
        int32_t one = lo_op(l, wide ? SG_OP_SELP_D : SG_OP_SELP_W, NONE,
                            lo_const(l, cls, sub ? 0 : 1),
                            lo_const(l, cls, sub ? 1 : 0), carry_flag(l));
        int32_t u = lo_op(l, op, NONE, t, one, NONE);
        c2 = sub ? lo_op(l, ge, NONE, t, one, NONE) : lo_op(l, lt, NONE, u, t, NONE);
        t = u;
    }
    if (out) {
        if (c2 == NONE)
            lo_op(l, SG_OP_MOV_P, carry_flag(l), c1, NONE, NONE);
        else
            lo_op(l, sub ? SG_OP_PAND : SG_OP_POR, carry_flag(l), c1, c2, NONE);
    }
    mov_to(l, d, t);
}

void
lower_addcc(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool sub = insn->op == PTX_W_sub || insn->op == PTX_W_subc;
    bool in = insn->op == PTX_W_addc || insn->op == PTX_W_subc;
    int32_t a, b;

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    add_with_carry(l, lo_dst(l, &insn->opds[0], type), a, b,
                   lo_type_class(type) == SG_D, sub, in, lo_has(insn, PTX_W_cc));
}

void
lower_madcc(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool wide = lo_type_class(type) == SG_D, sgn = lo_type_signed(type);
    int32_t a, b, c, p;

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    c = lo_src(l, &insn->opds[3], type);
    if (lo_has(insn, PTX_W_lo))
        p = lo_op(l, wide ? SG_OP_MUL_U64 : SG_OP_MUL_U32, NONE, a, b, NONE);
    else if (wide)
        p = lo_call_fn(l, sgn ? SG_FN_mul_hi_s64 : SG_FN_mul_hi_u64, NONE, a, b, NONE);
    else
        p = lo_op(l, sgn ? SG_OP_MULHI_S32 : SG_OP_MULHI_U32, NONE, a, b, NONE);
    add_with_carry(l, lo_dst(l, &insn->opds[0], type), p, c, wide, false,
                   insn->op == PTX_W_madc, lo_has(insn, PTX_W_cc));
}

/* ---------------------------------------------------------------- bits and moves */

void
lower_shift16(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    int32_t a, b, d, t;

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b16);
    b = lo_src(l, &insn->opds[2], PTX_W_u32);
    d = lo_dst(l, &insn->opds[0], PTX_W_b16);
    if (insn->op == PTX_W_shl) {
        t = lo_op(l, SG_OP_SHL_W, NONE, a, b, NONE);
        lo_op(l, SG_OP_ZX16, d, t, NONE, NONE);
    } else if (lo_type_signed(type)) {
        lo_call_fn(l, SG_FN_shr_s16, d, a, b, NONE);
    } else {
        lo_op(l, SG_OP_SHR_U32, d, a, b, NONE);
    }
}

void
lower_bfi(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool wide = lo_type_class(type) == SG_D;
    enum sg_opcode and = wide ? SG_OP_AND_D : SG_OP_AND_W,
                   or = wide ? SG_OP_OR_D : SG_OP_OR_W;
    int32_t a, b, pos, len, mask, t, u;

    if (insn->n_opds != 5) {
        lo_fail(l, -EINVAL, "bfi: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    pos = lo_src(l, &insn->opds[3], PTX_W_u32);
    if (!wide) /* 64 bits take all of the register, see bfe() */
        pos = lo_op(l, SG_OP_ZX8, NONE, pos, NONE, NONE);
    len = lo_src(l, &insn->opds[4], PTX_W_u32);
    mask = wide ? lo_call_fn(l, SG_FN_bfi_mask_b64, NONE, pos, len, NONE)
                : lo_op(l, SG_OP_BFI_MASK_W, NONE, pos, len, NONE);
    t = lo_op(l, wide ? SG_OP_SHL_D : SG_OP_SHL_W, NONE, a, pos, NONE);
    t = lo_op(l, and, NONE, t, mask, NONE);
    u = lo_op(l, wide ? SG_OP_NOT_D : SG_OP_NOT_W, NONE, mask, NONE, NONE);
    u = lo_op(l, and, NONE, b, u, NONE);
    lo_op(l, or, lo_dst(l, &insn->opds[0], type), t, u, NONE);
}

void
lower_lop3(struct lower *l, const struct ptx_insn *insn)
{
    const struct ptx_opd *dst = &insn->opds[0];
    bool boolean = lo_has(insn, PTX_W_and) || lo_has(insn, PTX_W_or);
    struct sg_ir *ir;
    int32_t a, b, c, d, p, q;

    if (insn->n_opds != (boolean ? 6u : 5u) || insn->opds[4].kind != PTX_OPD_INT) {
        lo_fail(l, -EINVAL, "lop3: operands");
        return;
    }
    if (boolean && (dst->kind != PTX_OPD_PAIR || dst->n != 2)) {
        lo_fail(l, -EINVAL, "lop3: expected d|p");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b32);
    b = lo_src(l, &insn->opds[2], PTX_W_b32);
    c = lo_src(l, &insn->opds[3], PTX_W_b32);
    d = lo_dst(l, boolean ? &dst->sub[0] : dst, PTX_W_b32);
    ir = lo_emit(l, SG_OP_LOP3);
    ir->d = d;
    ir->a = a;
    ir->b = b;
    ir->c = c;
    ir->n = insn->opds[4].imm & 0xff;
    if (!boolean)
        return;
    p = lo_op(l, SG_OP_SETP_NE_W, NONE, d, lo_const(l, SG_W, 0), NONE);
    q = lo_src_pred(l, &insn->opds[5]);
    lo_op(l, lo_has(insn, PTX_W_and) ? SG_OP_PAND : SG_OP_POR,
          lo_dst_pred(l, &dst->sub[1]), p, q, NONE);
}

void
lower_logic_pred(struct lower *l, const struct ptx_insn *insn)
{
    enum sg_opcode code = insn->op == PTX_W_and   ? SG_OP_PAND
                          : insn->op == PTX_W_or  ? SG_OP_POR
                          : insn->op == PTX_W_xor ? SG_OP_PXOR
                                                  : SG_OP_PNOT;
    int32_t a, b = NONE;

    if (insn->n_opds != (code == SG_OP_PNOT ? 2u : 3u)) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    a = lo_src_pred(l, &insn->opds[1]);
    if (code != SG_OP_PNOT)
        b = lo_src_pred(l, &insn->opds[2]);
    lo_op(l, code, lo_dst_pred(l, &insn->opds[0]), a, b, NONE);
}

/* {a, b, ...} into one register. */
static void
mov_pack(struct lower *l, const struct ptx_insn *insn, unsigned type)
{
    const struct ptx_opd *v = &insn->opds[1];
    unsigned bits = ptx_type_size(type) * 8 / (v->n ? v->n : 1);
    int32_t d = lo_dst(l, &insn->opds[0], type), s[4], t;

    if ((v->n != 2 && v->n != 4) || bits < 8 || lo_type_class(type) == SG_P) {
        lo_fail(l, -ENOSYS, "mov: this vector is not carried");
        return;
    }
    for (uint32_t i = 0; i < v->n; i++)
        s[i] = lo_src(l, &v->sub[i], bits == 32 ? PTX_W_b32 : PTX_W_b16);
    if (bits == 32) {
        lo_op(l, SG_OP_PACK64, d, s[0], s[1], NONE);
    } else if (bits == 16 && v->n == 2) {
        lo_op(l, SG_OP_PACK32, d, s[0], s[1], NONE);
    } else if (bits == 16) {
        t = lo_op(l, SG_OP_PACK32, NONE, s[0], s[1], NONE);
        lo_op(l, SG_OP_PACK64, d, t, lo_op(l, SG_OP_PACK32, NONE, s[2], s[3], NONE),
              NONE);
    } else { /* bytes into 16 or 32 bits */
        t = lo_op(l, SG_OP_ZX8, NONE, s[0], NONE, NONE);
        for (uint32_t i = 1; i < v->n; i++) {
            int32_t x = lo_op(l, SG_OP_ZX8, NONE, s[i], NONE, NONE);
            x = lo_op(l, SG_OP_SHL_W, NONE, x, lo_const(l, SG_W, 8 * i), NONE);
            t = lo_op(l, SG_OP_OR_W, i + 1 == v->n ? d : NONE, t, x, NONE);
        }
    }
}

/* One register into {a, b, ...}. */
static void
mov_unpack(struct lower *l, const struct ptx_insn *insn, unsigned type)
{
    const struct ptx_opd *v = &insn->opds[0];
    unsigned bits = ptx_type_size(type) * 8 / (v->n ? v->n : 1);
    int32_t a = lo_src(l, &insn->opds[1], type), w[2] = {a, a};

    if ((v->n != 2 && v->n != 4) || bits < 8 || lo_type_class(type) == SG_P) {
        lo_fail(l, -ENOSYS, "mov: this vector is not carried");
        return;
    }
    if (ptx_type_size(type) == 8) {
        w[0] = lo_op(l, SG_OP_LO32, NONE, a, NONE, NONE);
        w[1] = lo_op(l, SG_OP_HI32, NONE, a, NONE, NONE);
    } else if (v->sub[0].kind == PTX_OPD_REG) {
        w[0] = mov_to(l, lo_temp(l, SG_W), a); /* {a, b} = a overwrites its source */
    }
    for (uint32_t i = 0; i < v->n; i++) {
        unsigned at = i * bits % 32;
        int32_t src = w[ptx_type_size(type) == 8 ? i * bits / 32 : 0], d;
        if (v->sub[i].kind == PTX_OPD_SINK)
            continue;
        d = lo_dst(l, &v->sub[i], bits == 32 ? PTX_W_b32 : PTX_W_b16);
        if (bits == 32) {
            lo_op(l, SG_OP_MOV_W, d, src, NONE, NONE);
        } else {
            src = at ? lo_op(l, SG_OP_SHR_U32, NONE, src, lo_const(l, SG_W, at), NONE)
                     : src;
            lo_op(l, bits == 16 ? SG_OP_ZX16 : SG_OP_ZX8, d, src, NONE, NONE);
        }
    }
}

/* {a, b} = {c, d}: all sources are read before the first result is written. */
static void
mov_vector(struct lower *l, const struct ptx_insn *insn, unsigned type)
{
    const struct ptx_opd *to = &insn->opds[0], *from = &insn->opds[1];
    int32_t v[4];

    if (to->kind != PTX_OPD_VEC || from->kind != PTX_OPD_VEC || to->n != from->n ||
        to->n > ARRAY_SIZE(v) || lo_type_class(type) == SG_P) {
        lo_fail(l, -ENOSYS, "mov: this vector is not carried");
        return;
    }
    for (uint32_t i = 0; i < to->n; i++)
        v[i] =
            mov_to(l, lo_temp(l, lo_type_class(type)), lo_src(l, &from->sub[i], type));
    for (uint32_t i = 0; i < to->n; i++)
        if (to->sub[i].kind != PTX_OPD_SINK)
            mov_to(l, lo_dst(l, &to->sub[i], type), v[i]);
}

void
lower_mov(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "mov: operands");
    } else if (lo_has(insn, PTX_W_v2) || lo_has(insn, PTX_W_v4)) {
        mov_vector(l, insn, type);
    } else if (insn->opds[1].kind == PTX_OPD_VEC && insn->opds[0].kind != PTX_OPD_VEC) {
        mov_pack(l, insn, type);
    } else if (insn->opds[0].kind == PTX_OPD_VEC) {
        mov_unpack(l, insn, type);
    } else if (type == PTX_W_pred) {
        int32_t p = lo_src_pred(l, &insn->opds[1]);
        lo_op(l, SG_OP_MOV_P, lo_dst_pred(l, &insn->opds[0]), p, NONE, NONE);
    } else {
        int32_t a = lo_src(l, &insn->opds[1], type);
        mov_to(l, lo_dst(l, &insn->opds[0], type), a);
    }
}

void
lower_selp(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    int32_t a, b, p;

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "selp: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    p = lo_src_pred(l, &insn->opds[3]);
    lo_op(l, lo_type_class(type) == SG_D ? SG_OP_SELP_D : SG_OP_SELP_W,
          lo_dst(l, &insn->opds[0], type), a, b, p);
}

void
lower_slct(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0), ctype = lo_type(insn, 1);
    int32_t a, b, c, p;

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "slct: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    c = lo_src(l, &insn->opds[3], ctype);
    if (ctype != PTX_W_f32 && lo_has(insn, PTX_W_ftz)) {
        lo_fail(l, -EINVAL, "slct.ftz compares f32");
        return;
    }
    if (lo_has(insn, PTX_W_ftz))
        c = lo_op(l, SG_OP_FTZ_F32, NONE, c, NONE, NONE);
    /* zero of either sign selects a, NaN b */
    p = lo_op(l, ctype == PTX_W_f32 ? SG_OP_SETP_GE_F32 : SG_OP_SETP_GE_S32, NONE, c,
              lo_const(l, SG_W, 0), NONE);
    lo_op(l, lo_type_class(type) == SG_D ? SG_OP_SELP_D : SG_OP_SELP_W,
          lo_dst(l, &insn->opds[0], type), a, b, p);
}

/* ---------------------------------------------------------------- comparisons */

enum { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_, N_CMP };

static int
comparison(const struct ptx_insn *insn)
{
    static const struct {
        uint16_t word;
        uint8_t cmp;
    } map[] = {
        {PTX_W_eq, EQ},   {PTX_W_ne, NE},    {PTX_W_lt, LT},   {PTX_W_le, LE},
        {PTX_W_gt, GT},   {PTX_W_ge, GE},    {PTX_W_lo, LT},   {PTX_W_ls, LE},
        {PTX_W_hi, GT},   {PTX_W_hs, GE},    {PTX_W_equ, EQU}, {PTX_W_neu, NEU},
        {PTX_W_ltu, LTU}, {PTX_W_leu, LEU},  {PTX_W_gtu, GTU}, {PTX_W_geu, GEU},
        {PTX_W_num, NUM}, {PTX_W_nan, NAN_},
    };

    for (size_t i = 0; i < ARRAY_SIZE(map); i++)
        if (lo_has(insn, map[i].word))
            return map[i].cmp;
    return EQ;
}

/* Halves are compared as the f32 they are exactly. */
int32_t
lo_half_as_f32(struct lower *l, int32_t v, unsigned type, bool high)
{
    if (high)
        v = lo_op(l, SG_OP_HI16, NONE, v, NONE, NONE);
    else
        v = lo_op(l, SG_OP_ZX16, NONE, v, NONE, NONE);
    if (type == PTX_W_bf16 || type == PTX_W_bf16x2)
        return lo_op(l, SG_OP_SHL_W, NONE, v, lo_const(l, SG_W, 16), NONE);
    return lo_op(l, SG_OP_CVT_F32_F16, NONE, v, NONE, NONE);
}

static bool
is_half(unsigned type)
{
    return type == PTX_W_f16 || type == PTX_W_bf16 || type == PTX_W_f16x2 ||
           type == PTX_W_bf16x2;
}

static int32_t
compare(struct lower *l, unsigned type, int cmp, int32_t d, int32_t a, int32_t b,
        bool high, bool ftz)
{
    bool wide = lo_type_class(type) == SG_D, sgn = lo_type_signed(type);
    int code;

    if (is_half(type)) {
        if (ftz && (type == PTX_W_f16 || type == PTX_W_f16x2)) {
            a = lo_call_fn(l, SG_FN_ftz_f16x2, NONE, a, NONE, NONE);
            b = lo_call_fn(l, SG_FN_ftz_f16x2, NONE, b, NONE, NONE);
        }
        a = lo_half_as_f32(l, a, type, high);
        b = lo_half_as_f32(l, b, type, high);
        code = SG_OP_SETP_EQ_F32 + cmp;
    } else if (type == PTX_W_f32) {
        if (ftz) {
            a = lo_op(l, SG_OP_FTZ_F32, NONE, a, NONE, NONE);
            b = lo_op(l, SG_OP_FTZ_F32, NONE, b, NONE, NONE);
        }
        code = SG_OP_SETP_EQ_F32 + cmp;
    } else if (type == PTX_W_f64) {
        code = SG_OP_SETP_EQ_F64 + cmp;
    } else if (cmp == EQ || cmp == NE) {
        code = (wide ? SG_OP_SETP_EQ_D : SG_OP_SETP_EQ_W) + cmp;
    } else {
        if (sgn && ptx_type_size(type) == 2) {
            a = lo_op(l, SG_OP_SX16, NONE, a, NONE, NONE);
            b = lo_op(l, SG_OP_SX16, NONE, b, NONE, NONE);
        }
        code = (wide ? (sgn ? SG_OP_SETP_LT_S64 : SG_OP_SETP_LT_U64)
                     : (sgn ? SG_OP_SETP_LT_S32 : SG_OP_SETP_LT_U32)) +
               (cmp - LT);
    }
    return lo_op(l, (enum sg_opcode)code, d, a, b, NONE);
}

static int
bool_opcode(const struct ptx_insn *insn)
{
    return lo_has(insn, PTX_W_and)   ? SG_OP_PAND
           : lo_has(insn, PTX_W_or)  ? SG_OP_POR
           : lo_has(insn, PTX_W_xor) ? SG_OP_PXOR
                                     : -1;
}

void
lower_setp(struct lower *l, const struct ptx_insn *insn)
{
    unsigned type = lo_type(insn, 0);
    bool pair = type == PTX_W_f16x2 || type == PTX_W_bf16x2;
    int cmp = comparison(insn), boolean = bool_opcode(insn);
    const struct ptx_opd *dst = &insn->opds[0], *second = NULL;
    bool ftz = lo_has(insn, PTX_W_ftz);
    int32_t a, b, c = NONE, r, q = NONE;

    if (insn->n_opds != (boolean >= 0 ? 4u : 3u)) {
        lo_fail(l, -EINVAL, "setp: operands");
        return;
    }
    if (dst->kind == PTX_OPD_PAIR) {
        second = &dst->sub[1];
        dst = &dst->sub[0];
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    if (boolean >= 0)
        c = lo_src_pred(l, &insn->opds[3]);
    if (boolean < 0 && !second) {
        compare(l, type, cmp, lo_dst_pred(l, dst), a, b, false, ftz);
        return;
    }
    r = compare(l, type, cmp, NONE, a, b, false, ftz);
    if (pair)
        q = compare(l, type, cmp, NONE, a, b, true, ftz);
    else if (second)
        q = lo_op(l, SG_OP_PNOT, NONE, r, NONE, NONE);
    if (boolean >= 0) {
        r = lo_op(l, (enum sg_opcode)boolean, NONE, r, c, NONE);
        if (q != NONE)
            q = lo_op(l, (enum sg_opcode)boolean, NONE, q, c, NONE);
    }
    lo_op(l, SG_OP_MOV_P, lo_dst_pred(l, dst), r, NONE, NONE);
    if (second)
        lo_op(l, SG_OP_MOV_P, lo_dst_pred(l, second), q, NONE, NONE);
}

/* What "true" is in the result type of set. */
static uint32_t
set_true(unsigned dtype)
{
    switch (dtype) {
    case PTX_W_f32:
        return 0x3f800000u;
    case PTX_W_f16:
        return 0x3c00u;
    case PTX_W_bf16:
        return 0x3f80u;
    case PTX_W_f16x2:
        return 0x3c00u;
    case PTX_W_bf16x2:
        return 0x3f80u;
    case PTX_W_u16:
    case PTX_W_s16:
        return 0xffffu;
    default:
        return UINT32_MAX;
    }
}

void
lower_set(struct lower *l, const struct ptx_insn *insn)
{
    unsigned dtype = lo_type(insn, 0), type = lo_type(insn, 1);
    bool pair = type == PTX_W_f16x2 || type == PTX_W_bf16x2;
    int cmp = comparison(insn), boolean = bool_opcode(insn);
    bool ftz = lo_has(insn, PTX_W_ftz);
    uint32_t t = set_true(dtype);
    int32_t a, b, c = NONE, r, q, lo, hi, d;

    if (insn->n_opds != (boolean >= 0 ? 4u : 3u)) {
        lo_fail(l, -EINVAL, "set: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], type);
    b = lo_src(l, &insn->opds[2], type);
    if (boolean >= 0)
        c = lo_src_pred(l, &insn->opds[3]);
    d = lo_dst(l, &insn->opds[0], dtype);
    r = compare(l, type, cmp, NONE, a, b, false, ftz);
    if (boolean >= 0)
        r = lo_op(l, (enum sg_opcode)boolean, NONE, r, c, NONE);
    if (!pair) {
        lo_op(l, SG_OP_SELP_W, d, lo_const(l, SG_W, t), lo_const(l, SG_W, 0), r);
        return;
    }
    t &= 0xffff;
    q = compare(l, type, cmp, NONE, a, b, true, ftz);
    if (boolean >= 0)
        q = lo_op(l, (enum sg_opcode)boolean, NONE, q, c, NONE);
    lo = lo_op(l, SG_OP_SELP_W, NONE, lo_const(l, SG_W, t), lo_const(l, SG_W, 0), r);
    hi = lo_op(l, SG_OP_SELP_W, NONE, lo_const(l, SG_W, t), lo_const(l, SG_W, 0), q);
    lo_op(l, SG_OP_PACK32, d, lo, hi, NONE);
}
