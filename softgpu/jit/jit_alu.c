/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of whole warps: exec_alu.def once more, in LLVM's terms.
 *
 * Each case computes what the line of exec_alu.def with its name says, bit for bit; the
 * executor's tests run with both.  Nothing here may trap or be undefined for any
 * operands, because lanes that do not run are computed too.
 */
#include "jit.h"

#include "exec_lane.h"

#include <string.h>

#define B j->b
#define CONST_W(v) jit_splat_int(j->w, (v))
#define CONST_D(v) jit_splat_int(j->d, (v))
#define CONST_F(v) constant_f(j, (v))
#define CONST_G(v) constant_g(j, (v))
#define CMP_I(how, x, y) LLVMBuildICmp(B, LLVMInt##how, (x), (y), "")
#define CMP_F(how, x, y) LLVMBuildFCmp(B, LLVMReal##how, (x), (y), "")
#define SEL(c, x, y) LLVMBuildSelect(B, (c), (x), (y), "")
#define AND(x, y) LLVMBuildAnd(B, (x), (y), "")
#define OR(x, y) LLVMBuildOr(B, (x), (y), "")
#define XOR(x, y) LLVMBuildXor(B, (x), (y), "")
#define NOT(x) LLVMBuildNot(B, (x), "")
#define ADD(x, y) LLVMBuildAdd(B, (x), (y), "")
#define SUB(x, y) LLVMBuildSub(B, (x), (y), "")
#define MUL(x, y) LLVMBuildMul(B, (x), (y), "")
#define SHL(x, y) LLVMBuildShl(B, (x), (y), "")
#define LSHR(x, y) LLVMBuildLShr(B, (x), (y), "")
#define ASHR(x, y) LLVMBuildAShr(B, (x), (y), "")
#define ZEXT(x, t) LLVMBuildZExt(B, (x), (t), "")
#define SEXT(x, t) LLVMBuildSExt(B, (x), (t), "")
#define TRUNC(x, t) LLVMBuildTrunc(B, (x), (t), "")
#define CAST(x, t) LLVMBuildBitCast(B, (x), (t), "")
#define FADD(x, y) LLVMBuildFAdd(B, (x), (y), "")
#define FSUB(x, y) LLVMBuildFSub(B, (x), (y), "")
#define FMUL(x, y) LLVMBuildFMul(B, (x), (y), "")
#define FDIV(x, y) LLVMBuildFDiv(B, (x), (y), "")

typedef LLVMValueRef val;

static val
constant_f(struct jit *j, double v)
{
    val c[JIT_LANES];

    for (int i = 0; i < JIT_LANES; i++)
        c[i] = LLVMConstReal(LLVMGetElementType(j->f), v);
    return LLVMConstVector(c, JIT_LANES);
}

static val
constant_g(struct jit *j, double v)
{
    val c[JIT_LANES];

    for (int i = 0; i < JIT_LANES; i++)
        c[i] = LLVMConstReal(LLVMGetElementType(j->g), v);
    return LLVMConstVector(c, JIT_LANES);
}

/* An intrinsic of @n operands over a type of vectors. */
static val
intrinsic(struct jit *j, const char *name, LLVMTypeRef t, val *in, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    val fn = LLVMGetIntrinsicDeclaration(j->mod, id, &t, 1);

    return LLVMBuildCall2(B, LLVMIntrinsicGetType(j->ctx, id, &t, 1), fn, in, n, "");
}

static val
fma_of(struct jit *j, LLVMTypeRef t, val a, val b, val c)
{
    val in[3] = {a, b, c};

    return intrinsic(j, "llvm.fma", t, in, 3);
}

static val
rounded(struct jit *j, const char *name, val a)
{
    return intrinsic(j, name, j->f, &a, 1);
}

static val
sqrt_of(struct jit *j, LLVMTypeRef t, val a)
{
    return intrinsic(j, "llvm.sqrt", t, &a, 1);
}

/* lane_ftz(): a NaN stays what it is. */
static val
ftz(struct jit *j, val f)
{
    val u = CAST(f, j->w);
    val normal = CMP_I(NE, AND(u, CONST_W(0x7f800000)), CONST_W(0));

    return CAST(SEL(normal, u, AND(u, CONST_W(0x80000000))), j->f);
}

/* lane_sign64(): a NaN becomes quiet and keeps its sign. */
static val
sign64(struct jit *j, val a, val r)
{
    val f = CAST(a, j->g);

    return SEL(CMP_F(UNO, f, f), OR(a, CONST_D(0x0008000000000000ull)), r);
}

/* lane_nan64(): the first operand that is a NaN, made quiet. */
static val
nan64(struct jit *j, val r, val a, val b, val c)
{
    const uint64_t quiet = 0x0008000000000000ull;
    val in[3] = {c, b, a}, nan = CONST_D(0xfff8000000000000ull);

    for (int k = 0; k < 3; k++)
        if (in[k])
            nan = SEL(CMP_F(UNO, in[k], in[k]), OR(CAST(in[k], j->d), CONST_D(quiet)),
                      nan);
    return SEL(CMP_F(UNO, r, r), nan, CAST(r, j->d));
}

/* lane_min32() and the like; two NaN give @nan. */
static val
extreme(struct jit *j, LLVMTypeRef ints, val a, val b, bool max, val nan)
{
    val ua = CAST(a, ints), ub = CAST(b, ints);
    val na = CMP_F(UNO, a, a), nb = CMP_F(UNO, b, b);
    val r = SEL(max ? CMP_F(OGT, a, b) : CMP_F(OLT, a, b), ua, ub);

    r = SEL(CMP_F(OEQ, a, b), max ? AND(ua, ub) : OR(ua, ub), r);
    r = SEL(na, ub, r);
    r = SEL(nb, ua, r);
    return SEL(AND(na, nb), nan, r);
}

static val
f32_to_s32(struct jit *j, val a)
{
    val high = CMP_F(OGE, a, CONST_F(2147483648.0));
    val low = CMP_F(OLT, a, CONST_F(-2147483648.0));
    val out = OR(OR(high, low), CMP_F(UNO, a, a));
    val r = LLVMBuildFPToSI(B, SEL(out, CONST_F(0), a), j->w, "");

    return SEL(low, CONST_W(0x80000000), SEL(high, CONST_W(0x7fffffff), r));
}

static val
f32_to_u32(struct jit *j, val a)
{
    val fits = AND(CMP_F(OGT, a, CONST_F(0)), CMP_F(OLT, a, CONST_F(4294967296.0)));
    val in = SEL(fits, a, CONST_F(0));
    val half = CMP_F(OGE, in, CONST_F(2147483648.0));
    val low = SEL(half, FSUB(in, CONST_F(2147483648.0)), in);
    val r = LLVMBuildFPToSI(B, low, j->w, "");

    r = SEL(half, ADD(r, CONST_W(0x80000000)), r);
    return SEL(CMP_F(OGE, a, CONST_F(4294967296.0)), CONST_W(UINT32_MAX), r);
}

/* lane_f16_f32() */
static val
f16_to_f32(struct jit *j, val h)
{
    val sign = SHL(AND(h, CONST_W(0x8000)), CONST_W(16));
    val mag = AND(h, CONST_W(0x7fff)), up = SHL(mag, CONST_W(13));
    val tiny = FMUL(LLVMBuildSIToFP(B, mag, j->f, ""), CONST_F(0x1p-24));
    val r = SEL(CMP_I(UGE, mag, CONST_W(0x0400)), ADD(up, CONST_W(0x38000000)),
                CAST(tiny, j->w));

    r = SEL(CMP_I(UGE, mag, CONST_W(0x7c00)), OR(up, CONST_W(0x7f800000)), r);
    return SEL(CMP_I(UGT, mag, CONST_W(0x7c00)), CONST_W(0x7fffffff), OR(r, sign));
}

/* lane_ex2(). */
static val
power_of_two(struct jit *j, val a)
{
    val nan = CMP_F(UNO, a, a);
    val x = SEL(CMP_F(OGT, a, CONST_F(200)), CONST_F(200), a), n, f, p, exponent;

    x = SEL(CMP_F(OLT, a, CONST_F(-200)), CONST_F(-200), x);
    x = LLVMBuildFPExt(B, SEL(nan, CONST_F(0), x), j->g, "");
    n = intrinsic(j, "llvm.rint", j->g, &x, 1);
    f = FSUB(x, n);
    p = CONST_G(lane_ex2_series[0]);
    for (size_t k = 1; k < ARRAY_SIZE(lane_ex2_series); k++)
        p = FADD(FMUL(p, f), CONST_G(lane_ex2_series[k]));
    exponent = ADD(LLVMBuildFPToSI(B, n, j->w, ""), CONST_W(1023));
    exponent = SHL(ZEXT(exponent, j->d), CONST_D(52));
    p = LLVMBuildFPTrunc(B, FMUL(p, CAST(exponent, j->g)), j->f, "");
    return SEL(nan, CAST(CONST_W(0x7fffffff), j->f), p);
}

/* lane_f32_f16() and lane_f32_bf16(). */
static val
f32_to_f16(struct jit *j, val f)
{
    val u = CAST(f, j->w), mag = AND(u, CONST_W(0x7fffffff));
    val sign = AND(LSHR(u, CONST_W(16)), CONST_W(0x8000));
    val even = AND(LSHR(mag, CONST_W(13)), CONST_W(1));
    val up = ADD(ADD(mag, CONST_W(0xfff)), even);
    val normal = LSHR(SUB(up, CONST_W(0x38000000)), CONST_W(13));
    val some = CAST(FADD(CAST(mag, j->f), CONST_F(0.5)), j->w);
    val r = SEL(CMP_I(ULT, mag, CONST_W(0x38800000)), SUB(some, CONST_W(0x3f000000)),
                normal);

    r = SEL(CMP_I(UGE, mag, CONST_W(0x47800000)), CONST_W(0x7c00), r);
    return SEL(CMP_I(UGT, mag, CONST_W(0x7f800000)), CONST_W(0x7fff), OR(r, sign));
}

static val
f32_to_bf16(struct jit *j, val u)
{
    val even = AND(LSHR(u, CONST_W(16)), CONST_W(1));
    val r = LSHR(ADD(ADD(u, CONST_W(0x7fff)), even), CONST_W(16));

    return SEL(CMP_I(UGT, AND(u, CONST_W(0x7fffffff)), CONST_W(0x7f800000)),
               CONST_W(0x7fff), r);
}

/* The high half of a product of two numbers that were made 64 bits wide. */
static val
mul_high(struct jit *j, val a, val b)
{
    return TRUNC(LSHR(MUL(a, b), CONST_D(32)), j->w);
}

static val
lop3(struct jit *j, val a, val b, val c, unsigned table)
{
    val r = CONST_W(0);

    for (unsigned k = 0; k < 8; k++) {
        val t = AND(AND(k & 4 ? a : NOT(a), k & 2 ? b : NOT(b)), k & 1 ? c : NOT(c));
        if (table >> k & 1)
            r = OR(r, t);
    }
    return r;
}

/* Shifts by more than the width have results of their own. */
static val
shift_w(struct jit *j, unsigned code, val a, val b)
{
    val far = CMP_I(UGT, b, CONST_W(31)), by = AND(b, CONST_W(31));

    if (code == SG_OP_SHR_S32)
        return ASHR(a, SEL(far, CONST_W(31), b));
    return SEL(far, CONST_W(0), code == SG_OP_SHL_W ? SHL(a, by) : LSHR(a, by));
}

static val
shift_d(struct jit *j, unsigned code, val a, val b)
{
    val far = CMP_I(UGT, b, CONST_W(63)), by = ZEXT(AND(b, CONST_W(63)), j->d);

    if (code == SG_OP_SHR_S64)
        return ASHR(a, ZEXT(SEL(far, CONST_W(63), b), j->d));
    return SEL(far, CONST_D(0), code == SG_OP_SHL_D ? SHL(a, by) : LSHR(a, by));
}

/* %tid, and what is the same for every thread of the block. */
static val
special(struct jit *j, const struct sg_insn *op)
{
    if (op->n <= SG_SREG_TID_Z) {
        val tid = jit_field(j, j->ptr, j->warp,
                            offsetof(struct sg_warp, tid) + op->n * sizeof(void *));
        val v = LLVMBuildLoad2(B, j->w, CAST(tid, LLVMPointerType(j->w, 0)), "");
        LLVMSetAlignment(v, 64);
        return v;
    }
    return jit_splat(j, j->w,
                     jit_field(j, j->i32, j->cta,
                               offsetof(struct sg_cta, dims) +
                                   (op->n - SG_SREG_NTID_X) * sizeof(uint32_t)));
}

static val
param(struct jit *j, const struct sg_insn *op, LLVMTypeRef type)
{
    val launch = jit_field(j, j->ptr, j->cta, offsetof(struct sg_cta, launch));
    val params = jit_field(j, j->ptr, launch, offsetof(struct sg_launch, params));
    val p = jit_pointer(j, type, params, LLVMConstInt(j->i64, (uint64_t)op->imm, 0));
    val v = LLVMBuildLoad2(B, type, p, "");

    LLVMSetAlignment(v, 1);
    return v;
}

#define A_W jit_get_w(j, op->a)
#define B_W jit_get_w(j, op->b)
#define C_W jit_get_w(j, op->c)
#define A_D jit_get_d(j, op->a)
#define B_D jit_get_d(j, op->b)
#define C_D jit_get_d(j, op->c)
#define A_F jit_get_f(j, op->a)
#define B_F jit_get_f(j, op->b)
#define C_F jit_get_f(j, op->c)
#define A_G jit_get_g(j, op->a)
#define B_G jit_get_g(j, op->b)
#define C_G jit_get_g(j, op->c)
#define A_P jit_get_p(j, op->a)
#define B_P jit_get_p(j, op->b)
/* The lengths and positions of fields, as lane_bfe_u32() and its neighbours have them.
 */
static val
low_byte(struct jit *j, val v)
{
    return AND(v, CONST_W(0xff));
}

static val
at_most(struct jit *j, val v, unsigned most)
{
    return SEL(CMP_I(UGT, v, CONST_W(most)), CONST_W(most), v);
}

static val
ones_of(struct jit *j, val len)
{
    val some = SUB(SHL(CONST_W(1), AND(len, CONST_W(31))), CONST_W(1));

    return SEL(CMP_I(UGT, len, CONST_W(31)), CONST_W(UINT32_MAX), some);
}

/* @v shifted by @n, which may be more than 31: then nothing is left. */
static val
shifted(struct jit *j, val v, val n, bool left)
{
    val by = AND(n, CONST_W(31));

    return SEL(CMP_I(UGT, n, CONST_W(31)), CONST_W(0), left ? SHL(v, by) : LSHR(v, by));
}

static val
bfe_unsigned(struct jit *j, val a, val pos, val len)
{
    return AND(shifted(j, a, low_byte(j, pos), false), ones_of(j, low_byte(j, len)));
}

static val
bfe_signed(struct jit *j, val a, val pos, val len)
{
    val at = at_most(j, low_byte(j, pos), 31), room = SUB(CONST_W(32), at);
    val all = low_byte(j, len), n = SEL(CMP_I(UGT, all, room), room, all);
    val up = SHL(a, AND(SUB(room, n), CONST_W(31)));
    val r = ASHR(up, AND(SUB(CONST_W(32), n), CONST_W(31)));

    return SEL(CMP_I(EQ, n, CONST_W(0)), CONST_W(0), r);
}

/* llvm.fshl or llvm.fshr, which take the count modulo 32. */
static val
funnel(struct jit *j, const char *name, val a, val b, val n)
{
    val in[3] = {b, a, n};

    return intrinsic(j, name, j->w, in, 3);
}

static val
unary(struct jit *j, const char *name, val a)
{
    return intrinsic(j, name, j->w, &a, 1);
}

static val
count_zeros(struct jit *j, val a)
{
    val in[2] = {a, LLVMConstInt(LLVMInt1TypeInContext(j->ctx), 0, 0)};

    return intrinsic(j, "llvm.ctlz", j->w, in, 2);
}

static val
permuted(struct jit *j, val a, val b, val c)
{
    val r = CONST_W(0);

    for (unsigned k = 0; k < 4; k++) {
        val sel = LSHR(c, CONST_W(4 * k));
        val from = SEL(CMP_I(NE, AND(sel, CONST_W(4)), CONST_W(0)), b, a);
        val by = SHL(AND(sel, CONST_W(3)), CONST_W(3));
        val byte = AND(LSHR(from, by), CONST_W(0xff));
        val sign = MUL(LSHR(byte, CONST_W(7)), CONST_W(0xff));
        byte = SEL(CMP_I(NE, AND(sel, CONST_W(8)), CONST_W(0)), sign, byte);
        r = OR(r, SHL(byte, CONST_W(8 * k)));
    }
    return r;
}

/* Byte @k of each lane, with its sign or without. */
static val
byte_of(struct jit *j, val v, unsigned k, bool sgn)
{
    val up = SHL(v, CONST_W(24 - 8 * k));

    return sgn ? ASHR(up, CONST_W(24)) : LSHR(up, CONST_W(24));
}

static val
dp4a(struct jit *j, val a, val b, val c, bool sa, bool sb)
{
    for (unsigned k = 0; k < 4; k++)
        c = ADD(c, MUL(byte_of(j, a, k, sa), byte_of(j, b, k, sb)));
    return c;
}

/* lane_quotient_u32() and _s32(). */
static val
quotient(struct jit *j, val a, val b, bool sgn)
{
    val by = SEL(CMP_I(EQ, b, CONST_W(0)), CONST_W(1), b), q;

    if (!sgn)
        return LLVMBuildFPToUI(
            B, FDIV(LLVMBuildUIToFP(B, a, j->g, ""), LLVMBuildUIToFP(B, by, j->g, "")),
            j->w, "");
    q = FDIV(LLVMBuildSIToFP(B, a, j->g, ""), LLVMBuildSIToFP(B, by, j->g, ""));
    return TRUNC(LLVMBuildFPToSI(B, q, j->d, ""), j->w);
}

static val
divided(struct jit *j, val a, val b, bool sgn)
{
    return SEL(CMP_I(EQ, b, CONST_W(0)), CONST_W(UINT32_MAX), quotient(j, a, b, sgn));
}

static val
remainder_of(struct jit *j, val a, val b, bool sgn)
{
    return SUB(a, MUL(quotient(j, a, b, sgn), b));
}

#define W_(name, expr)                                                                 \
    case SG_OP_##name:                                                                 \
        jit_set_w(j, op->d, expr);                                                     \
        return true;
#define D_(name, expr)                                                                 \
    case SG_OP_##name:                                                                 \
        jit_set_d(j, op->d, expr);                                                     \
        return true;
#define F_(name, expr)                                                                 \
    case SG_OP_##name:                                                                 \
        jit_set_f(j, op->d, expr);                                                     \
        return true;
#define P_(name, expr)                                                                 \
    case SG_OP_##name:                                                                 \
        jit_set_p(j, op->d, expr);                                                     \
        return true;

static bool
integers(struct jit *j, const struct sg_insn *op)
{
    switch (op->code) {
        W_(ADD_U32, ADD(A_W, B_W))
        W_(SUB_U32, SUB(A_W, B_W))
        W_(MUL_U32, MUL(A_W, B_W))
        W_(MAD_U32, ADD(MUL(A_W, B_W), C_W))
        W_(MULHI_U32, mul_high(j, ZEXT(A_W, j->d), ZEXT(B_W, j->d)))
        W_(MULHI_S32, mul_high(j, SEXT(A_W, j->d), SEXT(B_W, j->d)))
        D_(MULW_U32, MUL(ZEXT(A_W, j->d), ZEXT(B_W, j->d)))
        D_(MULW_S32, MUL(SEXT(A_W, j->d), SEXT(B_W, j->d)))
        D_(MADW_U32, ADD(MUL(ZEXT(A_W, j->d), ZEXT(B_W, j->d)), C_D))
        D_(MADW_S32, ADD(MUL(SEXT(A_W, j->d), SEXT(B_W, j->d)), C_D))
        W_(AND_W, AND(A_W, B_W))
        W_(OR_W, OR(A_W, B_W))
        W_(XOR_W, XOR(A_W, B_W))
        W_(NOT_W, NOT(A_W))
        W_(CNOT_W, ZEXT(CMP_I(EQ, A_W, CONST_W(0)), j->w))
        W_(SHL_W, shift_w(j, op->code, A_W, B_W))
        W_(SHR_U32, shift_w(j, op->code, A_W, B_W))
        W_(SHR_S32, shift_w(j, op->code, A_W, B_W))
        W_(MIN_U32, SEL(CMP_I(ULT, A_W, B_W), A_W, B_W))
        W_(MAX_U32, SEL(CMP_I(UGT, A_W, B_W), A_W, B_W))
        W_(MIN_S32, SEL(CMP_I(SLT, A_W, B_W), A_W, B_W))
        W_(MAX_S32, SEL(CMP_I(SGT, A_W, B_W), A_W, B_W))
        W_(NEG_S32, SUB(CONST_W(0), A_W))
        W_(ABS_S32, SEL(CMP_I(SLT, A_W, CONST_W(0)), SUB(CONST_W(0), A_W), A_W))
        W_(SX8, ASHR(SHL(A_W, CONST_W(24)), CONST_W(24)))
        W_(SX16, ASHR(SHL(A_W, CONST_W(16)), CONST_W(16)))
        W_(ZX8, AND(A_W, CONST_W(0xff)))
        W_(ZX16, AND(A_W, CONST_W(0xffff)))
        W_(DIV_U32, divided(j, A_W, B_W, false))
        W_(REM_U32, remainder_of(j, A_W, B_W, false))
        W_(DIV_S32, divided(j, A_W, B_W, true))
        W_(REM_S32, remainder_of(j, A_W, B_W, true))
        W_(POPC_W, unary(j, "llvm.ctpop", A_W))
        W_(CLZ_W, count_zeros(j, A_W))
        W_(BREV_W, unary(j, "llvm.bitreverse", A_W))
        W_(BFIND_U32, SUB(CONST_W(31), count_zeros(j, A_W)))
        W_(BFIND_SH_U32,
           SEL(CMP_I(EQ, A_W, CONST_W(0)), CONST_W(UINT32_MAX), count_zeros(j, A_W)))
        W_(BFE_U32, bfe_unsigned(j, A_W, B_W, C_W))
        W_(BFE_S32, bfe_signed(j, A_W, B_W, C_W))
        W_(BFI_MASK_W, shifted(j, ones_of(j, low_byte(j, B_W)), low_byte(j, A_W), true))
        W_(SHF_L, funnel(j, "llvm.fshl", A_W, B_W, C_W))
        W_(SHF_R, funnel(j, "llvm.fshr", A_W, B_W, C_W))
        W_(SHF_L_CLAMP, SEL(CMP_I(UGT, C_W, CONST_W(31)), A_W,
                            funnel(j, "llvm.fshl", A_W, B_W, C_W)))
        W_(SHF_R_CLAMP, SEL(CMP_I(UGT, C_W, CONST_W(31)), B_W,
                            funnel(j, "llvm.fshr", A_W, B_W, C_W)))
        W_(PRMT, permuted(j, A_W, B_W, C_W))
        W_(DP4A_UU, dp4a(j, A_W, B_W, C_W, false, false))
        W_(DP4A_US, dp4a(j, A_W, B_W, C_W, false, true))
        W_(DP4A_SU, dp4a(j, A_W, B_W, C_W, true, false))
        W_(DP4A_SS, dp4a(j, A_W, B_W, C_W, true, true))
        D_(ADD_U64, ADD(A_D, B_D))
        D_(SUB_U64, SUB(A_D, B_D))
        D_(MUL_U64, MUL(A_D, B_D))
        D_(MAD_U64, ADD(MUL(A_D, B_D), C_D))
        D_(AND_D, AND(A_D, B_D))
        D_(OR_D, OR(A_D, B_D))
        D_(XOR_D, XOR(A_D, B_D))
        D_(NOT_D, NOT(A_D))
        D_(CNOT_D, ZEXT(CMP_I(EQ, A_D, CONST_D(0)), j->d))
        D_(SHL_D, shift_d(j, op->code, A_D, B_W))
        D_(SHR_U64, shift_d(j, op->code, A_D, B_W))
        D_(SHR_S64, shift_d(j, op->code, A_D, B_W))
        D_(MIN_U64, SEL(CMP_I(ULT, A_D, B_D), A_D, B_D))
        D_(MAX_U64, SEL(CMP_I(UGT, A_D, B_D), A_D, B_D))
        D_(MIN_S64, SEL(CMP_I(SLT, A_D, B_D), A_D, B_D))
        D_(MAX_S64, SEL(CMP_I(SGT, A_D, B_D), A_D, B_D))
        D_(NEG_S64, SUB(CONST_D(0), A_D))
        D_(ABS_S64, SEL(CMP_I(SLT, A_D, CONST_D(0)), SUB(CONST_D(0), A_D), A_D))
        D_(SX32, SEXT(A_W, j->d))
        D_(ZX32, ZEXT(A_W, j->d))
        W_(LO32, TRUNC(A_D, j->w))
        W_(HI32, TRUNC(LSHR(A_D, CONST_D(32)), j->w))
        D_(PACK64, OR(ZEXT(A_W, j->d), SHL(ZEXT(B_W, j->d), CONST_D(32))))
        W_(PACK32, OR(AND(A_W, CONST_W(0xffff)), SHL(B_W, CONST_W(16))))
        W_(HI16, LSHR(A_W, CONST_W(16)))
        W_(LOP3, lop3(j, A_W, B_W, C_W, op->n))
        W_(SELP_W, SEL(jit_get_lanes(j, op->c), A_W, B_W))
        D_(SELP_D, SEL(jit_get_lanes(j, op->c), A_D, B_D))
        W_(MOV_W, A_W)
        D_(MOV_D, A_D)
        W_(SREG_W, special(j, op))
        W_(LDP_U8, jit_splat(j, j->w, ZEXT(param(j, op, j->i8), j->i32)))
        W_(LDP_S8, jit_splat(j, j->w, SEXT(param(j, op, j->i8), j->i32)))
        W_(LDP_U16, jit_splat(j, j->w, ZEXT(param(j, op, j->i16), j->i32)))
        W_(LDP_S16, jit_splat(j, j->w, SEXT(param(j, op, j->i16), j->i32)))
        W_(LDP_32, jit_splat(j, j->w, param(j, op, j->i32)))
        D_(LDP_64, jit_splat(j, j->d, param(j, op, j->i64)))
    default:
        return false;
    }
}

static bool
floats(struct jit *j, const struct sg_insn *op)
{
    val a, b, c;

    switch (op->code) {
        F_(ADD_F32, FADD(A_F, B_F))
        F_(SUB_F32, FSUB(A_F, B_F))
        F_(MUL_F32, FMUL(A_F, B_F))
        F_(FMA_F32, fma_of(j, j->f, A_F, B_F, C_F))
        F_(DIV_F32, FDIV(A_F, B_F))
        F_(SQRT_F32, sqrt_of(j, j->f, A_F))
        F_(RCP_F32, FDIV(CONST_F(1), A_F))
        F_(ADD_F32_FTZ, ftz(j, FADD(ftz(j, A_F), ftz(j, B_F))))
        F_(SUB_F32_FTZ, ftz(j, FSUB(ftz(j, A_F), ftz(j, B_F))))
        F_(MUL_F32_FTZ, ftz(j, FMUL(ftz(j, A_F), ftz(j, B_F))))
        F_(FMA_F32_FTZ, ftz(j, fma_of(j, j->f, ftz(j, A_F), ftz(j, B_F), ftz(j, C_F))))
        F_(DIV_F32_FTZ, ftz(j, FDIV(ftz(j, A_F), ftz(j, B_F))))
        F_(SQRT_F32_FTZ, sqrt_of(j, j->f, ftz(j, A_F)))
        F_(RCP_F32_FTZ, ftz(j, FDIV(CONST_F(1), ftz(j, A_F))))
        F_(EX2_F32, power_of_two(j, A_F))
        F_(EX2_F32_FTZ, ftz(j, power_of_two(j, ftz(j, A_F))))
        W_(MIN_F32, extreme(j, j->w, A_F, B_F, false, CONST_W(0x7fffffff)))
        W_(MAX_F32, extreme(j, j->w, A_F, B_F, true, CONST_W(0x7fffffff)))
        F_(NEG_F32, LLVMBuildFNeg(B, A_F, ""))
        F_(ABS_F32, CAST(AND(CAST(A_F, j->w), CONST_W(0x7fffffff)), j->f))
    case SG_OP_SAT_F32:
        a = A_F;
        a = SEL(CMP_F(OGT, a, CONST_F(0)), a, CONST_F(0));
        jit_set_w(j, op->d, SEL(CMP_F(OGT, a, CONST_F(1)), CONST_F(1), a));
        return true;
        W_(FTZ_F32, ftz(j, CAST(A_W, j->f)))
        F_(CVT_F32_S32, LLVMBuildSIToFP(B, A_W, j->f, ""))
        F_(CVT_F32_U32, LLVMBuildUIToFP(B, A_W, j->f, ""))
        D_(CVT_F64_S32, LLVMBuildSIToFP(B, A_W, j->g, ""))
        D_(CVT_F64_U32, LLVMBuildUIToFP(B, A_W, j->g, ""))
        D_(CVT_F64_F32, LLVMBuildFPExt(B, CAST(A_W, j->f), j->g, ""))
        W_(CVT_F32_F64, CAST(LLVMBuildFPTrunc(B, A_G, j->f, ""), j->w))
        W_(CVT_S32_F32, f32_to_s32(j, A_F))
        W_(CVT_U32_F32, f32_to_u32(j, A_F))
        W_(CVT_F32_F16, f16_to_f32(j, A_W))
        W_(CVT_F16_F32, f32_to_f16(j, A_F))
        W_(CVT_BF16_F32, f32_to_bf16(j, A_W))
        F_(RINT_F32, rounded(j, "llvm.rint", A_F))
        F_(TRUNC_F32, rounded(j, "llvm.trunc", A_F))
        F_(FLOOR_F32, rounded(j, "llvm.floor", A_F))
        F_(CEIL_F32, rounded(j, "llvm.ceil", A_F))
    case SG_OP_ADD_F64:
        a = A_G, b = B_G;
        jit_set_d(j, op->d, nan64(j, FADD(a, b), b, a, NULL));
        return true;
    case SG_OP_SUB_F64:
        a = A_G, b = B_G;
        jit_set_d(j, op->d, nan64(j, FSUB(a, b), b, a, NULL));
        return true;
    case SG_OP_MUL_F64:
        a = A_G, b = B_G;
        jit_set_d(j, op->d, nan64(j, FMUL(a, b), b, a, NULL));
        return true;
    case SG_OP_DIV_F64:
        a = A_G, b = B_G;
        jit_set_d(j, op->d, nan64(j, FDIV(a, b), a, b, NULL));
        return true;
    case SG_OP_FMA_F64:
        a = A_G, b = B_G, c = C_G;
        jit_set_d(j, op->d, nan64(j, fma_of(j, j->g, a, b, c), b, c, a));
        return true;
    case SG_OP_SQRT_F64:
        a = A_G;
        jit_set_d(j, op->d, nan64(j, sqrt_of(j, j->g, a), a, NULL, NULL));
        return true;
    case SG_OP_RCP_F64:
        a = A_G;
        jit_set_d(j, op->d, nan64(j, FDIV(CONST_G(1), a), a, NULL, NULL));
        return true;
        D_(MIN_F64,
           extreme(j, j->d, A_G, B_G, false, OR(B_D, CONST_D(0x0008000000000000ull))))
        D_(MAX_F64,
           extreme(j, j->d, A_G, B_G, true, OR(B_D, CONST_D(0x0008000000000000ull))))
        D_(NEG_F64, sign64(j, A_D, XOR(A_D, CONST_D(0x8000000000000000ull))))
        D_(ABS_F64, sign64(j, A_D, AND(A_D, CONST_D(0x7fffffffffffffffull))))
    default:
        return false;
    }
}

#define COMPARE_FLOATS(T, X)                                                           \
    P_(SETP_EQ_##T, CMP_F(OEQ, A_##X, B_##X))                                          \
    P_(SETP_NE_##T, CMP_F(ONE, A_##X, B_##X))                                          \
    P_(SETP_LT_##T, CMP_F(OLT, A_##X, B_##X))                                          \
    P_(SETP_LE_##T, CMP_F(OLE, A_##X, B_##X))                                          \
    P_(SETP_GT_##T, CMP_F(OGT, A_##X, B_##X))                                          \
    P_(SETP_GE_##T, CMP_F(OGE, A_##X, B_##X))                                          \
    P_(SETP_EQU_##T, CMP_F(UEQ, A_##X, B_##X))                                         \
    P_(SETP_NEU_##T, CMP_F(UNE, A_##X, B_##X))                                         \
    P_(SETP_LTU_##T, CMP_F(ULT, A_##X, B_##X))                                         \
    P_(SETP_LEU_##T, CMP_F(ULE, A_##X, B_##X))                                         \
    P_(SETP_GTU_##T, CMP_F(UGT, A_##X, B_##X))                                         \
    P_(SETP_GEU_##T, CMP_F(UGE, A_##X, B_##X))                                         \
    P_(SETP_NUM_##T, CMP_F(ORD, A_##X, B_##X))                                         \
    P_(SETP_NAN_##T, CMP_F(UNO, A_##X, B_##X))

static bool
predicates(struct jit *j, const struct sg_insn *op)
{
    switch (op->code) {
        P_(PAND, AND(A_P, B_P))
        P_(POR, OR(A_P, B_P))
        P_(PXOR, XOR(A_P, B_P))
        P_(PNOT, NOT(A_P))
        P_(MOV_P, A_P)
        P_(PSET, LLVMConstInt(j->i32, op->n ? UINT32_MAX : 0, 0))
        P_(SETP_EQ_W, CMP_I(EQ, A_W, B_W))
        P_(SETP_NE_W, CMP_I(NE, A_W, B_W))
        P_(SETP_LT_U32, CMP_I(ULT, A_W, B_W))
        P_(SETP_LE_U32, CMP_I(ULE, A_W, B_W))
        P_(SETP_GT_U32, CMP_I(UGT, A_W, B_W))
        P_(SETP_GE_U32, CMP_I(UGE, A_W, B_W))
        P_(SETP_LT_S32, CMP_I(SLT, A_W, B_W))
        P_(SETP_LE_S32, CMP_I(SLE, A_W, B_W))
        P_(SETP_GT_S32, CMP_I(SGT, A_W, B_W))
        P_(SETP_GE_S32, CMP_I(SGE, A_W, B_W))
        P_(SETP_EQ_D, CMP_I(EQ, A_D, B_D))
        P_(SETP_NE_D, CMP_I(NE, A_D, B_D))
        P_(SETP_LT_U64, CMP_I(ULT, A_D, B_D))
        P_(SETP_LE_U64, CMP_I(ULE, A_D, B_D))
        P_(SETP_GT_U64, CMP_I(UGT, A_D, B_D))
        P_(SETP_GE_U64, CMP_I(UGE, A_D, B_D))
        P_(SETP_LT_S64, CMP_I(SLT, A_D, B_D))
        P_(SETP_LE_S64, CMP_I(SLE, A_D, B_D))
        P_(SETP_GT_S64, CMP_I(SGT, A_D, B_D))
        P_(SETP_GE_S64, CMP_I(SGE, A_D, B_D))
        COMPARE_FLOATS(F32, F)
        COMPARE_FLOATS(F64, G)
    default:
        return false;
    }
}

bool
jit_alu(struct jit *j, const struct sg_insn *op)
{
    return integers(j, op) || floats(j, op) || predicates(j, op);
}

/* All of exec_alu.def, and moves; special registers only as jit_known() says. */
bool
jit_alu_knows(unsigned code)
{
    switch (code) {
    case SG_OP_PAND:
    case SG_OP_POR:
    case SG_OP_PXOR:
    case SG_OP_PNOT:
    case SG_OP_MOV_P:
    case SG_OP_PSET:
    case SG_OP_LOP3:
    case SG_OP_MOV_W:
    case SG_OP_MOV_D:
    case SG_OP_LDP_U8:
    case SG_OP_LDP_S8:
    case SG_OP_LDP_U16:
    case SG_OP_LDP_S16:
    case SG_OP_LDP_32:
    case SG_OP_LDP_64:
        return true;
    default:
        return code >= SG_OP_FIRST_ALU && code < SG_N_OPS;
    }
}
